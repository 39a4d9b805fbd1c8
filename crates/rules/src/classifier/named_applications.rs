//! The applications of a session's PDRs that are known by names.
//!
//! A name is looked up once for all names of an application, which all sessions share ([`NamedPfds`]); what a session
//! has of its own are the flows that PFDs have beside names.

use std::sync::Arc;

use flow::Direction;

use super::filters::pack_flows;
use crate::model::{Application, DetectionReads, NamedPfds};
use crate::sdf::{FieldReader, PatternBuilder, PatternView, Span, TooManyPatterns, matches};

/// The application of one PDR.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NamedApplication {
    /// The slot of the PDR.
    pdr: u16,
    pfds: Arc<NamedPfds>,
    /// The flows of each PFD; empty: any.
    flows: Box<[Span]>,
}

impl NamedApplication {
    /// That of the PDR in this slot, if it has names; its flows are among the patterns.
    pub(super) fn new(
        builder: &mut PatternBuilder,
        pdr: u16,
        application: &Application,
    ) -> Result<Option<Self>, TooManyPatterns> {
        let all = application.named.all();
        if all.is_empty() {
            return Ok(None);
        }
        let flows = all.iter().map(|pfd| pack_flows(builder, &pfd.flows));
        Ok(Some(Self {
            pdr,
            flows: flows.collect::<Result<_, _>>()?,
            pfds: Arc::clone(&application.named),
        }))
    }

    /// Whether it is by the very same names, with flows in the same places.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pfds, &other.pfds) && (self.pdr, &self.flows) == (other.pdr, &other.flows)
    }

    pub(super) fn reads(&self) -> DetectionReads {
        self.pfds.reads()
    }

    /// Whether it is that of the PDR in this slot.
    pub(super) fn is_of(&self, pdr: u16) -> bool {
        self.pdr == pdr
    }

    /// Whether a packet is of it.
    pub(super) fn detects(
        &self,
        direction: Direction,
        patterns: &PatternView<'_>,
        reader: &mut FieldReader<'_>,
    ) -> bool {
        let fits = |place: u32, reader: &mut FieldReader<'_>| {
            let flows = self.flows.get(place as usize).copied().unwrap_or_default();
            let flows = patterns.filters(flows);
            flows.is_empty()
                || flows
                    .iter()
                    .any(|flow| matches(flow, direction, patterns, reader))
        };
        // Only where a PFD's flows fit does it matter what the flow is for.
        let may_be = (0..self.flows.len() as u32).any(|place| fits(place, reader));
        let flow = may_be.then(|| reader.detected()).flatten();
        flow.is_some_and(|flow| self.pfds.places(flow).any(|place| fits(place, reader)))
    }
}
