//! Sessions that leave for another process, and sessions that come from one.
//!
//! An export is a request like any other: it waits for those before it and for a move of the session's bucket, so that
//! a record never shows half a change. What the session counted is the worker's answer to the same command that ends
//! it there ([`Export::Take`]): every packet was counted before, or meets no session any more. An import takes the
//! session's numbers as they are, or says which one somebody else has, and changes nothing then.

use flow::{Nanos, SessionIndex, UrrCount};
use packet::Teid;
use rules::boxed_option::BoxedOption;
use rules::image::{DroppedCount, PacketsLeft, TokensLeft};
use rules::model::UrrId;
use rules::network::Network;
use rules::prefix::IpPrefix;
use std::fmt;
use std::net::IpAddr;

use crate::addresses::UeAddress;
use crate::effect::{AssociationId, CpFSeid, Done, Seid, Ticket};
use crate::record::{PendingReports, SessionRecord};
use crate::refusal::Refusal;
use crate::session::{Live, Phase, Prepared, Session, State, Waiting, WaitingRequest, Work};
use crate::sessions::Sessions;
use crate::sets::Sets;
use crate::shares::{Charge, Holding};
use crate::tunnels::Tunnel;
use usage::UsageAccounts;

/// What becomes of a session that is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// It goes on here; the record says how it stood at one moment.
    Copy,
    /// It ends here, and nothing is reported of it: who has the record has the session.
    Take,
}

/// Why a record does not become a session here. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// Another session has its SEID.
    Seid(Seid),
    /// Another session of the association has its CP F-SEID.
    CpFSeid(CpFSeid),
    /// Another session has its F-TEID.
    Tunnel {
        /// Our address.
        address: IpAddr,
        /// The TEID.
        teid: Teid,
    },
    /// Another session has its UE address, or one in or around it.
    UeAddress(IpPrefix),
    /// Its rules cannot be applied here, or there is no room.
    Refused(Refusal),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Seid(seid) => write!(f, "another session has SEID {:#018x}", seid.0),
            ImportError::CpFSeid(cp) => write!(
                f,
                "another session of the association has the CP F-SEID {:#018x}",
                cp.seid
            ),
            ImportError::Tunnel { address, teid } => {
                write!(f, "another session has TEID {teid} at {address}")
            }
            ImportError::UeAddress(prefix) => write!(f, "another session has UE address {prefix}"),
            ImportError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for ImportError {}

impl From<Refusal> for ImportError {
    fn from(refusal: Refusal) -> ImportError {
        ImportError::Refused(refusal)
    }
}

/// What a worker has left of a session's rates, and has to tell of dropped packets.
pub(crate) struct Left {
    pub(crate) packets: Vec<PacketsLeft>,
    pub(crate) tokens: Vec<TokensLeft>,
    pub(crate) dropped: Vec<DroppedCount>,
}

impl Sessions {
    /// Makes a record of a session; it comes with the [`Outcome`](crate::Outcome) of `ticket`. The record's
    /// association and pending reports are the caller's to fill in.
    pub fn export(&mut self, now: Nanos, ticket: Ticket, seid: Seid, how: Export) {
        let request = WaitingRequest::Export(how);
        self.submit_to(now, seid, Waiting { ticket, request });
    }

    /// The workers have done what an export needs.
    pub(crate) fn exported(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        how: Export,
        (counted, left): (&[(UrrId, UrrCount)], Left),
    ) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let mut record = session.record(counted);
        (record.packets, record.tokens, record.dropped) = (left.packets, left.tokens, left.dropped);
        let record = Some((session.association, Box::new(record)));
        let (seid, cp) = (session.seid, session.cp);
        match how {
            Export::Take => {
                self.enter_left(now, index);
                self.deleted(now, index, ticket, Default::default(), record);
            }
            Export::Copy => self.done(
                ticket,
                Done {
                    seid,
                    cp,
                    created: Vec::new(),
                    assigned: Vec::new(),
                    usage: Vec::new(),
                    packets: Vec::new(),
                    record,
                },
            ),
        }
    }

    /// Takes a session in, with all of its numbers. Whether the worker has taken it too is told by the
    /// [`Outcome`](crate::Outcome) of `ticket`.
    ///
    /// # Errors
    /// What is taken, or why else it cannot be.
    pub fn import(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        record: &SessionRecord,
    ) -> Result<(), ImportError> {
        if self.by_seid.get(record.seid).is_some() {
            return Err(ImportError::Seid(record.seid));
        }
        if self.by_owner.contains_key(&(association, record.cp)) {
            return Err(ImportError::CpFSeid(record.cp));
        }
        let mut image = self.compile(record.rules.clone())?;
        image.bucket = record.bucket;
        image.seid = record.seid.0;
        image.packets = record.packets.clone().into();
        image.tokens = record.tokens.clone().into();
        image.add_dropped(&record.dropped);
        let live = Live::of(&image, record.leases.clone());
        self.check_free(&live.tunnels, &live.addresses)?;
        let worker = self.config.owner(record.bucket);
        let bucket = self.steered_by_exception(record.bucket);
        let taken = Holding::of(&live.tunnels, &live.addresses, bucket);
        // What an association held above its share it holds here, too.
        if !self.shares.has_room(association, worker, taken) {
            return Err(Refusal::NoResources.into());
        }
        let index = self.indexes.take().ok_or(Refusal::NoResources)?;
        let mut joined = Vec::new();
        let parties = (association, association, false);
        if let Err(refusal) = self.correlate(index, parties, &image.rules, &mut joined) {
            self.correlations.leave_all(index);
            self.indexes.give_back(index);
            return Err(refusal.into());
        }
        image.session = index;
        image.share_rates(|correlation| self.correlations.meter(index, correlation));
        for tunnel in &live.tunnels {
            self.tunnels.give(*tunnel, index);
        }
        for address in &live.addresses {
            self.addresses.give(*address, index);
        }
        let prepared = Prepared {
            claimed: live.tunnels.to_vec(),
            addresses: live.addresses.to_vec(),
            shared: record.shared.clone(),
            live,
            ..Prepared::default()
        };
        let session = Session::arriving(index, association, record, self.usage_setting());
        self.put(Box::new(session));
        self.start(
            now,
            index,
            ticket,
            Work::Establish(Box::new(prepared)),
            Some(Box::new(image)),
        );
        Ok(())
    }

    /// That no other session holds any of these.
    fn check_free(&self, tunnels: &[Tunnel], addresses: &[UeAddress]) -> Result<(), ImportError> {
        let is_held = |holder: Option<SessionIndex>| holder.is_some_and(|holder| !self.has_lost(holder));
        if let Some((local, teid)) = tunnels.iter().find(|one| is_held(self.tunnels.holder(**one))) {
            let address = address_of(&self.network, local.index());
            return Err(ImportError::Tunnel { address, teid: *teid });
        }
        let is_foreign = |holder| !self.has_lost(holder);
        match addresses
            .iter()
            .find(|one| self.addresses.is_taken(**one, is_foreign))
        {
            Some((_, prefix)) => Err(ImportError::UeAddress(*prefix)),
            None => Ok(()),
        }
    }
}

/// The address of ours with this number.
fn address_of(network: &Network, local: usize) -> IpAddr {
    let known = network.local_addresses().get(local);
    known.map_or(IpAddr::from([0, 0, 0, 0]), |(_, address)| *address)
}

impl Session {
    /// The session as a record, where its worker's slots have counted so much.
    fn record(&self, counted: &[(UrrId, UrrCount)]) -> SessionRecord {
        SessionRecord {
            association: Vec::new(),
            seid: self.seid,
            cp: self.cp,
            bucket: self.bucket,
            sets: Sets::clone(&self.sets),
            rules: self.live.rules.clone(),
            leases: self.live.leases.to_vec(),
            shared: self.shared.clone(),
            checkpoints: self.usage.checkpoints(counted),
            account: self.account.clone(),
            packets: Vec::new(),
            tokens: Vec::new(),
            dropped: Vec::new(),
            pending: PendingReports::default(),
        }
    }

    /// A session of which nothing is live yet.
    fn arriving(
        index: SessionIndex,
        association: AssociationId,
        record: &SessionRecord,
        setting: usage::Setting,
    ) -> Session {
        Session {
            index,
            seid: record.seid,
            association,
            payer: association,
            sets: record.sets.clone().into(),
            cp: record.cp,
            bucket: record.bucket,
            place: 0,
            place_of_association: 0,
            phase: Phase::Stays,
            charged: Charge::default(),
            live: Live::default(),
            shared: record.shared.clone(),
            usage: UsageAccounts::resuming(&record.checkpoints, setting),
            metering: Default::default(),
            account: record.account.clone(),
            state: State::Settled,
            waiting: BoxedOption::NONE,
        }
    }
}
