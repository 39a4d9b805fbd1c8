//! Segments of TCP, and the messages that show what connections are for, those of DNS among them.

use std::net::Ipv4Addr;

use packet::{Addrs, checksum, tcp};

/// A segment from one end to another, in IP, with a sequence number and flags; it acknowledges 1.
pub fn segment(
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    (sequence, flags): (u32, u8),
    payload: &[u8],
) -> Vec<u8> {
    let len = (40 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(from.0.octets());
    packet.extend(to.0.octets());
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(from.1.to_be_bytes());
    packet.extend(to.1.to_be_bytes());
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(payload);
    let addrs = Addrs::V4 {
        src: from.0.octets(),
        dst: to.0.octets(),
    };
    tcp::fill_checksum(&addrs, &mut packet[20..]).expect("a segment");
    packet
}

/// A ClientHello (RFC 8446 §4.1.2) with a server name (RFC 6066 §3), in a record.
pub fn client_hello(host: &str) -> Vec<u8> {
    let len = |octets: usize| (octets as u16).to_be_bytes();
    let mut name = vec![0];
    name.extend(len(host.len()));
    name.extend(host.as_bytes());
    let mut extension = vec![0, 0];
    extension.extend(len(name.len() + 2));
    extension.extend(len(name.len()));
    extension.extend(name);
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello.extend(len(extension.len()));
    hello.extend(extension);
    let mut message = vec![1, 0];
    message.extend(len(hello.len()));
    message.extend(hello);
    let mut record = vec![22, 3, 1];
    record.extend(len(message.len()));
    record.extend(message);
    record
}

pub fn get(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// A query of DNS for the IPv4 addresses of a name (RFC 1035 §4.1).
pub fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// The response to it that gives these addresses.
pub fn response(name: &str, ttl_s: u32, addresses: &[Ipv4Addr]) -> Vec<u8> {
    let mut message = query(name);
    message[2..4].copy_from_slice(&[0x81, 0x80]);
    message[7] = addresses.len() as u8;
    for address in addresses {
        message.extend([0xc0, 12, 0, 1, 0, 1]);
        message.extend(ttl_s.to_be_bytes());
        message.extend([0, 4]);
        message.extend(address.octets());
    }
    message
}
