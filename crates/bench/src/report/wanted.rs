//! The points of the traffic models, which files may have.

use serde::Serialize;

use super::super::frame::MeanFrames;
use super::super::model::Model;
use super::super::plan::Plan;
use super::super::published::{INSPECTED, Published, Traffic};
use super::super::{egress, inspection, point_names};
use super::arithmetic::{Derived, DerivedFigures};
use super::assumptions::Assumptions;
use super::digits::digits;
use super::measured::MeasuredPoint;
use super::published_report::PublishedReport;
use super::result_file::ResultFile;

/// A point of a model, which a file may have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointReport {
    /// Its name.
    pub name: String,
    /// Octets of frames received without FCS, uplink and downlink; means where frames differ.
    pub frame_octets: [f64; 2],
    /// Packets uplink of a thousand.
    pub uplink_per_mille: f64,
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
    /// has no rate of cores, or is of another condition than the point. A published figure without I/O is compared with
    /// the measured one.
    pub of_published: Vec<Option<Derived>>,
    /// Cores for each published figure's Gbit/s, driver and scaling included, where a card forwards and the point does
    /// what the card does.
    pub cores_for_card: Vec<Option<Derived>>,
}

/// A point that a file may have.
pub struct Wanted {
    name: String,
    /// The part of `sluice bench` that measures it.
    part: &'static str,
    sessions: u32,
    /// Flows at a time.
    flows: u32,
    frames: MeanFrames,
    /// Whether a file that does not say otherwise may have had other frames.
    has_frames_of_file: bool,
    /// The condition of published figures that it is beside; `None`: all of them.
    condition: Option<&'static str>,
    /// Whether it does what published cards of its model do.
    is_beside_card: bool,
    /// What there is of a published condition here, where that is not all.
    has: Option<&'static str>,
}

/// What figures of model Z have of [`INSPECTED`].
const COUNTED: &str = "a QER and a URR with and without rules; with rules contents are counted, no usage records are \
                       written";

/// The points of a model; none where no part of the benchmark has it.
pub fn wanted(traffic: Traffic) -> Vec<Wanted> {
    let (i, s) = (Model::i(), Model::s());
    match traffic {
        Traffic::V => sizes_of_v(),
        Traffic::I => vec![of_model(&i, point_names::with_policy(&i), "qos")],
        Traffic::S => vec![of_model(&s, point_names::with_policy(&s), "qos")],
        Traffic::SBare => vec![of_model(&s, point_names::without_policy(&s), "qos")],
        Traffic::T3 => vec![of_model(&Model::open(), "T3".into(), "throughput")],
        Traffic::Z => of_inspection(),
        Traffic::Q => of_queues(),
        Traffic::E => Vec::new(),
    }
}

fn of_model(model: &Model, name: String, part: &'static str) -> Wanted {
    Wanted {
        name,
        part,
        sessions: model.sessions,
        flows: model.flows(),
        frames: MeanFrames {
            octets: model.sizes.map(f64::from),
            uplink_share: f64::from(model.uplink_per_mille) / 1e3,
        },
        has_frames_of_file: false,
        condition: None,
        is_beside_card: true,
        has: None,
    }
}

fn sizes_of_v() -> Vec<Wanted> {
    let profiles = Plan::new(false, &[], None).profiles();
    let models = profiles.iter().filter_map(|of| Model::v(of.profile, of.size));
    models
        .map(|model| of_model(&model, point_names::of_size(&model), "throughput"))
        .collect()
}

/// Model Z: without rules beside published figures without inspection, with rules beside those with it.
fn of_inspection() -> Vec<Wanted> {
    let one = |base, has_rules| Wanted {
        name: point_names::of_inspection(base, has_rules),
        part: "inspection",
        sessions: inspection::SESSIONS,
        flows: inspection::FLOWS,
        frames: inspection::frames(),
        has_frames_of_file: true,
        condition: Some(if has_rules { INSPECTED } else { "" }),
        is_beside_card: false,
        has: Some(COUNTED),
    };
    let of_base = |base| [one(base, false), one(base, true)];
    inspection::BASES.into_iter().flat_map(of_base).collect()
}

/// The load of model Q at which all sessions send at their rates.
const ALL_RATES: f64 = 1.0;

/// Model Q: at half of the rates of all sessions, and at all of them. What the card does is with queues at all rates.
fn of_queues() -> Vec<Wanted> {
    let one = |load, has_queues| Wanted {
        name: point_names::of_queues(load, has_queues),
        part: "egress",
        sessions: egress::SESSIONS,
        flows: egress::QUEUES,
        frames: egress::frames(),
        has_frames_of_file: true,
        condition: None,
        is_beside_card: has_queues && load == ALL_RATES,
        has: None,
    };
    let of_load = |load| [one(load, false), one(load, true)];
    [ALL_RATES, 0.5].into_iter().flat_map(of_load).collect()
}

impl Wanted {
    /// What the files have of it; the last one that has it counts.
    pub fn report(
        self,
        files: &[ResultFile],
        assumed: &Assumptions,
        published: &[PublishedReport],
    ) -> PointReport {
        let found = files
            .iter()
            .rev()
            .find_map(|file| Some((file.name.clone(), file.point(&self.name)?.clone())));
        let (file, measured) = found.unzip();
        let frames = measured
            .as_ref()
            .and_then(|point| point.frames)
            .unwrap_or(self.frames);
        let octets = octets(&frames, assumed);
        let sound = measured.as_ref().filter(|point| point.void.is_none());
        let derived = sound.map(|point| DerivedFigures::new(point.nanos, octets.value, assumed));
        let is_beside = |one: &Published| self.condition.is_none_or(|condition| one.condition == condition);
        let ratios = published
            .iter()
            .map(|one| ratio(&one.figure, sound?, derived.as_ref()?).filter(|_| is_beside(&one.figure)));
        let cores = published.iter().map(|one| {
            let cores = cores_for_card(&one.figure, derived.as_ref()?);
            cores.filter(|_| self.is_beside_card)
        });
        let cores: Vec<Option<Derived>> = cores.collect();
        let mut notes = self.notes(measured.as_ref(), &frames, published);
        let mut beside = published.iter().zip(&cores).filter(|(_, cores)| cores.is_some());
        if beside.any(|(one, _)| one.figure.octets.is_none()) {
            notes.push("cores for card: the size of frames of its published Gbit/s is not known".into());
        }
        PointReport {
            of_published: ratios.collect(),
            cores_for_card: cores,
            notes,
            name: self.name,
            frame_octets: frames.octets,
            uplink_per_mille: frames.uplink_share * 1e3,
            octets,
            file,
            measured,
            derived,
        }
    }

    fn notes(
        &self,
        measured: Option<&MeasuredPoint>,
        frames: &MeanFrames,
        published: &[PublishedReport],
    ) -> Vec<String> {
        let Some(point) = measured else {
            return vec![format!(
                "in none of the files: `sluice bench {} --json FILE`",
                self.part
            )];
        };
        let mut notes: Vec<String> = point.void.iter().map(|why| format!("void: {why}")).collect();
        let fewer = [
            ("sessions", point.sessions, self.sessions),
            ("flows", point.flows, self.flows),
        ];
        if let Some((what, has, of)) = fewer.into_iter().find(|(_, has, of)| *has < u64::from(*of)) {
            notes.push(format!(
                "{} {what} of {}: smaller tables than the model's",
                digits(has as f64),
                digits(of.into())
            ));
        }
        if self.has_frames_of_file && point.frames.is_none() {
            notes.push("the file does not say how long its frames were: those of this version".into());
        }
        let other = published.iter().filter_map(|one| one.figure.octets);
        if let Some(other) = other
            .into_iter()
            .find(|octets| (octets - frames.mean()).abs() >= 0.5)
        {
            notes.push(format!(
                "frames of {} octets in the mean, published are {}",
                digits(frames.mean()),
                digits(other)
            ));
        }
        notes.extend(self.has.map(str::to_owned));
        notes
    }
}

fn octets(frames: &MeanFrames, assumed: &Assumptions) -> Derived {
    let (uplink, overhead) = (frames.uplink_share, assumed.frame_overhead.value);
    let [up, down] = frames.octets;
    let formula = format!(
        "{} x {} + {} x {} + {}",
        digits(uplink),
        digits(up),
        digits(1.0 - uplink),
        digits(down),
        digits(overhead)
    );
    Derived::new(frames.mean() + overhead, "octets", formula)
}

/// Ours over a published rate of a core.
fn ratio(published: &Published, measured: &MeasuredPoint, derived: &DerivedFigures) -> Option<Derived> {
    let theirs = published.mpps_per_core()?;
    let ours = if published.has_io {
        derived.mpps_per_core.value
    } else {
        1e3 / measured.nanos
    };
    let formula = format!("{} / {}", digits(ours), digits(theirs));
    Some(Derived::new(ours / theirs, "of published", formula))
}

/// Our cores for the published throughput of a card.
fn cores_for_card(published: &Published, derived: &DerivedFigures) -> Option<Derived> {
    if published.forwarders.count().is_some() {
        return None;
    }
    let (wanted, each) = (published.gbps?, &derived.gbps_per_core);
    let formula = format!("{} / {}", digits(wanted), each.text());
    Some(Derived::new(wanted / each.value, "cores", formula))
}
