//! The PDRs of a session in the order of evaluation for a packet, and why each does not match.

use std::fmt;

use packet::gtpu::MessageType;
use packet::{DropReason, IpTuple};

use super::arrival::Arrival;
use super::detect::{
    comes_from, fits, has_qfi, has_ue_address, is_instance, is_of, names, ue_end, with_rule,
};
use super::session::{Quotas, Session};
use crate::model::{Pdr, PdrId, Precedence, SessionRules};
use crate::network::{InstanceId, Network};
use crate::packet_view::Detection;

/// A PDR that was evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvaluatedPdr {
    /// The PDR.
    pub pdr: PdrId,
    /// Its precedence: the lowest value is tried first.
    pub precedence: Precedence,
    /// Why it is not the packet's; `None`: it is, or would be if none before it were.
    pub mismatch: Option<Mismatch>,
}

/// The first thing of a PDI that a packet lacks (TS 29.244 §5.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mismatch {
    /// The Source Interface: it came from the other side.
    SourceInterface,
    /// The Local F-TEID: it came in another tunnel, or in none.
    FTeid,
    /// The Network Instance.
    NetworkInstance,
    /// The QFI: it has another one, or none.
    Qfi,
    /// The UE IP Address, or a framed route.
    UeAddress,
    /// None of the SDF Filters describes it.
    SdfFilter,
    /// It is not of the Application.
    Application,
    /// No predefined rule of those that the PDR activates describes it.
    PredefinedRule,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceInterface => "the source interface is another",
            Self::FTeid => "the F-TEID is another",
            Self::NetworkInstance => "the network instance is another",
            Self::Qfi => "the QFI is another, or there is none",
            Self::UeAddress => "the UE address is another",
            Self::SdfFilter => "no SDF filter describes it",
            Self::Application => "it is not of the application",
            Self::PredefinedRule => "no predefined rule describes it",
        })
    }
}

/// The PDRs of a session in the order in which they are evaluated for a packet.
///
/// # Errors
/// Why the packet is dropped before any PDR is evaluated.
pub fn evaluate_pdrs(
    rules: &SessionRules,
    network: &Network,
    ingress: InstanceId,
    packet: &[u8],
) -> Result<Vec<EvaluatedPdr>, DropReason> {
    let session = Session {
        rules,
        network,
        quotas: Quotas::default(),
        detection: Detection::Undecided,
        is_solicited: false,
    };
    let arrival = Arrival::parse(network, ingress, packet)?;
    let tuple = match &arrival {
        Arrival::Tunnel(tunnel) if tunnel.message_type != MessageType::G_PDU => None,
        _ => Some(arrival.user_tuple()?),
    };
    let mut pdrs: Vec<&Pdr> = rules.pdrs().iter().collect();
    pdrs.sort_by_key(|pdr| pdr.precedence);
    let evaluated = pdrs.into_iter().map(|pdr| EvaluatedPdr {
        pdr: pdr.id,
        precedence: pdr.precedence,
        mismatch: mismatch(session, pdr, &arrival, tuple.as_ref()),
    });
    Ok(evaluated.collect())
}

/// The first thing of a PDR that a packet lacks.
fn mismatch(
    session: Session<'_>,
    pdr: &Pdr,
    arrival: &Arrival<'_>,
    tuple: Option<&IpTuple>,
) -> Option<Mismatch> {
    let interface = pdr.pdi.source_interface;
    if let Some(lacks) = mismatch_of_arrival(session, pdr, arrival) {
        return Some(lacks);
    }
    let tuple = tuple?;
    let has_address =
        || pdr.pdi.ue_prefixes().next().is_none() || has_ue_address(pdr, ue_end(interface, tuple));
    let mut filters = pdr.pdi.sdf_filters.iter();
    let application = pdr.pdi.optional.application.as_ref();
    if !has_address() {
        Some(Mismatch::UeAddress)
    } else if !pdr.pdi.sdf_filters.is_empty()
        && !filters.any(|filter| fits(session, filter, interface, tuple))
    {
        Some(Mismatch::SdfFilter)
    } else if application.is_some_and(|application| !is_of(session, application, interface, tuple)) {
        Some(Mismatch::Application)
    } else if with_rule(session, pdr, Some(tuple)).is_none() {
        Some(Mismatch::PredefinedRule)
    } else {
        None
    }
}

/// The same of how it came in.
fn mismatch_of_arrival(session: Session<'_>, pdr: &Pdr, arrival: &Arrival<'_>) -> Option<Mismatch> {
    match arrival {
        Arrival::Tunnel(tunnel) if pdr.pdi.f_teid.is_some() && !names(pdr, tunnel) => Some(Mismatch::FTeid),
        _ if !comes_from(session, pdr, arrival) => Some(Mismatch::SourceInterface),
        Arrival::Tunnel(tunnel) if tunnel.message_type != MessageType::G_PDU && !names(pdr, tunnel) => {
            Some(Mismatch::FTeid)
        }
        Arrival::Tunnel(tunnel) => {
            let is_bare = tunnel.message_type != MessageType::G_PDU && tunnel.qfi.is_none();
            (!is_bare && !has_qfi(pdr, tunnel.qfi)).then_some(Mismatch::Qfi)
        }
        Arrival::Plain { .. } if pdr.pdi.f_teid.is_some() => Some(Mismatch::FTeid),
        Arrival::Plain { .. } if !pdr.pdi.qfis.is_empty() => Some(Mismatch::Qfi),
        Arrival::Plain { vrf, .. } => (!is_instance(session, pdr, *vrf)).then_some(Mismatch::NetworkInstance),
    }
}
