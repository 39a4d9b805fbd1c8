//! The public addresses of sessions, as control planes ask for them: by Forwarding Policies, and by IEs of the
//! Broadband Forum's (TR-459.2), in the octets of travelping/upg-vpp and travelping/pfcplib.

use crate::support;

use std::net::Ipv4Addr;
use std::sync::Arc;

use pfcp::Message;
use pfcp::group::CreatedNatBinding;
use pfcp::ie::{BbfUpFunctionFeatures, FailedRuleId, FarId};
use rules::model::{ChosenNat, NatChoice, PolicyId};
use rules::network::{ForwardingPolicy, Network, Roles};

use nat::pools::NatPoolId;
use support::fleet::network;
use support::wire::*;
use support::*;

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 9);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 101);

const BBF_APPLY_ACTION: u16 = 0x800f;
const BBF_NAT_PORT_BLOCK: u16 = 0x8012;
const NAT: u8 = 1;

/// A world with two pools that control planes choose, and a policy for the second.
fn world() -> World {
    let network = Network::clone(&network());
    let n6 = network.first_with(Roles::N6).expect("an N6").id;
    let pool = |name: &str, address: Ipv4Addr| {
        let mut bound = rules::testing::public_pool(&network, n6, address..=address);
        (bound.pool.name, bound.scope) = (name.into(), None);
        bound
    };
    let pools = vec![
        pool("testing", OUTSIDE),
        pool("other", Ipv4Addr::new(203, 0, 113, 102)),
    ];
    let policy = ForwardingPolicy {
        name: "gold".into(),
        instance: None,
        next_hop: None,
        dscp: None,
        nat: Some(NatChoice::Pool(NatPoolId(1))),
    };
    let network = network.with_nat(pools).expect("two pools");
    let network = network.with_policies(vec![policy]).expect("a policy");
    let mut world = World::with_network(World::config(2), Arc::new(network));
    world.associate();
    world
}

/// An IE of the Broadband Forum's.
fn bbf(ie_type: u16, value: &[u8]) -> Octets {
    ie(ie_type, [&[0x0d, 0xe9], value].concat())
}

fn asks(action: u8, pool: &[u8]) -> Vec<Octets> {
    vec![bbf(BBF_APPLY_ACTION, &[action]), bbf(BBF_NAT_PORT_BLOCK, pool)]
}

/// The session of [`plain_session`], with these IEs in the Forwarding Parameters towards the data network.
fn session_with(ies: &[Octets]) -> Vec<Octets> {
    let mut session = plain_session(1, UE);
    let parameters = [&[destination_if(CORE)], ies].concat();
    session[4] = create_far(&[far_id(1), apply_action(&[FORW]), forwarding(&parameters)]);
    session
}

fn update_with(ies: &[Octets]) -> Vec<Octets> {
    vec![update_far(&[far_id(1), update_forwarding(ies)])]
}

/// Pool, address and ports of the binding in a response.
fn binding(reply: &Reply) -> Option<(Vec<u8>, Ipv4Addr, u16, u16)> {
    let told = |binding: CreatedNatBinding<'_>| {
        let ports = binding.external_port_range.unwrap();
        (
            binding.port_block.unwrap().0.to_vec(),
            binding.outside_address.unwrap().0,
            ports.first,
            ports.last,
        )
    };
    match reply.message() {
        Message::SessionEstablishmentResponse(response) => response.created_nat_binding.map(told),
        Message::SessionModificationResponse(response) => response.created_nat_binding.map(told),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_binding_is_answered_in_the_octets_that_another_user_plane_sends() {
    let mut world = world();
    let reply = world.ask(50, Some(0), &session_with(&asks(NAT, b"testing")));
    reply.assert_accepted();
    let (name, address, first, last) = binding(&reply).expect("a binding");
    assert_eq!((&name[..], address), (&b"testing"[..], OUTSIDE));
    assert_eq!(last - first, 511);
    // Travelping: Created NAT Binding, of IEs of the Broadband Forum's.
    let octets = [
        &[0x80, 0x0a, 0, 35, 0x48, 0xf9][..],
        &[0x80, 0x12, 0, 9, 0x0d, 0xe9],
        b"testing",
        &[0x80, 0x0e, 0, 6, 0x0d, 0xe9, 203, 0, 113, 101],
        &[0x80, 0x10, 0, 6, 0x0d, 0xe9],
        &first.to_be_bytes(),
        &last.to_be_bytes(),
    ]
    .concat();
    assert!(reply.0.bytes.ends_with(&octets));
    let index = world.only_session().index();
    let block = world.n4.sessions().port_blocks(index)[0];
    assert_eq!((block.address, block.ports()), (OUTSIDE, first..=last));
}

#[test]
fn a_modification_changes_the_pool_and_answers_only_what_is_new() {
    let mut world = world();
    let seid = world.ask(50, Some(0), &session_with(&[])).up_seid();
    let chosen = |world: &World| world.only_session().rules().chosen_nat();
    assert_eq!(chosen(&world), None);
    let mut modify = |ies: &[Octets]| {
        let reply = world.ask(52, Some(seid), &update_with(ies));
        reply.assert_accepted();
        (
            binding(&reply).map(|(name, ..)| name),
            chosen(&world).map(|chosen| chosen.choice),
        )
    };
    let (first, second) = (NatChoice::Pool(NatPoolId(0)), NatChoice::Pool(NatPoolId(1)));
    assert_eq!(
        modify(&asks(NAT, b"testing")),
        (Some(b"testing".to_vec()), Some(first))
    );
    assert_eq!(modify(&asks(NAT, b"testing")), (None, Some(first)));
    assert_eq!(modify(&[destination_if(CORE)]), (None, Some(first)));
    assert_eq!(
        modify(&asks(NAT, b"other")),
        (Some(b"other".to_vec()), Some(second))
    );
    let none = [bbf(BBF_APPLY_ACTION, &[0])];
    assert_eq!(modify(&none), (None, Some(NatChoice::Untranslated)));
    // A null length takes back what the FAR has said.
    assert_eq!(modify(&[ie(BBF_APPLY_ACTION, [])]), (None, None));
    // By a policy, of which the control plane has not asked for an answer.
    let gold = ie(41, [&[4], &b"gold"[..]].concat());
    assert_eq!(modify(&[gold]), (None, Some(second)));
    let expected = ChosenNat {
        far: rules::model::FarId(1),
        policy: Some(PolicyId(0)),
        choice: second,
    };
    assert_eq!(chosen(&world), Some(expected));
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let block = |name: &[u8]| bbf(BBF_NAT_PORT_BLOCK, name);
    let action = |value: &[u8]| bbf(BBF_APPLY_ACTION, value);
    let cases: &[(&[Octets], u8, u16)] = &[
        // The one without the other.
        (&[action(&[NAT])], 67, BBF_NAT_PORT_BLOCK),
        (&[block(b"testing")], 67, BBF_APPLY_ACTION),
        // What is unknown: to the octet.
        (&asks(NAT, b"Testing"), 73, BBF_NAT_PORT_BLOCK),
        (&asks(NAT, b""), 73, BBF_NAT_PORT_BLOCK),
        (&asks(0x03, b"testing"), 73, BBF_APPLY_ACTION),
        // What is cut.
        (&[action(&[]), block(b"testing")], 68, BBF_APPLY_ACTION),
        (
            &[action(&[NAT]), ie(BBF_NAT_PORT_BLOCK, [0x0d])],
            68,
            BBF_NAT_PORT_BLOCK,
        ),
    ];
    let mut world = world();
    for (ies, cause, offending) in cases {
        let reply = world.ask(50, Some(0), &session_with(ies));
        assert_eq!(reply.verdict(), (*cause, Some(*offending)), "{ies:02x?}");
    }
    assert_eq!(world.sessions(), 0);
    let seid = world
        .ask(50, Some(0), &session_with(&asks(NAT, b"testing")))
        .up_seid();
    for (ies, cause, offending) in cases {
        if *offending == BBF_APPLY_ACTION && ies.len() == 1 {
            continue;
        }
        let reply = world.ask(52, Some(seid), &update_with(ies));
        assert_eq!(reply.verdict(), (*cause, Some(*offending)), "{ies:02x?}");
        if *cause == 73 {
            assert_eq!(reply.failed_rule(), Some(FailedRuleId::Far(FarId(1))));
        }
    }
    // An update may name another pool alone.
    for name in [&b"other"[..], b"testing"] {
        let reply = world.ask(52, Some(seid), &update_with(&[block(name)]));
        reply.assert_accepted();
        assert_eq!(binding(&reply).map(|(pool, ..)| pool), Some(name.to_vec()));
    }
    // Another FAR towards the data network, that chooses another pool.
    let gold = ie(41, [&[4], &b"gold"[..]].concat());
    let parameters = [destination_if(CORE), gold];
    let other = create_far(&[far_id(9), apply_action(&[FORW]), forwarding(&parameters)]);
    let reply = world.ask(52, Some(seid), &[other]);
    assert_eq!(reply.verdict(), (73, Some(4)));
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Far(FarId(9))));
    let choice = world
        .only_session()
        .rules()
        .chosen_nat()
        .map(|chosen| chosen.choice);
    assert_eq!(choice, Some(NatChoice::Pool(NatPoolId(0))));
}

/// The numbers are those of one vendor: with another Enterprise ID they mean something else.
#[test]
fn ies_of_other_vendors_with_the_same_numbers_are_passed_over() {
    let foreign = |ie_type, value: &[u8]| ie(ie_type, [&[0x48, 0xf9], value].concat());
    let ies = [
        foreign(BBF_APPLY_ACTION, &[NAT]),
        foreign(BBF_NAT_PORT_BLOCK, b"unheard-of"),
        foreign(BBF_APPLY_ACTION, &[]),
    ];
    let mut world = world();
    let reply = world.ask(50, Some(0), &session_with(&ies));
    reply.assert_accepted();
    assert_eq!(binding(&reply), None);
    let seid = reply.up_seid();
    // Those that are meant follow behind them.
    let both = [&ies[..], &asks(NAT, b"testing")].concat();
    let reply = world.ask(52, Some(seid), &update_with(&both));
    reply.assert_accepted();
    assert!(binding(&reply).is_some());
}

#[test]
fn nat_is_announced_where_there_are_pools() {
    let features = |mut world: World| {
        let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100)]);
        let update = world.ask(7, None, &[node_v4(SMF_ADDRESS)]);
        let octets = [0x80, 0, 0, 6, 0x0d, 0xe9, 0x40, 0, 0, 0];
        let Message::AssociationSetupResponse(setup) = reply.message() else {
            panic!("{:?}", reply.message())
        };
        let Message::AssociationUpdateResponse(update) = update.message() else {
            panic!("{:?}", update.message())
        };
        assert_eq!(setup.bbf_up_function_features, update.bbf_up_function_features);
        assert_eq!(
            reply.0.bytes.windows(10).any(|window| window == octets),
            setup.bbf_up_function_features.is_some()
        );
        setup.bbf_up_function_features
    };
    assert_eq!(features(world()), Some(BbfUpFunctionFeatures::NAT_UP));
    assert_eq!(features(World::new()), None);
}

/// A pool that has nothing left refuses no session; there is no binding to tell of.
#[test]
fn a_session_without_a_block_is_established_without_a_binding() {
    let mut world = world();
    for ue in 0..126 {
        let mut session = session_with(&asks(NAT, b"testing"));
        let ue = Ipv4Addr::new(10, 45, 1, ue);
        session[1] = f_seid(u64::from(ue.octets()[3]) + 1, SMF_ADDRESS.into());
        session[2] = uplink_pdr(1, ue, choose(1, None));
        session[3] = downlink_pdr(2, ue);
        let reply = world.ask(50, Some(0), &session);
        reply.assert_accepted();
        assert!(binding(&reply).is_some());
    }
    let reply = world.ask(50, Some(0), &session_with(&asks(NAT, b"testing")));
    reply.assert_accepted();
    assert_eq!(binding(&reply), None);
}
