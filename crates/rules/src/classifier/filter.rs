//! SDF filters: shared definitions looked up, sides told apart, packed; and held against packets.

use super::packed::{Addresses, Builder, Fields, Filter, Side, TooMany, View};
use super::reads::{End, Orientation, Reads};
use crate::image::CompileFault;
use crate::model::{SdfFilter, SessionRules};
use crate::sdf::{Address, Endpoint, FlowDescription};

/// What one SDF filter wants of a packet (TS 29.244 §8.2.5), packed. With all left out it takes every packet.
pub(super) fn packed(
    builder: &mut Builder,
    filter: &SdfFilter,
    rules: &SessionRules,
) -> Result<Filter, CompileFault> {
    let defined = match (rules.resolve(filter), filter.filter_id) {
        (Some(defined), _) => defined,
        (None, Some(id)) => return Err(CompileFault::UndefinedFilter(id)),
        (None, None) => filter,
    };
    Ok(pattern(builder, defined)?)
}

/// A flow of an application, packed: as a filter with nothing else.
pub(super) fn flow(builder: &mut Builder, flow: &FlowDescription) -> Result<Filter, TooMany> {
    let defined = SdfFilter {
        flow_description: Some(flow.clone()),
        ..SdfFilter::default()
    };
    pattern(builder, &defined)
}

/// The same of a filter that says itself what it wants.
pub(super) fn pattern(builder: &mut Builder, defined: &SdfFilter) -> Result<Filter, TooMany> {
    let rule = defined.flow_description.as_ref();
    let ends = match rule {
        Some(rule) => [side(builder, rule.ue_side())?, side(builder, rule.remote_side())?],
        None => [Side::default(); 2],
    };
    let fields = Fields {
        protocol: rule.and_then(|rule| rule.protocol),
        tos: defined.tos_traffic_class,
        spi: defined.spi,
        flow_label: defined.flow_label,
    };
    Ok(Filter::new(ends, &fields))
}

fn side(builder: &mut Builder, end: &Endpoint) -> Result<Side, TooMany> {
    let addresses = match end.address {
        Address::Any => Addresses::Any,
        Address::Assigned => Addresses::Assigned,
        Address::Prefix(prefix) => Addresses::Prefix(prefix),
    };
    builder.side(addresses, &end.ports)
}

/// Whether the packet fits. What is read is noted even if the answer is no: it told the answer. So the fields that
/// most keys have anyway are looked at first. A flow description is written for the downlink (TS 29.244 §5.2.1A.2A).
pub(super) fn matches(
    filter: &Filter,
    orientation: Orientation,
    view: &View<'_>,
    reads: &mut Reads<'_>,
) -> bool {
    let fields = filter.fields();
    let (ue, remote) = (orientation.ue_end(), orientation.remote_end());
    fields.tos.is_none_or(|tos| tos.matches(reads.tos()))
        && fields
            .flow_label
            .is_none_or(|label| reads.flow_label() == Some(label))
        && is_at(&filter.ue, ue, view, reads)
        && is_at(&filter.remote, remote, view, reads)
        && fields
            .protocol
            .is_none_or(|protocol| reads.protocol() == protocol)
        && has_port(&filter.ue, ue, view, reads)
        && has_port(&filter.remote, remote, view, reads)
        && fields.spi.is_none_or(|spi| reads.spi() == Some(spi))
}

fn is_at(side: &Side, end: End, view: &View<'_>, reads: &mut Reads<'_>) -> bool {
    match side.addresses(view) {
        Addresses::Any => true,
        Addresses::Assigned => reads.is_ue(end),
        Addresses::Prefix(prefix) => reads.is_in(end, &prefix),
    }
}

fn has_port(side: &Side, end: End, view: &View<'_>, reads: &mut Reads<'_>) -> bool {
    side.ports.is_empty() || view.has_port(side.ports, reads.port(end))
}
