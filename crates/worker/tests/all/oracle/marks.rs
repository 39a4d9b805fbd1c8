//! Marks for L4S on behalf of the RAN: what base stations report, and which packets leave marked for it.

use std::net::IpAddr;

use packet::eth::{L2, ether_type};
use packet::gtpu::MessageType;
use packet::psc::{NewIes, PduSessionContainer, Uplink};
use packet::{GtpuFrame, IpFrame, Qfi};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rules::SessionRules;
use rules::model::{QerId, QerUpdate};
use rules::testing::{Sent, any_network, any_sent, runnable_rules, tunnelled};

use super::{Step, Trial, any_step};

/// Where QERs ask for marks on behalf of the RAN.
fn any_step_of_marked() -> impl Strategy<Value = Step> {
    let part = || prop_oneof![1 => Just(None), 4 => (0..11_000u16).prop_map(Some)];
    let report = (
        any::<prop::sample::Index>(),
        [part(), part()],
        any::<bool>(),
        any::<bool>(),
    );
    let report = report.prop_map(|(packet, parts, is_alone, is_of_packet)| Step::Report {
        packet,
        parts,
        is_alone,
        is_of_packet,
    });
    prop_oneof![3 => any_step(), 1 => report]
}

/// These packets, three of four of them from scalable senders: their user packets have ECT(1).
fn with_ect_1(mut packets: Vec<Sent>) -> Vec<Sent> {
    for (_, sent) in packets.iter_mut().enumerate().filter(|(place, _)| place % 4 != 3) {
        let gtpu = tunnel_of(&sent.bytes).filter(|(_, gtpu)| gtpu.message_type == MessageType::G_PDU);
        let start = gtpu.map_or(0, |(_, gtpu)| usize::from(gtpu.payload_offset));
        let Some([first, second, ..]) = sent.bytes.get_mut(start..) else {
            continue;
        };
        if *first >> 4 == 6 {
            *second = *second & 0xcf | 0x10;
            continue;
        }
        // The checksum's words change as the field does (RFC 1624).
        let (old, new) = (u16::from(*second), u16::from(*second & 0xfc | 1));
        *second = new as u8;
        if let Some([high, low]) = sent.bytes.get_mut(start + 10..start + 12) {
            let sum = u32::from(!u16::from_be_bytes([*high, *low])) + u32::from(!old) + u32::from(new);
            let sum = (sum & 0xffff) + (sum >> 16);
            [*high, *low] = (!((sum + (sum >> 16)) as u16)).to_be_bytes();
        }
    }
    packets
}

/// The tunnel that a packet comes in, and our address.
fn tunnel_of(packet: &[u8]) -> Option<(IpAddr, GtpuFrame)> {
    let plain = L2 {
        len: 0,
        ether_type: ether_type::IPV4,
        vlan: None,
    };
    let ip = IpFrame::parse(packet, packet.len(), &plain).ok()?;
    let gtpu = GtpuFrame::parse(packet, &ip).ok().filter(|_| ip.may_be_gtpu())?;
    Some((ip.tuple.addrs.dst(), gtpu))
}

/// A packet of a tunnel as a base station sends it that reports something, of this QoS flow or its own; `None`:
/// it does not come in one, or not from a base station.
pub(super) fn reporting(
    sent: &Sent,
    [ul, dl]: [Option<u16>; 2],
    is_alone: bool,
    qfi: Option<Qfi>,
) -> Option<Sent> {
    let (IpAddr::V4(local), gtpu) = tunnel_of(&sent.bytes)? else {
        return None;
    };
    let message = gtpu.message(&sent.bytes).ok()?;
    let container = PduSessionContainer::Uplink(Uplink {
        qfi: qfi.or(gtpu.qfi)?,
        new: NewIes {
            ul_congestion: ul,
            dl_congestion: dl,
            ..NewIes::default()
        },
        ..Uplink::default()
    });
    let mut octets = [0; 64];
    let len = container.write(&mut octets).expect("there is room");
    let payload = if is_alone { &[] } else { message.payload() };
    let extension = (0x85, octets[..len].to_vec());
    let bytes = tunnelled(
        local,
        gtpu.teid.0,
        gtpu.message_type.0,
        None,
        &[extension],
        payload,
    );
    Some(Sent { bytes, ..*sent })
}

/// Rules of which some QERs ask for marks on behalf of the RAN: bit n is QER n.
fn with_marks(mut rules: SessionRules, which: u8) -> SessionRules {
    let ids: Vec<QerId> = rules.qers().iter().map(|qer| qer.id).collect();
    for (_, id) in ids
        .into_iter()
        .enumerate()
        .filter(|(place, _)| which >> (place % 8) & 1 == 1)
    {
        let update = QerUpdate {
            marks_l4s: Some(true),
            ..QerUpdate::new(id)
        };
        rules.update_qer(update).expect("it is there");
    }
    rules
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_packet_path_marks_for_the_ran_as_the_interpreter_says(
        (rules, which) in (runnable_rules(), 1..=u8::MAX),
        network in any_network(),
        packets in vec(any_sent(), 40),
        steps in vec(any_step_of_marked(), 1..40),
        how: (bool, bool),
    ) {
        let Some(mut trial) = Trial::start(with_marks(rules, which), network, how) else { return Ok(()) };
        let packets = with_ect_1(trial.choose(packets));
        trial.run(&packets, &steps);
        trial.finish();
    }
}

/// What these random worlds are worth: reports are heeded, and packets marked.
#[test]
fn random_worlds_mark_packets() {
    let mut runner = TestRunner::deterministic();
    let (mut reports, mut marked, mut consumed) = (0, 0, 0);
    for which in 1..=u8::MAX {
        let steps = vec(any_step_of_marked(), 60);
        let drawn = (runnable_rules(), any_network(), vec(any_sent(), 40), steps).new_tree(&mut runner);
        let (rules, network, packets, steps) = drawn.expect("they are drawn without conditions").current();
        let Some(mut trial) = Trial::start(with_marks(rules, which), network, (false, false)) else {
            continue;
        };
        let packets = with_ect_1(trial.choose(packets));
        trial.run(&packets, &steps);
        let stats = trial.world.workers[0].stats();
        assert_eq!(stats.congestion_marks, trial.congestion.marked);
        reports += stats.congestion_reports;
        marked += stats.congestion_marks;
        consumed += trial.consumed;
    }
    assert!(
        reports > 100 && marked > 5 && consumed > 50,
        "{reports} {marked} {consumed}"
    );
}
