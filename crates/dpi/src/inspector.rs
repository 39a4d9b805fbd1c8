//! The inspection of flows: a state for each flow that is not decided yet, and what its packets make of it.
//!
//! An [`Inspector`] is one worker's. States and blocks for reassembly are allocated at its start, and each owner has at
//! most its share of both. A state is there from [`Inspector::open`] to a verdict, to [`Inspector::close`], or until it is
//! too old ([`Inspector::expire`]); a block only while a message needs more than one packet.

mod flow;
mod flows;
mod tcp;
mod udp;

pub use flow::{FlowIndex, Transport};

use flow::{Flow, State};
use flows::Flows;

use crate::reassembly::{BLOCK_OCTETS, BlockPool, Refused};
use crate::shares::Shares;
use crate::tls::{AlpnList, ClientHello};
use crate::verdict::{Found, Protocol, Reason, Verdict};

/// How much is inspected, and with how much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Flows that are inspected at the same time. A state is 64 octets.
    pub flows: u32,
    /// Blocks for messages of several packets, of [`BLOCK_OCTETS`] octets each.
    pub blocks: u32,
    /// Owners: numbers from 0 to before this.
    pub owners: u32,
    /// Most flows of an owner that are inspected at the same time.
    pub flows_of_owner: u16,
    /// Most blocks of an owner.
    pub blocks_of_owner: u16,
    /// Most packets with a payload of a flow that are looked at, of each sender.
    pub packets: u8,
    /// Most octets of payload of a flow that are looked at, of each sender. The packet that exceeds it is the last.
    pub octets: u16,
    /// How long a flow is inspected at most, ns.
    pub longest_ns: u64,
}

impl Default for Settings {
    /// 65,536 flows and 1,024 blocks: 12 MiB; 1,024 owners with up to 64 flows and 16 blocks; 8 packets and 8 KiB of
    /// each sender; 10 s.
    fn default() -> Settings {
        Settings {
            flows: 65_536,
            blocks: 1_024,
            owners: 1_024,
            flows_of_owner: 64,
            blocks_of_owner: 16,
            packets: 8,
            octets: 8_192,
            longest_ns: 10_000_000_000,
        }
    }
}

/// Which end of a flow sent a packet: the one that sent the flow's first packet, or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The end that opened the flow: the client.
    Initiator,
    /// The other end.
    Responder,
}

/// What a packet carries above its IP header. Packets of a flow come in any order; fragments are reassembled before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer4<'p> {
    /// A TCP segment (RFC 9293 §3.1).
    Tcp {
        /// The sequence number of its header.
        sequence: u32,
        /// Whether it has SYN.
        has_syn: bool,
        /// Its payload.
        payload: &'p [u8],
    },
    /// A UDP datagram.
    Udp {
        /// Its payload.
        payload: &'p [u8],
    },
}

impl<'p> Layer4<'p> {
    fn payload(&self) -> &'p [u8] {
        match self {
            Layer4::Tcp { payload, .. } | Layer4::Udp { payload } => payload,
        }
    }
}

/// Why a flow is not inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The owner has as many as its share, or there is no such owner.
    OwnersShare,
    /// All states are in use.
    NoState,
}

/// What a packet makes of a flow.
enum Outcome {
    Undecided,
    Found,
    Undetected(Reason),
}

/// Inspects the flows of one worker.
#[derive(Debug)]
pub struct Inspector {
    settings: Settings,
    flows: Flows,
    flow_shares: Shares,
    resources: Resources,
}

/// What the inspection of a packet uses besides the flow's state.
#[derive(Debug)]
struct Resources {
    blocks: BlockPool,
    block_shares: Shares,
    /// Messages in one piece: decrypted, or put together from records.
    scratch: Box<[u8]>,
    found: Found,
}

impl Inspector {
    /// An inspector with all its memory.
    pub fn new(settings: Settings) -> Inspector {
        Inspector {
            flows: Flows::new(settings.flows),
            flow_shares: Shares::new(settings.owners, settings.flows_of_owner),
            resources: Resources {
                blocks: BlockPool::new(settings.blocks),
                block_shares: Shares::new(settings.owners, settings.blocks_of_owner),
                scratch: vec![0; BLOCK_OCTETS].into(),
                found: Found::of(Protocol::Stun),
            },
            settings,
        }
    }

    /// Begins the inspection of a flow of `owner`. `token` is the caller's number of the flow, for
    /// [`Inspector::expire`]; `now` is in ns, and never less than before.
    ///
    /// The index is valid until a verdict ends the inspection, the flow is closed, or expires.
    ///
    /// # Errors
    ///
    /// [`NotOpened`]: the flow stays undetected.
    pub fn open(
        &mut self,
        owner: u32,
        token: u32,
        transport: Transport,
        now: u64,
    ) -> Result<FlowIndex, NotOpened> {
        if !self.flow_shares.take(owner) {
            return Err(NotOpened::OwnersShare);
        }
        let opened = self.flows.open(Flow::new(owner, token, transport, now));
        opened.ok_or_else(|| {
            self.flow_shares.give_back(owner);
            NotOpened::NoState
        })
    }

    /// Looks at the next packet of a flow.
    pub fn inspect(&mut self, index: FlowIndex, sender: Sender, packet: &Layer4<'_>) -> Verdict<'_> {
        let Some(flow) = self.flows.get_mut(index) else {
            return Verdict::Undetected(Reason::NotOpen);
        };
        let outcome = match self.resources.look(flow, sender, packet) {
            Outcome::Undecided if flow.has_spent(sender, packet.payload().len(), &self.settings) => {
                Outcome::Undetected(Reason::Budget)
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Undecided => Verdict::Undecided,
            Outcome::Found => {
                self.close(index);
                Verdict::Found(&self.resources.found)
            }
            Outcome::Undetected(reason) => {
                self.close(index);
                Verdict::Undetected(reason)
            }
        }
    }

    /// Ends the inspection of a flow without a verdict: the flow is over.
    pub fn close(&mut self, index: FlowIndex) {
        if let Some(flow) = self.flows.close(index) {
            self.give_back(flow);
        }
    }

    /// Ends the inspection of the oldest flow if it is older than [`Settings::longest_ns`], and gives its token: it stays
    /// undetected. The caller calls it until it gives none.
    pub fn expire(&mut self, now: u64) -> Option<u32> {
        let longest = self.settings.longest_ns;
        let flow = self
            .flows
            .close_oldest(|flow| now.saturating_sub(flow.opened_at) >= longest)?;
        let token = flow.token;
        self.give_back(flow);
        Some(token)
    }

    /// Flows that are inspected.
    pub fn flows(&self) -> u32 {
        self.flows.in_use()
    }

    /// Blocks that are in use.
    pub fn blocks(&self) -> u32 {
        self.settings.blocks - self.resources.blocks.free() as u32
    }

    fn give_back(&mut self, flow: Flow) {
        self.flow_shares.give_back(flow.owner);
        if let Some(block) = flow.block {
            self.resources.block_shares.give_back(flow.owner);
            self.resources.blocks.give_back(block);
        }
    }
}

impl Resources {
    fn look(&mut self, flow: &mut Flow, sender: Sender, packet: &Layer4<'_>) -> Outcome {
        let looked = match (packet, flow.state) {
            (Layer4::Tcp { .. }, State::Tcp(_)) => self.look_at_segment(flow, sender, packet),
            (Layer4::Udp { payload }, State::Udp(_) | State::Quic(_)) => {
                self.look_at_datagram(flow, sender, payload)
            }
            _ => Err(Reason::Unknown),
        };
        looked.unwrap_or_else(Outcome::Undetected)
    }

    /// Puts a piece of a stream into the flow's block, which it gets if it has none.
    fn insert(&mut self, flow: &mut Flow, offset: u64, piece: &[u8]) -> Result<(), Reason> {
        if flow.block.is_none() {
            if !self.block_shares.take(flow.owner) {
                return Err(Reason::OwnersShare);
            }
            flow.block = self.blocks.take();
        }
        let Some(block) = &flow.block else {
            self.block_shares.give_back(flow.owner);
            return Err(Reason::NoBlock);
        };
        self.blocks
            .insert(block, offset, piece)
            .map_err(|refused| match refused {
                Refused::Ambiguous => Reason::Ambiguous,
                Refused::TooManyPieces => Reason::Budget,
            })
    }

    fn found_hello(&mut self, hello: &ClientHello) -> Outcome {
        self.found = Found::of_hello(Protocol::Quic, hello);
        Outcome::Found
    }

    fn found_protocol(&mut self, protocol: Protocol) -> Outcome {
        self.found = Found::of(protocol);
        Outcome::Found
    }
}

impl Found {
    fn of_hello(protocol: Protocol, hello: &ClientHello) -> Found {
        Found {
            host: hello.server_name,
            alpn: hello.alpn,
            offers_ech: hello.offers_ech,
            ..Found::of(protocol)
        }
    }

    fn of(protocol: Protocol) -> Found {
        Found {
            protocol,
            host: None,
            path: None,
            alpn: AlpnList::NONE,
            offers_ech: false,
        }
    }
}
