//! Ports behind an accelerator, and the file of the accelerator.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use flow::{PortId, Seed};
use offload::channel::Role;
use packet::MacAddr;

use super::*;
use crate::AcceleratorNodeConfig;

const LINK: &str = "link: {port: link, key: /k}";
const NODE_PORTS: &str = "ports:\n  - {name: a, driver: {memory: {}}}\n  \
     - {name: link, driver: {memory: {}}, mtu: 1700}\n  - {name: b, driver: {memory: {}}}\n";

fn text(ports: &str, accelerator: &str, more: &str) -> String {
    format!(
        "node: {{id: upf1.example.org}}\nn4: {{addresses: [127.0.0.8]}}\nports:\n{ports}{accelerator}\ninstances:\n  \
         - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]{more}}}\n"
    )
}

fn ports(link: &str, ran: &str) -> String {
    format!(
        "  - {{name: link, driver: {{memory: {{}}}}, mtu: {link}}}\n  \
         - {{name: ran, driver: {{accelerator: {{mac: \"{ran}\"}}}}}}\n"
    )
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "sluice.yaml").map_err(|error| error.to_string())
}

#[test]
fn ports_behind_an_accelerator_are_the_last() {
    let all = format!("accelerator: {{{LINK}, policy: {{after_packets: 3, sessions: 7}}}}");
    let config = parse(&text(&ports("1666", "02:00:00:00:00:07"), &all, "")).expect("it is right");
    assert_eq!(config.ports_behind_accelerator(), 1);
    let (port, found) = config.accelerator_port().expect("it is there");
    assert_eq!((port, found.name.value.as_str()), (PortId(0), "link"));
    let driver = config.ports[1].driver.as_ref().expect("it has one");
    assert_eq!(driver.mac(), Some(MacAddr([2, 0, 0, 0, 0, 7])));
    let policy = config.offload_policy(0).expect("it is there");
    assert_eq!((policy.after_packets, policy.sessions), (3, 7));
    let both = format!("{all}\nworkers: {{count: 2}}");
    let config = parse(&text(&ports("1666", "02:00:00:00:00:07"), &both, "")).expect("it is right");
    let of_each = [0, 1].map(|worker| config.offload_policy(worker).expect("it is there").sessions);
    assert_eq!(of_each, [4, 3], "each worker has its share");
    assert_eq!(policy.stays_for.as_secs(), 10);
    assert_eq!(
        (policy.qfis, policy.instances, policy.rulebases),
        (None, None, None)
    );
}

#[test]
fn the_first_of_several_workers_has_most_of_the_buffers() {
    let shares = |workers: &str| {
        let all = format!("accelerator: {{{LINK}}}\n{workers}");
        let config = parse(&text(&ports("1666", "02:00:00:00:00:07"), &all, "")).expect("it is right");
        (
            config.buffers_of_workers(),
            config.descriptors(&config.ports[0]).receive,
        )
    };
    assert_eq!(shares(""), (vec![32_768], 8_192));
    assert_eq!(shares("workers: {count: 2}"), (vec![24_576, 8_192], 4_096));
    assert_eq!(
        shares("workers: {count: 4}\ndpdk: {buffers: 65539}"),
        (vec![49_155, 5_462, 5_462, 5_462], 2_048)
    );
}

#[test]
fn instances_behind_an_accelerator_may_clamp_segment_sizes() {
    let all = format!("accelerator: {{{LINK}}}");
    let config = parse(&text(&ports("1666", "02:00:00:00:00:07"), &all, ", mss: auto"));
    assert!(config.is_ok(), "{config:?}");
}

#[test]
fn a_policy_names_qfis_instances_and_rulebases() {
    let predefined = "predefined: {rulebases: [{name: heavy, rules: [{precedence: 1}]}, {name: light, rules: [{precedence: 1}]}]}";
    let all = format!(
        "accelerator: {{{LINK}, policy: {{after_octets: 9000, qfis: [1, 63], instances: [access], \
         rulebases: [heavy]}}}}\n{predefined}"
    );
    let config = parse(&text(&ports("1666", "02:00:00:00:00:07"), &all, "")).expect("it is right");
    let policy = config.offload_policy(0).expect("it is there");
    assert_eq!((policy.after_octets, policy.qfis), (9000, Some(1 << 63 | 2)));
    assert_eq!(policy.instances, Some(vec![flow::InstanceId(0)]));
    assert_eq!(policy.rulebases, Some(vec![Box::from(*b"heavy")]));
    for (policy, said) in [
        (
            "instances: [access, moon]",
            "accelerator.policy.instances: no instance is named `moon`",
        ),
        ("instances: []", "there must be at least one"),
        (
            "rulebases: [light, moon]",
            "accelerator.policy.rulebases: no rulebase is named `moon`",
        ),
        ("rulebases: []", "there must be at least one"),
        ("qfis: []", "there must be at least one"),
        ("qfis: [64]", "64"),
    ] {
        let all = format!("accelerator: {{{LINK}, policy: {{{policy}}}}}\n{predefined}");
        let words = parse(&text(&ports("1666", "02:00:00:00:00:07"), &all, "")).expect_err(policy);
        assert!(words.contains(said), "{words}");
    }
}

#[test]
fn what_contradicts_an_accelerator_is_said() {
    let (good, mac) = (format!("accelerator: {{{LINK}}}"), "02:00:00:00:00:07");
    let behind = ports("1700", mac);
    let later = format!("{behind}  - {{name: late, driver: {{memory: {{}}}}}}\n");
    let twice = format!("{behind}  - {{name: b, driver: {{accelerator: {{mac: \"{mac}\"}}}}}}\n");
    let channels = format!(
        "accelerator: {{{}}}\nworkers: {{count: 3}}",
        LINK.replace("port:", "channel: 254, port:")
    );
    let alone = "  - {name: ran, driver: {memory: {}}}\n  - {name: link, driver: {memory: {}}}\n";
    let missing = "accelerator: {link: {port: other, key: /k}}";
    let relative = "accelerator: {link: {port: link, key: k}}";
    for (ports, accelerator, more, said) in [
        (
            behind.as_str(),
            "",
            "",
            "port `ran`: driver: accelerator, and no `accelerator` is configured",
        ),
        (alone, &good, "", "accelerator: no port is behind it"),
        (
            &later,
            &good,
            "",
            "port `late`: it comes behind ports of the accelerator",
        ),
        (
            &twice,
            &good,
            "",
            "port `b`: mac: another port has 02:00:00:00:00:07",
        ),
        (
            &ports("1665", mac),
            &good,
            "",
            "has an MTU of 1665; packets of `ran`, of 1500 octets, need 1666",
        ),
        (
            &ports("1700", "03:00:00:00:00:07"),
            &good,
            "",
            "is no station's MAC address",
        ),
        (
            &behind,
            missing,
            "",
            "accelerator.link.port: no port is named `other`",
        ),
        (
            &behind,
            relative,
            "",
            "accelerator.link.key: `k` is no absolute path",
        ),
        (
            &behind,
            &channels,
            "",
            "channel 254 is that of the first of 3 workers, and the last channel is 255",
        ),
        (
            &behind,
            &good,
            ", mirror: link",
            "port `link` is its own, and instance `access` uses it",
        ),
    ] {
        let error = parse(&text(ports, accelerator, more)).expect_err(said);
        assert!(error.contains(said), "{said}:\n{error}");
    }
}

#[test]
fn an_accelerator_needs_packet_buffers_for_each_worker() {
    let (good, behind) = (
        format!("accelerator: {{{LINK}}}"),
        ports("1700", "02:00:00:00:00:07"),
    );
    for (more, said) in [
        (
            "dpdk: {buffers: 16383}",
            "dpdk.buffers: 16383, and it needs 16384, 16384 for each worker",
        ),
        (
            "workers: {count: 3}",
            "dpdk.buffers: 32768, and it needs 49152, 16384 for each worker",
        ),
    ] {
        let error = parse(&text(&behind, &format!("{good}\n{more}"), "")).expect_err(said);
        assert!(error.contains(said), "{said}:\n{error}");
    }
}

#[test]
fn a_node_has_the_port_towards_its_host_behind_all_others() {
    let config =
        AcceleratorNodeConfig::parse(&format!("{LINK}\n{NODE_PORTS}"), "accel.yaml").expect("it is right");
    let names: Vec<_> = config
        .ordered_ports()
        .map(|port| port.name.value.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "link"]);
    let key = std::env::temp_dir().join(format!("sluice-node-key-{}", std::process::id()));
    fs::write(&key, "07".repeat(32)).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    let link = format!(
        "link: {{port: link, key: {}, vlan: 9, channel: 3}}\n{NODE_PORTS}",
        key.display()
    );
    let config = AcceleratorNodeConfig::parse(&link, "accel.yaml").expect("it is right");
    let macs = [1, 2, 3].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
    let channel = config
        .link
        .channel(Role::Accelerator, macs[2], 1_700, 5)
        .expect("the key is good");
    assert_eq!((channel.mtu, channel.channel, channel.boot), (1_500, 3, 5));
    let node = config.node(&macs, channel, Seed([1, 2]));
    assert_eq!((node.engine.host_port, node.host_mtu), (PortId(2), 1_700));
    assert_eq!(node.engine.macs, macs[..2]);
    for (content, mode, said) in [
        ("07".repeat(32), 0o644, "others may read it"),
        (
            "07".repeat(31),
            0o600,
            "the key has 31 octets, at least 32 are needed",
        ),
        ("07".repeat(32) + "0", 0o600, "it is not hexadecimal digits"),
        ("0+".repeat(32), 0o600, "it is not hexadecimal digits"),
    ] {
        fs::write(&key, content).expect("a file");
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("a mode");
        let error = config
            .link
            .channel(Role::Accelerator, macs[2], 1_700, 5)
            .expect_err(said)
            .to_string();
        assert!(error.contains(said), "{error}");
    }
    fs::remove_file(&key).expect("it is there");
}

#[test]
fn what_contradicts_a_node_is_said() {
    let of = |text: String| {
        AcceleratorNodeConfig::parse(&text, "accel.yaml")
            .expect_err("it is wrong")
            .to_string()
    };
    let only = "ports: [{name: link, driver: {memory: {}}, mtu: 1700}]\n";
    let behind = "ports: [{name: link, driver: {accelerator: {mac: \"02:00:00:00:00:07\"}}}]\n";
    let twice = "ports: [{name: link, driver: {memory: {}}}, {name: link, driver: {memory: {}}}]\n";
    let one = "ports: [{name: link, driver: {af_packet: {interface: x}}}, {name: a, driver: {af_xdp: {interface: x}}}]\n";
    let loopback =
        "ports: [{name: link, driver: {memory: {}}}, {name: a, driver: {af_packet: {interface: lo}}}]\n";
    let sums = "ports: [{name: link, driver: {memory: {}}, checksums: auto}]\n";
    for (text, said) in [
        (
            format!("{LINK}\n{only}"),
            "there is none beside the one towards the host",
        ),
        (format!("{LINK}\n{behind}"), "no ports behind another one"),
        (format!("{LINK}\n{twice}"), "two ports have this name"),
        (format!("{LINK}\n{one}"), "interface: `x` is port `link` already"),
        (format!("{LINK}\n{loopback}"), "`lo` is the host's loopback"),
        (
            format!("{LINK}\n{sums}"),
            "checksums: an accelerator computes them itself",
        ),
        (
            format!("{LINK}\ndpdk: {{buffers: 4096}}\n{NODE_PORTS}"),
            "dpdk.buffers: 4096, and an accelerator needs 16384",
        ),
        (
            format!("{LINK}\nidle: interrupt\n{NODE_PORTS}"),
            "idle: interrupt is not possible here",
        ),
        (
            format!("link: {{port: a, key: /k}}\n{NODE_PORTS}"),
            "has an MTU of 1500; packets of `link`",
        ),
    ] {
        let error = of(text);
        assert!(error.contains(said), "{said}:\n{error}");
    }
}

#[test]
fn queues_wait_at_an_accelerator_or_before_its_ports() {
    let all = format!("accelerator: {{{LINK}}}\negress: {{classes: [{{name: rest}}]}}");
    let ports = ports("1700", "02:00:00:00:00:07").replace("{name: ran,", "{name: ran, egress_kbit: 1000,");
    let config = parse(&text(&ports, &all, ", egress: {kbit: 500}")).expect("its ports have rates");
    assert!(config.egress().is_some());
    let node = |more: &str| {
        let text = format!("{LINK}\n{NODE_PORTS}{more}");
        AcceleratorNodeConfig::parse(&text, "accel.yaml")
    };
    let with_queues = node("queues: {packets: 4096, queues: 1000}\n").expect("it is right");
    let room = with_queues.queue_limits().expect("packets wait").limits;
    assert_eq!((room.packets, room.octets, room.queues), (4_096, 64 << 20, 1_000));
    assert_eq!(node("").expect("it is right").queue_limits(), None);
    let error = node("queues: {packets: 4000000}\n")
        .expect_err("too many")
        .to_string();
    assert!(
        error.contains("queues.packets: 4000000 are more than half of dpdk.buffers"),
        "{error}"
    );
    let error = node("questions: {packets: 1000000}\n").expect_err("too many");
    let said = "questions.packets: 1000000 are more than half of dpdk.buffers";
    assert!(error.to_string().contains(said), "{error}");
    let error = node("questions: {packets: 8192}\nqueues: {packets: 8192}\ndpdk: {buffers: 16384}\n")
        .expect_err("too many");
    let said = "8192 and 8192 are together more than half of dpdk.buffers, which is 8192";
    assert!(error.to_string().contains(said), "{error}");
    node("questions: {packets: 8192, flows: 0}\nqueues: {packets: 8192}\ndpdk: {buffers: 16384}\n")
        .expect("nothing is asked");
    let rate = NODE_PORTS.replace("{name: a,", "{name: a, egress_kbit: 1000,");
    let text = format!("{LINK}\n{rate}");
    let error = AcceleratorNodeConfig::parse(&text, "accel.yaml").expect_err("the host's");
    let said = "egress_kbit: the host says which rates its ports have";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn either_end_can_be_in_partial_mode() {
    let said = |mode: &str, workers: usize| {
        let all = format!("accelerator: {{{LINK}{mode}}}\nworkers: {{count: {workers}}}");
        let config = parse(&text(&ports("1666", "02:00:00:00:00:07"), &all, "")).expect("it is right");
        let policy = config.offload_policy(0).expect("it is there");
        let host = config
            .accelerator
            .expect("it is there")
            .host_capabilities(workers);
        (
            policy.is_partial,
            host.is_partial(),
            host.answers(),
            host.takes_steered(),
        )
    };
    assert_eq!(said("", 1), (false, false, true, false));
    assert_eq!(said(", mode: full", 2), (false, false, true, true));
    assert_eq!(said(", mode: partial", 1), (true, true, false, false));
    assert_eq!(said(", mode: partial", 2), (true, true, false, true));
    let words = parse(&text(
        &ports("1666", "02:00:00:00:00:07"),
        &format!("accelerator: {{{LINK}, mode: half}}"),
        "",
    ));
    assert!(words.expect_err("there is none").contains("half"));
    let node = |mode: &str| {
        let text = format!("{mode}{LINK}\n{NODE_PORTS}");
        let config = AcceleratorNodeConfig::parse(&text, "accel.yaml").expect("it is right");
        let key = offload::channel::Key::new(vec![7; 32]).expect("32 octets");
        let channel = offload::channel::ChannelConfig::new(Role::Accelerator, 0, MacAddr([2; 6]), key, 1);
        let macs = [1, 2, 3].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
        config.node(&macs, channel, Seed([1, 2])).capabilities()
    };
    assert!(node("").holds_sessions());
    let partial = node("mode: partial\n");
    assert_eq!(
        partial,
        flow::contract::Capabilities::partial(partial.instances, partial.routes, partial.adjacencies)
    );
}
