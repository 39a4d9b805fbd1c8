//! Session transfer: the export of all sessions to another process, in two steps, so that none is lost if the client
//! cannot store them.
//!
//! First control stops responding to its peers, all sessions are removed from their workers, and the client gets their
//! records. Then the client confirms that it has stored them, and the daemon ends; or the client reports that it could
//! not, or confirms nothing for 30 s, and control restores the sessions. SMFs have to retransmit requests. Runs on the
//! control thread.

use axum::body::Bytes;
use flow::Nanos;
use session::Export;
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use upf::{Control, NodeExport};

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
        let (absent, _) = control.session_keeping(now).restored();
        if absent > 0 {
            let words =
                format!("{absent} sessions of the store are yet to be restored: try again when all are");
            let _ = reply.send(Err(words));
            return;
        }
        match control.session_transfer(now).begin_node_export(how) {
            Ok(()) => self.0 = Stage::Exporting(how, reply),
            Err(error) => drop(reply.send(Err(error.to_string()))),
        }
    }

    /// Ends an export as its client says: stored or not. Returns whether one was unconfirmed.
    pub(super) fn end(&mut self, now: Nanos, control: &mut Control, taken: bool) -> bool {
        match std::mem::take(&mut self.0) {
            Stage::Unconfirmed(_, _) if taken => {
                control.session_transfer(now).complete_transfer();
                info!("sessions transferred");
                self.0 = Stage::Left;
                true
            }
            Stage::Unconfirmed(octets, _) => {
                restore(now, control, &octets, "the client could not store them");
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
            Stage::Exporting(how, reply) => match control.session_transfer(now).poll_node_export() {
                Some(export) => self.give(now, control, (how, reply), export),
                None => {
                    self.0 = Stage::Exporting(how, reply);
                    return false;
                }
            },
            Stage::Unconfirmed(octets, until) if until <= now => {
                restore(
                    now,
                    control,
                    &octets,
                    "the client has not confirmed that it stored them",
                );
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
        export: NodeExport,
    ) {
        let NodeExport {
            octets,
            sessions,
            failed,
        } = export;
        let octets = Bytes::from(octets);
        for (seid, error) in failed.iter().take(MAX_LOGGED) {
            warn!(
                seid = upf::identifiers::seid(seid.0),
                "session not exported: {error}"
            );
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
            Export::Take if is_gone => restore(now, control, &octets, "the client has closed the connection"),
            Export::Take => self.0 = Stage::Unconfirmed(octets, now + CONFIRMATION),
        }
    }
}

fn restore(now: Nanos, control: &mut Control, octets: &[u8], why: &str) {
    warn!(why, "sessions restored");
    for error in control.session_transfer(now).restore(octets) {
        error!(why = %error, "session lost");
    }
}
