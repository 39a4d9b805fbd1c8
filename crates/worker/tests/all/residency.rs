//! On which NUMA node a worker's tables are, asked of the kernel page by page.

use core::ops::Range;
use std::sync::Arc;
use std::thread;

use flow::residency::Mappings;
use flow::{Seed, WorkerId};
use rules::testing;
use worker::{Worker, WorkerConfig, control_channel, mem};

/// Distance of the pages that are asked about, in octets: at least one page of each huge page.
const STEP: usize = 1 << 20;

/// The node of each asked page of an area by `move_pages(2)`, which moves nothing without target nodes. `None` where
/// the kernel or a filter of system calls denies it.
fn nodes_of_pages(area: &Range<usize>) -> Option<Vec<i32>> {
    let pages: Vec<*const u8> = area
        .clone()
        .step_by(STEP)
        .map(std::ptr::without_provenance)
        .collect();
    let mut status = vec![i32::MIN; pages.len()];
    // SAFETY: both arrays have the announced length; the addresses are only looked up in this process's page tables.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            core::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    (failed == 0).then_some(status)
}

/// Binds the calling thread to the CPU it runs on; the NUMA node of that CPU.
fn bind_here() -> u32 {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    // SAFETY: both numbers may be written; the set is a value of this frame, large enough for any CPU of `getcpu`.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, 0), 0);
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
        assert_eq!(libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, 0), 0);
    }
    node
}

#[test]
fn tables_are_on_the_node_of_the_thread_that_makes_the_worker() {
    thread::spawn(|| {
        let node = bind_here();
        let (_control, end) = control_channel(16, 16);
        let macs = vec![packet::MacAddr::ZERO; 2];
        let network = Arc::new(testing::network());
        let mut config = WorkerConfig::new(WorkerId(0), 1, network, macs, Seed([1, 2]));
        (config.max_flows_v4, config.max_flows_v6, config.own_sessions) = (200_000, 100_000, 10_000);
        let (_wires, mut ios) = mem::Wires::new(1, 2, 8);
        let worker = Worker::new(config, ios.remove(0), end).expect("there is memory");

        let areas = worker.table_areas();
        let octets: usize = areas.iter().map(ExactSizeIterator::len).sum();
        assert!(octets > 20 << 20, "tables of {octets} octets");
        let found = Mappings::read().residency(&areas);
        assert_eq!(found.octets, octets);
        let resident: usize = found.pages.values().sum();
        assert!(resident * 10 >= octets * 9, "{found}");
        if !found.nodes.is_empty() {
            assert!(
                found.off_node(node as u16) * 20 < octets,
                "of node {node}: {found}"
            );
        }

        // Arrays of less than a huge page are the allocator's: not all of their pages are touched yet.
        for area in areas.iter().filter(|area| area.len() >= 2 << 20) {
            match nodes_of_pages(area) {
                Some(nodes) => assert!(
                    nodes.iter().all(|of| *of == node as i32),
                    "of node {node}: {nodes:?}"
                ),
                None => println!("move_pages is denied here: {}", std::io::Error::last_os_error()),
            }
        }
    })
    .join()
    .expect("the worker's thread");
}
