//! The metrics of CG-NAT.

use nat::mappings::Refusal;
use worker::NatCounts;

use crate::values::NatPoolRow;

use super::exposition::{Exposition, Metric, Reading};

const BLOCKS: Metric = Metric::gauge(
    "sluice_nat_blocks",
    &["pool", "state"],
    "Port blocks of a pool of public addresses: held by sessions, resting since a session gave them back, reserved to UEs with port forwards, free.",
);
const EXHAUSTED: Metric = Metric::counter(
    "sluice_nat_pool_exhausted",
    POOL,
    "How often a session was to get a port block of a pool, and none was free that it may have.",
);
const FULL_ADDRESSES: Metric = Metric::gauge(
    "sluice_nat_full_addresses",
    POOL,
    "Addresses of a pool without a free port block: their sessions get no further one.",
);
const POOL: &[&str] = &["pool"];
const MAPPINGS: Metric = Metric::gauge(
    "sluice_nat_mappings",
    WORKER,
    "Mappings in a worker's table, a few that have expired included.",
);
const LIMIT: Metric = Metric::gauge(
    "sluice_nat_mappings_limit",
    WORKER,
    "Mappings that a worker has room for.",
);
const WORKER: &[&str] = &["worker"];
const MADE: Metric = Metric::counter(
    "sluice_nat_mappings_made",
    &[],
    "Mappings that packets of UEs have made.",
);
const EXPIRED: Metric = Metric::counter("sluice_nat_mappings_expired", &[], "Mappings that have expired.");
const REFUSED: Metric = Metric::counter(
    "sluice_nat_mappings_refused",
    &["reason"],
    "Packets of UEs that got no mapping, by reason.",
);
const UNSOLICITED: Metric = Metric::counter(
    "sluice_nat_unsolicited",
    &[],
    "Packets from outside to a public port without a mapping.",
);
const UNSOLICITED_ADMITTED: Metric = Metric::counter(
    "sluice_nat_unsolicited_admitted",
    &[],
    "Packets from outside that came through a mapping from an address that it has not sent to, where their pool tells these from others.",
);
const FILTERED: Metric = Metric::counter(
    "sluice_nat_filtered",
    &[],
    "Packets from outside that the filter of their mapping did not let through.",
);

/// Writes the metrics of pools of public addresses, and of what each worker has counted.
pub(super) fn write(to: &mut Exposition, pools: &[NatPoolRow], workers: &[NatCounts]) {
    let mut family = to.family(&BLOCKS);
    for pool in pools {
        let states = [
            ("held", pool.held),
            ("resting", pool.resting),
            ("reserved", pool.reserved),
            ("free", pool.free),
        ];
        for (state, blocks) in states {
            family.sample(&[&pool.name, state], u64::from(blocks));
        }
    }
    let families: [(&Metric, Reading<NatPoolRow>); 2] = [
        (&EXHAUSTED, |pool| pool.exhausted),
        (&FULL_ADDRESSES, |pool| pool.full_addresses.into()),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for pool in pools {
            family.sample(&[&pool.name], value(pool));
        }
    }
    write_mappings(to, workers);
}

fn write_mappings(to: &mut Exposition, workers: &[NatCounts]) {
    let families: [(&Metric, Reading<NatCounts>); 2] = [
        (&MAPPINGS, |worker| worker.mappings.mappings as u64),
        (&LIMIT, |worker| worker.limit as u64),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for (number, worker) in workers.iter().enumerate() {
            family.sample(&[&number.to_string()], value(worker));
        }
    }
    let sum = |of: Reading<NatCounts>| workers.iter().map(of).sum::<u64>();
    to.single(&MADE, sum(|worker| worker.mappings.made));
    to.single(&EXPIRED, sum(|worker| worker.mappings.expired));
    let mut family = to.family(&REFUSED);
    for refusal in Refusal::ALL {
        let own = workers
            .iter()
            .map(|worker| worker.mappings.refused[refusal as usize]);
        family.sample(&[refusal.label()], own.sum::<u64>());
    }
    to.single(&UNSOLICITED, sum(|worker| worker.mappings.unsolicited));
    to.single(
        &UNSOLICITED_ADMITTED,
        sum(|worker| worker.mappings.unsolicited_admitted),
    );
    to.single(&FILTERED, sum(|worker| worker.mappings.filtered));
}
