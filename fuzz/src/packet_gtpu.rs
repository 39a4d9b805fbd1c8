//! Any GTP-U message: header, extension headers, PDU Session Container, information elements.

use packet::gtpu::Message;
use packet::psc::PduSessionContainer;

/// See the module.
pub fn run(bytes: &[u8]) {
    if let Ok(message) = Message::parse(bytes, bytes.len()) {
        let _ = message.payload();
        message.ies().take(1000).for_each(drop);
    }
    if let Ok(container) = PduSessionContainer::parse(bytes) {
        let mut again = [0; 256];
        if let Some(length) = container.write(&mut again) {
            assert_eq!(
                PduSessionContainer::parse(&again[..length]).as_ref(),
                Ok(&container)
            );
        }
    }
}
