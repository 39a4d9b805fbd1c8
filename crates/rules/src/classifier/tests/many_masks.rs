//! A session whose PDRs have more different sets of QFIs, QERs and URRs than are looked through for an equal one.

use super::*;
use crate::model::{PdrId, Qer, QerId, Urr, UrrId};

/// PDRs, one for each port of the data network.
const PDRS: u16 = 600;
/// Sets of each kind; a set comes again behind as many others.
const SETS: u16 = 300;
/// QERs and URRs.
const RULES: u32 = 9;

/// The QFIs of a set: no two sets have the same two.
fn qfis(set: u16) -> [u8; 2] {
    let (first, distance) = (set % 30, set / 30);
    [first as u8 + 1, (first + distance) as u8 + 2]
}

/// The numbers of the QERs and URRs of a set: the bits of its own number from 1.
fn numbers(set: u16) -> impl Iterator<Item = u32> {
    (1..=RULES).filter(move |number| (set + 1) >> (number - 1) & 1 != 0)
}

fn rules_of_many_sets() -> SessionRules {
    let mut rules = session();
    for number in 1..=RULES {
        rules.create_qer(Qer::new(QerId(100 + number))).unwrap();
        rules.create_urr(Urr::volume(UrrId(100 + number))).unwrap();
    }
    for port in 0..PDRS {
        let mut pdi = Pdi::new(SourceInterface::Access);
        pdi.f_teid = Some(testing::f_teid(0x1001));
        pdi.qfis = qfis(port % SETS).map(Qfi::from_low_bits).to_vec().into();
        pdi.sdf_filters = [filter(&format!(
            "permit out 17 from any {} to assigned",
            port + 1
        ))]
        .into();
        let mut pdr = Pdr {
            outer_header_removal: rules.pdrs()[0].outer_header_removal,
            ..testing::pdr(10 + port, 10, pdi, 1)
        };
        for number in numbers(port % SETS) {
            pdr.qers.push(QerId(100 + number));
            pdr.urrs.push(UrrId(100 + number));
        }
        rules.create_pdr(pdr).unwrap();
    }
    rules
}

#[test]
fn sets_are_the_interpreters_however_many_there_are() {
    let network = testing::network();
    let rules = rules_of_many_sets();
    let image = image(rules.clone(), &network).unwrap();
    for port in 0..PDRS {
        let [first, second] = qfis(port % SETS);
        // The third QFI is one of the session's own PDR alone.
        for qfi in [first, second, second + 1] {
            let user = UserPacket::udp(testing::UE, remote(), 4000, port + 1);
            let sent = uplink(0x1001, qfi, &user);
            let (side, tuple) = seen(&network, &sent).unwrap();
            let conditions = Conditions {
                metering: Metering::Colour(Colour::Green),
                congestion: CongestionMarks::Turn(false),
                quotas: Quotas::default(),
                detection: Detection::Undecided,
                is_solicited: true,
            };
            let verdict = interpret_with(&rules, &network, sent.ingress, &sent.bytes, conditions);
            assert!(
                matches!(verdict.outcome, Outcome::Forwarded { .. }),
                "{verdict:?}"
            );
            let found = image.classifier.classify(&PacketView { side, tuple: &tuple });
            let decision = found.unwrap().decision;
            let pdr = &rules.pdrs()[usize::from(decision.pdr)];
            assert_eq!(Some(pdr.id), verdict.pdr);
            let is_own = qfi == first || qfi == second;
            assert_eq!(pdr.id, PdrId(if is_own { 10 + port } else { 1 }));
            let counted: Vec<UrrId> = verdict.counted.iter().map(|counted| counted.urr).collect();
            let urrs = (0..)
                .zip(rules.urrs())
                .filter(|(slot, _)| decision.urrs >> slot & 1 != 0);
            assert_eq!(urrs.map(|(_, urr)| urr.id).collect::<Vec<_>>(), counted);
            let qers = (0..)
                .zip(rules.qers())
                .filter(|(slot, _)| decision.qers >> slot & 1 != 0);
            assert_eq!(qers.map(|(_, qer)| qer.id).collect::<Vec<_>>(), *pdr.qers);
        }
    }
}
