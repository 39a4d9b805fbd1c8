//! IEs about rates, gates, marks and delays.

use super::Leaf;
use super::fields::Field;
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

numbers! {
    /// Ties together QERs of several sessions, for APN-AMBR.
    QerCorrelationId: u32 = 28, "§8.2.10";
    /// A QoS flow: 0 to 63.
    Qfi: u8 & 0x3f = 124, "§8.2.89";
    /// The value of the Paging Policy Indicator: 0 to 7.
    PagingPolicyIndicator: u8 & 0x07 = 158, "§8.2.116";
    /// The period over which bit rates are averaged, in ms.
    AveragingWindow: u32 = 157, "§8.2.115";
    /// Delay on a GTP-U path, in ms.
    AveragePacketDelay: u32 = 234, "§8.2.162";
    /// Delay on a GTP-U path, in ms.
    MinimumPacketDelay: u32 = 235, "§8.2.163";
    /// Delay on a GTP-U path, in ms.
    MaximumPacketDelay: u32 = 236, "§8.2.164";
    /// The shortest time between two reports, in s.
    MinimumWaitTime: u32 = 246, "§8.2.170";
    /// The sum of downlink packets' sizes, in octets.
    DlDataPacketsSize: u16 = 250, "§8.2.173";
}

flags! {
    /// Whether Reflective QoS is on.
    Rqi = 123, "§8.2.88" {
        RQI = 0x01 "Activate Reflective QoS",
    }
    /// Flags of a QER.
    QerControlIndications = 251, "§8.2.174" {
        RCSR = 0x01 "Report the rate control status when the session ends",
    }
    /// What else is done with the packets of a QER.
    QerIndications = 319, "§8.2.216" {
        IQFISN = 0x01 "Insert the DL MBS QFI Sequence Number",
        EDBMI = 0x02 "Mark the end of a data burst",
        EML4S = 0x04 "Mark ECN for L4S",
        PDUSM = 0x08 "Mark PDU sets",
        DBSMI = 0x10 "Mark the size of a data burst",
        TNBMI = 0x20 "Mark the time to the next data burst",
    }
    /// Why a report about a GTP-U path is made.
    QosReportTrigger = 237, "§8.2.165" {
        PER = 0x01 "Periodic",
        THR = 0x02 "A threshold was crossed",
        IRE = 0x04 "Asked for",
    }
    /// The paths that are watched.
    GtpUPathInterfaceType = 241, "§8.2.166" {
        N9 = 0x01 "N9",
        N3 = 0x02 "N3",
    }
    /// The delays that are to be measured.
    RequestedQosMonitoring = 243, "§8.2.167" {
        DL = 0x01 "Downlink",
        UL = 0x02 "Uplink",
        RP = 0x04 "Round trip",
        GTPUPM = 0x08 "By GTP-U path monitoring",
    }
    /// When measurements are to be reported.
    ReportingFrequency = 244, "§8.2.168" {
        EVETT = 0x01 "When a threshold is crossed",
        PERIO = 0x02 "Periodically",
        SESRL = 0x04 "When the session ends",
    }
    /// What became of the first downlink packet.
    DataStatus = 260, "§8.2.179" {
        DROP = 0x01 "Discarded",
        BUFF = 0x02 "Buffered",
    }
}

/// Whether packets may pass (IE type 25, TS 29.244 §8.2.7). Reserved values count as closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GateStatus {
    /// Uplink packets may not pass.
    pub uplink_closed: bool,
    /// Downlink packets may not pass.
    pub downlink_closed: bool,
}

impl GateStatus {
    /// Both directions open.
    pub const OPEN: Self = Self {
        uplink_closed: false,
        downlink_closed: false,
    };
    /// Both directions closed.
    pub const CLOSED: Self = Self {
        uplink_closed: true,
        downlink_closed: true,
    };
}

impl<'a> Leaf<'a> for GateStatus {
    const LEAF_TYPE: IeType = IeType::GATE_STATUS;
    const ENOUGH: usize = 1;
    const FIXED: usize = 1;

    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let gates = r.u8()?;
        Ok(Self {
            uplink_closed: gates & 0x0c != 0,
            downlink_closed: gates & 0x03 != 0,
        })
    }

    #[inline]
    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u8(u8::from(self.uplink_closed) << 2 | u8::from(self.downlink_closed))
    }
}

macro_rules! bit_rates {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            /// Uplink, in kbit/s of 1000 bit/s; 40 bits on the wire.
            pub uplink: u64,
            /// Downlink, in kbit/s of 1000 bit/s; 40 bits on the wire.
            pub downlink: u64,
        }

        impl $name {
            /// The largest rate the IE can say: 2^40 - 1 kbit/s. Larger ones are written as this.
            pub const MAX: u64 = (1 << 40) - 1;
        }

        impl<'a> Leaf<'a> for $name {
            const LEAF_TYPE: IeType = IeType($number);
            const ENOUGH: usize = 10;
            const FIXED: usize = 10;

            #[inline]
            fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
                let [a, b, c, d, e, f, g, h, i, j] = r.array()?;
                let both = u128::from_be_bytes([0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h, i, j]);
                Ok(Self { uplink: (both >> 40) as u64, downlink: both as u64 & Self::MAX })
            }

            #[inline]
            fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                let both = u128::from(self.uplink.min(Self::MAX)) << 40 | u128::from(self.downlink.min(Self::MAX));
                let [_, _, _, _, _, _, rates @ ..] = both.to_be_bytes();
                w.array::<10>(rates)
            }

            #[inline]
            fn put_leaf<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                let front = $number << 96 | 10 << 80;
                let both = u128::from(self.uplink.min(Self::MAX)) << 40 | u128::from(self.downlink.min(Self::MAX));
                let [_, _, whole @ ..] = (front | both).to_be_bytes();
                w.array::<14>(whole)
            }
        }
    )*};
}

bit_rates! {
    /// The Maximum Bitrate of a QER.
    Mbr = 26, "§8.2.8";
    /// The Guaranteed Bitrate of a QER.
    Gbr = 27, "§8.2.9";
}

/// Packets in a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketsPerUnit {
    /// 0 minute, 1 six minutes, 2 hour, 3 day, 4 week.
    pub time_unit: u8,
    /// Packets in the unit, at most.
    pub packets: u16,
}

impl PacketsPerUnit {
    /// The unit in seconds; codes without a meaning count as a minute.
    pub const fn seconds(self) -> u32 {
        match self.time_unit {
            1 => 360,
            2 => 3_600,
            3 => 86_400,
            4 => 604_800,
            _ => 60,
        }
    }
}

impl<'a> Field<'a> for PacketsPerUnit {
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            time_unit: r.u8()? & 0x07,
            packets: r.u16()?,
        })
    }

    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.time_unit & 0x07)?;
        w.u16(self.packets)
    }
}

/// How many packets may pass (IE type 94, TS 29.244 §8.2.63).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRate {
    /// Uplink, and with `additional` the additional uplink rate.
    pub uplink: Option<(PacketsPerUnit, Option<PacketsPerUnit>)>,
    /// Downlink, and with `additional` the additional downlink rate.
    pub downlink: Option<(PacketsPerUnit, Option<PacketsPerUnit>)>,
    /// APRC: additional rates stand beside each that is there.
    pub additional: bool,
}

impl<'a> Leaf<'a> for PacketRate {
    const LEAF_TYPE: IeType = IeType::PACKET_RATE;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let rate = |r: &mut Reader<'a>, with: u8| {
            if flags & with == with {
                Field::read(r).map(Some)
            } else {
                Ok(None)
            }
        };
        let (uplink, downlink) = (rate(r, 0x01)?, rate(r, 0x02)?);
        let (more_uplink, more_downlink) = (rate(r, 0x05)?, rate(r, 0x06)?);
        Ok(Self {
            uplink: uplink.map(|rate| (rate, more_uplink)),
            downlink: downlink.map(|rate| (rate, more_downlink)),
            additional: flags & 0x04 != 0,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let rates = [self.uplink, self.downlink];
        let [up, down] = rates.map(|rate| u8::from(rate.is_some()));
        let w = w.u8(u8::from(self.additional) << 2 | down << 1 | up)?;
        let mut w = w;
        for (rate, _) in rates.into_iter().flatten() {
            w = rate.write(w)?;
        }
        for (rate, more) in rates.into_iter().flatten().filter(|_| self.additional) {
            w = more.unwrap_or(rate).write(w)?;
        }
        Ok(w)
    }
}

/// How many packets may still pass (IE type 193, TS 29.244 §8.2.139).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRateStatus {
    /// Uplink packets, and with `additional` the additional ones.
    pub uplink: Option<(u16, Option<u16>)>,
    /// Downlink packets, and with `additional` the additional ones.
    pub downlink: Option<(u16, Option<u16>)>,
    /// APR: additional numbers stand beside each that is there.
    pub additional: bool,
    /// Until when: seconds since 1900 in the upper 32 bits, their fraction in the lower. There with any number.
    pub valid_until: Option<u64>,
}

impl<'a> Leaf<'a> for PacketRateStatus {
    const LEAF_TYPE: IeType = IeType::PACKET_RATE_STATUS;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let additional = flags & 0x04 != 0;
        let number = |r: &mut Reader<'a>, bit: u8| {
            if flags & bit == 0 {
                return Ok(None);
            }
            let left = r.u16()?;
            let more = if additional { Some(r.u16()?) } else { None };
            Ok(Some((left, more)))
        };
        let (uplink, downlink) = (number(r, 0x01)?, number(r, 0x02)?);
        let valid_until = if flags & 0x03 != 0 {
            Some(Field::read(r)?)
        } else {
            None
        };
        Ok(Self {
            uplink,
            downlink,
            additional,
            valid_until,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let numbers = [self.uplink, self.downlink];
        let [up, down] = numbers.map(|number| u8::from(number.is_some()));
        let w = w.u8(u8::from(self.additional) << 2 | down << 1 | up)?;
        let mut w = w;
        for (left, more) in numbers.into_iter().flatten() {
            w = w.u16(left)?;
            if self.additional {
                w = w.u16(more.unwrap_or(0))?;
            }
        }
        if up | down != 0 {
            self.valid_until.unwrap_or(0).write(w)
        } else {
            Ok(w)
        }
    }
}

flagged! {
    /// How downlink packets are to be marked.
    DlFlowLevelMarking(u8) = 97, "§8.2.66" {
        0x01 /// TTC: value and mask of the ToS or Traffic Class octet.
        tos_traffic_class: Option<[u8; 2]>,
        0x02 /// SCI: octets 2 and 3 of the Service Class Indicator extension header (TS 29.281 §5.2.2.3).
        service_class_indicator: Option<[u8; 2]>,
    }
    /// The delays, in ms, from which on a report is made.
    PacketDelayThresholds(u8) = 245, "§8.2.169" {
        0x01 /// Downlink.
        downlink: Option<u32>,
        0x02 /// Uplink.
        uplink: Option<u32>,
        0x04 /// Round trip.
        round_trip: Option<u32>,
    }
    /// The delays, in ms, that were measured.
    QosMonitoringMeasurement(u8) = 248, "§8.2.171" {
        0x01 /// Downlink.
        downlink: Option<u32>,
        0x02 /// Uplink.
        uplink: Option<u32>,
        0x04 /// Round trip.
        round_trip: Option<u32>,
        0x08 /// PLMF: nothing could be measured.
        failed: bool,
    }
}
