//! The SMFs of a daemon.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use super::super::error::BenchError;
use super::super::pfcp::{CONGESTION, Generator, Pace, Procedure, Round, SMFS, loopback};
use super::super::progress::Progress;

/// How long requests that met an overload rest before they are sent again.
const REST: Duration = Duration::from_millis(200);
/// How often they are sent again at most.
const MOST_REPEATS: u32 = 25;

/// The SMFs of the daemon with this number, and that one's address.
///
/// # Errors
/// An address that cannot be bound.
pub fn generator(number: u8, sessions: u32) -> Result<(Generator, Ipv4Addr), BenchError> {
    let last = |place: u8| loopback(number * 50 + place);
    let smfs: Vec<_> = (0..SMFS as u8).map(|smf| last(11 + smf)).collect();
    let n4 = last(1);
    Ok((Generator::new(&smfs, (n4, pfcp::PORT).into(), sessions)?, n4))
}

/// Carries a procedure out for all of `sessions`, `window` at a time. Requests that a user plane in overload turns away
/// are sent again after a rest, as SMFs do; the time that this takes counts.
///
/// # Errors
/// Errors of the socket; what became of the requests, if a session is left without.
pub fn request_all(
    generator: &mut Generator,
    procedure: Procedure,
    sessions: Range<u32>,
    window: u32,
    progress: &Progress,
) -> Result<Round, BenchError> {
    let window = Pace::Window(window);
    let wanted = sessions.len() as u64;
    let mut all = generator.run(procedure, sessions, window, progress)?;
    for _ in 0..MOST_REPEATS {
        let left = generator.turned_away().to_vec();
        if left.is_empty() {
            break;
        }
        thread::sleep(REST);
        all = repeated(all, &generator.run(procedure, left, window, progress)?);
    }
    whole(all, wanted)
}

/// A round with what its repetition adds; its response times stay those of the first requests.
fn repeated(round: Round, again: &Round) -> Round {
    let mut refused: BTreeMap<u8, u64> = round.refused;
    for (cause, count) in &again.refused {
        *refused.entry(*cause).or_default() += count;
    }
    Round {
        requests: round.requests + again.requests,
        accepted: round.accepted + again.accepted,
        refused,
        unanswered: round.unanswered + again.unanswered,
        wall_nanos: round.wall_nanos + REST.as_nanos() as u64 + again.wall_nanos,
        delays: round.delays,
    }
}

/// The round, if as many requests were accepted as there are sessions.
fn whole(round: Round, sessions: u64) -> Result<Round, BenchError> {
    let Round {
        requests,
        accepted,
        refused,
        unanswered,
        ..
    } = &round;
    if *accepted == sessions {
        return Ok(round);
    }
    Err(BenchError(format!(
        "of {requests} requests {accepted} were accepted, by cause {refused:?} refused, {unanswered} not answered"
    )))
}

/// Requests of a round that met an overload, and were sent again.
pub fn turned_away(round: &Round) -> u64 {
    round.refused.get(&CONGESTION).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(requests: u64, accepted: u64, cause: u8) -> Round {
        Round {
            requests,
            accepted,
            refused: BTreeMap::from([(cause, requests - accepted)]),
            wall_nanos: 1_000,
            ..Round::default()
        }
    }

    #[test]
    fn what_was_turned_away_and_accepted_later_is_accepted() {
        let first = round(100, 60, CONGESTION);
        let second = repeated(first, &round(40, 30, CONGESTION));
        assert!(whole(second.clone(), 100).is_err());
        let all = whole(repeated(second, &round(10, 10, CONGESTION)), 100).expect("all are accepted");
        assert_eq!((all.requests, all.accepted, turned_away(&all)), (150, 100, 50));
        assert_eq!(all.wall_nanos, 3_000 + 2 * REST.as_nanos() as u64);
    }

    #[test]
    fn any_other_refusal_is_an_error() {
        let error = whole(round(100, 99, 73), 100).expect_err("one is refused");
        let words = "of 100 requests 99 were accepted, by cause {73: 1} refused, 0 not answered";
        assert_eq!(error.to_string(), words);
    }
}
