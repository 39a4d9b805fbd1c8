//! Usage of sessions that are gone: on its way until it is acknowledged or has failed, and kept beyond the process for
//! as long.

use flow::Nanos;
use pfcp::SequenceNumber;
use session::{ReportedSession, Seid, UnacknowledgedUsage, Unreported};
use std::net::SocketAddr;

use crate::endpoint_state::Shared;
use crate::journal::Kept;
use crate::kept_usage::{ON_ITS_WAY, UsagePart};
use crate::node_records::{node_of, octets_of};
use crate::own_requests::Purpose;
use crate::report_outbox::SentUsage;
use crate::transactions::Path;
use crate::usage_record_owners::LastUsage;

/// A request of ours that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnItsWay {
    pub(crate) peer: SocketAddr,
    pub(crate) sequence: u32,
}

impl Shared {
    /// A request is on its way with the usage under this number, the `part`th after the end of its session, from 1: it
    /// is kept, where anything is, until the request has come to its end. To be called before the end of the session is
    /// given to be kept.
    pub(crate) fn keep_last_usage(&mut self, number: u64, part: u16, request: OnItsWay) {
        if !self.journal.is_kept() {
            return;
        }
        let Some(LastUsage { owner, reports, .. }) = self.usage_record_owners.last(number) else {
            return;
        };
        let (owner, usage) = (*owner, reports.clone());
        if let Some(record) = self.record_of_usage(owner, part, request, usage) {
            let part = (owner.seid, part);
            self.usage_record_owners.note_kept(number, part);
            let over = self.kept_usage.keep(part);
            self.journal.usage_kept(part, record, over);
        }
    }

    /// What is to be kept of a report that was on its way when its session ended.
    pub(crate) fn keep_usage_on_its_way(&mut self, sent: SentUsage<'_>) -> Option<Kept> {
        let SentUsage {
            seid,
            association,
            usage,
            request: (peer, sequence),
        } = sent;
        let part = (seid, ON_ITS_WAY);
        if usage.is_empty() || self.kept_usage.has(part) {
            return None;
        }
        let owner = ReportedSession {
            seid,
            association,
            cp: None,
        };
        let request = OnItsWay { peer, sequence };
        let record = self.record_of_usage(owner, ON_ITS_WAY, request, usage.to_vec())?;
        let over = self.kept_usage.keep(part);
        self.journal.usage_over(over);
        Some(Kept::LastUsage {
            seid,
            part: ON_ITS_WAY,
            record: Some(Box::new(record)),
        })
    }

    fn record_of_usage(
        &self,
        owner: ReportedSession,
        part: u16,
        OnItsWay { peer, sequence }: OnItsWay,
        usage: Vec<session::UsageReport>,
    ) -> Option<UnacknowledgedUsage> {
        Some(UnacknowledgedUsage {
            association: octets_of(&self.smf_of(owner.association)?),
            seid: owner.seid,
            part,
            cp: owner.cp,
            peer,
            request: self.transactions.requests().octets(peer, sequence)?.to_vec(),
            usage,
        })
    }

    /// Usage is on its way no more, and is kept no longer.
    pub(crate) fn last_usage_over(&mut self, part: UsagePart) {
        if self.kept_usage.end(part) {
            self.journal.usage_over(vec![part]);
        }
    }

    /// The same of the report of a session that is gone.
    pub(crate) fn report_over(&mut self, seid: Seid) {
        self.last_usage_over((seid, ON_ITS_WAY));
    }

    /// The request has a response, or has failed, that had the last usage of a session: that under this number.
    pub(crate) fn last_usage_done(&mut self, now: Nanos, number: u64, why: Option<Unreported>) {
        let Some(last) = self.usage_record_owners.take_last(number) else {
            return;
        };
        if let Some(why) = why {
            self.usage_unaccepted(now, last.owner, &last.reports, why);
        }
        if let Some(part) = last.kept {
            self.last_usage_over(part);
        }
        if last.is_sent_again {
            self.kept_usage.came_to_end();
            self.send_usage_again(now);
        }
    }

    /// No response to requests with the last usage of sessions is awaited any more.
    pub(crate) fn forget_last_usage(&mut self, now: Nanos) {
        for number in self.usage_record_owners.last_numbers() {
            self.last_usage_done(now, number, Some(Unreported::Unanswered));
        }
    }

    /// Usage of the process before goes to the same control plane again, a bounded number of requests at a time. Where
    /// there is no association any more, it counts as unanswered.
    pub(crate) fn send_usage_again(&mut self, now: Nanos) {
        while let Some(usage) = self.kept_usage.next_again() {
            let UnacknowledgedUsage {
                association,
                seid,
                part,
                cp,
                peer,
                request,
                usage,
            } = usage;
            let node = node_of(&association).ok();
            let known = node.as_ref().and_then(|node| self.associations.by_node(node));
            let way = known.map(|one| (one.id, one.local));
            let id = match (way, node) {
                (Some((id, _)), _) => id,
                (None, Some(node)) => {
                    let id = self.associations.id_for(&node);
                    self.usage_record_owners.remember(id, node);
                    id
                }
                (None, None) => session::AssociationId(0),
            };
            let owner = ReportedSession {
                seid,
                association: id,
                cp,
            };
            let kept = (seid, part);
            let Some((_, local)) = way else {
                self.counters.events_dropped += 1;
                self.usage_unaccepted(now, owner, &usage, Unreported::Unanswered);
                self.last_usage_over(kept);
                self.kept_usage.came_to_end();
                continue;
            };
            let number = self.usage_record_owners.keep(LastUsage {
                owner,
                reports: usage,
                kept: Some(kept),
                is_sent_again: true,
            });
            let path = Path {
                from: peer,
                to: local,
            };
            self.send_octets_again(now, path, request, Purpose::Remainder(number));
        }
    }

    /// Under the number that the request had, so that a peer that has it responds as it did; or another, if that is in
    /// use.
    fn send_octets_again(&mut self, now: Nanos, path: Path, mut request: Vec<u8>, purpose: Purpose) {
        let requests = self.transactions.requests_mut();
        let had = request.get(SEQUENCE).and_then(|octets| octets.try_into().ok());
        let had = had.map_or(0, |[a, b, c]: [u8; 3]| u32::from_be_bytes([0, a, b, c]));
        let sequence = match requests.purpose(path.from, had) {
            None => had,
            Some(_) => requests.next_sequence(path.from),
        };
        let [_, number @ ..] = SequenceNumber::new(sequence).get().to_be_bytes();
        if let Some(octets) = request.get_mut(SEQUENCE) {
            octets.copy_from_slice(&number);
        }
        self.transactions
            .send_again(now, path, sequence, purpose, request.into());
        self.counters.requests += 1;
    }
}

/// The octets of the sequence number in a message about a session (TS 29.244 §7.2.2.3).
const SEQUENCE: std::ops::Range<usize> = 12..15;
