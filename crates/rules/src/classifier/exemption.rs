//! Which packets a URR's quota does not stop although it is used up (TS 29.244 §5.2.2.2.1): those of some applications,
//! and of some SDF filters.
//!
//! It is asked for each packet that a quota stops, and for no other: no flow's entry knows of it. So the filters are
//! tried one by one, and there are [few](crate::compile::MAX_EXEMPT_FLOWS).

use std::sync::Arc;

use flow::Direction;

use super::filters::pack_shared;
use crate::compile_error::CompileFault;
use crate::model::{SessionRules, Urr};
use crate::packet_view::PacketView;
use crate::sdf::{FieldReader, PatternBuilder, PatternView, Span, matches, pack_flow};

/// The filters of one URR.
#[derive(Clone, PartialEq, Debug)]
pub struct Exemption {
    patterns: Arc<[u64]>,
    filters: Span,
}

impl Exemption {
    /// What `urr` exempts, if anything.
    ///
    /// # Errors
    /// An SDF filter has only an id, which nothing defines.
    pub(crate) fn new(urr: &Urr, rules: &SessionRules) -> Result<Option<Self>, CompileFault> {
        let terms = urr.terms();
        let flows = terms.exempt_applications.iter().flat_map(|one| one.flows.iter());
        if terms.exempt_filters.is_empty() && flows.clone().next().is_none() {
            return Ok(None);
        }
        let mut builder = PatternBuilder::new(&rules.ue_prefixes())?;
        let mut filters = Vec::new();
        for one in &terms.exempt_filters {
            filters.push(pack_shared(&mut builder, one, rules)?);
        }
        for one in flows {
            filters.push(pack_flow(&mut builder, one)?);
        }
        Ok(Some(Self {
            filters: builder.filters(&filters)?,
            patterns: builder.pack(),
        }))
    }

    /// The number of its filters and of the ranges of ports in them.
    pub(crate) fn size(&self) -> usize {
        let view = PatternView::of(&self.patterns);
        let filters = view.filters(self.filters).iter();
        filters.map(|one| 1 + one.port_ranges()).sum()
    }

    /// Whether a packet of a PDR for this direction is exempted.
    pub fn takes(&self, packet: &PacketView<'_>, direction: Direction) -> bool {
        let view = PatternView::of(&self.patterns);
        let mut reader = FieldReader::new(packet, &view, false);
        let mut filters = view.filters(self.filters).iter();
        filters.any(|one| matches(one, direction, &view, &mut reader))
    }
}
