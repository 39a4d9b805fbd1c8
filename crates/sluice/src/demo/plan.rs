//! The demo's world: one N3 and one N6 on memory ports, sixteen gNBs, one server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use packet::MacAddr;
use sim::smf::{Config as SmfConfig, Servers, Subscribers};
use sim::station::StationConfig;
use sim::traffic::{Sizes, Traffic};

/// Options of the demo.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seconds of traffic.
    pub seconds: u64,
    /// PDU sessions.
    pub sessions: u32,
    /// Workers.
    pub workers: u16,
    /// Packets offered a second, both directions and all workers together.
    pub rate: u64,
    /// Octets of each user packet.
    pub size: u16,
    /// Let packets come in at any worker, as from a NIC that cannot see inner headers, rather than at their owner.
    pub scatter: bool,
    /// Serve the API and the page meanwhile.
    pub ui: bool,
}

const N3: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 1);
const N6: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 254);
/// In the test network 001/01 (ITU-T E.212).
const FIRST_IMSI: u64 = 1_010_000_000_001;
/// gNBs have the addresses after 10.100.0.1.
const GNBS: u8 = 16;

/// Where the UEs' packets go.
pub(super) const SERVERS: Servers = Servers {
    ipv4: SERVER,
    ipv6: Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, 0xfe),
    port: 5_000,
    ue_port: 40_000,
    ue_ports: 4,
};

fn gnbs() -> Vec<IpAddr> {
    (0..GNBS)
        .map(|n| Ipv4Addr::new(10, 100, 0, 2 + n).into())
        .collect()
}

/// The UPF's configuration, in the words that an operator would use.
pub(super) fn configuration(options: &Options) -> String {
    let Options {
        workers, sessions, ..
    } = options;
    // Two entries a session, and room for the table's load factor.
    let flows = (u64::from(*sessions) * 4).max(1_024);
    format!(
        "node: {{id: 127.0.0.8}}\n\
         n4: {{addresses: [127.0.0.8], peers: [127.0.0.0/8]}}\n\
         workers: {{count: {workers}}}\n\
         limits: {{sessions: {sessions}, flows_ipv4: {flows}}}\n\
         dpdk: {{memory_mib: 512, buffers: 131072}}\n\
         ports:\n\
         \x20 - {{name: ran, driver: {{memory: {{}}}}, descriptors: 8192}}\n\
         \x20 - {{name: dn, driver: {{memory: {{}}}}, descriptors: 8192}}\n\
         instances:\n\
         \x20 - {{name: access, roles: [n3], port: ran, addresses: [{N3}/16]}}\n\
         \x20 - {{name: internet, roles: [n6], port: dn, addresses: [{N6}/16],\n\
         \x20    routes: [{{to: 0.0.0.0/0, via: {SERVER}}}]}}\n"
    )
}

/// The SMF: IPv4 sessions whose downlink waits for the gNB, as real SMFs set them up.
pub(super) fn smf(sessions: u32, address: IpAddr) -> SmfConfig {
    let mut config = SmfConfig::new(address, sessions);
    config.profile.gnbs = gnbs();
    config.profile.subscribers = Some(Subscribers {
        first_imsi: FIRST_IMSI,
        dnn: "internet".to_owned(),
    });
    config
}

fn station(id: u8, addresses: Vec<IpAddr>, gateway: Ipv4Addr) -> StationConfig {
    StationConfig {
        mac: MacAddr([2, 0, 0, 0, 1, id]),
        vlan: None,
        addresses,
        gateway_ipv4: Some(gateway),
        gateway_ipv6: None,
        gateway_mac: None,
    }
}

/// The gNBs behind one switch port.
pub(super) fn gnb_station() -> StationConfig {
    station(1, gnbs(), N3)
}

/// The data network.
pub(super) fn dn_station() -> StationConfig {
    station(2, vec![SERVER.into()], N6)
}

/// The part of the load that the flows of `share` have, of `flows` in all: each flow has the same part, without
/// rounding losses over all flows.
fn rate(rate: u64, share: &Range<u32>, flows: u32) -> u64 {
    let up_to = |end: u32| u128::from(rate) * u128::from(end) / u128::from(flows.max(1));
    (up_to(share.end) - up_to(share.start)) as u64
}

/// One worker's part of the load, for its share of `flows` flows: half of it uplink.
pub(super) fn traffic(options: &Options, place: u32, share: &Range<u32>, flows: u32) -> Traffic {
    Traffic {
        rate: rate(options.rate, share, flows),
        uplink_share: 500,
        uplink_sizes: Sizes::fixed(options.size),
        downlink_sizes: Sizes::fixed(options.size),
        seed: u64::from(place) + 1,
        ..Traffic::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_shared_by_flows() {
        for (ends, flows, rates) in [
            ([0, 1], 1, [0, 1_000]),
            ([1, 3], 3, [333, 667]),
            ([5, 5], 5, [1_000, 0]),
            ([0, 0], 0, [0, 0]),
        ] {
            let [first, all] = ends;
            assert_eq!(
                [0..first, first..all].map(|share| rate(1_000, &share, flows)),
                rates
            );
        }
    }
}
