//! Octets that no peer should send: nothing panics, nothing leaks, nothing grows without bound.

use crate::support;

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;

use support::wire::*;
use support::*;

/// Good requests of every kind, for mutation.
fn seeds(seid: u64) -> Vec<Octets> {
    let modification = [
        update_far(&[
            far_id(2),
            apply_action(&[BUFF | NOCP]),
            update_forwarding(&[outer_header_creation(5, GNB)]),
        ]),
        update_pdr(&[
            pdr_id(1),
            pdi(&[source_if(ACCESS), sdf("permit out 17 from any to assigned 53")]),
        ]),
        create_pdr(&[
            pdr_id(9),
            precedence(3),
            pdi(&[source_if(ACCESS), choose(V4 | V6, Some(1))]),
            far_id(1),
        ]),
        group(15, &[pdr_id(2)]),
        group(77, &[urr_id(1)]),
    ];
    let pfd = ie(61, b"\x01\x00\x00\x21permit out 6 from any to assigned");
    vec![
        message(1, None, 1, &[recovery(1)]),
        message(3, None, 2, &[group(58, &[ie(24, b"app"), group(59, &[])])]),
        message(3, None, 12, &[group(58, &[ie(24, b"app"), group(59, &[pfd])])]),
        message(7, None, 13, &[node_v4(SMF_ADDRESS), cp_features(4), ie(162, [1])]),
        message(
            5,
            None,
            3,
            &[
                node_v4(SMF_ADDRESS),
                recovery(100),
                cp_features(0xff),
                group(183, &[]),
            ],
        ),
        message(7, None, 4, &[node_name(&labels("smf")), cp_features(3)]),
        message(9, None, 5, &[node_name(&labels("smf"))]),
        message(14, None, 6, &[node_v4(SMF_ADDRESS)]),
        message(50, Some(0), 7, &plain_session(7, UE)),
        message(50, Some(0), 8, &plain_session(8, Ipv4Addr::new(10, 45, 0, 8))),
        message(52, Some(seid), 9, &modification),
        message(54, Some(seid), 10, &[]),
        message(57, Some(seid), 11, &[ie(19, [1])]),
    ]
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Octets),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, value)| Mutation::Set(at, value)),
        1 => any::<prop::sample::Index>().prop_map(Mutation::Cut),
        1 => (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, octets)| Mutation::Insert(at, octets)),
        1 => (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(a, b)| Mutation::Swap(a, b)),
    ]
}

fn mutate(octets: &mut Octets, mutation: &Mutation) {
    if octets.is_empty() {
        return;
    }
    let length = octets.len();
    match mutation {
        Mutation::Set(at, value) => octets[at.index(length)] = *value,
        Mutation::Cut(at) => octets.truncate(at.index(length)),
        Mutation::Insert(at, more) => {
            let at = at.index(length);
            octets.splice(at..at, more.iter().copied());
        }
        Mutation::Swap(a, b) => octets.swap(a.index(length), b.index(length)),
    }
    fix_length(octets);
}

/// Lets the Length field agree, so that the IEs are looked at at all.
fn fix_length(octets: &mut [u8]) {
    if let Ok(length) = u16::try_from(octets.len().saturating_sub(4))
        && let Some(field) = octets.get_mut(2..4)
    {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

/// Ends every session that came to be, and sees that nothing is left.
fn wind_up(world: &mut World) {
    world.pass(Duration::from_secs(5));
    world.associate();
    world.send(smf(), &message(9, None, 0xabcdef, &[node_v4(SMF_ADDRESS)]));
    let left: Vec<u64> = world
        .n4
        .sessions()
        .iter()
        .map(|session| session.seid().0)
        .collect();
    for (number, seid) in left.into_iter().enumerate() {
        world.send(smf(), &message(54, Some(seid), 0xa00000 + number as u32, &[]));
    }
    world.assert_clean();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_octets(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let mut world = World::associated();
        for datagram in &datagrams {
            world.send(smf(), datagram);
        }
        wind_up(&mut world);
    }

    #[test]
    fn random_ies_behind_a_good_header(
        message_type in prop::sample::select(vec![1u8, 3, 5, 7, 9, 14, 16, 50, 52, 54, 57]),
        ies in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12),
    ) {
        let mut world = World::associated();
        let seid = world.establish(1, UE);
        let ies: Vec<Octets> = ies.iter().map(|(ie_type, value)| ie(ie_type % 330, value)).collect();
        let seid = (message_type >= 50).then_some(seid);
        world.send(smf(), &message(message_type, seid, 99, &ies));
        wind_up(&mut world);
    }

    #[test]
    fn mutated_requests(
        picks in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(mutation(), 0..4)), 1..24,
        ),
    ) {
        let mut world = World::associated();
        let seid = world.establish(1, UE);
        for (number, (pick, mutations)) in picks.iter().enumerate() {
            let all = seeds(seid);
            let mut datagram = all[pick.index(all.len())].clone();
            let sequence = if datagram[0] & 1 == 0 { 4 } else { 12 };
            datagram[sequence + 1] = number as u8;
            mutations.iter().for_each(|mutation| mutate(&mut datagram, mutation));
            for reply in world.send(smf(), &datagram) {
                prop_assert!(reply.cause().is_none_or(|cause| cause.value() != 0));
            }
        }
        prop_assert!(world.sessions() <= 1 + picks.len());
        wind_up(&mut world);
    }
}

#[test]
fn every_cut_of_every_request_is_survived() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    for datagram in seeds(seid) {
        for cut in 0..datagram.len() {
            let mut short = datagram[..cut].to_vec();
            world.send(smf(), &short);
            fix_length(&mut short);
            world.send(smf(), &short);
        }
    }
    wind_up(&mut world);
}

#[test]
fn a_flood_of_unknown_peers_leaves_no_memory() {
    let mut world = World::new();
    for port in 1..2000u16 {
        let from =
            std::net::SocketAddr::new(Ipv4Addr::new(172, 16, (port >> 8) as u8, port as u8).into(), port);
        world.send(from, &message(50, Some(0), 1, &plain_session(1, UE)));
        world.send(from, &message(54, Some(1), 2, &[]));
    }
    assert_eq!(world.n4.response_cache(), (0, 0));
    assert_eq!(world.n4.outstanding(), (0, 0));
    world.assert_clean();
}
