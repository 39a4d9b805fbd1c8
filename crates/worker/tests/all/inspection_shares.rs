//! What one UE may take of the room in which is what flows are for, when others need it.

use std::net::Ipv4Addr;

use flow::SessionIndex;
use packet::tcp::flags::{ACK, SYN};
use rules::SessionChange;
use rules::image::ImmediateActions;
use rules::testing::{N3_ADDRESS, UE, network, tunnelled};
use worker::InspectionLimits;

use crate::common::World;
use crate::common::first_payloads::{client_hello, segment};
use crate::common::one_session::{TEID, of_ue};
use crate::inspection::{VIDEO, rules_with};

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
const FLOODING: Ipv4Addr = Ipv4Addr::new(10, 45, 7, 7);
const FLOODING_TEID: u32 = 0x7007;

struct Case {
    world: World,
}

impl Case {
    fn new(limits: InspectionLimits) -> Self {
        let mut world = World::with(network(), 1, |config| config.inspection = limits);
        world.install(1, rules_with("*.video.example"));
        let mut flooding = rules_with("*.video.example");
        of_ue(&mut flooding, FLOODING_TEID, FLOODING);
        world.install(2, flooding);
        Self { world }
    }

    fn send(&mut self, (teid, ue): (u32, Ipv4Addr), port: u16, (number, flags): (u32, u8), payload: &[u8]) {
        let packet = segment((ue, port), (SERVER, 443), (number, flags), payload);
        let packet = tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], &packet);
        assert_eq!(self.world.send(0, &packet).len(), 1, "it waits for nothing");
    }

    /// A connection to this host begins.
    fn connect(&mut self, ue: (u32, Ipv4Addr), port: u16, host: &str) {
        self.send(ue, port, (0, SYN), &[]);
        self.send(ue, port, (1, ACK), &client_hello(host));
    }

    /// The UE that floods begins as many connections, each to a host of its own that takes four blocks.
    fn flood(&mut self, connections: u16) {
        for number in 0..connections {
            let host = format!("{}{number}.example", "a.".repeat(90));
            self.connect((FLOODING_TEID, FLOODING), 1024 + number, &host);
        }
    }

    /// What the other UE's flows to video have counted.
    fn video(&mut self) -> u64 {
        let usage = self.world.query(0, SessionIndex(1));
        let count = usage.counters.iter().find(|(id, _)| *id == VIDEO);
        count.expect("it counts").1.ul_octets
    }

    /// The rules of the first session change, so that its flows are decided anew, and one sends as many octets.
    fn change_and_send(&mut self, port: u16, payload: usize) {
        let rules = std::sync::Arc::new(rules_with("*.video.example"));
        let image = self.world.image(1, &rules, None).expect("it compiles");
        let change = SessionChange::Replace(image, ImmediateActions::default());
        self.world.apply(0, change).expect("it is there");
        self.send((TEID, UE), port, (1000, ACK), &vec![0x17; payload]);
    }
}

#[test]
fn a_ue_with_ever_new_hosts_pushes_out_its_own() {
    let mut case = Case::new(InspectionLimits {
        records: 1_024,
        hosts: 64,
        ..InspectionLimits::default()
    });
    for port in 1..=5 {
        case.connect((TEID, UE), port, &format!("cdn{port}.video.example"));
    }
    case.flood(2_000);
    let stats = case.world.workers[0].stats().clone();
    assert_eq!((stats.hosts_found, stats.hosts_lost), (2_005, 0), "{stats:?}");
    // A new connection is found, and the old ones are known still.
    let before = case.video();
    case.connect((TEID, UE), 6, "cdn6.video.example");
    let hello = client_hello("cdn6.video.example").len() as u64;
    assert_eq!(case.video() - before, 40 + hello);
    for port in 1..=6 {
        let before = case.video();
        case.change_and_send(port, 100);
        assert_eq!(case.video() - before, 140, "connection {port}");
    }
}

#[test]
fn a_ue_with_ever_new_flows_pushes_out_few_of_others() {
    let mut case = Case::new(InspectionLimits {
        records: 256,
        ..InspectionLimits::default()
    });
    for port in 1..=40 {
        case.connect((TEID, UE), port, &format!("cdn{port}.video.example"));
    }
    case.flood(5_000);
    let mut known = 0;
    for port in 1..=40 {
        let before = case.video();
        case.change_and_send(port, 100);
        known += u64::from(case.video() - before == 140);
    }
    // In 64 sets of four; without a share 5,000 flows push out all of them.
    assert!(known >= 30, "{known}");
}
