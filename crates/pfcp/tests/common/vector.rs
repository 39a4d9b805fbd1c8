//! Octets of an IE and the value they mean, both ways.

use std::fmt::Debug;

use pfcp::ie::{Cause, Ie};
use pfcp::tlv::Writer;

pub fn octets(hex: &str) -> &'static [u8] {
    let hex: String = hex.split_whitespace().collect();
    let octets: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    octets.leak()
}

/// The octets mean the value, and the value is written as the octets, with that type in front.
#[track_caller]
pub fn vector<T: Ie<'static> + PartialEq + Debug>(hex: &str, value: T) {
    let octets = octets(hex);
    assert_eq!(T::decode(octets).unwrap(), value);
    let mut buf = [0; 512];
    let length = 512 - value.put(Writer::new(&mut buf)).unwrap().room();
    let [t1, t2] = T::TYPE.0.to_be_bytes();
    let [l1, l2] = (octets.len() as u16).to_be_bytes();
    assert_eq!(&buf[..length], [&[t1, t2, l1, l2], octets].concat());
    let with_more = [octets, &[0xee]].concat().leak();
    if let Ok(longer) = T::decode(with_more) {
        assert!(longer != value || T::surplus(with_more) == [0xee]);
    }
}

/// Octets without which the value is not whole.
#[track_caller]
pub fn too_short<T: Ie<'static> + Debug>(hex: &str, least: usize) {
    let octets = octets(hex);
    for length in 0..least {
        let error = T::decode(&octets[..length]).unwrap_err();
        assert_eq!(
            (error.cause, error.offending),
            (Cause::INVALID_LENGTH, Some(T::TYPE)),
            "{length} octets"
        );
    }
}
