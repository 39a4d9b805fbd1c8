//! Descriptors of the ports' rings.

use super::*;
use crate::Descriptors;

/// Of both ports of `GOOD`, with more sections.
fn descriptors(ran: &str, sections: &str) -> [Descriptors; 2] {
    let text = GOOD.replace("name: ran,", &format!("name: ran,{ran}")) + sections;
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    [0, 1].map(|port| config.descriptors(&config.ports[port]))
}

fn both(receive: u16) -> [Descriptors; 2] {
    [Descriptors {
        receive,
        transmit: 1_024,
    }; 2]
}

#[test]
fn receive_rings_take_half_of_the_buffers() {
    for (sections, receive) in [
        ("", 8_192),
        ("workers: {count: 2}\n", 4_096),
        ("workers: {count: 3}\n", 2_048),
        ("workers: {count: 16}\n", 1_024),
        ("workers: {count: 2}\ndpdk: {buffers: 65536}\n", 8_192),
        ("dpdk: {buffers: 2048}\n", 1_024),
        ("dpdk: {buffers: 16777216}\n", 8_192),
    ] {
        assert_eq!(descriptors("", sections), both(receive), "{sections}");
    }
}

#[test]
fn a_port_that_names_its_descriptors_has_them_both_ways() {
    let [ran, dn] = descriptors(" descriptors: 512,", "");
    assert_eq!((ran.receive, ran.transmit), (512, 512));
    assert_eq!([dn; 2], both(8_192));
}

#[test]
fn packet_sockets_have_fewer() {
    let text = GOOD.replacen("{memory: {}}", "{af_packet: {interface: n3}}", 1);
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    let [ran, dn] = [0, 1].map(|port| config.descriptors(&config.ports[port]).receive);
    assert_eq!((ran, dn), (2_048, 8_192));
}

#[test]
fn a_lag_has_no_rings_of_its_own() {
    let lag = "  - {name: core, lag: {members: [dn], mode: balance}}\ninstances:\n";
    let text = GOOD
        .replace("instances:\n", lag)
        .replace("    port: dn\n", "    port: core\n");
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    assert_eq!(config.descriptors(&config.ports[0]).receive, 8_192);
}
