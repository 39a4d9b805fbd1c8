//! The UEs: their addresses, tunnels and sessions, what passes of their traffic, and how much of it may.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::in_steps::add;
use flow::{Bucket, Nanos, UrrCount, bucket};
use packet::Teid;
use rules::Predefined;
use rules::model::{
    Aggregated, BitRates, BitsPerSecond, Multiplier, OuterHeaderCreation, Precedence, ReportingTriggers,
    SNssai, SdfFilter, SourceInterface, Urr, UrrId, UrrTerms, Volume,
};
use rules::model::{Content, PredefinedRule};
use rules::testing::{GNB, f_teid, pdu_session};
use session::{Changes, Choose, Moment, Seid, Subscriber, UsageReport};

/// The maximum bit rate of each direction of a policed UE: 200 octets in a millisecond.
pub const MBR: BitsPerSecond = BitsPerSecond(1_600_000);
/// What may pass at once.
pub const BURST: u64 = 10_000;

pub fn is_policed(ue: u8) -> bool {
    ue % 3 == 2
}

/// Octets between the reports of a charged UE.
pub const THRESHOLD: u64 = 20_000;
/// Octets that a session of it may use at first.
pub const QUOTA: u64 = 60_000;

pub fn is_charged(ue: u8) -> bool {
    ue % 3 == 1
}

/// Whether a UE's usage counts in a credit pool, too: three tenths of it, and of downlink all.
pub fn is_pooled(ue: u8) -> bool {
    ue.is_multiple_of(3)
}

/// The credit pool, and its member of downlink.
pub const POOL: UrrId = UrrId(3);
pub const OF_DOWNLINK: UrrId = UrrId(2);

fn pool() -> Urr {
    let member = |urr, tenths| Aggregated {
        urr,
        multiplier: Multiplier::new(tenths, -1).unwrap(),
    };
    let terms = UrrTerms {
        pool: Some(vec![member(UrrId(1), 3), member(OF_DOWNLINK, 7)]),
        ..UrrTerms::NONE
    };
    let mut pool = Urr::volume(POOL);
    charged(&mut pool);
    pool.volume_quota = None;
    pool.terms = Some(Box::new(terms));
    pool
}

/// Whether a UE's PDRs activate predefined rules, so that each of two contents is billed by itself.
pub fn is_billed(ue: u8) -> bool {
    ue.is_multiple_of(2)
}

/// The rules: what goes to or comes from the IPv4 peer is of one content, everything else of another.
pub fn predefined() -> Predefined {
    let rule = |precedence, flow: Option<&str>, name: &str| PredefinedRule {
        precedence: Precedence(precedence),
        filters: Vec::from_iter(flow.map(|flow| SdfFilter {
            flow_description: flow.parse().ok(),
            ..SdfFilter::default()
        })),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: Some(Content {
            name: name.into(),
            rating_group: Some(precedence),
            service_id: None,
        }),
    };
    let mut predefined = Predefined::default();
    let four = rule(1, Some("permit out ip from 192.0.2.1 to assigned"), "four");
    predefined
        .add(b"contents", vec![four, rule(2, None, "six")])
        .unwrap();
    predefined
}

/// What a charged UE's URR says.
pub fn charged(urr: &mut Urr) {
    let total = |octets| {
        Some(Box::new(Volume {
            total: Some(octets),
            ..Volume::default()
        }))
    };
    urr.triggers = ReportingTriggers(ReportingTriggers::VOLTH.0 | ReportingTriggers::VOLQU.0);
    (urr.volume_threshold, urr.volume_quota) = (total(THRESHOLD), total(QUOTA));
}

/// The test's state of a UE.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ue {
    /// Its session: accepted, and not asked to go.
    pub session: Option<Seid>,
    pub teid: u32,
    pub sent: UrrCount,
    pub passed: UrrCount,
    pub reported: UrrCount,
    /// By its credit pool.
    pub pooled: UrrCount,
    /// Sessions with one that have ended: each leaves less than an octet unreported.
    pub ended: u64,
    /// The seconds of the first and the last packet that has passed, and of what is reported.
    pub came: Option<(u64, u64)>,
    pub traffic_times: Option<(u64, u64)>,
    /// What records say of its contents.
    pub billed: [UrrCount; 2],
    /// Largest number of octets of a charged UE.
    pub allowed: u64,
    /// By direction.
    pub policed: [Allowed; 2],
}

impl Ue {
    /// A packet has passed.
    pub fn passes(&mut self, now: Nanos) {
        let second = now.0 / 1_000_000_000;
        self.came = Some(self.came.map_or((second, second), |(first, _)| (first, second)));
    }

    /// A report is made, not always in the order of what it is of.
    pub fn reports(&mut self, report: &UsageReport) {
        match report.urr {
            POOL => {
                self.ended += u64::from(report.triggers.contains(session::UsageTriggers::TERMR));
                add(&mut self.pooled, report.count);
            }
            OF_DOWNLINK => {}
            _ => self.reports_all(report),
        }
    }

    /// The one of all packets.
    fn reports_all(&mut self, report: &UsageReport) {
        add(&mut self.reported, report.count);
        let second = |moment: Moment| moment.on_clock().0 / 1_000_000_000;
        let times = report.first.map(second).zip(report.last.map(second));
        let is_null = report.count.ul_packets + report.count.dl_packets == 0;
        assert_eq!(times.is_none(), is_null, "{report:?}");
        let all = self.traffic_times.into_iter().chain(times);
        self.traffic_times = all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    }
}

/// What has passed of a rate's allowance. It never exceeds the burst if no more passes in any interval than the burst
/// and what the rate allows in that time. Each session of a UE begins with a burst of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    pub sessions: u64,
    /// Millionths of bits.
    used: u64,
    at: Nanos,
}

impl Allowed {
    pub fn pass(&mut self, now: Nanos, octets: u64) {
        let elapsed = now.0 - self.at.0;
        self.used = self.used.saturating_sub(elapsed.saturating_mul(MBR.0 / 1000)) + octets * 8_000_000;
        self.at = now;
        assert!(self.used <= self.sessions * BURST * 8_000_000, "{self:?}");
    }
}

/// The UE's addresses. They are of two buckets, so that a move takes several sessions along; the IPv6 prefix is in any
/// bucket, so it has a worker selection exception.
pub fn addresses(ue: u8) -> (Ipv4Addr, Ipv6Addr) {
    let home = bucket::of_ipv4([10, 45, 0, 2 + ue % 2]);
    let hosts = (2..).map(|host: u32| Ipv4Addr::from_bits(0x0a2d_0000 + host));
    let mut there = hosts.filter(|address| bucket::of_ipv4(address.octets()) == home);
    let v4 = there.nth(usize::from(ue / 2)).unwrap();
    (
        v4,
        Ipv6Addr::new(0x2001, 0xdb8, 0x45, u16::from(ue) + 2, 0, 0, 0, 0),
    )
}

pub fn home(ue: u8) -> Bucket {
    bucket::of_ipv4(addresses(ue).0.octets())
}

/// Every other UE's tunnel is of the SMF's choice, and has a worker selection exception.
pub fn chosen_teid(ue: u8) -> Option<u32> {
    (ue % 4 >= 2).then_some(0x5000 + u32::from(ue))
}

pub fn establishment(ue: u8) -> Changes {
    let mut rules = SessionParts::of(ue);
    let mut changes = Changes {
        create_fars: std::mem::take(&mut rules.0.create_fars),
        ..rules.0
    };
    let uplink = &mut changes.create_pdrs[0];
    match chosen_teid(ue) {
        Some(teid) => uplink.pdi.f_teid = Some(f_teid(teid)),
        None => {
            uplink.pdi.f_teid = None;
            changes.choose = vec![Choose {
                to: uplink.id.into(),
                ipv4: true,
                ipv6: false,
                id: None,
            }];
        }
    }
    changes.subscriber = slice_of(ue).map(|slice| {
        Arc::new(Subscriber {
            s_nssai: Some(slice),
            ..Subscriber::default()
        })
    });
    changes
}

/// The slice of a UE's sessions: two of them, and none of every third UE.
pub fn slice_of(ue: u8) -> Option<SNssai> {
    let slice = SNssai {
        sst: ue % 3,
        sd: SNssai::NO_SD,
    };
    (slice.sst > 0).then_some(slice)
}

/// The usual PDU session as changes that create it, for a UE.
pub struct SessionParts(Changes);

impl SessionParts {
    pub fn of(ue: u8) -> Self {
        let rules = pdu_session(1, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
        let mut pdrs = rules.pdrs().to_vec();
        let (v4, v6) = addresses(ue);
        for address in pdrs.iter_mut().flat_map(|pdr| &mut pdr.pdi.ue_ip) {
            (address.ipv4, address.ipv6) = (Some(v4), Some((v6, 64)));
        }
        let contents = predefined().rulebase(b"contents").cloned();
        for pdr in pdrs.iter_mut().filter(|_| is_billed(ue)) {
            pdr.rulebases = contents.iter().cloned().collect::<Vec<_>>().into();
        }
        let mut qers = rules.qers().to_vec();
        for qer in qers.iter_mut().filter(|_| is_policed(ue)) {
            qer.mbr = Some(BitRates { ul: MBR, dl: MBR });
        }
        let mut urrs = rules.urrs().to_vec();
        urrs.iter_mut().filter(|_| is_charged(ue)).for_each(charged);
        if is_pooled(ue) {
            urrs.extend([Urr::volume(OF_DOWNLINK), pool()]);
            let downlink = pdrs
                .iter_mut()
                .filter(|pdr| pdr.pdi.source_interface != SourceInterface::Access);
            downlink.for_each(|pdr| pdr.urrs.push(OF_DOWNLINK));
        }
        Self(Changes {
            create_pdrs: pdrs,
            create_fars: rules.fars().to_vec(),
            create_qers: qers,
            create_urrs: urrs,
            ..Changes::default()
        })
    }
}
