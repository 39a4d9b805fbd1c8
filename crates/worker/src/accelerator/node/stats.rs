//! What a node has counted.

/// What happened between a node and its host, since the start. What the engine counts is not in it, nor what the
/// channel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Control frames that came; the channel says what became of them.
    pub control: u64,
    /// Frames of the host's port that are neither of the protocol nor from the host, by their addresses, VLAN and
    /// EtherType.
    pub ignored: u64,
    /// Exception frames of the host that cannot be read, or name no port of the network.
    pub malformed: u64,
    /// Packets that the host sent by a port.
    pub sent: u64,
    /// Packets that the host gave back with their flow, which was put.
    pub through: u64,
    /// The same that are not authentic, or of no contact.
    pub forged: u64,
    /// The same that were there before.
    pub replayed: u64,
    /// The same whose flow was refused: the packet went to the host again.
    pub refused: u64,
    /// Frames with questions that were sent, and those that found no room.
    pub questions: u64,
    /// See [`questions`](Self::questions).
    pub questions_lost: u64,
    /// Frames with answers.
    pub answers: u64,
    /// Packets that were given to the host, by [`Class`](offload::exception::Class).
    pub exceptions: [u64; 3],
    /// Packets for the host, whether they found room or not, whose bucket was said.
    pub steered: u64,
    /// Packets for the host that found no room on its port, or no host, by class.
    pub lost: [u64; 3],
    /// Packets for the host that its port's MTU or their buffers have no room for.
    pub too_long: u64,
    /// Packets for the host that were exchanged too often.
    pub too_many_hops: u64,
    /// Control frames that found no room: the channel sends again.
    pub control_lost: u64,
    /// Markers that were sent.
    pub markers: u64,
    /// Markers that came back, in order.
    pub echoes: u64,
}
