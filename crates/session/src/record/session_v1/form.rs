//! The form of a session's record, version 1: the fields as they are written.
//!
//! The form is not that of [`rules::model`], which may change while this may not: a change of the form is a new version
//! beside this one.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::meter::{PacketRate, PacketsPer};
use packet::{Ppi, Qfi};
use rules::model;

use super::convert::{Dates, Form, Result, form};
use super::urr::{Application, Checkpoint, Filter, Octets, Urr, Usage};
use crate::ids::CpFSeid;
use crate::record::ResponseRecord;

#[derive(Serialize, Deserialize)]
pub(super) struct Body {
    pub(super) association: Vec<u8>,
    pub(super) seid: u64,
    pub(super) cp: FSeid,
    pub(super) bucket: u16,
    pub(super) sets: SetsBody,
    /// The names of the network instances that the rest goes by numbers of.
    pub(super) instances: Vec<String>,
    /// The names of the forwarding policies, likewise.
    pub(super) policies: Vec<String>,
    /// The names of the policers of its slice and data network: three at most.
    pub(super) policers: Vec<String>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) pdrs: Vec<Pdr>,
    pub(super) fars: Vec<Far>,
    pub(super) qers: Vec<Qer>,
    pub(super) urrs: Vec<Urr>,
    pub(super) bars: Vec<Bar>,
    pub(super) filters: Vec<Filter>,
    /// Seconds.
    pub(super) inactivity_timer: Option<u32>,
    /// Each with an instance of its address space.
    pub(super) leases: Vec<(u16, Prefix)>,
    pub(super) chosen: Vec<Chosen>,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) account: Billing,
    /// By QER: uplink, downlink.
    pub(super) packets: Vec<(u32, [Left; 2])>,
    /// By QER: uplink, downlink.
    pub(super) tokens: Vec<(u32, [Option<Bucketed>; 2])>,
    /// By URR: packets, octets.
    pub(super) dropped: Vec<(u32, u64, u64)>,
    pub(super) pending: Pending,
    /// Of a session with public addresses.
    pub(super) nat: Option<Nat>,
    /// By FAR, where it says which public addresses the session has: the name of a pool, or none.
    pub(super) nat_choices: Vec<(u32, Option<String>)>,
    /// The QERs whose packets are marked for L4S.
    pub(super) l4s: Vec<u32>,
}

/// Port blocks, each with its address, its first port, and the power of two of its ports; and mappings to them.
#[derive(Serialize, Deserialize)]
pub(super) struct Nat {
    pub(super) blocks: Vec<(Ipv4Addr, u16, u8)>,
    pub(super) mappings: Vec<Mapping>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Mapping {
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
    /// Of the IANA registry.
    pub(super) protocol: u8,
    pub(super) public_port: u16,
    pub(super) remaining_ms: u64,
    pub(super) state: u8,
    pub(super) remotes: Option<Vec<Ipv4Addr>>,
}

/// Whom the session is for, since when there has been one, and what usage was entered of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Billing {
    pub(super) subscriber: Option<User>,
    pub(super) since: Option<u64>,
    pub(super) reports: u64,
    pub(super) count: Octets,
}

#[derive(Serialize, Deserialize)]
pub(super) struct User {
    pub(super) imsi: Option<String>,
    pub(super) imei: Option<String>,
    pub(super) msisdn: Option<String>,
    pub(super) nai: Option<String>,
    pub(super) supi: Option<String>,
    pub(super) gpsi: Option<String>,
    pub(super) pei: Option<String>,
    pub(super) dnn: Option<String>,
    pub(super) s_nssai: Option<(u8, Option<[u8; 3]>)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct SetsBody {
    pub(super) ids: Vec<Set>,
    pub(super) group: Option<Vec<u8>>,
    pub(super) reports_to: Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Set {
    pub(super) kind: Option<u8>,
    pub(super) node: Node,
    pub(super) number: u16,
}

#[derive(Serialize, Deserialize)]
pub(super) enum Node {
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Operator(u32),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Prefix(pub(super) IpAddr, pub(super) u8);

#[derive(Serialize, Deserialize)]
pub(super) struct Endpoint {
    pub(super) id: u8,
    pub(super) f_teid: Option<FTeid>,
    pub(super) instance: Option<u16>,
    pub(super) ue_ip: Vec<UeIp>,
    pub(super) framed_routes: Vec<Prefix>,
    pub(super) qfis: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Pdr {
    pub(super) id: u16,
    pub(super) precedence: u32,
    pub(super) source_interface: u8,
    pub(super) endpoint: Option<u8>,
    pub(super) f_teid: Option<FTeid>,
    pub(super) instance: Option<u16>,
    pub(super) ue_ip: Vec<UeIp>,
    pub(super) framed_routes: Vec<Prefix>,
    pub(super) sdf_filters: Vec<Filter>,
    pub(super) application: Option<Application>,
    pub(super) qfis: Vec<u8>,
    /// The value of Outer Header Removal, and whether the PDU Session Container goes.
    pub(super) outer_header_removal: Option<(u8, bool)>,
    pub(super) far: Option<u32>,
    pub(super) qers: Vec<u32>,
    pub(super) urrs: Vec<u32>,
    /// The names of rulebases of predefined rules.
    pub(super) rulebases: Vec<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Far {
    pub(super) id: u32,
    pub(super) action: u16,
    pub(super) forwarding: Option<Forwarding>,
    pub(super) duplicating: Option<Forwarding>,
    /// The URL.
    pub(super) redirect: Option<String>,
    pub(super) bar: Option<u8>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Forwarding {
    pub(super) destination: u8,
    pub(super) instance: Option<u16>,
    pub(super) outer_header_creation: Option<OuterHeader>,
    pub(super) transport_level_marking: Option<(u8, u8)>,
    pub(super) policy: Option<u16>,
}

/// Packets left in a unit of time, and its end in nanoseconds since 1970: of the rate, and of the additional one.
pub(super) type Left = [(u16, u64); 2];

/// Millionths of bits in the committed and the further bucket of a bit rate's meter, and up to when they were earned in
/// nanoseconds since 1970.
pub(super) type Bucketed = (u64, u64, u64);

#[derive(Serialize, Deserialize)]
pub(super) struct Chosen {
    pub(super) id: u8,
    pub(super) source: u8,
    pub(super) instance: Option<u16>,
    pub(super) f_teid: FTeid,
}

/// PDR, PPI, QFI, and whether it was discarded or buffered.
pub(super) type Downlink = (u16, Option<u8>, Option<u8>, Option<bool>);

#[derive(Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) usage: Vec<Usage>,
    /// URR, UR-SEQN, and the query that the report answers.
    pub(super) queries: Vec<(u32, u32, u32)>,
    pub(super) downlink: Vec<Downlink>,
    pub(super) errors: Vec<(IpAddr, u32)>,
    pub(super) inactive: bool,
    pub(super) response: Option<ResponseRecord>,
}

form! {
    FSeid = CpFSeid {
        seid: u64,
        ipv4: Option<Ipv4Addr>,
        ipv6: Option<Ipv6Addr>,
    }
}

form! {
    FTeid = model::FTeid {
        teid: u32,
        ipv4: Option<Ipv4Addr>,
        ipv6: Option<Ipv6Addr>,
    }
}

form! {
    UeIp = model::UeIpAddress {
        ipv4: Option<Ipv4Addr>,
        ipv6: Option<(Ipv6Addr, u8)>,
        is_destination: bool,
    }
}

form! {
    OuterHeader = model::OuterHeaderCreation {
        kind: u16,
        teid: u32,
        ipv4: Option<Ipv4Addr>,
        ipv6: Option<Ipv6Addr>,
        port: Option<u16>,
    }
}

/// A QER as it is written, with what few say beside the rest.
pub(super) struct QerValues {
    id: model::QerId,
    gate_ul: model::Gate,
    gate_dl: model::Gate,
    qfi: Option<Qfi>,
    rqi: bool,
    ppi: Option<Ppi>,
    sci: Option<u8>,
    mbr: Option<model::BitRates>,
    gbr: Option<model::BitRates>,
    averaging_window: Option<u32>,
    packet_rates: Option<model::PacketRates>,
    reports_rate: bool,
    correlation: Option<model::CorrelationId>,
}

impl Form<model::Qer> for Qer {
    fn write(value: &model::Qer, dates: Dates<'_>) -> Qer {
        let model::Qer {
            id,
            correlation,
            gate_ul,
            gate_dl,
            qfi,
            rqi,
            ppi,
            sci,
            mbr,
            ref optional,
        } = *value;
        let model::OptionalRates {
            gbr,
            averaging_window,
            packet_rates,
            reports_rate,
            // Beside the QERs: `l4s`.
            marks_l4s: _,
        } = **optional;
        let values = QerValues {
            id,
            gate_ul,
            gate_dl,
            qfi,
            rqi,
            ppi,
            sci,
            mbr,
            gbr,
            averaging_window,
            packet_rates,
            reports_rate,
            correlation,
        };
        Form::<QerValues>::write(&values, dates)
    }

    fn read(&self, dates: Dates<'_>) -> Result<model::Qer> {
        let QerValues {
            id,
            gate_ul,
            gate_dl,
            qfi,
            rqi,
            ppi,
            sci,
            mbr,
            gbr,
            averaging_window,
            packet_rates,
            reports_rate,
            correlation,
        } = self.read(dates)?;
        let optional = model::OptionalRates {
            gbr,
            averaging_window,
            packet_rates,
            reports_rate,
            marks_l4s: false,
        };
        Ok(model::Qer {
            id,
            correlation,
            gate_ul,
            gate_dl,
            qfi,
            rqi,
            ppi,
            sci,
            mbr,
            optional: optional.into(),
        })
    }
}

form! {
    Qer = QerValues {
        id: u32,
        /// Whether closed.
        gate_ul: bool,
        gate_dl: bool,
        qfi: Option<u8>,
        rqi: bool,
        ppi: Option<u8>,
        sci: Option<u8>,
        mbr: Option<BitRates>,
        gbr: Option<BitRates>,
        /// Milliseconds.
        averaging_window: Option<u32>,
        packet_rates: Option<PacketRates>,
        reports_rate: bool,
        correlation: Option<u32>,
    }
}

form! {
    /// Bit/s.
    BitRates = model::BitRates {
        ul: u64,
        dl: u64,
    }
}

form! {
    PacketRates = model::PacketRates {
        ul: Option<Packets>,
        dl: Option<Packets>,
    }
}

form! {
    /// Packets in a unit of time (TS 29.244 Table 8.2.63.1), and additional ones.
    Packets = PacketRate {
        base: Per,
        additional: Option<Per>,
    }
}

form! {
    Per = PacketsPer {
        packets: u16,
        unit: u8,
    }
}

form! {
    Bar = model::Bar {
        id: u8,
        notification_delay: Option<u8>,
        suggested_packets: Option<u8>,
        extended_packets: Option<u16>,
    }
}
