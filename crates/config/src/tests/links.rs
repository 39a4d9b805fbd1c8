//! Mistakes about ports and links: VLANs, LAGs, routers, the host.

use super::super::Bounded;
use super::*;

#[test]
fn a_host_is_on_a_link_by_an_interface_of_its_own() {
    let from = "    vlan: 200\n";
    let with = |host: &str| GOOD.replace(from, &format!("{from}    host: {{{host}}}\n"));
    let config = Config::parse(&with("interface: sluice-n6"), "sluice.yaml").unwrap();
    assert!(config.has_hosts() && config.instances[0].host.is_none());
    let host = config.instances[1].host.as_ref().unwrap();
    let rates = host.rates();
    assert_eq!(
        (host.addresses, rates.urgent, rates.usual),
        (true, 10_000, 10_000)
    );
    let other = with("interface: sluice-n6, addresses: false, urgent_pps: 5, usual_pps: 7");
    let config = Config::parse(&other, "sluice.yaml").unwrap();
    let host = config.instances[1].host.as_ref().unwrap();
    assert_eq!(
        (host.addresses, host.rates().urgent, host.rates().usual),
        (false, 5, 7)
    );
    let twice = with("interface: one").replace("port: ran,", "port: ran, host: {interface: one},");
    let kernel = with("interface: ran0").replace("{memory: {}}", "{af_packet: {interface: ran0}}");
    for (text, words) in [
        (
            with("interface: much-too-long-a-name"),
            "has 20 characters, 1 to 15 are possible",
        ),
        (with("interface: a/b"), "contains `/`"),
        (with("interface: one, usual_pps: 0"), "0 is outside 1..=10000000"),
        (twice, "host: interface: `one` is another's"),
        (kernel, "host: interface: `ran0` is another's"),
    ] {
        assert_says(&refusal(&text), ["line ", words]);
    }
    let told = refusal(&with("interface: a b"));
    assert!(told.contains("instance `internet`: host: interface"), "{told}");
}

#[test]
fn n4_receives_on_an_interface_of_the_host() {
    let with = |device: &str, port: &str| {
        let text = GOOD.replace(
            "addresses: [127.0.0.8]",
            &format!("addresses: [127.0.0.8], device: {device}"),
        );
        text.replace("{memory: {}}", port)
    };
    let config = Config::parse(&with("mgmt0", "{af_packet: {interface: ran0}}"), "sluice.yaml").unwrap();
    assert_eq!(config.n4.device.as_ref().unwrap().value, "mgmt0");
    assert_eq!(
        config.ports[0].driver.as_ref().unwrap().kept_from_host(),
        Some("ran0")
    );
    for port in ["{af_packet: {interface: ran0}}", "{af_xdp: {interface: ran0}}"] {
        let told = refusal(&with("ran0", port));
        assert!(told.contains("n4.device: `ran0` is port `ran`"), "{told}");
    }
    let shared = with("ran0", "{af_packet: {interface: ran0, leave_to_host: true}}");
    let config = Config::parse(&shared, "sluice.yaml").unwrap();
    assert_eq!(config.ports[0].driver.as_ref().unwrap().kept_from_host(), None);
    assert_says(&refusal(&with("a/b", "{memory: {}}")), ["line ", "n4.device: "]);
}

#[test]
fn packet_sockets_alone_have_udp_segmentation() {
    let with = |driver: &str| GOOD.replace("driver: {memory: {}}", &format!("driver: {driver}"));
    for (fields, wanted) in [("", false), (", udp_segmentation: true", true)] {
        let text = with(&format!("{{af_packet: {{interface: ran0{fields}}}}}"));
        let config = Config::parse(&text, "sluice.yaml").unwrap();
        let Some(Driver::AfPacket { udp_segmentation, .. }) = config.ports[0].driver else {
            panic!("{:?}", config.ports[0]);
        };
        assert_eq!(udp_segmentation, wanted);
    }
    let told = refusal(&with("{af_xdp: {interface: ran0, udp_segmentation: true}}"));
    assert!(told.contains("udp_segmentation"), "{told}");
}

#[test]
fn a_packet_socket_takes_jumbo_frames() {
    let text = GOOD.replace(
        "driver: {memory: {}}",
        "driver: {af_packet: {interface: ran0}}, mtu: 9000",
    );
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    assert_eq!(config.ports[0].mtu.value(), 9_000);
}

#[test]
fn a_vlan_is_one_tag_or_two() {
    let tags = |vlan: &str| {
        let text = GOOD.replace("vlan: 200", &format!("vlan: {vlan}"));
        let config = Config::parse(&text, "sluice.yaml").unwrap();
        config.network().unwrap().instances()[1].vlan.unwrap().octets()
    };
    assert_eq!(tags("200"), ([0x81, 0, 0, 200, 0, 0, 0, 0], 4));
    assert_eq!(tags("{outer: 200}"), ([0x81, 0, 0, 200, 0, 0, 0, 0], 4));
    assert_eq!(
        tags("{outer: 200, tpid: 0x88a8}"),
        ([0x88, 0xa8, 0, 200, 0, 0, 0, 0], 4)
    );
    assert_eq!(
        tags("{outer: 200, inner: 30}"),
        ([0x88, 0xa8, 0, 200, 0x81, 0, 0, 30], 8)
    );
    assert_eq!(
        tags("{outer: 200, inner: 30, tpid: 0x8100}"),
        ([0x81, 0, 0, 200, 0x81, 0, 0, 30], 8)
    );
}

#[test]
fn mistakes_in_a_vlan_are_reported() {
    for (vlan, words) in [
        ("0", "0 is outside 1..=4094"),
        ("-1", "-1 is outside 1..=4094"),
        ("ran", "a VLAN id, 1..=4094, or {outer: .., inner: .., tpid: ..}"),
        ("{outer: 0, inner: 30}", "0 is outside 1..=4094"),
        ("{outer: 200, inner: 4095}", "4095 is outside 1..=4094"),
        ("{inner: 30}", "missing field `outer`"),
        ("{outer: 200, iner: 30}", "unknown field `iner`"),
        (
            "{outer: 200, tpid: 0x9100}",
            "tpid: 0x9100 is neither 0x8100 nor 0x88a8",
        ),
    ] {
        assert_says(
            &mistake("vlan: 200", &format!("vlan: {vlan}")),
            ["line 11", words],
        );
    }
    let both = "    vlan: {outer: 200, inner: 30}\n";
    let other = "  - {name: n9, roles: [n9], port: dn, vlan: {outer: 200, inner: 30, tpid: 0x8100}, addresses: [10.9.0.1/24]}\n";
    let text = refusal(&(GOOD.replace("    vlan: 200\n", both) + other));
    assert!(
        text.contains("port: another instance is on `dn` VLAN 200.30"),
        "{text}"
    );
    // The same outer tag alone, or another inner one, is another VLAN.
    for vlan in ["200", "{outer: 200, inner: 31}", "30", "{outer: 30, inner: 200}"] {
        let other = other.replace("{outer: 200, inner: 30, tpid: 0x8100}", vlan);
        Config::parse(&(GOOD.replace("    vlan: 200\n", both) + &other), "sluice.yaml").unwrap();
    }
}

#[test]
fn frames_have_priorities_on_vlans_alone() {
    let flow = |vlan: &str| {
        GOOD.replace(
            "    vlan: 200\n",
            &format!("{vlan}    dscp: [{{qfi: 9, dscp: 10, pcp: 5}}]\n"),
        )
    };
    let network = Config::parse(&flow("    vlan: 200\n"), "sluice.yaml")
        .unwrap()
        .network()
        .unwrap();
    let mut tables = network.instances().iter().filter_map(|one| one.dscp.as_ref());
    assert_eq!(
        tables
            .next()
            .unwrap()
            .get(packet::Qfi::from_low_bits(9))
            .unwrap()
            .pcp,
        5
    );
    assert!(refusal(&flow("")).contains("dscp: pcp of QFI 9: the instance has no vlan"));
}

#[test]
fn routes_to_one_prefix_share_packets_where_they_can() {
    let second = "mac: '02:00:00:00:00:fe'}, {to: 0.0.0.0/0, via: 10.200.0.253}]";
    let both = GOOD.replace("mac: '02:00:00:00:00:fe'}]", second);
    let config = Config::parse(&both, "sluice.yaml").unwrap();
    assert_eq!(config.network().unwrap().groups().len(), 1);
    assert_eq!(config.routers.check().as_millis(), 1000);
    let fast = format!("{GOOD}routers: {{check_ms: 100}}\n");
    assert_eq!(
        Config::parse(&fast, "sluice.yaml")
            .unwrap()
            .routers
            .check()
            .as_millis(),
        100
    );
    let times = config.neighbours.with(&config.routers);
    assert_eq!((times.retry.as_millis(), times.attempts), (1000, 3));
    assert_eq!(times.dad_transmits, 1, "RFC 4862 §5.1");
    assert_eq!((times.reachable.as_secs(), times.hold.as_secs()), (30, 5));
    let quick = format!(
        "{GOOD}neighbours: {{reachable_ms: 300, retry_ms: 100, attempts: 2, hold_ms: 400, dad_transmits: 0}}\nrouters: {{check_ms: 200}}\n"
    );
    let config = Config::parse(&quick, "sluice.yaml").unwrap();
    let times = config.neighbours.with(&config.routers);
    assert_eq!((times.retry.as_millis(), times.attempts), (100, 2));
    assert_eq!(times.dad_transmits, 0);
    assert_eq!((times.reachable.as_millis(), times.hold.as_millis()), (300, 400));
    assert_eq!(times.router_check.as_millis(), 200);
    let never = refusal(&format!("{GOOD}neighbours: {{attempts: 0}}\n"));
    assert!(never.contains("0 is outside 1..=10"), "{never}");
    let many = refusal(&format!("{GOOD}neighbours: {{dad_transmits: 11}}\n"));
    assert!(many.contains("11 is outside 0..=10"), "{many}");
    let twice = refusal(&both.replace("10.200.0.253", "10.200.0.254"));
    assert!(
        twice.contains("via: the route to 0.0.0.0/0 by 10.200.0.254 is configured twice"),
        "{twice}"
    );
    let mixed = mistake(
        "addresses: [10.100.0.1/24]}",
        "addresses: [10.100.0.1/24], routes: [{to: 0.0.0.0/0, via: 10.100.0.254}]}",
    );
    assert!(mixed.contains("in VRF 0; give them VRFs of their own"), "{mixed}");
    let many: String = (1..18)
        .map(|last| format!(", {{to: 0.0.0.0/0, via: 10.200.0.{}}}", 100 + last))
        .collect();
    let many = refusal(&GOOD.replace(
        "mac: '02:00:00:00:00:fe'}]",
        &format!("mac: '02:00:00:00:00:fe'}}{many}]"),
    ));
    assert!(many.contains("0.0.0.0/0: more than 16 routes in VRF 0"), "{many}");
    let broadcast = mistake("via: 10.200.0.254", "via: 10.200.0.255");
    assert!(
        broadcast.contains("10.200.0.255 is the broadcast address of the link"),
        "{broadcast}"
    );
    let slow = refusal(&format!("{GOOD}routers: {{check_ms: 99}}\n"));
    assert!(slow.contains("99") && slow.contains("100"), "{slow}");
}

const GUIDE: &str = include_str!("../../../../docs/guide/network.md");

/// The whole file that the guide has.
fn file_of_the_guide() -> &'static str {
    let (_, rest) = GUIDE.split_once("```yaml\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_file_of_the_guide_is_good_and_means_what_the_guide_says() {
    let config = Config::parse(file_of_the_guide(), "sluice.yaml").unwrap();
    let network = config.network().unwrap();
    let tags = |name: &str| {
        let found = network.instance_by_name(name.as_bytes()).unwrap();
        (found.vlan.unwrap().to_string(), found.vrf.0)
    };
    assert_eq!(tags("access"), ("VLAN 100".into(), 0));
    assert_eq!(tags("internet"), ("VLAN 200".into(), 0));
    assert_eq!(tags("enterprise"), ("VLAN 300".into(), 1));
}

#[test]
fn each_mistake_of_the_guide_is_reported_in_these_words() {
    let file = file_of_the_guide();
    let code = |cell: &str| {
        let cell = cell.trim();
        let doubled = cell.strip_prefix("`` ").and_then(|cell| cell.strip_suffix(" ``"));
        let cell = doubled.or_else(|| cell.strip_prefix('`')?.strip_suffix('`'));
        cell.unwrap().to_owned()
    };
    let (_, table) = GUIDE
        .split_once("| Instead of | Written | It says |\n|---|---|---|\n")
        .unwrap();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let cells: Vec<String> = row.trim_matches('|').split(" | ").map(code).collect();
        let [instead, written, words] = &cells[..] else {
            panic!("{row}")
        };
        assert!(file.contains(instead.as_str()), "{instead}");
        let text = refusal(&file.replacen(instead.as_str(), written, 1));
        assert!(text.contains(words.as_str()), "{row}\n{text}");
        assert!(text.contains("line "), "{text}");
    }
}

/// The good file with a LAG of both ports, which the instances are on.
fn with_lag(lag: &str) -> String {
    let ports = "instances:\n";
    let lag = format!("  - {{name: core, lag: {lag}}}\n{ports}");
    let on_lag = GOOD.replacen(ports, &lag, 1).replace("port: ran", "port: core");
    on_lag.replace("    port: dn", "    port: core")
}

#[test]
fn a_lag_is_read_with_its_defaults() {
    let config = Config::parse(&with_lag("{mode: lacp, members: [ran, dn]}"), "sluice.yaml").unwrap();
    let lags = config.lag_ports();
    assert_eq!(lags.len(), 1);
    assert_eq!(
        (lags[0].port.0, &lags[0].members[..], lags[0].lacp, lags[0].hash),
        (
            2,
            &[flow::PortId(0), flow::PortId(1)][..],
            true,
            worker::LagHash::L34
        )
    );
    assert_eq!(
        config.lag_of("dn").map(|port| port.name.value.as_str()),
        Some("core")
    );
    assert_eq!(config.network().unwrap().instances()[0].port.0, 2);
    for mode in ["balance", "active_backup"] {
        let text = with_lag(&format!("{{mode: {mode}, members: [ran, dn], hash: l3}}"));
        let config = Config::parse(&text, "sluice.yaml").unwrap();
        assert!(!config.lag_ports()[0].lacp && config.lag_ports()[0].hash == worker::LagHash::L3);
    }
    let text = with_lag("{mode: lacp, members: [ran], lacp: {fast: false, system_priority: 1, key: 9}}");
    let config = Config::parse(&text, "sluice.yaml").unwrap();
    let settings = config.ports[2].lag.as_ref().unwrap().lacp.as_ref().unwrap().value;
    assert!(!settings.fast);
    assert_eq!(settings.key.map(Bounded::value), Some(9));
}

#[test]
fn mistakes_in_a_lag_name_it() {
    for (lag, words) in [
        (
            "{mode: lacp, members: [ran, ran]}",
            "`ran` is a member of `core` already",
        ),
        ("{mode: lacp, members: [ran, core]}", "`core` is a LAG itself"),
        (
            "{mode: lacp, members: [ran, nowhere]}",
            "no port is named `nowhere`",
        ),
        ("{mode: bond, members: [ran]}", "unknown variant `bond`"),
        ("{members: [ran]}", "missing field `mode`"),
        (
            "{mode: balance, members: [ran], lacp: {fast: true}}",
            "lag.lacp: the mode is balance, not lacp",
        ),
        (
            "{mode: lacp, members: [ran], lacp: {key: 0}}",
            "0 is outside 1..=65535",
        ),
        (
            "{mode: lacp, members: [ran], lacp: {rate: fast}}",
            "unknown field `rate`",
        ),
        ("{mode: lacp, members: [ran], hash: l2}", "unknown variant `l2`"),
        (
            "{mode: lacp, members: [ran, dn]}, mtu: 9000",
            "`ran` has an MTU of 1500, less than the 9000 of the LAG",
        ),
        (
            "{mode: lacp, members: [ran, dn]}, driver: {memory: {}}",
            "port `core`: driver beside lag",
        ),
    ] {
        assert_says(&refusal(&with_lag(lag)), [words, "line 6"]);
    }
    let text = with_lag("{mode: lacp, members: [ran, dn]}").replacen("port: core", "port: dn", 1);
    assert!(refusal(&text).contains("port: `dn` is a member of `core`: name that one"));
    let text = with_lag("{mode: lacp, members: [ran, dn]}")
        .replace("    vlan: 200\n", "    vlan: 200\n    mirror: ran\n");
    assert!(refusal(&text).contains("mirror: `ran` is a member of `core`"));
}

#[test]
fn senders_are_notified_as_often_as_configured() {
    let rates = |more: &str| {
        let text = format!("{GOOD}{more}");
        Config::parse(&text, "sluice.yaml").unwrap().icmp.rates()
    };
    assert_eq!(rates(""), (10_000, 20));
    assert_eq!(rates("icmp: {errors_per_session_s: 3}\n"), (10_000, 3));
    assert_eq!(rates("icmp: {errors_s: 0, errors_per_session_s: 0}\n"), (0, 0));
    let much = refusal(&format!("{GOOD}icmp: {{errors_s: 1000001}}\n"));
    assert!(much.contains("1000001 is outside 0..=1000000"), "{much}");
    let unknown = refusal(&format!("{GOOD}icmp: {{errors: 3}}\n"));
    assert!(
        unknown.contains("`errors`") && unknown.contains("errors_per_session_s"),
        "{unknown}"
    );
}

#[test]
fn mistakes_about_checksums_are_reported() {
    let with = |checksums: &str| mistake("name: ran,", &format!("name: ran, checksums: {checksums},"));
    assert_says(
        &with("hardware"),
        ["line ", "`hardware`, expected one of auto, software"],
    );
    let lag = "ports:\n  - {name: both, checksums: software, lag: {mode: balance, members: [ran]}}\n";
    assert_says(
        &refusal(&GOOD.replace("ports:\n", lag).replace("port: ran", "port: both")),
        ["line ", "port `both`: checksums beside lag"],
    );
}

#[test]
fn addresses_that_no_host_has_and_networks_with_host_bits_are_reported() {
    let own = "addresses: [10.200.0.1/24, '2001:db8::1/64']";
    let route = "{to: 0.0.0.0/0, via: 10.200.0.254, mac: '02:00:00:00:00:fe'}";
    for (from, to, words) in [
        (
            "10.100.0.1/24",
            "127.0.0.1/24",
            "addresses: 127.0.0.1/24 is of the loopback",
        ),
        (
            "10.100.0.1/24",
            "10.100.0.0/24",
            "10.100.0.0/24 is the network's own address",
        ),
        (
            "10.100.0.1/24",
            "10.100.0.255/24",
            "is the broadcast address of the link",
        ),
        ("10.100.0.1/24", "250.0.0.1/24", "250.0.0.1/24 is reserved"),
        ("10.100.0.1/24", "10.100.0.1/0", "has a link to everywhere"),
        (
            own,
            "addresses: [10.200.0.1/24, 'fe80::1/64']",
            "fe80::1/64 is of the link alone",
        ),
        (
            own,
            "addresses: [10.200.0.1/24, '::ffff:10.0.0.1/120']",
            "an IPv4 address in IPv6 form",
        ),
        (
            own,
            "addresses: [10.200.0.1/24, 'fe80::1%eth0/64']",
            "; it has no zone",
        ),
        (
            route,
            "{to: 10.9.0.1/16, via: 10.200.0.254}",
            "to: 10.9.0.1/16 has bits behind its length: 10.9.0.0/16",
        ),
        (
            route,
            "{to: 224.0.0.0/4, via: 10.200.0.254}",
            "to: 224.0.0.0/4 is multicast",
        ),
        (
            route,
            "{to: '::/0', via: 'ff02::2'}",
            "ff02::2 is multicast: a router has an address of",
        ),
        (
            "02:00:00:00:00:fe",
            "00:00:00:00:00:00",
            "no station has the address of zeros",
        ),
        (
            "vlan: 200",
            "vlan: 200\n    mirror: dn",
            "`dn` is the port of the instance itself",
        ),
        (
            "addresses: [127.0.0.8]",
            "addresses: []",
            "there must be at least one",
        ),
        (
            "vlan: 200",
            "vlan: 200\n    vrf: one",
            "no whole number from 0 to 1023",
        ),
    ] {
        assert_says(&mistake(from, to), ["line ", words]);
    }
}

#[test]
fn an_interface_of_two_ports_and_the_loopback_are_refused() {
    let both = GOOD.replace("{memory: {}}", "{af_packet: {interface: eth1}}");
    let both = both.replace(
        "{pci: {address: '0000:3b:00.1'}}",
        "{af_packet: {interface: eth1}}",
    );
    assert!(refusal(&both).contains("interface: `eth1` is port `ran` already"));
    let same = GOOD.replace("{memory: {}}", "{pci: {address: '3B:00.1'}}");
    assert!(refusal(&same).contains("address: `0000:3b:00.1` is port `ran` already"));
    for driver in ["af_packet", "af_xdp"] {
        let loopback = GOOD.replace("{memory: {}}", &format!("{{{driver}: {{interface: lo}}}}"));
        assert_says(
            &refusal(&loopback),
            [
                "line ",
                "port `ran`: interface: `lo` is the host's loopback, which cannot be a port",
            ],
        );
    }
}

#[test]
fn pools_with_host_bits_routers_or_overlaps_are_refused() {
    let pools = |more: &str| {
        refusal(&format!(
            "{GOOD}pools:\n  - {{name: one, instance: internet, {more}}}\n"
        ))
    };
    assert!(pools("ipv4: [10.45.0.1/16]").contains("10.45.0.0/16 is meant?"));
    assert!(pools("ipv6: [{prefix: 'fe80::/36'}]").contains("prefix: fe80::/36 is of the link alone"));
    let told = pools("ipv4: [10.200.0.128/25]");
    assert!(told.contains("10.200.0.254 in it is a router"), "{told}");
    let told = pools("ipv4: [10.45.0.0/16, 10.45.1.0/24]");
    assert!(
        told.contains("overlaps an earlier range of VRF 0, of pool `one`"),
        "{told}"
    );
}

#[test]
fn tunnels_need_no_ipv4_and_routers_no_address_of_the_links_prefix() {
    let alone = GOOD
        .replace("addresses: [10.100.0.1/24]", "addresses: ['2001:db8:3::1/64']")
        .replace(
            "{to: 0.0.0.0/0, via: 10.200.0.254, mac: '02:00:00:00:00:fe'}",
            "{to: '::/0', via: 'fe80::1'}, {to: '::/0', via: 'fe80::2'}",
        );
    let config = Config::parse(&alone, "sluice.yaml").expect("nothing contradicts");
    let network = config.network().expect("nothing contradicts");
    let n3 = &network.instances()[0];
    assert_eq!((n3.ipv4, n3.ipv6.is_some()), (None, true));
    assert_eq!(network.groups().len(), 1, "two link-local routers share packets");
    let without = "addresses: [10.200.0.1/24, '2001:db8::1/64']";
    assert_says(
        &refusal(&alone.replace(without, "addresses: [10.200.0.1/24]")),
        ["line ", "via: fe80::1 is asked for by Neighbour Discovery"],
    );
}
