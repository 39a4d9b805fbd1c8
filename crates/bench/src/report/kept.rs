//! Model Z: what is kept of the rate with inspection: published with offline billing, measured with contents counted.

use serde::Serialize;

use super::super::inspection;
use super::super::published::{PUBLISHED_INSPECTION, Published};
use super::arithmetic::Derived;
use super::assumptions::Assumptions;
use super::digits::digits;
use super::measured::MeasuredKept;
use super::result_file::ResultFile;

/// A share of a rate that is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptReport {
    /// The published system, or what flow entries are of here.
    pub what: String,
    /// The file that has it; `None`: published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The rate with rules over that without.
    pub kept: Derived,
    /// The same with the assumed driver on both sides; a published system has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_driver: Option<Derived>,
    /// That over each published share.
    pub of_published: Vec<Derived>,
}

/// Published shares, then those of the files; the last file that has one counts, and void ones are left out.
pub fn kept(files: &[ResultFile], assumed: &Assumptions) -> Vec<KeptReport> {
    let mut all: Vec<KeptReport> = PUBLISHED_INSPECTION.iter().filter_map(published).collect();
    let theirs: Vec<f64> = all.iter().map(|one| one.kept.value).collect();
    for base in inspection::BASES {
        let found = files.iter().rev().find_map(|file| Some((file, file.kept(base)?)));
        if let Some((file, one)) = found.filter(|(_, one)| one.void.is_none()) {
            all.push(measured(&file.name, one, assumed, &theirs));
        }
    }
    all
}

fn published([without, with]: &[Published; 2]) -> Option<KeptReport> {
    let [without_mpps, with_mpps] = [without.total_mpps()?, with.total_mpps()?];
    let formula = format!("{} / {}", digits(with_mpps), digits(without_mpps));
    let year = without.year.map_or(String::new(), |year| format!(" ({year})"));
    Some(KeptReport {
        what: format!("{}{year}, {}", without.system, with.condition),
        file: None,
        kept: Derived::new(with_mpps / without_mpps, "of without", formula),
        with_driver: None,
        of_published: Vec::new(),
    })
}

fn measured(file: &str, one: &MeasuredKept, assumed: &Assumptions, theirs: &[f64]) -> KeptReport {
    let [median, least, greatest] = one.rate;
    let driver = assumed.driver_nanos.value;
    let [without, with] = one.nanos.map(|nanos| nanos + driver);
    let formula = format!(
        "({} + {}) / ({} + {})",
        digits(one.nanos[0]),
        digits(driver),
        digits(one.nanos[1]),
        digits(driver)
    );
    let with_driver = Derived::new(without / with, "of without", formula);
    let over = |theirs: &f64| {
        let formula = format!("{} / {}", with_driver.text(), digits(*theirs));
        Derived::new(with_driver.value / theirs, "of published", formula)
    };
    KeptReport {
        what: one.base.to_owned(),
        file: Some(file.to_owned()),
        kept: Derived::new(
            median,
            "of without",
            format!(
                "median of {} pairs, {} to {}",
                one.pairs,
                digits(least),
                digits(greatest)
            ),
        ),
        of_published: theirs.iter().map(over).collect(),
        with_driver: Some(with_driver),
    }
}
