//! A published figure, and what follows from it.

use serde::Serialize;

use super::super::published::Published;
use super::arithmetic::{Derived, at_least};
use super::assumptions::Assumptions;
use super::digits::digits;

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

/// The report of a published figure.
pub fn published_report(published: &Published, assumed: &Assumptions) -> PublishedReport {
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
