//! UE addresses and the networks behind UEs, as PDIs and Traffic Endpoints name them (TS 29.244 §8.2.62, §8.2.109,
//! §8.2.111).

use pfcp::ie::{self, Cause, UeIpAddressPoolIdentity};
use pfcp::{IeType, Repeated};
use rules::model::{FramedRoutesUpdate, UeIpAddress, UeIpAddresses};
use rules::prefix::IpPrefix;
use session::{ChooseUeIp, PoolId, Recipient};
use std::net::{IpAddr, Ipv4Addr};

use super::{Context, is_present, list};
use crate::cause::Reject;

/// Addresses that were given, and what the user plane is to choose.
#[derive(Default)]
pub(super) struct UeIps {
    pub(super) given: UeIpAddresses,
    pub(super) chosen: Vec<ChooseUeIp>,
}

/// The UE IP Addresses of a PDR or Traffic Endpoint; addresses to choose come from `pools`.
pub(super) fn ue_ips(
    sent: &Repeated<'_, ie::UeIpAddress>,
    to: Recipient,
    pools: &[PoolId],
    context: Context<'_>,
) -> Result<UeIps, Reject> {
    let mut all = UeIps::default();
    for ue in sent {
        check(&ue)?;
        let length = length(&ue)?;
        if ue.choose_v4 || ue.choose_v6 {
            check_has_pools(to, context)?;
            all.chosen.push(ChooseUeIp {
                to,
                ipv4: ue.choose_v4,
                ipv6: ue.choose_v6.then_some(length),
                is_delegated: ue.ipv6_prefix_delegation_bits.is_some(),
                is_destination: ue.is_destination,
                pools: pools.to_vec(),
            });
        }
        if ue.ipv4.is_some() || ue.ipv6.is_some() {
            all.given.push(UeIpAddress {
                ipv4: ue.ipv4,
                ipv6: ue.ipv6.map(|address| (address, length.unwrap_or(64))),
                is_destination: ue.is_destination,
            });
        }
    }
    Ok(all)
}

const INCORRECT: Reject = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::UE_IP_ADDRESS);

/// That an address is given or to be chosen, and of one family not both (V4 and CHV4, V6 and CHV6). One without any
/// would let all addresses through.
fn check(ue: &ie::UeIpAddress) -> Result<(), Reject> {
    let v4 = (ue.ipv4.is_some(), ue.choose_v4);
    let v6 = (ue.ipv6.is_some(), ue.choose_v6);
    match (v4, v6) {
        ((true, true), _) | (_, (true, true)) => Err(INCORRECT),
        ((false, false), (false, false)) => Err(INCORRECT),
        _ => Ok(()),
    }
}

/// The bits of the IPv6 prefix; `None`: as configured. A length counts only where there are no bits for delegation.
fn length(ue: &ie::UeIpAddress) -> Result<Option<u8>, Reject> {
    match (ue.ipv6_prefix_delegation_bits, ue.ipv6_prefix_length) {
        (None, None) => Ok(Some(64)),
        (Some(0), _) | (None, Some(0)) => Ok(None),
        (Some(bits @ 1..=63), _) => Ok(Some(64 - bits)),
        (None, Some(length @ 1..=128)) => Ok(Some(length)),
        (Some(_), _) | (None, Some(_)) => Err(INCORRECT),
    }
}

/// Without pools, UEIP is not among our features.
fn check_has_pools(to: Recipient, context: Context<'_>) -> Result<(), Reject> {
    if context.pools.is_empty() {
        let unsupported = Reject::rule(to).because(Cause::SERVICE_NOT_SUPPORTED);
        Err(unsupported.offends(IeType::UE_IP_ADDRESS))
    } else {
        Ok(())
    }
}

/// The pools that a Create PDR names: at most one for IPv4 and one for IPv6, in this order, or one for both.
pub(super) fn pools(
    sent: &Repeated<'_, UeIpAddressPoolIdentity<'_>>,
    reject: Reject,
    context: Context<'_>,
) -> Result<Vec<PoolId>, Reject> {
    let known = |identity: UeIpAddressPoolIdentity<'_>| {
        let place = context
            .pools
            .iter()
            .position(|pool| !pool.is_removed() && pool.name.as_bytes() == identity.0.0);
        place.map(|place| PoolId(place as u16))
    };
    let pools = sent.iter().take(2).map(known);
    let unknown = reject.offends(IeType::UE_IP_ADDRESS_POOL_IDENTITY);
    pools.collect::<Option<_>>().ok_or(unknown)
}

/// That what is new has no Framed-Route of no octets.
pub(super) fn check_framed_routes(
    ipv4: &Repeated<'_, ie::FramedRoute<'_>>,
    ipv6: &Repeated<'_, ie::FramedIpv6Route<'_>>,
) -> Result<(), Reject> {
    let refused = |offending| Err(Reject::ie(Cause::INVALID_LENGTH, offending));
    match (ipv4.removes_all(), ipv6.removes_all()) {
        (true, _) => refused(IeType::FRAMED_ROUTE),
        (_, true) => refused(IeType::FRAMED_IPV6_ROUTE),
        _ => Ok(()),
    }
}

/// Framed-Routes of both families; a list that did not come stays.
pub(super) fn framed_routes(
    ipv4: &Repeated<'_, ie::FramedRoute<'_>>,
    ipv6: &Repeated<'_, ie::FramedIpv6Route<'_>>,
    reject: Reject,
) -> Result<FramedRoutesUpdate, Reject> {
    if !is_present(ipv4) && !is_present(ipv6) {
        return Ok(FramedRoutesUpdate::default());
    }
    let v4 = ipv4
        .iter()
        .map(|route| framed_route(route.0).ok_or(reject.offends(IeType::FRAMED_ROUTE)));
    let v6 = ipv6
        .iter()
        .map(|route| framed_ipv6_route(route.0).ok_or(reject.offends(IeType::FRAMED_IPV6_ROUTE)));
    let (v4, v6) = (
        v4.collect::<Result<Vec<_>, _>>()?,
        v6.collect::<Result<Vec<_>, _>>()?,
    );
    Ok(FramedRoutesUpdate {
        ipv4: list(ipv4, v4.into_iter()),
        ipv6: list(ipv6, v6.into_iter()),
    })
}

/// The destination of a Framed-Route (RFC 2865 §5.22); the router and the metrics behind it are the UE's matter.
fn framed_route(octets: &[u8]) -> Option<IpPrefix> {
    let destination = destination(octets)?;
    match destination.split_once('/') {
        Some(_) => destination.parse().ok().filter(IpPrefix::is_ipv4),
        None => {
            let address: Ipv4Addr = destination.parse().ok()?;
            IpPrefix::new(IpAddr::V4(address), length_of_class(address)?)
        }
    }
}

/// The destination of a Framed-IPv6-Route (RFC 3162 §2.5).
fn framed_ipv6_route(octets: &[u8]) -> Option<IpPrefix> {
    let (address, len) = destination(octets)?.split_once('/')?;
    let address: std::net::Ipv6Addr = address.parse().ok()?;
    IpPrefix::new(IpAddr::V6(address), len.parse().ok()?)
}

fn destination(octets: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(octets).ok()?;
    text.trim_end_matches('\0').split_ascii_whitespace().next()
}

/// The length that goes without saying: that of the class A, B or C.
const fn length_of_class(address: Ipv4Addr) -> Option<u8> {
    match address.octets()[0] {
        0..=127 => Some(8),
        128..=191 => Some(16),
        192..=223 => Some(24),
        224..=255 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framed_routes_are_read_as_radius_has_them() {
        let v4 = |text: &str| framed_route(text.as_bytes()).map(|route| route.to_string());
        assert_eq!(
            v4("192.168.1.0/24 192.168.1.1 1").as_deref(),
            Some("192.168.1.0/24")
        );
        assert_eq!(v4("10.60.1.7/16").as_deref(), Some("10.60.0.0/16"));
        assert_eq!(
            v4("192.168.1.0 0.0.0.0 1 2 -1 3 400").as_deref(),
            Some("192.168.1.0/24")
        );
        assert_eq!(v4("172.16.0.0").as_deref(), Some("172.16.0.0/16"));
        assert_eq!(v4("10.0.0.0\0").as_deref(), Some("10.0.0.0/8"));
        for bad in [
            "",
            " ",
            "10.0.0.0/33",
            "10.0.0/8",
            "224.0.0.0",
            "2001:db8::/64",
            "x",
        ] {
            assert_eq!(v4(bad), None, "{bad}");
        }
        assert_eq!(framed_route(&[0xff, 0xfe]), None);
        let v6 = |text: &str| framed_ipv6_route(text.as_bytes()).map(|route| route.to_string());
        assert_eq!(
            v6("2001:db8:106::/64 2001:db8::1 1").as_deref(),
            Some("2001:db8:106::/64")
        );
        for bad in ["", "2001:db8::", "2001:db8::/129", "10.0.0.0/8", "::/"] {
            assert_eq!(v6(bad), None, "{bad}");
        }
    }
}
