//! Session Reporting Rules, and the reports about sessions that are not about usage.

use crate::ie::*;
use crate::wire::Edit;

groups! {
    /// Create SRR.
    CreateSrr = 212, "7.5.2.9-1" {
        215 M srr_id: SrrId,
        216 C access_availability_control_information: AccessAvailabilityControlInformation<'a>,
        242 Cn qos_monitoring_per_qos_flow_control_information: QosMonitoringPerQosFlowControlInformation<'a>,
        295 C direct_reporting_information: DirectReportingInformation<'a>,
    }

    /// Update SRR.
    UpdateSrr = 213, "7.5.4.20-1" {
        215 M srr_id: SrrId,
        216 C access_availability_control_information: Edit<AccessAvailabilityControlInformation<'a>>,
        242 Cn qos_monitoring_per_qos_flow_control_information: QosMonitoringPerQosFlowControlInformation<'a>,
        295 C direct_reporting_information: Edit<DirectReportingInformation<'a>>,
    }

    /// Remove SRR.
    RemoveSrr = 211, "7.5.4.19-1" {
        215 M srr_id: SrrId,
    }

    /// Access Availability Control Information.
    AccessAvailabilityControlInformation = 216, "7.5.2.9-2" {
        217 M requested_access_availability_information: RequestedAccessAvailabilityInformation,
    }

    /// QoS Monitoring per QoS flow Control Information.
    QosMonitoringPerQosFlowControlInformation = 242, "7.5.2.9-3" {
        124 Mn qfi: Qfi,
        243 M requested_qos_monitoring: RequestedQosMonitoring,
        244 M reporting_frequency: ReportingFrequency,
        245 C packet_delay_thresholds: PacketDelayThresholds,
        246 C minimum_wait_time: MinimumWaitTime,
        64 C measurement_period: MeasurementPeriod,
    }

    /// Direct Reporting Information.
    DirectReportingInformation = 295, "7.5.2.9-4" {
        296 M event_notification_uri: EventNotificationUri<'a>,
        297 C notification_correlation_id: NotificationCorrelationId<'a>,
        298 C reporting_flags: ReportingFlags,
    }

    /// Downlink Data Report.
    DownlinkDataReport = 83, "7.5.8.2-1" {
        56 Mn pdr_id: PdrId,
        45 Cn downlink_data_service_information: DownlinkDataServiceInformation,
        250 O dl_data_packets_size: DlDataPacketsSize,
        260 O dl_data_status: DataStatus,
    }

    /// Error Indication Report.
    ErrorIndicationReport = 99, "7.5.8.4-1" {
        21 Mn remote_f_teid: FTeid,
    }

    /// Session Report.
    SessionReport = 214, "7.5.8.6-1" {
        215 M srr_id: SrrId,
        218 C access_availability_report: AccessAvailabilityReport<'a>,
        247 Cn qos_monitoring_report: QosMonitoringReport<'a>,
    }

    /// Access Availability Report.
    AccessAvailabilityReport = 218, "7.5.8.6-2" {
        219 M access_availability_information: AccessAvailabilityInformation,
    }

    /// QoS Monitoring Report.
    QosMonitoringReport = 247, "7.5.8.6-3" {
        124 M qfi: Qfi,
        248 M qos_monitoring_measurement: QosMonitoringMeasurement,
        156 M time_stamp: TimeStamp,
        75 O start_time: StartTime,
    }
}
