//! How much is inspected.

/// How much is inspected, and with how much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Flows that are inspected at the same time. A state is 64 octets.
    pub flows: u32,
    /// Blocks for messages of several packets, of [`crate::reassembly::BLOCK_OCTETS`] octets each.
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
