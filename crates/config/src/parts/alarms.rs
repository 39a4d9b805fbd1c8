//! Alarms: watermarks as the alarms have them, and checks.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use rules::model::SNssai;
use serde_saphyr::Spanned;

use crate::error::Fault;
use crate::schema::{Config, WatermarkConfig, WatermarkCounter, WatermarkDirection};

/// Elements of the lists, at most.
const MOST_WATERMARKS: usize = 64;
const MOST_RECEIVERS: usize = 8;
/// Octets of a DNN, at most (TS 23.003 §9.1).
const LONGEST_DNN: usize = 100;

/// A count or rate that raises an alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// What is counted.
    pub of: WatermarkCounter,
    /// The count that raises it.
    pub at: u64,
    /// Of sessions and rates: those of this slice alone.
    pub slice: Option<SNssai>,
    /// Of sessions and rates: those of this DNN alone.
    pub dnn: Option<String>,
    /// Of rates: packets of this direction alone.
    pub direction: Option<WatermarkDirection>,
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.of {
            WatermarkCounter::Sessions => "sessions",
            WatermarkCounter::Flows => "flows",
            WatermarkCounter::Throughput => "throughput",
            WatermarkCounter::PacketRate => "packet_rate",
        })?;
        if let Some(slice) = &self.slice {
            write!(f, " slice={slice}")?;
        }
        if let Some(dnn) = &self.dnn {
            write!(f, " dnn={dnn}")?;
        }
        match self.direction {
            None => Ok(()),
            Some(WatermarkDirection::Uplink) => f.write_str(" direction=uplink"),
            Some(WatermarkDirection::Downlink) => f.write_str(" direction=downlink"),
        }
    }
}

impl Config {
    /// The counts that raise an alarm.
    #[must_use]
    pub fn watermarks(&self) -> Vec<Watermark> {
        let of = |one: &WatermarkConfig| Watermark {
            of: one.of,
            at: one.at.value.value(),
            slice: one.slice.as_ref().and_then(|slice| slice.s_nssai()),
            dnn: one.dnn.clone(),
            direction: one.direction,
        };
        self.alarms.watermarks.iter().map(of).collect()
    }
}

/// Finds what contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let alarms = &config.alarms;
    few(
        "watermarks",
        MOST_WATERMARKS,
        alarms.watermarks.iter().map(|one| &one.at),
    )?;
    few(
        "webhooks",
        MOST_RECEIVERS,
        alarms.webhooks.iter().map(|one| &one.url),
    )?;
    few("syslog", MOST_RECEIVERS, alarms.syslog.iter().map(|one| &one.to))?;
    for one in &alarms.watermarks {
        check_watermark(one).map_err(|why| Fault::new(&one.at, format!("alarms.watermarks: {why}")))?;
    }
    let names: Vec<String> = config.watermarks().iter().map(Watermark::to_string).collect();
    let names = names.into_iter().zip(alarms.watermarks.iter().map(|one| &one.at));
    once("watermarks", names)?;
    once(
        "webhooks",
        alarms
            .webhooks
            .iter()
            .map(|one| (one.url.value.to_string(), &one.url)),
    )?;
    once(
        "syslog",
        alarms
            .syslog
            .iter()
            .map(|one| (one.to.value.to_string(), &one.to)),
    )?;
    for hook in &alarms.webhooks {
        absolute("webhooks: ca", hook.ca.as_ref())?;
        absolute("webhooks: token_file", hook.token_file.as_ref())?;
    }
    alarms
        .syslog
        .iter()
        .try_for_each(|one| absolute("syslog: ca", one.ca.as_ref()))
}

/// Each receiver has a task of its own, and each count is looked at once a second.
fn few<'a, T: 'a>(
    field: &str,
    most: usize,
    mut elements: impl Iterator<Item = &'a Spanned<T>>,
) -> Result<(), Fault> {
    elements.nth(most).map_or(Ok(()), |one| {
        Err(Fault::new(
            one,
            format!("alarms.{field}: there are {most} at most"),
        ))
    })
}

fn once<'a, T: 'a>(
    field: &str,
    elements: impl Iterator<Item = (String, &'a Spanned<T>)>,
) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for (name, at) in elements {
        if seen.contains(&name) {
            return Err(Fault::new(
                at,
                format!("alarms.{field}: {name} is configured twice"),
            ));
        }
        seen.insert(name);
    }
    Ok(())
}

fn check_watermark(one: &WatermarkConfig) -> Result<(), &'static str> {
    if one.of == WatermarkCounter::Flows && (one.slice.is_some() || one.dnn.is_some()) {
        return Err("flows are not counted by slice or DNN");
    }
    if one.direction.is_some() && !one.of.is_rate() {
        return Err("direction: only rates have one");
    }
    if one.slice.as_ref().is_some_and(|slice| slice.s_nssai().is_none()) {
        return Err("slice.sd: must be six hexadecimal digits");
    }
    let is_bad = |dnn: &String| dnn.is_empty() || dnn.len() > LONGEST_DNN;
    if one.dnn.as_ref().is_some_and(is_bad) {
        return Err("dnn: must have 1 to 100 octets");
    }
    Ok(())
}

fn absolute(field: &str, path: Option<&Spanned<PathBuf>>) -> Result<(), Fault> {
    match path.filter(|path| !path.value.is_absolute()) {
        None => Ok(()),
        Some(path) => {
            let message = format!("alarms.{field}: `{}` is no absolute path", path.value.display());
            Err(Fault::new(path, message))
        }
    }
}
