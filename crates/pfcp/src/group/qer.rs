//! QoS Enforcement Rules and the status of packet rates.

use crate::ie::*;
use crate::wire::Edit;

groups! {
    /// Create QER.
    CreateQer = 7, "7.5.2.5-1" {
        109 M qer_id: QerId,
        28 C qer_correlation_id: QerCorrelationId,
        25 M gate_status: GateStatus,
        26 C mbr: Mbr,
        27 C gbr: Gbr,
        94 C packet_rate: PacketRate,
        193 C packet_rate_status: PacketRateStatus,
        97 C dl_flow_level_marking: DlFlowLevelMarking,
        124 C qfi: Qfi,
        123 C rqi: Rqi,
        158 C paging_policy_indicator: PagingPolicyIndicator,
        157 O averaging_window: AveragingWindow,
        251 C qer_control_indications: QerControlIndications,
        319 C qer_indications: QerIndications,
    }

    /// Update QER.
    UpdateQer = 14, "7.5.4.5-1" {
        109 M qer_id: QerId,
        28 C qer_correlation_id: Edit<QerCorrelationId>,
        25 C gate_status: GateStatus,
        26 C mbr: Edit<Mbr>,
        27 C gbr: Edit<Gbr>,
        94 C packet_rate: Edit<PacketRate>,
        97 C dl_flow_level_marking: Edit<DlFlowLevelMarking>,
        124 C qfi: Edit<Qfi>,
        123 C rqi: Edit<Rqi>,
        158 C paging_policy_indicator: Edit<PagingPolicyIndicator>,
        157 O averaging_window: Edit<AveragingWindow>,
        251 C qer_control_indications: Edit<QerControlIndications>,
        319 C qer_indications: Edit<QerIndications>,
    }

    /// Remove QER.
    RemoveQer = 18, "7.5.4.9-1" {
        109 M qer_id: QerId,
    }

    /// Packet Rate Status Report (Session Deletion Response, Session Report Request).
    PacketRateStatusReport = 252, "7.5.7.1-2" {
        109 M qer_id: QerId,
        193 M packet_rate_status: PacketRateStatus,
    }

    /// Query Packet Rate Status.
    QueryPacketRateStatus = 263, "7.5.4.22-1" {
        109 M qer_id: QerId,
    }

    /// Packet Rate Status Report (Session Modification Response).
    PacketRateStatusReportSessionModification = 264, "7.5.5.4-1" {
        109 M qer_id: QerId,
        193 M packet_rate_status: PacketRateStatus,
    }
}
