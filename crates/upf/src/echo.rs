//! Echo Requests of our own as frames: out of the instance that routes to the peer, by the first worker.

use flow::{AdjacencyId, Nanos, PortId};
use n4::Echo;
use packet::build::packet::addrs;
use packet::build::{Envelope, echo_request};
use rules::network::Network;
use rules::network::multipath::{NextHop, Spread};
use transport::Neighbours;

/// Octets of the longest: IPv6, UDP, GTP-U with a sequence number.
const LONGEST: usize = 40 + 8 + 12;

/// The slot of the next hop of an Echo Request, asked for if it is new.
fn next_hop(now: Nanos, network: &Network, neighbours: &mut Neighbours, echo: &Echo) -> Option<AdjacencyId> {
    let (instance, _) = network.local(echo.path.local)?;
    let vrf = network.instance(instance)?.vrf;
    match network.next_hop(vrf, echo.path.peer)? {
        NextHop::Neighbour(egress, address) => neighbours.resolve(now, egress, address).ok(),
        NextHop::Group(group) => {
            let spread = Spread::between(echo.path.local, echo.path.peer);
            neighbours.router_of_path(group, spread.path())
        }
    }
}

/// The frame of an Echo Request. `None` while the next hop is not resolved, which is then asked for: the path is as
/// good as silent.
pub(super) fn frame(
    now: Nanos,
    network: &Network,
    neighbours: &mut Neighbours,
    echo: &Echo,
) -> Option<(PortId, Vec<u8>)> {
    let id = next_hop(now, network, neighbours, echo)?;
    let adjacency = neighbours
        .adjacency(id)
        .filter(|adjacency| adjacency.is_resolved())?;
    let addrs = addrs(echo.path.local, echo.path.peer)?;
    let mut packet = [0; LONGEST];
    let length = echo_request(&mut packet, &Envelope::between(addrs), echo.sequence)?;
    let ether_type: u16 = if echo.path.peer.is_ipv4() { 0x0800 } else { 0x86dd };
    let mut bytes = adjacency.header().to_vec();
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(packet.get(..length)?);
    Some((adjacency.port(), bytes))
}
