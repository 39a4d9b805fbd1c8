//! Inspection and billing by hosts (T6, model Z): connections of forty packets that open, name a host and end, through
//! one worker on a port of its own; with the rules of the model, and without any, in turn. The same with an access
//! list.
//!
//! 6,000 active sessions have four connections each at a time. Of a hundred connections 70 are TLS, 15 are HTTP/1 with
//! three requests for one host, 15 are UDP without a host. A packet of the server's has 1,340 octets, one of the
//! client's 40 and its payload; one of UDP has 690. Frames have a mean of 683 octets.

mod arguments;
mod connections;
mod frames;
mod lines;
mod outcome;
mod rules;
mod side;
mod target;

use std::collections::BTreeMap;

use packet::DropReason;
use worker::Stats;

use super::clock::{Moment, Spread};
use super::error::BenchError;
use super::frame::MeanFrames;
use super::progress::Progress;
use arguments::ACTIVE;
pub use arguments::{Arguments, SESSIONS};
use connections::Mix;
pub use lines::lines;
pub use outcome::{Compared, Inspected};
use rules::{Added, Size};
use side::{Base, Side};
pub use target::targets;

/// What flow entries of the comparisons that T6 asks for are of where no rule asks for more.
pub const BASES: [&str; 2] = ["an entry for each tunnel", "an entry for each 5-tuple"];
/// The comparisons that T6 asks for, by base.
pub const COMPARISONS: [&str; 2] = [OF_TUNNEL, OF_TUPLE];
const OF_TUNNEL: &str = "model Z against an entry for each tunnel";
const OF_TUPLE: &str = "model Z against an entry for each 5-tuple";

/// The model's mix.
const MIX: Mix = Mix {
    tls: 70,
    http: 15,
    to_proxy: 0,
};
/// Its rules.
const RULES: Size = Size {
    hosts: 40_000,
    prefixes: 10_000,
    is_solicited: false,
};

/// An access list alone.
const LIST: Size = Size {
    hosts: 0,
    prefixes: 10_000,
    is_solicited: false,
};
/// One that asks for connections.
const SOLICITED: Size = Size {
    is_solicited: true,
    ..LIST
};

/// Flows of this number of sessions with traffic at a time: two of each connection.
#[must_use]
pub const fn flows(active: u32) -> u32 {
    2 * connections::OF_A_SESSION * active
}

/// Flows of the model at a time.
pub const FLOWS: u32 = flows(ACTIVE);

/// Frames of the model's mix.
#[must_use]
pub fn frames() -> MeanFrames {
    MIX.frames()
}

/// Measures it.
///
/// # Errors
/// When memory runs out.
pub fn measure(arguments: &Arguments, progress: &Progress) -> Result<Inspected, BenchError> {
    let few = Size {
        hosts: 1_000,
        ..RULES
    };
    let only = |tls, http, to_proxy| Mix { tls, http, to_proxy };
    let all = [
        (OF_TUNNEL, MIX, RULES, Base::Tunnel),
        (OF_TUPLE, MIX, RULES, Base::Tuple),
        ("1,000 hosts, each 5-tuple", MIX, few, Base::Tuple),
        ("TLS alone, each 5-tuple", only(100, 0, 0), RULES, Base::Tuple),
        ("HTTP/1 alone, each 5-tuple", only(0, 100, 0), RULES, Base::Tuple),
        (
            "HTTP/1 to a proxy, each 5-tuple",
            only(0, 0, 100),
            RULES,
            Base::Tuple,
        ),
        ("UDP alone, each 5-tuple", only(0, 0, 0), RULES, Base::Tuple),
        ("access list, each tunnel", MIX, LIST, Base::Tunnel),
        ("access list, each 5-tuple", MIX, LIST, Base::Tuple),
        (
            "access list, solicited, each 5-tuple",
            MIX,
            SOLICITED,
            Base::Tuple,
        ),
    ];
    let mut compared = Vec::new();
    for (name, mix, size, base) in all
        .into_iter()
        .filter(|(name, ..)| name.contains(&arguments.only))
    {
        progress.stage(name);
        compared.push(compare(arguments, name, (mix, size, base), progress)?);
    }
    Ok(Inspected {
        sessions: [arguments.sessions, arguments.active],
        compared,
    })
}

fn drops(before: &Stats, after: &Stats) -> BTreeMap<&'static str, u64> {
    let all = DropReason::ALL.into_iter();
    all.map(|reason| (reason.label(), after.dropped(reason) - before.dropped(reason)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn compare(
    arguments: &Arguments,
    name: &str,
    (mix, size, base): (Mix, Size, Base),
    progress: &Progress,
) -> Result<Compared, BenchError> {
    // An access list has no hosts.
    let (added, with_base) = match size.hosts {
        0 => (
            Added::AccessList(rules::access_list(size.prefixes, size.is_solicited)?),
            base,
        ),
        _ => (Added::Rulebase(rules::predefined(size)?), Base::Tunnel),
    };
    let hosts = size.hosts.max(1);
    let mut with = Side::new(arguments, (mix, hosts), &added, with_base)?;
    let mut without = Side::new(arguments, (mix, hosts), &Added::Nothing, base)?;
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let before = (with.stats(), with.counts());
    let (begin, mut rounds) = (Moment::now(), [0; 2]);
    progress.begin("pairs", arguments.pairs.into());
    for pair in 0..arguments.pairs {
        progress.at(pair.into());
        let runs = if pair % 2 == 0 {
            [with.run(arguments.seconds), without.run(arguments.seconds)]
        } else {
            let without = without.run(arguments.seconds);
            [with.run(arguments.seconds), without]
        };
        for run in &runs {
            rounds[0] += run.kept_rounds;
            rounds[1] += run.disturbed;
        }
        on.push(runs[0].nanos);
        off.push(runs[1].nanos);
    }
    let passed = begin.elapsed();
    let kept = on.iter().zip(&off).map(|(on, off)| off / on.max(0.001)).collect();
    let (stats, counts) = (with.stats(), with.counts());
    let connections = (counts.connections - before.1.connections) as f64;
    let packets = counts.given - before.1.given;
    let http = mix.http + mix.to_proxy;
    let hosts = f64::from(mix.tls + http) / 100.0 * connections;
    let requests = f64::from(http) / 100.0 * connections * 2.0;
    Ok(Compared {
        name: name.into(),
        rules: [size.hosts, size.prefixes],
        frames: mix.frames(),
        kept_rounds: rounds[0],
        disturbed: rounds[1],
        passed,
        kept: Spread::of(kept),
        with: Spread::of(on),
        without: Spread::of(off),
        found_percent: 100.0 * (stats.hosts_found - before.0.hosts_found) as f64
            / (hosts + requests).max(1.0),
        inspected_percent: 100.0 * (stats.inspected - before.0.inspected) as f64 / packets.max(1) as f64,
        drops: drops(&before.0, &stats),
    })
}
