//! Queries over UDP, and what a resolver says to them that gives no address, or another one than there is.

use super::wire::{A, AAAA, HEADER, IN, Part, end_of_name, part};
use crate::host_name::{HostName, LONGEST_NAME};
use crate::reader::Reader;

/// Octets that [`answer`] is longer than the query at most: an address of IPv6, and an error beside what a query has
/// of EDNS.
pub const MOST_ADDED: usize = 34;

/// QR and the operation: of a standard query all zero (RFC 1035 §4.1.1).
const KIND_MASK: u16 = 0b1111_1000_0000_0000;
const RESPONSE: u16 = 0b1000_0000_0000_0000;
const RECURSION_DESIRED: u16 = 0b1_0000_0000;
const RECURSION_AVAILABLE: u16 = 0b1000_0000;
/// RFC 4035 §3.2.2.
const CHECKING_DISABLED: u16 = 0b1_0000;
const NAME_ERROR: u16 = 3;

/// Most records behind a question: EDNS, and a signature of the transaction (RFC 8945).
const MOST_ADDITIONAL: u16 = 2;
/// RFC 6891 §6.1.1.
const OPT: u16 = 41;
const DNSSEC_OK: u16 = 0x8000;
/// The high part of the error BADVERS (RFC 6891 §6.1.3).
const BAD_VERSION: u8 = 1;
/// What a packet that every link of IPv6 carries has room for (RFC 8200 §5).
const UDP_PAYLOAD: u16 = 1_232;
/// The option of EDNS that has an Extended DNS Error (RFC 8914 §2).
const EXTENDED_ERROR: u16 = 15;
/// An address is given that is not the name's (RFC 8914 §4.5).
const FORGED_ANSWER: u16 = 4;
/// The name is on a list of those that the client's side wants to have blocked (RFC 8914 §4.18).
const FILTERED: u16 = 17;
/// A pointer to the name of the question.
const QUESTIONED_NAME: u16 = 0xc000 | HEADER as u16;

/// The fields of EDNS that a response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edns {
    version: u8,
    /// Copied to the response (RFC 3225 §3).
    is_dnssec_ok: bool,
}

/// A standard query for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    name: HostName,
    kind: u16,
    flags: u16,
    question_end: usize,
    edns: Option<Edns>,
}

impl Query {
    /// The query that a datagram's payload is: a standard query of the class IN with one question, and nothing behind
    /// it but at most two additional records that end where it does. Nothing if it is none, or asks for the root.
    /// Header bits that servers pass over are passed over.
    pub fn parse(message: &[u8]) -> Option<Query> {
        let mut header = Reader::new(message);
        let (_, flags) = (header.u16()?, header.u16()?);
        let counts = [header.u16()?, header.u16()?, header.u16()?];
        let additional = header.u16()?;
        if flags & KIND_MASK != 0 || counts != [1, 0, 0] || additional > MOST_ADDITIONAL {
            return None;
        }
        let (name, end) = name_of_question(message)?;
        let mut question = Reader::new(message.get(end..)?);
        let (kind, class) = (question.u16()?, question.u16()?);
        if class != IN {
            return None;
        }
        let question_end = end + 4;
        Some(Query {
            name,
            kind,
            flags,
            question_end,
            edns: edns(message, question_end, additional)?,
        })
    }

    /// The name that is asked for. An octet that no host name has is an underscore in it, so that a name below a host
    /// is below it whatever its first labels are.
    pub fn name(&self) -> &HostName {
        &self.name
    }

    /// The type of the records that are asked for (QTYPE, RFC 1035 §3.2.3).
    pub fn kind(&self) -> u16 {
        self.kind
    }
}

/// The name of the question, without compression, and where it ends.
fn name_of_question(message: &[u8]) -> Option<(HostName, usize)> {
    let mut text = [0; LONGEST_NAME + 1];
    let (mut len, mut at) = (0, HEADER);
    loop {
        match part(message, at)? {
            (Part::Label(label), end) => {
                let room = text.get_mut(len..len + label.len() + 1)?;
                let (octets, dot) = room.split_at_mut_checked(label.len())?;
                for (to, octet) in octets.iter_mut().zip(label) {
                    let is_of_hosts = octet.is_ascii_alphanumeric() || *octet == b'-';
                    *to = if is_of_hosts { *octet } else { b'_' };
                }
                dot.fill(b'.');
                len += label.len() + 1;
                at = end;
            }
            (Part::Pointer(_), _) => return None,
            (Part::Root, end) => return Some((HostName::parse(text.get(..len)?).ok()?, end)),
        }
    }
}

/// What the additional records from `at` on say of EDNS, if they have the whole rest of the message. There is one OPT
/// at most, of the root (RFC 6891 §6.1.1, §6.1.2).
fn edns(message: &[u8], mut at: usize, additional: u16) -> Option<Option<Edns>> {
    let mut edns = None;
    for _ in 0..additional {
        let after_name = end_of_name(message, at)?;
        let mut record = Reader::new(message.get(after_name..)?);
        let (kind, _payload_size) = (record.u16()?, record.u16()?);
        let (_error, version, flags) = (record.u8()?, record.u8()?, record.u16()?);
        let data = record.vector16()?;
        if kind == OPT {
            let is_of_root = after_name == at + 1;
            if edns.is_some() || !is_of_root || !has_whole_options(data) {
                return None;
            }
            edns = Some(Edns {
                version,
                is_dnssec_ok: flags & DNSSEC_OK != 0,
            });
        }
        at = after_name + 10 + data.len();
    }
    (at == message.len()).then_some(edns)
}

fn has_whole_options(data: &[u8]) -> bool {
    let mut options = Reader::new(data);
    while !options.is_empty() {
        if options.u16().is_none() || options.vector16().is_none() {
            return false;
        }
    }
    true
}

/// What is said of names instead of their addresses: other addresses, or with none at all that there is no such name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sinkhole {
    /// The IPv4 address.
    pub ipv4: Option<[u8; 4]>,
    /// The IPv6 address.
    pub ipv6: Option<[u8; 16]>,
    /// How long an address may be kept, seconds, 0 to 2^31 - 1: more is as much (RFC 2181 §8).
    pub ttl_s: u32,
}

/// What a response says.
struct Say {
    code: u16,
    /// Type and data of the record that answers.
    record: Option<(u16, Octets)>,
    /// The part of the code that only EDNS has.
    extended_code: u8,
    /// The Extended DNS Error.
    error: Option<u16>,
}

/// The octets of an address.
enum Octets {
    Four([u8; 4]),
    Sixteen([u8; 16]),
}

impl Octets {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Four(octets) => octets,
            Self::Sixteen(octets) => octets,
        }
    }
}

impl Sinkhole {
    fn say(&self, query: &Query) -> Say {
        // A resolver knows version 0 (RFC 6891 §6.1.3). The client asks again in that one.
        if query.edns.is_some_and(|edns| edns.version > 0) {
            return Say {
                code: 0,
                record: None,
                extended_code: BAD_VERSION,
                error: None,
            };
        }
        let record = match query.kind {
            A => self.ipv4.map(|address| (A, Octets::Four(address))),
            AAAA => self.ipv6.map(|address| (AAAA, Octets::Sixteen(address))),
            _ => None,
        };
        let has_address = self.ipv4.is_some() || self.ipv6.is_some();
        let error = if record.is_some() { FORGED_ANSWER } else { FILTERED };
        Say {
            code: if has_address { 0 } else { NAME_ERROR },
            record,
            extended_code: 0,
            error: Some(error),
        }
    }
}

/// The response of a resolver to the query that a datagram's payload is, written to the start of `out`; its octets.
/// Nothing if it is no [`Query`], or `out` has no room.
///
/// It has the question as it was asked, octet for octet, and an OPT record if the query has one, with an Extended DNS
/// Error: Forged Answer beside an address, Filtered without. It is at most [`MOST_ADDED`] octets longer than the query
/// and 316 octets long. A signature of the query (RFC 8945) gets none: the client that wants one drops the response.
/// There is no SOA record, so that a client keeps what it is denied no longer than it likes (RFC 2308 §5).
pub fn answer(message: &[u8], sinkhole: &Sinkhole, out: &mut [u8]) -> Option<usize> {
    let query = Query::parse(message)?;
    let say = sinkhole.say(&query);
    let copied = query.flags & (RECURSION_DESIRED | CHECKING_DISABLED);
    let mut writer = Writer { out, len: 0 };
    writer.put(message.get(..2)?)?;
    writer.u16(RESPONSE | RECURSION_AVAILABLE | copied | say.code)?;
    writer.u16(1)?;
    writer.u16(say.record.is_some().into())?;
    writer.u16(0)?;
    writer.u16(query.edns.is_some().into())?;
    writer.put(message.get(HEADER..query.question_end)?)?;
    if let Some((kind, address)) = &say.record {
        writer.u16(QUESTIONED_NAME)?;
        writer.u16(*kind)?;
        writer.u16(IN)?;
        writer.put(&sinkhole.ttl_s.min(u32::MAX >> 1).to_be_bytes())?;
        writer.vector16(address.as_bytes())?;
    }
    if let Some(edns) = query.edns {
        writer.opt(edns, &say)?;
    }
    Some(writer.len)
}

struct Writer<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let end = self.len + octets.len();
        self.out.get_mut(self.len..end)?.copy_from_slice(octets);
        self.len = end;
        Some(())
    }

    fn u16(&mut self, number: u16) -> Option<()> {
        self.put(&number.to_be_bytes())
    }

    fn vector16(&mut self, octets: &[u8]) -> Option<()> {
        self.u16(u16::try_from(octets.len()).ok()?)?;
        self.put(octets)
    }

    /// RFC 6891 §6.1.2, RFC 8914 §2.
    fn opt(&mut self, edns: Edns, say: &Say) -> Option<()> {
        self.put(&[0])?;
        self.u16(OPT)?;
        self.u16(UDP_PAYLOAD)?;
        self.put(&[say.extended_code, 0])?;
        self.u16(if edns.is_dnssec_ok { DNSSEC_OK } else { 0 })?;
        let Some(error) = say.error else {
            return self.u16(0);
        };
        self.u16(6)?;
        self.u16(EXTENDED_ERROR)?;
        self.vector16(&error.to_be_bytes())
    }
}
