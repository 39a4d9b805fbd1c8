//! Packs SDF filters, and matches packets against packed ones.

use flow::Direction;

use super::filter::SdfFilter;
use super::packed::{
    Addresses, Fields, PackedEnd, PackedFilter, PatternBuilder, PatternView, TooManyPatterns,
};
use super::reader::{End, FieldReader, remote_end, ue_end};
use super::{Address, Endpoint, FlowDescription};

/// Packs a flow of an application: a filter with a flow description only.
pub(crate) fn pack_flow(
    builder: &mut PatternBuilder,
    flow: &FlowDescription,
) -> Result<PackedFilter, TooManyPatterns> {
    let filter = SdfFilter {
        flow_description: Some(flow.clone()),
        ..SdfFilter::default()
    };
    pack_filter(builder, &filter)
}

/// Packs the pattern of an SDF filter (TS 29.244 §8.2.5). One without any matches every packet.
pub(crate) fn pack_filter(
    builder: &mut PatternBuilder,
    filter: &SdfFilter,
) -> Result<PackedFilter, TooManyPatterns> {
    let flow = filter.flow_description.as_ref();
    let ends = match flow {
        Some(flow) => [side(builder, flow.ue_side())?, side(builder, flow.remote_side())?],
        None => [PackedEnd::default(); 2],
    };
    let fields = Fields {
        protocol: flow.and_then(|flow| flow.protocol),
        tos: filter.tos_traffic_class,
        spi: filter.spi,
        flow_label: filter.flow_label,
    };
    Ok(PackedFilter::new(ends, &fields))
}

fn side(builder: &mut PatternBuilder, end: &Endpoint) -> Result<PackedEnd, TooManyPatterns> {
    let addresses = match end.address {
        Address::Any => Addresses::Any,
        Address::Assigned => Addresses::Assigned,
        Address::Prefix(prefix) => Addresses::Prefix(prefix),
    };
    builder.side(addresses, &end.ports)
}

/// Whether the packet fits. What is read is noted even if the answer is no: it decided the result. So the fields that
/// most keys have anyway are looked at first. A flow description is written for the downlink (TS 29.244 §5.2.1A.2A).
pub(crate) fn matches(
    filter: &PackedFilter,
    direction: Direction,
    view: &PatternView<'_>,
    reader: &mut FieldReader<'_>,
) -> bool {
    let fields = filter.fields();
    let (ue, remote) = (ue_end(direction), remote_end(direction));
    fields.tos.is_none_or(|tos| tos.matches(reader.tos()))
        && fields
            .flow_label
            .is_none_or(|label| reader.flow_label() == Some(label))
        && is_at(&filter.ue, ue, view, reader)
        && is_at(&filter.remote, remote, view, reader)
        && fields
            .protocol
            .is_none_or(|protocol| reader.protocol() == protocol)
        && has_port(&filter.ue, ue, view, reader)
        && has_port(&filter.remote, remote, view, reader)
        && fields.spi.is_none_or(|spi| reader.spi() == Some(spi))
}

fn is_at(side: &PackedEnd, end: End, view: &PatternView<'_>, reader: &mut FieldReader<'_>) -> bool {
    match side.addresses(view) {
        Addresses::Any => true,
        Addresses::Assigned => reader.is_ue(end),
        Addresses::Prefix(prefix) => reader.is_in(end, &prefix),
    }
}

fn has_port(side: &PackedEnd, end: End, view: &PatternView<'_>, reader: &mut FieldReader<'_>) -> bool {
    side.ports.is_empty() || view.has_port(side.ports, reader.port(end))
}
