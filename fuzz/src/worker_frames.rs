//! Any sequence of frames at a worker with a session. The input is a list of port (1 octet: the upper half says how
//! long the parts of a chained buffer are, in units of 16 octets, 0 for one part), length (1 octet, in units of 8
//! octets) and that number of octets; the first octets of a frame are made to be for us, so that it gets further in.

use std::sync::Arc;

use flow::{Bucket, Nanos, OpId, PortId, Seed, SessionIndex, WorkerId};
use packet::{MacAddr, Teid};
use rules::compile::compile;
use rules::image::SessionChange;
use rules::model::OuterHeaderCreation;
use rules::testing::{self, GNB, NumberedHops};
use worker::mem::{MemBuf, Wires};
use worker::{Command, FragmentLimits, ReassemblyLimits, Worker, WorkerConfig, control_channel};

/// See the module.
pub fn run(input: &[u8]) {
    let network = Arc::new(testing::network());
    let ports = network
        .instances()
        .iter()
        .map(|instance| instance.port.index() + 1)
        .max()
        .unwrap_or(1);
    let macs: Vec<MacAddr> = (0..ports)
        .map(|port| MacAddr([2, 0, 0, 0, 1, port as u8]))
        .collect();
    let mut config = WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), macs.clone(), Seed([1, 2]));
    (config.max_sessions, config.own_sessions) = (16, 16);
    (config.max_flows_v4, config.max_flows_v6, config.max_adjacencies) = (1_024, 1_024, 64);
    (config.fragments, config.reassembly) = (FragmentLimits::default(), ReassemblyLimits::default());
    let (wires, mut ios) = Wires::new(1, ports, 64);
    let (mut control, end) = control_channel(64, 64);
    let mut worker = Worker::new(config, ios.remove(0), end).expect("memory");

    let rules = Arc::new(testing::pdu_session(
        0x1001,
        OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB),
    ));
    let mut image = compile(&rules, &network, &NumberedHops).expect("good rules");
    (image.session, image.seid, image.bucket) = (SessionIndex(1), 1, Bucket::default());
    let change = SessionChange::Install(Box::new(image));
    control
        .commands
        .push(Command::Session { op: OpId(1), change })
        .expect("room");

    let mut now = Nanos(1);
    let mut rest = input;
    while let Some((&[port, length], tail)) = rest.split_first_chunk::<2>() {
        let part = usize::from(port >> 4) * 16;
        let (port, length) = (
            usize::from(port & 15) % ports,
            (usize::from(length) * 8).min(tail.len()),
        );
        let (octets, after) = tail.split_at(length);
        rest = after;
        let mut frame = octets.to_vec();
        if let Some(destination) = frame.get_mut(..6) {
            destination.copy_from_slice(&macs[port].0);
        }
        let buf = if part == 0 {
            MemBuf::new(&frame)
        } else {
            MemBuf::chained(&frame, part)
        };
        let _ = wires.to(WorkerId(0), PortId(port as u16)).push(buf);
        now = Nanos(now.0 + 1_000_000);
        worker.poll(now);
        for port in 0..ports {
            while wires.from(PortId(port as u16)).pop().is_some() {}
        }
        while control.events.pop().is_ok() {}
    }
    assert_eq!(worker.stats().unaccounted(), 0);
}
