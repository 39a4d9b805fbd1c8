//! Flows of which nothing is known yet: what the inspector and nDPI make of their packets.
//!
//! What the inspector finds counts. nDPI is shown what begins nothing that the inspector knows, from the flow's first
//! payload on, in sessions whose rules ask for that. What it says is taken once the inspector has found nothing.

use dpi::{Layer4, Reason, Sender, Verdict};
use flow::SessionIndex;

use super::flow_records::{FlowRecords, FlowState, RecordPlace};
use super::inspections::Inspections;
use super::looks::{Looks, NdpiLook};
use super::ndpi_flows::{NdpiFlows, ShownPacket};
use crate::stats::Stats;

/// What looks at such flows, and what is known of them.
pub(super) struct Lookers<'a> {
    pub(super) inspections: &'a mut Inspections,
    /// nDPI, if rules of the session ask for what it says.
    pub(super) ndpi: Option<&'a mut NdpiFlows>,
    pub(super) records: &'a mut FlowRecords,
}

/// What a packet makes of a flow.
pub(super) enum Looked {
    /// The inspector has found what it is ([`Inspections::found`]).
    Found,
    /// The state of its record.
    State(FlowState),
}

impl Lookers<'_> {
    /// Shows them a packet of the flow of a session's record.
    pub(super) fn look(
        self,
        of: (RecordPlace, SessionIndex),
        looks: Looks,
        (sender, layer4): (Sender, &Layer4<'_>),
        packet: &ShownPacket<'_>,
        stats: &mut Stats,
    ) -> Looked {
        let Lookers {
            inspections,
            mut ndpi,
            records,
        } = self;
        let mut next = looks;
        let mut has_begun = false;
        if let Some(flow) = looks.own {
            match inspections.inspect(flow, (sender, layer4), records, stats) {
                Verdict::Undecided => has_begun = inspections.has_begun(flow),
                Verdict::Found(_) => {
                    end(&mut ndpi, looks.ndpi);
                    return Looked::Found;
                }
                Verdict::Undetected(reason) => {
                    next.own = None;
                    if !may_be_another(reason) {
                        end(&mut ndpi, looks.ndpi);
                        next.ndpi = NdpiLook::Over;
                    }
                }
            }
        }
        if let Some(ndpi) = ndpi.filter(|_| !has_begun && !layer4.payload().is_empty()) {
            next.ndpi = ndpi.show(next.ndpi, of, packet, (records, stats));
        }
        Looked::State(FlowState::after(next, stats))
    }
}

fn end(ndpi: &mut Option<&mut NdpiFlows>, look: NdpiLook) {
    if let Some(ndpi) = ndpi {
        ndpi.end_look(look);
    }
}

/// Whether a flow in which the inspector found nothing may be of another protocol. One that can be read in two ways, or
/// that there was no room for, may not: a client has made it so, or many.
fn may_be_another(reason: Reason) -> bool {
    match reason {
        Reason::Unknown | Reason::Malformed | Reason::Budget | Reason::NoQuic => true,
        Reason::TooLong | Reason::Ambiguous | Reason::OwnersShare | Reason::NoBlock | Reason::NotOpen => {
            false
        }
    }
}
