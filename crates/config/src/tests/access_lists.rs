//! Access lists.

use super::*;

#[test]
fn access_lists_are_for_slices_and_data_networks() {
    let with = |lists: &str| format!("{GOOD}access_lists: [{lists}]\n");
    let rules = "{name: mail, action: reject, direction: uplink, flows: [permit out 6 from any 25 to assigned]}, \
                 {action: deny, tos: [184, 252]}, {action: permit, name: mail too, \
                 direction: uplink, flows: [permit out 6 from 192.0.2.0/24 25 to assigned]}";
    let text = with(&format!(
        "{{name: all, rules: [{rules}]}}, {{name: gold, slice: {{sst: 1}}, dnn: internet, otherwise: deny}}"
    ));
    let network = network(&text);
    let [all, gold] = network.access_lists().all() else {
        panic!("two lists")
    };
    assert_eq!(
        (all.scope.is_all(), gold.scope.dnn.as_deref()),
        (true, Some("internet"))
    );
    let rules: Vec<_> = all.list.rules().collect();
    let said = rules
        .iter()
        .map(|(id, rule)| (id.0, &*rule.name, rule.action.clone(), rule.filters.len()));
    use rules::model::AccessAction::{Deny, Permit, Reject};
    let expected = [
        (1, "mail", Reject, 1),
        (2, "2", Deny, 1),
        (3, "mail too", Permit, 1),
        (4, "otherwise", Permit, 0),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    assert_eq!(rules[0].1.direction, Some(flow::Direction::Uplink));
    assert_eq!(
        gold.list
            .rules()
            .map(|(id, rule)| (id.0, rule.action.clone()))
            .collect::<Vec<_>>(),
        [(5, Deny)]
    );
    assert_eq!(
        Config::parse(&text, "sluice.yaml")
            .unwrap()
            .shadowed_access_rules(),
        ["access list `all`: rule `mail too` never decides: `mail` before it describes all its packets"]
    );
    for (lists, words) in [
        ("{name: ''}", "the name has no character"),
        ("{name: a, dnn: ''}", "dnn: no character"),
        (
            "{name: a, slice: {sst: 1, sd: '12345'}}",
            "not six hexadecimal digits",
        ),
        ("{name: a}, {name: a, dnn: b}", "another has this name"),
        (
            "{name: a, dnn: a}, {name: b, dnn: A}",
            "another is for the same sessions",
        ),
        ("{name: a, rules: [{action: drop}]}", "drop"),
        (
            "{name: a, rules: [{action: deny, name: '2'}, {action: deny}]}",
            "rule `2`: another has this name",
        ),
        (
            "{name: a, rules: [{action: deny, name: otherwise}]}",
            "rule `otherwise`: another has this name",
        ),
        (
            "{name: a, rules: [{action: deny, flows: [deny out]}]}",
            "deny out",
        ),
    ] {
        let text = refusal(&with(lists));
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn rules_name_hosts_protocols_and_applications() {
    let with = |rules: &str| {
        format!(
            "{GOOD}predefined: {{applications: [{{name: shops, hosts: [shop.example], flows: [permit out 6 from \
             192.0.2.0/24 to assigned], protocols: [rtp]}}]}}\naccess_lists: [{{name: a, rules: [{rules}]}}]\n"
        )
    };
    let text = with(
        "{action: redirect, redirect_to: 'http://portal.example/', hosts: [a.example], protocols: [tls, http]}, \
         {action: reset, applications: [shops], hosts: [b.example]}, \
         {action: sinkhole, protocols: [dns], hosts: [c.example], sinkhole: {ipv4: 192.0.2.1}}",
    );
    let network = network(&text);
    let list = &network.access_lists().all()[0].list;
    let said: Vec<_> = list
        .rules()
        .map(|(id, rule)| {
            let hosts: Vec<_> = rule.detection.hosts.iter().map(ToString::to_string).collect();
            let protocols: Vec<_> = rule
                .detection
                .protocols
                .iter()
                .map(|one| one.to_string())
                .collect();
            (id.0, hosts.join(" "), protocols.join(" "), rule.filters.len())
        })
        .collect();
    let line =
        |id, hosts: &str, protocols: &str, filters| (id, hosts.to_owned(), protocols.to_owned(), filters);
    // A rule with an application is several, of one number.
    assert_eq!(
        said,
        [
            line(1, "a.example", "tls http", 0),
            line(2, "b.example shop.example", "", 0),
            line(2, "", "rtp", 0),
            line(2, "", "", 1),
            line(3, "c.example", "dns", 0),
            line(4, "", "", 0),
        ]
    );
    for (rules, words) in [
        ("{action: redirect, hosts: [a.example]}", "redirect_to: missing"),
        (
            "{action: redirect, redirect_to: 'http://a b/'}",
            "redirect_to: not 1 to 1024",
        ),
        (
            "{action: deny, redirect_to: 'http://a/'}",
            "redirect_to: only with",
        ),
        ("{action: deny, sinkhole: {}}", "sinkhole: only with"),
        (
            "{action: sinkhole, hosts: [a.example]}",
            "sinkhole: only of a rule with `protocols: [dns]`",
        ),
        (
            "{action: deny, applications: [none]}",
            "no application is named `none`",
        ),
        (
            "{action: deny, categories: [none]}",
            "no domain list is of the category `none`",
        ),
        (
            "{action: deny, applications: [shops], flows: [permit out ip from any to assigned]}",
            "may not be beside those of the rule",
        ),
        ("{action: deny, protocols: [ftp]}", "ftp"),
    ] {
        let text = refusal(&with(rules));
        assert!(text.contains(words), "{text}");
    }
    let text = refusal(&format!(
        "{GOOD}access_lists: [{{name: a, otherwise: redirect}}]\n"
    ));
    assert!(text.contains("otherwise: only a rule"), "{text}");
}
