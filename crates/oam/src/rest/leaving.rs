//! How the sessions of a daemon leave it: in two steps, so that none is lost if whoever fetches them cannot keep them.
//!
//! First control falls silent to its peers, all sessions leave their workers, and their records are given to who asked.
//! Then that one says that it has them in a file, and the daemon ends; or that it has not, or nothing for half a minute,
//! and control takes the sessions back. SMFs see requests that they have to repeat, and nothing else. Belongs to
//! control's thread.

use axum::body::Bytes;
use flow::Nanos;
use session::Export;
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use upf::{Control, Everything};

/// The records of everything; or why there are none.
pub(super) type Exported = Result<Bytes, String>;

/// How long who has fetched the records may take to say what became of them.
const CONFIRMATION: Duration = Duration::from_secs(30);
/// Sessions that are told one by one when they cannot go along.
const TOLD: usize = 10;

/// Where the sessions are.
#[derive(Debug, Default)]
pub(super) struct Leaving(Stage);

#[derive(Debug, Default)]
enum Stage {
    /// Here.
    #[default]
    Here,
    /// Records are being made of them.
    Exporting(Export, oneshot::Sender<Exported>),
    /// In records only, which nobody has confirmed yet.
    Unconfirmed(Bytes, Nanos),
    /// In a file, for another process.
    Left,
}

impl Leaving {
    pub(super) fn has_left(&self) -> bool {
        matches!(self.0, Stage::Left)
    }

    /// Somebody asks for records of everything.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        control: &mut Control,
        how: Export,
        reply: oneshot::Sender<Exported>,
    ) {
        if !matches!(self.0, Stage::Here) {
            let _ = reply.send(Err("another export is under way".into()));
            return;
        }
        match control.transfer(now).begin_everything(how) {
            Ok(()) => self.0 = Stage::Exporting(how, reply),
            Err(error) => drop(reply.send(Err(error.to_string()))),
        }
    }

    /// Whoever has fetched the records says whether they are safe. Answers whether anybody was asked.
    pub(super) fn end(&mut self, now: Nanos, control: &mut Control, taken: bool) -> bool {
        match std::mem::take(&mut self.0) {
            Stage::Unconfirmed(_, _) if taken => {
                control.transfer(now).handed_over();
                info!("sessions exported: another process goes on with them");
                self.0 = Stage::Left;
                true
            }
            Stage::Unconfirmed(octets, _) => {
                take_back(now, control, &octets, "whoever fetched them could not keep them");
                true
            }
            other => {
                self.0 = other;
                false
            }
        }
    }

    /// Goes on with an export. Tells whether there was anything to do.
    pub(super) fn follow(&mut self, now: Nanos, control: &mut Control) -> bool {
        match std::mem::take(&mut self.0) {
            Stage::Exporting(how, reply) => match control.transfer(now).poll_everything() {
                Some(everything) => self.give(now, control, (how, reply), everything),
                None => {
                    self.0 = Stage::Exporting(how, reply);
                    return false;
                }
            },
            Stage::Unconfirmed(octets, until) if until <= now => {
                take_back(now, control, &octets, "nobody has said that they are safe");
            }
            other => {
                self.0 = other;
                return false;
            }
        }
        true
    }

    fn give(
        &mut self,
        now: Nanos,
        control: &mut Control,
        (how, reply): (Export, oneshot::Sender<Exported>),
        everything: Everything,
    ) {
        let Everything {
            octets,
            sessions,
            failed,
        } = everything;
        let octets = Bytes::from(octets);
        for (seid, error) in failed.iter().take(TOLD) {
            warn!(seid = upf::numbers::seid(seid.0), "session not exported: {error}");
        }
        info!(
            sessions,
            failed = failed.len(),
            octets = octets.len(),
            copy = how == Export::Copy,
            "sessions exported"
        );
        let is_gone = reply.send(Ok(octets.clone())).is_err();
        match how {
            Export::Copy => {}
            Export::Take if is_gone => take_back(now, control, &octets, "whoever asked for them has gone"),
            Export::Take => self.0 = Stage::Unconfirmed(octets, now + CONFIRMATION),
        }
    }
}

fn take_back(now: Nanos, control: &mut Control, octets: &[u8], why: &str) {
    warn!("sessions taken back: {why}");
    for error in control.transfer(now).take_back(octets) {
        error!("session lost: {error}");
    }
}
