//! Messages of the log's events.
//!
//! Sans-IO: events go in by [`Exporter::push`], messages come out by [`Exporter::take_message`].

use std::collections::VecDeque;
use std::time::Duration;

use flow::VrfId;
use nat::pools::PortBlock;

use crate::event::{Event, Holder};
use crate::form::cut;

const VERSION: u16 = 10;
const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;
/// The set of templates (RFC 7011 §3.3.2).
const TEMPLATE_SET: u16 = 2;
/// Our template, and the set of the records that have its form.
const TEMPLATE: u16 = 256;
/// Octets of a field whose length is in front of it (RFC 7011 §7).
const VARIABLE: u16 = 0xffff;

/// The fields of a record: their IANA numbers and octets.
const FIELDS: [(u16, u16); 9] = [
    // observationTimeMilliseconds
    (323, 8),
    // natEvent
    (230, 1),
    // ingressVRFID: the address space of the public address; RFC 8158 has no other element for one.
    (234, 4),
    // sourceIPv4Address: the UE's own.
    (8, 4),
    // postNATSourceIPv4Address
    (225, 4),
    // portRangeStart
    (361, 2),
    // portRangeEnd
    (362, 2),
    // portRangeStepSize: the ports follow each other.
    (363, 2),
    // userName: the subscriber.
    (371, VARIABLE),
];
const TEMPLATE_LEN: usize = SET_HEADER_LEN + 4 + 4 * FIELDS.len();

/// Values of natEvent (its registry of IANA, RFC 8158).
mod nat_event {
    pub const PORT_BLOCK_ALLOCATION: u8 = 16;
    pub const PORT_BLOCK_DE_ALLOCATION: u8 = 17;
}

/// How messages go to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// Datagrams, which may be lost.
    #[default]
    Udp,
    /// A connection, which is made again when it ends.
    Tcp,
}

/// How events are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How messages go.
    pub transport: Transport,
    /// The Observation Domain ID: this node among those of the exporting process.
    pub domain: u32,
    /// Over UDP the template is sent again after so long. Default 10 minutes (RFC 7011 §8.4: a collector keeps it three
    /// times as long).
    pub template_refresh: Duration,
    /// The longest message, octets. Default 1,400, at least 512.
    pub message_octets: u16,
    /// Events that wait at most; more are lost. Default 65,536.
    pub waiting: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            transport: Transport::Udp,
            domain: 1,
            template_refresh: Duration::from_mins(10),
            message_octets: 1_400,
            waiting: 1 << 16,
        }
    }
}

/// Makes messages of events.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    /// Records that wait.
    records: VecDeque<Vec<u8>>,
    /// Over TCP those of the last message, which may not have been sent whole.
    taken: Vec<Vec<u8>>,
    /// Records in all messages of this UDP session or TCP connection so far, modulo 2^32 (RFC 7011 §3.1).
    sequence: u32,
    in_last: u32,
    /// When the template was sent last, of this connection.
    template_ms: Option<u64>,
    lost: u64,
}

impl Exporter {
    /// One that has sent nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            records: VecDeque::new(),
            taken: Vec::new(),
            sequence: 0,
            in_last: 0,
            template_ms: None,
            lost: 0,
        }
    }

    /// Takes what happened to a block. It is lost when too many wait, and then counted. That one is still held
    /// ([`Event::Held`]) is no event.
    pub fn push(&mut self, event: &Event) {
        if matches!(event, Event::Held(_)) {
            return;
        }
        if self.records.len() >= self.settings.waiting {
            self.lost += 1;
            return;
        }
        let record = match event {
            Event::Assigned(assignment) | Event::Held(assignment) => record(
                assignment.since_ms,
                nat_event::PORT_BLOCK_ALLOCATION,
                assignment.vrf,
                &assignment.block,
                &assignment.holder,
            ),
            Event::Released {
                at_ms,
                vrf,
                block,
                holder,
            } => record(*at_ms, nat_event::PORT_BLOCK_DE_ALLOCATION, *vrf, block, holder),
        };
        self.records.push_back(record);
    }

    /// Messages go by a new connection of TCP from now on: the template comes first, and records are numbered anew. The
    /// records of the last message come again: the connection before has ended within it.
    pub fn begin_connection(&mut self) {
        self.put_back();
        self.template_ms = None;
        self.sequence = 0;
    }

    /// The last message was not sent whole, and its records wait again.
    pub(crate) fn put_back(&mut self) {
        for record in self.taken.drain(..).rev() {
            self.records.push_front(record);
        }
    }

    /// The last message was sent whole.
    pub(crate) fn forget_taken(&mut self) {
        self.taken.clear();
    }

    /// The next message, at `now_ms` since 1970: records that wait, as many as fit in, and the template when it is due.
    /// `None`: there is nothing to send. Over TCP the message before has been sent whole.
    pub fn take_message(&mut self, now_ms: u64) -> Option<Vec<u8>> {
        self.taken.clear();
        let with_template = self.is_template_due(now_ms);
        if !with_template && self.records.is_empty() {
            return None;
        }
        let most = usize::from(self.settings.message_octets.max(512));
        let mut message = Vec::with_capacity(most);
        put(&mut message, VERSION);
        put(&mut message, 0);
        // Seconds, modulo 2^32.
        message.extend(((now_ms / 1_000) as u32).to_be_bytes());
        message.extend(self.sequence.to_be_bytes());
        message.extend(self.settings.domain.to_be_bytes());
        debug_assert_eq!(message.len(), HEADER_LEN);
        if with_template {
            self.template_ms = Some(now_ms);
            put_template(&mut message);
        }
        self.put_records(&mut message, most);
        let len = message.len() as u16;
        set(&mut message, 2, len);
        Some(message)
    }

    /// Events that were lost because too many waited.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Records in the last message.
    pub(crate) fn in_last(&self) -> u32 {
        self.in_last
    }

    /// Events that wait.
    pub fn waiting(&self) -> usize {
        self.records.len()
    }

    fn is_template_due(&self, now_ms: u64) -> bool {
        if self.settings.transport == Transport::Tcp {
            return self.template_ms.is_none();
        }
        let refresh = self.settings.template_refresh.as_millis();
        self.template_ms.is_none_or(|sent| {
            now_ms
                .checked_sub(sent)
                .is_none_or(|past| u128::from(past) >= refresh)
        })
    }

    fn put_records(&mut self, message: &mut Vec<u8>, most: usize) {
        let start = message.len();
        let fits = |message: &Vec<u8>, record: &Vec<u8>| message.len() + record.len() <= most;
        put(message, TEMPLATE);
        put(message, 0);
        self.in_last = 0;
        while let Some(record) = self.records.pop_front_if(|record| fits(message, record)) {
            message.extend(&record);
            self.sequence = self.sequence.wrapping_add(1);
            self.in_last += 1;
            if self.settings.transport == Transport::Tcp {
                self.taken.push(record);
            }
        }
        let len = message.len() - start;
        if len == SET_HEADER_LEN {
            message.truncate(start);
        } else {
            set(message, start + 2, len as u16);
        }
    }
}

fn put_template(message: &mut Vec<u8>) {
    put(message, TEMPLATE_SET);
    put(message, TEMPLATE_LEN as u16);
    put(message, TEMPLATE);
    put(message, FIELDS.len() as u16);
    for (number, octets) in FIELDS {
        put(message, number);
        put(message, octets);
    }
}

fn record(at_ms: u64, event: u8, vrf: VrfId, block: &PortBlock, holder: &Holder) -> Vec<u8> {
    let user = cut(&holder.subscriber, Holder::MOST_SUBSCRIBER);
    let ports = block.ports();
    let mut record = Vec::with_capacity(28 + user.len());
    record.extend(at_ms.to_be_bytes());
    record.push(event);
    record.extend(u32::from(vrf.0).to_be_bytes());
    record.extend(holder.inside.octets());
    record.extend(block.address.octets());
    put(&mut record, *ports.start());
    put(&mut record, *ports.end());
    put(&mut record, 1);
    record.push(user.len() as u8);
    record.extend(user.as_bytes());
    record
}

fn put(message: &mut Vec<u8>, word: u16) {
    message.extend(word.to_be_bytes());
}

/// Writes over two octets that there are.
fn set(message: &mut [u8], at: usize, word: u16) {
    if let Some(octets) = message.get_mut(at..at + 2) {
        octets.copy_from_slice(&word.to_be_bytes());
    }
}
