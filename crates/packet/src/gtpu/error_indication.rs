//! Error Indication: its mandatory information elements and the UDP Port extension header (TS 29.281 §7.3.1).

use core::net::IpAddr;

use crate::{DropReason, Teid};

use super::extension::ExtensionType;
use super::header::MessageType;
use super::ie::Ie;
use super::message::Message;

/// An Error Indication (TS 29.281 §7.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorIndication {
    /// The TEID that the peer does not know.
    pub teid: Teid,
    /// The peer's address, to which the G-PDU was sent.
    pub peer: IpAddr,
    /// The UDP source port of that G-PDU, from the UDP Port extension header.
    pub udp_port: Option<u16>,
}

impl ErrorIndication {
    /// Reads the mandatory elements; the first of each type counts, others are skipped.
    ///
    /// # Errors
    /// [`DropReason::BadGtpuIe`] when an element is malformed or a mandatory one is missing,
    /// [`DropReason::UnsupportedGtpuMessage`] when the message is none.
    pub fn read(message: &Message<'_>) -> Result<Self, DropReason> {
        if message.message_type != MessageType::ERROR_INDICATION {
            return Err(DropReason::UnsupportedGtpuMessage);
        }
        let (mut teid, mut peer) = (None, None);
        for ie in message.ies() {
            match ie? {
                Ie::TeidDataI(value) => teid = teid.or(Some(value)),
                Ie::PeerAddress(value) => peer = peer.or(Some(value)),
                _ => {}
            }
        }
        let udp_port = message.extensions.find(ExtensionType::UDP_PORT);
        let udp_port = udp_port.and_then(|content| content.first_chunk::<2>());
        Ok(Self {
            teid: teid.ok_or(DropReason::BadGtpuIe)?,
            peer: peer.ok_or(DropReason::BadGtpuIe)?,
            udp_port: udp_port.map(|port| u16::from_be_bytes(*port)),
        })
    }
}
