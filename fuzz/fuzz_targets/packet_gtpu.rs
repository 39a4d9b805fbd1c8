//! Any GTP-U message: header, extension headers, PDU Session Container, information elements.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packet::gtpu::Message;
use packet::psc::PduSessionContainer;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes, bytes.len()) {
        let _ = message.payload();
        message.ies().take(1000).for_each(drop);
    }
    if let Ok(container) = PduSessionContainer::parse(bytes) {
        let mut again = [0; 256];
        if let Some(length) = container.write(&mut again) {
            assert_eq!(PduSessionContainer::parse(&again[..length]).as_ref(), Ok(&container));
        }
    }
});
