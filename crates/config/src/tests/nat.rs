//! Pools of public addresses: what of them is for certain UEs.

use ::nat::pools::{BlockId, NatPoolId};

use super::{GOOD, assert_says, network, refusal};

/// Two addresses of 126 blocks.
fn pool(more: &str) -> String {
    let pool = "nat_pools:\n  - {name: cgn, instance: internet, addresses: [203.0.113.0/31], ";
    format!("{GOOD}{pool}{more}}}\n")
}

fn forward(port: u16, public: &str, public_port: u16) -> String {
    format!("{{ue: 10.45.0.5, port: {port}, protocol: tcp, public: {public}, public_port: {public_port}}}")
}

#[test]
fn blocks_follow_from_addresses() {
    let network = network(&pool("deterministic: {ues: 10.45.0.0/25}"));
    let pools = network.nat().pools();
    let map = pools.deterministic(NatPoolId(0)).expect("it is deterministic");
    assert_eq!(map.block_of([10, 45, 0, 5].into()), Some(BlockId(5)));
    assert_eq!(pools.all()[0].limits.blocks, 1, "no further one");
    let prefix = |ues: &str| refusal(&pool(&format!("deterministic: {{ues: {ues}}}")));
    assert_says(&prefix("10.45.0.0/24"), ["256 addresses", "252 blocks"]);
    assert_says(&prefix("10.45.0.1/25"), ["deterministic.ues", "10.45.0.0/25"]);
    assert_says(&prefix("2001:db8::/120"), ["deterministic.ues", "IPv4"]);
}

#[test]
fn what_is_unsolicited_pages_nobody_and_is_free_unless_a_pool_says_so() {
    let policy = |more: &str| {
        let network = network(&pool(more));
        let pool = &network.nat().pools().all()[0];
        (
            pool.unsolicited.pages,
            pool.unsolicited.charged,
            pool.distinguishes_unsolicited(),
        )
    };
    assert_eq!(policy("block: 512"), (false, false, true));
    assert_eq!(policy("unsolicited: {pages: true}"), (true, false, true));
    assert_eq!(policy("unsolicited: {charged: true}"), (false, true, true));
    assert_eq!(
        policy("unsolicited: {pages: true, charged: true}"),
        (true, true, false)
    );
    let filters = "filtering: address_dependent";
    assert_eq!(policy(filters), (false, false, false), "there are none");
    let refused = refusal(&pool(&format!("{filters}, unsolicited: {{pages: false}}")));
    assert_says(&refused, ["NAT pool `cgn`: unsolicited", "address_dependent"]);
    assert_says(&refusal(&pool("unsolicited: {paged: true}")), ["paged", "pages"]);
}

#[test]
fn forwards_are_ports_of_the_pool_and_of_one_ue_each() {
    let good = forward(80, "203.0.113.1", 2_600);
    let pools = network(&pool(&format!("forwards: [{good}]")))
        .nat()
        .pools()
        .clone();
    let own: Vec<BlockId> = pools
        .own_blocks(NatPoolId(0), (flow::VrfId(0), [10, 45, 0, 5].into()))
        .collect();
    assert_eq!(own, [BlockId(126 + 3)]);
    let second = |second: &str| refusal(&pool(&format!("forwards: [{good}, {second}]")));
    let not = |port, public, public_port| second(&forward(port, public, public_port));
    assert_says(
        &not(81, "203.0.113.1", 1_023),
        ["forward 2", "no whole block of the pool's ports"],
    );
    assert_says(&not(81, "203.0.113.2", 2_601), ["forward 2", "no whole block"]);
    assert_says(
        &not(81, "203.0.113.1", 2_600),
        ["forward 2", "another forward has the public port"],
    );
    assert_says(
        &not(80, "203.0.113.1", 2_601),
        ["forward 2", "another forward has the UE's port"],
    );
    assert_says(
        &not(81, "203.0.113.0", 2_601),
        ["forward 2", "has forwards of 203.0.113.1"],
    );
    let other = forward(80, "203.0.113.1", 2_601).replace("10.45.0.5", "10.45.0.6");
    assert_says(&second(&other), ["forward 2", "is of UE 10.45.0.5"]);
    let icmp = good.replace("tcp", "icmp");
    assert_says(&second(&icmp), ["icmp", "tcp"]);
}
