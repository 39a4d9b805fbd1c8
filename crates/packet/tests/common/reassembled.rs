//! The slow reference of reassembly, for the tests of this crate and of the worker.

use packet::checksum;

/// What a receiver makes of fragments, in any order: the IP packet without fragment header. Each octet is looked at.
pub fn reassembled(fragments: &[Vec<u8>]) -> Vec<u8> {
    let is_v4 = fragments[0][0] >> 4 == 4;
    let mut header = Vec::new();
    let mut octets: Vec<Option<u8>> = Vec::new();
    let mut end = None;
    for fragment in fragments {
        let (head, field, total) = if is_v4 {
            let head = usize::from(fragment[0] & 15) * 4;
            assert_eq!(checksum::of(&fragment[..head]), 0, "the header checksum");
            let field = u16::from_be_bytes([fragment[6], fragment[7]]);
            let total = u16::from_be_bytes([fragment[2], fragment[3]]);
            (head, (field & 0x1fff, field & 0x2000 != 0), usize::from(total))
        } else {
            assert_eq!(fragment[6], 44, "a fragment header");
            let field = u16::from_be_bytes([fragment[42], fragment[43]]);
            let total = 40 + usize::from(u16::from_be_bytes([fragment[4], fragment[5]]));
            (48, (field >> 3, field & 1 != 0), total)
        };
        assert_eq!(total, fragment.len(), "the length");
        let ((units, more), data) = (field, &fragment[head..]);
        let from = usize::from(units) * 8;
        assert!(!more || data.len().is_multiple_of(8), "units of 8 octets");
        if from == 0 {
            header = fragment[..head].to_vec();
        }
        if !more {
            assert_eq!(end.replace(from + data.len()), None, "one is the last");
        }
        octets.resize(octets.len().max(from + data.len()), None);
        for (at, octet) in data.iter().enumerate() {
            assert_eq!(octets[from + at].replace(*octet), None, "no two overlap");
        }
    }
    let payload: Vec<u8> = octets.into_iter().map(|octet| octet.expect("no hole")).collect();
    assert_eq!(end, Some(payload.len()));
    if is_v4 {
        let total = (header.len() + payload.len()) as u16;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].fill(0);
        header[10..12].fill(0);
        let sum = checksum::of(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let next = header[40];
        header.truncate(40);
        header[6] = next;
        header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    }
    [header, payload].concat()
}
