//! What leaves by the port towards an accelerator that is no packet with its flow: frames of the channel, markers,
//! answers, and packets that it only sends.

use flow::contract::Flow;
use flow::{Nanos, PortId, SessionIndex};
use offload::exception::{self, Answer, AnswersHeader, Marker};
use packet::PacketBuf;

use super::state::{Awaited, BehindAccelerator, Waiting};
use crate::io::Io;

/// Frames of the channel that are sent in a poll.
const FRAMES: usize = 64;
/// The most octets of a frame with answers, behind its EtherType.
const ANSWERS: u16 = 1_500;

impl<I: Io> BehindAccelerator<I> {
    /// Sends markers back behind everything that came before them. Of what the worker has taken of a port, some may
    /// wait in its receive backlog.
    pub(super) fn send_markers(&mut self, in_backlog: &dyn Fn(PortId) -> usize) {
        let first = self.inner.ports() as u16;
        while let Some(Awaited { number, before }) = self.markers.front() {
            let is_done = |(port, (waiting, before)): (u16, (&Waiting<I::Buf>, &u64))| {
                waiting.taken >= *before + in_backlog(PortId(first + port)) as u64
            };
            let mut ports = (0..).zip(self.waiting.iter().zip(before));
            if !ports.all(is_done) {
                return;
            }
            let (channel, number) = (self.channel(), *number);
            // Without a buffer it waits.
            let (Some(to), Some(mut buf)) = (self.host.channel().peer_mac(), self.inner.alloc()) else {
                return;
            };
            self.markers.pop_front();
            let ethernet = self.config.ethernet_len();
            let written = buf.append(ethernet + Marker::LEN).and_then(|out| {
                let header = out.get_mut(ethernet..)?;
                Marker { channel, number }.write_back(header).ok()?;
                self.config.put_ethernet(to, out)
            });
            if written.is_some() {
                self.stats.markers += 1;
                self.send_own(buf);
            }
        }
    }

    /// Sends frames of the channel.
    pub(super) fn send_channel(&mut self, now: Nanos) {
        let mut frame = std::mem::take(&mut self.frame);
        for _ in 0..FRAMES {
            if !self.host.channel_mut().poll_transmit(now, &mut frame) {
                break;
            }
            // What is not sent is sent again: it is a lost frame to the channel.
            let Some(mut buf) = self.inner.alloc() else { break };
            if let Some(out) = buf.append(frame.len()) {
                out.copy_from_slice(&frame);
                self.send_own(buf);
            }
        }
        self.frame = frame;
    }

    pub(super) fn send_own(&mut self, buf: I::Buf) {
        if let Err(buf) = self.to_send.push(buf) {
            self.flush();
            let _ = self.to_send.push(buf);
        }
    }

    pub(super) fn flush(&mut self) {
        if !self.to_send.is_empty() {
            self.inner.tx(self.config.port, &mut self.to_send);
            self.to_send.clear();
        }
    }

    /// Puts the header of a frame that leaves by a port of the accelerator's in front of a packet.
    pub(super) fn put_send(&mut self, number: u16, buf: &mut I::Buf) -> bool {
        let ethernet = self.config.ethernet_len();
        let length = buf.len();
        let in_front = ethernet + exception::Send::LEN;
        let is_short = length + exception::Send::LEN <= usize::from(self.config.mtu);
        let Some(to) = self.host.channel().peer_mac().filter(|_| is_short) else {
            return false;
        };
        let header = exception::Send {
            channel: self.host.channel().config().channel,
            port: PortId(number),
            length: length as u16,
        };
        let Some(out) = buf.prepend(in_front) else {
            return false;
        };
        let written = out
            .get_mut(ethernet..)
            .is_some_and(|out| header.write(out).is_ok());
        let done = written && self.config.put_ethernet(to, out).is_some();
        if !done {
            buf.trim_front(in_front);
        }
        done
    }

    /// Sends the answers that there are.
    pub(super) fn send_answers(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let channel = self.host.channel();
        let header = AnswersHeader {
            channel: channel.config().channel,
            counter: self.counter + 1,
        };
        let seal = |octets: &[u8]| channel.seal(octets).unwrap_or_default();
        let mut octets = std::mem::take(&mut self.frame);
        octets.clear();
        let is_written = self.answers.finish(&header, seal, &mut octets).is_ok();
        let to = channel.peer_mac().filter(|_| is_written);
        if let (Some(to), Some(mut buf)) = (to, self.inner.alloc()) {
            let ethernet = self.config.ethernet_len();
            let written = buf.append(ethernet + octets.len()).and_then(|out| {
                out.get_mut(ethernet..)?.copy_from_slice(&octets);
                self.config.put_ethernet(to, out)
            });
            if written.is_some() {
                self.counter += 1;
                self.send_own(buf);
            }
        }
        self.frame = octets;
    }

    /// Adds an answer to those that are sent with the next frame.
    pub(super) fn add_answer(&mut self, number: u32, flow: Option<(SessionIndex, &Flow)>) {
        let most = usize::from(self.config.mtu.min(ANSWERS));
        let mut answer = match flow {
            Some((session, flow)) => Answer::ByFlow(session, *flow),
            None => Answer::Whole,
        };
        for _ in 0..2 {
            match self.answers.add(number, &answer, most) {
                Ok(true) => break,
                Ok(false) => self.send_answers(),
                // A flow without a form: its packets come whole.
                Err(_) => answer = Answer::Whole,
            }
        }
        match answer {
            Answer::ByFlow(..) => self.stats.answered += 1,
            Answer::Whole => self.stats.answered_whole += 1,
        }
    }
}
