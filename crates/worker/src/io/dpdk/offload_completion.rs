//! Offload completion of received packets ([`packet::offload_completion`]): segmentation of packets that the kernel has
//! coalesced, and its progress.
//!
//! One worker's, of one port. A packet that is cut up stays in its mbufs until its last piece is out, and what came
//! behind it waits.

use std::collections::VecDeque;

use dpdk::{BURST_MAX, Burst, Mbuf, Mempool, RxQueue};
use flow::PortId;
use packet::PacketBuf;
use packet::offload_completion::Segmentation;

use crate::Batch;
use crate::io::dpdk::buf::DpdkBuf;

/// Octets of the longest piece: those of the longest IPv6 packet, behind two tags.
const LONGEST: usize = 22 + 40 + 65_535;

/// Packets of one port that have come and are not delivered yet.
pub(super) struct OffloadCompletion {
    cutting: Option<Cutting>,
    /// In order, behind what is cut up. No more than a burst.
    waiting: VecDeque<Mbuf>,
    /// Where pieces are made that do not fit one buffer.
    scratch: Box<[u8]>,
}

/// A packet that is cut up.
struct Cutting {
    whole: Mbuf,
    cut: Segmentation,
    /// The place of the next piece.
    next: usize,
}

impl OffloadCompletion {
    pub fn new() -> Self {
        Self {
            cutting: None,
            waiting: VecDeque::with_capacity(BURST_MAX),
            scratch: vec![0; LONGEST].into_boxed_slice(),
        }
    }

    /// Whether nothing waits to be delivered.
    pub fn is_empty(&self) -> bool {
        self.cutting.is_none() && self.waiting.is_empty()
    }

    /// Delivers what waits, or what the queue has received where nothing does. `burst` is empty before and after.
    #[inline]
    pub fn receive(
        &mut self,
        queue: &mut RxQueue,
        burst: &mut Burst,
        port: PortId,
        to: (&Mempool, &mut Batch<DpdkBuf>),
    ) {
        if !self.is_empty() {
            return self.deliver(port, to);
        }
        queue.rx_burst(burst);
        self.take(burst, port, to);
    }

    /// Delivers what was received last, as far as `out` has room; the rest waits. Nothing waited before.
    fn take(&mut self, burst: &mut Burst, port: PortId, (pool, out): (&Mempool, &mut Batch<DpdkBuf>)) {
        for mbuf in burst.drain() {
            if self.waiting.is_empty() && mbuf.coalesced().is_none() {
                push(out, mbuf, port);
            } else {
                self.waiting.push_back(mbuf);
            }
        }
        if !self.waiting.is_empty() {
            self.deliver(port, (pool, out));
        }
    }

    /// Delivers what waits, as far as `out` has room and the pool has buffers.
    #[cold]
    fn deliver(&mut self, port: PortId, (pool, out): (&Mempool, &mut Batch<DpdkBuf>)) {
        while !out.is_full() {
            if let Some(cutting) = &mut self.cutting {
                let Some(piece) = cutting.piece(pool, &mut self.scratch) else {
                    return;
                };
                push(out, piece, port);
                cutting.next += 1;
                if cutting.next >= cutting.cut.pieces() {
                    self.cutting = None;
                }
                continue;
            }
            let Some(mbuf) = self.waiting.pop_front() else {
                return;
            };
            let coalesced = mbuf.coalesced();
            let cut = coalesced.and_then(|of| Segmentation::of(mbuf.data(), mbuf.len(), of.layer4, of.size));
            match cut {
                Some(cut) => {
                    self.cutting = Some(Cutting {
                        whole: mbuf,
                        cut,
                        next: 0,
                    });
                }
                // One packet; or several that cannot be separated, as in a tunnel: those pass as they are.
                None => push(out, mbuf, port),
            }
        }
    }
}

fn push(out: &mut Batch<DpdkBuf>, mut mbuf: Mbuf, port: PortId) {
    mbuf.set_port(port.0);
    // There is room: a burst is received where `out` is empty, and otherwise it was asked.
    let _ = out.push(DpdkBuf::from(mbuf));
}

impl Cutting {
    /// Makes the next piece. `None` while the pool is empty.
    fn piece(&self, pool: &Mempool, scratch: &mut [u8]) -> Option<Mbuf> {
        let payload = self.cut.payload(self.next);
        let (header, length) = (self.cut.header(), self.cut.header() + payload.len());
        let mut mbuf = pool.alloc()?;
        let fits = length <= mbuf.tailroom();
        let piece = if fits {
            mbuf.append(length)?
        } else {
            scratch.get_mut(..length)?
        };
        piece[..header].copy_from_slice(self.whole.data().get(..header)?);
        self.whole.copy_to(payload.start, &mut piece[header..]);
        self.cut.finish(self.next, piece);
        if fits {
            return Some(mbuf);
        }
        let mut buf = DpdkBuf::from(mbuf);
        let mut left = &scratch[..length];
        while !left.is_empty() {
            if buf.tailroom() == 0 {
                buf.link(DpdkBuf::from(pool.alloc()?)).ok()?;
            }
            let (now, later) = left.split_at(buf.tailroom().min(left.len()));
            buf.append(now.len())?.copy_from_slice(now);
            left = later;
        }
        Some(buf.into_mbuf())
    }
}
