//! What of a pool its configuration gives to certain UEs.

use std::fmt;
use std::net::Ipv4Addr;

/// What of a pool is for certain UEs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The prefix of the UEs from whose addresses blocks follow, an address of it and its length. A session of another
    /// UE has no block, and none is drawn. `None`: blocks are drawn.
    pub deterministic: Option<(Ipv4Addr, u8)>,
    /// Port forwards.
    pub forwards: Vec<Forward>,
}

/// A public port that stands for a port of a UE as long as the UE has a session. The block that it is in is the UE's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Forward {
    /// The UE's own address.
    pub ue: Ipv4Addr,
    /// Its port.
    pub port: u16,
    /// TCP or UDP, by its number (6 or 17).
    pub protocol: u8,
    /// The public address.
    pub public: Ipv4Addr,
    /// The public port.
    pub public_port: u16,
}

/// Why a port forward cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardError {
    /// Its protocol has no ports.
    Protocol,
    /// The public address and port are in no block of the pool.
    NoBlock,
    /// Another forward has the public port.
    PublicPort,
    /// Another forward has the UE's port.
    Port,
    /// The block of the public port is of this UE, or of no UE where all blocks follow from addresses.
    Block(Option<Ipv4Addr>),
    /// The UE has forwards of this public address, and all its ports are of one.
    Address(Ipv4Addr),
    /// The forwards of the UE are in more blocks than a session may have: these.
    Blocks(u8),
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol => write!(f, "the protocol has no ports"),
            Self::NoBlock => write!(
                f,
                "the public address and port are in no whole block of the pool's ports"
            ),
            Self::PublicPort => write!(f, "another forward has the public port"),
            Self::Port => write!(f, "another forward has the UE's port"),
            Self::Block(Some(ue)) => write!(f, "the block of the public port is of UE {ue}"),
            Self::Block(None) => write!(f, "the block of the public port is of no UE"),
            Self::Address(public) => {
                write!(
                    f,
                    "the UE has forwards of {public}, and all its ports are of one address"
                )
            }
            Self::Blocks(most) => write!(f, "the forwards of the UE are in more than {most} blocks"),
        }
    }
}

impl core::error::Error for ForwardError {}

/// Why a prefix cannot be mapped to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeterministicError {
    /// There is no pool with this number.
    NoPool(u16),
    /// A prefix of IPv4 has at most 32 bits.
    Length(u8),
    /// The prefix has more addresses than the pool has blocks.
    TooSmall {
        /// How many addresses the prefix has.
        addresses: u64,
        /// How many blocks the pool has.
        blocks: u32,
    },
}

impl fmt::Display for DeterministicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool(id) => write!(f, "there is no pool {id}"),
            Self::Length(len) => write!(f, "a prefix of IPv4 has at most 32 bits, not {len}"),
            Self::TooSmall { addresses, blocks } => {
                write!(
                    f,
                    "the prefix has {addresses} addresses, and the pool {blocks} blocks"
                )
            }
        }
    }
}

impl core::error::Error for DeterministicError {}
