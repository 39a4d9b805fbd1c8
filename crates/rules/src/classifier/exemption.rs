//! Which packets a URR's quota does not stop although it is used up (TS 29.244 §5.2.2.2.1): those of some applications,
//! and of some SDF filters.
//!
//! It is asked for each packet that a quota stops, and for no other: no flow's entry knows of it. So the filters are
//! tried one by one, and there are [few](crate::compile::MAX_EXEMPT_FLOWS).

use std::sync::Arc;

use flow::Direction;

use super::packed::{Builder, Span, View};
use super::reads::{Orientation, Reads};
use super::{PacketView, filter};
use crate::image::CompileFault;
use crate::model::{SessionRules, Urr};

/// The filters of one URR.
#[derive(Clone, PartialEq, Debug)]
pub struct Exemption {
    patterns: Arc<[u64]>,
    filters: Span,
}

impl Exemption {
    /// What `urr` exempts, if anything, and how many filters and ranges of ports that takes.
    ///
    /// # Errors
    /// An SDF filter has only an id, which nothing defines.
    pub(crate) fn new(urr: &Urr, rules: &SessionRules) -> Result<Option<(Self, usize)>, CompileFault> {
        let terms = urr.terms();
        let flows = terms.exempt_applications.iter().flat_map(|one| one.flows.iter());
        if terms.exempt_filters.is_empty() && flows.clone().next().is_none() {
            return Ok(None);
        }
        let mut builder = Builder::new(&rules.ue_prefixes(), false, 0)?;
        let mut filters = Vec::new();
        for one in &terms.exempt_filters {
            filters.push(filter::packed(&mut builder, one, rules)?);
        }
        for one in flows {
            filters.push(filter::flow(&mut builder, one)?);
        }
        let takes = filters.iter().map(|one| 1 + one.port_ranges()).sum();
        let exemption = Self {
            filters: builder.filters(&filters)?,
            patterns: builder.pack(),
        };
        Ok(Some((exemption, takes)))
    }

    /// Whether it takes a packet of a PDR for this direction.
    pub fn takes(&self, packet: &PacketView<'_>, direction: Direction) -> bool {
        let view = View::of(&self.patterns);
        let mut reads = Reads::new(packet, &view);
        let orientation = match direction {
            Direction::Uplink => Orientation::Uplink,
            Direction::Downlink => Orientation::Downlink,
        };
        let mut filters = view.filters(self.filters).iter();
        filters.any(|one| filter::matches(one, orientation, &view, &mut reads))
    }
}
