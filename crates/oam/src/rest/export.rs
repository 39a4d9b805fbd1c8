//! The export of all sessions to another process, in two steps, so that none is lost if the client cannot store them.
//!
//! First control stops to answer its peers, all sessions are removed from their workers, and the client gets their records.
//! Then the client confirms that it has stored them, and the daemon ends; or it says that it could not, or is silent for half
//! a minute, and control takes the sessions back. SMFs see requests that they have to repeat, and nothing else. Runs on the
//! control thread.

use axum::body::Bytes;
use flow::Nanos;
use session::Export;
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use upf::{Control, Everything};

/// The records; or why there are none.
pub(super) type Exported = Result<Bytes, String>;

/// How long the client may take to confirm that it has stored the records.
const CONFIRMATION: Duration = Duration::from_secs(30);
/// Sessions without a record that are logged one by one.
const MAX_LOGGED: usize = 10;

/// Where the sessions are.
#[derive(Debug, Default)]
pub(super) struct SessionExport(Stage);

#[derive(Debug, Default)]
enum Stage {
    /// Here.
    #[default]
    Here,
    /// Their records are being made.
    Exporting(Export, oneshot::Sender<Exported>),
    /// In records only, not confirmed yet.
    Unconfirmed(Bytes, Nanos),
    /// Stored by the client, for another process.
    Left,
}

impl SessionExport {
    pub(super) fn has_left(&self) -> bool {
        matches!(self.0, Stage::Left)
    }

    /// Begins an export.
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

    /// Ends an export by the word of its client; returns whether one was unconfirmed.
    pub(super) fn end(&mut self, now: Nanos, control: &mut Control, taken: bool) -> bool {
        match std::mem::take(&mut self.0) {
            Stage::Unconfirmed(_, _) if taken => {
                control.transfer(now).handed_over();
                info!("sessions handed over");
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

    /// Continues an export; returns whether there was anything to do.
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
        for (seid, error) in failed.iter().take(MAX_LOGGED) {
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
    warn!(why, "sessions taken back");
    for error in control.transfer(now).take_back(octets) {
        error!(why = %error, "session lost");
    }
}
