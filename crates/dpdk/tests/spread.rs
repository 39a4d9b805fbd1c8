//! Rules and tables that spread packets over queues, with the drivers that need no hardware. None of them hashes what
//! is inside GTP-U; one grants every rule because it has nothing to apply it to. What is tested is what is asked, what
//! is answered, and that rules end.

use dpdk::testing::eal;
use dpdk::*;

fn open(name: &str, arguments: &str) -> Port {
    let spec = PortSpec::Virtual {
        name: name.into(),
        arguments: arguments.into(),
    };
    Port::open(eal(), &spec).unwrap()
}

fn rule(packets: Packets, queues: Vec<u16>) -> SpreadRule {
    SpreadRule {
        packets,
        fields: RssFields::IPV4_ADDRESSES | RssFields::SOURCE_ONLY,
        key: vec![0x5a; 40],
        queues,
    }
}

#[test]
fn a_driver_without_rules_says_so() {
    let memory = MemorySpec { queues: 2, depth: 64 };
    let (memory, _peer) = Port::memory(eal(), &memory).unwrap();
    for port in [open("net_null_spread", "size=64"), memory] {
        let error = port.spread(&rule(Packets::Ipv4InGtpu, vec![0, 1])).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Driver { .. }), "{error:?}");
        assert!(
            text.contains("cannot spread packets by a rule: Function not implemented"),
            "{text}"
        );
    }
}

#[test]
fn rules_are_made_and_end() {
    // Without members it grants everything.
    let port = open("net_bonding_spread", "mode=0");
    let every = [
        Packets::Ipv4,
        Packets::Ipv6,
        Packets::Gtpu,
        Packets::Ipv4InGtpu,
        Packets::Ipv6InGtpu,
    ];
    let made: Result<Vec<FlowRule>, Error> = every
        .into_iter()
        .flat_map(|packets| [rule(packets, Vec::new()), rule(packets, vec![0, 1])])
        .map(|rule| port.spread(&rule))
        .collect();
    assert_eq!(made.unwrap().len(), 10);
}

#[test]
fn the_table_must_be_as_long_as_the_ports() {
    let pool = Mempool::new(eal(), PoolConfig::with_buffers(4_096)).unwrap();
    let mut port = open("net_null_table", "size=64");
    let able = port.capabilities().unwrap();
    let mut start = PortConfig::new(2, &pool);
    start.rss = Some(RssConfig {
        fields: RssFields::IPV4,
        key: None,
    });
    let _queues = port.start(&start).unwrap();
    let table: Vec<u16> = (0..able.rss_table_size).map(|entry| entry % 2).collect();
    port.set_rss_table(&table).unwrap();
    assert!(matches!(
        port.set_rss_table(&table[1..]),
        Err(Error::Config { .. })
    ));
}
