//! The body of a session's record, version 1: the shapes as they are written, and the way between them and the session.
//!
//! The shapes are not those of [`rules::model`], which may change while these may not: a change of a shape is a new
//! version beside this one. Every field of a rule is named when it is written, so that one that is added to the model
//! does not compile before somebody has decided what becomes of it here.

use flow::meter::{PacketRate, PacketState, PacketsPer, Tokens, Window};
use flow::{InstanceId, Nanos};
use packet::{Ppi, Qfi};
use rules::image::{DataStatus, PacketsLeft, TokensLeft};
use rules::model;
use rules::network::PolicyId;
use rules::prefix::IpPrefix;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{DownlinkMark, Frame, Octets, PendingReports, RecordError, SessionRecord, octets};
use crate::account::{Account, Entered, Subscriber};
use crate::sets::{SetId, SetNode, Sets};
use crate::ue_addresses::UeAddress;
use read::Reader;
use urr::{Checkpoint, Urr, Usage, read_urr, write_urr};
use usage::Moment;

mod read;
mod urr;

type Result<T> = std::result::Result<T, RecordError>;

#[derive(Serialize, Deserialize)]
struct Body {
    association: Vec<u8>,
    seid: u64,
    cp: FSeid,
    bucket: u16,
    sets: SetsBody,
    /// The names of the network instances that the rest goes by numbers of.
    instances: Vec<String>,
    /// The names of the forwarding policies, likewise.
    policies: Vec<String>,
    /// The names of the policers of its slice and data network: three at most.
    policers: Vec<String>,
    endpoints: Vec<Endpoint>,
    pdrs: Vec<Pdr>,
    fars: Vec<Far>,
    qers: Vec<Qer>,
    urrs: Vec<Urr>,
    bars: Vec<Bar>,
    filters: Vec<Filter>,
    /// Seconds.
    inactivity_timer: Option<u32>,
    /// Each with an instance of its address space.
    leases: Vec<(u16, Prefix)>,
    chosen: Vec<Chosen>,
    checkpoints: Vec<Checkpoint>,
    account: Billing,
    /// By QER: uplink, downlink.
    packets: Vec<(u32, [Left; 2])>,
    /// By QER: uplink, downlink.
    tokens: Vec<(u32, [Option<Bucketed>; 2])>,
    /// By URR: packets, octets.
    dropped: Vec<(u32, u64, u64)>,
    pending: Pending,
}

/// Whom the session is for, since when there has been one, and what usage was entered of it.
#[derive(Serialize, Deserialize)]
struct Billing {
    subscriber: Option<User>,
    since: Option<u64>,
    reports: u64,
    count: Octets,
}

#[derive(Serialize, Deserialize)]
struct User {
    imsi: Option<String>,
    imei: Option<String>,
    msisdn: Option<String>,
    nai: Option<String>,
    supi: Option<String>,
    gpsi: Option<String>,
    pei: Option<String>,
    dnn: Option<String>,
    s_nssai: Option<(u8, Option<[u8; 3]>)>,
}

#[derive(Serialize, Deserialize)]
struct FSeid {
    seid: u64,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

#[derive(Serialize, Deserialize)]
struct SetsBody {
    ids: Vec<Set>,
    group: Option<Vec<u8>>,
    reports_to: Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)>,
}

#[derive(Serialize, Deserialize)]
struct Set {
    kind: Option<u8>,
    node: Node,
    number: u16,
}

#[derive(Serialize, Deserialize)]
enum Node {
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Operator(u32),
}

#[derive(Serialize, Deserialize)]
struct Prefix(IpAddr, u8);

#[derive(Serialize, Deserialize)]
struct FTeid {
    teid: u32,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

#[derive(Serialize, Deserialize)]
struct UeIp {
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<(Ipv6Addr, u8)>,
    is_destination: bool,
}

#[derive(Serialize, Deserialize)]
struct Filter {
    /// As in an SDF Filter IE.
    flow_description: Option<String>,
    /// The octet, and its bits that count.
    tos_traffic_class: Option<(u8, u8)>,
    spi: Option<u32>,
    flow_label: Option<u32>,
    filter_id: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Endpoint {
    id: u8,
    f_teid: Option<FTeid>,
    instance: Option<u16>,
    ue_ip: Vec<UeIp>,
    framed_routes: Vec<Prefix>,
    qfis: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Pdr {
    id: u16,
    precedence: u32,
    source_interface: u8,
    endpoint: Option<u8>,
    f_teid: Option<FTeid>,
    instance: Option<u16>,
    ue_ip: Vec<UeIp>,
    framed_routes: Vec<Prefix>,
    sdf_filters: Vec<Filter>,
    application: Option<Application>,
    qfis: Vec<u8>,
    /// The value of Outer Header Removal, and whether the PDU Session Container goes.
    outer_header_removal: Option<(u8, bool)>,
    far: Option<u32>,
    qers: Vec<u32>,
    urrs: Vec<u32>,
    /// The names of rulebases of predefined rules.
    rulebases: Vec<Vec<u8>>,
}

/// An application's identifier, and the flows that are its.
type Application = (Vec<u8>, Vec<String>);

#[derive(Serialize, Deserialize)]
struct Far {
    id: u32,
    action: u16,
    forwarding: Option<Forwarding>,
    duplicating: Option<Forwarding>,
    /// The URL.
    redirect: Option<String>,
    bar: Option<u8>,
}

#[derive(Serialize, Deserialize)]
struct Forwarding {
    destination: u8,
    instance: Option<u16>,
    outer_header_creation: Option<OuterHeader>,
    transport_level_marking: Option<(u8, u8)>,
    policy: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct OuterHeader {
    kind: u16,
    teid: u32,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    port: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct Qer {
    id: u32,
    /// Uplink and downlink: whether closed.
    gates: (bool, bool),
    qfi: Option<u8>,
    rqi: bool,
    ppi: Option<u8>,
    sci: Option<u8>,
    /// Uplink and downlink, bit/s.
    mbr: Option<(u64, u64)>,
    gbr: Option<(u64, u64)>,
    /// Milliseconds.
    averaging_window: Option<u32>,
    packet_rates: Option<(Option<Packets>, Option<Packets>)>,
    reports_rate: bool,
    correlation: Option<u32>,
}

/// Packets in a unit of time (TS 29.244 Table 8.2.63.1), and additional ones.
#[derive(Serialize, Deserialize)]
struct Packets {
    base: (u16, u8),
    additional: Option<(u16, u8)>,
}

/// Packets left in a unit of time, and its end in nanoseconds since 1970: of the rate, and of the additional one.
type Left = [(u16, u64); 2];

/// Millionths of bits in the committed and the further bucket of a bit rate's meter, and up to when they were earned in
/// nanoseconds since 1970.
type Bucketed = (u64, u64, u64);

#[derive(Serialize, Deserialize)]
struct Bar {
    id: u8,
    notification_delay: Option<u8>,
    suggested_packets: Option<u8>,
    extended_packets: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct Chosen {
    id: u8,
    source: u8,
    instance: Option<u16>,
    f_teid: FTeid,
}

/// PDR, PPI, QFI, and whether it was discarded or buffered.
type Downlink = (u16, Option<u8>, Option<u8>, Option<bool>);

#[derive(Serialize, Deserialize)]
struct Pending {
    usage: Vec<Usage>,
    /// URR, UR-SEQN, and the query that the report answers.
    queries: Vec<(u32, u32, u32)>,
    downlink: Vec<Downlink>,
    errors: Vec<(IpAddr, u32)>,
    inactive: bool,
}

/// Writes a session.
pub(super) fn encode(record: &SessionRecord, frame: Frame<'_>) -> Result<Vec<u8>> {
    let body = Writer {
        frame,
        named: Vec::new(),
        policies: Vec::new(),
    }
    .body(record)?;
    postcard::to_allocvec(&body).map_err(|_| RecordError::Malformed("session"))
}

/// Reads a session.
pub(super) fn decode(octets: &[u8], frame: Frame<'_>) -> Result<SessionRecord> {
    let (body, rest): (Body, _) =
        postcard::take_from_bytes(octets).map_err(|_| RecordError::Malformed("session"))?;
    if !rest.is_empty() {
        return Err(RecordError::Malformed("end"));
    }
    Reader::new(frame, &body)?.record(body)
}

/// Writes what is different in every process by what is not.
struct Writer<'a> {
    frame: Frame<'a>,
    named: Vec<InstanceId>,
    policies: Vec<PolicyId>,
}

impl Writer<'_> {
    fn body(mut self, record: &SessionRecord) -> Result<Body> {
        let SessionRecord {
            association,
            seid,
            cp,
            bucket,
            sets,
            rules,
            leases,
            shared,
            checkpoints,
            account,
            packets,
            tokens,
            dropped,
            pending,
        } = record;
        let endpoints = rules.endpoints().iter().map(|one| self.endpoint(one)).collect();
        let pdrs = rules.pdrs().iter().map(|pdr| self.pdr(pdr)).collect();
        let fars = rules.fars().iter().map(|far| self.far(far)).collect();
        let leases = leases.iter().map(|lease| self.lease(lease)).collect();
        let chosen = shared.entries().map(|entry| self.chosen(entry)).collect();
        let network = self.frame.network;
        let instance_name = |id: &InstanceId| network.instance(*id).map(|one| one.name.clone());
        let policy_name = |id: &PolicyId| network.policy(*id).map(|one| one.name.clone());
        Ok(Body {
            association: association.clone(),
            seid: seid.0,
            cp: FSeid {
                seid: cp.seid,
                ipv4: cp.ipv4,
                ipv6: cp.ipv6,
            },
            bucket: bucket.index() as u16,
            sets: sets_body(sets),
            endpoints,
            pdrs,
            fars,
            qers: rules.qers().iter().map(qer).collect(),
            urrs: rules.urrs().iter().map(write_urr).collect(),
            bars: rules.bars().iter().map(bar).collect(),
            filters: rules.shared_filters().map(filter).collect(),
            inactivity_timer: rules.inactivity_timer().map(|timer| timer.seconds.get()),
            leases,
            chosen,
            checkpoints: checkpoints.iter().map(|one| self.checkpoint(one)).collect(),
            account: self.account(account),
            packets: packets.iter().map(|one| self.left(one)).collect(),
            tokens: tokens.iter().map(|one| self.tokens(one)).collect(),
            dropped: dropped
                .iter()
                .map(|one| (one.urr.0, one.packets, one.octets))
                .collect(),
            pending: self.pending(pending),
            instances: names(&self.named, instance_name, "network instance")?,
            policies: names(&self.policies, policy_name, "forwarding policy")?,
            policers: network
                .policers()
                .named(rules.policers())
                .map(|policer| policer.name.clone())
                .collect(),
        })
    }

    /// The number of an instance in the record.
    fn instance(&mut self, id: InstanceId) -> u16 {
        number(&mut self.named, id)
    }

    /// The number of a forwarding policy in the record.
    fn policy(&mut self, id: PolicyId) -> u16 {
        number(&mut self.policies, id)
    }

    fn lease(&mut self, (vrf, prefix): &UeAddress) -> (u16, Prefix) {
        let instances = self.frame.network.instances().iter();
        let member = instances.filter(|one| one.vrf == *vrf).map(|one| one.id).next();
        (self.instance(member.unwrap_or_default()), written(prefix))
    }

    fn chosen(
        &mut self,
        (id, source, instance, f_teid): (u8, model::SourceInterface, Option<InstanceId>, model::FTeid),
    ) -> Chosen {
        Chosen {
            id,
            source: source.value(),
            instance: instance.map(|id| self.instance(id)),
            f_teid: f_teid_body(f_teid),
        }
    }

    fn endpoint(&mut self, endpoint: &model::TrafficEndpoint) -> Endpoint {
        let model::TrafficEndpoint {
            id,
            f_teid,
            instance,
            ue_ip,
            framed_routes,
            qfis,
        } = endpoint;
        Endpoint {
            id: id.0,
            f_teid: f_teid.map(f_teid_body),
            instance: instance.map(|id| self.instance(id)),
            ue_ip: ue_ip.iter().map(ue_ip_body).collect(),
            framed_routes: framed_routes.iter().map(written).collect(),
            qfis: qfis.iter().map(|qfi| qfi.get()).collect(),
        }
    }

    fn pdr(&mut self, pdr: &model::Pdr) -> Pdr {
        let model::Pdr {
            id,
            precedence,
            pdi,
            outer_header_removal,
            far,
            qers,
            urrs,
            rulebases,
        } = pdr;
        let model::Pdi {
            source_interface,
            endpoint,
            f_teid,
            instance,
            ue_ip,
            framed_routes,
            sdf_filters,
            application,
            qfis,
        } = pdi;
        Pdr {
            id: id.0,
            precedence: precedence.0,
            source_interface: source_interface.value(),
            endpoint: endpoint.map(|id| id.0),
            f_teid: f_teid.map(f_teid_body),
            instance: instance.map(|id| self.instance(id)),
            ue_ip: ue_ip.iter().map(ue_ip_body).collect(),
            framed_routes: framed_routes.iter().map(written).collect(),
            sdf_filters: sdf_filters.iter().map(filter).collect(),
            application: application.as_ref().map(write_application),
            qfis: qfis.iter().map(|qfi| qfi.get()).collect(),
            outer_header_removal: outer_header_removal.map(|removal| {
                let model::OuterHeaderRemoval { header, deletes_psc } = removal;
                (header.value(), deletes_psc)
            }),
            far: far.map(|id| id.0),
            qers: qers.iter().map(|id| id.0).collect(),
            urrs: urrs.iter().map(|id| id.0).collect(),
            rulebases: rulebases
                .iter()
                .map(|rulebase| rulebase.name().to_vec())
                .collect(),
        }
    }

    fn far(&mut self, far: &model::Far) -> Far {
        let model::Far {
            id,
            action,
            forwarding,
            duplicating,
            redirect,
            bar,
        } = far;
        Far {
            id: id.0,
            action: action.0,
            forwarding: forwarding.as_ref().map(|to| self.forwarding(to)),
            duplicating: duplicating.as_ref().map(|to| self.forwarding(to)),
            redirect: redirect.as_ref().map(|to| to.url().to_owned()),
            bar: bar.map(|id| id.0),
        }
    }

    fn forwarding(&mut self, forwarding: &model::ForwardingParameters) -> Forwarding {
        let model::ForwardingParameters {
            destination,
            instance,
            outer_header_creation,
            transport_level_marking,
            policy,
        } = forwarding;
        Forwarding {
            destination: destination.value(),
            instance: instance.map(|id| self.instance(id)),
            outer_header_creation: outer_header_creation.as_ref().map(|header| {
                let model::OuterHeaderCreation {
                    kind,
                    teid,
                    ipv4,
                    ipv6,
                    port,
                } = *header;
                OuterHeader {
                    kind: kind.0,
                    teid: teid.0,
                    ipv4,
                    ipv6,
                    port,
                }
            }),
            transport_level_marking: transport_level_marking.map(|class| (class.value, class.mask)),
            policy: policy.map(|id| self.policy(id)),
        }
    }

    fn date(&self, moment: Moment) -> u64 {
        self.frame.wall.unix_nanos(moment)
    }

    /// What has never begun keeps its 0.
    fn left(&self, (qer, states): &PacketsLeft) -> (u32, [Left; 2]) {
        let window = |Window { left, ends }| match ends {
            Nanos::ZERO => (left, 0),
            ends => (left, self.date(ends.into())),
        };
        let both = |state: PacketState| [window(state.base), window(state.additional)];
        (qer.0, states.map(both))
    }

    fn tokens(&self, (qer, both): &TokensLeft) -> (u32, [Option<Bucketed>; 2]) {
        let written = |Tokens {
                           left: [committed, further],
                           at,
                       }| (committed, further, self.date(Moment(at)));
        (qer.0, both.map(|tokens| tokens.map(written)))
    }

    fn account(&self, account: &Account) -> Billing {
        let Account {
            subscriber,
            since,
            entered,
        } = account;
        let Entered { reports, count } = &**entered;
        Billing {
            subscriber: subscriber.as_deref().map(user),
            since: since.get().map(|since| self.date(since)),
            reports: *reports,
            count: octets(*count),
        }
    }

    fn pending(&self, pending: &PendingReports) -> Pending {
        let PendingReports {
            usage,
            queries,
            downlink,
            errors,
            inactive,
        } = pending;
        let mark = |mark: &DownlinkMark| {
            let status = mark.status.map(|status| status == DataStatus::Discarded);
            (mark.pdr.0, mark.ppi, mark.qfi.map(Qfi::get), status)
        };
        Pending {
            usage: usage.iter().map(|report| self.usage(report)).collect(),
            queries: queries
                .iter()
                .map(|(urr, sequence, query)| (urr.0, *sequence, *query))
                .collect(),
            downlink: downlink.iter().map(mark).collect(),
            errors: errors.iter().map(|(peer, teid)| (*peer, teid.0)).collect(),
            inactive: *inactive,
        }
    }
}

/// The place of `id` among those that are named, which it joins if it is new.
fn number<T: PartialEq>(named: &mut Vec<T>, id: T) -> u16 {
    let known = named.iter().position(|one| *one == id);
    known.unwrap_or_else(|| {
        named.push(id);
        named.len() - 1
    }) as u16
}

/// The names of what has `ids`. No live session has others than those of the network.
fn names<T>(ids: &[T], name: impl Fn(&T) -> Option<String>, field: &'static str) -> Result<Vec<String>> {
    let named = ids.iter().map(|id| name(id).ok_or(RecordError::Malformed(field)));
    named.collect()
}

fn written(prefix: &IpPrefix) -> Prefix {
    Prefix(prefix.address(), prefix.len())
}

fn user(subscriber: &Subscriber) -> User {
    let Subscriber {
        imsi,
        imei,
        msisdn,
        nai,
        supi,
        gpsi,
        pei,
        dnn,
        s_nssai,
    } = subscriber;
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    User {
        imsi: text(imsi),
        imei: text(imei),
        msisdn: text(msisdn),
        nai: text(nai),
        supi: text(supi),
        gpsi: text(gpsi),
        pei: text(pei),
        dnn: text(dnn),
        s_nssai: *s_nssai,
    }
}

fn sets_body(sets: &Sets) -> SetsBody {
    let Sets {
        ids,
        group,
        reports_to,
    } = sets;
    let set = |id: &SetId| Set {
        kind: id.kind,
        number: id.number,
        node: match id.node {
            SetNode::Ipv4(address) => Node::Ipv4(address),
            SetNode::Ipv6(address) => Node::Ipv6(address),
            SetNode::Operator(number) => Node::Operator(number),
        },
    };
    SetsBody {
        ids: ids.iter().map(set).collect(),
        group: group.as_ref().map(|group| group.to_vec()),
        reports_to: reports_to.map(|to| (to.ipv4, to.ipv6)),
    }
}

fn f_teid_body(f_teid: model::FTeid) -> FTeid {
    let model::FTeid { teid, ipv4, ipv6 } = f_teid;
    FTeid {
        teid: teid.0,
        ipv4,
        ipv6,
    }
}

fn ue_ip_body(ue: &model::UeIpAddress) -> UeIp {
    let model::UeIpAddress {
        ipv4,
        ipv6,
        is_destination,
    } = *ue;
    UeIp {
        ipv4,
        ipv6,
        is_destination,
    }
}

fn write_application(application: &model::Application) -> Application {
    let model::Application { id, flows } = application;
    (id.to_vec(), flows.iter().map(ToString::to_string).collect())
}

fn filter(filter: &model::SdfFilter) -> Filter {
    let model::SdfFilter {
        flow_description,
        tos_traffic_class,
        spi,
        flow_label,
        filter_id,
    } = filter;
    Filter {
        flow_description: flow_description.as_ref().map(ToString::to_string),
        tos_traffic_class: tos_traffic_class.map(|class| (class.value, class.mask)),
        spi: *spi,
        flow_label: *flow_label,
        filter_id: filter_id.map(|id| id.0),
    }
}

fn qer(qer: &model::Qer) -> Qer {
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
        gbr,
        averaging_window,
        packet_rates,
        reports_rate,
    } = *qer;
    let rates = |rates: model::BitRates| (rates.ul.0, rates.dl.0);
    Qer {
        id: id.0,
        gates: (gate_ul.is_closed(), gate_dl.is_closed()),
        qfi: qfi.map(Qfi::get),
        rqi,
        ppi: ppi.map(Ppi::get),
        sci,
        mbr: mbr.map(rates),
        gbr: gbr.map(rates),
        averaging_window,
        packet_rates: packet_rates.map(|rates| (rates.ul.map(packet_rate), rates.dl.map(packet_rate))),
        reports_rate,
        correlation: correlation.map(|correlation| correlation.0),
    }
}

fn packet_rate(rate: PacketRate) -> Packets {
    let per = |per: PacketsPer| (per.packets, per.unit.value());
    Packets {
        base: per(rate.base),
        additional: rate.additional.map(per),
    }
}

fn bar(bar: &model::Bar) -> Bar {
    let model::Bar {
        id,
        notification_delay,
        suggested_packets,
        extended_packets,
    } = *bar;
    Bar {
        id: id.0,
        notification_delay,
        suggested_packets,
        extended_packets,
    }
}
