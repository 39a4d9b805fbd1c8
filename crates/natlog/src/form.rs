//! The form of keys and values on disk. All numbers are big-endian, so that keys sort by them.

use std::net::Ipv4Addr;

use flow::VrfId;
use nat::pools::PortBlock;

use crate::event::{Assignment, Holder};

/// Address space, public address and first port of a block: the key of an open assignment.
pub(crate) type BlockKey = [u8; 8];
/// The same, and the start of the assignment: the key of one that has ended.
pub(crate) type EndedKey = [u8; 16];

pub(crate) fn block_key(vrf: VrfId, address: Ipv4Addr, first: u16) -> BlockKey {
    let mut key = [0; 8];
    key[..2].copy_from_slice(&vrf.0.to_be_bytes());
    key[2..6].copy_from_slice(&address.octets());
    key[6..].copy_from_slice(&first.to_be_bytes());
    key
}

pub(crate) fn ended_key(block: BlockKey, start: u64) -> EndedKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&block);
    key[8..].copy_from_slice(&start.to_be_bytes());
    key
}

/// The start in such a key.
pub(crate) fn start_in(key: &EndedKey) -> u64 {
    let (_, start) = key.split_at(8);
    start.try_into().map_or(0, u64::from_be_bytes)
}

/// A value: a time, which is the start of an open assignment or the end of one that has ended, and what both have.
pub(crate) fn write_value(into: &mut Vec<u8>, time: u64, bits: u8, holder: &Holder) {
    into.clear();
    into.extend(time.to_be_bytes());
    into.push(bits);
    into.extend(holder.inside.octets());
    into.extend(holder.seid.to_be_bytes());
    for (text, most) in [
        (&holder.subscriber, Holder::MOST_SUBSCRIBER),
        (&holder.dnn, Holder::MOST_DNN),
        (&holder.instance, Holder::MOST_INSTANCE),
    ] {
        let text = cut(text, most);
        into.push(text.len() as u8);
        into.extend(text.as_bytes());
    }
}

/// The same value with another time.
pub(crate) fn with_time(into: &mut Vec<u8>, time: u64, value: &[u8]) {
    into.clear();
    into.extend(time.to_be_bytes());
    into.extend(value.get(8..).unwrap_or_default());
}

/// Whether two values are of one session that holds a block of one size for one UE.
pub(crate) fn is_same_holder(one: &[u8], other: &[u8]) -> bool {
    let of = 8..21;
    one.get(of.clone()).is_some() && one.get(of.clone()) == other.get(of)
}

/// The start of a text that has at most this many octets.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The time in a value. `None` where it is none.
pub(crate) fn time_in(value: &[u8]) -> Option<u64> {
    value.first_chunk().copied().map(u64::from_be_bytes)
}

/// The size of the block of a value.
pub(crate) fn bits_in(value: &[u8]) -> Option<u8> {
    value.get(8).copied().filter(|bits| *bits < 16)
}

/// The assignment of a block from `start` on. `None` where the value is none.
pub(crate) fn read(block: BlockKey, start: u64, value: &[u8]) -> Option<Assignment> {
    let [vrf0, vrf1, address @ .., first0, first1] = block;
    let bits = bits_in(value)?;
    let mut rest = value.get(9..)?;
    let inside: [u8; 4] = take(&mut rest)?;
    let seid = u64::from_be_bytes(take(&mut rest)?);
    let mut text = || {
        let [len] = take(&mut rest)?;
        let (text, behind) = rest.split_at_checked(len.into())?;
        rest = behind;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    };
    let (subscriber, dnn, instance) = (text()?, text()?, text()?);
    rest.is_empty().then(|| Assignment {
        since_ms: start,
        vrf: VrfId(u16::from_be_bytes([vrf0, vrf1])),
        block: PortBlock {
            address: address.into(),
            first: u16::from_be_bytes([first0, first1]),
            bits,
        },
        holder: Holder {
            inside: inside.into(),
            seid,
            subscriber,
            dnn,
            instance,
        },
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_with_texts_cut_off(
            vrf: u16, address: [u8; 4], first: u16, times: [u64; 2], bits in 0..16u8, inside: [u8; 4], seid: u64,
            texts in prop::collection::vec("\\PC{0,120}", 3..4)
        ) {
            let holder = Holder {
                inside: inside.into(),
                seid,
                subscriber: texts[0].clone(),
                dnn: texts[1].clone(),
                instance: texts[2].clone(),
            };
            let mut value = Vec::new();
            write_value(&mut value, times[0], bits, &holder);
            prop_assert_eq!((time_in(&value), bits_in(&value)), (Some(times[0]), Some(bits)));
            let key = block_key(VrfId(vrf), address.into(), first);
            prop_assert_eq!(start_in(&ended_key(key, times[1])), times[1]);
            let block = PortBlock { address: address.into(), first, bits };
            let read_back = read(key, times[1], &value).unwrap();
            prop_assert_eq!((read_back.vrf, read_back.block, read_back.since_ms), (VrfId(vrf), block, times[1]));
            let read_back = read_back.holder;
            prop_assert!(holder.subscriber.starts_with(&read_back.subscriber) && read_back.subscriber.len() <= 64);
            prop_assert!(holder.dnn.starts_with(&read_back.dnn) && read_back.dnn.len() + 4 > holder.dnn.len().min(100));
            prop_assert_eq!((read_back.inside, read_back.seid), (holder.inside, holder.seid));
        }

        #[test]
        fn no_octets_make_reading_panic(value in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (read([0; 8], 0, &value), time_in(&value), bits_in(&value));
        }
    }
}
