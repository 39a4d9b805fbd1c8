//! What T6 asks, against the results.

use super::super::targets::{SMALL, Target};
use super::outcome::Inspected;
use super::{OF_TUNNEL, OF_TUPLE, SESSIONS};

/// The targets; none where a comparison for them was left out.
#[must_use]
pub fn targets(results: &Inspected) -> Vec<Target> {
    let named = |name| results.compared.iter().find(|one| one.name == name);
    let (Some(tunnel), Some(tuple)) = (named(OF_TUNNEL), named(OF_TUPLE)) else {
        return Vec::new();
    };
    let of_tunnel = Target::at_least(
        "T6.tunnel",
        "the rate with 40,000 hosts and 10,000 prefixes of that without, an entry for each tunnel",
        tunnel.kept.median,
        "of without",
        0.75,
    );
    let of_tuple = Target::at_least(
        "T6.tuple",
        "the same, against an entry for each 5-tuple",
        tuple.kept.median,
        "of without",
        0.85,
    );
    let rate = Target::at_least(
        "T6.rate",
        "packets of model Z with inspection and billing",
        1_000.0 / tunnel.with.median.max(0.001),
        "Mpps",
        8.0,
    );
    let found = Target::at_least(
        "T6.hosts",
        "connections and requests whose host was found",
        tunnel.found_percent.min(100.0),
        "%",
        99.0,
    );
    let parts = vec![of_tunnel, of_tuple, rate, found];
    let target = Target::of_parts("T6", "model Z: inspection and billing by hosts", parts);
    let is_small = results.sessions[0] < SESSIONS;
    target
        .map(|target| target.but_if(is_small, SMALL))
        .into_iter()
        .collect()
}
