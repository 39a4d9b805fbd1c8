//! Whether the host disturbed a run: time that others took from its threads, rounds without a core, void trials.
//!
//! Read from every place of a file's JSON where a thread's time, rounds or a trial are, whatever the part.

use serde::Serialize;
use serde_json::{Map, Value};

use super::super::twocore::MOST_TAKEN;

/// Processes that may want a processor before a run, mean of a minute.
pub const MOST_LOAD: f64 = 0.1;

/// What others took from a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Processes that wanted a processor before the run, mean of a minute.
    pub load_average: f64,
    /// Spans of time of threads that were found.
    pub spans: u64,
    /// Nanoseconds of these spans.
    pub wall_nanos: u64,
    /// Nanoseconds in which a thread waited for a processor.
    pub waited_nanos: u64,
    /// Nanoseconds that the hypervisor took from the machine.
    pub stolen_nanos: u64,
    /// The share taken in the span of which most was taken.
    pub most_taken: f64,
    /// Rounds that were measured.
    pub rounds: u64,
    /// Rounds in which the thread lost its core; they are not in the medians.
    pub disturbed_rounds: u64,
    /// Trials with two cores.
    pub trials: u64,
    /// Trials that are void.
    pub void_trials: u64,
}

impl Disturbance {
    /// All that is in a file's JSON.
    #[must_use]
    pub fn of(file: &Value, load_average: f64) -> Self {
        let mut found = Self {
            load_average,
            ..Self::default()
        };
        found.look(file);
        found
    }

    /// The share of all spans that others took.
    #[must_use]
    pub fn taken(&self) -> f64 {
        taken([self.wall_nanos, self.waited_nanos, self.stolen_nanos])
    }

    /// What disturbed the run, in words; none: nothing that shows.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.load_average > MOST_LOAD {
            reasons.push(format!("load average {:.1} before it", self.load_average));
        }
        if self.taken() > MOST_TAKEN {
            reasons.push(format!(
                "others took {:.1}% of the threads' time",
                self.taken() * 100.0
            ));
        }
        if self.void_trials > 0 {
            reasons.push(format!("{} of {} trials are void", self.void_trials, self.trials));
        }
        reasons
    }

    fn look(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.look(item)),
            Value::Object(fields) => {
                self.look_at(fields);
                fields.values().for_each(|field| self.look(field));
            }
            _ => {}
        }
    }

    fn look_at(&mut self, fields: &Map<String, Value>) {
        if let Some([wall, waited, stolen]) = span(fields) {
            self.spans += 1;
            add(&mut self.wall_nanos, wall);
            add(&mut self.waited_nanos, waited);
            add(&mut self.stolen_nanos, stolen);
            self.most_taken = self.most_taken.max(taken([wall, waited, stolen]));
        }
        let number = |name: &str| fields.get(name).and_then(Value::as_u64);
        // Intervals of a trial have `disturbed`, too, and no rounds.
        let counted = fields.get("round").and_then(|round| round.get("count")?.as_u64());
        let counted = counted.or_else(|| number("kept_rounds"));
        if let Some((disturbed, counted)) = number("disturbed").zip(counted) {
            add(&mut self.disturbed_rounds, disturbed);
            add(&mut self.rounds, counted);
            add(&mut self.rounds, disturbed);
        }
        let sides = ["generator", "device"].map(|side| fields.get(side)?.as_object().and_then(span));
        if let [Some(generator), Some(device)] = sides {
            let is_void = fields.get("void").is_some_and(Value::is_string);
            let most = taken(generator).max(taken(device));
            self.trials += 1;
            self.void_trials += u64::from(is_void || most > MOST_TAKEN);
        }
    }
}

/// Wall time, waiting and steal of a span of a thread's time.
fn span(fields: &Map<String, Value>) -> Option<[u64; 3]> {
    let number = |name: &str| fields.get(name)?.as_u64();
    Some([
        number("wall_nanos")?,
        number("waited_nanos")?,
        number("stolen_nanos")?,
    ])
}

fn taken([wall, waited, stolen]: [u64; 3]) -> f64 {
    waited.saturating_add(stolen) as f64 / wall.max(1) as f64
}

/// The numbers are a file's: they may be any.
const fn add(sum: &mut u64, number: u64) {
    *sum = sum.saturating_add(number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn passed(waited: u64, stolen: u64) -> Value {
        json!({"wall_nanos": 1_000, "busy_nanos": 900, "waited_nanos": waited, "stolen_nanos": stolen})
    }

    #[test]
    fn time_rounds_and_trials_are_found_wherever_they_are() {
        let mut run = passed(0, 0);
        run["disturbed"] = 2.into();
        run["round"] = json!({"median": 1.0, "count": 8});
        let file = json!({
            "throughput": [{"runs": [run, passed(3, 1)]}],
            "latency": {"worker": {"loads": [
                {"generator": passed(0, 0), "device": passed(0, 0), "intervals": {"intervals": 250, "disturbed": 24}},
                {"generator": passed(0, 0), "device": passed(0, 0), "void": "late"},
                {"generator": passed(6, 0), "device": passed(0, 0)},
            ]}},
        });
        let found = Disturbance::of(&file, 0.0);
        assert_eq!((found.spans, found.waited_nanos, found.stolen_nanos), (8, 9, 1));
        assert_eq!((found.rounds, found.disturbed_rounds), (10, 2));
        assert_eq!((found.trials, found.void_trials), (3, 2));
        assert!((found.taken() - 10.0 / 8_000.0).abs() < 1e-12);
        assert!((found.most_taken - 0.006).abs() < 1e-12);
        assert_eq!(found.reasons(), ["2 of 3 trials are void"]);
    }

    #[test]
    fn sums_of_any_numbers_end_at_the_greatest() {
        let mut run = passed(u64::MAX, u64::MAX);
        run["wall_nanos"] = u64::MAX.into();
        run["disturbed"] = u64::MAX.into();
        run["kept_rounds"] = u64::MAX.into();
        let found = Disturbance::of(&json!({"runs": [run, run]}), 0.0);
        assert_eq!((found.rounds, found.disturbed_rounds), (u64::MAX, u64::MAX));
        assert_eq!((found.wall_nanos, found.waited_nanos), (u64::MAX, u64::MAX));
        assert_eq!((found.taken(), found.most_taken), (1.0, 1.0));
    }

    #[test]
    fn a_quiet_run_has_no_reasons() {
        let quiet = Disturbance::of(&json!({"runs": [passed(1, 0)]}), 0.05);
        assert!(quiet.reasons().is_empty());
        let loud = Disturbance::of(&json!({"runs": [passed(20, 0)]}), 2.0);
        assert_eq!(
            loud.reasons(),
            [
                "load average 2.0 before it",
                "others took 2.0% of the threads' time"
            ]
        );
    }
}
