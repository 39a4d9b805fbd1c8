//! The values that mandatory leaves begin with before a message is filled in; see [`Blank`].

use core::net::Ipv4Addr;

use super::*;
use crate::wire::Blank;

macro_rules! blanks {
    ($($ty:ty = $value:expr;)*) => {$(
        impl Blank for $ty {
            #[inline]
            fn blank() -> Self {
                $value
            }
        }
    )*};
}

const NOWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

blanks! {
    NodeId<'_> = NodeId::Ipv4(NOWHERE);
    Cause = Cause::SYSTEM_FAILURE;
    FSeid = FSeid { seid: crate::Seid(0), ipv4: None, ipv6: None };
    FTeid = FTeid::Choose { v4: false, v6: false, choose_id: None };
    IpMulticastAddress = IpMulticastAddress::Any;
    OuterHeaderCreation = OuterHeaderCreation::gtp_u(Teid(0), None, None);
    PacketRateStatus = PacketRateStatus { uplink: None, downlink: None, additional: false, valid_until: None };
    Multiplier = Multiplier { digits: 0, exponent: 0 };
    FailedRuleId = FailedRuleId::Pdr(PdrId(0));
    GateStatus = GateStatus::CLOSED;
    AccessAvailabilityInformation = AccessAvailabilityInformation { access_type: 0, availability_status: 0 };
    LnsAddress = LnsAddress::Ipv4(NOWHERE);
}
