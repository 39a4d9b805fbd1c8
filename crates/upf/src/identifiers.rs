//! SEIDs and TEIDs as people write them.

use std::fmt;

use packet::Teid;
use session::Seid;

/// A SEID as it is shown.
#[must_use]
pub fn seid(number: u64) -> String {
    format!("{number:#018x}")
}

/// A TEID as it is shown.
#[must_use]
pub fn teid(teid: Teid) -> String {
    teid.to_string()
}

/// A text that is no number of this many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadNumber {
    bits: u32,
}

impl fmt::Display for BadNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must be a number of {} bits: decimal, or hexadecimal behind 0x",
            self.bits
        )
    }
}

impl std::error::Error for BadNumber {}

fn read(text: &str, bits: u32) -> Result<u64, BadNumber> {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    let is_plain = digits.bytes().all(|octet| octet.is_ascii_alphanumeric());
    let number = u64::from_str_radix(digits, radix).ok().filter(|_| is_plain);
    let most = u64::MAX >> (64 - bits);
    number.filter(|number| *number <= most).ok_or(BadNumber { bits })
}

/// Reads a SEID, decimal or hexadecimal.
///
/// # Errors
/// [`BadNumber`].
pub fn read_seid(text: &str) -> Result<Seid, BadNumber> {
    read(text, 64).map(Seid)
}

/// Reads a TEID, decimal or hexadecimal.
///
/// # Errors
/// [`BadNumber`].
pub fn read_teid(text: &str) -> Result<Teid, BadNumber> {
    read(text, 32).map(|number| Teid(number as u32))
}

/// A text that is no IMSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadImsi;

impl fmt::Display for BadImsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be an IMSI: 6 to 15 digits")
    }
}

impl std::error::Error for BadImsi {}

/// Reads an IMSI (TS 23.003 §2.2).
///
/// # Errors
/// [`BadImsi`].
pub fn read_imsi(text: &str) -> Result<Box<str>, BadImsi> {
    let is_imsi = (6..=15).contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_digit());
    is_imsi.then(|| text.into()).ok_or(BadImsi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_imsi_is_digits() {
        assert_eq!(read_imsi("001010000000001").as_deref(), Ok("001010000000001"));
        for bad in [
            "",
            "00101",
            "0010100000000012",
            "imsi-001010000000001",
            "00101000000000a",
        ] {
            assert_eq!(read_imsi(bad), Err(BadImsi), "{bad:?}");
        }
    }

    #[test]
    fn numbers_are_read_in_both_ways() {
        assert_eq!(read_seid("0x8f3c21b09d4e7a65"), Ok(Seid(0x8f3c_21b0_9d4e_7a65)));
        assert_eq!(read_seid(&seid(77)), Ok(Seid(77)));
        assert_eq!(read_seid("18446744073709551615"), Ok(Seid(u64::MAX)));
        assert_eq!(read_teid("4294967295"), Ok(Teid(u32::MAX)));
        assert_eq!(read_teid(&teid(Teid(7))), Ok(Teid(7)));
        for bad in ["", "0x", "+1", "-1", "1 ", "0x+1", "18446744073709551616", "ten"] {
            assert_eq!(read_seid(bad), Err(BadNumber { bits: 64 }), "{bad:?}");
        }
        let error = read_teid("0x100000000").unwrap_err().to_string();
        assert_eq!(
            error,
            "must be a number of 32 bits: decimal, or hexadecimal behind 0x"
        );
    }
}
