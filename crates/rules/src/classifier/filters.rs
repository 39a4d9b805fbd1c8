//! The SDF filters of a session's rules, packed.

use crate::compile_error::CompileFault;
use crate::model::{Application, SessionRules};
use crate::sdf::{
    FlowDescription, PackedFilter, PatternBuilder, SdfFilter, Span, TooManyPatterns, pack_filter, pack_flow,
};

/// Packs an SDF filter, or the definition that is shared under its id.
pub(super) fn pack_shared(
    builder: &mut PatternBuilder,
    filter: &SdfFilter,
    rules: &SessionRules,
) -> Result<PackedFilter, CompileFault> {
    let defined = match (rules.resolve(filter), filter.filter_id) {
        (Some(defined), _) => defined,
        (None, Some(id)) => return Err(CompileFault::UndefinedFilter(id)),
        (None, None) => filter,
    };
    Ok(pack_filter(builder, defined)?)
}

/// Packs the flows of an application: those that describe its packets by themselves.
pub(super) fn pack_application(
    builder: &mut PatternBuilder,
    application: &Application,
) -> Result<Span, TooManyPatterns> {
    pack_flows(builder, &application.flows)
}

/// Packs flow descriptions.
pub(super) fn pack_flows(
    builder: &mut PatternBuilder,
    flows: &[FlowDescription],
) -> Result<Span, TooManyPatterns> {
    let mut packed = Vec::with_capacity(flows.len());
    for flow in flows {
        packed.push(pack_flow(builder, flow)?);
    }
    builder.filters(&packed)
}

impl From<TooManyPatterns> for CompileFault {
    fn from(_: TooManyPatterns) -> Self {
        Self::TooMany { max: u16::MAX }
    }
}
