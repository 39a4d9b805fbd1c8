//! One kill (SIGKILL) under traffic, and the start that follows at once.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use worker::WorkerConfig;

use super::super::error::BenchError;
use super::charging::{Charging, bound};
use super::daemon::{self, LogLine};
use super::run::Run;
use super::storage::number;
use super::traffic::Tally;

/// How long sessions are waited for that have had no packet forwarded.
const PATIENCE: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(1);

/// Milliseconds from the kill on; `None`: it did not come.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Forwarding {
    /// The first packet that was forwarded.
    pub first_ms: Option<f64>,
    /// Until half of the sessions with traffic had a packet forwarded.
    pub half_ms: Option<f64>,
    /// Until 99 of 100 had.
    pub most_ms: Option<f64>,
    /// Until all had.
    pub all_ms: Option<f64>,
}

impl Forwarding {
    /// From the time of the first packet of each session, nanoseconds after the kill.
    #[must_use]
    pub fn of(first: &[Option<u64>]) -> Self {
        let mut times: Vec<u64> = first.iter().flatten().copied().collect();
        times.sort_unstable();
        let after = |sessions: usize| times.get(sessions.max(1) - 1).map(|&nanos| nanos as f64 / 1e6);
        Self {
            first_ms: after(1),
            half_ms: after(first.len().div_ceil(2)),
            most_ms: after((first.len() * 99).div_ceil(100)),
            all_ms: after(first.len()),
        }
    }
}

/// One kill. Times are milliseconds from when the signal was sent.
#[derive(Clone, Debug, Serialize)]
pub struct Restart {
    /// When the next process was started: the one before had ended.
    pub started_ms: f64,
    /// When it said that it was ready.
    pub ready_ms: f64,
    /// Packets that were sent after the kill.
    #[serde(flatten)]
    pub forwarding: Forwarding,
    /// When it said that all sessions were restored.
    pub restored_ms: f64,
    /// What reading the log took, as it said.
    pub opening_ms: Option<u64>,
    /// Sessions that came back.
    pub restored: u64,
    /// Those of them that a packet or a request asked for.
    pub on_demand: u64,
    /// Sessions that did not come back.
    pub missing: u64,
    /// Packets that were forwarded to a wrong place.
    pub wrong: u64,
    /// Error Indications that gNBs received.
    pub error_indications: u64,
    /// Packets that were sent, and those that the kernel did not take.
    pub sent: u64,
    /// See [`sent`](Self::sent).
    pub refused: u64,
    /// Packets that were sent and did not arrive.
    pub lost: u64,
    /// Octets of the new process in memory when all sessions were restored.
    pub resident_octets: u64,
    /// What the new process has logged, and when.
    pub log: Vec<LogLine>,
    /// What was charged of the packets before the kill and after it.
    pub charging: Charging,
}

impl Run<'_> {
    /// Kills the daemon under traffic, starts it again, and waits until all is as before.
    ///
    /// # Errors
    /// The daemon does not do its part; errors of sockets.
    pub fn kill_under_traffic(&mut self, number: u32) -> Result<Restart, BenchError> {
        self.progress.begin("a kill", 1);
        let traffic = self.traffic()?;
        thread::sleep(self.some_intervals());
        // At another moment between two checkpoints each time.
        let interval = Duration::from_secs(self.arguments.checkpoint_s.into());
        thread::sleep(interval * number / self.arguments.kills);
        let killed = self.daemon.kill_and_start()?;
        traffic.note_kill(killed);
        let ready = self.daemon.wait_for(daemon::READY)?;
        let restored = self.daemon.wait_for(daemon::RESTORED)?;
        let deadline = Instant::now() + PATIENCE;
        while traffic.back() < self.users.len() as u64 && Instant::now() < deadline {
            thread::sleep(NAP);
        }
        // What came on demand has its checkpoints, too.
        thread::sleep(self.some_intervals());
        let tally = traffic.end()?;
        let resident_octets = self.daemon.resident();
        let charged = self.charged()?;
        self.result(&tally, &charged, [killed, ready, restored], resident_octets)
    }

    fn result(
        &self,
        tally: &Tally,
        charged: &[u64],
        [killed, ready, restored]: [Instant; 3],
        resident_octets: u64,
    ) -> Result<Restart, BenchError> {
        let ms = |when: Instant| when.saturating_duration_since(killed).as_secs_f64() * 1e3;
        let arguments = self.arguments;
        let most = bound(
            arguments.rate,
            arguments.active,
            arguments.checkpoint_s,
            WorkerConfig::CHECKPOINT_OCTETS,
        );
        let store = self.daemon.get("/v1/store")?;
        let sessions = |field| number(&store, &["sessions", field]);
        let (sent, received) = (&tally.sent, &tally.received);
        let packets = sent.by_session.iter().sum::<u64>();
        let restored_sessions = sessions("restored")?;
        Ok(Restart {
            started_ms: ms(self.daemon.started),
            ready_ms: ms(ready),
            forwarding: Forwarding::of(&received.first),
            restored_ms: ms(restored),
            opening_ms: self.daemon.opening_ms(),
            restored: restored_sessions,
            on_demand: sessions("on_demand")?,
            missing: u64::from(arguments.sessions).saturating_sub(restored_sessions),
            wrong: received.wrong,
            error_indications: received.error_indications,
            sent: packets,
            refused: sent.refused,
            lost: packets.saturating_sub(received.by_session.iter().sum()),
            resident_octets,
            log: self.daemon.log_since(killed),
            charging: Charging::of(tally, charged, most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_sessions_is_back_with_the_last_one_that_it_takes() {
        let first: Vec<_> = (1..=200).rev().map(|ms| Some(ms * 1_000_000)).collect();
        let all = Forwarding::of(&first);
        assert_eq!((all.first_ms, all.half_ms), (Some(1.0), Some(100.0)));
        assert_eq!((all.most_ms, all.all_ms), (Some(198.0), Some(200.0)));
        let one_missing: Vec<_> = first.into_iter().skip(1).chain([None]).collect();
        let but_one = Forwarding::of(&one_missing);
        assert_eq!((but_one.most_ms, but_one.all_ms), (Some(198.0), None));
        assert!(Forwarding::of(&[]).first_ms.is_none());
    }
}
