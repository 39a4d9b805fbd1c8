//! The traffic models of a report: the published figures of each, and the measured points.

use serde::Serialize;

use super::super::model::Model;
use super::super::plan::Plan;
use super::super::point_names;
use super::super::published::{PUBLISHED, Published, Traffic};
use super::arithmetic::{Derived, DerivedFigures, at_least};
use super::assumptions::Assumptions;
use super::digits::digits;
use super::result_file::{MeasuredPoint, ResultFile};

/// A published figure, and what follows from it alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedReport {
    /// As published.
    #[serde(flatten)]
    pub figure: Published,
    /// System, year, model and condition.
    pub words: String,
    /// Million packets a second of each of its cores, threads or virtual processors; `None` for a card.
    pub mpps_per_core: Option<Derived>,
    /// The same in Gbit/s.
    pub gbps_per_core: Option<Derived>,
    /// Of these for each wanted throughput, at the published rate and without headroom.
    pub cores: Vec<Derived>,
}

/// A point of a model, which a file may have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointReport {
    /// Its name.
    pub name: String,
    /// Frames received without FCS, uplink and downlink.
    pub frame_octets: [u16; 2],
    /// Packets uplink of a thousand.
    pub uplink_per_mille: u32,
    /// Mean octets that count for a packet: frames by their share, and the assumed overhead.
    pub octets: Derived,
    /// The file that has it.
    pub file: Option<String>,
    /// What was measured.
    pub measured: Option<MeasuredPoint>,
    /// Why there are no figures, or what is against them.
    pub notes: Vec<String>,
    /// Arithmetic.
    pub derived: Option<DerivedFigures>,
    /// Million packets a second of a core, driver and scaling included, over each published figure's; `None` where that
    /// has no rate of cores. A published figure without I/O is compared with the measured one.
    pub of_published: Vec<Option<Derived>>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReport {
    /// The model.
    pub traffic: Traffic,
    /// What it is.
    pub what: &'static str,
    /// The published figures.
    pub published: Vec<PublishedReport>,
    /// The points; none for a model that is not measured yet.
    pub points: Vec<PointReport>,
    /// Why there are no points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<&'static str>,
}

/// Every model that figures were published for.
pub fn models(files: &[ResultFile], assumed: &Assumptions) -> Vec<ModelReport> {
    let model = |traffic: Traffic| {
        let published: Vec<PublishedReport> = PUBLISHED
            .iter()
            .filter(|published| published.traffic == traffic)
            .map(|published| published_report(published, assumed))
            .collect();
        let points = points(traffic);
        ModelReport {
            traffic,
            what: what(traffic),
            not_measured: points.is_empty().then_some(NOT_YET),
            points: points
                .into_iter()
                .map(|point| point.report(files, assumed, &published))
                .collect(),
            published,
        }
    };
    Traffic::ALL.into_iter().map(model).collect()
}

const NOT_YET: &str = "not measured yet: no part of `sluice bench` has this model";

const fn what(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::V => {
            "131,072 subscribers, 2 bearers of 32 flows, 8,388,608 flows, 3 meters and 2 counters a packet"
        }
        Traffic::I => "50,000 subscribers, UL:DL 1:3, 600 octets, QER and URR",
        Traffic::S => {
            "600,000 sessions, 10,000 active, 920 octets; one QER and one URR of each session stand for 1,000 PDR, 200 QER, \
             100 URR"
        }
        Traffic::SBare => "as S, neither QER nor URR",
        Traffic::T3 => "10,000 sessions, 2 PDR, 2 FAR, 1 QER, 1 URR, 128 octets",
        Traffic::Z => "600,000 sessions, 6,000 active, 40,000 L7 and 10,000 L3 rules, 690 octets",
        Traffic::Q => "shaping, up to 128 K queues",
        Traffic::E => "ESP in transport mode, 128 to 9,000 octets",
    }
}

/// A point that a file may have.
struct Wanted {
    model: Model,
    name: String,
    /// The part of `sluice bench` that measures it.
    part: &'static str,
}

/// The points of a model; none where no part of the benchmark has it.
fn points(traffic: Traffic) -> Vec<Wanted> {
    let qos = |model: Model, name: String| {
        vec![Wanted {
            model,
            name,
            part: "qos",
        }]
    };
    match traffic {
        Traffic::V => sizes_of_v(),
        Traffic::I => qos(Model::i(), point_names::with_policy(&Model::i())),
        Traffic::S => qos(Model::s(), point_names::with_policy(&Model::s())),
        Traffic::SBare => qos(Model::s(), point_names::without_policy(&Model::s())),
        Traffic::T3 => vec![Wanted {
            model: Model::open(),
            name: "T3".into(),
            part: "throughput",
        }],
        Traffic::Z | Traffic::Q | Traffic::E => Vec::new(),
    }
}

fn sizes_of_v() -> Vec<Wanted> {
    let profiles = Plan::new(false, &[], None).profiles();
    let models = profiles.iter().filter_map(|of| Model::v(of.profile, of.size));
    models
        .map(|model| Wanted {
            model,
            name: point_names::of_size(&model),
            part: "throughput",
        })
        .collect()
}

impl Wanted {
    fn report(
        self,
        files: &[ResultFile],
        assumed: &Assumptions,
        published: &[PublishedReport],
    ) -> PointReport {
        let Self { model, name, part } = self;
        let octets = octets(&model, assumed);
        let found = files
            .iter()
            .rev()
            .find_map(|file| Some((file.name.clone(), file.point(&name)?.clone())));
        let (file, measured) = found.unzip();
        let mut notes = Vec::new();
        match &measured {
            None => notes.push(format!("in none of the files: `sluice bench {part} --json FILE`")),
            Some(point) => {
                notes.extend(point.void.iter().map(|why| format!("void: {why}")));
                if point.sessions < u64::from(model.sessions) || point.flows < u64::from(model.flows()) {
                    notes.push(format!(
                        "{} sessions of {}: smaller tables than the model's",
                        digits(point.sessions as f64),
                        digits(model.sessions.into())
                    ));
                }
            }
        }
        let sound = measured.as_ref().filter(|point| point.void.is_none());
        let derived = sound.map(|point| DerivedFigures::new(point.nanos, octets.value, assumed));
        let ratios = published
            .iter()
            .map(|one| ratio(&one.figure, sound?, derived.as_ref()?));
        PointReport {
            of_published: ratios.collect(),
            name,
            frame_octets: model.sizes,
            uplink_per_mille: model.uplink_per_mille,
            octets,
            file,
            measured,
            notes,
            derived,
        }
    }
}

fn octets(model: &Model, assumed: &Assumptions) -> Derived {
    let (uplink, overhead) = (
        f64::from(model.uplink_per_mille) / 1e3,
        assumed.frame_overhead.value,
    );
    let [up, down] = model.sizes.map(f64::from);
    Derived {
        value: model.mean_size() + overhead,
        unit: "octets",
        formula: format!(
            "{} x {} + {} x {} + {}",
            digits(uplink),
            digits(up),
            digits(1.0 - uplink),
            digits(down),
            digits(overhead)
        ),
    }
}

/// Ours over a published rate of a core.
fn ratio(published: &Published, measured: &MeasuredPoint, derived: &DerivedFigures) -> Option<Derived> {
    let theirs = published.mpps_per_core()?;
    let ours = if published.has_io {
        derived.mpps_per_core.value
    } else {
        1e3 / measured.nanos
    };
    Some(Derived {
        value: ours / theirs,
        unit: "of published",
        formula: format!("{} / {}", digits(ours), digits(theirs)),
    })
}

fn published_report(published: &Published, assumed: &Assumptions) -> PublishedReport {
    let per_core = |total: Option<f64>, unit: &'static str| {
        let (total, count) = (total?, published.forwarders.count()?);
        Some(Derived {
            value: total / count,
            unit,
            formula: format!("{} / {}", digits(total), digits(count)),
        })
    };
    let gbps_per_core = per_core(published.gbps, "Gbit/s");
    let cores = |gbps_per_core: &Derived| -> Vec<Derived> {
        let one = |&wanted: &f64| Derived {
            value: at_least(wanted, gbps_per_core.value),
            unit: "cores",
            formula: format!("{} / {}, rounded up", digits(wanted), gbps_per_core.text()),
        };
        assumed.gbps.iter().map(one).collect()
    };
    PublishedReport {
        figure: *published,
        words: published.words(),
        mpps_per_core: per_core(published.total_mpps(), "Mpps"),
        cores: gbps_per_core.as_ref().map(cores).unwrap_or_default(),
        gbps_per_core,
    }
}
