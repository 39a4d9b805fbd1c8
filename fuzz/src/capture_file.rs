//! Any file as a capture: pcap and pcapng are read packet by packet until they end or cannot be read on, and each
//! packet is taken apart.

use trace::{Parsed, Reader};

/// See the module.
pub fn run(input: &[u8]) {
    let Ok(mut reader) = Reader::new(input) else {
        return;
    };
    while let Ok(Some(packet)) = reader.next() {
        assert!(packet.interface < reader.interfaces().len());
        assert!(packet.len >= packet.octets.len());
        let _ = Parsed::read(packet.octets, packet.len, None);
    }
}
