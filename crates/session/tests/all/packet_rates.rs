//! What is left of packet rates: it is reported, and goes along when a session leaves or is kept.

use crate::support;

use flow::meter::{PacketRate, PacketState, PacketsPer, TimeUnit, Window};
use flow::{ContentId, ContentUsage, Nanos};
use rules::image::PacketsLeft;
use rules::model::*;
use session::*;

use crate::transfer::{STARTED, export, import, sent};
use support::*;

fn packet_rates() -> PacketRates {
    let base = PacketsPer {
        packets: 10,
        unit: TimeUnit::Day,
    };
    PacketRates {
        ul: Some(PacketRate {
            base,
            additional: None,
        }),
        dl: None,
    }
}

/// This number of packets left uplink of the first QER until then, in nanoseconds.
fn packets_left(left: u16, ends: u64) -> PacketsLeft {
    let base = Window {
        left,
        ends: Nanos(ends),
    };
    let up = PacketState {
        base,
        ..PacketState::default()
    };
    PacketsLeft {
        qer: QerId(1),
        states: [up, PacketState::default()],
    }
}

#[test]
fn what_is_left_of_packet_rates_goes_along_by_date() {
    let mut first = World::new(2);
    let mut changes = chosen_session(UE);
    let optional = changes.create_qers[0].optional.get_or_insert_default();
    optional.packet_rates = Some(packet_rates());
    let seid = first.establish(1, changes).unwrap().seid;
    let index = first.sessions.session(seid).unwrap().index();
    let hour = 3_600_000_000_000;
    first.fleet.leave_packets(index, packets_left(4, hour));
    let asked = Changes {
        query_packets: vec![QerId(1)],
        ..Changes::default()
    };
    let status = first.modify(seid, asked.clone()).unwrap().packets[0];
    assert_eq!(
        (status.left, status.until),
        ([Some((4, None)), None], Nanos(hour))
    );
    let unknown = Changes {
        query_packets: vec![QerId(9)],
        ..Changes::default()
    };
    let refused = Refusal::Rule {
        rule: QerId(9).into(),
        fault: RuleFault::UnknownQer,
    };
    assert_eq!(first.modify(seid, unknown), Err(refused));
    let record = export(&mut first, seid, Export::Take).unwrap();

    let mut second = World::new(3);
    import(&mut second, &sent(&record, 60)).unwrap();
    let images = second
        .fleet
        .workers
        .iter()
        .flat_map(|worker| worker.sessions.values());
    let left: Vec<_> = images
        .flat_map(|image| image.installation.packets.clone())
        .collect();
    assert_eq!(left, [packets_left(4, hour - 60_000_000_000)]);
    // Without RCSR the release says nothing.
    assert_eq!(second.delete(seid).unwrap().packets, []);
}

/// The session that a store has, and a later look at what is left of its packet rates.
#[test]
fn packet_rates_go_on_after_a_crash_where_they_are_the_same() {
    let rated = |rates: PacketRates| {
        let mut world = World::new(2);
        let mut changes = chosen_session(UE);
        let optional = changes.create_qers[0].optional.get_or_insert_default();
        optional.packet_rates = Some(rates);
        let seid = world.establish(1, changes).unwrap().seid;
        (world, seid)
    };
    let hour = 3_600_000_000_000;
    let kept = |world: &World, seid| sent(&world.sessions.to_keep(seid).expect("it is live").1.record, 60);
    let look = |world: &World, seid, left: PacketsLeft| {
        let index = world.sessions.session(seid).unwrap().index();
        let counted = world.sessions.progress(index, [].into_iter(), [left].into_iter());
        let (of, progress) = counted.expect("nothing is in progress");
        assert_eq!(of, seid);
        let octets = progress.encode(&WallClock::starting(STARTED)).unwrap();
        SessionProgress::decode(&octets, &WallClock::starting(STARTED + 60)).unwrap()
    };

    let (world, seid) = rated(packet_rates());
    let mut record = kept(&world, seid);
    assert_eq!(record.packets, [], "a change of a session does not say it");
    record.advance(&look(&world, seid, packets_left(4, 2 * hour)));
    record.advance(&look(&world, seid, packets_left(5, 2 * hour)));
    let minute = hour / 60;
    let mut second = World::new(2);
    import(&mut second, &record).unwrap();
    assert_eq!(
        second.fleet.images()[0].installation.packets,
        [packets_left(4, 2 * hour - minute)],
        "by date"
    );

    // Others begin anew, as where a QER was changed in the second before the crash.
    let mut other = packet_rates();
    other.ul = other.ul.map(|rate| PacketRate {
        base: PacketsPer {
            packets: 11,
            ..rate.base
        },
        ..rate
    });
    let (changed, seid) = rated(other);
    let mut record = kept(&changed, seid);
    let (old, same_seid) = rated(packet_rates());
    record.advance(&look(&old, same_seid, packets_left(4, 2 * hour)));
    assert_eq!(record.packets, []);
}

#[test]
fn what_is_left_of_packet_rates_is_reported_beside_contents_where_no_urr_counts() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    changes.create_urrs.clear();
    changes.create_pdrs.iter_mut().for_each(|pdr| pdr.urrs.clear());
    let optional = changes.create_qers[0].optional.get_or_insert_default();
    (optional.packet_rates, optional.reports_rate) = (Some(packet_rates()), true);
    let seid = world.establish(1, changes).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    world
        .fleet
        .leave_packets(index, packets_left(4, 3_600_000_000_000));
    let content = ContentUsage {
        content: ContentId::NONE,
        count: uplink_count(1),
        first: Nanos(1),
        last: Nanos(1),
    };
    world.fleet.count_content(index, content);
    let reported = world.delete(seid).unwrap().packets;
    assert_eq!(reported[0].left, [Some((4, None)), None]);
}
