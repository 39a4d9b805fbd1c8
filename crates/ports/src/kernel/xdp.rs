//! Which XDP program is on an interface, putting another in its place, and taking one off that a process left behind.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;

use super::netlink::{Request, Socket, find, flags};

/// Messages and attributes of links (`linux/rtnetlink.h`, `linux/if_link.h`).
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
/// Octets before a link's attributes.
const BODY: usize = 16;
const XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_FLAGS: u16 = 3;
const XDP_PROGRAM: u16 = 4;
/// By where a program runs: in the driver, in the stack, in hardware. The attribute that has its number, and the flag
/// that means it.
const PLACES: [(u16, u32); 3] = [(5, 4), (6, 2), (7, 8)];

/// The number of the XDP program on an interface; `None` where there is none.
///
/// # Errors
/// The kernel's, when there is no such interface.
pub fn program(interface: &str) -> io::Result<Option<u32>> {
    Ok(programs(interface)?.map(|(program, _)| program))
}

/// Takes the program with this number off an interface. False where it has none, or another: that stays.
///
/// # Errors
/// The kernel's.
pub fn detach(interface: &str, wanted: u32) -> io::Result<bool> {
    let Some((program, place)) = programs(interface)? else {
        return Ok(false);
    };
    if program != wanted {
        return Ok(false);
    }
    set(interface, -1, place)?;
    Ok(true)
}

/// Puts a program in the place of the one on an interface, where that runs. Packets are received by the one or by the
/// other.
///
/// # Errors
/// The kernel's.
pub fn replace(interface: &str, program: BorrowedFd<'_>) -> io::Result<()> {
    let place = programs(interface)?.map_or(0, |(_, place)| place);
    set(interface, program.as_raw_fd(), place)
}

/// Puts a program, or none (-1), on an interface.
fn set(interface: &str, program: i32, place: u32) -> io::Result<()> {
    let request = Request::default()
        .message(SET_LINK, flags::ACK, 1, &body(interface)?)
        .nested(XDP, |xdp| {
            xdp.attribute(XDP_FD, &program.to_ne_bytes())
                .attribute(XDP_FLAGS, &place.to_ne_bytes())
        });
    Socket::open(SockProtocol::NetlinkRoute)?
        .ask(&request, 1)
        .map(drop)
}

/// The program, and the flag of the place where it runs.
fn programs(interface: &str) -> io::Result<Option<(u32, u32)>> {
    let request = Request::default().message(GET_LINK, flags::ACK, 1, &body(interface)?);
    let answers = Socket::open(SockProtocol::NetlinkRoute)?.ask(&request, 1)?;
    let Some(xdp) = answers.first().and_then(|link| link.attribute(BODY, XDP)) else {
        return Ok(None);
    };
    let number = |attribute| {
        find(xdp, attribute)?
            .first_chunk()
            .map(|octets| u32::from_ne_bytes(*octets))
    };
    let in_its_place = PLACES
        .iter()
        .find_map(|&(attribute, flag)| Some((number(attribute)?, flag)));
    Ok(in_its_place.or_else(|| Some((number(XDP_PROGRAM)?, 0))))
}

fn body(interface: &str) -> io::Result<[u8; BODY]> {
    let mut body = [0; BODY];
    body[4..8].copy_from_slice(&if_nametoindex(interface)?.to_ne_bytes());
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use dpdk::testing::{Kernel, eal, own_veth, run};
    use dpdk::{
        Burst, FilterInstruction, Mempool, PoolConfig, Port, PortConfig, PortSpec, RxQueue, TxQueue,
        UrgentQueues,
    };

    use super::super::PROCESSES;
    use super::*;

    /// Does what starts a process while no other test minds that there is one.
    fn alone<T>(starting: impl FnOnce() -> T) -> T {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        starting()
    }

    fn step(code: u16, jf: u8, k: u32) -> FilterInstruction {
        FilterInstruction { code, jt: 0, jf, k }
    }

    /// The octets behind the EtherTypes of frames that wait at a queue, of those that were sent here.
    fn received(queue: &mut RxQueue) -> Vec<u8> {
        let (mut firsts, mut burst) = (Vec::new(), Burst::new());
        while queue.rx_burst(&mut burst) > 0 {
            let ours = burst
                .drain()
                .filter(|mbuf| mbuf.data()[6..12] == [2, 0, 0, 0, 0, 2]);
            firsts.extend(ours.map(|mbuf| mbuf.data()[14]));
        }
        firsts
    }

    fn port(interface: &str, pool: &Mempool) -> (Port, RxQueue, TxQueue) {
        let spec = PortSpec::AfXdp {
            interface: interface.into(),
            start_queue: 0,
            queues: 1,
            force_copy: true,
        };
        let mut port = Port::open(eal(), &spec).unwrap();
        let config = PortConfig {
            urgent_queues: true,
            ..PortConfig::new(1, pool)
        };
        let mut queues = port.start(&config).unwrap();
        (port, queues.rx.remove(0), queues.tx.remove(0))
    }

    /// The driver's program is replaced, ordinary frames come to the driver's socket however many there are, those that
    /// are chosen beside it, and nothing is left on the interface. Only root can do that.
    #[test]
    fn chosen_frames_come_beside_the_others_by_a_program_in_place_of_the_drivers() {
        if !alone(own_veth) {
            println!("not run: only root can make a network");
            return;
        }
        let pool = Mempool::new(eal(), PoolConfig::with_buffers(8_000)).unwrap();
        let (port, mut rx, tx) = port("port0", &pool);
        assert_eq!(port.urgent_queues(), UrgentQueues::Waiting);
        let drivers = program("port0").unwrap().unwrap();
        replace("port0", port.xdp_program().unwrap()).unwrap();
        let ours = program("port0").unwrap().unwrap();
        assert_ne!(ours, drivers);
        let peer = Kernel::listen("host0").unwrap();
        let send = |kind: u16, number: u8| {
            let mut frame = vec![255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2];
            frame.extend(kind.to_be_bytes());
            frame.push(number);
            frame.resize(64, 0);
            peer.send(&frame).unwrap();
        };
        // Without a program that chooses all come to the driver's socket.
        for kind in [0x0806, 0x88b5] {
            send(kind, 1);
        }
        assert_eq!(received(&mut rx), [1, 1]);
        // ARP.
        let chooses = [
            step(0x28, 0, 0xffff_f000),
            step(0x15, 1, 0x0806),
            step(0x06, 0, 1),
            step(0x06, 0, 0),
        ];
        let mut urgent = rx
            .choose_queues(&chooses, true)
            .unwrap()
            .expect("a queue beside it");
        assert_eq!(port.urgent_queues(), UrgentQueues::Sorted);
        for _ in 0..50 {
            (0..100).for_each(|number| send(0x88b5, number));
            send(0x0806, 7);
        }
        let usual = received(&mut rx);
        assert!((100..5_000).contains(&usual.len()), "{} found room", usual.len());
        assert_eq!(received(&mut urgent), [7; 50]);
        assert!(port.stats().unwrap().rx_packets >= 2 + 50 + usual.len() as u64);
        // It stays the same when another program chooses.
        assert_eq!(program("port0").unwrap(), Some(ours));
        drop((urgent, rx, tx, port));
        assert_eq!(program("port0").unwrap(), None);
        alone(|| run("ip link del port0"));
    }
}
