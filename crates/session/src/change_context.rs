//! What changes of sessions work with: configuration, tables, resources, queues. Each part owns its state.

use flow::{Nanos, SessionIndex};
use rules::image::SessionImage;
use std::collections::VecDeque;
use usage::UsageReport;

use crate::commands::Commands;
use crate::config::{Config, Environment};
use crate::ids::Ticket;
use crate::journal::Journal;
use crate::outcome::{Done, Outcome};
use crate::port_blocks::PortBlockHolders;
use crate::prepare::Preparation;
use crate::queued_request::{Request, Waiting};
use crate::random::Random;
use crate::recompilation::RecompiledSessions;
use crate::refusal::Refusal;
use crate::resources::Resources;
use crate::session::Session;
use crate::session_table::SessionTable;
use crate::usage_measurement::UsageMeasurement;
use crate::usage_record_queue::UsageRecordQueue;

/// The parts, together.
pub(crate) struct ChangeContext {
    pub(crate) config: Config,
    pub(crate) environment: Environment,
    pub(crate) journal: Journal,
    pub(crate) random: Random,
    pub(crate) table: SessionTable,
    pub(crate) resources: Resources,
    pub(crate) port_blocks: PortBlockHolders,
    pub(crate) commands: Commands,
    pub(crate) usage_measurement: UsageMeasurement,
    pub(crate) usage_records: UsageRecordQueue,
    pub(crate) outcomes: VecDeque<Outcome>,
    pub(crate) recompiled: RecompiledSessions,
}

impl ChangeContext {
    /// The request is refused.
    pub(crate) fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        if ticket.is_of_recompilation() {
            return self.recompiled.refused();
        }
        let result = Err(refusal);
        self.outcomes.push_back(Outcome { ticket, result });
    }

    /// The request took effect.
    pub(crate) fn done(&mut self, ticket: Ticket, done: Done) {
        if ticket.is_of_recompilation() {
            return self.recompiled.done();
        }
        let result = Ok(done);
        self.outcomes.push_back(Outcome { ticket, result });
    }

    /// A session that could not follow the configuration in all follows the network alone, before all other requests.
    pub(crate) fn follow_network_alone(&mut self, index: SessionIndex) {
        if let Some(session) = self.table.live_mut(index) {
            let ticket = Ticket::RECOMPILATION_FOR_NETWORK;
            let request = Request::Recompile;
            let waiting = session.waiting.get_or_insert_default();
            waiting.push_front(Waiting { ticket, request });
            self.recompiled.begin_again();
        }
    }

    /// What prepares a change.
    pub(crate) fn preparation(&mut self) -> Preparation<'_> {
        Preparation {
            config: &self.config,
            environment: &self.environment,
            buckets: &self.commands.buckets,
            table: &self.table,
            resources: &mut self.resources,
            random: &mut self.random,
        }
    }

    /// What is live in a session, compiled anew.
    pub(crate) fn image_of(&self, index: SessionIndex) -> Option<Box<SessionImage>> {
        let session = self.table.get(index)?;
        let mut image = self.environment.compile_live(&session.live).ok()?;
        image.session = index;
        image.seid = session.seid.0;
        image.bucket = session.bucket;
        image.classification_generation = session.live.generation;
        let block = image.block.get_or_insert_default();
        block.bounds = session.usage.bounds(session.live.rules.urrs());
        let subscriber = session.accounting.subscriber.as_deref();
        block.group = self.table.groups.known_number(subscriber);
        let correlations = &self.resources.correlations;
        image.share_rates(|correlation| correlations.meter(index, correlation));
        Some(Box::new(image))
    }

    /// Sends the bounds of a session's counters where they have changed, or if `again`, and sets its timer.
    pub(crate) fn refresh_usage(&mut self, now: Nanos, index: SessionIndex, again: bool) {
        if let Some(session) = self.table.get_mut(index) {
            self.usage_measurement
                .refresh(now, session, &mut self.commands, again);
        }
    }

    /// Makes the reports of a change that is done, of the session as it was before, and enters them for usage records.
    pub(crate) fn make_reports(
        &mut self,
        index: SessionIndex,
        reports: impl FnOnce(&mut Session) -> Vec<UsageReport>,
    ) -> Vec<UsageReport> {
        let Some(session) = self.table.get_mut(index) else {
            return Vec::new();
        };
        let reports = reports(session);
        self.usage_records.enter_reports(session, &reports);
        reports
    }
}
