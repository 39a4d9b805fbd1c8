//! How much of what sessions take is taken.

use crate::pools::PoolId;
use crate::sessions::Sessions;

impl Sessions {
    /// Whether of anything that sessions take (their number, room in workers, correlations, a pool's addresses) as much is
    /// taken as `share` says of how much there is. Where that is all, it does not count.
    pub fn is_filled(&self, share: impl Fn(usize) -> usize) -> bool {
        let config = &self.config;
        let workers = usize::from(config.workers);
        let pools = (0..config.pools.len()).map(|pool| {
            let (held, all) = self.addresses.usage(PoolId(pool as u16));
            let of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
            (of(held), of(all))
        });
        let tables = [
            (self.indexes.in_use(), config.max_sessions as usize),
            (self.tunnels.held(), config.worker_tunnels.saturating_mul(workers)),
            (
                self.addresses.held(),
                config.worker_addresses.saturating_mul(workers),
            ),
            (self.correlations.len(), usize::from(config.max_correlations)),
        ];
        let is_filled = |(taken, all): (usize, usize)| {
            let part = share(all);
            part < all && taken >= part
        };
        tables.into_iter().chain(pools).any(is_filled)
    }
}
