//! What of the packets for our own addresses is for the host's own network stack (BGP, BFD, SSH and the like), and how
//! many of them there may be.

use flow::{InstanceId, Nanos, TokenBucket};

use crate::Urgency;

/// How many packets of one network instance a worker gives to the host's own network stack, a second, and at once after
/// a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRates {
    /// Of what keeps links and neighbours alive.
    pub urgent: u32,
    /// Of all others.
    pub usual: u32,
}

/// What each instance may still give.
pub(crate) struct HostRateLimits {
    /// By instance, then by [`Urgency`].
    buckets: Vec<Option<[TokenBucket; 2]>>,
}

impl HostRateLimits {
    /// For these instances, in their order.
    pub fn new(rates: &[Option<HostRates>]) -> Self {
        let buckets = |rates: HostRates| [rates.usual, rates.urgent].map(TokenBucket::new);
        Self {
            buckets: rates.iter().map(|rates| rates.map(buckets)).collect(),
        }
    }

    /// Whether any instance has a host's network stack.
    pub fn has_any(&self) -> bool {
        self.buckets.iter().any(Option::is_some)
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, instance: InstanceId, urgency: Urgency, now: Nanos) -> bool {
        let buckets = self.buckets.get_mut(instance.index()).and_then(Option::as_mut);
        buckets.is_some_and(|buckets| buckets[urgency as usize].take(now))
    }
}
