//! From the measured time of a packet to cores, servers, power and cost: each number with the formula that made it.

use serde::Serialize;

use super::assumptions::Assumptions;
use super::digits::digits;

/// A number that was computed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// The value, not rounded.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// How it was computed, with the numbers in it.
    pub formula: String,
}

impl Derived {
    /// A number and how it was computed.
    #[must_use]
    pub const fn new(value: f64, unit: &'static str, formula: String) -> Self {
        Self { value, unit, formula }
    }

    /// The value in few digits.
    #[must_use]
    pub fn text(&self) -> String {
        digits(self.value)
    }
}

/// A formula in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Formula {
    /// What it gives.
    pub name: &'static str,
    /// The formula.
    pub formula: &'static str,
}

const fn formula(name: &'static str, formula: &'static str) -> Formula {
    Formula { name, formula }
}

/// All formulas of a report, in the order in which they build on each other.
pub const FORMULAS: [Formula; 14] = [
    formula(
        "octets",
        "uplink share x uplink frame + downlink share x downlink frame + frame overhead",
    ),
    formula("ns with driver", "ns/packet measured + driver"),
    formula("Mpps per core", "1,000 / ns with driver x scaling"),
    formula("Gbit/s per core", "Mpps per core x octets x 8 / 1,000"),
    formula(
        "cores for a card's Gbit/s",
        "published Gbit/s of a card / Gbit/s per core, without headroom, not rounded",
    ),
    formula(
        "share kept with driver",
        "(ns/packet without rules + driver) / (ns/packet with rules + driver)",
    ),
    formula("planned Gbit/s per core", "Gbit/s per core x (1 - headroom)"),
    formula(
        "Gbit/s per server",
        "planned Gbit/s per core x (cores per server - control cores), at most NICs per server",
    ),
    formula("Mpps per server", "Gbit/s per server x 1,000 / (octets x 8)"),
    formula("per watt", "Gbit/s or Mpps per server / watts per server"),
    formula("cores", "Gbit/s wanted / planned Gbit/s per core, rounded up"),
    formula("servers", "Gbit/s wanted / Gbit/s per server, rounded up"),
    formula("watts per Gbit/s", "servers x watts per server / Gbit/s wanted"),
    formula("cost per Gbit/s", "servers x cost per server / Gbit/s wanted"),
];

/// What a throughput takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForThroughput {
    /// Gbit/s.
    pub gbps: f64,
    /// Cores of workers.
    pub cores: Derived,
    /// Servers.
    pub servers: Derived,
    /// Power.
    pub watts_per_gbps: Derived,
    /// Cost.
    pub cost_per_gbps: Derived,
}

/// What bounds a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Its workers.
    Cores,
    /// What its NICs are assumed to carry.
    Nics,
}

/// All that follows from one measured point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DerivedFigures {
    /// Nanoseconds a packet with a driver.
    pub nanos_with_driver: Derived,
    /// Million packets a second of a core among many.
    pub mpps_per_core: Derived,
    /// The same in Gbit/s.
    pub gbps_per_core: Derived,
    /// Gbit/s of a core with headroom.
    pub planned_gbps_per_core: Derived,
    /// Gbit/s of a server.
    pub gbps_per_server: Derived,
    /// What bounds it.
    pub server_bound: Bound,
    /// Million packets a second of a server.
    pub mpps_per_server: Derived,
    /// Gbit/s for each watt.
    pub gbps_per_watt: Derived,
    /// Million packets a second for each watt.
    pub mpps_per_watt: Derived,
    /// Cost of each Gbit/s of a full server.
    pub cost_per_gbps: Derived,
    /// Watts of each Gbit/s of a full server.
    pub watts_per_gbps: Derived,
    /// For each wanted throughput.
    pub throughputs: Vec<ForThroughput>,
}

impl DerivedFigures {
    /// From the measured `nanos` of a packet of `octets` octets in the mean, the overhead among them.
    #[must_use]
    pub fn new(nanos: f64, octets: f64, assumed: &Assumptions) -> Self {
        let (driver, scaling, headroom) = (
            assumed.driver_nanos.value,
            assumed.scaling.value,
            assumed.headroom.value,
        );
        let nanos_with_driver = Derived::new(
            nanos + driver,
            "ns",
            format!("{} measured + {}", digits(nanos), digits(driver)),
        );
        let mpps_per_core = Derived::new(
            1e3 / nanos_with_driver.value * scaling,
            "Mpps",
            format!("1,000 / {} x {}", nanos_with_driver.text(), digits(scaling)),
        );
        let gbps_per_core = Derived::new(
            mpps_per_core.value * octets * 8.0 / 1e3,
            "Gbit/s",
            format!("{} x {} x 8 / 1,000", mpps_per_core.text(), digits(octets)),
        );
        let planned_gbps_per_core = Derived::new(
            gbps_per_core.value * (1.0 - headroom),
            "Gbit/s",
            format!("{} x (1 - {})", gbps_per_core.text(), digits(headroom)),
        );
        let server = Server::new(&planned_gbps_per_core, octets, assumed);
        let throughputs = assumed.gbps.iter();
        let throughputs = throughputs.map(|&gbps| server.throughput(gbps, &planned_gbps_per_core, assumed));
        Self {
            throughputs: throughputs.collect(),
            gbps_per_watt: server.per_watt(&server.gbps, "Gbit/s a W", assumed),
            mpps_per_watt: server.per_watt(&server.mpps, "Mpps a W", assumed),
            cost_per_gbps: server.per_gbps(assumed.cost_per_server.value, "money a Gbit/s"),
            watts_per_gbps: server.per_gbps(assumed.watts_per_server.value, "W a Gbit/s"),
            nanos_with_driver,
            mpps_per_core,
            gbps_per_core,
            planned_gbps_per_core,
            gbps_per_server: server.gbps,
            server_bound: server.bound,
            mpps_per_server: server.mpps,
        }
    }

    /// Every number with its name, for a reader who follows the arithmetic.
    #[must_use]
    pub fn named(&self) -> Vec<(String, &Derived)> {
        let fixed: [(&str, &Derived); 10] = [
            ("ns with driver", &self.nanos_with_driver),
            ("Mpps per core", &self.mpps_per_core),
            ("Gbit/s per core", &self.gbps_per_core),
            ("planned Gbit/s per core", &self.planned_gbps_per_core),
            ("Gbit/s per server", &self.gbps_per_server),
            ("Mpps per server", &self.mpps_per_server),
            ("Gbit/s per watt", &self.gbps_per_watt),
            ("Mpps per watt", &self.mpps_per_watt),
            ("cost per Gbit/s, full server", &self.cost_per_gbps),
            ("watts per Gbit/s, full server", &self.watts_per_gbps),
        ];
        let mut all: Vec<(String, &Derived)> = fixed
            .into_iter()
            .map(|(name, derived)| (name.to_owned(), derived))
            .collect();
        for wanted in &self.throughputs {
            let name = |what: &str| format!("{what} for {} Gbit/s", digits(wanted.gbps));
            all.push((name("cores"), &wanted.cores));
            all.push((name("servers"), &wanted.servers));
            all.push((name("watts per Gbit/s"), &wanted.watts_per_gbps));
            all.push((name("cost per Gbit/s"), &wanted.cost_per_gbps));
        }
        all
    }
}

/// One server.
struct Server {
    gbps: Derived,
    mpps: Derived,
    bound: Bound,
}

impl Server {
    fn new(planned: &Derived, octets: f64, assumed: &Assumptions) -> Self {
        let (cores, nics) = (
            planned.value * assumed.workers(),
            assumed.nic_gbps_per_server.value,
        );
        let bound = if cores > nics { Bound::Nics } else { Bound::Cores };
        let gbps = Derived::new(
            cores.min(nics),
            "Gbit/s",
            format!(
                "{} x ({} - {}) = {}, at most {}",
                planned.text(),
                digits(assumed.cores_per_server.value),
                digits(assumed.control_cores.value),
                digits(cores),
                digits(nics)
            ),
        );
        let mpps = Derived::new(
            gbps.value * 1e3 / (octets * 8.0),
            "Mpps",
            format!("{} x 1,000 / ({} x 8)", gbps.text(), digits(octets)),
        );
        Self { gbps, mpps, bound }
    }

    fn per_watt(&self, what: &Derived, unit: &'static str, assumed: &Assumptions) -> Derived {
        let watts = assumed.watts_per_server.value;
        Derived::new(
            what.value / watts,
            unit,
            format!("{} / {}", what.text(), digits(watts)),
        )
    }

    fn per_gbps(&self, what: f64, unit: &'static str) -> Derived {
        Derived::new(
            what / self.gbps.value,
            unit,
            format!("{} / {}", digits(what), self.gbps.text()),
        )
    }

    fn throughput(&self, wanted: f64, planned: &Derived, assumed: &Assumptions) -> ForThroughput {
        let number = |of: &Derived, unit| {
            let formula = format!("{} / {}, rounded up", digits(wanted), of.text());
            Derived::new(at_least(wanted, of.value), unit, formula)
        };
        let servers = number(&self.gbps, "servers");
        let of_servers = |each: f64, unit| {
            let formula = format!("{} x {} / {}", servers.text(), digits(each), digits(wanted));
            Derived::new(servers.value * each / wanted, unit, formula)
        };
        ForThroughput {
            gbps: wanted,
            cores: number(planned, "cores"),
            watts_per_gbps: of_servers(assumed.watts_per_server.value, "W a Gbit/s"),
            cost_per_gbps: of_servers(assumed.cost_per_server.value, "money a Gbit/s"),
            servers,
        }
    }
}

/// The least whole number that times `each` is at least `wanted`.
#[must_use]
pub fn at_least(wanted: f64, each: f64) -> f64 {
    let number = (wanted / each).ceil();
    // Divisions round, multiplications too.
    if number * each < wanted {
        number + 1.0
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::super::assumptions::AssumptionArguments;
    use super::*;
    use proptest::prelude::*;

    fn assumed(options: AssumptionArguments) -> Assumptions {
        Assumptions::new(&options, &[]).unwrap()
    }

    #[test]
    fn a_point_that_was_computed_by_hand() {
        let assumed = assumed(AssumptionArguments {
            driver_nanos: Some(25.0),
            scaling: Some(0.8),
            headroom: Some(0.5),
            gbps: vec![100.0, 1_000.0],
            ..AssumptionArguments::default()
        });
        // 75 ns and 25 ns: 10 Mpps, 8 among many; at 625 octets 40 Gbit/s, 20 with headroom.
        let figures = DerivedFigures::new(75.0, 625.0, &assumed);
        assert_eq!(figures.nanos_with_driver.formula, "75 measured + 25");
        assert_eq!(figures.mpps_per_core.value, 8.0);
        assert_eq!(figures.gbps_per_core.formula, "8 x 625 x 8 / 1,000");
        assert_eq!(figures.planned_gbps_per_core.value, 20.0);
        // 62 workers could do 1,240 Gbit/s; the NICs carry 400, which are 80 Mpps.
        assert_eq!(
            (figures.gbps_per_server.value, figures.server_bound),
            (400.0, Bound::Nics)
        );
        assert_eq!(
            figures.gbps_per_server.formula,
            "20 x (64 - 2) = 1,240, at most 400"
        );
        assert_eq!(figures.mpps_per_server.value, 80.0);
        assert_eq!(figures.cost_per_gbps.value, 30.0);
        assert_eq!(figures.watts_per_gbps.value, 1.5);
        let [hundred, thousand] = &figures.throughputs[..] else {
            panic!("two throughputs")
        };
        assert_eq!((hundred.cores.value, hundred.servers.value), (5.0, 1.0));
        assert_eq!((thousand.cores.value, thousand.servers.value), (50.0, 3.0));
        assert_eq!(thousand.cost_per_gbps.value, 36.0);
        assert_eq!(thousand.watts_per_gbps.formula, "3 x 600 / 1,000");
    }

    proptest! {
        #[test]
        fn cores_and_servers_are_just_enough(
            nanos in 1.0..2_000.0f64,
            octets in 60.0..9_000.0f64,
            gbps in 0.1..5_000.0f64,
            headroom in 0.0..0.95f64,
            driver in 0.0..200.0f64,
            cores in 3..512u32,
        ) {
            let assumed = assumed(AssumptionArguments {
                headroom: Some(headroom),
                driver_nanos: Some(driver),
                cores_per_server: Some(cores),
                gbps: vec![gbps],
                ..AssumptionArguments::default()
            });
            let figures = DerivedFigures::new(nanos, octets, &assumed);
            let wanted = &figures.throughputs[0];
            for (number, each) in [
                (wanted.cores.value, figures.planned_gbps_per_core.value),
                (wanted.servers.value, figures.gbps_per_server.value),
            ] {
                prop_assert!(number >= 1.0 && number.fract() == 0.0);
                prop_assert!(number * each >= gbps);
                // One in a trillion is rounding.
                prop_assert!((number - 1.0) * each < gbps * (1.0 + 1e-12));
            }
            prop_assert!(figures.gbps_per_server.value <= assumed.nic_gbps_per_server.value);
            prop_assert!(figures.gbps_per_server.value
                <= figures.planned_gbps_per_core.value * assumed.workers());
            let watts = wanted.watts_per_gbps.value * gbps / assumed.watts_per_server.value;
            prop_assert!((watts - wanted.servers.value).abs() < 1e-6 * watts);
            // A slower packet never takes fewer cores.
            let slower = DerivedFigures::new(nanos * 1.5, octets, &assumed);
            prop_assert!(slower.throughputs[0].cores.value >= wanted.cores.value);
        }
    }
}
