//! Slices that have workers of their own: checks, and what sessions are distributed by.

use flow::WorkerId;
use session::SliceWorkers;

use crate::error::Fault;
use crate::schema::{Config, SliceWorkersConfig};

/// The most slices with workers of their own: as many as `sluice show slices` has rows for.
const MOST_SLICES: usize = 256;

impl Config {
    /// Which workers serve which slices.
    #[must_use]
    pub fn slice_workers(&self) -> SliceWorkers {
        let list = |one: &SliceWorkersConfig| {
            let numbers = one.workers.value.iter();
            let workers = numbers.map(|number| WorkerId(number.value() as u16)).collect();
            // The check has refused what is no slice.
            Some((one.s_nssai()?, workers))
        };
        SliceWorkers::new(self.slices.iter().filter_map(list))
    }
}

/// Finds the first slice that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let count = config.workers.count.value();
    let mut seen = Vec::new();
    for (place, one) in config.slices.iter().enumerate() {
        let name = one.name();
        let fault = |message: String| Err(Fault::new(&one.workers, format!("slices: {name}: {message}")));
        if place >= MOST_SLICES {
            let message = format!("slices: more than {MOST_SLICES} have workers of their own");
            return Err(Fault::new(&one.workers, message));
        }
        let Some(slice) = one.s_nssai() else {
            return fault("sd: not six hexadecimal digits".into());
        };
        if seen.contains(&slice) {
            return fault("it is there twice".into());
        }
        seen.push(slice);
        let numbers: Vec<u64> = one.workers.value.iter().map(|number| number.value()).collect();
        if numbers.is_empty() {
            return fault("workers: the list is empty; without the slice, its sessions are served by the workers that no slice lists".into());
        }
        for (place, number) in numbers.iter().enumerate() {
            if *number >= count {
                return fault(format!(
                    "workers: there is no worker {number}: `workers.count` is {count}, and the first is worker 0"
                ));
            }
            if numbers.iter().take(place).any(|earlier| earlier == number) {
                return fault(format!("workers: worker {number} is there twice"));
            }
        }
    }
    let Some(last) = config.slices.last() else {
        return Ok(());
    };
    let lists = |number: &u64| {
        let mut all = config.slices.iter().flat_map(|one| &one.workers.value);
        all.any(|listed| listed.value() == *number)
    };
    match (0..count).all(|number| lists(&number)) {
        true => {
            let message = "slices: every worker is listed by a slice, and none is left for sessions of other slices and those without S-NSSAI";
            Err(Fault::new(&last.workers, message))
        }
        false => Ok(()),
    }
}
