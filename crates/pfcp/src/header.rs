//! The PFCP header, and the messages of one datagram.
//!
//! [`Frames`] checks in the order of TS 29.244 §7.6: length of the datagram, version, length field, message type; a
//! [`HeaderError`] says what the endpoint has to do. The bodies are not looked at.

use core::fmt;

use crate::error::NoRoom;
use crate::tlv::{Mark, Writer};

/// The protocol version this crate speaks (TS 29.244 §7.2.2.4.1).
pub const VERSION: u8 = 1;

/// The UDP port that requests go to (TS 29.244 §4.2.2).
pub const PORT: u16 = 8805;

const FLAG_S: u8 = 0x01;
const FLAG_MP: u8 = 0x02;
const FLAG_FO: u8 = 0x04;

/// Octets of a header without, and with, a SEID.
const SHORT: usize = 8;
const LONG: usize = 16;

/// A Session Endpoint Identifier, chosen by its receiver (TS 29.244 §7.2.2.4.1). 0: the peer's is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seid(pub u64);

/// A message's Sequence Number: 24 bits (TS 29.244 §6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(u32);

impl SequenceNumber {
    /// The largest: 2^24 - 1.
    pub const MAX: Self = Self(0x00ff_ffff);

    /// `number` modulo 2^24.
    pub const fn new(number: u32) -> Self {
        Self(number & Self::MAX.0)
    }

    /// The number, 0 to 2^24 - 1.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next one; 0 after [`MAX`](Self::MAX).
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

macro_rules! message_types {
    ($($number:literal $constant:ident $name:literal,)*) => {
        /// A message's type (TS 29.244 Table 7.3-1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct MessageType(pub u8);

        impl MessageType {
            $(
                #[doc = concat!("PFCP ", $name, ".")]
                pub const $constant: Self = Self($number);
            )*

            /// All types of R17, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self($number)),*];

            /// The message's name; `"unknown"` for a number that R17 does not have.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($number => $name,)*
                    _ => "unknown",
                }
            }

            /// Whether R17 has the type.
            pub const fn is_known(self) -> bool {
                matches!(self.0, $($number)|*)
            }
        }
    };
}

message_types! {
    1 HEARTBEAT_REQUEST "Heartbeat Request",
    2 HEARTBEAT_RESPONSE "Heartbeat Response",
    3 PFD_MANAGEMENT_REQUEST "PFD Management Request",
    4 PFD_MANAGEMENT_RESPONSE "PFD Management Response",
    5 ASSOCIATION_SETUP_REQUEST "Association Setup Request",
    6 ASSOCIATION_SETUP_RESPONSE "Association Setup Response",
    7 ASSOCIATION_UPDATE_REQUEST "Association Update Request",
    8 ASSOCIATION_UPDATE_RESPONSE "Association Update Response",
    9 ASSOCIATION_RELEASE_REQUEST "Association Release Request",
    10 ASSOCIATION_RELEASE_RESPONSE "Association Release Response",
    11 VERSION_NOT_SUPPORTED_RESPONSE "Version Not Supported Response",
    12 NODE_REPORT_REQUEST "Node Report Request",
    13 NODE_REPORT_RESPONSE "Node Report Response",
    14 SESSION_SET_DELETION_REQUEST "Session Set Deletion Request",
    15 SESSION_SET_DELETION_RESPONSE "Session Set Deletion Response",
    16 SESSION_SET_MODIFICATION_REQUEST "Session Set Modification Request",
    17 SESSION_SET_MODIFICATION_RESPONSE "Session Set Modification Response",
    50 SESSION_ESTABLISHMENT_REQUEST "Session Establishment Request",
    51 SESSION_ESTABLISHMENT_RESPONSE "Session Establishment Response",
    52 SESSION_MODIFICATION_REQUEST "Session Modification Request",
    53 SESSION_MODIFICATION_RESPONSE "Session Modification Response",
    54 SESSION_DELETION_REQUEST "Session Deletion Request",
    55 SESSION_DELETION_RESPONSE "Session Deletion Response",
    56 SESSION_REPORT_REQUEST "Session Report Request",
    57 SESSION_REPORT_RESPONSE "Session Report Response",
}

impl MessageType {
    /// Whether the message is about one session, so that its header has a SEID (TS 29.244 §7.2.2.3).
    pub const fn is_session(self) -> bool {
        matches!(self.0, 50..=57)
    }

    /// Whether the message asks for a response.
    pub const fn is_request(self) -> bool {
        self.response().is_some()
    }

    /// The response that goes with a request; `None` for responses and unknown types.
    pub const fn response(self) -> Option<Self> {
        match self.0 {
            1 | 3 | 5 | 7 | 9 | 12 | 14 | 16 | 50 | 52 | 54 | 56 => Some(Self(self.0 + 1)),
            _ => None,
        }
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// The header of a message of version 1 (TS 29.244 §7.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message is.
    pub message_type: MessageType,
    /// S flag and SEID. Messages about a session always have one.
    pub seid: Option<Seid>,
    /// Copied from the request into its response.
    pub sequence: SequenceNumber,
    /// MP flag and Message Priority: 0, the highest, to 15. Only in messages with a SEID.
    pub priority: Option<u8>,
    /// FO flag: another message follows in the datagram (TS 29.244 §6.5).
    pub follow_on: bool,
}

impl Header {
    /// The header of a message about the node: no SEID.
    pub const fn node(message_type: MessageType, sequence: SequenceNumber) -> Self {
        Self {
            message_type,
            seid: None,
            sequence,
            priority: None,
            follow_on: false,
        }
    }

    /// The header of a message about a session.
    pub const fn session(message_type: MessageType, seid: Seid, sequence: SequenceNumber) -> Self {
        Self {
            message_type,
            seid: Some(seid),
            sequence,
            priority: None,
            follow_on: false,
        }
    }

    /// Octets on the wire: 8, or 16 with a SEID.
    pub const fn encoded_len(&self) -> usize {
        if self.seid.is_some() { LONG } else { SHORT }
    }

    /// Writes the header, and room for the length, which [`Writer::end`] sets behind the body.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    pub fn begin<'b>(&self, w: Writer<'b>) -> Result<(Mark<'b>, Writer<'b>), NoRoom> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let priority = self.priority.filter(|_| self.seid.is_some());
        let flags = VERSION << 5
            | flag(self.follow_on, FLAG_FO)
            | flag(priority.is_some(), FLAG_MP)
            | flag(self.seid.is_some(), FLAG_S);
        let (mark, mut w) = w.begin_with([flags, self.message_type.0])?;
        if let Some(Seid(seid)) = self.seid {
            w = w.array(seid.to_be_bytes())?;
        }
        let [_, s1, s2, s3] = self.sequence.0.to_be_bytes();
        Ok((mark, w.array([s1, s2, s3, priority.unwrap_or(0) << 4])?))
    }
}

/// What is wrong with a header (TS 29.244 §7.6.2 to §7.6.4), and what the endpoint does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer octets than a header has. Discard in silence.
    TooShort {
        /// Octets there.
        have: usize,
    },
    /// Not version 1. Answer with a Version Not Supported Response, discard.
    Version {
        /// The version.
        version: u8,
        /// The message's Sequence Number, if it is at the position of version 1 in messages without a SEID.
        sequence: SequenceNumber,
    },
    /// The Length field and the datagram disagree. A request is answered with cause 68, a response discarded.
    Length {
        /// The header as received.
        header: Header,
        /// Octets that the message has by its Length field.
        claimed: usize,
        /// Octets there.
        have: usize,
    },
    /// No such message type. Discard in silence.
    UnknownType {
        /// The type.
        message_type: MessageType,
    },
    /// A message about a session that names none. Discard.
    NoSeid {
        /// The type.
        message_type: MessageType,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { have } => write!(f, "{have} octets are too few for a PFCP header"),
            Self::Version { version, .. } => write!(f, "PFCP version {version} instead of {VERSION}"),
            Self::Length {
                header,
                claimed,
                have,
            } => {
                write!(
                    f,
                    "{}: length field says {claimed} octets, {have} are there",
                    header.message_type
                )
            }
            Self::UnknownType { message_type } => write!(f, "message type {} is unknown", message_type.0),
            Self::NoSeid { message_type } => write!(f, "{message_type} without SEID"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// A message with its header read and its body not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The IEs.
    pub body: &'a [u8],
}

/// The messages of one datagram: one, or several about sessions with the FO flag (TS 29.244 §6.5). Ends after the first
/// error, and after a message about a node.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Frames<'a> {
    /// The messages of `datagram`, a whole UDP payload.
    pub const fn new(datagram: &'a [u8]) -> Self {
        Self { rest: Some(datagram) }
    }

    fn step(&mut self, octets: &'a [u8]) -> Result<Frame<'a>, HeaderError> {
        let (header, length) = parse(octets)?;
        let claimed = length + 4;
        let fits = if header.follow_on {
            claimed <= octets.len()
        } else {
            claimed == octets.len()
        };
        let body = octets.get(header.encoded_len()..claimed).filter(|_| fits);
        let body = body.ok_or(HeaderError::Length {
            header,
            claimed,
            have: octets.len(),
        })?;
        let message_type = header.message_type;
        if !message_type.is_known() {
            return Err(HeaderError::UnknownType { message_type });
        }
        if message_type.is_session() && header.seid.is_none() {
            return Err(HeaderError::NoSeid { message_type });
        }
        // Messages about nodes are not bundled: one ends the datagram (TS 29.244 §6.5).
        let goes_on = message_type.is_session();
        self.rest = octets.get(claimed..).filter(|rest| goes_on && !rest.is_empty());
        Ok(Frame { header, body })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let octets = self.rest.take()?;
        Some(self.step(octets))
    }
}

/// Reads the header and the value of its Length field.
fn parse(octets: &[u8]) -> Result<(Header, usize), HeaderError> {
    let too_short = HeaderError::TooShort { have: octets.len() };
    let short: &[u8; SHORT] = octets.first_chunk().ok_or(too_short)?;
    let [flags, message_type, l1, l2, a, b, c, _] = *short;
    let version = flags >> 5;
    if version != VERSION {
        return Err(HeaderError::Version {
            version,
            sequence: sequence([a, b, c]),
        });
    }
    let mut header = Header::node(MessageType(message_type), sequence([a, b, c]));
    header.follow_on = flags & FLAG_FO != 0;
    if flags & FLAG_S != 0 {
        let long: &[u8; LONG] = octets.first_chunk().ok_or(too_short)?;
        let [_, _, _, _, seid @ .., a, b, c, last] = *long;
        header.seid = Some(Seid(u64::from_be_bytes(seid)));
        header.sequence = sequence([a, b, c]);
        header.priority = (flags & FLAG_MP != 0).then_some(last >> 4);
    }
    Ok((header, usize::from(u16::from_be_bytes([l1, l2]))))
}

const fn sequence([a, b, c]: [u8; 3]) -> SequenceNumber {
    SequenceNumber(u32::from_be_bytes([0, a, b, c]))
}
