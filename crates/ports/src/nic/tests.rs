use dpdk::testing::eal;
use dpdk::{Mempool, PoolConfig, PortConfig as StartConfig, PortSpec};
use flow::Bucket;

use super::*;

const N3: Traffic = Traffic {
    tunnels: true,
    plain: false,
};
const N6: Traffic = Traffic {
    tunnels: false,
    plain: true,
};

/// What a NIC with RSS says of itself.
fn nic() -> Capabilities {
    Capabilities {
        driver: "net_nic".into(),
        numa_node: Some(0),
        max_rx_queues: 16,
        max_tx_queues: 16,
        min_mtu: 68,
        max_mtu: 9_600,
        rss: RssFields::IPV4 | RssFields::IPV6 | RssFields::TCP,
        rss_key_size: 52,
        rss_table_size: 2_048,
        rx_checksum: true,
        tx_udp_checksum: true,
        chained_tx: true,
        scattered_rx: true,
    }
}

fn dealt_out(workers: u16) -> Vec<WorkerId> {
    session::Config::for_workers(workers).owners
}

#[test]
fn one_worker_or_a_port_without_rss_is_asked_for_nothing() {
    assert_eq!(plan(&nic(), N3, 1), Plan::default());
    let unable = Capabilities {
        rss: RssFields::NONE,
        ..nic()
    };
    assert_eq!(plan(&unable, N3, 4), Plan::default());
}

#[test]
fn an_access_port_is_asked_for_the_teid_and_then_for_the_inner_source() {
    let plan = plan(&nic(), N3, 4);
    let asked: Vec<_> = plan
        .tunnels
        .iter()
        .map(|wish| (wish.basis, wish.first.packets))
        .collect();
    assert_eq!(
        asked,
        [
            (Basis::Teid, Packets::Gtpu),
            (Basis::UeAddress, Packets::Ipv4InGtpu)
        ]
    );
    let inner = &plan.tunnels[1];
    assert_eq!(
        inner.first.fields,
        RssFields::IPV4_ADDRESSES | RssFields::SOURCE_ONLY
    );
    let v6 = inner.also.as_ref().unwrap();
    assert!(
        v6.fields.contains(RssFields::PREFIX_64),
        "a UE chooses the rest itself"
    );
    assert!(plan.plain.is_empty());
    let rss = plan.rss.unwrap();
    assert_eq!(rss.fields, (RssFields::IPV4 | RssFields::IPV6).and(nic().rss));
    assert_eq!(rss.key.unwrap().len(), 52);
}

#[test]
fn a_core_port_is_asked_for_the_destination() {
    let plan = plan(&nic(), N6, 4);
    assert!(plan.tunnels.is_empty());
    let wish = &plan.plain[0];
    assert_eq!(
        (wish.basis, wish.first.packets),
        (Basis::UeAddress, Packets::Ipv4)
    );
    assert!(wish.first.fields.contains(RssFields::DESTINATION_ONLY));
}

#[test]
fn on_a_port_for_both_no_rule_about_plain_packets_takes_the_tunnels() {
    let both = Traffic {
        tunnels: true,
        plain: true,
    };
    let plan = plan(&nic(), both, 4);
    assert!(!plan.tunnels.is_empty() && plan.plain.is_empty());
}

#[test]
fn the_key_is_the_buckets_at_the_length_of_the_port() {
    assert_eq!(key(40), bucket::KEY);
    assert_eq!((&key(52)[..40], key(52).len()), (&bucket::KEY[..], 52));
    assert_eq!((key(0).len(), key(39).len()), (0, 0));
}

#[test]
fn the_table_gives_each_bucket_to_its_owner() {
    let mut owners = dealt_out(3);
    owners[77] = WorkerId(9);
    for size in [512, 1024, 2048] {
        let table = redirection(&owners, size);
        assert_eq!(table.len(), usize::from(size));
        for hash in [0, 77, 511, 512 + 77, 70_000, u32::MAX] {
            let queue = table[hash as usize % table.len()];
            assert_eq!(queue, owners[Bucket::of_rss_hash(hash).index()].0);
        }
    }
}

#[test]
fn a_small_tables_entry_goes_to_the_worker_that_owns_most_of_it() {
    let mut owners = vec![WorkerId(2); BUCKETS];
    // Entry 5 of 128 is that of buckets 5, 133, 261 and 389.
    (owners[5], owners[133]) = (WorkerId(1), WorkerId(1));
    assert_eq!(redirection(&owners, 128)[5], 1, "of equals the first");
    owners[133] = WorkerId(0);
    assert_eq!(redirection(&owners, 128)[5], 2);
    assert_eq!(
        redirection(&dealt_out(4), 128),
        (0..128).map(|entry| entry % 4).collect::<Vec<_>>()
    );
    assert!(redirection(&owners, 0).is_empty());
}

#[test]
fn a_plain_list_of_queues_is_right_only_while_the_hash_picks_the_owner() {
    assert_eq!(queues(Source::Queues, &dealt_out(4)), Some(vec![0, 1, 2, 3]));
    assert_eq!(queues(Source::Queues, &dealt_out(3)), None);
    let mut moved = dealt_out(4);
    moved[1] = WorkerId(0);
    assert_eq!(queues(Source::Queues, &moved), None);
    let buckets: Vec<u16> = moved.iter().map(|owner| owner.0).collect();
    assert_eq!(queues(Source::Buckets, &moved), Some(buckets));
}

#[test]
fn reports_are_in_plain_words() {
    let report = |queues, tunnels, plain| {
        let refused = Vec::new();
        Report {
            queues,
            tunnels,
            plain,
            refused,
            urgent: UrgentPackets::Ahead,
        }
        .to_string()
    };
    assert_eq!(report(1, Some(Basis::Nothing), None), "no RSS (1 queue)");
    assert_eq!(
        report(4, Some(Basis::UeAddress), Some(Basis::UeAddress)),
        "RSS on UE address in hardware"
    );
    assert_eq!(
        report(4, Some(Basis::Outer), None),
        "RSS on outer headers only: packets are handed over between workers"
    );
    assert_eq!(
        report(4, Some(Basis::Teid), Some(Basis::Nothing)),
        "GTP-U: RSS on TEID in hardware; plain: no RSS: packets are handed over between workers"
    );
}

fn virtual_port(name: &str, arguments: &str) -> Port {
    let spec = PortSpec::Virtual {
        name: name.into(),
        arguments: arguments.into(),
    };
    Port::open(eal(), &spec).unwrap()
}

fn pci() -> Driver {
    Driver::Pci {
        address: "0000:00:00.0".into(),
    }
}

#[test]
fn a_driver_without_rules_spreads_by_outer_headers_and_says_why() {
    let mut port = virtual_port("net_null_nic", "size=64");
    let able = port.capabilities().unwrap();
    let plan = plan(&able, N3, 2);
    let pool = Mempool::new(eal(), PoolConfig::with_buffers(4_096)).unwrap();
    let mut start = StartConfig::new(2, &pool);
    start.rss.clone_from(&plan.rss);
    let _queues = port.start(&start).unwrap();
    let distribution = RxDistribution::ask(&port, &able, &pci(), &plan, N3, 2, &dealt_out(2));
    assert_eq!(
        (distribution.report.tunnels, distribution.report.plain),
        (Some(Basis::Outer), None)
    );
    let refused = &distribution.report.refused;
    assert!(
        refused.iter().any(|words| words.contains("not implemented")),
        "{refused:?}"
    );
}

/// A bonding device without members grants every rule: all of them hold for all members, of which there are none.
#[test]
fn what_a_driver_grants_is_reported_and_follows_the_buckets() {
    let port = virtual_port("net_bonding_nic", "mode=0");
    let able = port.capabilities().unwrap();
    for (traffic, basis) in [(N3, Basis::Teid), (N6, Basis::UeAddress)] {
        let plan = plan(&able, traffic, 2);
        let mut distribution = RxDistribution::ask(&port, &able, &pci(), &plan, traffic, 2, &dealt_out(2));
        let granted = [distribution.report.tunnels, distribution.report.plain];
        assert_eq!(granted.into_iter().flatten().collect::<Vec<_>>(), [basis]);
        let rules = distribution.rules.len();
        for rule in &mut distribution.rules {
            rule.source = Source::Buckets;
        }
        let mut owners = dealt_out(2);
        owners[0] = WorkerId(1);
        distribution.follow(&port, &owners);
        assert_eq!(distribution.rules.len(), rules);
        assert!(
            distribution
                .rules
                .iter()
                .all(|rule| rule.rule.queues[..3] == [1, 1, 0])
        );
    }
}
