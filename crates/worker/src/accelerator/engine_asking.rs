//! First packets of flows that an engine keeps while its host is asked.

use flow::contract::Flow;
use flow::{KeyFields, Nanos};

use super::asking::Questions;
use super::config::PartialMode;
use super::engine::Engine;
use super::tables::key_of;
use crate::burst::batch::BURST;
use crate::io::Io;

impl<I: Io> Engine<I> {
    /// What becomes of user packets in partial mode; `None` in full mode.
    pub(super) fn set_partial(&mut self, partial: Option<PartialMode>) {
        if self.partial != partial {
            self.partial = partial;
            self.aside.buckets = [None; BURST];
        }
    }

    /// Whether there is a host that answers. Without one nothing is kept any more: what was goes to the host.
    pub(super) fn set_asking(&mut self, is_on: bool, now: Nanos) {
        if !is_on {
            self.give_up_asking(now);
        }
        self.aside.asking.set_on(is_on);
    }

    /// Whether the host is asked about unknown flows.
    pub const fn asks(&self) -> bool {
        self.aside.asking.is_on()
    }

    /// Nothing is kept any more: it goes to the host whole, before packets that arrive later.
    pub(super) fn give_up_asking(&mut self, now: Nanos) {
        while let Some(slot) = self.aside.asking.first() {
            self.except_asking(slot, now);
        }
        let questions = self.aside.asking.take_questions();
        self.aside.asking.questions_sent(questions);
    }

    /// The host wants the packet of this question whole.
    pub(super) fn answer_whole(&mut self, number: u32, now: Nanos) {
        if let Some(answered) = self.aside.asking.answered(number) {
            self.aside.asking.note_answer(false);
            self.except_asking(answered.slot, now);
        }
    }

    /// Whether the flow may be put that the answer to this question brings; otherwise what was kept goes whole, or is
    /// kept no more.
    pub(super) fn may_put_answered(&mut self, number: u32, flow: &Flow, now: Nanos) -> bool {
        let Some(answered) = self.aside.asking.answered(number) else {
            return false;
        };
        let key = key_of(&flow.key);
        let asking = &self.aside.asking;
        let (settling, fields) = (&self.aside.settling, flow.key.fields());
        let settles = match fields.contains(KeyFields::TUPLE) {
            true => settling.slot_of(&key).is_some() || settling.find_key(&answered.first).is_some(),
            // By a flow of the whole session packets would overtake those that are held of a narrower one.
            false => settling.has_of_session(&key),
        };
        let may_put = !settles && asking.may_put(&answered.first, &key, fields);
        if !may_put {
            self.answer_whole(number, now);
        }
        may_put
    }

    /// The flow of an answer was put.
    pub(super) fn note_answered(&mut self) {
        self.aside.asking.note_answer(true);
    }

    /// Flows are put by answers from now on, or no more: then what they have released passes.
    pub(super) fn set_answering(&mut self, is_answering: bool, now: Nanos) {
        self.aside.is_answering = is_answering;
        if !is_answering {
            self.pass_released(now);
        }
    }

    /// Whether there are questions that were not sent.
    pub(super) fn has_questions(&self) -> bool {
        self.aside.asking.has_questions()
    }

    pub(super) fn take_questions(&mut self) -> Questions {
        self.aside.asking.take_questions()
    }

    pub(super) fn questions_sent(&mut self, questions: Questions) {
        self.aside.asking.questions_sent(questions);
    }

    pub(super) fn wants_marker(&self, now: Nanos) -> bool {
        self.aside.asking.wants_marker(now)
    }

    pub(super) fn marker_sent(&mut self, next: u32, now: Nanos) {
        self.aside.asking.marker_sent(next, now);
    }

    pub(super) fn marker_echoed(&mut self, marker: u32) {
        self.aside.asking.marker_echoed(marker);
    }
}
