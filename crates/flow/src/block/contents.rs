//! The content counters of the sessions whose blocks these are.

use super::content_counters::ContentCounters;
use super::{BlockRef, Blocks, ContentTotal, ContentUsage};
use crate::slab::OutOfMemory;
use crate::{ContentId, Direction, Nanos, SessionIndex};

impl Blocks {
    /// Makes room for this many content counters of sessions with an index below `sessions`. A worker does so once,
    /// before there is any session.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had.
    pub fn with_contents(mut self, sessions: usize, counters: usize) -> Result<Self, OutOfMemory> {
        self.contents = ContentCounters::new(sessions, counters)?;
        Ok(self)
    }

    /// Content counters that sessions have.
    pub const fn contents_in_use(&self) -> usize {
        self.contents.in_use()
    }

    /// What all sessions together have counted of each content since the start, by its number: up to the last of which
    /// there were flows.
    pub fn content_totals(&self) -> &[ContentTotal] {
        self.contents.totals().all()
    }

    /// A flow is decided to be of a content.
    pub fn decided_content(&mut self, content: ContentId) {
        self.contents.totals_mut().decided(content);
    }

    /// The number of a session's counter of `content`, which is made if there is none yet; `None` when there is no room
    /// for it.
    pub fn content(&mut self, session: SessionIndex, content: ContentId) -> Option<u16> {
        self.contents.find_or_make(session, content)
    }

    /// Asks for what says which content counters a session has, and where.
    #[inline]
    pub fn prefetch_contents_of(&self, session: SessionIndex) {
        if self.contents.in_use() > 0 {
            self.contents.prefetch_place(session);
        }
    }

    /// Asks for the list of the contents that a session has counters of. That reads what
    /// [`prefetch_contents_of`](Self::prefetch_contents_of) asks for.
    #[inline]
    pub fn prefetch_content_list(&self, session: SessionIndex) {
        self.contents.prefetch_list(session);
    }

    /// Asks for what [`prefetch_content`](Self::prefetch_content) reads, by the line that packets of the direction need
    /// anyway.
    #[inline]
    pub fn prefetch_content_place(&self, block: BlockRef, direction: Direction) {
        if let Some(session) = self.session_in(block, direction) {
            self.contents.prefetch_place(session);
        }
    }

    /// Asks for the content counter with this number of the session whose block this is.
    #[inline]
    pub fn prefetch_content(&self, block: BlockRef, direction: Direction, number: u16) {
        if let Some(session) = self.session_in(block, direction) {
            self.contents.prefetch(session, number);
        }
    }

    /// Counts one packet of the session whose block this is in its content counter with this number.
    #[inline]
    pub fn count_content(
        &mut self,
        block: BlockRef,
        number: u16,
        direction: Direction,
        octets: u64,
        now: Nanos,
    ) {
        if let Some(session) = self.session_in(block, direction) {
            self.contents.count(session, number, direction, octets, now);
        }
    }

    /// Takes a packet back that was counted since counts were last taken: it was lost. Nothing, if the block is gone or
    /// not of this generation.
    pub fn uncount_content(
        &mut self,
        block: BlockRef,
        generation: u32,
        number: u16,
        direction: Direction,
        octets: u64,
    ) {
        if !self.is_live(block, generation, direction) {
            return;
        }
        if let Some(session) = self.session_in(block, direction) {
            self.contents.uncount(session, number, direction, octets);
        }
    }

    /// Takes a packet back that counts at another worker from now on, if it was counted since counts were last taken:
    /// whether it was. False also if the block is gone or not of this generation.
    pub fn withdraw_content(
        &mut self,
        block: BlockRef,
        generation: u32,
        number: u16,
        direction: Direction,
        octets: u64,
    ) -> bool {
        let session = self.session_in(block, direction);
        let session = session.filter(|_| self.is_live(block, generation, direction));
        session.is_some_and(|session| self.contents.withdraw(session, number, direction, octets))
    }

    /// Adds what a session has counted of a content at another worker. The number of its counter, which is made if
    /// there is none yet; `None`, and nothing is added: there is no room for it.
    pub fn add_content(&mut self, session: SessionIndex, usage: &ContentUsage) -> Option<u16> {
        self.contents.add(session, usage)
    }

    /// What a session has counted in each of its content counters since that was last taken, by their numbers from
    /// 1 on.
    pub fn contents_by_number(&self, session: SessionIndex) -> impl Iterator<Item = ContentUsage> + '_ {
        self.contents.by_number(session)
    }

    /// What a session has counted of each content, since that was last taken.
    pub fn contents(&self, session: SessionIndex) -> impl Iterator<Item = ContentUsage> + '_ {
        self.contents.usages(session)
    }

    /// Takes what a session has counted of the contents that `wanted` names.
    pub fn take_contents(
        &mut self,
        session: SessionIndex,
        wanted: impl Fn(ContentId) -> bool,
    ) -> Vec<ContentUsage> {
        self.contents.take_usages(session, wanted)
    }

    /// Gives the counters back of contents that `keeps` does not name; what they have is to be taken before. The others
    /// get other numbers: no flow entry may be in use that names one.
    pub fn retain_contents(&mut self, session: SessionIndex, keeps: impl Fn(ContentId) -> bool) {
        self.contents.retain_of(session, keeps);
    }

    /// Looks at the next sessions, at most `most` and no more than one that has content counters, and takes what was
    /// counted first at `before` or earlier. Each is passed to the closure, which returns whether to continue.
    pub fn take_due_contents(
        &mut self,
        most: usize,
        before: Nanos,
        tell: impl FnMut(SessionIndex, ContentUsage) -> bool,
    ) {
        self.contents.take_due(most, before, tell);
    }
}
