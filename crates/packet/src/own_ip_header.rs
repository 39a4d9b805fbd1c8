//! The IP header of packets that this node sends by itself.

use zerocopy::IntoBytes;

use crate::{Addrs, ipv4, ipv6};

/// The TTL or hop limit.
const TTL: u8 = 64;

/// Octets of the header between these addresses.
pub(crate) const fn len(addrs: &Addrs) -> usize {
    match addrs {
        Addrs::V4 { .. } => ipv4::HEADER_LEN,
        Addrs::V6 { .. } => ipv6::HEADER_LEN,
    }
}

/// Writes the header of a packet that may not be fragmented, of `proto` and with `payload_len` octets behind it, to
/// `out`, which has as many octets as the header.
pub(crate) fn write(out: &mut [u8], addrs: &Addrs, proto: u8, payload_len: usize) -> Option<()> {
    match *addrs {
        Addrs::V4 { src, dst } => {
            let fields = ipv4::Fields {
                src: src.into(),
                dst: dst.into(),
                proto,
                ttl: TTL,
                tos: 0,
                id: 0,
                dont_fragment: true,
            };
            out.copy_from_slice(fields.header(payload_len)?.as_bytes());
        }
        Addrs::V6 { src, dst } => {
            let fields = ipv6::Fields {
                src: src.into(),
                dst: dst.into(),
                next_header: proto,
                hop_limit: TTL,
                traffic_class: 0,
                flow_label: 0,
            };
            out.copy_from_slice(fields.header(payload_len)?.as_bytes());
        }
    }
    Some(())
}
