//! An SDF filter, made ready: shared definitions looked up, sides told apart.

use flow::prefetch;

use super::reads::{End, Orientation, Reads};
use crate::image::CompileFault;
use crate::model::{SdfFilter, SessionRules, TosTrafficClass};
use crate::sdf::{Address, Endpoint, FlowDescription, PortRange};

/// What one SDF filter wants of a packet (TS 29.244 §8.2.5). With all left out it takes every packet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Filter {
    description: Option<FlowDescription>,
    tos: Option<TosTrafficClass>,
    spi: Option<u32>,
    flow_label: Option<u32>,
}

impl Filter {
    pub(super) fn new(filter: &SdfFilter, rules: &SessionRules) -> Result<Self, CompileFault> {
        let undefined = |id| CompileFault::UndefinedFilter(id);
        let defined = match (rules.resolve(filter), filter.filter_id) {
            (Some(defined), _) => defined,
            (None, Some(id)) => return Err(undefined(id)),
            (None, None) => filter,
        };
        Ok(Self {
            description: defined.flow_description.clone(),
            tos: defined.tos_traffic_class,
            spi: defined.spi,
            flow_label: defined.flow_label,
        })
    }

    /// Asks for the ports.
    pub(super) fn prefetch(&self) {
        if let Some(rule) = &self.description {
            prefetch::lines(&rule.ue_side().ports, 1);
            prefetch::lines(&rule.remote_side().ports, 1);
        }
    }

    /// Whether the packet fits. What is read is noted even if the answer is no: it told the answer. So the fields
    /// that most keys have anyway are looked at first.
    pub(super) fn matches(&self, orientation: Orientation, reads: &mut Reads<'_>) -> bool {
        self.tos.is_none_or(|tos| tos.matches(reads.tos()))
            && self
                .flow_label
                .is_none_or(|label| reads.flow_label() == Some(label))
            && self
                .description
                .as_ref()
                .is_none_or(|rule| fits(rule, orientation, reads))
            && self.spi.is_none_or(|spi| reads.spi() == Some(spi))
    }
}

/// Whether the 5-tuple fits. The description is written for the downlink (TS 29.244 §5.2.1A.2A).
fn fits(rule: &FlowDescription, orientation: Orientation, reads: &mut Reads<'_>) -> bool {
    let (ue, remote) = (rule.ue_side(), rule.remote_side());
    is_at(ue, orientation.ue_end(), reads)
        && is_at(remote, orientation.remote_end(), reads)
        && rule.protocol.is_none_or(|protocol| reads.protocol() == protocol)
        && has_port(&ue.ports, orientation.ue_end(), reads)
        && has_port(&remote.ports, orientation.remote_end(), reads)
}

fn is_at(side: &Endpoint, end: End, reads: &mut Reads<'_>) -> bool {
    match &side.address {
        Address::Any => true,
        Address::Assigned => reads.is_ue(end),
        Address::Prefix(prefix) => reads.is_in(end, prefix),
    }
}

fn has_port(ports: &[PortRange], end: End, reads: &mut Reads<'_>) -> bool {
    if ports.is_empty() {
        return true;
    }
    let port = reads.port(end);
    ports.iter().any(|range| range.contains(port))
}
