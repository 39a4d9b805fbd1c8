//! The ClientHello of TLS (RFC 8446 §4.1.2): server name, protocols, Encrypted Client Hello.
//!
//! [`of_records`] reads it from the octets that a TCP connection starts with, [`of_handshake`] from those that QUIC
//! carries in CRYPTO frames (RFC 9001 §4). Both read octets without gaps; [`crate::reassembly`] gives them. A
//! ClientHello in one record is read where it is. Versions of TLS before 1.3 have the same form (RFC 5246 §7.4.1.2).

use crate::fault::Fault;
use crate::host_name::HostName;
use crate::reader::Reader;

/// The content type of handshake records, which a connection starts with (RFC 8446 §5.1).
pub const HANDSHAKE: u8 = 22;
/// Octets of protocol names that [`AlpnList`] keeps.
pub const ALPN_OCTETS: usize = 64;

/// The most octets of a record's fragment (RFC 8446 §5.1).
const LONGEST_FRAGMENT: usize = 1 << 14;
const RECORD_HEADER: usize = 5;
const CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HEADER: usize = 4;

/// Extension types.
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const ALPN: u16 = 16;
    /// RFC 9849 §5.
    pub(super) const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
}

/// The protocols that a client offers by ALPN (RFC 7301 §3.1), in its order: the first ones that have room in
/// [`ALPN_OCTETS`] octets, each with its length before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AlpnList {
    octets: [u8; ALPN_OCTETS],
    len: u8,
    is_cut: bool,
}

impl AlpnList {
    /// No protocol.
    pub const NONE: AlpnList = AlpnList {
        octets: [0; ALPN_OCTETS],
        len: 0,
        is_cut: false,
    };

    /// The names, 1 to 63 octets each.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let octets = self.octets.get(..usize::from(self.len)).unwrap_or_default();
        let mut reader = Reader::new(octets);
        core::iter::from_fn(move || reader.vector8())
    }

    /// Whether there were more than have room.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn push(&mut self, name: &[u8]) {
        let from = usize::from(self.len);
        let end = from + 1 + name.len();
        match self.octets.get_mut(from..end) {
            Some([len, octets @ ..]) if !self.is_cut => {
                *len = name.len() as u8;
                octets.copy_from_slice(name);
                self.len = end as u8;
            }
            _ => self.is_cut = true,
        }
    }
}

impl core::fmt::Debug for AlpnList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut list = f.debug_list();
        for name in self.iter() {
            list.entry(&format_args!("{}", name.escape_ascii()));
        }
        list.finish()
    }
}

/// What a ClientHello says of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name (RFC 6066 §3), if there is one. With ECH it is that of the client-facing server.
    pub server_name: Option<HostName>,
    /// The protocols that are offered.
    pub alpn: AlpnList,
    /// Whether `encrypted_client_hello` is offered (RFC 9849 §5): the server that is meant may be another, or this is
    /// GREASE.
    pub offers_ech: bool,
}

/// The ClientHello that the records in `stream` start with, which may be cut into several of them (RFC 8446 §5.1);
/// nothing if `stream` ends before it does. `scratch` is for one in several records; its length bounds what is read.
///
/// # Errors
///
/// [`Fault::Malformed`] also of what is no TLS, [`Fault::TooLong`] of a message that is longer than `scratch`,
/// [`Fault::Ambiguous`] of an extension that is there twice.
pub fn of_records(stream: &[u8], scratch: &mut [u8]) -> Result<Option<ClientHello>, Fault> {
    let Some(first) = fragment(stream)? else {
        return Ok(None);
    };
    if let Some(hello) = of_handshake(first.octets, scratch.len())? {
        return Ok(Some(hello));
    }
    if first.behind.is_empty() {
        return Ok(None);
    }
    let (mut gathered, mut next) = (0, Some(first));
    while let Some(Fragment { octets, behind }) = next {
        let end = gathered + octets.len();
        let room = scratch.get_mut(gathered..end).ok_or(Fault::TooLong)?;
        room.copy_from_slice(octets);
        gathered = end;
        next = fragment(behind)?;
    }
    of_handshake(scratch.get(..gathered).unwrap_or_default(), scratch.len())
}

/// What there is of the fragment of a record, and of what is behind the record.
struct Fragment<'s> {
    octets: &'s [u8],
    behind: &'s [u8],
}

/// The fragment of the first record. Of a record that is not all there it is cut, so that a ClientHello of which all
/// octets are there does not wait for what comes behind it.
fn fragment(stream: &[u8]) -> Result<Option<Fragment<'_>>, Fault> {
    let Some(kind) = stream.first() else {
        return Ok(None);
    };
    if *kind != HANDSHAKE || stream.get(1).is_some_and(|major| *major != 3) {
        return Err(Fault::Malformed);
    }
    let Some((header, rest)) = stream.split_first_chunk::<RECORD_HEADER>() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if len == 0 || len > LONGEST_FRAGMENT {
        return Err(Fault::Malformed);
    }
    let (octets, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
    Ok(Some(Fragment { octets, behind }))
}

/// The ClientHello that the handshake messages in `handshake` start with; nothing if `handshake` ends before it does.
/// One of more than `most` octets, its header included, is not waited for.
///
/// # Errors
///
/// As [`of_records`].
pub fn of_handshake(handshake: &[u8], most: usize) -> Result<Option<ClientHello>, Fault> {
    if handshake.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(Fault::Malformed);
    }
    let Some((header, rest)) = handshake.split_at_checked(HANDSHAKE_HEADER) else {
        return Ok(None);
    };
    let len = Reader::new(&header[1..]).u24().ok_or(Fault::Malformed)? as usize;
    if len > most.saturating_sub(HANDSHAKE_HEADER) {
        return Err(Fault::TooLong);
    }
    match rest.get(..len) {
        Some(body) => read(body).map(Some),
        None => Ok(None),
    }
}

/// RFC 8446 §4.1.2.
fn read(body: &[u8]) -> Result<ClientHello, Fault> {
    let mut hello = ClientHello {
        server_name: None,
        alpn: AlpnList::NONE,
        offers_ech: false,
    };
    let mut body = Reader::new(body);
    skip_to_extensions(&mut body).ok_or(Fault::Malformed)?;
    if body.is_empty() {
        return Ok(hello);
    }
    let mut extensions = Reader::new(body.vector16().ok_or(Fault::Malformed)?);
    let (mut has_server_name, mut has_alpn) = (false, false);
    while !extensions.is_empty() {
        let kind = extensions.u16().ok_or(Fault::Malformed)?;
        let data = extensions.vector16().ok_or(Fault::Malformed)?;
        match kind {
            extension::SERVER_NAME => {
                once(&mut has_server_name)?;
                hello.server_name = server_name(data)?;
            }
            extension::ALPN => {
                once(&mut has_alpn)?;
                hello.alpn = protocols(data).ok_or(Fault::Malformed)?;
            }
            extension::ENCRYPTED_CLIENT_HELLO => hello.offers_ech = true,
            _ => {}
        }
    }
    match body.is_empty() {
        true => Ok(hello),
        false => Err(Fault::Malformed),
    }
}

/// Over `legacy_version`, `random`, `legacy_session_id`, `cipher_suites` and `legacy_compression_methods`.
fn skip_to_extensions(body: &mut Reader<'_>) -> Option<()> {
    body.take(2 + 32)?;
    body.vector8()?;
    body.vector16()?;
    body.vector8()?;
    Some(())
}

/// An extension may be there once (RFC 8446 §4.2).
fn once(has_been: &mut bool) -> Result<(), Fault> {
    match core::mem::replace(has_been, true) {
        false => Ok(()),
        true => Err(Fault::Ambiguous),
    }
}

/// The name of the type `host_name`, the only one there is (RFC 6066 §3): a list without one, and one with two, is
/// refused. Many clients write addresses there, which the RFC does not permit.
fn server_name(data: &[u8]) -> Result<Option<HostName>, Fault> {
    let mut data = Reader::new(data);
    let mut names = Reader::new(data.vector16().ok_or(Fault::Malformed)?);
    let kind = names.u8().ok_or(Fault::Malformed)?;
    let name = names.vector16().ok_or(Fault::Malformed)?;
    if kind != 0 || !names.is_empty() || !data.is_empty() {
        return Err(Fault::Ambiguous);
    }
    HostName::parse(name).map(Some).map_err(|_| Fault::Malformed)
}

/// RFC 7301 §3.1.
fn protocols(data: &[u8]) -> Option<AlpnList> {
    let mut data = Reader::new(data);
    let mut names = Reader::new(data.vector16()?);
    let mut list = AlpnList::NONE;
    while !names.is_empty() {
        let name = names.vector8()?;
        if name.is_empty() {
            return None;
        }
        list.push(name);
    }
    data.is_empty().then_some(list)
}
