//! What an inspection says of a flow.

use crate::dns::Query;
use crate::fault::Fault;
use crate::host_name::HostName;
use crate::hosts::LONGEST_PATH;
use crate::ndpi::NdpiProtocol;
use crate::tls::{AlpnList, ClientHello};

/// A protocol that is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TLS over TCP.
    Tls,
    /// QUIC, version 1 or 2.
    Quic,
    /// HTTP/1.1 or HTTP/1.0 in clear.
    Http1,
    /// STUN, and what comes with it: TURN, WebRTC.
    Stun,
    /// RTP.
    Rtp,
    /// WireGuard.
    WireGuard,
    /// Queries of DNS over UDP. Each query of a flow may be for another name: what is found is that of one.
    Dns,
    /// What nDPI knows of a flow that is none of the others.
    Ndpi(NdpiProtocol),
}

/// The start of a path: as much as rules of hosts can name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PathStart {
    octets: [u8; LONGEST_PATH],
    len: u8,
}

impl PathStart {
    pub(crate) const NONE: PathStart = PathStart {
        octets: [0; LONGEST_PATH],
        len: 0,
    };

    /// The start of a path.
    pub fn of(path: &[u8]) -> PathStart {
        let mut start = PathStart::NONE;
        for (to, octet) in start.octets.iter_mut().zip(path) {
            *to = *octet;
        }
        start.len = path.len().min(LONGEST_PATH) as u8;
        start
    }

    /// Its octets, at most [`LONGEST_PATH`].
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl core::fmt::Debug for PathStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// What a flow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The protocol.
    pub protocol: Protocol,
    /// The host that the client names, if it names one: server name of TLS and QUIC, host of the first request of HTTP,
    /// of DNS the name that is asked for, which is no host that the flow is for.
    pub host: Option<HostName>,
    /// Of HTTP the path of the first request; else nothing.
    pub path: Option<PathStart>,
    /// Of HTTP the sequence number at which the next request begins, if it is known how long the body of this one is.
    pub next_request: Option<u32>,
    /// Of HTTP: the client has sent more than this request before the last piece of its head, and of that nothing is
    /// kept. There may be requests in it.
    pub has_more: bool,
    /// Of TLS and QUIC the protocols that are offered.
    pub alpn: AlpnList,
    /// Of TLS and QUIC whether Encrypted Client Hello is offered: then `host` is that of the client-facing server.
    pub offers_ech: bool,
}

impl Found {
    pub(crate) fn of_hello(protocol: Protocol, hello: &ClientHello) -> Found {
        Found {
            host: hello.server_name,
            alpn: hello.alpn,
            offers_ech: hello.offers_ech,
            ..Found::of(protocol)
        }
    }

    pub(crate) fn of_query(query: &Query) -> Found {
        Found {
            host: Some(*query.name()),
            ..Found::of(Protocol::Dns)
        }
    }

    pub(crate) fn of(protocol: Protocol) -> Found {
        Found {
            protocol,
            host: None,
            path: None,
            next_request: None,
            has_more: false,
            alpn: AlpnList::NONE,
            offers_ech: false,
        }
    }
}

/// Why an inspection ended without a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is none of the protocols.
    Unknown,
    /// Its start is one of them, and no message of it.
    Malformed,
    /// A message is longer than [`crate::reassembly::BLOCK_OCTETS`].
    TooLong,
    /// It can be read in two ways: octets or fields that are there twice and differ.
    Ambiguous,
    /// Nothing was found in as many packets, octets, or pieces with gaps between them, as are looked at.
    Budget,
    /// The owner's share of blocks is in use.
    OwnersShare,
    /// All blocks are in use.
    NoBlock,
    /// It is QUIC, for which this build has no cryptography.
    NoQuic,
    /// The flow is not one that is inspected.
    NotOpen,
}

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Reason {
        match fault {
            Fault::Malformed => Reason::Malformed,
            Fault::TooLong => Reason::TooLong,
            Fault::Ambiguous => Reason::Ambiguous,
        }
    }
}

/// What an inspection says after a packet. All but [`Verdict::Undecided`] end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'i> {
    /// More packets are wanted.
    Undecided,
    /// What the flow is for.
    Found(&'i Found),
    /// It is not known, and will not be.
    Undetected(Reason),
}
