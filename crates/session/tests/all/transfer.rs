//! Sessions as records: there and back, and taken in by another process with their numbers and counts.

use crate::support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;
use std::time::Duration;

use flow::meter::{PacketState, Rate, SharedId, Tokens, Window};
use flow::{Nanos, UrrCount, WorkerId};
use packet::{Qfi, Teid};
use proptest::prelude::*;
use rules::Predefined;
use rules::image::{DataStatus, DroppedCount, PacketsLeft, TokensLeft};
use rules::model::SNssai;
use rules::network::{Network, Policer, SessionScope};
use session::*;

use rules::model::*;
use support::fleet::network;
use support::*;

pub const STARTED: u64 = 1_700_000_000;

pub fn frame<'a>(network: &'a Network, wall: &'a WallClock) -> Frame<'a> {
    static PREDEFINED: LazyLock<Predefined> = LazyLock::new(Predefined::default);
    Frame {
        network,
        predefined: &PREDEFINED,
        wall,
    }
}

/// The session with its pending request's outcome, at this moment.
fn outcome(world: &mut World, ticket: Ticket) -> Result<Done, Refusal> {
    let outcomes = world.run();
    let found = outcomes.into_iter().find(|outcome| outcome.ticket == ticket);
    found.expect("an outcome").result
}

pub fn export(world: &mut World, seid: Seid, how: Export) -> Result<SessionRecord, Refusal> {
    let ticket = world.ticket();
    world.sessions.export(world.now, ticket, seid, how);
    outcome(world, ticket).map(|done| {
        let (association, record) = done.record.expect("a record");
        assert_eq!((association, &done.usage[..]), (SMF, &[][..]));
        *record
    })
}

pub fn import(world: &mut World, record: &SessionRecord) -> Result<(), ImportError> {
    let ticket = world.ticket();
    world.sessions.import(world.now, ticket, SMF, record)?;
    outcome(world, ticket).map(drop).map_err(ImportError::from)
}

/// The record as another process reads it, whose clock began this number of seconds later.
pub fn sent(record: &SessionRecord, later: u64) -> SessionRecord {
    let network = network();
    let octets = record
        .encode(frame(&network, &WallClock::starting(STARTED)))
        .unwrap();
    match Record::decode(&octets, frame(&network, &WallClock::starting(STARTED + later))) {
        Ok((Record::Session(record), [])) => *record,
        other => panic!("{other:?}"),
    }
}

fn counts(world: &mut World, seid: Seid, packets: u64) {
    let index = world.sessions.session(seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(packets));
}

/// Usage that the control plane asks for.
fn query(world: &mut World, seid: Seid) -> UsageReport {
    let query = Changes {
        query: Query::All(Vec::new()),
        ..Changes::default()
    };
    world.modify(seid, query).unwrap().usage[0]
}

/// A process whose clock was 0 this number of seconds after that of the one before, and whose host's clock has been
/// stepped by another number meanwhile.
fn next_process(before: &World, later: u32, step: i64) -> World {
    let mut next = dated_world();
    let nanos = i64::from(later) * 1_000_000_000;
    let wall = WallClock::decode(&before.sessions.wall().encode(0), nanos);
    next.sessions.resume_wall(wall.expect("what was encoded"));
    let host = next.now.0 + (STARTED + u64::from(later)) * 1_000_000_000;
    let change = next
        .sessions
        .follow_wall(next.now, host.wrapping_add_signed(step * 1_000_000_000), 0);
    assert_eq!(change.is_some(), step != 0);
    next
}

fn dated_world() -> World {
    World::with(Config {
        clock_unix: STARTED,
        ..Config::for_workers(1)
    })
}

/// What the session has measured in 20 s, what has passed until the next process, and what it measures there: a
/// threshold of a minute is reached after a minute, wherever the host's clock has been set in between.
#[test]
fn a_step_of_the_clock_between_two_processes_is_no_time_that_has_passed() {
    let urr = Urr {
        method: MeasurementMethod::DURAT,
        information: MeasurementInformation::ISTM,
        triggers: ReportingTriggers::TIMTH,
        time_threshold: Some(60),
        ..Urr::volume(UrrId(1))
    };
    for step in [0, 3_600, -3_600, 40, -40] {
        let mut first = dated_world();
        let changes = Changes {
            create_urrs: vec![urr.clone()],
            ..chosen_session(UE)
        };
        let seid = first.establish(1, changes).unwrap().seid;
        first.pass(Duration::from_secs(20));
        let record = export(&mut first, seid, Export::Take).unwrap();
        let network = network();
        let octets = record.encode(frame(&network, first.sessions.wall())).unwrap();
        let begun = first.sessions.wall().unix_nanos(Moment::from(first.now)) - 20_000_000_000;

        let mut second = next_process(&first, 30, step);
        let read = Record::decode(&octets, frame(&network, second.sessions.wall()));
        let Ok((Record::Session(record), [])) = read else {
            panic!("{read:?}");
        };
        import(&mut second, &record).unwrap();
        let reports = |world: &mut World| -> Vec<UsageReport> {
            world.run();
            let all = std::iter::from_fn(|| world.sessions.poll_usage());
            all.map(|(_, report)| report).collect()
        };
        // 20 s of the first, 10 s between, and what is left: the clock of each begins at 1 s.
        second.pass(Duration::from_millis(29_900));
        assert_eq!(reports(&mut second), [], "{step}");
        second.pass(Duration::from_millis(200));
        let [report] = reports(&mut second)[..] else {
            panic!("{step}");
        };
        assert_eq!(
            (report.triggers, report.duration),
            (UsageTriggers::TIMTH, Some(Seconds(60)))
        );
        assert_eq!(second.sessions.wall().unix_nanos(report.start), begun, "{step}");
    }
}

#[test]
fn a_session_continues_elsewhere_with_its_numbers_and_every_octet_is_reported_once() {
    let mut first = World::new(2);
    let done = first.establish(1, chosen_session(UE)).unwrap();
    counts(&mut first, done.seid, 7);
    let before = query(&mut first, done.seid);
    assert_eq!((before.sequence, before.count), (0, uplink_count(7)));
    counts(&mut first, done.seid, 3);
    let record = export(&mut first, done.seid, Export::Take).unwrap();
    assert_eq!(record.checkpoints[0].count, uplink_count(3));
    first.assert_clean();

    // The second process starts a minute after the first one.
    let mut second = World::new(3);
    let record = sent(&record, 60);
    import(&mut second, &record).unwrap();
    let view = second.sessions.session(done.seid).unwrap();
    assert_eq!((view.cp(), view.bucket()), (cp_f_seid(1), home(UE)));
    assert_eq!(*view.rules(), *record.rules);
    let teid = done.created[0].1.teid;
    let found: Vec<_> = second.sessions.with_teid(teid).map(|one| one.seid()).collect();
    assert_eq!(found, [done.seid]);
    counts(&mut second, done.seid, 5);
    let after = query(&mut second, done.seid);
    assert_eq!((after.sequence, after.count), (1, uplink_count(3 + 5)));
    assert_eq!(
        WallClock::starting(STARTED + 60).unix_nanos(after.start),
        WallClock::starting(STARTED).unix_nanos(before.end)
    );
    assert!(after.start < Moment(0), "before the second process began");
    counts(&mut second, done.seid, 2);
    let last = second.delete(done.seid).unwrap().usage[0];
    assert_eq!((last.sequence, last.count), (2, uplink_count(2)));
    second.assert_clean();
}

#[test]
fn what_meters_of_bit_rates_hold_goes_along_by_date() {
    let mut first = World::new(2);
    let seid = first.establish(1, chosen_session(UE)).unwrap().seid;
    let index = first.sessions.session(seid).unwrap().index();
    let at = |at| {
        let tokens = Tokens { left: [7, 9], at };
        vec![TokensLeft {
            qer: QerId(3),
            tokens: [Some(tokens), None],
        }]
    };
    first.fleet.hold_tokens(index, at(5_000_000_000));
    let record = export(&mut first, seid, Export::Take).unwrap();
    assert_eq!(record.tokens, at(5_000_000_000));
    // On a clock that began a minute later it was 55 seconds before that.
    let arrived = sent(&record, 60);
    assert_eq!(arrived.tokens, at(-55_000_000_000));
    let mut second = World::new(2);
    import(&mut second, &arrived).unwrap();
    let images = second.fleet.images().into_iter();
    let brought: Vec<_> = images
        .flat_map(|image| image.installation.tokens.clone())
        .collect();
    assert_eq!(brought, at(-55_000_000_000));
}

/// 10 packets a day up.
#[test]
fn marks_for_l4s_go_along() {
    let (mut first, mut second, mut changes) = (World::new(1), World::new(1), session(UE));
    changes.create_qers = vec![Qer::new(QerId(1)), Qer::new(QerId(2))];
    changes.create_qers[1].optional.get_or_insert_default().marks_l4s = true;
    let seid = first.establish(1, changes).unwrap().seid;
    let record = export(&mut first, seid, Export::Take).unwrap();
    import(&mut second, &sent(&record, 60)).unwrap();
    let marks = |qer: usize| second.fleet.images()[0].rules.qers()[qer].optional.marks_l4s;
    assert!(!marks(0) && marks(1));
}

#[test]
fn counts_of_dropped_packets_that_are_reported_go_along() {
    let mut first = World::new(1);
    let mut changes = session(UE);
    let terms = UrrTerms {
        dropped_dl_threshold: Some(DroppedDlThreshold {
            packets: Some(9),
            octets: None,
        }),
        ..UrrTerms::NONE
    };
    changes.create_urrs[0].triggers = ReportingTriggers::DROTH;
    changes.create_urrs[0].terms = Some(Box::new(terms));
    let seid = first.establish(1, changes).unwrap().seid;
    let index = first.sessions.session(seid).unwrap().index();
    let count = DroppedCount {
        urr: UrrId(1),
        packets: 4,
        octets: 400,
    };
    first.fleet.worker(WorkerId(0)).dropped.insert(index, vec![count]);
    let record = export(&mut first, seid, Export::Take).unwrap();
    assert_eq!(record.dropped, [count]);

    let mut second = World::new(1);
    import(&mut second, &sent(&record, 60)).unwrap();
    let image = second.fleet.images()[0].clone();
    assert_eq!(image.dropped_counts().collect::<Vec<_>>(), [count]);
}

#[test]
fn a_copy_leaves_the_session_and_its_usage_alone() {
    let mut world = World::new(1);
    let seid = world.establish(1, chosen_session(UE)).unwrap().seid;
    counts(&mut world, seid, 4);
    let copies = [0, 1].map(|_| export(&mut world, seid, Export::Copy).unwrap());
    assert_eq!(copies[0], copies[1]);
    assert_eq!(copies[0].checkpoints[0].count, uplink_count(4));
    let last = world.delete(seid).unwrap().usage[0];
    assert_eq!((last.sequence, last.count), (0, uplink_count(4)));
    world.assert_clean();
}

#[test]
fn an_export_waits_for_the_request_before_it() {
    let mut world = World::new(1);
    let seid = world.establish(1, chosen_session(UE)).unwrap().seid;
    let (change, ticket) = (world.ticket(), world.ticket());
    world
        .sessions
        .modify(world.now, change, seid, None, drop_downlink());
    world.sessions.export(world.now, ticket, seid, Export::Take);
    let outcomes = world.run();
    let record = outcomes[1].result.as_ref().unwrap().record.as_ref().unwrap();
    assert_eq!(record.1.rules.far(FarId(2)).unwrap().action, ApplyAction::DROP);
    world.assert_clean();
}

#[test]
fn an_unknown_session_has_no_record() {
    let mut world = World::new(1);
    assert_eq!(export(&mut world, Seid(7), Export::Take), Err(Refusal::NotFound));
}

/// What another session has makes the import an error that names it, and changes nothing.
#[test]
fn what_is_taken_is_named_and_nothing_changes() {
    let mut first = World::new(1);
    let seid = first.establish(1, chosen_session(UE)).unwrap().seid;
    let record = export(&mut first, seid, Export::Copy).unwrap();
    let teid = record.rules.f_teids().next().unwrap().teid;

    let refused = |world: &mut World, record: &SessionRecord| {
        let before = world.sessions.count();
        let error = import(world, record).unwrap_err();
        assert_eq!(world.sessions.count(), before, "{error}");
        error
    };
    assert_eq!(refused(&mut first, &record), ImportError::Seid(seid));
    let mut renamed = record.clone();
    renamed.seid = Seid(77);
    assert_eq!(refused(&mut first, &renamed), ImportError::CpFSeid(cp_f_seid(1)));
    renamed.cp = cp_f_seid(2);
    let taken = refused(&mut first, &renamed);
    let address = IpAddr::from([192, 0, 2, 10]);
    assert_eq!(taken, ImportError::Tunnel { address, teid });
    assert_eq!(
        taken.to_string(),
        format!("another session has TEID {teid} at 192.0.2.10")
    );

    let mut second = World::new(1);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(teid.0 ^ 1));
    second.establish(1, changes).unwrap();
    let ue = "10.45.0.2/32".parse().unwrap();
    let mut elsewhere = record.clone();
    (elsewhere.cp, elsewhere.seid) = (cp_f_seid(2), Seid(78));
    assert_eq!(refused(&mut second, &elsewhere), ImportError::UeAddress(ue));
    let mut third = World::with(Config {
        max_sessions: 0,
        ..Config::for_workers(1)
    });
    assert_eq!(
        refused(&mut third, &record),
        ImportError::Refused(Refusal::NoResources)
    );
    third.assert_clean();
}

#[test]
fn what_an_smf_held_above_its_share_it_holds_here_too_as_far_as_there_is_room() {
    let mut first = World::new(1);
    let records: Vec<_> = (1..=3)
        .map(|host| {
            let session = chosen_session(Ipv4Addr::new(10, 45, 0, host));
            let seid = first.establish(u64::from(host), session).unwrap().seid;
            export(&mut first, seid, Export::Take).unwrap()
        })
        .collect();
    let mut second = World::with(Config {
        worker_tunnels: 2,
        association_percent: 50,
        ..Config::for_workers(1)
    });
    second.sessions.share_among(2);
    let taken = records.iter().map(|record| import(&mut second, record));
    let refused = Err(ImportError::Refused(Refusal::NoResources));
    assert_eq!(taken.collect::<Vec<_>>(), [Ok(()), Ok(()), refused]);
}

#[test]
fn a_worker_that_has_no_room_leaves_nothing_behind() {
    let mut first = World::new(1);
    let seid = first.establish(1, chosen_session(UE)).unwrap().seid;
    let record = export(&mut first, seid, Export::Take).unwrap();
    let mut second = World::new(1);
    second.fleet.worker(WorkerId(0)).room = Some(0);
    assert_eq!(
        import(&mut second, &record),
        Err(ImportError::Refused(Refusal::NoResources))
    );
    second.assert_clean();
}

#[test]
fn a_choose_id_means_the_same_f_teid_after_an_import() {
    let mut first = World::new(1);
    let changes = Changes {
        choose: vec![choose(UL, Some(5))],
        ..session(UE)
    };
    let done = first.establish(1, changes).unwrap();
    let record = export(&mut first, done.seid, Export::Take).unwrap();
    let mut second = World::new(1);
    import(&mut second, &sent(&record, 0)).unwrap();
    let added = second
        .modify(done.seid, added_pdr(choose(PdrId(3), Some(5))))
        .unwrap();
    assert_eq!(added.created[0].1, done.created[0].1);
}

#[test]
fn a_record_of_another_network_names_the_instance() {
    let mut world = World::new(1);
    let mut changes = session(UE);
    changes.create_pdrs[1].pdi.instance = Some(flow::InstanceId(1));
    changes.choose = vec![choose(UL, None)];
    let seid = world.establish(1, changes).unwrap().seid;
    let record = export(&mut world, seid, Export::Copy).unwrap();
    let here = network();
    let name = here.instance(flow::InstanceId(1)).unwrap().name.clone();
    let octets = record.encode(frame(&here, &WallClock::starting(0))).unwrap();
    let elsewhere = Network::default();
    let error = Record::decode(&octets, frame(&elsewhere, &WallClock::starting(0))).unwrap_err();
    assert_eq!(error, RecordError::UnknownInstance(name));
}

pub fn any_pending() -> impl Strategy<Value = PendingReports> {
    let count =
        any::<[u64; 5]>().prop_map(
            |[ul_packets, ul_octets, dl_packets, dl_octets, events]| UrrCount {
                ul_packets,
                ul_octets,
                dl_packets,
                dl_octets,
                events,
            },
        );
    let why = prop_oneof![Just(UsageTriggers::TERMR), Just(UsageTriggers::IMMER)];
    let times = any::<(u32, u32)>().prop_map(|(a, b)| [Moment(a.into()), Moment(-i64::from(b))]);
    let usage = (
        any::<u32>(),
        0..8_u8,
        any::<u32>(),
        (why, any::<Option<u32>>()),
        count,
        times,
    )
        .prop_map(
            |(urr, method, sequence, (triggers, seconds), count, [end, start])| {
                let duration = seconds.map(Seconds);
                UsageReport {
                    urr: UrrId(urr),
                    method: MeasurementMethod(method),
                    sequence,
                    triggers,
                    count,
                    duration,
                    start,
                    end,
                    first: duration.map(|_| start),
                    last: duration.map(|_| end),
                    information: duration.map(|_| UsageInformation::BEF),
                    before_qos: duration.map(|_| count),
                    reports_packets: duration.is_some(),
                }
            },
        );
    let status = prop::sample::select(vec![
        None,
        Some(DataStatus::Buffered),
        Some(DataStatus::Discarded),
    ]);
    let mark = (
        any::<u16>(),
        any::<Option<u8>>(),
        prop::option::of(0..64_u8),
        status,
    )
        .prop_map(|(pdr, ppi, qfi, status)| DownlinkMark {
            pdr: PdrId(pdr),
            ppi,
            qfi: qfi.and_then(Qfi::new),
            status,
        });
    let remote = (any::<IpAddr>(), any::<u32>()).prop_map(|(peer, teid)| (peer, Teid(teid)));
    let lists = (
        prop::collection::vec(usage, 0..4),
        prop::collection::vec(mark, 0..4),
        prop::collection::vec(remote, 0..4),
        any::<bool>(),
        prop::option::of(any_response()),
    );
    lists.prop_map(|(usage, downlink, errors, inactive, response)| PendingReports {
        queries: usage
            .iter()
            .map(|one| AnsweredQuery {
                urr: one.urr,
                sequence: one.sequence,
                query: !one.sequence,
            })
            .collect(),
        usage,
        downlink,
        errors,
        inactive,
        response,
    })
}

fn any_response() -> impl Strategy<Value = ResponseRecord> {
    let request = any::<(IpAddr, u16, u32, u8, u64, u64)>();
    (request, prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((address, port, sequence, message_type, seid, unix_ms), octets)| ResponseRecord {
            peer: SocketAddr::new(address, port),
            sequence,
            message_type,
            seid,
            unix_ms,
            octets,
        },
    )
}

/// A record of a session that there was, with other rules and reports in it.
fn any_record() -> impl Strategy<Value = SessionRecord> {
    let group = prop::option::of(prop::collection::vec(any::<u8>(), 1..9));
    let set =
        (prop::option::of(0..16_u8), any::<u32>(), any::<u16>()).prop_map(|(kind, node, number)| SetId {
            kind,
            node: SetNode::Operator(node),
            number,
        });
    let sets = (
        prop::collection::vec(set, 0..3),
        group,
        any::<Option<(Ipv4Addr, Option<Ipv6Addr>)>>(),
    );
    let sets = sets.prop_map(|(ids, group, to)| Sets {
        ids,
        group: group.map(Vec::into_boxed_slice),
        reports_to: to.map(|(ipv4, ipv6)| Addresses {
            ipv4: Some(ipv4),
            ipv6,
        }),
    });
    let endpoints = prop::collection::vec(any::<u8>(), 0..3);
    let urrs = (
        rules::testing::any_urr(UrrId(100)),
        rules::testing::any_urr(UrrId(101)),
    );
    // None, one of the two policers, both.
    let policers = (0..4_u16).prop_map(SharedId);
    let window = || {
        (any::<u16>(), 0..1_u64 << 62).prop_map(|(left, ends)| Window {
            left,
            ends: Nanos(ends),
        })
    };
    let state = move || (window(), window()).prop_map(|(base, additional)| PacketState { base, additional });
    let left = (any::<u32>().prop_map(QerId), [state(), state()]);
    let left = left.prop_map(|(qer, states)| PacketsLeft { qer, states });
    let packets = prop::collection::vec(left, 0..3);
    // Dates begin in 1970.
    let since_1970 = -((STARTED * 1_000_000_000) as i64)..1 << 62;
    let tokens = (any::<[u64; 2]>(), since_1970).prop_map(|(left, at)| Tokens { left, at });
    let tokens = (
        any::<u32>().prop_map(QerId),
        [prop::option::of(tokens.clone()), prop::option::of(tokens)],
    );
    let tokens = tokens.prop_map(|(qer, tokens)| TokensLeft { qer, tokens });
    let packets = (packets, prop::collection::vec(tokens, 0..3));
    (
        rules::testing::any_rules(),
        (urrs, policers, packets),
        any_pending(),
        sets,
        endpoints,
    )
        .prop_map(|(rules, (urrs, policers, packets), pending, sets, endpoints)| {
            let mut world = World::new(1);
            let seid = world.establish(1, chosen_session(UE)).unwrap().seid;
            let mut record = export(&mut world, seid, Export::Copy).unwrap();
            let mut rules = rules;
            rules.create_urr(urrs.0).expect("it is new");
            rules.create_urr(urrs.1).expect("it is new");
            // The access list is no part of the record.
            rules.set_local_policy(LocalPolicy {
                policers,
                access_list: None,
                nat: None,
            });
            for id in endpoints {
                let mut endpoint = TrafficEndpoint::new(TrafficEndpointId(id));
                endpoint.f_teid = Some(given(id.into()));
                let _ = rules.create_endpoint(endpoint);
            }
            record.association = b"\x02\x03smf".to_vec();
            names::forget(&mut rules);
            (record.rules, record.pending, record.sets) = (rules.into(), pending, sets);
            (record.packets, record.tokens) = packets;
            record
        })
}

fn policer(name: &str, is_slice: bool) -> Policer {
    let slice = SNssai { sst: 1, sd: [0; 3] };
    Policer {
        name: name.into(),
        scope: SessionScope {
            slice: is_slice.then_some(slice),
            dnn: (!is_slice).then(|| "internet".into()),
        },
        rates: [Rate::ZERO; 2],
        shapes: false,
        weight: 1,
    }
}

fn network_with_policies() -> Network {
    let network = rules::testing::network();
    network
        .with_policies(rules::testing::policies())
        .expect("policies of this network")
        .with_policers(vec![policer("slice", true), policer("network", false)])
        .expect("they differ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_record_is_read_as_it_was_written(record in any_record(), behind in prop::collection::vec(any::<u8>(), 0..9)) {
        let network = network_with_policies();
        // Some rules at random name an instance that there is not, which no live session does.
        let written = record.encode(frame(&network, &WallClock::starting(STARTED)));
        prop_assume!(written != Err(RecordError::Malformed("network instance")));
        let mut octets = written.unwrap();
        octets.extend(&behind);
        let (read, rest) = Record::decode(&octets, frame(&network, &WallClock::starting(STARTED))).unwrap();
        prop_assert_eq!(read, Record::Session(Box::new(record)));
        prop_assert_eq!(rest, &behind[..]);
    }

    /// With a right check sum, so that the body is what is read.
    #[test]
    fn foreign_octets_do_no_harm(record in any_record(), at: prop::sample::Index, with: u8, cut: prop::sample::Index) {
        let network = network_with_policies();
        let written = record.encode(frame(&network, &WallClock::starting(STARTED)));
        prop_assume!(written.is_ok());
        let mut octets = written.unwrap();
        let body = octets.len() - 15;
        octets[15 + at.index(body)] = with;
        octets.truncate(15 + cut.index(body + 1));
        let length = octets.len() - 15;
        octets[7..11].copy_from_slice(&(length as u32).to_be_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&octets[..11]), &octets[15..]);
        octets[11..15].copy_from_slice(&sum.to_be_bytes());
        let _ = Record::decode(&octets, frame(&network, &WallClock::starting(STARTED)));
    }
}

/// The session of the records that are kept.
fn kept_session() -> SessionRecord {
    let mut world = World::new(1);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(0x1234));
    let seid = world.establish(1, changes).unwrap().seid;
    counts(&mut world, seid, 3);
    let mut record = export(&mut world, seid, Export::Copy).unwrap();
    record.association = b"\x00\x0a\x00\x00\x01".to_vec();
    record.seid = Seid(0x0102_0304_0506_0708);
    record
}

/// What the build before wrote: a session without its last response.
#[test]
fn records_of_the_revision_before_are_read() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/records/session_v1_revision_5.bin"
    );
    let kept = std::fs::read(path).unwrap();
    assert_eq!(kept[5], 5);
    let network = network();
    let (read, rest) = Record::decode(&kept, frame(&network, &WallClock::starting(STARTED))).unwrap();
    assert_eq!((read, rest), (Record::Session(Box::new(kept_session())), &[][..]));
    assert!(!is_newest_form(&kept));
    let newest = kept_session().encode(frame(&network, &WallClock::starting(STARTED)));
    assert!(is_newest_form(&newest.unwrap()));
}

/// What version 1 looks like, to the octet: a change here breaks every record that there is.
#[test]
fn version_1_stays_as_it_is() {
    let record = kept_session();
    let network = network();
    let octets = record
        .encode(frame(&network, &WallClock::starting(STARTED)))
        .unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records/session_v1.bin");
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records")).unwrap();
        std::fs::write(path, &octets).unwrap();
    }
    let kept = std::fs::read(path).unwrap();
    assert_eq!(octets, kept);
    let (read, _) = Record::decode(&kept, frame(&network, &WallClock::starting(STARTED))).unwrap();
    assert_eq!(read, Record::Session(Box::new(record)));
}
