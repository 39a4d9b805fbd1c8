//! What a report assumes and no run measured: named, with defaults, changeable by options.

use clap::Args;
use serde::Serialize;

use super::digits::digits;
use super::result_file::{MeasuredScaling, ResultFile};

/// Options of `sluice bench report`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct AssumptionArguments {
    /// Cores of a server, as the measured machine counts cores [default: 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub cores_per_server: Option<u32>,
    /// Cores of a server that are not workers: control and the system [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=4_095))]
    pub control_cores: Option<u32>,
    /// Power of a server under this load, watts [default: 600].
    #[arg(long, value_name = "W", value_parser = positive)]
    pub watts_per_server: Option<f64>,
    /// Cost of a server, in any currency [default: 12000].
    #[arg(long, value_name = "MONEY", value_parser = positive)]
    pub cost_per_server: Option<f64>,
    /// The most that a server's NICs, PCIe and memory carry, Gbit/s [default: 400].
    #[arg(long, value_name = "GBPS", value_parser = positive)]
    pub nic_gbps_per_server: Option<f64>,
    /// Nanoseconds that a NIC's driver takes of a core for each packet, receiving and sending [default: 25].
    #[arg(long, value_name = "NS", value_parser = not_negative)]
    pub driver_nanos: Option<f64>,
    /// Share of a worker's throughput that stays free, 0 to 0.95 [default: 0.3].
    #[arg(long, value_name = "SHARE", value_parser = headroom)]
    pub headroom: Option<f64>,
    /// Throughput of many workers over that of one times their number, above 0, at most 1 [default: T11 of the files,
    /// at most 1; 0.9 without it].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub scaling: Option<f64>,
    /// Octets that count for each packet beside its frame without FCS; 24 are FCS, preamble and gap [default: 0].
    #[arg(long, value_name = "OCTETS", value_parser = not_negative)]
    pub frame_overhead: Option<f64>,
    /// Throughputs to take cores and servers for, Gbit/s [default: 100,462,1000].
    #[arg(long, value_name = "GBPS,...", value_delimiter = ',', value_parser = positive)]
    pub gbps: Vec<f64>,
}

fn number(text: &str, wanted: &str, is_allowed: impl Fn(f64) -> bool) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if number.is_finite() && is_allowed(number) {
        Ok(number)
    } else {
        Err(format!("must be {wanted}"))
    }
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, "above 0, at most 1e9", |number| {
        number > 0.0 && number <= 1e9
    })
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text, "0 to 100000", |number| (0.0..=1e5).contains(&number))
}

fn headroom(text: &str) -> Result<f64, String> {
    number(text, "0 to 0.95", |number| (0.0..=0.95).contains(&number))
}

fn share(text: &str) -> Result<f64, String> {
    number(text, "above 0, at most 1", |number| number > 0.0 && number <= 1.0)
}

/// One assumption.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assumption {
    /// Its name in formulas.
    pub name: &'static str,
    /// The option that changes it.
    pub option: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The unit.
    pub unit: &'static str,
    /// Where the value comes from.
    pub from: String,
}

const DEFAULT: &str = "assumed";

/// All values that formulas need beside a measured time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assumptions {
    /// Cores of a server.
    pub cores_per_server: Assumption,
    /// Those that are not workers.
    pub control_cores: Assumption,
    /// Watts.
    pub watts_per_server: Assumption,
    /// Cost.
    pub cost_per_server: Assumption,
    /// What the NICs carry.
    pub nic_gbps_per_server: Assumption,
    /// The driver's time.
    pub driver_nanos: Assumption,
    /// What stays free.
    pub headroom: Assumption,
    /// Many workers over one.
    pub scaling: Assumption,
    /// Octets beside the frame.
    pub frame_overhead: Assumption,
    /// Wanted throughputs.
    pub gbps: Vec<f64>,
}

impl Assumptions {
    /// The options, the defaults, and T11 of the last of `files` that has it.
    ///
    /// # Errors
    /// Text when no core of a server is left for workers.
    pub fn new(options: &AssumptionArguments, files: &[ResultFile]) -> Result<Self, String> {
        let all = Self {
            cores_per_server: CORES.with(options.cores_per_server.map(f64::from)),
            control_cores: CONTROL.with(options.control_cores.map(f64::from)),
            watts_per_server: WATTS.with(options.watts_per_server),
            cost_per_server: COST.with(options.cost_per_server),
            nic_gbps_per_server: NIC.with(options.nic_gbps_per_server),
            driver_nanos: DRIVER.with(options.driver_nanos),
            headroom: HEADROOM.with(options.headroom),
            scaling: scaling(options.scaling, files),
            frame_overhead: OVERHEAD.with(options.frame_overhead),
            gbps: if options.gbps.is_empty() {
                vec![100.0, 462.0, 1_000.0]
            } else {
                options.gbps.clone()
            },
        };
        if all.workers() < 1.0 {
            return Err(format!(
                "--control-cores {}: must be below --cores-per-server {}",
                all.control_cores.value, all.cores_per_server.value
            ));
        }
        Ok(all)
    }

    /// Workers of a server.
    #[must_use]
    pub fn workers(&self) -> f64 {
        self.cores_per_server.value - self.control_cores.value
    }

    /// Those that are single values.
    #[must_use]
    pub fn each(&self) -> [&Assumption; 9] {
        [
            &self.cores_per_server,
            &self.control_cores,
            &self.watts_per_server,
            &self.cost_per_server,
            &self.nic_gbps_per_server,
            &self.driver_nanos,
            &self.headroom,
            &self.scaling,
            &self.frame_overhead,
        ]
    }
}

/// An assumption before options are looked at.
struct Usual {
    name: &'static str,
    option: &'static str,
    what: &'static str,
    value: f64,
    unit: &'static str,
}

impl Usual {
    fn with(&self, given: Option<f64>) -> Assumption {
        Assumption {
            name: self.name,
            option: self.option,
            what: self.what,
            value: given.unwrap_or(self.value),
            unit: self.unit,
            from: given.map_or(DEFAULT, |_| "option").into(),
        }
    }
}

const fn usual(
    name: &'static str,
    option: &'static str,
    what: &'static str,
    value: f64,
    unit: &'static str,
) -> Usual {
    Usual {
        name,
        option,
        what,
        value,
        unit,
    }
}

const CORES: Usual = usual(
    "cores per server",
    "--cores-per-server",
    "cores of a server, as the measured machine counts cores",
    64.0,
    "cores",
);
const CONTROL: Usual = usual(
    "control cores",
    "--control-cores",
    "cores of a server that are not workers: control and the system",
    2.0,
    "cores",
);
const WATTS: Usual = usual(
    "watts per server",
    "--watts-per-server",
    "power of a server under this load",
    600.0,
    "W",
);
const COST: Usual = usual(
    "cost per server",
    "--cost-per-server",
    "cost of a server, in any currency",
    12_000.0,
    "money",
);
const NIC: Usual = usual(
    "NICs per server",
    "--nic-gbps-per-server",
    "the most that a server's NICs, PCIe and memory carry",
    400.0,
    "Gbit/s",
);
const DRIVER: Usual = usual(
    "driver",
    "--driver-nanos",
    "time that a NIC's driver takes of a core for each packet, receiving and sending; nothing of it is measured",
    25.0,
    "ns",
);
const HEADROOM: Usual = usual(
    "headroom",
    "--headroom",
    "share of a worker's throughput that stays free",
    0.3,
    "of 1",
);
const SCALING: Usual = usual(
    "scaling",
    "--scaling",
    "throughput of many workers over that of one times their number; taken to hold for a server's workers",
    0.9,
    "of 1",
);
const OVERHEAD: Usual = usual(
    "frame overhead",
    "--frame-overhead",
    "octets that count for each packet beside its frame without FCS (24: FCS, preamble, gap)",
    0.0,
    "octets",
);

/// The option, or T11 of the last file that has it, at most 1, or the assumption.
fn scaling(given: Option<f64>, files: &[ResultFile]) -> Assumption {
    let measured = files
        .iter()
        .rev()
        .find_map(|file| Some((file.name.clone(), file.scaling?)));
    match (given, measured) {
        (None, Some((file, scaling))) => Assumption {
            value: scaling.factor().min(1.0),
            from: scaling_words(&file, scaling),
            ..SCALING.with(None)
        },
        _ => SCALING.with(given),
    }
}

fn scaling_words(file: &str, scaling: MeasuredScaling) -> String {
    format!(
        "measured, T11 in {file}: {} Mpps of {} workers / ({} x {} Mpps of one) = {}, at most 1",
        digits(scaling.mpps),
        scaling.workers,
        scaling.workers,
        digits(scaling.one_mpps),
        digits(scaling.factor())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_the_place_of_defaults_and_say_so() {
        let options = AssumptionArguments {
            headroom: Some(0.5),
            gbps: vec![10.0],
            ..AssumptionArguments::default()
        };
        let all = Assumptions::new(&options, &[]).unwrap();
        assert_eq!((all.headroom.value, all.headroom.from.as_str()), (0.5, "option"));
        assert_eq!((all.scaling.value, all.scaling.from.as_str()), (0.9, "assumed"));
        assert_eq!((all.gbps, all.cores_per_server.value), (vec![10.0], 64.0));
    }

    #[test]
    fn a_server_has_a_worker() {
        let options = AssumptionArguments {
            cores_per_server: Some(2),
            ..AssumptionArguments::default()
        };
        assert_eq!(
            Assumptions::new(&options, &[]),
            Err("--control-cores 2: must be below --cores-per-server 2".into())
        );
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(headroom("0.95").is_ok() && headroom("0.96").is_err() && headroom("-0.1").is_err());
        assert!(share("1").is_ok() && share("0").is_err() && share("1.1").is_err());
        assert!(positive("0").is_err() && positive("inf").is_err() && positive("NaN").is_err());
        assert!(not_negative("0").is_ok() && not_negative("x").is_err());
    }
}
