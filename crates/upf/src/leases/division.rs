//! How a rate is divided among those who keep it together.

/// The divisor of an even share that one without demand has, so that no part is zero.
pub(super) const IDLE_PART: u64 = 128;

/// Divides a rate into parts whose sum it is. If the rate is at least the sum of the demands, each part is its demand
/// and an even part of the rest; else the parts are in proportion to the demands, as one meter for all would let pass.
pub(super) fn by_demand(rate: u64, demands: &[u64]) -> Vec<u64> {
    let count = demands.len() as u64;
    let total: u64 = demands.iter().sum();
    let mut parts: Vec<u64> = match rate.checked_sub(total) {
        Some(rest) => demands.iter().map(|demand| demand + rest / count).collect(),
        None => {
            let idle = rate / count / IDLE_PART;
            let weights = demands.iter().map(|demand| demand + idle);
            let sum = total + idle * count;
            weights.map(|weight| proportion(rate, weight, sum)).collect()
        }
    };
    give_the_rest(rate, &mut parts, demands);
    parts
}

/// Who keeps a part of a rate before queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    /// What it sends, in kbit/s.
    pub sends: u64,
    /// How many wait there because its part is not enough; 0: it is enough.
    pub waiting: u64,
}

/// Divides a rate into parts whose sum it is, as one shaper for all would: who waits has a part by how many wait there,
/// of what those leave that have enough.
pub(super) fn by_who_waits(rate: u64, claims: &[Claim]) -> Vec<u64> {
    let sends: Vec<u64> = claims.iter().map(|claim| claim.sends).collect();
    let waiting: Vec<u64> = claims.iter().map(|claim| claim.waiting).collect();
    let in_all: u64 = waiting.iter().sum();
    if in_all == 0 {
        return by_demand(rate, &sends);
    }
    let even = rate / claims.len() as u64;
    // Room to grow: who has more than an even part is not to keep those waiting who wait.
    let enough = |claim: &Claim| match claim.waiting {
        0 => (claim.sends + claim.sends / 8 + even / IDLE_PART).min(even),
        _ => 0,
    };
    let mut parts: Vec<u64> = claims.iter().map(enough).collect();
    let rest = rate - parts.iter().sum::<u64>();
    for (part, waiting) in parts.iter_mut().zip(&waiting) {
        *part += proportion(rest, *waiting, in_all);
    }
    give_the_rest(rate, &mut parts, &waiting);
    parts
}

/// The one with the greatest weight gets what rounding has left.
fn give_the_rest(rate: u64, parts: &mut [u64], weights: &[u64]) {
    let left = rate - parts.iter().sum::<u64>();
    if let Some((most, _)) = weights.iter().enumerate().max_by_key(|(_, weight)| **weight) {
        parts[most] += left;
    }
}

fn proportion(rate: u64, weight: u64, sum: u64) -> u64 {
    (u128::from(rate) * u128::from(weight) / u128::from(sum.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_the_whole_and_waste_little(
            rate in 0..1_u64 << 40, demands in prop::collection::vec(0..1_u64 << 41, 1..17),
        ) {
            let parts = by_demand(rate, &demands);
            prop_assert_eq!(parts.iter().sum::<u64>(), rate);
            let total: u64 = demands.iter().sum();
            let used: u64 = parts.iter().zip(&demands).map(|(part, demand)| part.min(demand)).sum();
            // Within a hundredth of what one meter would let pass.
            prop_assert!(u128::from(used) * 100 >= u128::from(rate.min(total)) * 99, "{parts:?} of {demands:?}");
        }

        #[test]
        fn who_has_enough_keeps_it_and_the_rest_goes_by_who_waits(
            rate in 1_000..1_u64 << 40, claims in prop::collection::vec((0..1_000_u64, 0..100_u64), 1..17),
        ) {
            let even = rate / claims.len() as u64;
            // What they send in thousandths of twice an even part.
            let claims: Vec<Claim> = claims
                .into_iter()
                .map(|(sends, waiting)| Claim { sends: sends * even / 500, waiting })
                .collect();
            let parts = by_who_waits(rate, &claims);
            prop_assert_eq!(parts.iter().sum::<u64>(), rate);
            let of_waiting = |wanted: bool| {
                let all = parts.iter().zip(&claims);
                all.filter(move |(_, claim)| (claim.waiting > 0) == wanted)
            };
            if of_waiting(true).next().is_none() {
                return Ok(());
            }
            for (part, claim) in of_waiting(false) {
                prop_assert!(*part >= claim.sends.min(even) && *part <= even);
            }
            let (shared, waiting) = of_waiting(true)
                .fold((0, 0), |(parts, waiting), (part, claim)| (parts + part, waiting + claim.waiting));
            for (part, claim) in of_waiting(true) {
                let fair = (u128::from(shared) * u128::from(claim.waiting) / u128::from(waiting)) as u64;
                prop_assert!(part.abs_diff(fair) <= claims.len() as u64 + 1, "{part} of {fair}");
            }
        }
    }
}
