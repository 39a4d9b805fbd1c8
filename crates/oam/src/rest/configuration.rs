//! The configuration behind the API: requests to [`Configuration`] one at a time, what they decide taken into effect by
//! control, and rollbacks when their time has come.
//!
//! Disk is written on threads of their own, so that a slow one keeps no other request waiting. A request that has begun
//! is finished although its client has gone away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Mutex as Turn;
use tracing::{error, info, warn};

use super::explainer_cell::ExplainerCell;
use super::query::{InEffect, QueryClient};
use crate::LogControl;
use crate::configuration::{
    Applied, Commit, CommitOutcome, Configuration, Effect, Moment, Progress, Refusal, Rollback,
};

/// The configuration of the daemon, for all requests.
#[derive(Clone)]
pub(super) struct ConfigurationService(Arc<Shared>);

struct Shared {
    state: Mutex<Configuration>,
    /// Who changes something, or waits for what it reads to be settled.
    turn: Turn<()>,
    started: Instant,
    client: QueryClient,
    log: Option<LogControl>,
    explainer: Option<ExplainerCell>,
}

impl ConfigurationService {
    pub(super) fn new(
        state: Configuration,
        client: QueryClient,
        log: Option<LogControl>,
        explainer: Option<ExplainerCell>,
    ) -> Self {
        if let Some(lost) = state.rolled_back() {
            warn!(
                version = lost.version.number,
                by = lost.version.by,
                "configuration rolled back: {}",
                lost.why
            );
        }
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            turn: Turn::default(),
            started: Instant::now(),
            client,
            log,
            explainer,
        }))
    }

    /// Reads something, or decides something, off this thread.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Configuration, Moment) -> T + Send + 'static,
    ) -> T {
        let shared = Arc::clone(&self.0);
        let asked = tokio::task::spawn_blocking(move || {
            let at = shared.moment();
            ask(
                &mut shared.state.lock().unwrap_or_else(PoisonError::into_inner),
                at,
            )
        });
        match asked.await {
            Ok(answer) => answer,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Commits.
    pub(super) async fn commit(&self, commit: Commit) -> Result<CommitOutcome, Refusal> {
        self.whole(|state, at| state.begin(at, commit)).await
    }

    /// Confirms what waits for it.
    pub(super) async fn confirm(&self) -> Result<CommitOutcome, Refusal> {
        self.whole(|state, at| state.confirm(at.now).map(Progress::Done))
            .await
    }

    /// Returns to an earlier version.
    pub(super) async fn roll_back(&self, rollback: Rollback) -> Result<CommitOutcome, Refusal> {
        self.whole(|state, at| state.begin_rollback(at, rollback)).await
    }

    /// Runs a change to its end, whether its client waits for it or not.
    async fn whole(
        &self,
        begin: impl FnOnce(&mut Configuration, Moment) -> Result<Progress, Refusal> + Send + 'static,
    ) -> Result<CommitOutcome, Refusal> {
        let own = self.clone();
        let change = tokio::spawn(async move {
            let _turn = own.0.turn.lock().await;
            let outcome = match own.with(begin).await? {
                Progress::Done(outcome) => outcome,
                Progress::Apply(effect) => own.take_into_effect(effect).await?,
            };
            if let Applied::Until(time) = outcome.applied {
                own.expire_after(time);
            }
            log(&outcome);
            Ok(outcome)
        });
        match change.await {
            Ok(outcome) => outcome,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    async fn take_into_effect(&self, effect: Effect) -> Result<CommitOutcome, Refusal> {
        let result = self.apply(&effect).await;
        self.with(|state, at| state.applied(at, result)).await
    }

    /// Takes a configuration into effect in the whole process.
    async fn apply(&self, effect: &Effect) -> Result<(), String> {
        let InEffect {
            network,
            sessions,
            failed,
        } = self.0.client.reconfigure(effect.clone()).await?;
        if sessions > 0 {
            info!(sessions, "sessions follow the configuration");
        }
        if failed > 0 {
            warn!(
                sessions = failed,
                "sessions keep the predefined rules of before: there is no room for those that are now"
            );
        }
        if let Some(explainer) = &self.0.explainer {
            explainer.follow(&effect.new, network);
        }
        let level = effect.new.log.level;
        if let Some(log) = self.0.log.as_ref().filter(|_| level != effect.old.log.level) {
            log.set(level);
        }
        Ok(())
    }

    /// Rolls back what waits to be confirmed, when its time is over.
    fn expire_after(&self, time: Duration) {
        let own = self.clone();
        tokio::spawn(async move {
            let mut time = time;
            loop {
                tokio::time::sleep(time).await;
                let _turn = own.0.turn.lock().await;
                if let Some(effect) = own.with(|state, at| state.expire(at.now)).await {
                    match own.take_into_effect(effect).await {
                        Ok(outcome) => log(&outcome),
                        Err(error) => error!(why = %error, "configuration not rolled back"),
                    }
                }
                // Another commit that waits has a task of its own, which finds nothing to do then.
                let Some(left) = own
                    .with(|state, at| state.due().map(|due| due.saturating_sub(at.now)))
                    .await
                else {
                    return;
                };
                time = left;
            }
        });
    }
}

impl Shared {
    fn moment(&self) -> Moment {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Moment {
            now: self.started.elapsed(),
            unix_ms: unix.map_or(0, |unix| unix.as_millis() as u64),
        }
    }
}

fn log(outcome: &CommitOutcome) {
    let (version, by, changes) = (outcome.version.number, &outcome.version.by, outcome.changes.len());
    match outcome.applied {
        Applied::Confirmed => info!(version, by, changes, "configuration in effect"),
        Applied::Until(time) => {
            let seconds = time.as_secs();
            info!(
                version,
                by, changes, seconds, "configuration in effect until it is confirmed"
            );
        }
        Applied::AtRestart => info!(version, by, changes, "configuration stored for the next start"),
        Applied::RolledBack => warn!(version, by, changes, "configuration rolled back"),
    }
}
