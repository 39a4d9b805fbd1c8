//! The tunnels of a session, and the source interfaces that packets in them come from.

use flow::Direction;
use packet::Teid;
use smallvec::SmallVec;

use crate::compile_error::CompileFault;
use crate::model::{FTeid, SourceInterface};
use crate::network::{LocalId, Network};

/// A tunnel that ends here: the local address and the TEID.
pub(crate) type Tunnel = (LocalId, Teid);

/// The tunnels of one F-TEID.
pub(crate) type Tunnels = SmallVec<[Tunnel; 2]>;

/// A set of source interfaces: bit n is value n.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Interfaces(pub(super) u16);

impl Interfaces {
    /// What plain packets come from: the data network, in either word.
    pub(super) const PLAIN: Self =
        Self(1 << SourceInterface::Core.value() | 1 << SourceInterface::SgiLan.value());

    pub(super) const fn contains(self, interface: SourceInterface) -> bool {
        self.0 >> (interface.value() & 0x0f) & 1 != 0
    }

    /// Of packets that UEs send. The bit is that of no interface.
    const UPLINK: u16 = 1 << 15;

    /// Which way packets go that come from these: uplink from Access, unless they are forwarded indirectly.
    pub(super) const fn direction(self) -> Direction {
        match self.0 & Self::UPLINK != 0 {
            true => Direction::Uplink,
            false => Direction::Downlink,
        }
    }

    /// The same, of packets that UEs send, if `is_uplink`.
    pub(super) const fn with_uplink(self, is_uplink: bool) -> Self {
        match is_uplink {
            true => Self(self.0 | Self::UPLINK),
            false => self,
        }
    }

    pub(super) const fn with(self, interface: SourceInterface) -> Self {
        Self(self.0 | 1 << (interface.value() & 0x0f))
    }
}

/// The tunnels of an F-TEID: one for each of its addresses.
pub(crate) fn tunnels(f_teid: FTeid, network: &Network) -> Result<Tunnels, CompileFault> {
    let own = |address| match network.local(address) {
        Some((instance, local)) if network.ends_tunnels(instance) => Ok((local, f_teid.teid)),
        _ => Err(CompileFault::NotLocal(address)),
    };
    let mut tunnels = Tunnels::new();
    for address in f_teid.addresses() {
        tunnels.push(own(address)?);
    }
    if tunnels.is_empty() || f_teid.teid == Teid::ZERO {
        return Err(CompileFault::FTeidIncomplete);
    }
    Ok(tunnels)
}
