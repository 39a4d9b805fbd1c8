//! Pools, packets, rings and memory ports. All tests share the process's EAL, and no other resource.

use dpdk::testing::eal;
use dpdk::*;

fn pool(buffers: u32) -> Mempool {
    Mempool::new(eal(), PoolConfig::with_buffers(buffers)).unwrap()
}

/// A burst of `count` packets, each holding its number.
fn numbered(pool: &Mempool, count: u8) -> Burst {
    let mut burst = Burst::new();
    for number in 0..count {
        burst.push(pool.alloc_with(&[number]).unwrap()).unwrap();
    }
    burst
}

fn numbers(burst: &Burst) -> Vec<u8> {
    burst.iter().map(|mbuf| mbuf.data()[0]).collect()
}

#[test]
fn an_empty_pool_gives_none_and_nothing_leaks() {
    let pool = pool(100);
    let mut held: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(held.len(), 100);
    assert!(pool.alloc_with(b"x").is_none());
    assert!(!pool.fill(&mut Burst::new(), 1));
    assert_eq!(pool.in_use(), 100);
    held.truncate(1);
    assert_eq!(pool.available(), 99);
    drop(held);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_packet_outlives_its_pool_and_the_pool_is_used_again() {
    let shape = PoolConfig {
        buffers: 77,
        cache: 0,
        ..PoolConfig::default()
    };
    let first = Mempool::new(eal(), shape).unwrap();
    let mut mbuf = first.alloc_with(b"still here").unwrap();
    drop(first);
    let second = Mempool::new(eal(), shape).unwrap();
    assert_eq!(
        second.available(),
        77,
        "a pool with a packet out is not used again"
    );
    mbuf.data_mut()[0] = b'S';
    assert_eq!(mbuf.data(), b"Still here");
    drop(mbuf);
    drop(second);
    assert_eq!(Mempool::new(eal(), shape).unwrap().available(), 77);
}

#[test]
fn pool_shapes_are_bounded() {
    let refused = |config| Mempool::new(eal(), config).unwrap_err().to_string();
    let base = PoolConfig::default();
    assert!(refused(PoolConfig { buffers: 0, ..base }).starts_with("buffers: 0"));
    assert!(refused(PoolConfig { cache: 513, ..base }).starts_with("cache: 513"));
    assert!(
        refused(PoolConfig {
            buffers: 10,
            cache: 7,
            ..base
        })
        .starts_with("cache: 7")
    );
    assert!(
        refused(PoolConfig {
            data_room: 65408,
            ..base
        })
        .starts_with("data_room: 65408")
    );
    let error = Mempool::new(
        eal(),
        PoolConfig {
            buffers: 200_000_000,
            ..base
        },
    )
    .unwrap_err();
    assert!(matches!(error, Error::Resource { .. }), "{error}");
}

#[test]
fn headers_are_put_on_and_taken_off_within_bounds() {
    let pool = pool(100);
    let mut mbuf = pool.alloc_with(b"payload").unwrap();
    assert_eq!((mbuf.headroom(), mbuf.len()), (HEADROOM, 7));
    mbuf.prepend(4).unwrap().copy_from_slice(b"head");
    assert_eq!(mbuf.data(), b"headpayload");
    assert!(mbuf.prepend(HEADROOM - 3).is_none());
    assert!(mbuf.adj(4));
    assert!(!mbuf.adj(8));
    assert_eq!(mbuf.data(), b"payload");
    assert!(mbuf.prepend(HEADROOM).is_some());
    assert!(mbuf.prepend(1).is_none());
    assert_eq!((mbuf.headroom(), mbuf.len()), (0, 7 + HEADROOM));
}

#[test]
fn the_end_grows_and_shrinks_within_bounds() {
    let pool = pool(100);
    let mut mbuf = pool.alloc().unwrap();
    assert_eq!(mbuf.tailroom(), 2048);
    assert!(mbuf.append(2049).is_none());
    assert!(mbuf.append(usize::MAX).is_none());
    mbuf.append(2048).unwrap().fill(7);
    assert_eq!((mbuf.tailroom(), mbuf.len()), (0, 2048));
    assert!(!mbuf.trim(2049));
    assert!(mbuf.trim(2047));
    assert_eq!(mbuf.data(), [7]);
    assert!(mbuf.prepend(usize::MAX).is_none());
    assert!(!mbuf.adj(usize::MAX) && !mbuf.trim(usize::MAX));
    assert!(pool.alloc_with(&[0; 2049]).is_none());
    drop(mbuf);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn chained_segments_are_one_packet() {
    let pool = pool(100);
    let mut mbuf = pool.alloc_with(b"one,").unwrap();
    mbuf.chain(pool.alloc_with(b"two,").unwrap()).unwrap();
    mbuf.chain(pool.alloc_with(b"three").unwrap()).unwrap();
    assert!(mbuf.is_chained());
    assert_eq!(
        (mbuf.len(), mbuf.segment_count(), mbuf.data()),
        (13, 3, &b"one,"[..])
    );
    mbuf.append(1).unwrap()[0] = b'!';
    assert_eq!(mbuf.segments().collect::<Vec<_>>().concat(), b"one,two,three!");
    let mut out = [0; 8];
    assert!(mbuf.copy_to(2, &mut out));
    assert_eq!(&out, b"e,two,th");
    assert!(mbuf.copy_to(6, &mut out) && !mbuf.copy_to(7, &mut out));
    assert!(!mbuf.trim(7) && mbuf.trim(6) && mbuf.adj(4));
    assert_eq!(mbuf.segments().collect::<Vec<_>>().concat(), b"two,");
    assert_eq!(pool.in_use(), 3);
    drop(mbuf);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn metadata_is_read_back() {
    let pool = pool(100);
    let mut mbuf = pool.alloc_with(b"x").unwrap();
    assert_eq!(
        (mbuf.rss_hash(), mbuf.vlan_tci(), mbuf.ol_flags()),
        (None, None, 0)
    );
    mbuf.set_rss_hash(0x1234_5678);
    mbuf.set_port(3);
    mbuf.add_ol_flags(flags::TX_IPV4 | flags::TX_IP_CKSUM);
    assert!(mbuf.set_tx_lengths(14, 20) && !mbuf.set_tx_lengths(128, 20) && !mbuf.set_tx_lengths(14, 512));
    assert_eq!(mbuf.tx_lengths(), TxLengths { l2: 14, l3: 20 });
    assert_eq!((mbuf.rss_hash(), mbuf.port()), (Some(0x1234_5678), 3));
    assert_eq!(
        mbuf.ol_flags(),
        flags::RX_RSS_HASH | flags::TX_IPV4 | flags::TX_IP_CKSUM
    );
    mbuf.clear_ol_flags();
    assert_eq!(mbuf.rss_hash(), None);
}

#[test]
fn a_sender_cannot_claim_what_only_a_pool_may() {
    let mut mbuf = pool(100).alloc_with(b"x").unwrap();
    // Bits that mark a buffer as indirect or external: freeing such a one would follow other pointers.
    mbuf.add_ol_flags(u64::MAX);
    let tx = flags::TX_IPV4 | flags::TX_IPV6 | flags::TX_IP_CKSUM | flags::TX_UDP_CKSUM | flags::TX_TCP_CKSUM;
    assert_eq!(mbuf.ol_flags(), tx);
}

#[test]
fn a_burst_keeps_order_and_frees_what_is_left() {
    let pool = pool(200);
    let mut burst = numbered(&pool, BURST_MAX as u8);
    assert!(burst.is_full());
    assert!(burst.push(pool.alloc().unwrap()).is_err());
    assert_eq!(burst.swap_remove(1).unwrap().data(), [1]);
    assert_eq!(burst[1].data(), [63]);
    assert!(burst.swap_remove(63).is_none());
    assert_eq!(burst.pop().unwrap().data(), [62]);
    let taken: Vec<_> = burst.drain().take(3).map(|mbuf| mbuf.data()[0]).collect();
    assert_eq!(taken, [0, 63, 2]);
    assert_eq!((burst.len(), pool.in_use()), (0, 0));
    assert!(pool.fill(&mut burst, 60) && !pool.fill(&mut burst, 5) && pool.fill(&mut burst, 4));
    drop(burst);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_full_ring_gives_the_rest_back() {
    let pool = pool(200);
    let (mut producer, mut consumer) = spsc(eal(), 40).unwrap();
    let mut burst = numbered(&pool, 64);
    assert_eq!(producer.enqueue(&mut burst), 40);
    assert_eq!(numbers(&burst), (40..64).collect::<Vec<u8>>());
    assert_eq!(producer.enqueue(&mut burst), 0);
    let mut out = Burst::new();
    assert_eq!(consumer.dequeue(&mut out), 40);
    assert_eq!(numbers(&out), (0..40).collect::<Vec<u8>>());
    assert_eq!(producer.enqueue(&mut burst), 24);
    assert_eq!(consumer.dequeue(&mut out), 24);
    assert_eq!(numbers(&out), (0..64).collect::<Vec<u8>>());
}

#[test]
fn a_dropped_ring_frees_what_is_in_it() {
    let pool = pool(200);
    let (producer, consumer) = mpsc(eal(), 128).unwrap();
    let other = producer.clone();
    assert_eq!(
        producer.enqueue(&mut numbered(&pool, 64)) + other.enqueue(&mut numbered(&pool, 20)),
        84
    );
    drop(consumer);
    assert_eq!((other.count(), pool.in_use()), (84, 84));
    drop((producer, other));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn ring_capacity_is_bounded() {
    assert!(spsc(eal(), 0).is_err());
    assert!(mpsc(eal(), (1 << 24) + 1).is_err());
}

#[test]
fn a_pair_of_memory_ports_forwards_bursts() {
    let pool = pool(300);
    let spec = MemorySpec { queues: 2, depth: 32 };
    let (mut port, mut peer) = Port::memory(eal(), &spec).unwrap();
    let mut queues = port.start(&PortConfig::new(2, &pool)).unwrap();
    assert_eq!(port.capabilities().unwrap().driver, "net_ring");
    assert!(port.link().unwrap().up);
    let mut sent = numbered(&pool, 64);
    assert_eq!(peer.to_port[1].enqueue(&mut sent), 32);
    let mut burst = Burst::new();
    assert_eq!(queues.rx[0].rx_burst(&mut burst), 0);
    assert_eq!(queues.rx[1].rx_burst(&mut burst), 32);
    assert_eq!(peer.to_port[1].enqueue(&mut sent), 32);
    assert_eq!(queues.rx[1].rx_burst(&mut burst), 32);
    assert_eq!(
        queues.tx[0].tx_burst(&mut burst),
        32,
        "the ring behind the queue is full then"
    );
    assert_eq!(numbers(&burst), (32..64).collect::<Vec<u8>>());
    let mut back = Burst::new();
    assert_eq!(peer.from_port[0].dequeue(&mut back), 32);
    assert_eq!(numbers(&back), (0..32).collect::<Vec<u8>>());
    let stats = port.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.tx_packets), (64, 32));
    port.reset_stats().unwrap();
    assert_eq!(port.stats().unwrap().rx_packets, 0);
}

#[test]
fn a_port_closes_with_its_last_queue_and_leaves_nothing() {
    let pool = pool(100);
    let (mut port, mut peer) = Port::memory(eal(), &MemorySpec::default()).unwrap();
    let mut queues = port.start(&PortConfig::new(1, &pool)).unwrap();
    drop(port);
    peer.to_port[0].enqueue(&mut numbered(&pool, 10));
    let mut burst = Burst::new();
    assert_eq!(queues.rx[0].rx_burst(&mut burst), 10);
    assert_eq!(queues.tx[0].tx_burst(&mut burst), 10);
    drop(queues);
    assert_eq!(
        peer.from_port[0].dequeue(&mut burst),
        10,
        "the rings stay for the peer"
    );
    drop((burst, peer));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn ports_come_and_go_without_end() {
    let pool = pool(100);
    for _ in 0..100 {
        let (mut port, _peer) = Port::memory(eal(), &MemorySpec::default()).unwrap();
        port.start(&PortConfig::new(1, &pool)).unwrap();
        let mut null = Port::open(eal(), &PortSpec::Null { packet_size: 64 }).unwrap();
        null.start(&PortConfig::new(1, &pool)).unwrap();
    }
}

#[test]
fn a_port_that_fills_in_no_checksums_says_so_whatever_is_wanted() {
    let pool = pool(100);
    let (mut port, _peer) = Port::memory(eal(), &MemorySpec::default()).unwrap();
    assert!(!port.capabilities().unwrap().tx_udp_checksum);
    let wanted = PortConfig {
        tx_udp_checksum: true,
        ..PortConfig::new(1, &pool)
    };
    let queues = port.start(&wanted).unwrap();
    assert!(!queues.tx[0].fills_udp_checksums());
}

#[test]
fn a_configuration_out_of_bounds_names_the_field() {
    let pool = pool(100);
    let (mut port, _peer) = Port::memory(eal(), &MemorySpec::default()).unwrap();
    let base = PortConfig::new(1, &pool);
    let mut refused = |config: PortConfig| port.start(&config).unwrap_err().to_string();
    let text = refused(PortConfig {
        rx_queues: 2,
        ..base.clone()
    });
    assert_eq!(text, "rx_queues: 2 is not allowed: this port has 1 to 1");
    assert!(
        refused(PortConfig {
            tx_queues: 0,
            ..base.clone()
        })
        .starts_with("tx_queues: 0")
    );
    assert!(
        refused(PortConfig {
            pools: vec![],
            ..base.clone()
        })
        .starts_with("pools: 0")
    );
    assert!(
        refused(PortConfig {
            mtu: Some(10),
            ..base.clone()
        })
        .starts_with("mtu: 10")
    );
    port.start(&base).unwrap();
    assert!(port.start(&base).unwrap_err().to_string().contains("starts once"));
    assert!(Port::memory(eal(), &MemorySpec { queues: 17, depth: 1 }).is_err());
}

#[test]
fn rss_that_a_port_lacks_is_reported() {
    let (mut port, _peer) = Port::memory(eal(), &MemorySpec::default()).unwrap();
    assert_eq!(*port.rss(), RssStatus::NotRequested);
    let rss = Some(RssConfig {
        fields: RssFields::IPV4 | RssFields::INNERMOST,
        key: None,
    });
    port.start(&PortConfig {
        rss,
        ..PortConfig::new(1, &pool(100))
    })
    .unwrap();
    assert_eq!(*port.rss(), RssStatus::Unsupported);
}

#[test]
fn rss_that_a_port_has_is_applied() {
    let pool = pool(100);
    let mut port = Port::open(eal(), &PortSpec::Null { packet_size: 64 }).unwrap();
    let wanted = RssFields::IPV4 | RssFields::UDP | RssFields::INNERMOST;
    let rss = |key| Some(RssConfig { fields: wanted, key });
    let base = PortConfig::new(1, &pool);
    let error = port
        .start(&PortConfig {
            rss: rss(Some(vec![0x6d; 40])),
            ..base.clone()
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "rss.key: 40 octets is not allowed: this port has no key to set"
    );
    port.start(&PortConfig {
        rss: rss(None),
        ..base
    })
    .unwrap();
    match port.rss() {
        RssStatus::Applied(fields) => assert_eq!(*fields, wanted),
        RssStatus::Reduced { applied, missing } => assert_eq!(*applied | *missing, wanted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn eal_starts_once_and_knows_its_clock() {
    let eal = eal();
    assert_eq!(Eal::builder().init().unwrap_err(), Error::AlreadyInitialized);
    assert!(Eal::current().is_some() && !eal.has_pci() && eal.version().starts_with("DPDK 2"));
    assert!(eal.tsc_hz() > 1_000_000 && tsc() > 0);
}

#[test]
fn a_packet_crosses_threads() {
    let pool = pool(300);
    let (mut producer, mut consumer) = spsc(eal(), 64).unwrap();
    let mut burst = numbered(&pool, 64);
    let thread = std::thread::spawn(move || {
        let _lcore = Registration::new(eal()).unwrap();
        let mut got = Burst::new();
        while !got.is_full() {
            consumer.dequeue(&mut got);
            std::hint::spin_loop();
        }
        numbers(&got)
    });
    while !burst.is_empty() {
        producer.enqueue(&mut burst);
    }
    assert_eq!(thread.join().unwrap(), (0..64).collect::<Vec<u8>>());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn the_memory_of_a_pool_has_its_buffers_and_is_resident() {
    let pool = pool(511);
    let areas = pool.areas();
    let held: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc_with(b"x")).collect();
    assert_eq!(held.len(), 511);
    for mbuf in &held {
        let address = mbuf.data().as_ptr().addr();
        assert!(areas.iter().any(|area| area.contains(&address)), "{areas:x?}");
    }
    let octets: usize = areas.iter().map(ExactSizeIterator::len).sum();
    assert!(octets >= 511 * 2048, "{octets}");
}
