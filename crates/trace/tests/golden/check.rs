//! The files of a case against what came out, or written anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use packet::DropReason;

use crate::pcapng::{self, Captured};
use crate::value::Fault;
use crate::world::Came;

/// All that a case leaves.
pub struct Outcome {
    pub ports: Vec<String>,
    pub sent: Vec<Captured>,
    pub received: Vec<Captured>,
    /// All that came in, in order.
    pub came: Vec<Came>,
    /// Packets that were dropped, by reason.
    pub drops: [u64; DropReason::COUNT],
    /// The text of `counters.json`.
    pub counters: String,
}

const IN: &str = "in.pcapng";
const OUT: &str = "out.pcapng";
const COUNTERS: &str = "counters.json";

/// Writes the files of the case anew.
pub fn write(folder: &Path, outcome: &Outcome) -> Result<(), Fault> {
    let put = |file: &str, octets: &[u8]| {
        fs::write(folder.join(file), octets).map_err(|error| format!("{file}: {error}"))
    };
    put(IN, &pcapng::write(&outcome.ports, &outcome.sent))?;
    put(OUT, &pcapng::write(&outcome.ports, &outcome.received))?;
    put(COUNTERS, outcome.counters.as_bytes())
}

/// Compares the files of the case; the fault shows the first difference.
pub fn compare(folder: &Path, outcome: &Outcome) -> Result<(), Fault> {
    let fetch = |file: &str| {
        fs::read(folder.join(file)).map_err(|error| format!("{file}: {error} (SLUICE_GOLDEN=write makes it)"))
    };
    compare_frames(IN, &fetch(IN)?, &outcome.sent, &outcome.ports)?;
    compare_frames(OUT, &fetch(OUT)?, &outcome.received, &outcome.ports)?;
    compare_text(
        COUNTERS,
        &String::from_utf8_lossy(&fetch(COUNTERS)?),
        &outcome.counters,
    )
}

fn compare_frames(file: &str, wanted: &[u8], found: &[Captured], ports: &[String]) -> Result<(), Fault> {
    if pcapng::write(ports, found) == wanted {
        return Ok(());
    }
    let wanted = pcapng::read(wanted).ok_or_else(|| format!("{file}: no capture of ours"))?;
    let longer = wanted.len().max(found.len());
    let different = (0..longer).find(|place| wanted.get(*place) != found.get(*place));
    let Some(place) = different else {
        return Err(format!("{file}: the ports differ"));
    };
    let mut report = format!("{file}: frame {} of {}", place + 1, wanted.len());
    describe(
        &mut report,
        "expected",
        wanted.get(place),
        found.get(place),
        ports,
    );
    describe(
        &mut report,
        "came out",
        found.get(place),
        wanted.get(place),
        ports,
    );
    Err(report)
}

/// One frame in hexadecimal, with a star before each line that differs from the other's.
fn describe(
    report: &mut String,
    what: &str,
    frame: Option<&Captured>,
    other: Option<&Captured>,
    ports: &[String],
) {
    let Some(frame) = frame else {
        let _ = write!(report, "\n  {what}: no frame");
        return;
    };
    let port = ports.get(frame.port).map_or("?", String::as_str);
    let (time, length) = (frame.time.0, frame.bytes.len());
    let _ = write!(report, "\n  {what}: {length} octets on {port} at {time} ns");
    let others = other.map_or(&[][..], |other| &other.bytes);
    for (line, octets) in frame.bytes.chunks(16).enumerate() {
        let same = others.chunks(16).nth(line) == Some(octets);
        let hex: Vec<_> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        let mark = if same { ' ' } else { '*' };
        let _ = write!(report, "\n   {mark}{:04x}  {}", line * 16, hex.join(" "));
    }
}

pub fn compare_text(file: &str, wanted: &str, found: &str) -> Result<(), Fault> {
    if wanted == found {
        return Ok(());
    }
    let (wanted, found): (Vec<_>, Vec<_>) = (wanted.lines().collect(), found.lines().collect());
    let longer = wanted.len().max(found.len());
    let line = (0..longer)
        .find(|line| wanted.get(*line) != found.get(*line))
        .unwrap_or_default();
    let around = |lines: &[&str]| {
        let last = (line + 6).min(lines.len());
        lines
            .get(line.saturating_sub(3)..last)
            .unwrap_or_default()
            .join("\n    ")
    };
    Err(format!(
        "{file}: line {}\n  expected:\n    {}\n  came out:\n    {}",
        line + 1,
        around(&wanted),
        around(&found)
    ))
}
