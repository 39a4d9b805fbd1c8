//! Captures: pcap and pcapng in, pcapng out.
//!
//! A file comes from anywhere, so the reader takes nothing for granted: lengths are held against what is there, a
//! number of interfaces is bounded, and whatever is broken ends the reading with its place. The writer makes what
//! Wireshark opens: an interface for each port and instance, nanoseconds, the direction of each packet, and what is
//! said of it as its comment. (Of the crates for this, the one that writes has had no release since 2023, and what is
//! needed is little.)

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Interfaces of one section at most.
const MOST_INTERFACES: usize = 4_096;
/// Octets of an interface's name that are read.
const LONGEST_NAME: usize = 256;
/// Octets of a packet at most: more than any link carries.
const LONGEST: usize = 262_144;

/// Ethernet as a link type.
pub const ETHERNET: u16 = 1;

/// Where and why a capture cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError {
    /// Octets from the start of the file.
    pub at: usize,
    /// Why.
    pub why: &'static str,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at octet {}: {}", self.at, self.why)
    }
}

impl std::error::Error for CaptureError {}

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its link type.
    pub link: u16,
    /// Octets of its packets that are kept at most; 0: all.
    snap: u32,
    /// What a tick of its clock is: see `if_tsresol`.
    resolution: u8,
    /// Seconds that are added to its times.
    offset: i64,
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'f> {
    /// The place of its interface in [`Reader::interfaces`].
    pub interface: usize,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// What was kept of it.
    pub octets: &'f [u8],
    /// Its length on the wire.
    pub len: usize,
    /// Whether it left the node where it was captured, if that is known.
    pub is_outbound: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// With nanoseconds or microseconds.
    Pcap {
        nanos: bool,
    },
    Pcapng,
}

/// Reads a capture, packet by packet.
#[derive(Clone, Debug)]
pub struct Reader<'f> {
    file: &'f [u8],
    at: usize,
    kind: Kind,
    is_big: bool,
    interfaces: Vec<Interface>,
    /// Where the interfaces of this section begin.
    section: usize,
}

impl<'f> Reader<'f> {
    /// Begins to read.
    ///
    /// # Errors
    /// When it is no capture.
    pub fn new(file: &'f [u8]) -> Result<Self, CaptureError> {
        let no = |why| CaptureError { at: 0, why };
        let magic: [u8; 4] = *file.first_chunk().ok_or(no("the file is empty or too short"))?;
        let (kind, is_big) = match u32::from_le_bytes(magic) {
            SECTION => (Kind::Pcapng, false),
            0xa1b2_c3d4 => (Kind::Pcap { nanos: false }, false),
            0xa1b2_3c4d => (Kind::Pcap { nanos: true }, false),
            0xd4c3_b2a1 => (Kind::Pcap { nanos: false }, true),
            0x4d3c_b2a1 => (Kind::Pcap { nanos: true }, true),
            _ => return Err(no("this is neither pcap nor pcapng")),
        };
        let mut reader = Self {
            file,
            at: 0,
            kind,
            is_big,
            interfaces: Vec::new(),
            section: 0,
        };
        if let Kind::Pcap { .. } = kind {
            let link = reader.word(20).ok_or(no("the file ends inside its header"))?;
            reader.interfaces.push(Interface {
                name: None,
                // Above are the length of a check sum and the like.
                link: link as u16,
                snap: 0,
                resolution: 9,
                offset: 0,
            });
            reader.at = 24;
        }
        Ok(reader)
    }

    /// The interfaces that were seen so far.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// Where the file cannot be read on.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Captured<'f>>, CaptureError> {
        match self.kind {
            Kind::Pcap { nanos } => self.next_record(nanos),
            Kind::Pcapng => loop {
                if self.at == self.file.len() {
                    return Ok(None);
                }
                if let Some(packet) = self.next_block()? {
                    return Ok(Some(packet));
                }
            },
        }
    }

    fn error(&self, why: &'static str) -> CaptureError {
        CaptureError { at: self.at, why }
    }

    fn word(&self, at: usize) -> Option<u32> {
        number(self.file, at, self.is_big)
    }

    fn next_record(&mut self, nanos: bool) -> Result<Option<Captured<'f>>, CaptureError> {
        if self.at == self.file.len() {
            return Ok(None);
        }
        let cut = self.error("the file ends inside a packet");
        let field = |place: usize| self.word(self.at + place * 4).ok_or(cut.clone());
        let [seconds, fraction, kept, len] = [field(0)?, field(1)?, field(2)?, field(3)?];
        if kept as usize > LONGEST {
            return Err(self.error("a packet is longer than any"));
        }
        let start = self.at + 16;
        let octets = self.file.get(start..start + kept as usize).ok_or(cut)?;
        self.at = start + kept as usize;
        let fraction = u64::from(fraction) * if nanos { 1 } else { 1_000 };
        Ok(Some(Captured {
            interface: 0,
            time_ns: u64::from(seconds) * 1_000_000_000 + fraction,
            octets,
            len: (len as usize).clamp(octets.len(), LONGEST.max(octets.len())),
            is_outbound: None,
        }))
    }

    /// Takes one block; gives its packet, if it has one.
    fn next_block(&mut self) -> Result<Option<Captured<'f>>, CaptureError> {
        let cut = self.error("the file ends inside a block");
        // The same in both orders.
        if number(self.file, self.at, false) == Some(SECTION) {
            self.is_big = match number(self.file, self.at + 8, false).ok_or(cut.clone())? {
                BYTE_ORDER => false,
                0x4d3c_2b1a => true,
                _ => return Err(self.error("a section has no byte order")),
            };
            self.section = self.interfaces.len();
        }
        let kind = self.word(self.at).ok_or(cut.clone())?;
        let length = self.word(self.at + 4).ok_or(cut.clone())? as usize;
        if length < 12 || !length.is_multiple_of(4) {
            return Err(self.error("a block has an impossible length"));
        }
        let block = self
            .file
            .get(self.at..)
            .and_then(|rest| rest.get(..length))
            .ok_or(cut)?;
        if number(block, length - 4, self.is_big) != Some(length as u32) {
            return Err(self.error("the lengths of a block differ"));
        }
        let body = &block[8..length - 4];
        let packet = match kind {
            INTERFACE => {
                self.take_interface(body)?;
                None
            }
            PACKET => Some(self.packet(body)?),
            SIMPLE_PACKET => Some(self.simple_packet(body)?),
            _ => None,
        };
        self.at += length;
        Ok(packet)
    }

    fn take_interface(&mut self, body: &[u8]) -> Result<(), CaptureError> {
        if self.interfaces.len() >= MOST_INTERFACES {
            return Err(self.error("there are too many interfaces"));
        }
        let short = self.error("an interface is too short");
        let link = half(body, 0, self.is_big).ok_or(short.clone())?;
        let snap = number(body, 4, self.is_big).ok_or(short)?;
        let mut interface = Interface {
            name: None,
            link,
            snap,
            resolution: 6,
            offset: 0,
        };
        for (code, value) in options(&body[8..], self.is_big) {
            match (code, value) {
                (2, name) => {
                    let name = &name[..name.len().min(LONGEST_NAME)];
                    interface.name = Some(String::from_utf8_lossy(name).trim_end_matches('\0').into());
                }
                (9, [resolution, ..]) => interface.resolution = *resolution,
                (14, value) => {
                    let octets: Option<[u8; 8]> = value.first_chunk().copied();
                    let read = if self.is_big {
                        i64::from_be_bytes
                    } else {
                        i64::from_le_bytes
                    };
                    interface.offset = octets.map_or(0, read);
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn interface(&self, number: u32) -> Result<usize, CaptureError> {
        let place = self.section + number as usize;
        let is_there = place < self.interfaces.len();
        is_there
            .then_some(place)
            .ok_or(self.error("a packet is of no interface"))
    }

    fn packet(&self, body: &'f [u8]) -> Result<Captured<'f>, CaptureError> {
        let short = self.error("a packet's block is too short for it");
        let field = |place: usize| number(body, place * 4, self.is_big).ok_or(short.clone());
        let interface = self.interface(field(0)?)?;
        let ticks = u64::from(field(1)?) << 32 | u64::from(field(2)?);
        let (kept, len) = (field(3)? as usize, field(4)? as usize);
        if kept > LONGEST {
            return Err(self.error("a packet is longer than any"));
        }
        let octets = body.get(20..20 + kept).ok_or(short)?;
        let rest = body.get((20 + kept).next_multiple_of(4)..).unwrap_or_default();
        let flags = options(rest, self.is_big).find(|(code, _)| *code == 2);
        let flags = flags.and_then(|(_, value)| number(value, 0, self.is_big));
        Ok(Captured {
            interface,
            time_ns: nanoseconds(&self.interfaces[interface], ticks),
            octets,
            len: len.clamp(octets.len(), LONGEST.max(octets.len())),
            is_outbound: match flags.unwrap_or(0) & 3 {
                1 => Some(false),
                2 => Some(true),
                _ => None,
            },
        })
    }

    fn simple_packet(&self, body: &'f [u8]) -> Result<Captured<'f>, CaptureError> {
        let interface = self.interface(0)?;
        let short = self.error("a packet's block is too short for it");
        let len = number(body, 0, self.is_big).ok_or(short.clone())? as usize;
        let snap = match self.interfaces[interface].snap as usize {
            0 => len,
            snap => len.min(snap),
        };
        Ok(Captured {
            interface,
            time_ns: 0,
            octets: body.get(4..4 + snap.min(LONGEST)).ok_or(short)?,
            len: len.min(LONGEST),
            is_outbound: None,
        })
    }
}

fn number(octets: &[u8], at: usize, is_big: bool) -> Option<u32> {
    let octets: [u8; 4] = *octets.get(at..)?.first_chunk()?;
    Some(if is_big {
        u32::from_be_bytes(octets)
    } else {
        u32::from_le_bytes(octets)
    })
}

fn half(octets: &[u8], at: usize, is_big: bool) -> Option<u16> {
    let octets: [u8; 2] = *octets.get(at..)?.first_chunk()?;
    Some(if is_big {
        u16::from_be_bytes(octets)
    } else {
        u16::from_le_bytes(octets)
    })
}

/// The options of a block, as far as they are whole.
fn options(mut rest: &[u8], is_big: bool) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = half(rest, 0, is_big).filter(|code| *code != 0)?;
        let length = usize::from(half(rest, 2, is_big)?);
        let value = rest.get(4..4 + length)?;
        rest = rest.get((4 + length).next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

fn nanoseconds(interface: &Interface, ticks: u64) -> u64 {
    let exponent = u32::from(interface.resolution & 0x7f);
    let ticks = u128::from(ticks);
    let nanos = if interface.resolution & 0x80 == 0 {
        match exponent {
            0..=9 => ticks * 10_u128.pow(9 - exponent),
            10..=38 => ticks / 10_u128.pow(exponent - 9),
            _ => 0,
        }
    } else {
        (ticks * 1_000_000_000).checked_shr(exponent).unwrap_or(0)
    };
    let offset = i128::from(interface.offset) * 1_000_000_000;
    let nanos = i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(offset);
    u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
}

/// A packet as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// What is kept of it, from the Ethernet header on.
    pub octets: &'a [u8],
    /// Its length on the wire.
    pub len: u32,
    /// Whether it leaves.
    pub is_outbound: bool,
    /// What is said of it.
    pub comment: &'a str,
}

/// Writes a capture.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    interfaces: HashMap<String, u32>,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// Those of `out`, here as everywhere.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            interfaces: HashMap::new(),
            written: 0,
        };
        let mut section = BYTE_ORDER.to_le_bytes().to_vec();
        // Version 1.0; the section's length is not given.
        section.extend([1, 0, 0, 0]);
        section.extend([0xff; 8]);
        let program = concat!("Sluice ", env!("CARGO_PKG_VERSION"));
        option(&mut section, 4, program.as_bytes());
        option(&mut section, 0, &[]);
        writer.block(SECTION, &section)?;
        Ok(writer)
    }

    /// Octets written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes a packet of the interface with this name, which is made where it is new.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn packet(&mut self, interface: &str, packet: &Written<'_>) -> io::Result<()> {
        let number = self.interface(interface)?;
        let mut body = number.to_le_bytes().to_vec();
        body.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
        body.extend((packet.time_ns as u32).to_le_bytes());
        body.extend((packet.octets.len() as u32).to_le_bytes());
        body.extend(packet.len.max(packet.octets.len() as u32).to_le_bytes());
        body.extend(packet.octets);
        body.resize(body.len().next_multiple_of(4), 0);
        option(&mut body, 2, &[1 + u8::from(packet.is_outbound), 0, 0, 0]);
        if !packet.comment.is_empty() {
            option(&mut body, 1, packet.comment.as_bytes());
        }
        option(&mut body, 0, &[]);
        self.block(PACKET, &body)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn interface(&mut self, name: &str) -> io::Result<u32> {
        if let Some(number) = self.interfaces.get(name) {
            return Ok(*number);
        }
        let number = self.interfaces.len() as u32;
        let mut body = vec![ETHERNET as u8, 0, 0, 0, 0, 0, 0, 0];
        option(&mut body, 2, name.as_bytes());
        option(&mut body, 9, &[9]);
        option(&mut body, 0, &[]);
        self.block(INTERFACE, &body)?;
        self.interfaces.insert(name.to_owned(), number);
        Ok(number)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = (12 + body.len() + padding) as u32;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&[0; 3][..padding])?;
        self.out.write_all(&length.to_le_bytes())?;
        self.written += u64::from(length);
        Ok(())
    }
}

/// Adds an option; one that is too long for its length field is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(file: &[u8]) -> Result<Vec<Captured<'_>>, CaptureError> {
        let mut reader = Reader::new(file)?;
        let mut packets = Vec::new();
        while let Some(packet) = reader.next()? {
            packets.push(packet);
        }
        Ok(packets)
    }

    fn written(packets: &[(bool, u64, Vec<u8>)]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (is_outbound, time_ns, octets) in packets {
            let packet = Written {
                time_ns: *time_ns,
                octets,
                len: octets.len() as u32 + 4,
                is_outbound: *is_outbound,
                comment: "PDR 1; flow hit",
            };
            let interface = if *is_outbound { "dn/internet" } else { "ran/access" };
            writer.packet(interface, &packet).unwrap();
        }
        let octets = writer.written();
        let file = writer.finish().unwrap();
        assert_eq!(file.len() as u64, octets);
        file
    }

    /// A pcap of one packet, in either order of octets.
    fn pcap(magic: u32, is_big: bool) -> Vec<u8> {
        let words = [magic, 0x0004_0002, 0, 0, 65_535, 1, 7, 5, 4, 60];
        let octets = words.iter().flat_map(|word: &u32| match is_big {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        });
        octets.chain([1, 2, 3, 4]).collect()
    }

    #[test]
    fn a_pcap_is_read_in_both_orders_and_resolutions() {
        for (magic, nanos) in [(0xa1b2_c3d4, 5_000), (0xa1b2_3c4d, 5)] {
            for is_big in [false, true] {
                let file = pcap(magic, is_big);
                let packets = read(&file).unwrap();
                assert_eq!(packets.len(), 1);
                assert_eq!(packets[0].time_ns, 7_000_000_000 + nanos);
                assert_eq!((packets[0].octets, packets[0].len), (&[1, 2, 3, 4][..], 60));
            }
        }
    }

    #[test]
    fn a_mistake_is_reported_with_its_place() {
        assert_eq!(read(b"").unwrap_err().why, "the file is empty or too short");
        assert_eq!(
            read(b"GIF89a").unwrap_err().why,
            "this is neither pcap nor pcapng"
        );
        let file = pcap(0xa1b2_c3d4, false);
        let error = read(&file[..file.len() - 1]).unwrap_err();
        assert_eq!(error.to_string(), "at octet 24: the file ends inside a packet");
        let mut file = written(&[(false, 1, vec![7; 60])]);
        let last = file.len() - 4;
        file[last] ^= 4;
        assert_eq!(read(&file).unwrap_err().why, "the lengths of a block differ");
    }

    #[test]
    fn clocks_of_all_resolutions_are_read() {
        let with = |resolution, offset| Interface {
            name: None,
            link: 1,
            snap: 0,
            resolution,
            offset,
        };
        assert_eq!(nanoseconds(&with(6, 0), 3), 3_000);
        assert_eq!(nanoseconds(&with(9, -1), 1_000_000_005), 5);
        assert_eq!(nanoseconds(&with(12, 0), 5_999), 5);
        assert_eq!(nanoseconds(&with(0x80 | 10, 0), 1_024), 1_000_000_000);
        for resolution in 0..=255 {
            for offset in [i64::MIN, -1, 0, i64::MAX] {
                let _ = nanoseconds(&with(resolution, offset), u64::MAX);
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(
            packets in prop::collection::vec((any::<bool>(), 0..u64::MAX, prop::collection::vec(any::<u8>(), 0..200)), 0..20),
        ) {
            let file = written(&packets);
            let back = read(&file).unwrap();
            prop_assert_eq!(back.len(), packets.len());
            for (read, (is_outbound, time_ns, octets)) in back.iter().zip(&packets) {
                prop_assert_eq!(read.octets, &octets[..]);
                prop_assert_eq!((read.len, read.time_ns), (octets.len() + 4, *time_ns));
                prop_assert_eq!(read.is_outbound, Some(*is_outbound));
            }
        }

        #[test]
        fn broken_files_do_no_harm(
            packets in prop::collection::vec((any::<bool>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 1..4),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            end in any::<prop::sample::Index>(),
        ) {
            for mut file in [written(&packets), pcap(0xa1b2_c3d4, false), pcap(0xa1b2_3c4d, true)] {
                for (place, octet) in &changes {
                    let place = place.index(file.len());
                    file[place] = *octet;
                }
                file.truncate(end.index(file.len() + 1));
                let _ = read(&file);
            }
        }
    }
}
