//! Messages of our own to GTP-U peers: composed in a buffer, sent back the way a packet came.
//!
//! Nothing here decides whether to answer. The messages themselves are `packet::build`'s.

use packet::build::{self, Envelope};
use packet::{DropReason, GtpuFrame, MacAddr, PacketBuf};
use transport::replies;

/// Octets of the longest frame made here.
const MAX: usize = 160;

/// A message of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// Answers an Echo Request (TS 29.281 §7.2.2).
    EchoResponse,
    /// Error Indication: the tunnel of the peer has no context here (TS 29.281 §7.3.1).
    ErrorIndication,
    /// Supported Extension Headers Notification (TS 29.281 §7.2.3).
    SupportedExtensionHeaders,
}

/// A frame of ours.
pub(crate) struct Frame {
    octets: [u8; MAX],
    len: usize,
}

impl Frame {
    /// The frame that carries `message` back to the sender of `gtpu`, which came in `received`; `mac` is our port's.
    ///
    /// # Errors
    /// [`DropReason::MartianSource`] when no station sent it, [`DropReason::NoHeadroom`] when the frame is too long.
    pub fn back(
        received: &[u8],
        gtpu: &GtpuFrame,
        mac: MacAddr,
        message: Message,
    ) -> Result<Self, DropReason> {
        let mut frame = Self {
            octets: [0; MAX],
            len: 0,
        };
        let l2_len = usize::from(gtpu.l2_len);
        let (l2, ip) = frame
            .octets
            .split_at_mut_checked(l2_len)
            .ok_or(DropReason::NoHeadroom)?;
        l2.copy_from_slice(received.get(..l2_len).ok_or(DropReason::TruncatedEthernet)?);
        replies::send_back(l2, mac)?;
        frame.len = l2_len + write(ip, gtpu, message).ok_or(DropReason::NoHeadroom)?;
        Ok(frame)
    }

    /// Makes `buf` this frame.
    ///
    /// # Errors
    /// [`DropReason::NoHeadroom`] when the buffer has no room.
    pub fn put_into<B: PacketBuf>(&self, buf: &mut B) -> Result<(), DropReason> {
        let octets = self.octets.get(..self.len).unwrap_or_default();
        let fits = match octets.len().checked_sub(buf.len()) {
            Some(more) if more > 0 => buf.append(more).is_some(),
            _ => buf.truncate(octets.len()),
        };
        let room = buf
            .data_mut()
            .get_mut(..octets.len())
            .filter(|_| fits)
            .ok_or(DropReason::NoHeadroom)?;
        room.copy_from_slice(octets);
        Ok(())
    }
}

fn write(out: &mut [u8], gtpu: &GtpuFrame, message: Message) -> Option<usize> {
    match message {
        Message::EchoResponse => {
            build::echo_response(out, &Envelope::response_to(gtpu), gtpu.sequence.unwrap_or(0))
        }
        Message::ErrorIndication => {
            let (teid, ours) = (gtpu.teid, gtpu.outer.addrs.dst());
            let port = Some(gtpu.outer.src_port);
            build::error_indication(out, &Envelope::notice_about(gtpu), teid, ours, port)
        }
        Message::SupportedExtensionHeaders => {
            build::supported_extension_headers_notification(out, &Envelope::notice_about(gtpu))
        }
    }
}
