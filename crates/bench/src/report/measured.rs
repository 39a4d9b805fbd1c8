//! The points of a file of results: a worker with one traffic model.

use serde::Serialize;

use super::super::frame::MeanFrames;
use super::super::{egress, inspection, point_names};
use super::input::{Field, InputError, all};

/// Of a hundred hosts, those that have to be found at least where rules ask for hosts.
const LEAST_FOUND: f64 = 99.0;
/// Sessions of models Z and Q at most: flows are a multiple of them.
const MOST_SESSIONS: u64 = u32::MAX as u64;

/// A point of a worker whose port is on its own core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// Its name in the run.
    pub name: String,
    /// Flows at a time and sessions, which are fewer than the model's in a quick look.
    pub flows: u64,
    /// Sessions.
    pub sessions: u64,
    /// Nanoseconds of processor time a packet, the port subtracted: the median run.
    pub nanos: f64,
    /// That of the fastest run.
    pub least_nanos: f64,
    /// That of the slowest.
    pub greatest_nanos: f64,
    /// Multiple of the sketch floor.
    pub sketch_ratio: Option<f64>,
    /// Multiple of the line-budget floor.
    pub line_budget_ratio: Option<f64>,
    /// Its frames, of models Z and Q, where the file has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<MeanFrames>,
    /// What makes the figure void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

/// What model Z keeps of its rate with rules, by pairs of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredKept {
    /// What flow entries are of where no rule asks for more.
    pub base: &'static str,
    /// The rate with rules of that without: the median pair, the least and the greatest.
    pub rate: [f64; 3],
    /// Pairs.
    pub pairs: u64,
    /// Nanoseconds a packet, without rules and with them.
    pub nanos: [f64; 2],
    /// What makes the figure void.
    pub void: Option<String>,
}

/// Those of targets, of the sweep of sizes, of the models with QER and URR and without, of models Z and Q.
pub fn points(root: &Field<'_>) -> Result<Vec<MeasuredPoint>, InputError> {
    let mut found = all(&root.list("throughput")?, point)?;
    if let Some(sweeps) = root.find("sweeps") {
        found.extend(all(&sweeps.list("sizes")?, point)?);
    }
    for cost in root.list("policies")? {
        found.push(point(&cost.get("with")?)?);
        found.push(point(&cost.get("without")?)?);
    }
    found.extend(inspected(root)?);
    found.extend(queued(root)?);
    Ok(found)
}

fn point(field: &Field<'_>) -> Result<MeasuredPoint, InputError> {
    let ratio = |name: &str| field.find(name).map(|ratio| ratio.positive()).transpose();
    let [nanos, least_nanos, greatest_nanos] = spread(&field.get("net_nanos")?)?;
    Ok(MeasuredPoint {
        name: field.get("name")?.text()?,
        flows: field.get("flows")?.count()?,
        sessions: field.get("sessions")?.count()?,
        nanos,
        least_nanos,
        greatest_nanos,
        sketch_ratio: ratio("sketch_ratio")?,
        line_budget_ratio: ratio("line_budget_ratio")?,
        frames: None,
        void: void(field)?,
    })
}

/// The median, the least and the greatest.
fn spread(field: &Field<'_>) -> Result<[f64; 3], InputError> {
    Ok([
        field.get("median")?.positive()?,
        field.get("min")?.number()?,
        field.get("max")?.number()?,
    ])
}

/// Why a point is void: counts that do not add up, samples that are not the interpreter's.
fn void(field: &Field<'_>) -> Result<Option<String>, InputError> {
    if !field.get("sums_hold")?.flag()? {
        return Ok(Some("packets in are not packets out and dropped".into()));
    }
    let checked = field.get("checked")?;
    let mut faults = 0_u64;
    for name in ["different", "dropped", "held"] {
        faults = faults.saturating_add(checked.get(name)?.count()?);
    }
    Ok((faults > 0).then(|| format!("{faults} of the samples are not what the interpreter says")))
}

/// A side of a comparison: nanoseconds a packet over pairs of runs.
fn side(name: String, nanos: &Field<'_>, of: &Compared) -> Result<MeasuredPoint, InputError> {
    let [nanos, least_nanos, greatest_nanos] = spread(nanos)?;
    Ok(MeasuredPoint {
        name,
        flows: of.flows,
        sessions: of.sessions,
        nanos,
        least_nanos,
        greatest_nanos,
        sketch_ratio: None,
        line_budget_ratio: None,
        frames: of.frames,
        void: None,
    })
}

/// What both sides of a comparison have.
#[derive(Clone, Copy)]
struct Compared {
    sessions: u64,
    flows: u64,
    frames: Option<MeanFrames>,
}

/// Files of earlier versions have none.
fn frames(field: &Field<'_>) -> Result<Option<MeanFrames>, InputError> {
    let Some(frames) = field.find("frames") else {
        return Ok(None);
    };
    let octets = frames.get("octets")?;
    let items = all(&octets.items()?, |octets| octets.between(0.0, 65_535.0))?;
    let &[uplink, downlink] = &items[..] else {
        return Err(octets.fault("two numbers"));
    };
    let mean = MeanFrames {
        octets: [uplink, downlink],
        uplink_share: frames.get("uplink_share")?.between(0.0, 1.0)?,
    };
    if mean.mean() <= 0.0 {
        return Err(octets.fault("the octets of frames"));
    }
    Ok(Some(mean))
}

/// The comparisons of model Z, each with what its flow entries are of.
fn comparisons<'a>(root: &Field<'a>) -> Result<Vec<(&'static str, Field<'a>)>, InputError> {
    let Some(inspection) = root.find("inspection") else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for field in inspection.get("compared")?.items()? {
        let name = field.get("name")?.text()?;
        let place = inspection::COMPARISONS.iter().position(|one| *one == name);
        if let Some(place) = place {
            found.push((inspection::BASES[place], field));
        }
    }
    Ok(found)
}

/// Model Z, without rules and with them.
fn inspected(root: &Field<'_>) -> Result<Vec<MeasuredPoint>, InputError> {
    let mut found = Vec::new();
    for (base, field) in comparisons(root)? {
        let sessions = root.get("inspection")?.get("sessions")?;
        let counts = all(&sessions.items()?, |count| count.count_to(MOST_SESSIONS))?;
        let &[all_sessions, active] = &counts[..] else {
            return Err(sessions.fault("two whole numbers"));
        };
        let of = Compared {
            sessions: all_sessions,
            flows: u64::from(inspection::flows(1)) * active,
            frames: frames(&field)?,
        };
        let name = |has_rules| point_names::of_inspection(base, has_rules);
        found.push(side(name(false), &field.get("without")?, &of)?);
        found.push(MeasuredPoint {
            void: not_inspected(&field)?,
            ..side(name(true), &field.get("with")?, &of)?
        });
    }
    Ok(found)
}

/// Why a figure with rules is void: packets were dropped, or hosts not found.
fn not_inspected(field: &Field<'_>) -> Result<Option<String>, InputError> {
    let found = field.get("found_percent")?.number()?;
    let drops = field.get("drops")?.counts()?;
    if found < LEAST_FOUND {
        return Ok(Some(format!("of the hosts {found:.1}% were found")));
    }
    let words: Vec<String> = drops
        .iter()
        .map(|(reason, count)| format!("{count} by {reason}"))
        .collect();
    Ok((!words.is_empty()).then(|| format!("packets were dropped: {}", words.join(", "))))
}

/// What model Z keeps of its rate, by base.
pub fn kept(root: &Field<'_>) -> Result<Vec<MeasuredKept>, InputError> {
    let one = |(base, field): &(&'static str, Field<'_>)| {
        let kept = field.get("kept")?;
        let nanos = |name| field.get(name)?.get("median")?.positive();
        Ok(MeasuredKept {
            base,
            rate: spread(&kept)?,
            pairs: kept.get("count")?.count()?,
            nanos: [nanos("without")?, nanos("with")?],
            void: not_inspected(field)?,
        })
    };
    comparisons(root)?.iter().map(one).collect()
}

/// Model Q in a worker, without queues and with them.
fn queued(root: &Field<'_>) -> Result<Vec<MeasuredPoint>, InputError> {
    let Some(egress) = root.find("egress") else {
        return Ok(Vec::new());
    };
    let in_worker = egress.get("in_worker")?;
    let sessions = in_worker.get("sessions")?.count_to(MOST_SESSIONS)?;
    let of = Compared {
        sessions,
        flows: u64::from(egress::queues(1)) * sessions,
        frames: frames(&in_worker)?,
    };
    let mut found = Vec::new();
    for cost in in_worker.get("costs")?.items()? {
        let load = cost.get("load")?.positive()?;
        let (lost, offered) = (cost.get("lost")?.count()?, cost.get("offered")?.count()?);
        let name = |has_queues| point_names::of_queues(load, has_queues);
        found.push(side(name(false), &cost.get("without")?, &of)?);
        found.push(MeasuredPoint {
            void: (lost > 0).then(|| format!("{lost} of {offered} packets were lost")),
            ..side(name(true), &cost.get("with")?, &of)?
        });
    }
    Ok(found)
}
