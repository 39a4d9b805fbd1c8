//! What a node shows.

use offload::channel::Channel;
use offload::exception::Reason;
use packet::MacAddr;

use super::{Node, NodeStats};
use crate::Stats;
use crate::accelerator::asking::AskingStats;
use crate::accelerator::settling::SettlingStats;
use crate::io::Io;
use crate::view::EgressCounts;

/// A node as it is now, and what it has counted since its start.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Its host, while there is contact.
    pub host: Option<MacAddr>,
    /// Whether it holds no sessions: it does not, or its host gives none.
    pub is_partial: bool,
    /// Contacts with a host, of all channels.
    pub contacts: u64,
    /// The channels that the host has, one for each of its workers.
    pub channels: Vec<ChannelView>,
    /// Frames of the host's port that the channels have discarded.
    pub discarded: u64,
    /// What a worker counts, too; `None` before the first poll.
    pub path: Option<Stats>,
    /// Exceptions by [`Reason::index`].
    pub exceptions: [u64; Reason::COUNT],
    /// Exceptions that found no room.
    pub exceptions_lost: u64,
    /// Between node and host.
    pub node: NodeStats,
    /// Requests of the host that were carried out, or refused.
    pub requests: u64,
    /// Events that were reported to the host, or wait to be.
    pub events: u64,
    /// Flows that settle, and have.
    pub settling: SettlingStats,
    /// Packets that wait for answers of the host, and have.
    pub asking: AskingStats,
    /// Whether the host answers questions.
    pub asks: bool,
    /// Flow entries, those that no packet can use any more included.
    pub flows: usize,
    /// Sessions of which the host has given anything.
    pub sessions: usize,
    /// Queues before its ports; `None` where there can be none.
    pub queues: Option<EgressCounts>,
}

/// A channel to a worker of the host, and what it has counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelView {
    /// Its number.
    pub channel: u8,
    /// Whether there is contact.
    pub is_up: bool,
    /// Contacts.
    pub contacts: u64,
    /// Sessions that it has given.
    pub sessions: usize,
    /// Requests that were carried out, or refused.
    pub requests: u64,
    /// Frames that were sent again.
    pub retransmissions: u64,
    /// Frames that were discarded.
    pub discarded: u64,
}

impl<I: Io> Node<I> {
    fn channel_views(&self) -> Vec<ChannelView> {
        let agent = self.agent();
        let view = |(place, channel): (usize, &Channel)| ChannelView {
            channel: channel.config().channel,
            is_up: agent.is_served_by(place),
            contacts: agent.contacts_by(place),
            sessions: match agent.channels() {
                1 => agent.backend().sessions(),
                _ => agent.sessions_by(place),
            },
            requests: agent.requests_by(place),
            retransmissions: channel.stats().retransmissions,
            discarded: channel.stats().discards.iter().sum(),
        };
        agent.all_channels().enumerate().map(view).collect()
    }

    /// What it shows.
    pub fn view(&self) -> NodeView {
        let agent = self.agent();
        let discards = agent.all_channels().flat_map(|channel| channel.stats().discards);
        let engine = self.engine().stats();
        NodeView {
            host: agent.all_channels().find_map(|channel| channel.peer_mac()),
            is_partial: self.is_partial(),
            contacts: agent.stats().contacts,
            channels: self.channel_views(),
            discarded: discards.sum(),
            path: Some(engine.path.clone()),
            exceptions: *engine.exceptions,
            exceptions_lost: engine.exceptions_lost,
            node: *self.stats(),
            requests: agent.stats().requests,
            events: agent.stats().events,
            settling: engine.settling,
            asking: engine.asking,
            asks: self.engine().asks(),
            flows: engine.flows,
            sessions: agent.backend().sessions(),
            queues: self.engine().queue_counts(),
        }
    }
}
