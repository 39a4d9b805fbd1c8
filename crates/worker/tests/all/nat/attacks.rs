//! What UEs, hosts of data networks and plain bad luck could do to public addresses, and cannot.

use flow::{Bounds, CounterLimit, LimitAction, Volumes, WorkerId};
use rules::model::{
    AccessAction, AccessList, AccessRule, DestinationInterface, Edit, FarId, ForwardingParameters, SdfFilter,
    UrrId, UrrTermsUpdate, UrrUpdate,
};
use rules::network::{BoundAccessList, Hairpin};
use transport::{Neighbours, NeighboursConfig};
use worker::mem::MemBuf;
use worker::{InterfaceSettings, NetworkTables};

use super::*;

const TIMESTAMP: u8 = 13;

fn refresh(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn other_session(ue: Ipv4Addr) -> SessionRules {
    let mut other = translated(session());
    of_ue(&mut other, OTHER_TEID, ue);
    other
}

fn by_other(packet: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, OTHER_TEID, 255, Some([0x10, 9]), &[], packet)
}

/// NICs spread fragments by their addresses alone, whole packets by ports too: any worker gets them.
#[test]
fn fragments_come_to_the_worker_whose_session_has_the_block() {
    for worker in [0, 1] {
        let mut world = world_with(Filtering::EndpointIndependent, 2);
        let tunnel = WorkerSelectionKey::Tunnel(LocalId(0), Teid(TEID));
        world.tell_all(|| {
            Command::SelectWorker(WorkerSelectionChange::Exception {
                key: tunnel,
                bucket: Bucket::new(0),
            })
        });
        let public = public(&mut world, proto::UDP, 1000);
        let mut out = Vec::new();
        for piece in fragments((REMOTE, 53), public) {
            out.extend(world.send_frame(worker, 1, &common::frame(1, &piece)));
            for _ in 0..3 {
                world.poll();
                out.extend(world.take());
            }
        }
        assert_eq!(out.len(), 2, "by worker {worker}");
    }
}

/// An identifier that leaves as it is may be another subscriber's.
#[test]
fn timestamps_do_not_leave() {
    let mut world = world();
    let mut asks = make::echo_request(UE.into(), REMOTE.into(), 3_100, 3, &[0; 12]).expect("short");
    asks[20] = TIMESTAMP;
    asks[22..24].fill(0);
    let sum = checksum::of(&asks[20..]);
    asks[22..24].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(
        reason(&mut world, 0, &in_tunnel(&asks)),
        Some(DropReason::NatProtocol)
    );
}

#[test]
fn a_mapping_ends_with_the_address_that_it_is_of() {
    let mut world = world();
    let public = public(&mut world, proto::UDP, 1000);
    let mut moved = translated(session());
    of_ue(&mut moved, TEID, OTHER_UE);
    let image = world.image(1, &Arc::new(moved), None).expect("it compiles");
    world
        .apply(0, SessionChange::Replace(image, ImmediateActions::default()))
        .expect("it is there");
    // The address is another subscriber's now, who has asked for nothing.
    world.install(2, other_session(UE));
    give(&mut world, 2, 130);
    let out = world.send(1, &packet(proto::UDP, (REMOTE, 53), public));
    assert_eq!(out.len(), 0, "another subscriber gets it, and pays for it");
}

#[test]
fn a_reset_by_an_access_list_comes_from_the_public_address() {
    let rule = AccessRule {
        name: "blocked".into(),
        action: AccessAction::Reset,
        direction: None,
        filters: vec![SdfFilter {
            flow_description: "permit out 6 from any 53 to assigned".parse().ok(),
            ..SdfFilter::default()
        }],
        detection: Default::default(),
    };
    let list = AccessList::new("list", vec![rule], AccessAction::Permit).expect("few");
    let bound = BoundAccessList {
        list: Arc::new(list),
        scope: SessionScope::default(),
    };
    let network = network(Filtering::EndpointIndependent, limits())
        .with_access_lists(vec![bound])
        .expect("one list");
    let mut rules = session();
    rules.set_local_policy(LocalPolicy {
        nat: Some(NatPoolId(0)),
        access_list: network.access_lists().of(None, None).cloned(),
        ..LocalPolicy::default()
    });
    let mut world = World::with(network, 1, |_| {});
    world.install(1, rules);
    give(&mut world, 1, 3);
    let sent = only(
        &mut world,
        0,
        &in_tunnel(&packet(proto::TCP, (UE, 1000), (REMOTE, 80))),
    );
    let public = source(&sent);
    let answer = only(&mut world, 1, &packet(proto::TCP, (REMOTE, 53), public));
    assert_eq!(source(&answer), public, "the UE's own address leaks");
}

/// The FAR for Quota Action leads to the pool's instance, the PDR's own FAR elsewhere.
#[test]
fn what_a_quota_sends_to_the_pools_instance_is_translated() {
    let network = testing::network();
    let pool = testing::public_pool(&network, testing::OTHER_N6, PUBLIC..=PUBLIC);
    let network = network.with_nat(vec![pool]).expect("a pool");
    let mut world = World::with(network, 1, |_| {});
    let mut rules = translated(session());
    let mut elsewhere = ForwardingParameters::new(DestinationInterface::Core);
    elsewhere.instance = Some(testing::OTHER_N6);
    rules
        .create_far(testing::forward(3, elsewhere))
        .expect("it is new");
    let terms = UrrTermsUpdate {
        quota_action: Edit::Set(FarId(3)),
        ..UrrTermsUpdate::default()
    };
    let update = UrrUpdate {
        terms: Some(Box::new(terms)),
        ..UrrUpdate::new(UrrId(1))
    };
    rules.update_urr(update).expect("it is there");
    let mut image = world.image(1, &Arc::new(rules), None).expect("it compiles");
    image.block.get_or_insert_default().bounds = vec![Bounds {
        watermarks: Volumes::of_total(1 << 50),
        limit: Some(CounterLimit {
            octets: Volumes::of_total(1),
            action: LimitAction::Drop,
        }),
    }];
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    give(&mut world, 1, 3);
    let mine = in_tunnel(&packet(proto::UDP, (UE, 1000), (REMOTE, 53)));
    for _ in 0..2 {
        for (port, frame) in world.send(0, &mine) {
            if port.0 == testing::OTHER_N6.0 {
                assert_eq!(source(&frame[14..]).0, PUBLIC, "the UE's own address leaks");
            }
        }
    }
}

/// What is established loses nothing in a flood of new flows, whether it is translated or not.
#[test]
fn a_flood_takes_nothing_from_what_is_established_and_translated() {
    let mut world = World::with(network(Filtering::EndpointIndependent, limits()), 1, |config| {
        config.backlog = 1_024;
        config.force_five_tuple = true;
        config.slow_share_percent = 1;
    });
    world.install(1, translated(session()));
    give(&mut world, 1, 3);
    // Not translated.
    let mut plain = session();
    of_ue(&mut plain, OTHER_TEID, OTHER_UE);
    world.install(2, plain);
    let public = public(&mut world, proto::UDP, 1000);
    let push = |world: &World, port: u16, packet: &[u8]| {
        let queue = world.wires.to(WorkerId(0), flow::PortId(port));
        queue
            .push(MemBuf::new(&common::frame(port, packet)))
            .expect("there is room on the wire");
    };
    let ours = packet(proto::UDP, (REMOTE, 53), public);
    let theirs = packet(proto::UDP, (REMOTE, 53), (OTHER_UE, 1000));
    assert_eq!(world.send(1, &ours).len() + world.send(1, &theirs).len(), 2);
    let (mut sent, mut fresh, mut received) = (0, 1, [0; 2]);
    for _ in 0..40 {
        for n in 0..500u32 {
            if n % 10 == 0 {
                push(&world, 1, &ours);
                push(&world, 1, &theirs);
                sent += 1;
            } else {
                // The other UE's new flows.
                let to = (Ipv4Addr::from_bits(0x0909_0000 + fresh), 80);
                push(&world, 0, &by_other(&packet(proto::UDP, (OTHER_UE, 2000), to)));
                fresh += 1;
            }
        }
        for _ in 0..10 {
            world.poll();
            for (port, frame) in world.take() {
                if port.0 == 0 {
                    let to: [u8; 4] = frame[14 + 44 + 16..14 + 44 + 20].try_into().expect("four");
                    received[usize::from(to == OTHER_UE.octets())] += 1;
                }
            }
        }
    }
    assert_eq!(received, [sent, sent], "translated, not translated");
}

/// Later fragments have no ports, but a protocol.
#[test]
fn fragments_of_other_protocols_do_not_leave() {
    let mut world = world();
    public(&mut world, proto::UDP, 1000);
    let [_, mut second] = fragments((UE, 1000), (REMOTE, 53));
    second[9] = proto::ESP;
    refresh(&mut second);
    let out = world.send(0, &in_tunnel(&second));
    assert_eq!(out.len(), 0, "GRE, ESP, SCTP are dropped, says the guide");
}

/// Where addresses that the UE has not sent to may not send, neither may they by errors about packets that it has
/// not sent.
#[test]
fn an_error_about_what_was_not_sent_does_not_pass_the_filter() {
    let mut world = world_with(Filtering::AddressDependent, 1);
    let public = public(&mut world, proto::UDP, 1000);
    let quoted = packet(proto::UDP, public, (ROUTER, 9));
    let error = error(ROUTER, public.0, &quoted);
    assert_eq!(reason(&mut world, 1, &error), Some(DropReason::NatNoMapping));
}

/// `hairpin` and `ue_prefixes` may change in a running daemon.
#[test]
fn what_goes_out_since_the_network_changed_is_translated() {
    let prefix: rules::prefix::IpPrefix = "10.45.0.0/16".parse().expect("a prefix");
    let network = |hairpin: Hairpin| {
        let network = testing::network_with(|instance| {
            if instance.id == testing::N6 {
                instance.hairpin = hairpin.clone();
            }
        });
        let pool = testing::public_pool(&network, testing::N6, PUBLIC..=PUBLIC);
        network.with_nat(vec![pool]).expect("a pool")
    };
    let older = network(Hairpin::Local(vec![prefix]));
    let mut world = World::with(older.clone(), 1, |_| {});
    world.install(1, translated(session()));
    give(&mut world, 1, 3);
    let newer = Arc::new(network(Hairpin::Router).succeeding(&older).expect("it may"));
    let neighbours = Neighbours::new(NeighboursConfig::default(), Vec::new());
    let settings = InterfaceSettings {
        macs: (0..16).map(common::our_mac).collect(),
        ..InterfaceSettings::default()
    };
    world.tell_all(|| {
        Command::Network(Box::new(NetworkTables::at_present(
            &newer,
            &settings,
            &neighbours,
        )))
    });
    world.meet(testing::N6, Ipv4Addr::new(10, 0, 6, 254).into());
    let sent = packet(proto::UDP, (UE, 1000), (Ipv4Addr::new(10, 45, 9, 9), 53));
    let sent = only(&mut world, 0, &in_tunnel(&sent));
    assert_eq!(source(&sent).0, PUBLIC, "the UE's own address leaks");
}
