//! IEs about time sensitive communication: ports, bridges, clocks.

use super::Leaf;
use super::fields::Flagged;
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

numbers! {
    /// The port of the device-side translator: 16 bits, upper half zero.
    DsTtPortNumber: u32 = 196, "§8.2.141";
    /// A port of the network-side translator: 16 bits, upper half zero.
    NwTtPortNumber: u32 = 197, "§8.2.142";
    /// A time domain of gPTP.
    TimeDomainNumber: u8 = 206, "§8.2.146";
    /// The offset, in ns, from which on clock drift is reported.
    TimeOffsetThreshold: i64 = 207, "§8.2.147";
    /// The rate ratio, as (ratio - 1) * 2^41, from which on clock drift is reported.
    CumulativeRateRatioThreshold: i32 = 208, "§8.2.148";
    /// The offset between the 5GS clock and the time domain's, in ns.
    TimeOffsetMeasurement: i64 = 209, "§8.2.149";
    /// The ratio of the 5GS clock's rate to the time domain's, as (ratio - 1) * 2^41.
    CumulativeRateRatioMeasurement: i32 = 210, "§8.2.150";
}

flags! {
    /// Whether information about the bridge is wanted.
    CreateBridgeInfoForTsc = 194, "§8.2.140" {
        BII = 0x01 "Bridge information is wanted",
    }
    /// What is to be reported of clock drift.
    RequestedClockDriftInformation = 204, "§8.2.145" {
        RRTO = 0x01 "Report the time offset",
        RRCR = 0x02 "Report the cumulative rate ratio",
    }
    /// Whether the time domain configured in the translator is meant.
    ConfiguredTimeDomain = 321, "§8.2.218" {
        CTDI = 0x01 "The configured time domain",
    }
}

octets! {
    /// A port management message (TS 24.539 §8).
    PortManagementInformationContainer = 202, "§8.2.144";
    /// A user plane node management message (TS 24.539 §9).
    UserPlaneNodeManagementInformationContainer = 266, "§8.2.182";
}

/// The user plane node that a session belongs to (IE type 198, TS 29.244 §8.2.143).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiveGsUserPlaneNode {
    /// The node's ID, for TSN a Bridge ID (IEEE 802.1Q §14.2.5).
    pub value: Option<u64>,
}

impl<'a> Leaf<'a> for FiveGsUserPlaneNode {
    const LEAF_TYPE: IeType = IeType::FIVE_GS_USER_PLANE_NODE;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        Ok(Self {
            value: Flagged::read(r, flags & 0x01 != 0)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(u8::from(self.value.is_some()))?;
        Flagged::write(&self.value, w)
    }
}
