//! By what processes of one host know each other's moments.

use runtime::Clock;
use session::WallClock;

/// By what processes of this host know each other's moments, as long as it is not started anew.
pub(super) struct Boot {
    /// Another one after each start of the host; empty where it is not known.
    id: Vec<u8>,
    /// What the host's monotonic clock said when this process's was 0.
    zero: i64,
}

impl Boot {
    pub(super) fn of(clock: &Clock) -> Boot {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Boot {
            id: id.trim().as_bytes().to_vec(),
            zero: clock.monotonic_at_zero(),
        }
    }

    /// Dates for another process.
    pub(super) fn encode(&self, wall: &WallClock) -> Vec<u8> {
        [&self.id[..], &wall.encode(self.zero)].concat()
    }

    /// The dates of another process, if the host has not been started anew since.
    pub(super) fn decode(&self, octets: &[u8]) -> Option<WallClock> {
        let octets = octets
            .strip_prefix(&self.id[..])
            .filter(|_| !self.id.is_empty())?;
        WallClock::decode(octets, self.zero)
    }
}

#[cfg(test)]
mod tests {
    use session::Moment;

    use super::*;

    #[test]
    fn dates_are_for_processes_of_the_same_start_of_the_host() {
        let boot = |id: &str, zero| Boot { id: id.into(), zero };
        let wall = WallClock::starting(1_700_000_000);
        let octets = boot("0b36", 50).encode(&wall);
        let next = boot("0b36", 70).decode(&octets).unwrap();
        // What was moment 20 is moment 0.
        assert_eq!(next.unix_nanos(Moment(0)), wall.unix_nanos(Moment(20)));
        assert_eq!(boot("0b37", 70).decode(&octets), None);
        assert_eq!(boot("", 70).decode(&boot("", 50).encode(&wall)), None);
        assert_eq!(boot("0b36", 70).decode(b""), None);
    }
}
