//! Frames of Initial packets (RFC 9000 §19).

use crate::fault::Fault;
use crate::reader::Reader;

/// A piece of the stream of handshake messages (RFC 9000 §19.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoFrame<'p> {
    /// Where in the stream it is.
    pub offset: u64,
    /// Its octets.
    pub data: &'p [u8],
}

/// The CRYPTO frames of a payload, in its order. A frame that an Initial packet may not have (RFC 9000 §12.4) ends it
/// with [`Fault::Malformed`].
pub fn crypto_frames(payload: &[u8]) -> impl Iterator<Item = Result<CryptoFrame<'_>, Fault>> {
    let mut reader = Reader::new(payload);
    let mut is_over = false;
    core::iter::from_fn(move || {
        while !is_over && !reader.is_empty() {
            match frame(&mut reader) {
                Some(None) => {}
                Some(Some(crypto)) => return Some(Ok(crypto)),
                None => {
                    is_over = true;
                    return Some(Err(Fault::Malformed));
                }
            }
        }
        None
    })
}

/// Takes a frame off. Nothing if it may not be there or is cut; in it the frame if it is CRYPTO.
fn frame<'p>(reader: &mut Reader<'p>) -> Option<Option<CryptoFrame<'p>>> {
    match reader.u8()? {
        // PADDING, PING.
        0x00 | 0x01 => {}
        kind @ (0x02 | 0x03) => skip_ack(reader, kind == 0x03)?,
        0x06 => {
            let offset = reader.varint()?;
            let len = usize::try_from(reader.varint()?).ok()?;
            let data = reader.take(len)?;
            return Some(Some(CryptoFrame { offset, data }));
        }
        // CONNECTION_CLOSE: error code, type of the frame, reason.
        0x1c => {
            reader.varint()?;
            reader.varint()?;
            let len = usize::try_from(reader.varint()?).ok()?;
            reader.take(len)?;
        }
        _ => return None,
    }
    Some(None)
}

/// RFC 9000 §19.3.
fn skip_ack(reader: &mut Reader<'_>, has_ecn_counts: bool) -> Option<()> {
    reader.varint()?;
    reader.varint()?;
    let ranges = reader.varint()?;
    reader.varint()?;
    // Each takes octets, so that the payload bounds it.
    for _ in 0..ranges {
        reader.varint()?;
        reader.varint()?;
    }
    if has_ecn_counts {
        reader.varint()?;
        reader.varint()?;
        reader.varint()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_frames_are_passed_over() {
        let payload = [
            &[0, 0, 1][..],
            &[6, 5, 2, b'x', b'y'],
            &[2, 10, 0, 1, 3, 1, 1],
            &[3, 10, 0, 0, 3, 1, 2, 3],
            &[6, 0x40, 7, 1, b'z'],
            &[0x1c, 1, 6, 2, b'n', b'o'],
            &[0, 0],
        ]
        .concat();
        let frames: Vec<_> = crypto_frames(&payload).collect();
        let crypto = |offset, data| Ok(CryptoFrame { offset, data });
        assert_eq!(frames, [crypto(5, b"xy"), crypto(7, b"z")]);
    }

    #[test]
    fn what_is_cut_or_forbidden_is_malformed() {
        for payload in [
            &[6, 0, 2, b'x'][..],
            &[6],
            &[2, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &[8, 0, 0],
            &[0x1d],
        ] {
            assert_eq!(
                crypto_frames(payload).last(),
                Some(Err(Fault::Malformed)),
                "{payload:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_payload_ends(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(crypto_frames(&payload).count() <= payload.len());
        }
    }
}
