//! Every PFCP message of the captures is decoded into typed structs and comes out of them byte by byte.

mod common;

use std::collections::BTreeMap;

use pfcp::{Frames, Message};

#[test]
fn captured_messages_come_out_as_they_went_in() {
    let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
    let files = common::captures();
    for file in &files {
        let content = std::fs::read(file).unwrap();
        for (number, datagram) in common::pfcp_datagrams(&content).into_iter().enumerate() {
            let mut rebuilt = Vec::new();
            for frame in Frames::new(datagram) {
                let frame = frame.unwrap_or_else(|error| panic!("{}: #{number}: {error}", file.display()));
                let message = Message::decode(&frame)
                    .unwrap_or_else(|error| panic!("{}: #{number}: {error}", file.display()));
                let mut buf = [0; 4096];
                let length = message.encode(&frame.header, &mut buf).unwrap();
                rebuilt.extend_from_slice(&buf[..length]);
                *seen.entry(frame.header.message_type.0).or_default() += 1;
            }
            assert_eq!(rebuilt, datagram, "{}: #{number}", file.display());
        }
    }
    println!("messages by type: {seen:?}");
    assert!(
        files.is_empty() || seen.values().sum::<usize>() >= 200,
        "{seen:?}"
    );
}
