//! Every mistake a person can make gets its file, line, field, value and bound.

mod accelerator;
mod access_lists;
mod alarms;
mod applications;
mod changes;
mod control;
mod domain_lists;
mod egress;
mod links;
mod nat;
mod nat_choice;
mod ndpi;
mod resolvers;
mod rings;
mod slice_workers;

use std::time::Duration;

use rules::network::{EventLogic, Mss, Network};

use super::{AtStop, Config, Driver, WhenFull};

const GOOD: &str = "\
node: {id: upf1.example.org}
n4: {addresses: [127.0.0.8]}
ports:
  - {name: ran, driver: {memory: {}}}
  - {name: dn, driver: {pci: {address: '0000:3b:00.1'}}}
instances:
  - {name: access, roles: [n3, n9], port: ran, addresses: [10.100.0.1/24]}
  - name: internet
    roles: [n6]
    port: dn
    vlan: 200
    addresses: [10.200.0.1/24, '2001:db8::1/64']
    routes: [{to: 0.0.0.0/0, via: 10.200.0.254, mac: '02:00:00:00:00:fe'}]
";

fn refusal(text: &str) -> String {
    Config::parse(text, "sluice.yaml")
        .expect_err("this configuration has a mistake")
        .to_string()
}

/// The message about `GOOD` with `from` replaced by `to`.
fn mistake(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from} is not in the good configuration");
    refusal(&GOOD.replace(from, to))
}

/// That a message has these words.
#[track_caller]
fn assert_says(message: &str, words: [&str; 2]) {
    assert!(
        words.iter().all(|words| message.contains(words)),
        "{words:?}: {message}"
    );
}

/// The network of a configuration without mistakes.
fn network(text: &str) -> Network {
    Config::parse(text, "sluice.yaml").unwrap().network().unwrap()
}

#[test]
fn the_cache_of_responses_holds_what_peers_may_ask_for_again() {
    let cache = |more: &str| {
        let text = GOOD.replace(
            "n4: {addresses: [127.0.0.8]",
            &format!("n4: {{addresses: [127.0.0.8]{more}"),
        );
        Config::parse(&text, "test").unwrap().n4.response_cache()
    };
    assert_eq!(cache(""), 3 * 25_000 * 512);
    assert_eq!(cache(", t1_ms: 2500, n1: 4"), 10 * 25_000 * 512);
    assert_eq!(cache(", t1_ms: 50, n1: 1"), 16 << 20);
    assert_eq!(cache(", t1_ms: 60000, n1: 10"), 1 << 30);
    assert_eq!(cache(", response_cache_bytes: 65536"), 65_536);
}

#[test]
fn a_good_file_is_read_with_its_defaults() {
    let config = Config::parse(GOOD, "sluice.yaml").unwrap();
    assert_eq!(config.node.id.0.to_string(), "upf1.example.org");
    assert_eq!(
        (
            config.n4.port.value(),
            config.n4.n1.value(),
            config.n4.t1().as_millis()
        ),
        (8805, 3, 1000)
    );
    assert_eq!(
        config.ports[1].driver.clone().unwrap(),
        Driver::Pci {
            address: "0000:3b:00.1".into()
        }
    );
    assert_eq!(
        (config.workers.count.value(), config.limits.sessions.value()),
        (1, 10_000)
    );
}

#[test]
fn peers_speak_over_what_is_configured() {
    let peers = "[127.0.0.8], peers: [10.0.0.0/8, {prefix: 10.1.0.9/24, interface: sxab}, {prefix: '2001:db8::/64'}, \
         {prefix: 10.2.0.3/32, usage_information: false}, \
         {prefix: 10.2.0.4/32, interface: n4, usage_information: true}]";
    let config = Config::parse(&GOOD.replace("[127.0.0.8]", peers), "sluice.yaml").unwrap();
    let peers = config.n4.peers.iter().filter_map(|peers| peers.value.peers());
    let told: Vec<_> = peers
        .map(|peers| {
            (
                peers.prefix.to_string(),
                peers.interfaces,
                peers.usage_information,
            )
        })
        .collect();
    let expected = [
        ("10.0.0.0/8", n4::Interfaces::ANY, true),
        ("10.1.0.0/24", n4::Interfaces::SXA_SXB, true),
        ("2001:db8::/64", n4::Interfaces::ANY, true),
        ("10.2.0.3/32", n4::Interfaces::ANY, false),
        ("10.2.0.4/32", n4::Interfaces::N4, true),
    ];
    assert_eq!(
        told,
        expected.map(|(prefix, on, information)| (prefix.to_string(), on, information))
    );
}

#[test]
fn smfs_are_asked_from_our_address_of_their_family() {
    let addresses = "[127.0.0.8, '::1', 127.0.0.7], smfs: ['2001:db8::9', 127.0.0.9]";
    let config = Config::parse(&GOOD.replace("[127.0.0.8]", addresses), "sluice.yaml").unwrap();
    let asked: Vec<_> = config
        .n4
        .smfs()
        .map(|smf| format!("{} from {}", smf.address, smf.local))
        .collect();
    assert_eq!(
        asked,
        ["2001:db8::9 from [::1]:8805", "127.0.0.9 from 127.0.0.8:8805"]
    );
    assert_eq!(
        (
            config.n4.setup_retry_s.value(),
            config.n4.setup_retry_most_s.value()
        ),
        (5, 300)
    );
}

#[test]
fn packets_that_wait_leave_room_for_those_that_come() {
    let message = mistake(
        "ports:\n",
        "buffering: {packets: 2000}\ndpdk: {buffers: 2048}\nports:\n",
    );
    assert!(
        message.contains("buffering.packets: 2000 is more than half of dpdk.buffers, which is 1024"),
        "{message}"
    );
}

#[test]
fn the_example_is_good_and_makes_a_network() {
    let example = include_str!("../../../examples/sluice.yaml");
    let config = Config::parse(example, "examples/sluice.yaml").unwrap();
    let network = config.network().unwrap();
    assert_eq!(network.instances().len(), 2);
    assert!(network.instance_by_name(b"\x08internet").is_some());
    assert_eq!(config.static_neighbours().count(), 1);
}

#[test]
fn qos_flows_are_marked_as_the_instance_says() {
    let from = "    vlan: 200\n";
    let marks = "    vlan: 200\n    dscp: [{qfi: 1, dscp: 46}, {qfi: 63, dscp: 10, yellow: 12}]\n";
    let network = network(&GOOD.replace(from, marks));
    assert_eq!(network.instances()[0].dscp, None);
    let table = network.instances()[1].dscp.as_ref().unwrap();
    let mark = |qfi| {
        let mark = table.get(packet::Qfi::from_low_bits(qfi))?;
        Some((mark.green.get(), mark.yellow.get()))
    };
    assert_eq!(
        [mark(1), mark(63), mark(9)],
        [Some((46, 46)), Some((10, 12)), None]
    );
    for (marks, words) in [
        ("[{qfi: 64, dscp: 0}]", "64 is outside 0..=63"),
        ("[{qfi: 1, dscp: 64}]", "64 is outside 0..=63"),
        ("[{qfi: 1, dscp: 1, yellow: 99}]", "99 is outside 0..=63"),
        (
            "[{qfi: 1, dscp: 1}, {qfi: 1, dscp: 2}]",
            "dscp: QFI 1 is configured twice",
        ),
        ("[{qfi: 1}]", "dscp"),
    ] {
        assert_says(
            &mistake(from, &format!("    vlan: 200\n    dscp: {marks}\n")),
            ["line 12", words],
        );
    }
}

#[test]
fn tcp_connections_agree_on_what_the_instance_says() {
    let from = "    vlan: 200\n";
    for (said, mss) in [
        ("off", Mss::Off),
        ("auto", Mss::Auto),
        ("536", Mss::AtMost(536)),
        ("9176", Mss::AtMost(9176)),
    ] {
        let text = GOOD.replace(from, &format!("    vlan: 200\n    mss: {said}\n"));
        let network = network(&text);
        assert_eq!(
            (network.instances()[0].mss, network.instances()[1].mss),
            (Mss::Off, mss)
        );
    }
    for (said, words) in [
        ("535", "mss: 535 is outside 536..=9176"),
        ("9177", "mss: 9177 is outside 536..=9176"),
        ("-1", "mss: -1 is outside 536..=9176"),
        ("on", "mss: `on` is neither off, nor auto, nor 536..=9176 octets"),
        ("[]", "off, auto, or 536..=9176 octets"),
    ] {
        assert_says(
            &mistake(from, &format!("    vlan: 200\n    mss: {said}\n")),
            ["line 12", words],
        );
    }
}

#[test]
fn a_mirror_is_a_port() {
    let from = "    vlan: 200\n";
    let mirrors = |text: &str| {
        let network = network(text);
        network
            .instances()
            .iter()
            .map(|instance| instance.mirror)
            .collect::<Vec<_>>()
    };
    assert_eq!(mirrors(GOOD), [None; 2]);
    let mirrored = GOOD.replace(from, "    vlan: 200\n    mirror: ran\n");
    assert_eq!(mirrors(&mirrored), [None, Some(flow::PortId(0))]);
    assert_says(
        &mistake(from, "    vlan: 200\n    mirror: nowhere\n"),
        ["line 12", "mirror: no port is named `nowhere`"],
    );
}

#[test]
fn usage_records_have_a_directory_and_bounds() {
    let with = |section: &str| GOOD.to_owned() + section;
    let parsed = Config::parse(&with("records: {directory: /spool, when_full: refuse}\n"), "f");
    let records = parsed.unwrap().records.unwrap();
    assert_eq!(
        (records.held.value(), records.when_full),
        (100_000, WhenFull::Refuse)
    );
    assert_eq!(records.settings(), records::Settings::default());
    assert!(Config::parse(GOOD, "f").unwrap().records.is_none());
    for (section, words) in [
        ("records: {directory: spool}\n", "`spool` is no absolute path"),
        ("records: {}\n", "directory"),
        ("records: {directory: /spool, held: 10}\n", "1000..=10000000"),
        ("records: {directory: /spool, when_full: wait}\n", "go_on"),
    ] {
        assert_says(&refusal(&with(section)), ["line 14", words]);
    }
}

#[test]
fn a_store_has_a_directory_of_its_own_and_bounds() {
    let with = |section: &str| GOOD.to_owned() + section;
    let store = |section: &str| Config::parse(&with(section), "f").unwrap().store;
    assert!(store("").is_none());
    let plain = store("store: {directory: /store}\n").unwrap();
    assert_eq!(plain.at_stop, AtStop::Keep);
    assert_eq!(plain.deadline(), Duration::from_secs(1));
    assert_eq!(plain.checkpoint_interval(), Duration::from_secs(1));
    let full = "store: {directory: /store, deadline_ms: 10, checkpoint_s: 3600, at_stop: release}\n";
    let full = store(full).unwrap();
    assert_eq!(full.at_stop, AtStop::Release);
    assert_eq!(full.deadline(), Duration::from_millis(10));
    assert_eq!(full.checkpoint_interval(), Duration::from_secs(3_600));
    let shared = "store: {directory: /spool}\nrecords: {directory: /spool}\n";
    for (section, words) in [
        ("store: {directory: store}\n", "`store` is no absolute path"),
        ("store: {}\n", "directory"),
        ("store: {directory: /store, deadline_ms: 9}\n", "10..=60000"),
        ("store: {directory: /store, checkpoint_s: 0}\n", "1..=3600"),
        ("store: {directory: /store, at_stop: wait}\n", "release"),
        ("store: {directory: /store, mode: log}\n", "mode"),
        (shared, "usage records have this directory"),
    ] {
        assert_says(&refusal(&with(section)), ["line 14", words]);
    }
}

#[test]
fn events_are_of_one_application_each() {
    let with = |events: &str| format!("{GOOD}events: [{events}]\n");
    let good = with(
        "{application: web, detect: [tcp_connection, dns_request]}, {application: all, detect: [packet]}",
    );
    let network = network(&good);
    let both = EventLogic::TCP_CONNECTION.with(EventLogic::DNS_REQUEST);
    assert_eq!(network.events(b"web"), Some(both));
    assert_eq!(network.events(b"all"), Some(EventLogic::PACKET));
    assert_eq!(network.events(b"other"), None);
    for (events, words) in [
        ("{application: '', detect: [packet]}", "no character"),
        ("{application: a, detect: []}", "names none of packet"),
        (
            "{application: a, detect: [packet]}, {application: a, detect: [packet]}",
            "twice",
        ),
        ("{application: a, detect: [wish]}", "wish"),
    ] {
        let error = Config::parse(&with(events), "sluice.yaml")
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn forwarding_policies_lead_somewhere() {
    let with = |policy: &str| format!("{GOOD}forwarding_policies: [{policy}]\n");
    let good = with("{name: gold, instance: internet, next_hop: 10.200.0.7, dscp: 46}");
    let network = network(&good);
    let id = network.policy_by_name(b"gold").unwrap();
    let policy = network.policy(id).unwrap();
    assert_eq!(policy.instance, Some(flow::InstanceId(1)));
    assert_eq!(policy.next_hop, "10.200.0.7".parse().ok());
    assert_eq!(policy.dscp.map(packet::Dscp::get), Some(46));
    for (policy, words) in [
        ("{name: ''}", "no character"),
        ("{name: a}, {name: a}", "another has this name"),
        (
            "{name: a, instance: access}",
            "no instance with role n6 is named `access`",
        ),
        ("{name: a, next_hop: 10.200.0.7}", "of which instance"),
        (
            "{name: a, instance: internet, next_hop: 10.201.0.7}",
            "none of the instance's links",
        ),
        (
            "{name: a, instance: internet, next_hop: 10.200.0.1}",
            "our own address",
        ),
        ("{name: a, dscp: 64}", "64 is outside 0..=63"),
    ] {
        assert_says(&refusal(&with(policy)), ["line 14", words]);
    }
}

#[test]
fn ues_reach_each_other_as_configured() {
    use rules::network::Hairpin;
    let from = "    vlan: 200\n";
    let hairpin = |lines: &str| {
        let text = GOOD.replace(from, &format!("{from}{lines}"));
        let network = network(&text);
        network.instances()[1].hairpin.clone()
    };
    let prefixes = vec![
        "10.45.0.0/16".parse().unwrap(),
        "2001:db8:45::/48".parse().unwrap(),
    ];
    let lines = "    ue_prefixes: [10.45.0.0/16, '2001:db8:45::/48']\n";
    assert_eq!(hairpin(lines), Hairpin::Router);
    assert_eq!(
        hairpin(&format!("    hairpin: local\n{lines}")),
        Hairpin::Local(prefixes.clone())
    );
    assert_eq!(
        hairpin(&format!("    hairpin: drop\n{lines}")),
        Hairpin::Drop(prefixes)
    );
    for (lines, words) in [
        ("    hairpin: local\n", "ue_prefixes does not say"),
        (
            "    hairpin: local\n    ue_prefixes: [10.200.0.0/25]\n",
            "10.200.0.0/25 holds our own address",
        ),
        ("    hairpin: sideways\n", "sideways"),
    ] {
        assert_says(&mistake(from, &format!("{from}{lines}")), ["line ", words]);
    }
    let text = mistake(
        "roles: [n3, n9],",
        "roles: [n3, n9], hairpin: drop, ue_prefixes: [10.45.0.0/16],",
    );
    assert!(text.contains("with role n6"), "{text}");
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    assert_says(
        &mistake("n4: {addresses", "n4: {adresses"),
        ["sluice.yaml: line 2", "`adresses`"],
    );
}

#[test]
fn a_value_outside_its_bound_is_named_with_the_bound() {
    assert_says(
        &mistake("vlan: 200", "vlan: 4095"),
        ["line 11", "4095 is outside 1..=4094"],
    );
}

#[test]
fn mistakes_over_several_fields_name_the_instance_and_the_line() {
    for (from, to, line, words) in [
        ("port: ran", "port: rna", "line 7", "no port is named `rna`"),
        ("name: dn,", "name: ran,", "line 5", "two are named `ran`"),
        (
            "via: 10.200.0.254",
            "via: 10.201.0.254",
            "line 13",
            "10.201.0.254 is on none of the instance's links",
        ),
        (
            "via: 10.200.0.254",
            "via: 10.200.0.1",
            "line 13",
            "10.200.0.1 is our own address",
        ),
        ("mac: '02", "mac: '03", "line 13", "is a group address"),
        ("mac: '02:", "mac: '", "line 13", "is no MAC address"),
        (
            "'2001:db8::1/64'",
            "10.9.9.9/24",
            "line 12",
            "the second of its family",
        ),
        (
            "10.200.0.1/24",
            "10.200.0.1/33",
            "line 12",
            "prefix length 33 is outside 0..=32",
        ),
        ("0000:3b:00.1", "3b:00.9", "line 5", "no PCI address"),
        (
            "roles: [n6]",
            "roles: []",
            "line 8",
            "names none of n3, n6, n9, n4u",
        ),
        (
            "roles: [n6]",
            "roles: [n6, n9]",
            "line 8",
            "n6 beside n3, n9 or n4u",
        ),
        (
            "    port: dn\n    vlan: 200",
            "    port: ran",
            "line 10",
            "another instance is on `ran` untagged",
        ),
        (
            "name: internet",
            "name: ACCESS",
            "line 8",
            "another has this name",
        ),
        (
            "10.200.0.1/24, ",
            "10.100.0.1/24, ",
            "line 12",
            "is another instance's",
        ),
        (
            "upf1.example.org",
            "10.0.0.300",
            "line 1",
            "no IP address and no domain name",
        ),
    ] {
        assert_says(&mistake(from, to), [line, words]);
    }
}

#[test]
fn mistakes_in_addresses_of_n4_name_the_field_and_the_line() {
    for (to, words) in [
        ("[0.0.0.0]", "no address of one host"),
        (
            "[127.0.0.8], smfs: [127.0.0.9, 127.0.0.9]",
            "n4.smfs: 127.0.0.9 is configured twice",
        ),
        (
            "[127.0.0.8], smfs: ['2001:db8::9']",
            "n4.smfs: 2001:db8::9 is of a family that none of n4.addresses is of",
        ),
        (
            "[127.0.0.8], peers: [10.0.0.0/8], smfs: [127.0.0.9]",
            "n4.smfs: 127.0.0.9 is in none of n4.peers",
        ),
        (
            "[127.0.0.8], peers: [{prefix: 10.0.0.0/8, interface: sxc}]",
            "sxc",
        ),
        ("[127.0.0.8], peers: [{interface: sxb}]", "prefix"),
        (
            "[127.0.0.8], peers: [10.0.0.1/8, {prefix: 10.0.0.2/8, interface: sxb}]",
            "n4.peers: 10.0.0.2/8 has two interfaces",
        ),
        (
            "[127.0.0.8], peers: [10.0.0.1/8, {prefix: 10.0.0.2/8, usage_information: false}]",
            "n4.peers: 10.0.0.2/8 has two values of usage_information",
        ),
        (
            "[127.0.0.8], peers: [{prefix: 10.0.0.1/8, usage_information: never}]",
            "never",
        ),
    ] {
        assert_says(&mistake("[127.0.0.8]", to), ["line 2", words]);
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load("nowhere/sluice.yaml".as_ref()).expect_err("there is no such file");
    assert!(
        error
            .to_string()
            .starts_with("nowhere/sluice.yaml: cannot be read"),
        "{error}"
    );
}

const POOLS: &str = "\
pools:
  - {name: v4, instance: internet, ipv4: [10.45.0.0/16, 10.46.0.10-10.46.0.19]}
  - {name: v6, instance: internet, ipv6: [{prefix: '2001:db8:1000::/36'}, {prefix: '2001:db8:2000::/36', length: 56}]}
";

#[test]
fn pools_become_ranges_of_their_instance() {
    let config = Config::parse(&format!("{GOOD}{POOLS}"), "sluice.yaml").unwrap();
    let pools = config.session_pools();
    let counts: Vec<Vec<u64>> = pools
        .iter()
        .map(|pool| pool.ranges.iter().map(session::PoolRange::count).collect())
        .collect();
    assert_eq!(counts, [vec![65_534, 10], vec![1 << 28, 1 << 20]]);
    assert!(pools.iter().all(|pool| pool.instance == flow::InstanceId(1)));
    assert_eq!(pools[0].ranges[0].nth(0).to_string(), "10.45.0.1/32");
}

#[test]
fn pools_that_contradict_something_are_refused() {
    let mistake = |from: &str, to: &str| {
        assert!(POOLS.contains(from), "{from} is not in the pools");
        refusal(&format!("{GOOD}{}", POOLS.replace(from, to)))
    };
    for (from, to, part) in [
        (
            "instance: internet, ipv4",
            "instance: nowhere, ipv4",
            "no instance is named `nowhere`",
        ),
        (
            "instance: internet, ipv4",
            "instance: access, ipv4",
            "has not the role n6",
        ),
        ("name: v6", "name: v4", "another has this name"),
        (
            "10.46.0.10-10.46.0.19",
            "10.45.9.9-10.45.9.10",
            "overlaps an earlier range",
        ),
        (
            "10.46.0.10-10.46.0.19",
            "10.46.0.19-10.46.0.10",
            "ends before it begins",
        ),
        (
            "10.46.0.10-10.46.0.19",
            "2001:db8::/64",
            "is no IPv4 prefix or range",
        ),
        (
            "10.46.0.10-10.46.0.19",
            "10.200.0.0/24",
            "10.200.0.1 in it is our own address",
        ),
        ("length: 56", "length: 129", "129 is outside 1..=128"),
        ("length: 56", "length: 30", "is no IPv6 prefix of at most"),
        (
            "ipv4: [10.45.0.0/16, 10.46.0.10-10.46.0.19]",
            "ipv4: []",
            "both are empty",
        ),
    ] {
        let message = mistake(from, to);
        assert!(
            message.contains(part) && message.starts_with("sluice.yaml:"),
            "{message}"
        );
    }
}

const PREDEFINED: &str = "\
predefined:
  fars:
    - {id: 0x80000001, action: drop}
    - {id: 0x80000002, action: forward, instance: internet, tos: 40}
  qers:
    - {id: 0x80000001, qfi: 5, mbr_downlink_kbit: 2000}
  urrs:
    - {id: 0x80000001}
  rulebases:
    - name: video
      rules:
        - {precedence: 20, qers: [0x80000001], urrs: [0x80000001], far: 0x80000002}
        - {precedence: 10, flows: [permit out 17 from 192.0.2.0/24 to assigned], tos: [184, 252], far: 0x80000001,
           content: {name: calls, rating_group: 7, service_id: 1}}
";

#[test]
fn rulebases_become_predefined_rules() {
    let config = Config::parse(&format!("{GOOD}{PREDEFINED}"), "sluice.yaml").unwrap();
    let predefined = config.predefined();
    let rulebase = predefined.rulebase(b"video").unwrap();
    let precedences: Vec<u32> = rulebase.rules().iter().map(|rule| rule.precedence.0).collect();
    assert_eq!(precedences, [10, 20]);
    assert_eq!(
        (
            rulebase.rules()[0].filters.len(),
            rulebase.rules()[1].filters.len()
        ),
        (1, 0)
    );
    let qer = predefined.qer(rules::model::QerId(0x8000_0001)).unwrap();
    assert_eq!(qer.mbr.unwrap().dl.0, 2_000_000);
    let calls = predefined.content(flow::ContentId(1)).unwrap();
    assert_eq!(
        (&*calls.name, calls.rating_group, calls.service_id),
        ("calls", Some(7), Some(1))
    );
    assert_eq!(rulebase.contents(), [flow::ContentId(1)]);
    assert!(config.has_contents());
    let far = predefined.far(rules::model::FarId(0x8000_0002)).unwrap();
    assert_eq!(far.forwarding.unwrap().instance, Some(flow::InstanceId(1)));
    assert!(
        Config::parse(GOOD, "sluice.yaml")
            .unwrap()
            .predefined()
            .is_empty()
    );
}

#[test]
fn predefined_rules_that_contradict_something_are_refused() {
    for (from, to, part) in [
        (
            "instance: internet",
            "instance: nowhere",
            "no instance is named `nowhere`",
        ),
        ("instance: internet", "instance: access", "has not the role n6"),
        (
            "{id: 0x80000002,",
            "{id: 0x80000001,",
            "predefined: FAR 2147483649 is configured twice",
        ),
        (
            "{id: 0x80000002,",
            "{id: 2,",
            "2 is outside 2147483648..=4294967295",
        ),
        (
            "far: 0x80000001",
            "far: 0x80000007",
            "rulebase `video`: FAR 2147483655 is not predefined",
        ),
        (
            "{name: calls,",
            "{name: '',",
            "``: a content's name has 1 to 63 octets",
        ),
        (
            "qers: [0x80000001]",
            "qers: [0x80000009]",
            "QER 2147483657 is not predefined",
        ),
        ("permit out 17", "deny out 17", "`deny out 17"),
        ("name: video", "name: \"\"", "the name has no character"),
    ] {
        assert!(PREDEFINED.contains(from), "{from} is not in the rules");
        let message = refusal(&format!("{GOOD}{}", PREDEFINED.replace(from, to)));
        assert!(
            message.contains(part) && message.starts_with("sluice.yaml:"),
            "{message}"
        );
    }
    let empty = PREDEFINED.split("        - {precedence").next().unwrap();
    let message = refusal(&format!("{GOOD}{empty}").replace("      rules:\n", "      rules: []\n"));
    assert!(message.contains("rulebase `video`: it has no rules"), "{message}");
}

/// A thousand PDRs, two hundred QERs and a hundred URRs in all.
#[test]
fn many_rules_are_configured_as_several_rulebases() {
    use std::fmt::Write;
    let mut text = String::from("predefined:\n  qers:\n");
    (0..200).for_each(|id| {
        writeln!(
            text,
            "    - {{id: {}, mbr_uplink_kbit: 1000}}",
            0x8000_0000_u32 + id
        )
        .unwrap()
    });
    text.push_str("  urrs:\n");
    (0..100).for_each(|id| writeln!(text, "    - {{id: {}}}", 0x8000_0000_u32 + id).unwrap());
    text.push_str("  rulebases:\n");
    for rulebase in 0..4 {
        writeln!(text, "    - name: group{rulebase}\n      rules:").unwrap();
        for rule in 0..250 {
            let (qer, urr) = (rulebase * 50 + rule % 50, rulebase * 25 + rule % 25);
            let [qer, urr] = [qer, urr].map(|id| 0x8000_0000_u32 + id);
            let flow = format!("permit out 17 from 198.51.{rulebase}.{rule} to assigned");
            writeln!(
                text,
                "        - {{precedence: {rule}, flows: [{flow}], qers: [{qer}], urrs: [{urr}]}}"
            )
            .unwrap();
        }
    }
    let predefined = Config::parse(&format!("{GOOD}{text}"), "sluice.yaml")
        .unwrap()
        .predefined();
    let rules: usize = predefined
        .rulebases()
        .map(|rulebase| rulebase.rules().len())
        .sum();
    let qers: usize = predefined.rulebases().map(|rulebase| rulebase.qers().len()).sum();
    let urrs: usize = predefined.rulebases().map(|rulebase| rulebase.urrs().len()).sum();
    assert_eq!((rules, qers, urrs), (1000, 200, 100));
}

#[test]
fn policers_are_for_slices_and_data_networks() {
    let with = |policers: &str| format!("{GOOD}policers: [{policers}]\n");
    let good = "{name: gold, slice: {sst: 1, sd: '0000Fa'}, dnn: internet, uplink_kbit: 1000}, \
                {name: any, slice: {sst: 1}, downlink_kbit: 0}";
    let network = network(&with(good));
    let [gold, any] = network.policers().all() else {
        panic!("two policers")
    };
    let slice = gold.scope.slice.map(|slice| (slice.sst, slice.sd));
    assert_eq!(slice, Some((1, [0, 0, 0xfa])));
    assert_eq!(gold.scope.dnn.as_deref(), Some("internet"));
    assert_eq!(gold.rates.map(flow::meter::Rate::kbit), [1_000, u64::MAX]);
    assert_eq!(any.scope.slice.unwrap().sd, [0xff; 3]);
    assert_eq!(any.rates.map(flow::meter::Rate::kbit), [u64::MAX, 0]);
    for (policers, words) in [
        ("{name: a}", "names neither slice nor dnn"),
        ("{name: '', dnn: a}", "the name has no character"),
        ("{name: a, dnn: ''}", "dnn: no character"),
        ("{name: a, dnn: a}, {name: a, dnn: b}", "another has this name"),
        (
            "{name: a, dnn: a}, {name: b, dnn: A}",
            "another is for the same sessions",
        ),
        (
            "{name: a, slice: {sst: 1, sd: '12345'}}",
            "not six hexadecimal digits",
        ),
        ("{name: a, slice: {sst: 256}}", "256 is outside 0..=255"),
    ] {
        let text = refusal(&with(policers));
        assert!(text.contains(words), "{text}");
    }
}
