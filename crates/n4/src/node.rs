//! Node IDs (TS 29.244 §8.2.38): who a peer is, wherever its datagrams come from.

use pfcp::ie::NodeId;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A Node ID that outlives its datagram. Names compare without regard to case, in DNS labels or with dots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeName {
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A domain name in DNS labels (RFC 1035 §3.1), in lower case.
    Fqdn(Vec<u8>),
}

/// Octets of the longest domain name (RFC 1035 §2.3.4).
pub(crate) const LONGEST_NAME: usize = 255;

impl NodeName {
    /// A domain name with dots. `None` where a label is empty, has more than 63 octets, or has others than letters,
    /// digits, hyphens and underscores.
    pub fn fqdn(name: &str) -> Option<NodeName> {
        labels(name.as_bytes()).map(NodeName::Fqdn)
    }

    /// The node that `id` names. A name that is not in labels is taken as if written with dots, as some peers do.
    /// `None` for what is a name in neither form, and for one that is longer than names are.
    pub(crate) fn of(id: NodeId<'_>) -> Option<NodeName> {
        match id {
            NodeId::Ipv4(address) => Some(NodeName::Ipv4(address)),
            NodeId::Ipv6(address) => Some(NodeName::Ipv6(address)),
            NodeId::Fqdn([] | [0]) => None,
            NodeId::Fqdn(octets) if octets.len() > LONGEST_NAME => None,
            NodeId::Fqdn(octets) if is_labels(octets) => Some(NodeName::Fqdn(
                octets.strip_suffix(&[0]).unwrap_or(octets).to_ascii_lowercase(),
            )),
            NodeId::Fqdn(octets) => labels(octets).map(NodeName::Fqdn),
        }
    }

    /// As an IE.
    pub(crate) fn as_ie(&self) -> NodeId<'_> {
        match self {
            NodeName::Ipv4(address) => NodeId::Ipv4(*address),
            NodeName::Ipv6(address) => NodeId::Ipv6(*address),
            NodeName::Fqdn(labels) => NodeId::Fqdn(labels),
        }
    }
}

impl From<IpAddr> for NodeName {
    fn from(address: IpAddr) -> NodeName {
        match address {
            IpAddr::V4(address) => NodeName::Ipv4(address),
            IpAddr::V6(address) => NodeName::Ipv6(address),
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeName::Ipv4(address) => address.fmt(f),
            NodeName::Ipv6(address) => address.fmt(f),
            NodeName::Fqdn(labels) => with_dots(labels).escape_ascii().fmt(f),
        }
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether the octets are DNS labels to their end, a closing root label allowed.
fn is_labels(octets: &[u8]) -> bool {
    let mut rest = octets;
    while let Some((length, tail)) = rest.split_first() {
        match (*length, tail.split_at_checked(usize::from(*length))) {
            (0, _) => return tail.is_empty(),
            (1..=63, Some((label, after))) if is_label(label) => rest = after,
            _ => return false,
        }
    }
    true
}

/// Whether a label has only what names of hosts have (RFC 1035 §2.3.1), or an underscore.
fn is_label(label: &[u8]) -> bool {
    let is_known = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    label.iter().all(is_known)
}

fn labels(dotted: &[u8]) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(dotted.len() + 1);
    for label in dotted
        .strip_suffix(b".")
        .unwrap_or(dotted)
        .split(|octet| *octet == b'.')
    {
        let length = u8::try_from(label.len())
            .ok()
            .filter(|length| (1..=63).contains(length) && is_label(label))?;
        octets.push(length);
        octets.extend(label.to_ascii_lowercase());
    }
    Some(octets)
}

fn with_dots(labels: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = labels;
    while let Some((length, tail)) = rest.split_first() {
        let Some((label, after)) = tail.split_at_checked(usize::from(*length)) else {
            return labels.to_vec();
        };
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend(label);
        rest = after;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_in_every_spelling() {
        let name = NodeName::fqdn("smf.5gc.example").unwrap();
        for spelling in [
            &b"\x03smf\x035gc\x07example"[..],
            b"\x03SMF\x035gc\x07Example\x00",
            b"smf.5gc.example",
            b"SMF.5gc.example.",
        ] {
            assert_eq!(
                NodeName::of(NodeId::Fqdn(spelling)),
                Some(name.clone()),
                "{}",
                spelling.escape_ascii()
            );
        }
        assert_eq!(name.to_string(), "smf.5gc.example");
        assert_eq!(name.as_ie(), NodeId::Fqdn(b"\x03smf\x035gc\x07example"));
    }

    #[test]
    fn what_is_no_name_names_no_node() {
        for bad in [
            &b""[..],
            b"\0",
            b"\xff\xfe",
            // A label that ends before its length, an empty one, one of 64 octets, a root label in between.
            b"\x03smf\x09short",
            b"smf..example",
            &[&[64][..], &[b'a'; 64]].concat(),
            b"\x03smf\x00\x07example",
            // A pointer of a compressed name, which has no place here.
            b"\x03smf\xc0\x0c",
            b"\x05a.b c",
            b"smf example",
            &[b'a'; 64],
            &[b'a'; 256],
        ] {
            assert_eq!(NodeName::of(NodeId::Fqdn(bad)), None, "{}", bad.escape_ascii());
        }
        assert_eq!(NodeName::fqdn(""), None);
        assert_eq!(NodeName::fqdn("a..b"), None);
        assert_eq!(NodeName::fqdn(&"a".repeat(64)), None);
    }

    #[test]
    fn an_address_is_not_a_name() {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        assert_ne!(Some(NodeName::from(address)), NodeName::fqdn("10.0.0.1"));
    }
}
