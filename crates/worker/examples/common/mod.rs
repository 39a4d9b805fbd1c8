//! Sessions of one worker, and the next hops of their packets, for all examples.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use flow::{AdjacencyId, InstanceId, Nanos, OpId, SessionIndex};
use packet::{MacAddr, Teid};
use rules::Adjacencies;
use rules::SessionRules;
use rules::compile::compile;
use rules::image::SessionChange;
use rules::model::{Edit, FTeid, OuterHeaderCreation, PdiUpdate, PdrId, PdrUpdate, SdfFilter, UeIpAddress};
use rules::network::Network;
use rules::testing::{N3_ADDRESS, pdu_session};
use transport::{Adjacency, AdjacencyChange};
use worker::{Command, ControlEnd, Io, Worker, interface};

/// Next hop n of instance n: 0 is the gNBs' router, 1 the data network's.
struct Hops;

impl Adjacencies for Hops {
    fn resolve(&self, instance: InstanceId, _next_hop: IpAddr) -> Option<AdjacencyId> {
        Some(AdjacencyId(instance.0.into()))
    }
}

/// The ports' addresses.
pub fn macs() -> Vec<MacAddr> {
    (0..4).map(|port| MacAddr([2, 0, 0, 0, 0, port])).collect()
}

/// Sends the next hops' addresses to the worker at the far end of `control`.
pub fn meet_next_hops(control: &mut ControlEnd, network: &Network) {
    let macs = macs();
    for (instance, address) in [(0, [10, 0, 3, 254]), (1, [10, 0, 6, 254])] {
        let home = interface(&network.instances()[instance as usize], &macs);
        let change = AdjacencyChange {
            id: AdjacencyId(instance.into()),
            neighbour: Some((InstanceId(instance), address.into())),
            adjacency: Some(Adjacency::resolved(&home, MacAddr([2, 9, 9, 9, 9, 9]))),
        };
        let command = Command::Adjacency(change);
        control.commands.push(command).expect("there is room");
    }
}

/// The rules of one session: two PDRs, two FARs, a QER, a URR. What comes up matches these SDF filters, if there are
/// any.
pub fn rules_of(session: u32, teid: u32, ue: Ipv4Addr, filters: Option<Vec<SdfFilter>>) -> SessionRules {
    let gnb = Ipv4Addr::from_bits(0x0ac8_0000 + session % 200);
    let mut rules = pdu_session(1, OuterHeaderCreation::gtpu_ipv4(Teid(session + 1), gnb));
    let f_teid = FTeid {
        teid: Teid(teid),
        ipv4: Some(N3_ADDRESS),
        ipv6: None,
    };
    let ue_ip = UeIpAddress {
        ipv4: Some(ue),
        ipv6: None,
        is_destination: true,
    };
    let mut uplink = PdrUpdate::new(PdrId(1));
    uplink.pdi = Some(PdiUpdate {
        f_teid: Edit::Set(f_teid),
        sdf_filters: filters,
        ..PdiUpdate::default()
    });
    let mut downlink = PdrUpdate::new(PdrId(2));
    downlink.pdi = Some(PdiUpdate {
        ue_ip: Some(vec![ue_ip]),
        ..PdiUpdate::default()
    });
    for change in [uplink, downlink] {
        rules.update_pdr(change).expect("it is there");
    }
    rules
}

/// Installs a session.
pub fn install<I: Io>(
    worker: &mut Worker<I>,
    control: &mut ControlEnd,
    network: &Network,
    session: u32,
    rules: SessionRules,
) {
    let mut image = compile(&Arc::new(rules), network, &Hops).expect("it compiles");
    (image.session, image.seid) = (SessionIndex(session), session.into());
    let command = Command::Session {
        op: OpId(session.into()),
        change: SessionChange::Install(Box::new(image)),
    };
    control.commands.push(command).expect("there is room");
    worker.poll(Nanos::ZERO);
    while control.events.pop().is_ok() {}
}
