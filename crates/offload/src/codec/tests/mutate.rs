//! Octets that no encoder wrote.

use proptest::collection::vec;
use proptest::prelude::*;

use super::generate;
use crate::codec::{MAX_MESSAGE, decode, encode};

/// What decodes encodes to the same octets. Returns whether it did.
fn is_canonical(octets: &[u8]) -> bool {
    let Ok(message) = decode(octets) else {
        return false;
    };
    let mut again = Vec::new();
    encode(&message, &mut again).unwrap();
    assert_eq!(again, octets, "{message:?}");
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_octets(octets in vec(any::<u8>(), 0..2 * MAX_MESSAGE)) {
        is_canonical(&octets);
    }

    #[test]
    fn any_octets_behind_a_type(message_type: u8, kind in 0u8..24, mut octets in vec(prop_oneof![Just(0), any::<u8>()], 4..100)) {
        octets[0] = 1;
        octets[1] = message_type & 0x47;
        octets[2] = kind;
        is_canonical(&octets);
    }

    #[test]
    fn changed_messages(message in generate::message(), changes in vec(any::<(prop::sample::Index, u8)>(), 1..4)) {
        let mut octets = Vec::new();
        encode(&message, &mut octets).unwrap();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        is_canonical(&octets);
    }
}

/// Each bit of a message has a meaning, or the message is refused with another: none is ignored.
#[test]
fn no_bit_is_ignored() {
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&generate::message(), |message| {
            let mut octets = Vec::new();
            encode(&message, &mut octets).unwrap();
            for bit in 0..8 * octets.len().min(120) {
                octets[bit / 8] ^= 1 << (bit % 8);
                if is_canonical(&octets) {
                    prop_assert_ne!(decode(&octets), Ok(message.clone()));
                }
                octets[bit / 8] ^= 1 << (bit % 8);
            }
            prop_assert!(is_canonical(&octets));
            Ok(())
        })
        .unwrap();
}
