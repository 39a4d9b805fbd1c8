//! Any datagram on N4: split, decoded, encoded again; the second decoding is the first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pfcp::{Frames, Message};

fuzz_target!(|bytes: &[u8]| {
    let mut buffer = vec![0; 70_000];
    for frame in Frames::new(bytes).take(100) {
        let Ok(frame) = frame else { continue };
        let Ok(message) = Message::decode(&frame) else { continue };
        let Ok(length) = message.encode(&frame.header, &mut buffer) else { continue };
        let again = Frames::new(&buffer[..length]).next().expect("a message").expect("its header");
        assert_eq!(Message::decode(&again).expect("it decoded before"), message);
    }
});
