//! Any datagram on N4: split, decoded, encoded again; the second decoding is the first.

use pfcp::{Frames, Message};

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut buffer = vec![0; 70_000];
    for frame in Frames::new(bytes).take(100) {
        let Ok(frame) = frame else { continue };
        let Ok(message) = Message::decode(&frame) else {
            continue;
        };
        let Ok(length) = message.encode(&frame.header, &mut buffer) else {
            continue;
        };
        let again = Frames::new(&buffer[..length])
            .next()
            .expect("a message")
            .expect("its header");
        assert_eq!(Message::decode(&again).expect("it decoded before"), message);
    }
}
