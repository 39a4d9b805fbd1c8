//! The sessions of T7: a default flow and one more, 4 PDR, 4 FAR, 2 QER, 2 URR. Both flows share one tunnel, whose
//! F-TEID the user plane chooses.

use std::net::Ipv4Addr;

use sim::smf::{DownlinkSetup, QosFlow, RequestTemplates, SessionProfile};

use super::super::error::BenchError;
use super::super::model::{AMPLE_RATE, qfi, server_port};

/// Rules of a session: PDR, FAR, QER, URR.
pub const RULES: [u32; 4] = [4, 4, 2, 2];

/// The requests of the SMF at `address`.
///
/// # Errors
/// When the configuration of the SMF is out of bounds.
pub fn templates(address: Ipv4Addr) -> Result<RequestTemplates, BenchError> {
    let rate = AMPLE_RATE / 1_000;
    let profile = SessionProfile {
        choose_id: Some(1),
        downlink: DownlinkSetup::AtOnce,
        qfi: qfi(0),
        mbr: Some((rate, rate)),
        volume_threshold: Some(1 << 50),
        second_flow: Some(QosFlow {
            qfi: qfi(1),
            sdf: format!("permit out 17 from any {} to assigned", server_port(1)),
        }),
        ..SessionProfile::default()
    };
    RequestTemplates::new(address, profile).map_err(BenchError::of)
}

#[cfg(test)]
mod tests {
    use packet::Teid;
    use pfcp::{Frames, Message, Seid, SequenceNumber};
    use sim::smf::SessionValues;

    use super::*;

    const SESSION: SessionValues = SessionValues {
        cp_seid: Seid(7),
        ue: Ipv4Addr::new(10, 64, 0, 9),
        gnb: Ipv4Addr::new(10, 200, 0, 3),
        gnb_teid: Teid(77),
    };

    #[test]
    fn an_establishment_has_the_rules_that_the_target_names() {
        let mut templates = templates(Ipv4Addr::new(127, 70, 0, 1)).unwrap();
        let octets = templates.establishment(SequenceNumber::new(1), &SESSION);
        let frame = Frames::new(octets).next().unwrap().unwrap();
        let Message::SessionEstablishmentRequest(request) = Message::decode(&frame).unwrap() else {
            panic!()
        };
        let counts = [
            request.create_pdr.iter().count(),
            request.create_far.iter().count(),
            request.create_qer.iter().count(),
            request.create_urr.iter().count(),
        ];
        assert_eq!(counts.map(|count| count as u32), RULES);
    }

    /// Figures of T7 can be compared only if the requests are the same octets.
    #[test]
    fn the_octets_of_all_requests_are_those_of_earlier_figures() {
        let mut templates = templates(Ipv4Addr::new(127, 70, 0, 1)).unwrap();
        let (number, up) = (SequenceNumber::new(0x01_0203), Seid(0x1122));
        let all = [
            templates.association().to_vec(),
            templates.establishment(number, &SESSION).to_vec(),
            templates.modification(number, up, &SESSION).to_vec(),
            templates.deletion(number, up, &SESSION).to_vec(),
        ];
        let fnv = |octets: &[u8]| {
            octets.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
                (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        let earlier = [
            (30, 12_012_695_170_059_977_614),
            (777, 10_965_128_316_150_245_993),
            (116, 8_660_833_520_224_432_993),
            (16, 14_671_961_789_508_309_853),
        ];
        assert_eq!(all.map(|octets| (octets.len(), fnv(&octets))), earlier);
    }
}
