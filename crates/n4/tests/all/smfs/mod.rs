//! What the SMFs of Open5GS, free5GC, SD-Core and OAI send, with their quirks, and whether traffic flows then.

mod free5gc;
mod oai;
mod open5gs;
mod sd_core;
mod spellings;

use std::net::{IpAddr, Ipv4Addr};

use flow::{InstanceId, UrrCount};
use pfcp::ie::UsageReportTrigger;
use rules::model::{ApplyAction, FarId, PdrId, QerId, UrrId};
use rules::sdf::FlowDescription;

use crate::support::traffic::{Fate, downlink, uplink};
use crate::support::wire::*;
use crate::support::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
const INTERNET: Fate = Fate::Plain(InstanceId(1));
const SEND_END_MARKER: u8 = 2;

impl World {
    fn uplink(&self, teid: u32, qfi: u8) -> Fate {
        uplink(self.only_session().rules(), teid, UE, SERVER, qfi)
    }

    fn downlink(&self) -> Fate {
        downlink(self.only_session().rules(), UE, SERVER)
    }
}

/// Apply Action on two octets, as from release 16.
fn action(flags: u8) -> Octets {
    apply_action(&[flags, 0])
}
