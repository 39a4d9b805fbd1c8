//! QERs (TS 29.244 Tables 7.5.2.5-1 and 7.5.4.5-1).

use pfcp::group::{CreateQer, UpdateQer};
use pfcp::ie;
use rules::model::{
    BitRates, BitsPerSecond, CorrelationId, Edit, Gate, OptionalRates, Qer, QerId, QerUpdate,
};

use super::{edit, packet_rates, unsupported};
use crate::cause::Reject;

pub(super) fn create(qer: &CreateQer<'_>) -> Result<Qer, Reject> {
    qer.check_values()?;
    unsupported::create_qer(qer)?;
    Ok(Qer {
        id: QerId(qer.qer_id.0),
        correlation: qer.qer_correlation_id.map(|id| CorrelationId(id.0)),
        gate_ul: gate(qer.gate_status.uplink_closed),
        gate_dl: gate(qer.gate_status.downlink_closed),
        qfi: qer.qfi.and_then(|qfi| packet::Qfi::new(qfi.0)),
        rqi: qer.rqi.is_some_and(|rqi| rqi.contains(ie::Rqi::RQI)),
        ppi: qer
            .paging_policy_indicator
            .and_then(|ppi| packet::Ppi::new(ppi.0)),
        sci: qer.dl_flow_level_marking.and_then(service_class),
        mbr: qer.mbr.map(|mbr| rates(mbr.uplink, mbr.downlink)),
        optional: OptionalRates {
            gbr: qer.gbr.map(|gbr| rates(gbr.uplink, gbr.downlink)),
            averaging_window: qer.averaging_window.map(|window| window.0),
            packet_rates: qer.packet_rate.map(packet_rates::rates),
            reports_rate: qer.qer_control_indications.is_some_and(packet_rates::reports),
            marks_l4s: qer.qer_indications.is_some_and(marks_l4s),
        }
        .into(),
    })
}

pub(super) fn update(qer: &UpdateQer<'_>) -> Result<QerUpdate, Reject> {
    qer.check_removals()?;
    unsupported::update_qer(qer)?;
    let gates = qer
        .gate_status
        .map(|gates| (gate(gates.uplink_closed), gate(gates.downlink_closed)));
    let rqi = qer
        .rqi
        .map(|rqi| rqi.value().is_some_and(|rqi| rqi.contains(ie::Rqi::RQI)));
    Ok(QerUpdate {
        id: QerId(qer.qer_id.0),
        correlation: edit(qer.qer_correlation_id, |id| CorrelationId(id.0)),
        gates,
        qfi: edit(qer.qfi, |qfi| packet::Qfi::from_low_bits(qfi.0)),
        rqi,
        ppi: edit(qer.paging_policy_indicator, |ppi| {
            packet::Ppi::from_low_bits(ppi.0)
        }),
        sci: match edit(qer.dl_flow_level_marking, service_class) {
            Edit::Set(Some(sci)) => Edit::Set(sci),
            Edit::Keep => Edit::Keep,
            Edit::Set(None) | Edit::Clear => Edit::Clear,
        },
        mbr: edit(qer.mbr, |mbr| rates(mbr.uplink, mbr.downlink)),
        gbr: edit(qer.gbr, |gbr| rates(gbr.uplink, gbr.downlink)),
        averaging_window: edit(qer.averaging_window, |window| window.0),
        packet_rates: edit(qer.packet_rate, packet_rates::rates),
        reports_rate: qer
            .qer_control_indications
            .map(|sent| sent.value().is_some_and(packet_rates::reports)),
        marks_l4s: qer
            .qer_indications
            .map(|sent| sent.value().is_some_and(marks_l4s)),
    })
}

/// The Service Class Indicator of a marking: octet 2 of its extension header, whose octet 3 is spare (TS 29.281
/// §5.2.2.3).
fn service_class(sent: ie::DlFlowLevelMarking) -> Option<u8> {
    sent.service_class_indicator.map(|[class, _]| class)
}

/// Whether packets are marked for L4S on behalf of the RAN (TS 29.244 §5.38.1).
fn marks_l4s(sent: ie::QerIndications) -> bool {
    sent.contains(ie::QerIndications::EML4S)
}

fn gate(closed: bool) -> Gate {
    if closed { Gate::Closed } else { Gate::Open }
}

fn rates(ul: u64, dl: u64) -> BitRates {
    BitRates {
        ul: BitsPerSecond::from_kbit(ul),
        dl: BitsPerSecond::from_kbit(dl),
    }
}
