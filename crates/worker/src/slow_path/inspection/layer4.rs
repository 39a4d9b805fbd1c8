//! What a user packet carries above its IP header, for inspection.

use dpi::Layer4;
use packet::tuple::proto;
use packet::{Fragment, IpTuple, tcp, udp};

/// The segment or datagram of a whole packet that starts at `bytes[0]`; nothing of a fragment, of another protocol, of
/// one that cannot be read, or where there is more behind a datagram.
pub(crate) fn layer4<'a>(bytes: &'a [u8], tuple: &IpTuple) -> Option<Layer4<'a>> {
    if tuple.fragment != Fragment::None {
        return None;
    }
    let end = bytes.len().min(tuple.total_len.into());
    let above = bytes.get(tuple.l4_offset.into()..end)?;
    match tuple.proto {
        proto::TCP => {
            let (header, octets) = tcp::Header::parse(above, above.len()).ok()?;
            Some(Layer4::Tcp {
                sequence: header.sequence.get(),
                has_syn: header.flags & tcp::flags::SYN != 0,
                payload: above.get(octets..)?,
            })
        }
        proto::UDP => {
            let octets = udp::announced_len(above, above.len()).ok()?;
            if octets < above.len() {
                return None;
            }
            let payload = above.get(udp::HEADER_LEN..octets)?;
            Some(Layer4::Udp { payload })
        }
        _ => None,
    }
}

/// Whether a packet opens a connection: a SYN without ACK.
pub(super) fn opens_connection(bytes: &[u8], tuple: &IpTuple) -> bool {
    let flags = bytes.get(usize::from(tuple.l4_offset) + tcp::FLAGS_AT);
    let both = tcp::flags::SYN | tcp::flags::ACK;
    let is_whole = tuple.proto == proto::TCP && tuple.fragment == Fragment::None;
    is_whole && flags.is_some_and(|flags| flags & both == tcp::flags::SYN)
}
