//! The wire between a worker and an accelerator's node, in memory, and the ports at both of its ends.
//!
//! A frame's buffer goes from one end to the other, as by a ring of descriptors; what a NIC, its driver and PCI take is
//! not in it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use flow::{PortId, WorkerId};
use packet::PacketBuf;
use worker::{Batch, Io};

use super::super::feed::{Buf, Feed};

/// The EtherType of control frames, and where it is in a frame.
const CONTROL: (usize, [u8; 2]) = (12, [0x88, 0xb5]);

/// The frames on their way.
#[derive(Default)]
struct Wire {
    to_node: VecDeque<Buf>,
    to_host: VecDeque<Buf>,
    /// One control frame of this number is lost, each way; 0: none.
    loses: u32,
    /// Control frames, by direction.
    control: [u32; 2],
    lost: u64,
}

impl Wire {
    /// Whether a frame is lost now.
    fn loses(&mut self, frame: &Buf, is_to_node: bool) -> bool {
        let (at, control) = CONTROL;
        if self.loses == 0 || frame.data().get(at..at + 2) != Some(&control[..]) {
            return false;
        }
        let control = &mut self.control[usize::from(is_to_node)];
        *control += 1;
        let is_lost = control.is_multiple_of(self.loses);
        self.lost += u64::from(is_lost);
        is_lost
    }
}

/// A wire.
#[derive(Clone, Default)]
pub struct Link(Rc<RefCell<Wire>>);

impl Link {
    /// Loses one control frame of this number from now on, each way; 0: none.
    pub fn lose_one_of(&self, number: u32) {
        self.0.borrow_mut().loses = number;
    }

    /// Control frames that were lost.
    pub fn lost(&self) -> u64 {
        self.0.borrow().lost
    }

    /// What is on its way to the node is lost with it.
    pub fn cut(&self) {
        self.0.borrow_mut().to_node.clear();
    }

    fn send(&self, out: &mut Batch<Buf>, is_to_node: bool) {
        let mut wire = self.0.borrow_mut();
        for frame in out.drain() {
            if wire.loses(&frame, is_to_node) {
                continue;
            }
            match is_to_node {
                true => wire.to_node.push_back(frame),
                false => wire.to_host.push_back(frame),
            }
        }
    }

    fn take(&self, out: &mut Batch<Buf>, is_at_node: bool) {
        let mut wire = self.0.borrow_mut();
        let queue = match is_at_node {
            true => &mut wire.to_node,
            false => &mut wire.to_host,
        };
        while !out.is_full()
            && let Some(frame) = queue.pop_front()
        {
            let _ = out.push(frame);
        }
    }
}

/// The ports of the node: N3 and N6, which feed themselves, and behind them the one towards the host.
pub struct NodePorts {
    /// N3 and N6.
    pub feed: Feed,
    link: Link,
    /// Nothing is received by N3 and N6.
    pub is_paused: bool,
}

impl NodePorts {
    /// Ports at this wire.
    pub fn new(mut feed: Feed, link: Link) -> Self {
        feed.add_buffers(BUFFERS);
        Self {
            feed,
            link,
            is_paused: false,
        }
    }
}

/// Buffers of packets that are with the host, or wait; and those that are free at least.
const BUFFERS: usize = 16_384;
const LEAST: usize = 2_048;

impl Io for NodePorts {
    type Buf = Buf;

    fn ports(&self) -> usize {
        self.feed.ports() + 1
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        if port.index() == self.feed.ports() {
            self.link.take(out, true);
        } else if !self.is_paused {
            // Without contact packets are dropped as they are.
            self.feed.replace_buffers(LEAST);
            self.feed.rx(port, out);
        }
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        if port.index() == self.feed.ports() {
            self.link.send(out, false);
        } else {
            self.feed.tx(port, out);
        }
    }

    fn alloc(&mut self) -> Option<Buf> {
        self.feed.alloc().or_else(|| Some(Buf::new()))
    }

    fn hand_over(&mut self, _to: WorkerId, _out: &mut Batch<Buf>) {}

    fn inbox_len(&self) -> usize {
        0
    }

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.feed.free(out);
    }
}

/// The host's port towards the accelerator.
pub struct HostPort {
    link: Link,
    free: Vec<Buf>,
}

impl HostPort {
    /// A port at this wire.
    pub const fn new(link: Link) -> Self {
        Self {
            link,
            free: Vec::new(),
        }
    }
}

impl Io for HostPort {
    type Buf = Buf;

    fn ports(&self) -> usize {
        1
    }

    fn rx(&mut self, _port: PortId, out: &mut Batch<Buf>) {
        self.link.take(out, false);
    }

    fn tx(&mut self, _port: PortId, out: &mut Batch<Buf>) {
        self.link.send(out, true);
    }

    fn alloc(&mut self) -> Option<Buf> {
        let mut buf = self.free.pop().unwrap_or_else(Buf::new);
        buf.renew();
        Some(buf)
    }

    fn hand_over(&mut self, _to: WorkerId, _out: &mut Batch<Buf>) {}

    fn inbox_len(&self) -> usize {
        0
    }

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.free.extend(out.drain());
    }
}
