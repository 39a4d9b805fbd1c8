//! Any frame from a port: parsed to the inner packet, or dropped with a reason.

use packet::frame::{self, Frame};

/// See the module.
pub fn run(bytes: &[u8]) {
    // The packet may be longer than the part that is contiguous.
    for length in [bytes.len(), bytes.len() + 1000] {
        for gtpu in [true, false] {
            if let Ok(Frame::Gtpu(tunnel)) = frame::parse(bytes, length, |_| gtpu) {
                let _ = frame::parse_inner(bytes, &tunnel);
                let _ = tunnel.message(bytes);
                let _ = tunnel.optional_part(bytes);
            }
        }
    }
}
