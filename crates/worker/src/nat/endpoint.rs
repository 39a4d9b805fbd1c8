//! An address and a port: a public one, or a UE's own.

use packet::icmp_rewrite;

/// An end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub address: [u8; 4],
    pub port: u16,
}

impl From<Endpoint> for icmp_rewrite::Endpoint {
    fn from(Endpoint { address, port }: Endpoint) -> Self {
        Self { address, port }
    }
}
