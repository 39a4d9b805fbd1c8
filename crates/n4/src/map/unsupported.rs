//! What URRs, QERs, BARs and whole requests may ask for that this node does not do: refused, so that "accepted" stays
//! true. What PDRs, FARs and Traffic Endpoints may not ask for is listed with their mapping.
//!
//! docs/compliance/ts29244-ies.md lists what is refused and what is done, IE by IE.

use pfcp::group::{CreateBar, CreateQer, CreateUrr, UpdateBar, UpdateQer, UpdateUrr};
use pfcp::ie::{DlFlowLevelMarking, MtEdtControlInformation, QerIndications, ReportingTriggers};
use pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use pfcp::{Edit, IeType};
use rules::model::{BarId, QerId, UrrId};

use super::refuse;
use crate::cause::Reject;

/// Reports that are not made: of ended envelopes, MAC addresses, multicast groups, and inactivity.
const TRIGGERS: [ReportingTriggers; 4] = [
    ReportingTriggers::ENVCL,
    ReportingTriggers::MACAR,
    ReportingTriggers::IPMJL,
    ReportingTriggers::UPINT,
];

/// Parts of an establishment that stand for no rule: Reliable Data Service, multicast sessions, paging policies by DSCP
/// (features RDS, MBSN4, EPPPI).
pub(super) fn establishment(request: &SessionEstablishmentRequest<'_>) -> Result<(), Reject> {
    refuse(&[
        (
            request.provide_rds_configuration_information.is_some(),
            IeType::PROVIDE_RDS_CONFIGURATION_INFORMATION,
        ),
        (
            request.mbs_session_n4mb_control_information.is_some(),
            IeType::MBS_SESSION_N4MB_CONTROL_INFORMATION,
        ),
        (
            !request.mbs_session_n4_control_information.is_empty(),
            IeType::MBS_SESSION_N4_CONTROL_INFORMATION,
        ),
        (
            !request.dscp_to_ppi_control_information.is_empty(),
            IeType::DSCP_TO_PPI_CONTROL_INFORMATION,
        ),
    ])
}

/// The same of a modification, where access availability and the status of packet rates may be asked about, too
/// (features ATSSS-LL and MPTCP, CIOT).
pub(super) fn modification(request: &SessionModificationRequest<'_>) -> Result<(), Reject> {
    refuse(&[
        (
            request.access_availability_information.is_some(),
            IeType::ACCESS_AVAILABILITY_INFORMATION,
        ),
        (
            !request.mbs_session_n4_control_information.is_empty(),
            IeType::MBS_SESSION_N4_CONTROL_INFORMATION,
        ),
        (
            !request.dscp_to_ppi_control_information.is_empty(),
            IeType::DSCP_TO_PPI_CONTROL_INFORMATION,
        ),
    ])
}

pub(super) fn create_urr(urr: &CreateUrr<'_>) -> Result<(), Reject> {
    refuse_rule(
        Reject::rule(UrrId(urr.urr_id.0)),
        &[
            (
                is_triggered_otherwise(urr.reporting_triggers),
                IeType::REPORTING_TRIGGERS,
            ),
            (urr.time_quota_mechanism.is_some(), IeType::TIME_QUOTA_MECHANISM),
            (
                urr.ethernet_inactivity_timer.is_some(),
                IeType::ETHERNET_INACTIVITY_TIMER,
            ),
            (urr.number_of_reports.is_some(), IeType::NUMBER_OF_REPORTS),
            (
                urr.user_plane_inactivity_timer.is_some(),
                IeType::USER_PLANE_INACTIVITY_TIMER,
            ),
        ],
    )
}

pub(super) fn update_urr(urr: &UpdateUrr<'_>) -> Result<(), Reject> {
    refuse_rule(
        Reject::rule(UrrId(urr.urr_id.0)),
        &[
            (
                urr.reporting_triggers.is_some_and(is_triggered_otherwise),
                IeType::REPORTING_TRIGGERS,
            ),
            (sets(urr.time_quota_mechanism), IeType::TIME_QUOTA_MECHANISM),
            (
                sets(urr.ethernet_inactivity_timer),
                IeType::ETHERNET_INACTIVITY_TIMER,
            ),
            (sets(urr.number_of_reports), IeType::NUMBER_OF_REPORTS),
            (
                sets(urr.user_plane_inactivity_timer),
                IeType::USER_PLANE_INACTIVITY_TIMER,
            ),
        ],
    )
}

/// Marks of downlink flows by DSCP, which a TDF makes (TS 29.244 §5.4.5), multicast QoS flows, and marks of PDU sets
/// and of data bursts (§5.38.3 to §5.38.5 of Release 19).
pub(super) fn create_qer(qer: &CreateQer<'_>) -> Result<(), Reject> {
    refuse_rule(
        Reject::rule(QerId(qer.qer_id.0)),
        &[
            (
                qer.dl_flow_level_marking.is_some_and(marks_by_dscp),
                IeType::DL_FLOW_LEVEL_MARKING,
            ),
            (
                qer.qer_indications.is_some_and(marks_otherwise),
                IeType::QER_INDICATIONS,
            ),
        ],
    )
}

pub(super) fn update_qer(qer: &UpdateQer<'_>) -> Result<(), Reject> {
    refuse_rule(
        Reject::rule(QerId(qer.qer_id.0)),
        &[
            (
                value(qer.dl_flow_level_marking).is_some_and(marks_by_dscp),
                IeType::DL_FLOW_LEVEL_MARKING,
            ),
            (
                value(qer.qer_indications).is_some_and(marks_otherwise),
                IeType::QER_INDICATIONS,
            ),
        ],
    )
}

/// The size of what waits is not reported (feature MT-EDT).
pub(super) fn create_bar(bar: &CreateBar<'_>) -> Result<(), Reject> {
    refuse_rule(
        Reject::rule(BarId(bar.bar_id.0)),
        &[(
            bar.mt_edt_control_information.is_some_and(reports_size),
            IeType::MT_EDT_CONTROL_INFORMATION,
        )],
    )
}

pub(super) fn update_bar(bar: &UpdateBar<'_>) -> Result<(), Reject> {
    refuse_rule(
        Reject::rule(BarId(bar.bar_id.0)),
        &[(
            value(bar.mt_edt_control_information).is_some_and(reports_size),
            IeType::MT_EDT_CONTROL_INFORMATION,
        )],
    )
}

fn is_triggered_otherwise(sent: ReportingTriggers) -> bool {
    TRIGGERS.into_iter().any(|trigger| sent.contains(trigger))
}

fn marks_by_dscp(sent: DlFlowLevelMarking) -> bool {
    sent.tos_traffic_class.is_some()
}

fn marks_otherwise(sent: QerIndications) -> bool {
    [
        QerIndications::IQFISN,
        QerIndications::EDBMI,
        QerIndications::PDUSM,
        QerIndications::DBSMI,
        QerIndications::TNBMI,
    ]
    .into_iter()
    .any(|mark| sent.contains(mark))
}

fn reports_size(sent: MtEdtControlInformation) -> bool {
    sent.contains(MtEdtControlInformation::RDSI)
}

fn value<T>(parameter: Option<Edit<T>>) -> Option<T> {
    parameter.and_then(Edit::value)
}

/// Whether an update sets a parameter, rather than to leave or remove it.
fn sets<T>(parameter: Option<Edit<T>>) -> bool {
    value(parameter).is_some()
}

/// Refuses a rule with `reject`, naming the first IE that is there.
fn refuse_rule(reject: Reject, unsupported: &[(bool, IeType)]) -> Result<(), Reject> {
    let found = unsupported.iter().find(|(there, _)| *there);
    found.map_or(Ok(()), |(_, ie_type)| Err(reject.offends(*ie_type)))
}
