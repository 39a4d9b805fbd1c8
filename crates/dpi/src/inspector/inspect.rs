//! The inspection of flows, from their opening to a verdict.

use super::flow::{Flow, FlowIndex, State};
use super::flows::Flows;
use super::packet::{Layer4, Sender, Transport};
use super::resources::{Outcome, Resources};
use super::settings::Settings;
use super::{tcp, udp};
use crate::reassembly::BlockIndex;
use crate::shares::Shares;
use crate::verdict::{Found, Reason, Verdict};

/// Why a flow is not inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The owner has as many as its share, or there is no such owner.
    OwnersShare,
    /// All states are in use.
    NoState,
}

/// Flows with a block that are compared for one that gives way.
const COMPARED: usize = 8;

/// Inspects the flows of one worker.
#[derive(Debug)]
pub struct Inspector {
    settings: Settings,
    flows: Flows,
    flow_shares: Shares,
    resources: Resources,
    /// The flow that had each block last.
    holders: Box<[FlowIndex]>,
    /// The block that is looked at next for one that gives way.
    hand: usize,
}

impl Inspector {
    /// An inspector with all its memory.
    pub fn new(settings: Settings) -> Inspector {
        Inspector {
            flows: Flows::new(settings.flows),
            flow_shares: Shares::new(settings.owners, settings.flows_of_owner),
            resources: Resources::new(&settings),
            holders: vec![FlowIndex(0); settings.blocks as usize].into(),
            hand: 0,
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

    /// Says at which sequence number the stream of a flow of TCP begins that is inspected from there on: at the next
    /// request of a connection.
    pub fn start_at(&mut self, index: FlowIndex, sequence: u32) {
        if let Some(flow) = self.flows.get_mut(index)
            && let State::Tcp(start) = &mut flow.state
        {
            *start = Some(sequence);
        }
    }

    /// Ends the inspection of the oldest flow, where there is no state for another, and gives its token: it stays
    /// undetected.
    pub fn close_oldest(&mut self) -> Option<u32> {
        let flow = self.flows.close_oldest(|_| true)?;
        Some(self.end(flow))
    }

    /// Where all blocks are in use, and a flow has none, ends the inspection of another one that has, and gives its
    /// token: of some, one whose owner has the most.
    pub fn make_room_for(&mut self, index: FlowIndex) -> Option<u32> {
        let flow = self.flows.get_mut(index)?;
        let has_room = flow.block.is_some() || self.resources.blocks.free() > 0;
        if has_room || !self.resources.block_shares.has_left(flow.owner) {
            return None;
        }
        let blocks = (0..COMPARED).filter_map(|_| self.next_block());
        let (other, _) = blocks.max_by_key(|(_, taken)| *taken)?;
        let flow = self.flows.close(other)?;
        Some(self.end(flow))
    }

    /// The flow that has the next block, and how many its owner has.
    fn next_block(&mut self) -> Option<(FlowIndex, u16)> {
        let index = *self.holders.get(self.hand)?;
        self.hand = (self.hand + 1) % self.holders.len();
        let flow = self.flows.get_mut(index).filter(|flow| flow.block.is_some())?;
        Some((index, self.resources.block_shares.taken(flow.owner)))
    }

    /// Looks at the next packet of a flow.
    pub fn inspect(&mut self, index: FlowIndex, sender: Sender, packet: &Layer4<'_>) -> Verdict<'_> {
        let Some(flow) = self.flows.get_mut(index) else {
            return Verdict::Undetected(Reason::NotOpen);
        };
        let outcome = match look(&mut self.resources, flow, sender, packet) {
            Outcome::Undecided if flow.has_spent(sender, packet.payload().len(), &self.settings) => {
                Outcome::Undetected(Reason::Budget)
            }
            outcome => outcome,
        };
        let place = flow.block.as_ref().map(BlockIndex::place);
        if let Some(holder) = place.and_then(|place| self.holders.get_mut(place)) {
            *holder = index;
        }
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

    /// Ends the inspection of the oldest flow if it is older than [`Settings::longest_ns`], and gives its token: it
    /// stays undetected. The caller calls it until it gives none.
    pub fn expire(&mut self, now: u64) -> Option<u32> {
        let longest = self.settings.longest_ns;
        let flow = self
            .flows
            .close_oldest(|flow| now.saturating_sub(flow.opened_at) >= longest)?;
        Some(self.end(flow))
    }

    /// Gives back what a flow has that is over, and gives its token.
    fn end(&mut self, flow: Flow) -> u32 {
        let token = flow.token;
        self.give_back(flow);
        token
    }

    /// Whether what has come of a flow begins a message that names a host, or may belong to one.
    pub fn has_begun(&self, index: FlowIndex) -> bool {
        let flow = self.flows.get(index);
        flow.is_some_and(|flow| flow.block.is_some() || matches!(flow.state, State::Quic(_)))
    }

    /// What was found last; nothing that means anything where nothing was.
    pub fn found(&self) -> &Found {
        &self.resources.found
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
        self.resources.give_back(flow);
    }
}

/// What the payload of a packet makes of its flow.
fn look(resources: &mut Resources, flow: &mut Flow, sender: Sender, packet: &Layer4<'_>) -> Outcome {
    let looked = match (packet, flow.state) {
        (
            &Layer4::Tcp {
                sequence,
                has_syn,
                payload,
            },
            State::Tcp(_),
        ) => match sender {
            Sender::Initiator => tcp::look(resources, flow, sequence, has_syn, payload),
            // Of TLS and HTTP the client names the host.
            Sender::Responder => Ok(Outcome::Undecided),
        },
        (Layer4::Udp { payload }, State::Udp(_) | State::Quic(_)) => {
            udp::look(resources, flow, sender, payload)
        }
        _ => Err(Reason::Unknown),
    };
    looked.unwrap_or_else(Outcome::Undetected)
}
