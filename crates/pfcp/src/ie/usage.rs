//! IEs about measuring, reporting and limiting usage.

use super::Leaf;
use super::fields::{Field, Octets16};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

growing_flags! {
    /// What makes the UP function report usage.
    ReportingTriggers: u32, 2 to 4 octets = 37, "§8.2.19" {
        PERIO = 5/1 "Periodic Reporting",
        VOLTH = 5/2 "Volume Threshold",
        TIMTH = 5/3 "Time Threshold",
        QUHTI = 5/4 "Quota Holding Time",
        START = 5/5 "Start of Traffic",
        STOPT = 5/6 "Stop of Traffic",
        DROTH = 5/7 "Dropped DL Traffic Threshold",
        LIUSA = 5/8 "Linked Usage Reporting",
        VOLQU = 6/1 "Volume Quota",
        TIMQU = 6/2 "Time Quota",
        ENVCL = 6/3 "Envelope Closure",
        MACAR = 6/4 "MAC Addresses Reporting",
        EVETH = 6/5 "Event Threshold",
        EVEQU = 6/6 "Event Quota",
        IPMJL = 6/7 "IP Multicast Join/Leave",
        QUVTI = 6/8 "Quota Validity Time",
        REEMR = 7/1 "Report the End Marker Reception",
        UPINT = 7/2 "User Plane Inactivity Timer",
    }
    /// What made the UP function report usage.
    UsageReportTrigger: u32, 2 to 4 octets = 63, "§8.2.41" {
        PERIO = 5/1 "Periodic Reporting",
        VOLTH = 5/2 "Volume Threshold",
        TIMTH = 5/3 "Time Threshold",
        QUHTI = 5/4 "Quota Holding Time",
        START = 5/5 "Start of Traffic",
        STOPT = 5/6 "Stop of Traffic",
        DROTH = 5/7 "Dropped DL Traffic Threshold",
        IMMER = 5/8 "Immediate Report",
        VOLQU = 6/1 "Volume Quota",
        TIMQU = 6/2 "Time Quota",
        LIUSA = 6/3 "Linked Usage Reporting",
        TERMR = 6/4 "Termination Report",
        MONIT = 6/5 "Monitoring Time",
        ENVCL = 6/6 "Envelope Closure",
        MACAR = 6/7 "MAC Addresses Reporting",
        EVETH = 6/8 "Event Threshold",
        EVEQU = 7/1 "Event Quota",
        TEBUR = 7/2 "Termination By UP function Report",
        IPMJL = 7/3 "IP Multicast Join/Leave",
        QUVTI = 7/4 "Quota Validity Time",
        EMRRE = 7/5 "End Marker Reception Report",
        UPINT = 7/6 "User Plane Inactivity Timer",
    }
    /// How usage is measured.
    MeasurementInformation: u16, 1 to 2 octets = 100, "§8.2.68" {
        MBQE = 5/1 "Measurement before QoS enforcement",
        INAM = 5/2 "Measurement is paused",
        RADI = 5/3 "Reduced application detection information",
        ISTM = 5/4 "Time metering starts at once",
        MNOP = 5/5 "Measurement of the number of packets",
        SSPOC = 5/6 "Send Start Pause of Charging",
        ASPOC = 5/7 "Applicable for Start of Pause of Charging",
        CIAM = 5/8 "Control of inactive measurement",
    }
}

flags! {
    /// What is measured.
    MeasurementMethod = 62, "§8.2.40" {
        DURAT = 0x01 "Duration",
        VOLUM = 0x02 "Volume",
        EVENT = 0x04 "Events",
    }
    /// What a Session Report Request is about.
    ReportType = 39, "§8.2.21" {
        DLDR = 0x01 "Downlink Data Report",
        USAR = 0x02 "Usage Report",
        ERIR = 0x04 "Error Indication Report",
        UPIR = 0x08 "User Plane Inactivity Report",
        TMIR = 0x10 "TSC Management Information Report",
        SESR = 0x20 "Session Report",
        UISR = 0x40 "UP Initiated Session Request",
    }
    /// Which part of the usage a report is about.
    UsageInformation = 90, "§8.2.59" {
        BEF = 0x01 "Before the monitoring time",
        AFT = 0x02 "After the monitoring time",
        UAE = 0x04 "After QoS enforcement",
        UBE = 0x08 "Before QoS enforcement",
    }
}

numbers! {
    /// Seconds after which a report is made.
    TimeThreshold: u32 = 32, "§8.2.14";
    /// Seconds after which a report is made, from the monitoring time on.
    SubsequentTimeThreshold: u32 = 35, "§8.2.17";
    /// Seconds without packets after which time metering stops.
    InactivityDetectionTime: u32 = 36, "§8.2.18";
    /// Seconds between periodic reports.
    MeasurementPeriod: u32 = 64, "§8.2.42";
    /// Seconds of use.
    DurationMeasurement: u32 = 67, "§8.2.45";
    /// Seconds without packets after which quotas are given back.
    QuotaHoldingTime: u32 = 71, "§8.2.48";
    /// Seconds of use that are granted.
    TimeQuota: u32 = 74, "§8.2.51";
    /// Seconds of use that are granted, from the monitoring time on.
    SubsequentTimeQuota: u32 = 122, "§8.2.87";
    /// The URR whose reports make this one report too.
    LinkedUrrId: u32 = 82, "§8.2.55";
    /// The number of a URR's usage report.
    UrSeqn: u32 = 104, "§8.2.71";
    /// Seconds without packets after which inactivity is reported. 0: never.
    UserPlaneInactivityTimer: u32 = 117, "§8.2.83";
    /// A URR whose usage counts into a credit pool.
    AggregatedUrrId: u32 = 120, "§8.2.85";
    /// Ties usage reports to the request that asked for them.
    QueryUrrReference: u32 = 125, "§8.2.90";
    /// Events that are granted.
    EventQuota: u32 = 148, "§8.2.112";
    /// Events after which a report is made.
    EventThreshold: u32 = 149, "§8.2.113";
    /// Events that are granted, from the monitoring time on.
    SubsequentEventQuota: u32 = 150, "§8.2.106";
    /// Events after which a report is made, from the monitoring time on.
    SubsequentEventThreshold: u32 = 151, "§8.2.107";
    /// Seconds for which quotas hold. Some peers write seconds since 1900 instead.
    QuotaValidityTime: u32 = 181, "§8.2.132";
    /// How many reports are made.
    NumberOfReports: u16 = 182, "§8.2.133";
}

times! {
    /// The time that separates usage before from usage after.
    MonitoringTime = 33, "§8.2.15";
    /// When the first packet of the report came.
    TimeOfFirstPacket = 69, "§8.2.46";
    /// When the last packet of the report came.
    TimeOfLastPacket = 70, "§8.2.47";
    /// When the report's period began.
    StartTime = 75, "§8.2.52";
    /// When the report's period ended.
    EndTime = 76, "§8.2.53";
}

octets! {
    /// An instance of an application, as the UP function numbers it.
    ApplicationInstanceId = 91, "§8.2.60";
}

macro_rules! volumes {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {
        flagged! {$(
            $(#[$meta])*
            $name(u8) = $number, $clause {
                0x01 /// TOVOL: octets of both directions.
                total: Option<u64>,
                0x02 /// ULVOL: octets uplink.
                uplink: Option<u64>,
                0x04 /// DLVOL: octets downlink.
                downlink: Option<u64>,
            }
        )*}
    };
}

volumes! {
    /// Octets after which a report is made.
    VolumeThreshold = 31, "§8.2.13";
    /// Octets after which a report is made, from the monitoring time on.
    SubsequentVolumeThreshold = 34, "§8.2.16";
    /// Octets that are granted.
    VolumeQuota = 73, "§8.2.50";
    /// Octets that are granted, from the monitoring time on.
    SubsequentVolumeQuota = 121, "§8.2.86";
}

flagged! {
    /// Octets and packets that were counted.
    VolumeMeasurement(u8) = 66, "§8.2.44" {
        0x01 /// TOVOL: octets of both directions.
        total: Option<u64>,
        0x02 /// ULVOL: octets uplink.
        uplink: Option<u64>,
        0x04 /// DLVOL: octets downlink.
        downlink: Option<u64>,
        0x08 /// TONOP: packets of both directions.
        total_packets: Option<u64>,
        0x10 /// ULNOP: packets uplink.
        uplink_packets: Option<u64>,
        0x20 /// DLNOP: packets downlink.
        downlink_packets: Option<u64>,
    }
    /// How much downlink traffic may be dropped before that is reported.
    DroppedDlTrafficThreshold(u8) = 72, "§8.2.49" {
        0x01 /// DLPA: packets.
        packets: Option<u64>,
        0x02 /// DLBY: octets.
        octets: Option<u64>,
    }
}

/// A flow of an application (IE type 92, TS 29.244 §8.2.61).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowInformation<'a> {
    /// 0 unspecified, 1 downlink, 2 uplink, 3 both; others count as 0.
    pub direction: u8,
    /// An IPFilterRule as text (TS 29.212 §5.4.2).
    pub flow_description: Octets16<'a>,
}

impl<'a> Leaf<'a> for FlowInformation<'a> {
    const LEAF_TYPE: IeType = IeType::FLOW_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            direction: r.u8()? & 0x07,
            flow_description: Field::read(r)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.direction & 0x07)?;
        self.flow_description.write(w)
    }
}

/// How time is metered (IE type 115, TS 29.244 §8.2.81).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeQuotaMechanism {
    /// 0 continuous time period, 1 discrete time period; 2 and 3 are spare.
    pub base_time_interval_type: u8,
    /// The Base Time Interval in seconds.
    pub base_time_interval: u32,
}

impl<'a> Leaf<'a> for TimeQuotaMechanism {
    const LEAF_TYPE: IeType = IeType::TIME_QUOTA_MECHANISM;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            base_time_interval_type: r.u8()? & 0x03,
            base_time_interval: r.u32()?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.base_time_interval_type & 0x03)?;
        w.u32(self.base_time_interval)
    }
}

/// What a URR's usage is multiplied by in a credit pool: `digits` times ten to the `exponent` (IE type 119,
/// TS 29.244 §8.2.84).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// Value-Digits.
    pub digits: i64,
    /// Exponent.
    pub exponent: i32,
}

impl<'a> Leaf<'a> for Multiplier {
    const LEAF_TYPE: IeType = IeType::MULTIPLIER;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            digits: i64::from_be_bytes(r.array()?),
            exponent: i32::from_be_bytes(r.array()?),
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.array(self.digits.to_be_bytes())?;
        w.array(self.exponent.to_be_bytes())
    }
}

/// What follows in Session Report Requests (IE type 126, TS 29.244 §8.2.91).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdditionalUsageReportsInformation {
    /// AURI: reports will follow, it is not said how many.
    WillFollow,
    /// Number of reports that follow in all: 0 to 32,767.
    Count(u16),
}

impl<'a> Leaf<'a> for AdditionalUsageReportsInformation {
    const LEAF_TYPE: IeType = IeType::ADDITIONAL_USAGE_REPORTS_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let value = r.u16()?;
        Ok(if value & 0x8000 != 0 {
            Self::WillFollow
        } else {
            Self::Count(value)
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::WillFollow => w.u16(0x8000),
            Self::Count(count) => w.u16(count & 0x7fff),
        }
    }
}
