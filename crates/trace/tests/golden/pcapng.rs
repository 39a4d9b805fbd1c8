//! Captures in pcapng: one interface for each port, under its name, and nanoseconds. Wireshark opens them.

use flow::Nanos;

/// One frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The port's place in the configuration.
    pub port: usize,
    pub time: Nanos,
    pub bytes: Vec<u8>,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// The file with these frames of the ports with these names.
pub fn write(ports: &[String], frames: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut section = BYTE_ORDER.to_le_bytes().to_vec();
    // Version 1.0; the section's length is not given.
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    block(&mut file, SECTION, &section);
    for port in ports {
        // Ethernet; no limit.
        let mut interface = vec![1, 0, 0, 0, 0, 0, 0, 0];
        option(&mut interface, 2, port.as_bytes());
        option(&mut interface, 9, &[9]);
        option(&mut interface, 0, &[]);
        block(&mut file, INTERFACE, &interface);
    }
    for frame in frames {
        let mut packet = (frame.port as u32).to_le_bytes().to_vec();
        packet.extend(((frame.time.0 >> 32) as u32).to_le_bytes());
        packet.extend((frame.time.0 as u32).to_le_bytes());
        packet.extend((frame.bytes.len() as u32).to_le_bytes());
        packet.extend((frame.bytes.len() as u32).to_le_bytes());
        packet.extend(&frame.bytes);
        block(&mut file, PACKET, &packet);
    }
    file
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = (12 + body.len() + padding) as u32;
    file.extend(kind.to_le_bytes());
    file.extend(length.to_le_bytes());
    file.extend(body);
    file.extend(&[0; 3][..padding]);
    file.extend(length.to_le_bytes());
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The frames of a file that [`write`] wrote; `None` for another.
pub fn read(file: &[u8]) -> Option<Vec<Captured>> {
    let word = |at: &[u8], place: usize| Some(u32::from_le_bytes(*at.get(place * 4..)?.first_chunk()?));
    let (mut rest, mut frames) = (file, Vec::new());
    while !rest.is_empty() {
        let length = word(rest, 1)? as usize;
        let (block, after) = rest.split_at_checked(length).filter(|_| length >= 12)?;
        if word(block, 0)? == PACKET {
            let octets = word(block, 5)? as usize;
            frames.push(Captured {
                port: word(block, 2)? as usize,
                time: Nanos(u64::from(word(block, 3)?) << 32 | u64::from(word(block, 4)?)),
                bytes: block.get(28..28 + octets)?.to_vec(),
            });
        }
        rest = after;
    }
    Some(frames)
}

#[test]
fn what_is_written_can_be_read() {
    let frame = |port, length: usize| Captured {
        port,
        time: Nanos(5_000_000_000 + length as u64),
        bytes: vec![7; length],
    };
    let frames = vec![frame(0, 60), frame(1, 61), frame(1, 1514)];
    let file = write(&["ran".into(), "dn".into()], &frames);
    assert_eq!(read(&file), Some(frames));
    assert_eq!(read(&file[..file.len() - 1]), None);
}
