//! Rules at random.

use std::net::Ipv4Addr;
use std::sync::Arc;

use dpi::Protocols;
use flow::meter::{PacketRate, PacketsPer, TimeUnit};
use packet::{Ppi, Qfi, Teid};
use proptest::prelude::*;

use super::access_lists::any_access_list;
use super::detections::any_protocols;
use super::filters::{DESCRIPTIONS, any_filter};
use super::packets::TEIDS;
use super::{ALL_EVENTS, EVENTFUL, GNB, N3_ADDRESS, N6, N9, N9_ADDRESS, OTHER_N6, UE, UE_V6};
use crate::model::{
    Aggregated, Application, ApplyAction, Bar, BarId, BitRates, BitsPerSecond, DestinationInterface, Edit,
    FTeid, Far, FarId, FarUpdate, ForwardingParameters, ForwardingParametersUpdate, Gate, LocalPolicy,
    MeasurementInformation, MeasurementMethod, Multiplier, NameKind, NamePattern, NamedPfd, NamedPfds,
    OptionalActions, OptionalPdi, OptionalRates, OuterHeader, OuterHeaderCreation, OuterHeaderKind,
    OuterHeaderRemoval, PacketRates, Pdi, PdiUpdate, Pdr, PdrId, PdrUpdate, Precedence, Qer, QerId,
    QerUpdate, Redirect, SessionRules, SourceInterface, TosTrafficClass, UeIpAddress, Urr, UrrId, UrrTerms,
    UrrTermsUpdate, UrrUpdate,
};
use crate::network::{InstanceId, PolicyId};
use crate::prefix::IpPrefix;
use crate::sdf::FlowDescription;

const FARS: u32 = 8;
const QERS: u32 = 4;
const URRS: u32 = 3;

fn any_f_teid() -> BoxedStrategy<FTeid> {
    let local = prop_oneof![3 => Just(N3_ADDRESS), 1 => Just(N9_ADDRESS)];
    (prop::sample::select(&TEIDS[..]), local, any::<bool>())
        .prop_map(|(teid, local, dual)| {
            let ipv6 = (dual && local == N3_ADDRESS).then(|| "2001:db8:3::1".parse().expect("an address"));
            FTeid {
                teid: Teid(teid),
                ipv4: Some(local),
                ipv6,
            }
        })
        .boxed()
}

fn any_ue_ip() -> BoxedStrategy<UeIpAddress> {
    let v4 = prop::option::weighted(
        0.8,
        prop_oneof![4 => Just(UE), 1 => Just(Ipv4Addr::new(10, 45, 0, 3))],
    );
    let v6 = prop::option::weighted(
        0.7,
        prop_oneof![8 => Just(64u8), 1 => Just(56), 1 => Just(127), 1 => Just(128)],
    );
    (v4, v6, any::<bool>())
        .prop_map(|(ipv4, len, is_destination)| UeIpAddress {
            ipv4,
            ipv6: len.map(|len| (UE_V6, len)),
            is_destination,
        })
        .boxed()
}

fn any_source() -> BoxedStrategy<SourceInterface> {
    prop_oneof![
        4 => Just(SourceInterface::Access),
        4 => Just(SourceInterface::Core),
        1 => Just(SourceInterface::SgiLan),
        1 => Just(SourceInterface::CpFunction),
        1 => Just(SourceInterface::Other(5)),
    ]
    .boxed()
}

/// Networks behind the UE; some hold addresses of generated packets.
fn any_route() -> BoxedStrategy<IpPrefix> {
    let routes = [
        "10.45.0.0/24",
        "10.60.0.0/16",
        "2001:db8:45::/48",
        "198.51.100.0/25",
    ];
    prop::sample::select(routes.to_vec())
        .prop_map(|route| route.parse().expect("a prefix"))
        .boxed()
}

fn any_flows() -> BoxedStrategy<Vec<FlowDescription>> {
    let flow = prop::sample::select(&DESCRIPTIONS[..]);
    let flow = flow.prop_map(|text| text.parse().expect("a description"));
    prop::collection::vec(flow, 0..3).boxed()
}

/// A PFD whose names those of [`any_detection`](super::detections::any_detection) often match.
fn any_named_pfd() -> BoxedStrategy<NamedPfd> {
    let names = |kinds: &'static [NameKind], texts: &'static [&'static str]| {
        let kind = prop::sample::select(kinds);
        let name = (kind, prop::sample::select(texts));
        let name = name.prop_map(|(kind, text)| NamePattern::parse(kind, text.as_bytes()).expect("a name"));
        prop::collection::vec(name, 0..3)
    };
    let urls = names(
        &[NameKind::Url],
        &[
            "http://a.example/video",
            "https://*.example/",
            "192.0.2.1",
            r"^http://.*/video(/\S*)?$",
        ],
    );
    let domains = names(
        &[NameKind::Domain, NameKind::ServerName, NameKind::QueryName],
        &["a.example", "*.b.example", r"(^|\.)example$"],
    );
    let protocols = prop_oneof![2 => Just(Protocols::NONE), 1 => any_protocols()];
    (any_flows(), urls, domains, protocols)
        .prop_map(|(flows, urls, domains, protocols)| NamedPfd {
            flows,
            urls,
            domains,
            protocols,
        })
        .boxed()
}

/// Applications of which nothing is known, too.
pub(super) fn any_application() -> BoxedStrategy<Application> {
    let named = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(any_named_pfd(), 1..3),
    ];
    (any_flows(), named)
        .prop_map(|(flows, mut named)| {
            named.retain(|pfd| !pfd.urls.is_empty() || !pfd.domains.is_empty() || !pfd.protocols.is_empty());
            Application {
                id: EVENTFUL.into(),
                flows: flows.into(),
                named: Arc::new(NamedPfds::new(named, 1)),
            }
        })
        .boxed()
}

fn any_pdi() -> BoxedStrategy<Pdi> {
    let f_teid = prop_oneof![2 => any_f_teid().prop_map(Some), 1 => Just(None)];
    let instance = prop::option::weighted(0.2, prop::sample::select(&[N6, OTHER_N6, N9][..]));
    let ue_ip = prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(any_ue_ip(), 1..3)];
    let filters = prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(any_filter(), 1..4)];
    let qfi = (8..11u8).prop_map(Qfi::from_low_bits);
    let qfis = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(qfi, 1..3)];
    let routes = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(any_route(), 1..3)];
    let filters = (filters, prop::option::weighted(0.15, any_application()));
    (any_source(), f_teid, instance, (ue_ip, routes), filters, qfis)
        .prop_map(
            |(source_interface, f_teid, instance, (ue_ip, framed_routes), filters, qfis)| Pdi {
                source_interface,
                endpoint: None,
                // Downlink packets mostly come without a tunnel.
                f_teid: f_teid
                    .filter(|f_teid| source_interface != SourceInterface::Core || f_teid.teid.0 % 2 == 0),
                instance,
                ue_ip: ue_ip.into(),
                sdf_filters: filters.0.into(),
                optional: OptionalPdi {
                    framed_routes,
                    application: filters.1,
                }
                .into(),
                qfis: qfis.into(),
            },
        )
        .boxed()
}

fn any_pdr() -> BoxedStrategy<Pdr> {
    let removal = prop::option::weighted(
        0.7,
        (prop::sample::select(&[0u8, 1, 6][..]), prop::bool::weighted(0.2)),
    );
    let qers = prop::collection::vec(0..QERS, 0..3);
    let urrs = prop::collection::hash_set(0..URRS, 0..3);
    (0..4u32, any_pdi(), removal, 0..FARS, qers, urrs)
        .prop_map(|(precedence, pdi, removal, far, qers, urrs)| Pdr {
            id: PdrId(0),
            precedence: Precedence(precedence),
            pdi,
            outer_header_removal: removal.map(|(header, deletes_psc)| OuterHeaderRemoval {
                header: OuterHeader::from_value(header).expect("a header"),
                deletes_psc,
            }),
            far: Some(FarId(far)),
            qers: qers.into_iter().map(QerId).collect(),
            urrs: urrs.into_iter().map(UrrId).collect(),
            rulebases: Default::default(),
        })
        .boxed()
}

fn any_header() -> BoxedStrategy<OuterHeaderCreation> {
    let peers = [
        GNB,
        Ipv4Addr::new(10, 200, 1, 1),
        Ipv4Addr::new(10, 209, 1, 1),
        Ipv4Addr::UNSPECIFIED,
        // Tunnels that end here.
        N3_ADDRESS,
        N9_ADDRESS,
    ];
    let kinds = [1u16, 1, 1, 2, 3, 0x101].map(OuterHeaderKind);
    (
        prop::sample::select(kinds.to_vec()),
        prop_oneof![2 => 0..4u32, 1 => prop::sample::select(&TEIDS[..])],
        prop::sample::select(peers.to_vec()),
    )
        .prop_map(|(kind, teid, peer)| OuterHeaderCreation {
            kind,
            teid: Teid(teid),
            ipv4: kind.contains(OuterHeaderKind::GTPU_IPV4).then_some(peer),
            ipv6: kind
                .contains(OuterHeaderKind::GTPU_IPV6)
                .then(|| "2001:db8:200::1".parse().expect("an address")),
            port: None,
        })
        .boxed()
}

fn any_destination() -> BoxedStrategy<DestinationInterface> {
    prop_oneof![
        4 => Just(DestinationInterface::Access),
        4 => Just(DestinationInterface::Core),
        1 => Just(DestinationInterface::SgiLan),
        1 => Just(DestinationInterface::CpFunction),
        1 => Just(DestinationInterface::Other(4)),
    ]
    .boxed()
}

fn any_parameters() -> BoxedStrategy<ForwardingParameters> {
    let instance = prop::option::weighted(0.2, prop::sample::select(&[N6, OTHER_N6, N9][..]));
    let marking = prop::option::weighted(0.2, (any::<u8>(), prop::sample::select(&[0xfcu8, 0xff][..])));
    // Those of [`any_network`](super::any_network); elsewhere they are not configured.
    let policy = prop::option::weighted(0.2, (0..2u16).prop_map(PolicyId));
    let header = prop::option::of(any_header());
    (any_destination(), instance, header, marking, policy)
        .prop_map(
            |(destination, instance, outer_header_creation, marking, policy)| ForwardingParameters {
                destination,
                instance,
                outer_header_creation,
                transport_level_marking: marking.map(|(value, mask)| TosTrafficClass { value, mask }),
                policy,
            },
        )
        .boxed()
}

fn any_action() -> BoxedStrategy<ApplyAction> {
    prop_oneof![
        10 => Just(ApplyAction::FORW),
        1 => Just(ApplyAction::DROP),
        1 => Just(ApplyAction::BUFF.with(ApplyAction::NOCP)),
        1 => Just(ApplyAction::IPMA),
    ]
    .boxed()
}

pub(super) fn any_far() -> BoxedStrategy<Far> {
    let parameters = prop::option::weighted(0.95, any_parameters());
    (
        any_action(),
        parameters,
        prop::option::weighted(0.2, any_duplicating()),
        prop::option::weighted(0.15, Just("http://portal.example/?from=here")),
        prop::option::weighted(0.1, Just(BarId(1))),
    )
        .prop_map(|(action, forwarding, duplicating, redirect, bar)| Far {
            id: FarId(0),
            action: if duplicating.is_some() && redirect.is_none() {
                action.with(ApplyAction::DUPL)
            } else {
                action
            },
            forwarding,
            optional: OptionalActions {
                duplicating,
                redirect: redirect.and_then(|url| Redirect::new(url.as_bytes())),
                nat: None,
            }
            .into(),
            bar,
        })
        .boxed()
}

/// Copies for another node.
fn any_duplicating() -> BoxedStrategy<ForwardingParameters> {
    let lawful = DestinationInterface::Other(4);
    let destination = prop::sample::select(vec![
        lawful,
        DestinationInterface::Core,
        DestinationInterface::Access,
    ]);
    let peers = ["10.0.9.254", "10.209.1.1", "10.200.1.1"].map(|peer| peer.parse().expect("an address"));
    (destination, any::<u8>(), prop::sample::select(peers.to_vec()))
        .prop_map(|(destination, tos, peer)| {
            let mut parameters = ForwardingParameters::new(destination);
            let header = OuterHeaderCreation::gtpu_ipv4(Teid(u32::from(tos) + 1), peer);
            parameters.outer_header_creation = Some(header);
            let marking = TosTrafficClass {
                value: tos,
                mask: 0xfc,
            };
            parameters.transport_level_marking = (tos & 1 != 0).then_some(marking);
            parameters
        })
        .boxed()
}

fn any_gate() -> BoxedStrategy<Gate> {
    prop_oneof![7 => Just(Gate::Open), 1 => Just(Gate::Closed)].boxed()
}

pub(super) fn any_qer() -> BoxedStrategy<Qer> {
    let qfi = prop::option::of((8..11u8).prop_map(Qfi::from_low_bits));
    let ppi = prop::option::weighted(0.3, (0..8u8).prop_map(Ppi::from_low_bits));
    let some = || prop::option::weighted(0.2, any_rates());
    let below = any_guaranteed().prop_map(|(gbr, mbr)| (Some(mbr), Some(gbr)));
    let pair = (some(), some()).prop_map(|(mbr, gbr)| (mbr, gbr.map(|gbr| within(gbr, mbr))));
    let rates = prop_oneof![2 => pair, 1 => below];
    let window = prop::option::weighted(0.2, 0..3000u32);
    let packets = prop::option::weighted(0.15, any_packet_rates());
    let sci = prop::option::weighted(0.2, any::<u8>());
    let rates = (rates, window, packets, sci);
    (any_gate(), any_gate(), qfi, any::<bool>(), ppi, rates)
        .prop_map(
            |(gate_ul, gate_dl, qfi, rqi, ppi, ((mbr, gbr), averaging_window, packet_rates, sci))| Qer {
                gate_ul,
                gate_dl,
                qfi: qfi.filter(|_| sci.is_none()),
                sci,
                rqi,
                ppi,
                mbr,
                optional: OptionalRates {
                    gbr,
                    averaging_window,
                    packet_rates,
                    reports_rate: false,
                    marks_l4s: false,
                }
                .into(),
                ..Qer::new(QerId(0))
            },
        )
        .boxed()
}

/// So few packets that some pass and some do not.
fn any_packet_rates() -> BoxedStrategy<PacketRates> {
    let per = || {
        (0..12u16, 0..5u8).prop_map(|(packets, unit)| PacketsPer {
            packets,
            unit: TimeUnit::from_value(unit),
        })
    };
    let rate = move || {
        let rate = (per(), prop::option::of(per()));
        prop::option::weighted(
            0.8,
            rate.prop_map(|(base, additional)| PacketRate { base, additional }),
        )
    };
    (rate(), rate())
        .prop_map(|(ul, dl)| PacketRates { ul, dl })
        .boxed()
}

/// Rates at which packets that follow each other by microseconds pass, sometimes pass, and do not.
fn any_rates() -> BoxedStrategy<BitRates> {
    let kbit = || prop_oneof![2 => Just(0), 2 => 1..100_000u64, 1 => Just(10_000_000), 1 => Just(u64::MAX)];
    (kbit(), kbit())
        .prop_map(|(ul, dl)| BitRates {
            ul: BitsPerSecond::from_kbit(ul),
            dl: BitsPerSecond::from_kbit(dl),
        })
        .boxed()
}

/// What may be guaranteed of `gbr` with this MBR.
fn within(gbr: BitRates, mbr: Option<BitRates>) -> BitRates {
    mbr.map_or(gbr, |mbr| BitRates {
        ul: gbr.ul.min(mbr.ul),
        dl: gbr.dl.min(mbr.dl),
    })
}

/// A guaranteed rate that a few long packets are beyond, and a maximum one that they are not.
fn any_guaranteed() -> BoxedStrategy<(BitRates, BitRates)> {
    let both = |kbit: u64| BitRates {
        ul: BitsPerSecond::from_kbit(kbit),
        dl: BitsPerSecond::from_kbit(kbit),
    };
    (1..100u64, 3000..100_000u64)
        .prop_map(move |(gbr, mbr)| (both(gbr), both(mbr)))
        .boxed()
}

/// Rules that mostly compile in [`network`](super::network): references are to rules that exist, tunnels are this
/// node's, peers can be reached. (An SDF filter id without a definition still occurs.)
pub fn runnable_rules() -> BoxedStrategy<SessionRules> {
    let pdrs = prop::collection::vec(any_pdr(), 1..7);
    let fars = prop::collection::vec(any_far(), FARS as usize);
    let qers = prop::collection::vec(any_qer(), QERS as usize);
    let timer = prop_oneof![3 => Just(0), 1 => 1..100_u32];
    let list = prop::option::weighted(0.15, any_access_list());
    let urrs = prop::collection::vec(any_plain_urr(), URRS as usize);
    let pools = prop::collection::vec((any_quota_terms(), any_members()), 0..3);
    let all = (pdrs, fars, qers, timer, list, (urrs, pools));
    all.prop_map(|(pdrs, fars, qers, seconds, access_list, (urrs, pools))| {
        let pdrs = pdrs.into_iter().map(|pdr| with_events(pdr, &urrs)).collect();
        let mut rules = assemble(pdrs, fars, qers, urrs);
        for (id, (mut terms, members)) in POOLS.zip(pools) {
            terms.pool = Some(members);
            let pool = Urr {
                terms: Some(Box::new(terms)),
                ..Urr::volume(UrrId(id))
            };
            rules.create_urr(pool).expect("its id is another");
        }
        rules.set_inactivity_timer(seconds);
        rules.set_local_policy(LocalPolicy {
            access_list,
            ..LocalPolicy::default()
        });
        rules
    })
    .boxed()
}

/// The PDR as one whose packets may count in URRs that count events: of an application, which most packets are of.
fn with_events(mut pdr: Pdr, urrs: &[Urr]) -> Pdr {
    let counts_events = |id: &UrrId| urrs.get(id.0 as usize).is_some_and(Urr::counts_events);
    if pdr.pdi.optional.application.is_none() && pdr.urrs.iter().any(counts_events) {
        let id = match pdr.precedence.0.is_multiple_of(2) {
            true => EVENTFUL,
            false => ALL_EVENTS,
        };
        pdr.pdi.optional.get_or_insert_default().application = Some(Application {
            id: id.into(),
            flows: ["permit out ip from any to any".parse().expect("a description")].into(),
            named: Arc::default(),
        });
    }
    pdr
}

/// What a quota stops, and where that goes: to one of the FARs.
fn any_quota_terms() -> BoxedStrategy<UrrTerms> {
    let action = prop::option::of((0..FARS).prop_map(FarId));
    let applications = prop::collection::vec(any_application(), 0..2);
    let filters = prop::collection::vec(any_filter(), 0..2);
    (action, applications, filters)
        .prop_map(|(quota_action, exempt_applications, exempt_filters)| UrrTerms {
            quota_action,
            exempt_applications,
            exempt_filters,
            ..UrrTerms::NONE
        })
        .boxed()
}

/// The numbers of credit pools.
const POOLS: std::ops::Range<u32> = 50..53;

/// Members of a credit pool, which all weigh alike or do not.
fn any_members() -> BoxedStrategy<Vec<Aggregated>> {
    let digits = prop_oneof![3 => Just(1), 1 => 1..9_i64];
    let exponent = prop_oneof![4 => Just(-1), 1 => -2..2_i32];
    let members = prop::collection::hash_map(0..URRS, (digits, exponent), 0..=URRS as usize);
    let member = |(urr, (digits, exponent))| Aggregated {
        urr: UrrId(urr),
        multiplier: Multiplier::new(digits, exponent).expect("it is small"),
    };
    members
        .prop_map(move |members| members.into_iter().map(member).collect())
        .boxed()
}

/// A URR that counts octets, some before QoS enforcement, too, and some until charging is paused.
fn any_plain_urr() -> BoxedStrategy<Urr> {
    let terms = prop::option::of(any_quota_terms());
    let information = prop_oneof![
        3 => Just(MeasurementInformation::default()),
        1 => Just(MeasurementInformation::MBQE),
        1 => Just(MeasurementInformation::ASPOC),
    ];
    let method = prop_oneof![
        1 => Just(MeasurementMethod::VOLUM),
        1 => Just(MeasurementMethod(MeasurementMethod::VOLUM.0 | MeasurementMethod::EVENT.0))
    ];
    (terms, information, method)
        .prop_map(|(terms, information, method)| Urr {
            information,
            method,
            terms: terms.filter(|terms| *terms != UrrTerms::NONE).map(Box::new),
            ..Urr::volume(UrrId(0))
        })
        .boxed()
}

fn assemble(pdrs: Vec<Pdr>, fars: Vec<Far>, qers: Vec<Qer>, urrs: Vec<Urr>) -> SessionRules {
    let mut rules = SessionRules::new();
    let mut made = Vec::new();
    for (id, pdr) in (1..).zip(pdrs) {
        made.push(rules.create_pdr(Pdr { id: PdrId(id), ..pdr }));
    }
    for (id, far) in (0..).zip(fars) {
        made.push(rules.create_far(Far { id: FarId(id), ..far }));
    }
    for (id, qer) in (0..).zip(qers) {
        made.push(rules.create_qer(Qer { id: QerId(id), ..qer }));
    }
    for (id, urr) in (0..).zip(urrs) {
        made.push(rules.create_urr(Urr { id: UrrId(id), ..urr }));
    }
    made.push(rules.create_bar(Bar {
        id: BarId(1),
        notification_delay: None,
        suggested_packets: None,
        extended_packets: None,
    }));
    made.into_iter()
        .collect::<Result<(), _>>()
        .expect("ids are unique");
    rules
}

/// Rules that may contradict themselves in any way that the types allow.
pub fn any_rules() -> BoxedStrategy<SessionRules> {
    let twist = (0..14u8, any::<u32>());
    (runnable_rules(), prop::collection::vec(twist, 0..4))
        .prop_map(|(mut rules, twists)| {
            for (kind, number) in twists {
                // A twist that finds no rule to twist changes nothing.
                let _ = twist_rules(&mut rules, kind, number);
            }
            rules
        })
        .boxed()
}

fn twist_rules(rules: &mut SessionRules, kind: u8, number: u32) -> Result<(), crate::model::EditError> {
    let pdr = PdrId((number % 7) as u16);
    let far = FarId(number % FARS);
    let mut change = PdrUpdate::new(pdr);
    let mut pdi = PdiUpdate::default();
    match kind {
        0 => change.far = Edit::Set(FarId(number)),
        1 => change.qers = Some(vec![QerId(number)]),
        2 => change.urrs = Some(vec![UrrId(number)]),
        3 => {
            pdi.f_teid = Edit::Set(FTeid {
                teid: Teid(0),
                ipv4: Some(N3_ADDRESS),
                ipv6: None,
            })
        }
        4 => {
            pdi.f_teid = Edit::Set(FTeid {
                teid: Teid(7),
                ipv4: None,
                ipv6: None,
            })
        }
        5 => {
            pdi.f_teid = Edit::Set(FTeid {
                teid: Teid(7),
                ipv4: Some(number.into()),
                ipv6: None,
            })
        }
        6 => pdi.instance = Edit::Set(InstanceId(number as u16)),
        7 => {
            pdi.ue_ip = Some(vec![UeIpAddress {
                ipv4: None,
                ipv6: Some((UE_V6, number as u8)),
                is_destination: true,
            }])
        }
        8 => {
            change.outer_header_removal = Edit::Set(OuterHeaderRemoval {
                header: OuterHeader::VlanPop,
                deletes_psc: true,
            })
        }
        9 => return rules.remove_far(far).map(drop),
        10 => {
            return rules.update_far(FarUpdate {
                action: Some(ApplyAction(number as u16)),
                ..FarUpdate::new(far)
            });
        }
        11 => return rules.update_far(with_header(far, number)),
        12 => {
            return rules.update_far(FarUpdate {
                bar: Edit::Set(BarId(9)),
                ..FarUpdate::new(far)
            });
        }
        _ => return rules.remove_pdr(pdr).map(drop),
    }
    change.pdi = Some(pdi);
    rules.update_pdr(change)
}

fn with_header(far: FarId, number: u32) -> FarUpdate {
    let header = OuterHeaderCreation {
        kind: OuterHeaderKind(number as u16),
        teid: Teid(number),
        ipv4: (number & 1 != 0).then_some(number.into()),
        ipv6: None,
        port: None,
    };
    let parameters = ForwardingParametersUpdate {
        outer_header_creation: Edit::Set(header),
        ..ForwardingParametersUpdate::default()
    };
    FarUpdate {
        forwarding: Edit::Set(parameters),
        ..FarUpdate::new(far)
    }
}

/// One change such as a running session gets: handover, idle, gate, new filter, rules come and go. A change that
/// names a rule that is not there is an error of the edit, and changes nothing.
pub fn any_edit() -> BoxedStrategy<Edited> {
    let far = (0..FARS, any_far()).prop_map(|(id, far)| Edited::Far(Far { id: FarId(id), ..far }));
    let qer = (0..QERS, any_qer()).prop_map(|(id, qer)| Edited::Qer(Qer { id: QerId(id), ..qer }));
    let pdr = (1..7u16, any_pdr()).prop_map(|(id, pdr)| Edited::Pdr(Pdr { id: PdrId(id), ..pdr }));
    let removed = (1..7u16).prop_map(|id| Edited::RemovePdr(PdrId(id)));
    let removed_qer = (0..QERS).prop_map(|id| Edited::RemoveQer(QerId(id)));
    let removed_urr = (0..URRS).prop_map(|id| Edited::RemoveUrr(UrrId(id)));
    let paused = (0..URRS, any::<bool>()).prop_map(|(id, is_paused)| Edited::PauseUrr(UrrId(id), is_paused));
    let quota =
        (0..URRS, any_quota_terms()).prop_map(|(id, terms)| Edited::Quota(UrrId(id), Box::new(terms)));
    let far_goes = (0..FARS).prop_map(|id| Edited::RemoveFar(FarId(id)));
    let pool = (POOLS, any_members()).prop_map(|(id, members)| Edited::Pool(UrrId(id), members));
    prop_oneof![
        4 => far, 3 => qer, 1 => pdr, 1 => removed, 1 => removed_qer, 1 => removed_urr, 1 => paused, 1 => quota,
        1 => far_goes, 1 => pool
    ].boxed()
}

/// One change of a session's rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edited {
    /// The FAR with this id becomes this.
    Far(Far),
    /// The QER with this id becomes this.
    Qer(Qer),
    /// The PDR with this id becomes this, or is created.
    Pdr(Pdr),
    /// The PDR goes.
    RemovePdr(PdrId),
    /// The QER goes.
    RemoveQer(QerId),
    /// The URR goes.
    RemoveUrr(UrrId),
    /// The URR counts nothing any more, or again; then not before QoS enforcement.
    PauseUrr(UrrId, bool),
    /// What the URR's quota stops, and where that goes, is another.
    Quota(UrrId, Box<UrrTerms>),
    /// The FAR goes; a rule that needs it keeps it.
    RemoveFar(FarId),
    /// The credit pool is of these.
    Pool(UrrId, Vec<Aggregated>),
}

impl Edited {
    /// Makes the change.
    ///
    /// # Errors
    /// The rule is not there.
    pub fn apply(&self, rules: &mut SessionRules) -> Result<(), crate::model::EditError> {
        match self {
            Self::Far(far) => rules.update_far(whole_far(far)),
            Self::Qer(qer) => rules.update_qer(QerUpdate {
                id: qer.id,
                correlation: qer.correlation.map_or(Edit::Clear, Edit::Set),
                gates: Some((qer.gate_ul, qer.gate_dl)),
                qfi: qer.qfi.map_or(Edit::Clear, Edit::Set),
                rqi: Some(qer.rqi),
                ppi: qer.ppi.map_or(Edit::Clear, Edit::Set),
                sci: qer.sci.map_or(Edit::Clear, Edit::Set),
                mbr: qer.mbr.map_or(Edit::Clear, Edit::Set),
                gbr: qer.optional.gbr.map_or(Edit::Clear, Edit::Set),
                averaging_window: qer.optional.averaging_window.map_or(Edit::Clear, Edit::Set),
                packet_rates: qer.optional.packet_rates.map_or(Edit::Clear, Edit::Set),
                reports_rate: Some(qer.optional.reports_rate),
                marks_l4s: Some(qer.optional.marks_l4s),
            }),
            Self::Pdr(pdr) => {
                if rules.pdr(pdr.id).is_some() {
                    rules.remove_pdr(pdr.id)?;
                }
                rules.create_pdr(pdr.clone())
            }
            Self::RemovePdr(id) => rules.remove_pdr(*id).map(drop),
            Self::RemoveQer(id) => rules.remove_qer(*id).map(drop),
            Self::RemoveUrr(id) => rules.remove_urr(*id).map(drop),
            Self::Quota(id, terms) => rules.update_urr(UrrUpdate {
                terms: Some(Box::new(UrrTermsUpdate {
                    quota_action: terms.quota_action.map_or(Edit::Clear, Edit::Set),
                    exempt_applications: Some(terms.exempt_applications.clone()),
                    exempt_filters: Some(terms.exempt_filters.clone()),
                    ..UrrTermsUpdate::default()
                })),
                ..UrrUpdate::new(*id)
            }),
            Self::RemoveFar(id) => rules.remove_far(*id).map(drop),
            Self::Pool(id, members) => rules.update_urr(UrrUpdate {
                terms: Some(Box::new(UrrTermsUpdate {
                    pool: Edit::Set(members.clone()),
                    ..UrrTermsUpdate::default()
                })),
                ..UrrUpdate::new(*id)
            }),
            Self::PauseUrr(id, is_paused) => rules.update_urr(UrrUpdate {
                information: Some(if *is_paused {
                    MeasurementInformation::INAM
                } else {
                    MeasurementInformation::default()
                }),
                ..UrrUpdate::new(*id)
            }),
        }
    }
}

fn whole_far(far: &Far) -> FarUpdate {
    let whole = |to: ForwardingParameters| {
        Edit::Set(ForwardingParametersUpdate {
            destination: Some(to.destination),
            instance: to.instance.map_or(Edit::Clear, Edit::Set),
            outer_header_creation: to.outer_header_creation.map_or(Edit::Clear, Edit::Set),
            transport_level_marking: to.transport_level_marking.map_or(Edit::Clear, Edit::Set),
            policy: to.policy.map_or(Edit::Clear, Edit::Set),
        })
    };
    FarUpdate {
        redirect: far.optional.redirect.clone().map_or(Edit::Clear, Edit::Set),
        nat: far.optional.nat.map_or(Edit::Clear, Edit::Set),
        id: far.id,
        action: Some(far.action),
        forwarding: far.forwarding.map_or(Edit::Clear, whole),
        duplicating: far.optional.duplicating.map_or(Edit::Clear, whole),
        bar: far.bar.map_or(Edit::Clear, Edit::Set),
    }
}
