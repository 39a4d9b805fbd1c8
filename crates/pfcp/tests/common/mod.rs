//! Reads PFCP datagrams out of capture files: pcapng, with Ethernet, Linux cooked or loopback frames.

use std::path::{Path, PathBuf};

const PFCP_PORT: u16 = 8805;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const LINK_NULL: u16 = 0;
const LINK_ETHERNET: u16 = 1;
const LINK_RAW: u16 = 101;
const LINK_LINUX_SLL: u16 = 113;

/// The captures in the folder that `SLUICE_PCAP` names, else in `../shared/data/pcap` beside the checkout. None where
/// that folder is missing; with `CI=true` a missing folder fails the test.
pub fn captures() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pcap");
    let folder = std::env::var_os("SLUICE_PCAP").map_or(beside, PathBuf::from);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcapng"));
    files.sort();
    if files.is_empty() {
        let absent = format!(
            "no captures in {}: SLUICE_PCAP names the folder",
            folder.display()
        );
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{absent}");
        println!("{absent}; not run");
    }
    files
}

/// The payloads of all UDP datagrams from or to the PFCP port.
pub fn pfcp_datagrams(file: &[u8]) -> Vec<&[u8]> {
    let mut links = Vec::new();
    let mut datagrams = Vec::new();
    for (kind, block) in blocks(file) {
        match kind {
            SECTION_HEADER => links.clear(),
            INTERFACE_DESCRIPTION => links.push(u16_le(block, 0)),
            ENHANCED_PACKET => {
                let link = links[u32_le(block, 0) as usize];
                let captured = u32_le(block, 12) as usize;
                datagrams.extend(ip(link, &block[20..20 + captured]).and_then(udp));
            }
            _ => {}
        }
    }
    datagrams
}

/// Type and body of each block.
fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at + 12 <= file.len() {
        let length = u32_le(file, at + 4) as usize;
        blocks.push((u32_le(file, at), &file[at + 8..at + length - 4]));
        at += length;
    }
    blocks
}

fn ip(link: u16, frame: &[u8]) -> Option<&[u8]> {
    match link {
        LINK_NULL => frame.get(4..),
        LINK_RAW => Some(frame),
        LINK_LINUX_SLL => frame.get(16..),
        LINK_ETHERNET => {
            let mut at = 12;
            while u16_be(frame, at)? == 0x8100 {
                at += 4;
            }
            matches!(u16_be(frame, at)?, 0x0800 | 0x86dd).then(|| frame.get(at + 2..))?
        }
        other => panic!("link type {other}"),
    }
}

fn udp(ip: &[u8]) -> Option<&[u8]> {
    let (header, protocol) = match ip.first()? >> 4 {
        4 => (usize::from(ip[0] & 0x0f) * 4, *ip.get(9)?),
        6 => (40, *ip.get(6)?),
        _ => return None,
    };
    if protocol != 17 {
        return None;
    }
    let udp = ip.get(header..)?;
    let ports = [u16_be(udp, 0)?, u16_be(udp, 2)?];
    ports
        .contains(&PFCP_PORT)
        .then(|| udp.get(8..usize::from(u16_be(udp, 4)?)))?
}

fn u16_be(octets: &[u8], at: usize) -> Option<u16> {
    octets
        .get(at..at + 2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

fn u16_le(octets: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([octets[at], octets[at + 1]])
}

fn u32_le(octets: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}
