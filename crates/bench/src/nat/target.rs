//! What T16 asks, against the results.

use super::super::targets::{SMALL, Target};
use super::outcome::{Compared, Runs, Translated};
use super::{OF_TUNNEL, OF_TUPLE};

/// Mappings that T16 asks for.
const MAPPINGS: u32 = 8_388_608;

/// The targets of the parts that were measured.
#[must_use]
pub fn targets(results: &Translated) -> Vec<Target> {
    let is_small = results.sessions * results.mappings < MAPPINGS;
    let of_rate = t16(results);
    let of_set_up = results.set_up.as_ref().map(|one| {
        Target::at_least(
            "T16.setup",
            "new mappings behind an entry for each tunnel, of the rate of new 5-tuple entries without NAT (T4)",
            one.ratio.median,
            "of T4",
            0.7,
        )
        .of_runs(&one.mappings)
        .of_runs(&one.entries)
    });
    let of_hand_overs = results.hand_overs.as_ref().map(|found| {
        Target::at_most(
            "T16.handed",
            "downlink packets handed over that came to two workers by the bucket of their block",
            found.handed_over as f64 / found.packets.max(1) as f64,
            "of all",
            0.0,
        )
        .with_note(format!(
            "{} of {}; {:.2}% of the blocks are in the bucket of their session",
            found.handed_over,
            found.packets,
            found.in_bucket * 100.0
        ))
        .but_if(
            found.sent + found.handed_over != found.packets,
            "packets in are not packets out and handed over",
        )
    });
    let all = of_rate.into_iter().chain(of_set_up).chain(of_hand_overs);
    all.map(|target| target.but_if(is_small, SMALL)).collect()
}

fn t16(results: &Translated) -> Option<Target> {
    let named = |name| results.compared.iter().find(|one| one.name == name);
    let part = |id, what, one: &Compared| {
        Target::at_least(id, what, one.kept.median, "of without", 0.85)
            .of_runs(&one.with)
            .of_runs(&one.without)
    };
    let of_tunnel = named(OF_TUNNEL).map(|one| {
        let what =
            "the rate with NAT of that without, 8.39 M mappings, an entry for each tunnel and UE address";
        part("T16.tunnel", what, one)
    });
    let of_tuple = named(OF_TUPLE).map(|one| {
        part(
            "T16.tuple",
            "the same with an entry for each 5-tuple, 16.8 M entries",
            one,
        )
    });
    let mut parts: Vec<Target> = of_tuple.into_iter().chain(of_tunnel).collect();
    // The lowest counts.
    parts.sort_by(|one, other| one.value.total_cmp(&other.value));
    Target::of_parts(
        "T16",
        "NAT on over NAT off, with the flow entries that make it worse",
        parts,
    )
}

impl Target {
    fn of_runs(self, runs: &Runs) -> Self {
        let counts = runs.counts;
        self.but_if(
            !runs.is_sound(),
            format!(
                "{} packets with a wrong end, {} dropped",
                counts.wrong, counts.dropped
            ),
        )
    }
}
