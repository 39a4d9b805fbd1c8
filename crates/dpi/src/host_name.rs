//! The name of a host in the one form in which names are compared.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// The longest name, octets (RFC 1035 §2.3.4, without the lengths of its labels' wire form).
pub const LONGEST_NAME: usize = 253;
/// The longest label of a name, octets (RFC 1035 §2.3.4).
pub const LONGEST_LABEL: usize = 63;

/// What a [`HostName`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// A name.
    Name,
    /// An IPv4 address in dotted decimal.
    Ipv4,
    /// An IPv6 address, without brackets.
    Ipv6,
}

/// Why octets are no host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidName {
    /// There is none, or only a dot.
    Empty,
    /// More than [`LONGEST_NAME`] octets.
    TooLong,
    /// A label of no octets, or of more than [`LONGEST_LABEL`].
    Label,
    /// An octet that is no letter, digit, hyphen or underscore.
    Character,
    /// An address that is none: brackets without an IPv6 address, or a last label of digits alone.
    Address,
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::TooLong => write!(f, "it has more than {LONGEST_NAME} octets"),
            Self::Label => write!(f, "a label has no octet, or more than {LONGEST_LABEL}"),
            Self::Character => f.write_str("an octet is no letter, digit, hyphen or underscore"),
            Self::Address => {
                f.write_str("its last label has digits alone, or brackets are around no IPv6 address")
            }
        }
    }
}

impl core::error::Error for InvalidName {}

/// A host name: 1 to 253 octets, lower case, without a dot at its end, labels of 1 to 63 octets that are letters,
/// digits, hyphens and underscores (RFC 1123 §2.1; underscores are in use). Names in other scripts come as A-labels
/// (RFC 5890 §2.3.2.1). An address is marked as such and has the form of RFC 5952 §4.
///
/// It is 255 octets without any on the heap.
///
/// ```
/// use dpi::{HostKind, HostName};
///
/// let name = HostName::parse(b"WWW.Example.com.").unwrap();
/// assert_eq!((name.as_str(), name.kind()), ("www.example.com", HostKind::Name));
/// assert_eq!(HostName::parse(b"[2001:DB8:0::1]").unwrap().as_str(), "2001:db8::1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostName {
    octets: [u8; LONGEST_NAME],
    len: u8,
    kind: HostKind,
}

/// What an octet of a name becomes: in lower case, or nothing where it may not be in a label.
const LABEL_OCTETS: [u8; 256] = label_octets();

const fn label_octets() -> [u8; 256] {
    let mut octets = [0; 256];
    let mut at = 0;
    while at < 128 {
        let octet = at as u8;
        if octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_' {
            octets[at] = octet.to_ascii_lowercase();
        }
        at += 1;
    }
    octets
}

impl HostName {
    /// The host name that `text` is, in any case, with or without a dot at its end; an IPv6 address in brackets
    /// (RFC 3986 §3.2.2).
    ///
    /// # Errors
    ///
    /// [`InvalidName`] says why `text` is none.
    pub fn parse(text: &[u8]) -> Result<HostName, InvalidName> {
        if let [b'[', address @ .., b']'] = text {
            return HostName::ipv6(address);
        }
        let text = text.strip_suffix(b".").unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        let mut name = HostName {
            octets: [0; LONGEST_NAME],
            len: u8::try_from(text.len()).map_err(|_| InvalidName::TooLong)?,
            kind: HostKind::Name,
        };
        let octets = name.octets.get_mut(..text.len()).ok_or(InvalidName::TooLong)?;
        let last_label = normalise(text, octets)?;
        if last_label.iter().all(u8::is_ascii_digit) {
            from_text::<Ipv4Addr>(text)?;
            name.kind = HostKind::Ipv4;
        }
        Ok(name)
    }

    /// The host whose octets these are ([`as_bytes`](Self::as_bytes)).
    pub fn of_octets(octets: &[u8]) -> Option<HostName> {
        let host = match octets.contains(&b':') {
            true => HostName::ipv6(octets),
            false => HostName::parse(octets),
        };
        host.ok()
    }

    fn ipv6(text: &[u8]) -> Result<HostName, InvalidName> {
        let address: Ipv6Addr = from_text(text)?;
        let mut writer = Writer {
            octets: [0; LONGEST_NAME],
            len: 0,
        };
        fmt::write(&mut writer, format_args!("{address}")).map_err(|_| InvalidName::Address)?;
        Ok(HostName {
            octets: writer.octets,
            len: writer.len as u8,
            kind: HostKind::Ipv6,
        })
    }

    /// Its octets, all of them ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// What it is.
    pub fn kind(&self) -> HostKind {
        self.kind
    }
}

/// Writes `text` in lower case to `octets`, which are as many. Its last label.
fn normalise<'o>(text: &[u8], octets: &'o mut [u8]) -> Result<&'o [u8], InvalidName> {
    let mut label_from = 0;
    for (at, (&octet, to)) in text.iter().zip(octets.iter_mut()).enumerate() {
        let in_label = LABEL_OCTETS[usize::from(octet)];
        if octet == b'.' {
            check_label(at - label_from)?;
            label_from = at + 1;
            *to = octet;
        } else if in_label == 0 {
            return Err(InvalidName::Character);
        } else {
            *to = in_label;
        }
    }
    check_label(text.len() - label_from)?;
    Ok(octets.get(label_from..).unwrap_or_default())
}

fn check_label(octets: usize) -> Result<(), InvalidName> {
    match octets {
        1..=LONGEST_LABEL => Ok(()),
        _ => Err(InvalidName::Label),
    }
}

fn from_text<T: FromStr>(text: &[u8]) -> Result<T, InvalidName> {
    let text = core::str::from_utf8(text).map_err(|_| InvalidName::Address)?;
    text.parse().map_err(|_| InvalidName::Address)
}

struct Writer {
    octets: [u8; LONGEST_NAME],
    len: usize,
}

impl fmt::Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let octets = self.octets.get_mut(self.len..end).ok_or(fmt::Error)?;
        octets.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<(String, HostKind), InvalidName> {
        HostName::parse(text.as_bytes()).map(|name| (name.to_string(), name.kind()))
    }

    #[test]
    fn names_have_one_form() {
        let name = |text: &str| Ok((text.to_string(), HostKind::Name));
        assert_eq!(parsed("WWW.Example.COM"), name("www.example.com"));
        assert_eq!(parsed("example.com."), name("example.com"));
        assert_eq!(
            parsed("_dmarc.xn--bcher-kva.example"),
            name("_dmarc.xn--bcher-kva.example")
        );
        assert_eq!(parsed("localhost"), name("localhost"));
        assert_eq!(parsed("1.example"), name("1.example"));
    }

    #[test]
    fn addresses_are_marked() {
        assert_eq!(parsed("192.0.2.1"), Ok(("192.0.2.1".into(), HostKind::Ipv4)));
        assert_eq!(
            parsed("[2001:0DB8::0:1]"),
            Ok(("2001:db8::1".into(), HostKind::Ipv6))
        );
        for none in [
            "192.0.2.256",
            "192.0.2",
            "1",
            "example.1",
            "[::1",
            "[fe80::1%eth0]",
            "[v1.x]",
            "[]",
        ] {
            assert!(parsed(none).is_err(), "{none}");
        }
    }

    #[test]
    fn what_is_no_name_has_a_reason() {
        let long_label = "a".repeat(64);
        let longest = format!("{}a.example", "abcdefg.".repeat(30) + "abc.");
        assert_eq!(longest.len(), 253);
        assert!(parsed(&longest).is_ok());
        for (text, why) in [
            ("", InvalidName::Empty),
            (".", InvalidName::Empty),
            ("..", InvalidName::Label),
            (".example", InvalidName::Label),
            ("www..example", InvalidName::Label),
            (&long_label, InvalidName::Label),
            (&format!("a{longest}"), InvalidName::TooLong),
            (&"a".repeat(300), InvalidName::TooLong),
            ("www.example com", InvalidName::Character),
            ("www.ex\u{e4}mple", InvalidName::Character),
            ("example.com:443", InvalidName::Character),
            ("*.example.com", InvalidName::Character),
        ] {
            assert_eq!(parsed(text), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_give_a_name_that_stays_itself_or_none(text in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(name) = HostName::parse(&text)
                && name.kind() != HostKind::Ipv6
            {
                prop_assert_eq!(HostName::parse(name.as_bytes()), Ok(name));
                prop_assert!(name.as_bytes().len() <= LONGEST_NAME);
            }
        }
    }
}
