use packet::MacAddr;

use super::super::{NeighbourMessage, NeighbourState, Neighbours, NeighboursConfig};
use super::*;
use crate::AdjacencyChange;

const N6: InstanceId = InstanceId(1);
const PORT: PortId = PortId(0);
const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
/// Offsets in a frame over IPv6.
const TYPE: usize = 14 + 40;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

fn ours() -> IpAddr {
    "2001:db8::1".parse().expect("an address")
}

fn ours_v4() -> IpAddr {
    IpAddr::from([192, 0, 2, 1])
}

fn peer() -> IpAddr {
    "2001:db8::9".parse().expect("an address")
}

const fn at(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn table(dad_transmits: u8) -> Neighbours {
    let interface = Interface {
        instance: N6,
        port: PORT,
        vlan: None,
        mac: OUR_MAC,
        ipv4: Some([192, 0, 2, 1].into()),
        broadcast: None,
        ipv6: Some("2001:db8::1".parse().expect("an address")),
        mtu: 1500,
        fragmentation: rules::network::Fragmentation::Inner,
        tunnels: false,
    };
    let config = NeighboursConfig {
        dad_transmits,
        ..NeighboursConfig::default()
    };
    Neighbours::new(config, vec![interface])
}

/// The types of the ICMPv6 messages that are sent at `now`; 0 is ARP.
fn sent(table: &mut Neighbours, now: Nanos) -> Vec<u8> {
    table.handle_timeout(now);
    let frames = std::iter::from_fn(|| table.poll_transmit());
    let kind = |frame: Transmit| match frame.bytes[12..14] {
        [8, 6] => 0,
        _ => frame.bytes[TYPE],
    };
    frames.map(kind).collect()
}

fn events(table: &mut Neighbours) -> Vec<(IpAddr, OwnAddressState, Option<MacAddr>)> {
    let events = std::iter::from_fn(|| table.poll_own_address());
    events
        .map(|event| (event.address, event.state, event.claimant))
        .collect()
}

fn state(table: &Neighbours) -> OwnAddressState {
    let mut own = table.own_addresses();
    own.find(|own| own.address == ours()).expect("it has one").state
}

#[test]
fn an_address_is_tentative_for_retrans_timer_and_then_preferred() {
    let mut table = table(1);
    assert_eq!(table.poll_timeout(), Some(Nanos::ZERO));
    assert_eq!(
        events(&mut table),
        [(ours(), OwnAddressState::Tentative, None)],
        "the IPv4 address is in use from the start"
    );
    assert_eq!(sent(&mut table, at(0)), [SOLICITATION]);
    assert_eq!(table.poll_timeout(), Some(at(1_000)));
    assert_eq!(sent(&mut table, at(999)), []);
    assert_eq!(state(&table), OwnAddressState::Tentative);
    assert_eq!(sent(&mut table, at(1_000)), [ADVERTISEMENT]);
    assert_eq!(events(&mut table), [(ours(), OwnAddressState::Preferred, None)]);
    assert_eq!(table.poll_timeout(), None);
}

#[test]
fn as_many_probes_are_sent_as_configured() {
    let mut several = table(3);
    for probe in 0..3 {
        assert_eq!(sent(&mut several, at(1_000 * probe)), [SOLICITATION]);
        assert_eq!(state(&several), OwnAddressState::Tentative);
    }
    assert_eq!(sent(&mut several, at(3_000)), [ADVERTISEMENT]);
    assert_eq!(state(&several), OwnAddressState::Preferred);
    // None turns the detection off.
    let mut none = table(0);
    assert_eq!(events(&mut none), []);
    assert_eq!((sent(&mut none, at(0)), none.poll_timeout()), (vec![], None));
    assert_eq!(state(&none), OwnAddressState::Preferred);
    none.announce();
    assert_eq!(sent(&mut none, at(0)), [0, ADVERTISEMENT]);
}

#[test]
fn a_claim_makes_a_tentative_address_a_duplicate() {
    let mut table = table(1);
    sent(&mut table, at(0));
    events(&mut table);
    table.handle_message(at(500), N6, ours(), OTHER, NeighbourMessage::Claim);
    assert_eq!(
        events(&mut table),
        [(ours(), OwnAddressState::Duplicate, Some(OTHER))]
    );
    table.handle_message(at(501), N6, ours(), OTHER, NeighbourMessage::Claim);
    assert_eq!(events(&mut table), [], "it is reported once");
    assert_eq!(sent(&mut table, at(60_000)), []);
    assert_eq!(
        (state(&table), table.poll_timeout()),
        (OwnAddressState::Duplicate, None)
    );
    let claims: Vec<_> = table.own_addresses().map(|own| own.conflicts).collect();
    assert_eq!(claims, [0, 2]);
    table.announce();
    assert_eq!(
        sent(&mut table, at(60_000)),
        [0],
        "only the address in use is announced"
    );
}

#[test]
fn a_link_that_comes_up_starts_the_verification_anew() {
    for is_duplicate in [false, true] {
        let mut table = table(1);
        sent(&mut table, at(0));
        if is_duplicate {
            table.handle_message(at(1), N6, ours(), OTHER, NeighbourMessage::Claim);
        }
        sent(&mut table, at(1_000));
        events(&mut table);
        table.set_link(at(5_000), PORT, false);
        table.handle_message(at(5_001), N6, ours(), OTHER, NeighbourMessage::Claim);
        assert_eq!(
            (sent(&mut table, at(6_000)), events(&mut table)),
            (vec![], vec![])
        );
        table.set_link(at(7_000), PORT, true);
        assert_eq!(events(&mut table), [(ours(), OwnAddressState::Tentative, None)]);
        assert_eq!(sent(&mut table, at(7_000)), [0, SOLICITATION]);
        assert_eq!(sent(&mut table, at(8_000)), [ADVERTISEMENT]);
        assert_eq!(state(&table), OwnAddressState::Preferred);
    }
    // A link that goes down during the verification.
    let mut table = table(1);
    sent(&mut table, at(0));
    table.set_link(at(500), PORT, false);
    assert_eq!(sent(&mut table, at(10_000)), []);
    assert_eq!(state(&table), OwnAddressState::Tentative);
}

#[test]
fn a_preferred_address_is_defended_every_ten_seconds_at_most() {
    let mut table = table(1);
    sent(&mut table, at(0));
    sent(&mut table, at(1_000));
    events(&mut table);
    for (address, announcement) in [(ours(), ADVERTISEMENT), (ours_v4(), 0)] {
        for second in 20..40 {
            table.handle_message(at(1_000 * second), N6, address, OTHER, NeighbourMessage::Claim);
            let is_due = second % 10 == 0;
            assert_eq!(
                sent(&mut table, at(1_000 * second)),
                vec![announcement; usize::from(is_due)]
            );
            let event = (address, OwnAddressState::Preferred, Some(OTHER));
            assert_eq!(events(&mut table), vec![event; usize::from(is_due)]);
        }
    }
    assert!(table.own_addresses().all(|own| own.conflicts == 20));
    assert_eq!(state(&table), OwnAddressState::Preferred);
}

#[test]
fn a_claim_of_another_address_changes_nothing() {
    let mut table = table(1);
    table.handle_message(at(0), N6, peer(), OTHER, NeighbourMessage::Claim);
    table.handle_message(at(0), InstanceId(0), ours(), OTHER, NeighbourMessage::Claim);
    assert!(table.own_addresses().all(|own| own.conflicts == 0));
    assert!(table.is_empty());
}

fn last_change(table: &mut Neighbours) -> Option<AdjacencyChange> {
    std::iter::from_fn(|| table.poll_change()).last()
}

fn is_reachable(change: Option<AdjacencyChange>) -> bool {
    change.is_some_and(|change| change.adjacency.is_some_and(|way| way.is_resolved()))
}

#[test]
fn neighbours_over_ipv6_wait_for_the_own_address() {
    let mut table = table(1);
    let id = table.pin(at(0), N6, peer()).expect("there is room");
    let fixed = table
        .add_static(N6, "2001:db8::8".parse().expect("an address"), PEER)
        .expect("there is room");
    assert!(!table.is_resolved(id) && !table.is_resolved(fixed));
    assert!(!is_reachable(last_change(&mut table)));
    assert_eq!(sent(&mut table, at(0)), [SOLICITATION], "the probe alone");
    let shown = table.view(at(0), N6, peer()).expect("an entry");
    assert_eq!(shown.state, NeighbourState::NoSource);
    // The address is announced, and the neighbour asked for.
    assert_eq!(sent(&mut table, at(1_000)), [ADVERTISEMENT, SOLICITATION]);
    assert!(table.is_resolved(fixed) && is_reachable(last_change(&mut table)));
    table.handle_message(at(1_000), N6, peer(), PEER, NeighbourMessage::Reply);
    assert!(table.is_resolved(id) && is_reachable(last_change(&mut table)));
    // The link flaps, and another station has taken the address.
    table.set_link(at(2_000), PORT, false);
    table.set_link(at(2_001), PORT, true);
    assert!(!table.is_resolved(id) && !is_reachable(last_change(&mut table)));
    table.handle_message(at(2_002), N6, ours(), OTHER, NeighbourMessage::Claim);
    for second in 3..100 {
        let frames = sent(&mut table, at(1_000 * second));
        assert!(!frames.contains(&SOLICITATION), "{second}: {frames:?}");
    }
    assert!(!table.is_resolved(id) && !table.is_resolved(fixed));
    // Over IPv4 neighbours are asked for all the same.
    table
        .resolve(at(100_000), N6, IpAddr::from([192, 0, 2, 9]))
        .expect("there is room");
    assert_eq!(sent(&mut table, at(100_000)), [0]);
}
