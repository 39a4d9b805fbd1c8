//! One file that `sluice bench PART --json` wrote: what a report needs of it.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::disturbance::Disturbance;
use super::input::{Field, InputError, all};
use super::measured::{MeasuredKept, MeasuredPoint, kept, points};

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredMachine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that the run could use.
    pub cores: u64,
    /// Octets of memory.
    pub memory: u64,
    /// The kernel.
    pub kernel: String,
}

impl MeasuredMachine {
    /// In a line.
    #[must_use]
    pub fn words(&self) -> String {
        let gib = self.memory as f64 / f64::from(1 << 30);
        format!(
            "{}, {} cores, {gib:.1} GiB, Linux {}",
            self.cpu, self.cores, self.kernel
        )
    }
}

/// The floors of one size, nanoseconds a packet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredFloors {
    /// Flows.
    pub flows: u64,
    /// Sessions.
    pub sessions: u64,
    /// The sketch.
    pub sketch: f64,
    /// The lookup floor.
    pub lookup: f64,
    /// The line-budget floor.
    pub line_budget: f64,
}

/// Throughput of several workers over that of one (T11).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredScaling {
    /// Workers of the greatest number.
    pub workers: u64,
    /// Million packets a second of all of them.
    pub mpps: f64,
    /// Million packets a second of one.
    pub one_mpps: f64,
}

impl MeasuredScaling {
    /// The share of N times one.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.mpps / (self.workers as f64 * self.one_mpps)
    }
}

/// A target, as the run said it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredTarget {
    /// Its number.
    pub id: String,
    /// The subject.
    pub what: String,
    /// The value; `None`: there was none.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// The bound.
    pub target: Option<f64>,
    /// Whether more is better.
    pub at_least: bool,
    /// Whether it is reached.
    pub met: bool,
    /// What stands against it.
    pub but: Vec<String>,
}

/// A file of results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultFile {
    /// The file.
    pub name: String,
    /// The program's version.
    pub sluice: String,
    /// Its commit, where the build knew it.
    pub commit: Option<String>,
    /// The command line.
    pub command: String,
    /// Whether tables were small and runs short.
    pub quick: bool,
    /// The machine.
    pub machine: MeasuredMachine,
    /// What others took from the run.
    pub disturbance: Disturbance,
    /// What disturbed the run, in words.
    pub disturbed_by: Vec<String>,
    /// Million packets a second of DPDK's forwarding over null ports.
    pub io_forwarding_mpps: Option<f64>,
    /// The floors.
    pub floors: Vec<MeasuredFloors>,
    /// Several workers over one.
    pub scaling: Option<MeasuredScaling>,
    /// The targets.
    pub targets: Vec<MeasuredTarget>,
    /// The points of workers.
    #[serde(skip)]
    pub points: Vec<MeasuredPoint>,
    /// What model Z keeps of its rate with rules.
    #[serde(skip)]
    pub kept: Vec<MeasuredKept>,
}

impl ResultFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is not JSON, or has not the fields that results have.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let failed = |error: std::io::Error| InputError {
            file: name.clone(),
            field: String::new(),
            fault: error.to_string(),
        };
        let text = fs::read_to_string(path).map_err(failed)?;
        Self::parse(&name, &text)
    }

    /// The file `name` with this text.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let value: Value = serde_json::from_str(text).map_err(|error| InputError {
            file: name.to_owned(),
            field: String::new(),
            fault: format!("is not JSON: {error}"),
        })?;
        let root = Field::root(name, &value);
        if !value.is_object() {
            return Err(root.fault("an object, as `sluice bench PART --json FILE` writes it"));
        }
        let machine = root.get("machine")?;
        let disturbance = Disturbance::of(&value, machine.get("load_average")?.number()?);
        let io = root.find("io_forwarding");
        let io = io.map(|io| io.get("mpps")?.get("median")?.positive());
        Ok(Self {
            name: name.to_owned(),
            sluice: root.get("sluice")?.text()?,
            commit: root.find("commit").map(|commit| commit.text()).transpose()?,
            command: root.get("command")?.text()?,
            quick: root.get("quick")?.flag()?,
            machine: machine_of(&machine)?,
            disturbed_by: disturbance.reasons(),
            disturbance,
            io_forwarding_mpps: io.transpose()?,
            floors: all(&root.list("floors")?, floors)?,
            scaling: scaling(&root.list("scaling")?)?,
            targets: targets(&root.list("targets")?)?,
            points: points(&root)?,
            kept: kept(&root)?,
        })
    }

    /// Version and commit.
    #[must_use]
    pub fn build(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("commit not recorded");
        format!("{} ({commit})", self.sluice)
    }

    /// The point with this name.
    #[must_use]
    pub fn point(&self, name: &str) -> Option<&MeasuredPoint> {
        self.points.iter().find(|point| point.name == name)
    }

    /// What model Z keeps of its rate against this base.
    #[must_use]
    pub fn kept(&self, base: &str) -> Option<&MeasuredKept> {
        self.kept.iter().find(|kept| kept.base == base)
    }
}

fn machine_of(machine: &Field<'_>) -> Result<MeasuredMachine, InputError> {
    Ok(MeasuredMachine {
        cpu: machine.get("cpu")?.text()?,
        cores: machine.get("cores")?.count()?,
        memory: machine.get("memory")?.count()?,
        kernel: machine.get("kernel")?.text()?,
    })
}

fn floors(field: &Field<'_>) -> Result<MeasuredFloors, InputError> {
    let round = |name: &str| field.get(name)?.get("round")?.get("median")?.positive();
    Ok(MeasuredFloors {
        flows: field.get("flows")?.count()?,
        sessions: field.get("sessions")?.count()?,
        sketch: round("sketch")?,
        lookup: round("lookup")?,
        line_budget: round("line_budget")?,
    })
}

/// Of the greatest number of workers, where there were several.
fn scaling(fields: &[Field<'_>]) -> Result<Option<MeasuredScaling>, InputError> {
    let together = |field: &Field<'_>| -> Result<(u64, f64), InputError> {
        let figures = field.get("figures")?.items()?;
        let mpps = all(&figures, |figure| figure.get("mpps")?.get("median")?.positive())?;
        Ok((field.get("workers")?.count()?, mpps.iter().sum::<f64>()))
    };
    let mut numbers = all(fields, together)?;
    numbers.sort_by_key(|(workers, _)| *workers);
    let (Some(&(1, one_mpps)), Some(&(workers @ 2.., mpps))) = (numbers.first(), numbers.last()) else {
        return Ok(None);
    };
    Ok(Some(MeasuredScaling {
        workers,
        mpps,
        one_mpps,
    }))
}

/// The targets and their further parts; the first part is the target itself.
fn targets(fields: &[Field<'_>]) -> Result<Vec<MeasuredTarget>, InputError> {
    let mut found = Vec::new();
    for field in fields {
        found.push(target(field)?);
        for part in field.list("parts")?.iter().skip(1) {
            found.push(target(part)?);
        }
    }
    Ok(found)
}

fn target(field: &Field<'_>) -> Result<MeasuredTarget, InputError> {
    let number = |name: &str| field.find(name).map(|value| value.number()).transpose();
    Ok(MeasuredTarget {
        id: field.get("id")?.text()?,
        what: field.get("what")?.text()?,
        value: number("value")?,
        unit: field.get("unit")?.text()?,
        target: number("target")?,
        at_least: field.get("at_least")?.flag()?,
        met: field.get("met")?.flag()?,
        but: all(&field.list("but")?, |but| but.text())?,
    })
}
