//! Which PDRs were tried for a packet, and why each is not the one: what a person asks when a packet went another way
//! than meant.

use std::fmt;

use packet::gtpu::MessageType;
use packet::{DropReason, IpTuple};

use super::arrival::Arrival;
use super::{Quotas, Session, ue_end};
use crate::model::{Pdr, PdrId, Precedence, SessionRules};
use crate::network::{InstanceId, Network};

/// A PDR that was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried {
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

/// The PDRs of a session in the order in which they are tried for a packet.
///
/// # Errors
/// Why the packet has none to be tried.
pub fn tried(
    rules: &SessionRules,
    network: &Network,
    ingress: InstanceId,
    packet: &[u8],
) -> Result<Vec<Tried>, DropReason> {
    let session = Session::new(rules, network, Quotas::default());
    let arrival = Arrival::parse(network, ingress, packet)?;
    let tuple = match &arrival {
        Arrival::Tunnel(tunnel) if tunnel.message_type != MessageType::G_PDU => None,
        _ => Some(arrival.user_tuple()?),
    };
    let mut pdrs: Vec<&Pdr> = rules.pdrs().iter().collect();
    pdrs.sort_by_key(|pdr| pdr.precedence);
    let tried = pdrs.into_iter().map(|pdr| Tried {
        pdr: pdr.id,
        precedence: pdr.precedence,
        mismatch: session.mismatch(pdr, &arrival, tuple.as_ref()),
    });
    Ok(tried.collect())
}

impl Session<'_> {
    /// The first thing of a PDR that a packet lacks.
    fn mismatch(self, pdr: &Pdr, arrival: &Arrival<'_>, tuple: Option<&IpTuple>) -> Option<Mismatch> {
        let interface = pdr.pdi.source_interface;
        if let Some(lacks) = self.mismatch_of_arrival(pdr, arrival) {
            return Some(lacks);
        }
        let tuple = tuple?;
        let has_address = || {
            pdr.pdi.ue_prefixes().next().is_none()
                || super::detect::has_ue_address(pdr, ue_end(interface, tuple))
        };
        let mut filters = pdr.pdi.sdf_filters.iter();
        let application = pdr.pdi.application.as_ref();
        if !has_address() {
            Some(Mismatch::UeAddress)
        } else if !pdr.pdi.sdf_filters.is_empty()
            && !filters.any(|filter| self.fits(filter, interface, tuple))
        {
            Some(Mismatch::SdfFilter)
        } else if application.is_some_and(|application| !self.is_of(application, interface, tuple)) {
            Some(Mismatch::Application)
        } else if self.with_rule(pdr, Some(tuple)).is_none() {
            Some(Mismatch::PredefinedRule)
        } else {
            None
        }
    }

    /// The same of how it came in.
    fn mismatch_of_arrival(self, pdr: &Pdr, arrival: &Arrival<'_>) -> Option<Mismatch> {
        match arrival {
            Arrival::Tunnel(tunnel) if pdr.pdi.f_teid.is_some() && !super::detect::names(pdr, tunnel) => {
                Some(Mismatch::FTeid)
            }
            _ if !self.comes_from(pdr, arrival) => Some(Mismatch::SourceInterface),
            Arrival::Tunnel(tunnel)
                if tunnel.message_type != MessageType::G_PDU && !super::detect::names(pdr, tunnel) =>
            {
                Some(Mismatch::FTeid)
            }
            Arrival::Tunnel(tunnel) => {
                let is_bare = tunnel.message_type != MessageType::G_PDU && tunnel.qfi.is_none();
                (!is_bare && !super::detect::has_qfi(pdr, tunnel.qfi)).then_some(Mismatch::Qfi)
            }
            Arrival::Plain { .. } if pdr.pdi.f_teid.is_some() => Some(Mismatch::FTeid),
            Arrival::Plain { .. } if !pdr.pdi.qfis.is_empty() => Some(Mismatch::Qfi),
            Arrival::Plain { vrf, .. } => (!self.is_instance(pdr, *vrf)).then_some(Mismatch::NetworkInstance),
        }
    }
}
