//! The SMFs of a daemon.

use std::net::Ipv4Addr;

use super::super::error::BenchError;
use super::super::pfcp::{Generator, Round, SMFS, loopback};

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

/// The round, if all requests were accepted.
///
/// # Errors
/// What became of the requests, if not.
pub fn whole(round: Round) -> Result<Round, BenchError> {
    if round.accepted == round.requests {
        Ok(round)
    } else {
        let Round {
            requests,
            accepted,
            refused,
            unanswered,
            ..
        } = round;
        Err(BenchError(format!(
            "of {requests} requests {accepted} were accepted, by cause {refused:?} refused, {unanswered} not answered"
        )))
    }
}
