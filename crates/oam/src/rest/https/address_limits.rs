//! What an address may ask for in a time: connections, requests, wrong credentials. In bounded memory, whatever
//! addresses there are.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Addresses that are remembered at most.
const MOST: usize = 4_096;
/// Requests for which an address may make a new connection: 20 connections a second by default.
const REQUESTS_OF_A_CONNECTION: u32 = 5;
/// New connections of an address at once, at least.
const CONNECTION_BURST: u32 = 64;
/// Wrong credentials of an address.
const FAILURES: Rate = Rate {
    every: Duration::from_secs(6),
    burst: 10,
};

/// An IPv4 address, or an IPv6 prefix of 64 bits: what one host can choose its address from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AddressGroup(IpAddr);

impl AddressGroup {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.into()),
            IpAddr::V6(address) => Self(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
        }
    }
}

impl fmt::Display for AddressGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(prefix) => write!(f, "{prefix}/64"),
        }
    }
}

/// One in each `every`, and `burst` at once after a rest.
#[derive(Clone, Copy, Debug)]
struct Rate {
    every: Duration,
    burst: u32,
}

impl Rate {
    /// Takes one more of what has taken up the time until `taken`.
    ///
    /// # Errors
    /// How long it takes until there is room for it.
    fn take(self, taken: &mut Instant, now: Instant) -> Result<(), Duration> {
        let until = (*taken).max(now) + self.every;
        let most = now + self.every * self.burst;
        if until > most {
            return Err(until - most);
        }
        *taken = until;
        Ok(())
    }
}

/// Until when an address has taken up the time of each rate. All in the past: as if it had never come.
#[derive(Clone, Copy)]
struct Taken {
    connections: Instant,
    requests: Instant,
    failures: Instant,
}

impl Taken {
    fn last(&self) -> Instant {
        self.connections.max(self.requests).max(self.failures)
    }
}

/// All addresses.
pub(super) struct AddressLimits {
    connections: Rate,
    requests: Rate,
    addresses: Mutex<HashMap<AddressGroup, Taken>>,
}

impl AddressLimits {
    /// With this number of requests a second, and connections for a fifth of them.
    pub(super) fn new(requests_s: u64) -> Self {
        let requests_s = u32::try_from(requests_s.max(1)).unwrap_or(u32::MAX);
        let requests = Rate {
            every: Duration::from_secs(1) / requests_s,
            burst: requests_s.saturating_mul(2),
        };
        let connections = Rate {
            every: requests.every * REQUESTS_OF_A_CONNECTION,
            burst: CONNECTION_BURST.max(requests.burst / REQUESTS_OF_A_CONNECTION),
        };
        Self {
            connections,
            requests,
            addresses: Mutex::default(),
        }
    }

    /// Whether there may be another connection of this address.
    pub(super) fn takes_connection(&self, group: AddressGroup, now: Instant) -> bool {
        self.with(group, now, |taken| {
            self.connections.take(&mut taken.connections, now).is_ok()
        })
    }

    /// Takes a request.
    ///
    /// # Errors
    /// After how long there may be another.
    pub(super) fn takes_request(&self, group: AddressGroup, now: Instant) -> Result<(), Duration> {
        self.with(group, now, |taken| self.requests.take(&mut taken.requests, now))
    }

    /// Takes wrong credentials.
    ///
    /// # Errors
    /// After how long they are answered again.
    pub(super) fn takes_failure(&self, group: AddressGroup, now: Instant) -> Result<(), Duration> {
        self.with(group, now, |taken| FAILURES.take(&mut taken.failures, now))
    }

    fn with<T>(&self, group: AddressGroup, now: Instant, take: impl FnOnce(&mut Taken) -> T) -> T {
        // What is behind it is whole between any two statements.
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MOST && !addresses.contains_key(&group) {
            addresses.retain(|_, taken| taken.last() > now);
            if addresses.len() >= MOST {
                forget_one(&mut addresses);
            }
        }
        take(addresses.entry(group).or_insert(Taken {
            connections: now,
            requests: now,
            failures: now,
        }))
    }
}

/// Forgets the address that would be as if it had never come before all others.
fn forget_one(addresses: &mut HashMap<AddressGroup, Taken>) {
    let first = addresses.iter().min_by_key(|(_, taken)| taken.last());
    if let Some(group) = first.map(|(group, _)| *group) {
        addresses.remove(&group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> AddressGroup {
        AddressGroup::of(text.parse().unwrap())
    }

    #[test]
    fn hosts_of_a_prefix_are_one() {
        assert_eq!(group("2001:db8::1"), group("2001:db8::ffff:1:2:3"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:0:1::1"));
        assert_eq!(group("::ffff:192.0.2.1"), group("192.0.2.1"));
        assert_eq!(group("2001:db8::1").to_string(), "2001:db8::/64");
        assert_eq!(group("192.0.2.1").to_string(), "192.0.2.1");
    }

    #[test]
    fn an_address_has_its_burst_and_then_its_rate() {
        let limits = AddressLimits::new(10);
        let begin = Instant::now();
        let one = group("192.0.2.1");
        let taken = (0..100)
            .filter(|_| limits.takes_request(one, begin).is_ok())
            .count();
        assert_eq!(taken, 20);
        assert_eq!(limits.takes_request(one, begin), Err(Duration::from_millis(100)));
        assert!(limits.takes_request(group("192.0.2.2"), begin).is_ok());
        let later = begin + Duration::from_secs(1);
        let taken = (0..100)
            .filter(|_| limits.takes_request(one, later).is_ok())
            .count();
        assert_eq!(taken, 10);
        // Each has its own.
        assert!(limits.takes_connection(one, later) && limits.takes_failure(one, later).is_ok());
    }

    #[test]
    fn new_connections_follow_the_rate_of_requests() {
        let now = Instant::now();
        let one = group("192.0.2.1");
        for (requests_s, at_once, in_a_second) in [(1, 64, 0), (100, 64, 20), (10_000, 4_000, 2_000)] {
            let limits = AddressLimits::new(requests_s);
            let takes = |at| (0..10_000).filter(|_| limits.takes_connection(one, at)).count();
            assert_eq!(takes(now), at_once, "{requests_s}");
            assert_eq!(takes(now + Duration::from_secs(1)), in_a_second, "{requests_s}");
        }
    }

    #[test]
    fn wrong_credentials_are_soon_too_many() {
        let limits = AddressLimits::new(10);
        let now = Instant::now();
        let one = group("192.0.2.1");
        let taken = (0..100)
            .filter(|_| limits.takes_failure(one, now).is_ok())
            .count();
        assert_eq!(taken, 10);
        assert_eq!(limits.takes_failure(one, now), Err(Duration::from_secs(6)));
    }

    /// A slow model: each address counts for itself, without a bound.
    #[test]
    fn memory_is_bounded_and_what_is_in_it_holds() {
        let limits = AddressLimits::new(10);
        let now = Instant::now();
        let one = group("192.0.2.1");
        while limits.takes_failure(one, now).is_ok() {}
        for number in 0..20_000_u32 {
            let address = Ipv6Addr::from_bits(u128::from(number) << 64);
            assert!(limits.takes_connection(AddressGroup::of(address.into()), now));
        }
        let addresses = limits.addresses.lock().unwrap().len();
        assert_eq!(addresses, MOST);
        // What owes most is kept.
        assert!(limits.takes_failure(one, now).is_err());
    }
}
