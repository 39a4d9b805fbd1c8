//! The values of a script: what YAML said, read with errors that name the field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Map, Value};

pub type Fields = Map<String, Value>;
/// What is wrong, in words.
pub type Fault = String;

/// The fields of a mapping; an empty value is a mapping without fields.
pub fn fields<'a>(name: &str, value: &'a Value) -> Result<&'a Fields, Fault> {
    value
        .as_object()
        .ok_or_else(|| format!("{name}: {value} is no mapping"))
}

/// A number, decimal or hexadecimal.
pub fn number(name: &str, value: &Value) -> Result<u64, Fault> {
    let text = || value.as_str().and_then(|text| text.strip_prefix("0x"));
    value
        .as_u64()
        .or_else(|| u64::from_str_radix(text()?, 16).ok())
        .ok_or_else(|| format!("{name}: {value} is no number"))
}

pub fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str, Fault> {
    value
        .as_str()
        .ok_or_else(|| format!("{name}: {value} is no text"))
}

fn parsed<T: std::str::FromStr>(name: &str, value: &Value, what: &str) -> Result<T, Fault> {
    let parsed = value.as_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("{name}: {value} is no {what}"))
}

pub fn ip(name: &str, value: &Value) -> Result<IpAddr, Fault> {
    parsed(name, value, "IP address")
}

pub fn ipv4(name: &str, value: &Value) -> Result<Ipv4Addr, Fault> {
    parsed(name, value, "IPv4 address")
}

pub fn ipv6(name: &str, value: &Value) -> Result<Ipv6Addr, Fault> {
    parsed(name, value, "IPv6 address")
}

/// An IP address with a port.
pub fn socket(name: &str, value: &Value) -> Result<SocketAddr, Fault> {
    parsed(name, value, "IP address and port")
}

pub fn mac(name: &str, value: &Value) -> Result<[u8; 6], Fault> {
    let octets = hex(name, value)?;
    octets
        .try_into()
        .map_err(|_| format!("{name}: {value} is no MAC address"))
}

/// Octets in hexadecimal; blanks and colons between them mean nothing.
pub fn hex(name: &str, value: &Value) -> Result<Vec<u8>, Fault> {
    let bad = || format!("{name}: {value} is not hexadecimal");
    let digits: Vec<u8> = value
        .as_str()
        .ok_or_else(bad)?
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| c.to_digit(16).map(|digit| digit as u8).ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    if digits.len() % 2 == 1 {
        return Err(bad());
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A time such as `200us`, `10ms` or `3s`.
pub fn time(name: &str, value: &Value) -> Result<Duration, Fault> {
    let bad = || format!("{name}: {value} is no time such as 10ms");
    let text = value.as_str().ok_or_else(bad)?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.parse().map_err(|_| bad())?;
    match &text[digits.len()..] {
        "us" => Ok(Duration::from_micros(count)),
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        _ => Err(bad()),
    }
}

/// Takes fields out of a mapping one by one, so that what is left is known to be a mistake.
pub struct Taker<'a> {
    name: &'a str,
    left: Fields,
}

impl<'a> Taker<'a> {
    pub fn new(name: &'a str, fields: &Fields) -> Self {
        Self {
            name,
            left: fields.clone(),
        }
    }

    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.left.remove(field)
    }

    /// The field's value as `read` reads it, or the default.
    pub fn or<T>(
        &mut self,
        field: &str,
        default: T,
        read: impl Fn(&str, &Value) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let name = format!("{}.{field}", self.name);
        self.take(field).map_or(Ok(default), |value| read(&name, &value))
    }

    /// The field's value as `read` reads it, if it is there.
    pub fn maybe<T>(
        &mut self,
        field: &str,
        read: impl Fn(&str, &Value) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let name = format!("{}.{field}", self.name);
        self.take(field).map(|value| read(&name, &value)).transpose()
    }

    /// As [`maybe`](Self::maybe), for a field that must be there.
    pub fn need<T>(
        &mut self,
        field: &str,
        read: impl Fn(&str, &Value) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.maybe(field, read)?
            .ok_or_else(|| format!("{}.{field} is missing", self.name))
    }

    /// The fields that were not read.
    pub fn rest(self) -> Fields {
        self.left
    }

    /// Fails if there are fields that were not read.
    pub fn done(self) -> Result<(), Fault> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(field) => Err(format!("{}.{field}: unknown", self.name)),
        }
    }
}
