//! SDF filters and applications, in both directions.

use rules::model;
use serde::{Deserialize, Serialize};

use super::super::error::{RecordError, bad};

#[derive(Serialize, Deserialize)]
pub(super) struct Filter {
    /// As in an SDF Filter IE.
    pub(super) flow_description: Option<String>,
    /// The octet, and its bits that count.
    pub(super) tos_traffic_class: Option<(u8, u8)>,
    pub(super) spi: Option<u32>,
    pub(super) flow_label: Option<u32>,
    pub(super) filter_id: Option<u32>,
}

/// An application's identifier, and the flows that are its.
pub(super) type Application = (Vec<u8>, Vec<String>);

pub(super) fn write_application(application: &model::Application) -> Application {
    let model::Application { id, flows } = application;
    (id.to_vec(), flows.iter().map(ToString::to_string).collect())
}

pub(super) fn write_filter(filter: &model::SdfFilter) -> Filter {
    let model::SdfFilter {
        flow_description,
        tos_traffic_class,
        spi,
        flow_label,
        filter_id,
    } = filter;
    Filter {
        flow_description: flow_description.as_ref().map(ToString::to_string),
        tos_traffic_class: tos_traffic_class.map(|class| (class.value, class.mask)),
        spi: *spi,
        flow_label: *flow_label,
        filter_id: filter_id.map(|id| id.0),
    }
}

pub(super) fn read_application((id, flows): &Application) -> Result<model::Application, RecordError> {
    let flows = flows
        .iter()
        .map(|text| text.parse().map_err(|_| bad("application")));
    Ok(model::Application {
        id: id.as_slice().into(),
        flows: flows.collect::<Result<Vec<_>, RecordError>>()?.into(),
    })
}

pub(super) fn read_filter(filter: &Filter) -> Result<model::SdfFilter, RecordError> {
    let description = filter.flow_description.as_ref().map(|text| text.parse());
    Ok(model::SdfFilter {
        flow_description: description.transpose().map_err(|_| bad("Flow Description"))?,
        tos_traffic_class: filter.tos_traffic_class.map(class),
        spi: filter.spi,
        flow_label: filter.flow_label,
        filter_id: filter.filter_id.map(model::SdfFilterId),
    })
}

pub(super) fn class((value, mask): (u8, u8)) -> model::TosTrafficClass {
    model::TosTrafficClass { value, mask }
}
