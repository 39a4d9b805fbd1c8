//! Figures that were published for other user planes, as in docs/performance.md, "Published user planes". None of these
//! systems can be run again here; all have their NICs, where `has_io` says so.

use serde::Serialize;

/// Where the table with the machines and the traffic models is.
pub const SOURCE: &str = "docs/performance.md#published-user-planes";

/// The traffic model of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Traffic {
    /// 131,072 subscribers with 2 bearers of 32 flows, profiles 1 to 6.
    V,
    /// 50,000 subscribers, UL:DL 1:3, 600 octets.
    I,
    /// 600,000 sessions, 10,000 active, 920 octets, with QER and URR.
    S,
    /// The same without QER and URR.
    #[serde(rename = "S bare")]
    SBare,
    /// 10,000 sessions, what open user planes were measured on here.
    #[serde(rename = "T3")]
    T3,
    /// Content rules: 600,000 sessions, 6,000 active, 40,000 L7 and 10,000 L3 rules, 690 octets.
    Z,
    /// Shaping: up to 128 K queues.
    Q,
    /// ESP in transport mode, 128 to 9,000 octets.
    E,
}

impl Traffic {
    /// All, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::V,
        Self::I,
        Self::S,
        Self::SBare,
        Self::T3,
        Self::Z,
        Self::Q,
        Self::E,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::V => "V",
            Self::I => "I",
            Self::S => "S",
            Self::SBare => "S bare",
            Self::T3 => "T3",
            Self::Z => "Z",
            Self::Q => "Q",
            Self::E => "E",
        }
    }
}

/// What forwards the packets of a published system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "count")]
pub enum Forwarders {
    /// Cores.
    Cores(u32),
    /// Threads of workers, two of which may share a core.
    WorkerThreads(u32),
    /// Virtual processors.
    VirtualCpus(u32),
    /// A card; this many cores of its host feed it and do not forward, where it is known.
    Card(Option<f64>),
}

impl Forwarders {
    /// Cores, threads or virtual processors; `None` where a card forwards.
    #[must_use]
    pub fn count(self) -> Option<f64> {
        match self {
            Self::Cores(count) | Self::WorkerThreads(count) | Self::VirtualCpus(count) => Some(count.into()),
            Self::Card(_) => None,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Cores(1) => "1 core".into(),
            Self::Cores(count) => format!("{count} cores"),
            Self::WorkerThreads(count) => format!("{count} worker threads"),
            Self::VirtualCpus(count) => format!("{count} vCPUs"),
            Self::Card(Some(cores)) => format!("card, {cores} host cores"),
            Self::Card(None) => "card".into(),
        }
    }
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The user plane and its machine.
    pub system: &'static str,
    /// The year; `None`: not given.
    pub year: Option<u16>,
    /// The traffic model.
    pub traffic: Traffic,
    /// Parts of the model that were on or off.
    pub condition: &'static str,
    /// Gbit/s, all of the system.
    pub gbps: Option<f64>,
    /// Million packets a second, all of the system; `None`: follows from `gbps` and `octets`, or is not given.
    pub mpps: Option<f64>,
    /// Octets of a packet; `None`: several sizes.
    pub octets: Option<f64>,
    /// What forwards.
    pub forwarders: Forwarders,
    /// Delay in one direction, in words.
    pub delay: Option<&'static str>,
    /// Whether the NICs and their drivers are in the figure.
    pub has_io: bool,
}

impl Published {
    /// Million packets a second, as given or from Gbit/s.
    #[must_use]
    pub fn total_mpps(&self) -> Option<f64> {
        self.mpps
            .or_else(|| Some(self.gbps? * 1e3 / (8.0 * self.octets?)))
    }

    /// Million packets a second of each forwarder; `None` for a card.
    #[must_use]
    pub fn mpps_per_core(&self) -> Option<f64> {
        Some(self.total_mpps()? / self.forwarders.count()?)
    }

    /// Gbit/s of each forwarder; `None` for a card.
    #[must_use]
    pub fn gbps_per_core(&self) -> Option<f64> {
        Some(self.gbps? / self.forwarders.count()?)
    }

    /// System, year, model and condition.
    #[must_use]
    pub fn words(&self) -> String {
        let year = self.year.map_or(String::new(), |year| format!(" ({year})"));
        let comma = if self.condition.is_empty() { "" } else { ", " };
        format!(
            "{}{year}, {}, model {}{comma}{}",
            self.system,
            self.forwarders.words(),
            self.traffic.label(),
            self.condition
        )
    }
}

/// A figure with NICs and nothing else known.
const fn system(
    system: &'static str,
    year: Option<u16>,
    traffic: Traffic,
    forwarders: Forwarders,
) -> Published {
    Published {
        system,
        year,
        traffic,
        condition: "",
        gbps: None,
        mpps: None,
        octets: None,
        forwarders,
        delay: None,
        has_io: true,
    }
}

const SMART_NIC: Published = Published {
    condition: "zero loss, 3 policers and 2 counters a flow; the card has 200 Gbit/s",
    gbps: Some(100.0),
    delay: Some("< 5 us"),
    ..system(
        "UPF offloaded to an FPGA SmartNIC",
        Some(2023),
        Traffic::V,
        Forwarders::Card(Some(2.0)),
    )
};

const VPP: Published = Published {
    condition: "PDR, FAR, QER, URR",
    gbps: Some(100.0),
    mpps: Some(20.0),
    octets: Some(600.0),
    delay: Some("150 us, mean"),
    ..system(
        "VPP-based UPF, Xeon 6230N",
        Some(2019),
        Traffic::I,
        Forwarders::Cores(20),
    )
};

const WITH_POLICY: Published = Published {
    condition: "QER and URR",
    gbps: Some(988.0),
    octets: Some(920.0),
    ..system(
        "UPF, 2x Xeon 8490H",
        Some(2023),
        Traffic::S,
        Forwarders::VirtualCpus(228),
    )
};

const WITHOUT_POLICY: Published = Published {
    traffic: Traffic::SBare,
    condition: "neither QER nor URR",
    gbps: Some(1_000.0),
    ..WITH_POLICY
};

/// Open user planes were measured with packets made in memory, on one core.
const OPEN: Published = Published {
    condition: "10,000 sessions, no I/O, on a development machine",
    mpps: Some(5.8),
    has_io: false,
    ..system("best open UPF", None, Traffic::T3, Forwarders::Cores(1))
};

const OPEN_ONE_SESSION: Published = Published {
    condition: "1 session, no I/O, on a development machine",
    mpps: Some(15.6),
    ..OPEN
};

const CONTENT: Published = Published {
    gbps: Some(462.0),
    mpps: Some(81.4),
    octets: Some(690.0),
    delay: Some("74 us"),
    ..system(
        "UPF, 2x Xeon 8380",
        Some(2021),
        Traffic::Z,
        Forwarders::WorkerThreads(96),
    )
};

const CONTENT_INSPECTED: Published = Published {
    condition: INSPECTED,
    gbps: Some(280.0),
    mpps: Some(49.4),
    ..CONTENT
};

const SMALLER: Published = Published {
    system: "UPF, 2x Xeon 6330N",
    gbps: Some(287.0),
    mpps: Some(51.3),
    forwarders: Forwarders::WorkerThreads(64),
    delay: None,
    ..CONTENT
};

const SMALLER_INSPECTED: Published = Published {
    condition: INSPECTED,
    gbps: Some(177.0),
    mpps: Some(31.6),
    ..SMALLER
};

/// The condition of figures of model Z with inspection and billing.
pub const INSPECTED: &str = "DPI and offline billing";

const SHAPER: Published = Published {
    condition: "loss < 1e-3",
    gbps: Some(40.0),
    delay: Some("29 us to 1 ms, mean 150 us, round trip"),
    ..system(
        "egress traffic manager on an FPGA card",
        Some(2018),
        Traffic::Q,
        Forwarders::Card(Some(0.64)),
    )
};

const IPSEC: Published = Published {
    condition: "AES-GCM 256, 8 K + 8 K SAs; 4.8 times fewer host cores than software",
    gbps: Some(48.0),
    octets: Some(578.0),
    ..system(
        "in-line IPsec on an FPGA card",
        None,
        Traffic::E,
        Forwarders::Card(None),
    )
};

/// All of them, by traffic model.
pub const PUBLISHED: [Published; 12] = [
    SMART_NIC,
    VPP,
    WITH_POLICY,
    WITHOUT_POLICY,
    OPEN_ONE_SESSION,
    OPEN,
    CONTENT,
    CONTENT_INSPECTED,
    SMALLER,
    SMALLER_INSPECTED,
    SHAPER,
    IPSEC,
];

/// Systems without inspection and billing, and with them.
pub const PUBLISHED_INSPECTION: [[Published; 2]; 2] =
    [[CONTENT, CONTENT_INSPECTED], [SMALLER, SMALLER_INSPECTED]];

/// A published rate of one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerCore {
    /// The user plane, its machine, the model.
    pub what: String,
    /// Million packets a second and core.
    pub mpps_per_core: f64,
}

/// Those of [`PUBLISHED`] whose cores forward.
#[must_use]
pub fn per_core() -> Vec<PerCore> {
    let of = |published: &Published| {
        Some(PerCore {
            what: published.words(),
            mpps_per_core: published.mpps_per_core()?,
        })
    };
    PUBLISHED.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_per_core_follow_from_the_published_totals() {
        let of = |published: Published| (published.mpps_per_core().unwrap() * 100.0).round() / 100.0;
        let all = [
            VPP,
            CONTENT,
            CONTENT_INSPECTED,
            SMALLER,
            SMALLER_INSPECTED,
            WITH_POLICY,
            OPEN,
        ];
        assert_eq!(all.map(of), [1.0, 0.85, 0.51, 0.8, 0.49, 0.59, 5.8]);
        for card in [SMART_NIC, SHAPER, IPSEC] {
            assert_eq!((card.mpps_per_core(), card.gbps_per_core()), (None, None));
        }
        assert_eq!(per_core().len(), PUBLISHED.len() - 3);
    }

    #[test]
    fn every_traffic_model_has_a_published_figure() {
        for traffic in Traffic::ALL {
            assert!(
                PUBLISHED.iter().any(|published| published.traffic == traffic),
                "{traffic:?}"
            );
        }
    }
}
