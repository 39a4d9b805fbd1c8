//! What SMFs choose of `nat_pools`, by `forwarding_policies` or by name.

use super::*;
use ::nat::pools::NatPoolId;
use rules::model::NatChoice;

const POOLS: &str = "nat_pools:\n\
    - {name: consumers, instance: internet, dnn: internet, addresses: [203.0.113.0/30]}\n\
    - {name: gamers, instance: internet, smf_only: true, addresses: [203.0.113.8/30]}\n";

fn with(policies: &str) -> String {
    format!("{GOOD}{POOLS}forwarding_policies: [{policies}]\n")
}

#[test]
fn policies_name_pools() {
    let text =
        with("{name: gold, nat_pool: gamers}, {name: plain, nat_pool: none}, {name: marked, dscp: 46}");
    let network = network(&text);
    let choice = |name: &str| {
        let id = network.policy_by_name(name.as_bytes()).expect("a policy");
        network.policy(id).expect("a policy").nat
    };
    assert_eq!(choice("gold"), Some(NatChoice::Pool(NatPoolId(1))));
    assert_eq!(choice("plain"), Some(NatChoice::Untranslated));
    assert_eq!(choice("marked"), None);
    // A pool that only SMFs choose is for no session by itself.
    assert_eq!(network.nat().of(None, Some(b"internet")), Some(NatPoolId(0)));
    assert_eq!(network.nat().of(None, Some(b"ims")), None);
    assert_eq!(network.nat().by_name(b"gamers"), Some(NatPoolId(1)));
    assert_eq!(network.nat().by_name(b"Gamers"), None);
}

#[test]
fn policies_that_contradict_pools_are_refused() {
    for (policy, words) in [
        (
            "{name: a, nat_pool: gamer}",
            "nat_pool: no pool is named `gamer`, nor is it `none`",
        ),
        ("{name: a, nat_pool: ''}", "nat_pool: no pool is named ``"),
    ] {
        assert_says(&refusal(&with(policy)), ["line 17", words]);
    }
    let twice = |pool: &str| format!("{GOOD}nat_pools: [{pool}]\n");
    for (pool, words) in [
        (
            "{name: a, instance: internet, dnn: b, smf_only: true, addresses: [203.0.113.0/30]}",
            "smf_only: it has a slice or a dnn",
        ),
        (
            "{name: none, instance: internet, addresses: [203.0.113.0/30]}",
            "forwarding policies say by this name that there is no pool",
        ),
        // Its addresses are checked all the same.
        (
            "{name: a, instance: access, smf_only: true, addresses: [203.0.113.0/30]}",
            "instance: `access` is none with role n6",
        ),
    ] {
        assert_says(&refusal(&twice(pool)), ["line 14", words]);
    }
}
