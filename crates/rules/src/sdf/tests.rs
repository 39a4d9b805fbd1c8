//! Descriptions as peers write them, and malformed ones.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> FlowDescription {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn fault(text: &str) -> (usize, SdfFault) {
    let error = FlowDescription::parse(text.as_bytes()).expect_err(text);
    (error.position, error.reason)
}

#[test]
fn spellings_of_the_field_are_understood() {
    for (text, canonical) in [
        (
            "permit out ip from any to assigned",
            "permit out ip from any to assigned",
        ),
        (
            "permit out 58 from ff02::2/128 to assigned",
            "permit out 58 from ff02::2/128 to assigned",
        ),
        (
            "permit out 17 from 10.0.0.0/8 1000-2000,53 to assigned 80",
            "permit out 17 from 10.0.0.0/8 1000-2000,53 to assigned 80",
        ),
        (
            "permit out 6 from 192.0.2.7 443 to any",
            "permit out 6 from 192.0.2.7/32 443 to any",
        ),
        (
            "permit out ip from 2001:db8::1/32 to 2001:db8:1::/48",
            "permit out ip from 2001:db8::/32 to 2001:db8:1::/48",
        ),
        (
            "permit in ip from assigned to any 53",
            "permit in ip from assigned to any 53",
        ),
        (
            "  permit\tout  ip \n from any  to assigned   ",
            "permit out ip from any to assigned",
        ),
        (
            "PERMIT OUT IP FROM ANY TO ASSIGNED",
            "permit out ip from any to assigned",
        ),
        (
            "permit out ip from any to assigned\0",
            "permit out ip from any to assigned",
        ),
        ("permit out 255 from 0.0.0.0/0 0-65535 to ::/0", ""),
        (
            "permit out 0 from ::ffff:1.2.3.4 to any",
            "permit out 0 from ::ffff:1.2.3.4/128 to any",
        ),
    ] {
        match FlowDescription::parse(text.as_bytes()) {
            Ok(description) => assert_eq!(description.to_string(), canonical),
            Err(error) => assert_eq!(("", SdfFault::MixedFamilies), (canonical, error.reason), "{text}"),
        }
    }
}

#[test]
fn an_error_names_its_place_and_reason() {
    use SdfFault::*;
    for (text, expected) in [
        ("", (0, Missing("'permit'"))),
        ("   ", (3, Missing("'permit'"))),
        ("deny out ip from any to assigned", (0, Action)),
        ("permit", (6, Missing("'out'"))),
        ("permit both ip from any to any", (7, Expected("'out' or 'in'"))),
        ("permit out tcp from any to any", (11, Protocol)),
        ("permit out 256 from any to any", (11, Protocol)),
        ("permit out -1 from any to any", (11, Protocol)),
        ("permit out +6 from any to any", (11, Protocol)),
        ("permit out ip any to any", (14, Expected("'from'"))),
        ("permit out ip from", (18, Missing("the source"))),
        ("permit out ip from !10.0.0.1 to any", (19, Negation)),
        ("permit out ip from 10.0.0 to any", (19, Address)),
        ("permit out ip from \u{e9} to any", (19, Address)),
        ("permit out ip from fe80::1%1 to any", (19, Address)),
        ("permit out ip from 10.0.0.0/33 to any", (28, PrefixLength)),
        ("permit out ip from 10.0.0.0/ to any", (28, PrefixLength)),
        ("permit out ip from 10.0.0.0/+8 to any", (28, PrefixLength)),
        ("permit out ip from ::/129 to any", (22, PrefixLength)),
        ("permit out 6 from any 65536 to any", (22, Port)),
        ("permit out 6 from any 80,,81 to any", (25, Port)),
        ("permit out 6 from any ,80 to any", (22, Port)),
        ("permit out 6 from any 80, to any", (25, Port)),
        ("permit out 6 from any 80-70 to any", (22, PortOrder)),
        ("permit out 6 from any 80- to any", (22, Port)),
        ("permit out 6 from any 1-2-3 to any", (22, Port)),
        ("permit out 6 from any 80 assigned", (25, Expected("'to'"))),
        ("permit out ip from any to", (25, Missing("the destination"))),
        ("permit out ip from any to any frag", (30, Trailing)),
        ("permit out 6 from any to any 80 setup", (32, Trailing)),
        ("permit out ip from 10.0.0.1 to ::1", (30, MixedFamilies)),
    ] {
        assert_eq!(fault(text), expected, "{text}");
    }
    assert_eq!(
        FlowDescription::parse(b"permit out tcp from any to any")
            .unwrap_err()
            .to_string(),
        "flow description, octet 11: the protocol must be 'ip' or 0..=255"
    );
}

#[test]
fn the_number_of_ports_is_bounded() {
    let list = |n: usize| vec!["7"; n].join(",");
    assert!(FlowDescription::parse(format!("permit out 6 from any {} to any", list(64)).as_bytes()).is_ok());
    assert_eq!(
        fault(&format!("permit out 6 from any {} to any", list(65))).1,
        SdfFault::TooManyPorts
    );
}

#[test]
fn the_side_of_the_ue_is_found() {
    let out = parse("permit out 17 from 10.0.0.1 53 to 10.45.0.2 4000");
    assert_eq!(out.ue_side(), &out.destination);
    assert_eq!(out.remote_side(), &out.source);
    let inward = parse("permit in 17 from 10.45.0.2 4000 to 10.0.0.1 53");
    assert_eq!(
        (inward.ue_side(), inward.remote_side()),
        (out.ue_side(), out.remote_side())
    );
    let muddled = parse("permit in ip from any to assigned");
    assert_eq!(muddled.ue_side().address, Address::Assigned);
}

fn any_address() -> impl Strategy<Value = Address> {
    prop_oneof![
        Just(Address::Any),
        Just(Address::Assigned),
        (any::<u32>(), 0..=32u8)
            .prop_map(|(v4, len)| (IpAddr::V4(v4.into()), len))
            .prop_map(prefix),
        (any::<u128>(), 0..=128u8)
            .prop_map(|(v6, len)| (IpAddr::V6(v6.into()), len))
            .prop_map(prefix),
    ]
}

fn prefix((address, len): (IpAddr, u8)) -> Address {
    Address::Prefix(IpPrefix::new(address, len).unwrap())
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let range = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)).unwrap());
    (any_address(), prop::collection::vec(range, 0..4)).prop_map(|(address, ports)| Endpoint {
        address,
        ports: ports.into(),
    })
}

fn any_description() -> impl Strategy<Value = FlowDescription> {
    let written = prop_oneof![Just(Written::Out), Just(Written::In)];
    (written, any::<Option<u8>>(), any_endpoint(), any_endpoint())
        .prop_map(|(written, protocol, source, destination)| Description {
            written,
            protocol,
            source,
            destination,
        })
        .prop_map(FlowDescription::from)
        .prop_filter("one family", |d| {
            check_families(&d.source, &d.destination, 0).is_ok()
        })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same(description in any_description()) {
        prop_assert_eq!(parse(&description.to_string()), description);
    }

    #[test]
    fn random_octets_do_no_harm(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = FlowDescription::parse(&octets) {
            prop_assert!(error.position <= octets.len());
        }
    }

    #[test]
    fn mutated_and_truncated_descriptions_do_no_harm(
        description in any_description(),
        at in any::<prop::sample::Index>(),
        octet: u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut octets = description.to_string().into_bytes();
        let place = at.index(octets.len());
        octets[place] = octet;
        octets.truncate(cut.index(octets.len() + 1));
        match FlowDescription::parse(&octets) {
            Ok(parsed) => prop_assert_eq!(parse(&parsed.to_string()), parsed),
            Err(error) => prop_assert!(error.position <= octets.len()),
        }
    }
}
