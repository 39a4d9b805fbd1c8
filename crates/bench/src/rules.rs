//! The models' sessions as rules of TS 29.244.

use std::net::Ipv4Addr;

use flow::Direction;
use packet::{Qfi, Teid};
use rules::SessionRules;
use rules::model::{
    ApplyAction, BitRates, BitsPerSecond, DestinationInterface, EditError, FTeid, Far, FarId,
    ForwardingParameters, OuterHeader, OuterHeaderCreation, OuterHeaderRemoval, Pdi, Pdr, PdrId, Precedence,
    Qer, QerId, RuleIds, SdfFilter, SourceInterface, UeIpAddress, Urr, UrrId,
};

use super::model::{AMPLE_RATE, LIMITED_BEARERS, LIMITED_RATE, Model, qfi, server_port};
use super::network::{N3_ADDRESS, gnb};

/// Address and TEID that identify a session's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UE's address.
    pub ue: Ipv4Addr,
    /// The TEID of its tunnel on N3.
    pub teid: u32,
}

const UPLINK: FarId = FarId(1);
const DOWNLINK: FarId = FarId(2);
/// The QER and URR over all bearers.
pub const WHOLE_SESSION: u32 = 100;

/// The rules of session number `session`: for each bearer a PDR each way, and the QERs and URRs of the model.
///
/// # Errors
/// None: all ids differ.
pub fn session_rules(model: &Model, session: u32, identity: Identity) -> Result<SessionRules, EditError> {
    let mut rules = SessionRules::new();
    for bearer in 0..model.bearers as u8 {
        rules.create_pdr(uplink(model, bearer, identity))?;
        rules.create_pdr(downlink(model, bearer, identity))?;
        rules.create_qer(bearer_qer(model, session, bearer))?;
        if model.policy.urrs > 0 {
            rules.create_urr(Urr::volume(UrrId(bearer.into())))?;
        }
    }
    if model.policy.session_qer {
        let mbr = Some(rates(AMPLE_RATE));
        rules.create_qer(Qer {
            mbr,
            ..Qer::new(QerId(WHOLE_SESSION))
        })?;
    }
    if model.policy.urrs > 1 {
        rules.create_urr(Urr::volume(UrrId(WHOLE_SESSION)))?;
    }
    rules.create_far(forward(
        UPLINK,
        ForwardingParameters::new(DestinationInterface::Core),
    ))?;
    let mut to_gnb = ForwardingParameters::new(DestinationInterface::Access);
    to_gnb.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(session + 1), gnb(session)));
    rules.create_far(forward(DOWNLINK, to_gnb))?;
    Ok(rules)
}

const fn rates(rate: u64) -> BitRates {
    let rate = BitsPerSecond(rate);
    BitRates { ul: rate, dl: rate }
}

/// Whether a QER of this PDR lets nothing pass, so that each of its packets is red.
#[must_use]
pub fn is_limited(rules: &SessionRules, pdr: PdrId) -> bool {
    let of_pdr = rules.pdrs().iter().find(|one| one.id == pdr);
    let limited = |qer: &&Qer| qer.mbr == Some(rates(LIMITED_RATE));
    let mut limited = rules.qers().iter().filter(limited);
    of_pdr.is_some_and(|pdr| limited.any(|qer| pdr.qers.contains(&qer.id)))
}

fn bearer_qer(model: &Model, session: u32, bearer: u8) -> Qer {
    let number = session * model.bearers + u32::from(bearer);
    let limited = model.policy.limits && number % LIMITED_BEARERS == LIMITED_BEARERS - 1;
    let rate = if limited { LIMITED_RATE } else { AMPLE_RATE };
    Qer {
        qfi: Qfi::new(qfi(bearer)),
        mbr: model.policy.bearer_qer.then_some(rates(rate)),
        ..Qer::new(QerId(bearer.into()))
    }
}

const fn forward(id: FarId, parameters: ForwardingParameters) -> Far {
    Far {
        id,
        action: ApplyAction::FORW,
        forwarding: Some(parameters),
        optional: rules::boxed_option::BoxedOption::NONE,
        bar: None,
    }
}

fn uplink(model: &Model, bearer: u8, identity: Identity) -> Pdr {
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(FTeid {
        teid: Teid(identity.teid),
        ipv4: Some(N3_ADDRESS),
        ipv6: None,
    });
    if model.bearers > 1 {
        pdi.qfis = Qfi::new(qfi(bearer)).into_iter().collect();
    }
    let removal = OuterHeaderRemoval {
        header: OuterHeader::GtpuUdpIpv4,
        deletes_psc: false,
    };
    pdr(model, bearer, Direction::Uplink, pdi, Some(removal))
}

fn downlink(model: &Model, bearer: u8, identity: Identity) -> Pdr {
    let mut pdi = Pdi::new(SourceInterface::Core);
    pdi.ue_ip = vec![UeIpAddress {
        ipv4: Some(identity.ue),
        ipv6: None,
        is_destination: true,
    }]
    .into();
    // The default bearer, the first, takes what no other does.
    if bearer > 0 {
        let description = format!("permit out 17 from any {} to assigned", server_port(bearer));
        pdi.sdf_filters = [SdfFilter {
            flow_description: description.parse().ok(),
            ..SdfFilter::default()
        }]
        .into();
    }
    pdr(model, bearer, Direction::Downlink, pdi, None)
}

fn pdr(
    model: &Model,
    bearer: u8,
    direction: Direction,
    pdi: Pdi,
    removal: Option<OuterHeaderRemoval>,
) -> Pdr {
    let mut qers = RuleIds::from([QerId(bearer.into())]);
    qers.extend(model.policy.session_qer.then_some(QerId(WHOLE_SESSION)));
    let urrs = [UrrId(bearer.into()), UrrId(WHOLE_SESSION)];
    Pdr {
        id: PdrId(u16::from(bearer) * 2 + direction as u16 + 1),
        precedence: Precedence(255 - u32::from(bearer)),
        pdi,
        outer_header_removal: removal,
        far: Some([UPLINK, DOWNLINK][direction as usize]),
        qers,
        urrs: urrs.into_iter().take(model.policy.urrs.into()).collect(),
        rulebases: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(model: &Model, session: u32) -> SessionRules {
        let identity = Identity {
            ue: Ipv4Addr::new(10, 64, 0, 1),
            teid: 7,
        };
        session_rules(model, session, identity).unwrap()
    }

    #[test]
    fn a_session_of_model_v_has_what_the_target_names() {
        let rules = rules(&Model::v(2, 1).unwrap(), 5);
        let counts = (
            rules.pdrs().len(),
            rules.fars().len(),
            rules.qers().len(),
            rules.urrs().len(),
        );
        assert_eq!(counts, (4, 2, 3, 3));
        assert!(
            rules
                .pdrs()
                .iter()
                .all(|pdr| (pdr.qers.len(), pdr.urrs.len()) == (2, 2))
        );
        assert!(rules.qers().iter().all(|qer| qer.mbr.is_some()));
    }

    #[test]
    fn a_session_of_the_open_upfs_has_two_pdrs_two_fars_one_qer_one_urr() {
        let rules = rules(&Model::open(), 5);
        let counts = (
            rules.pdrs().len(),
            rules.fars().len(),
            rules.qers().len(),
            rules.urrs().len(),
        );
        assert_eq!(counts, (2, 2, 1, 1));
    }

    #[test]
    fn between_one_and_five_per_cent_of_the_bearers_are_limited() {
        let model = Model::v(2, 1).unwrap();
        let limited = (0..1_000).flat_map(|session| rules(&model, session).qers().to_vec());
        let limited = limited.filter(|qer| qer.mbr == Some(rates(LIMITED_RATE))).count();
        assert!((20..=100).contains(&limited), "{limited} of 2000");
    }
}
