//! Redirection (TS 29.244 §5.4.7): a packet of a FAR that redirects is replaced by the response of a web server that
//! redirects its client.
//!
//! The response is received again as if the data network had sent it, so the session's rules for packets to the UE
//! apply to it. Each packet has at most one response, which is sent only to an address of the same session. Its rate is
//! bounded by session and by worker.

use flow::{Millisecond, Nanos, PortId, Verdict};
use packet::{DropReason, PacketBuf, redirect};

use crate::access_counts::AccessCounts;
use crate::apply_rules::egress_context::EgressContext;
use crate::apply_rules::encap::{self, Cut, Hop};
use crate::burst::Burst;
use crate::burst::descriptor::Fate;
use crate::control_channel::event_queue::EventQueue;
use crate::egress::forwarding::ForwardingTables;
use crate::egress::fragmentation::Fragmenter;
use crate::ingress::parse;
use crate::io::PacketMetadata;
use crate::local::generated_packet_rate_limit::GeneratedPacketRateLimit;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// State of the worker that redirection needs.
pub(crate) struct Redirection<'a> {
    pub limit: &'a mut GeneratedPacketRateLimit,
    pub secret: redirect::Secret,
    pub sessions: &'a mut Sessions,
    pub tables: &'a ForwardingTables,
    pub events: &'a mut EventQueue,
    pub stats: &'a mut Stats,
    pub access: &'a mut AccessCounts,
    pub now: Nanos,
}

impl Redirection<'_> {
    /// Answers the packets of this burst that are redirected.
    #[cold]
    #[inline(never)]
    pub fn redirect_burst<B: PacketBuf + PacketMetadata>(
        &mut self,
        burst: &mut Burst<B>,
        fragmenter: &mut Fragmenter<B>,
    ) {
        for index in 0..burst.len() {
            if burst.descriptors[index].fate == Fate::Redirect {
                let answered = self.redirect(burst, fragmenter, index);
                burst.descriptors[index].fate = answered.map_or_else(Fate::Drop, Fate::Send);
            }
        }
    }

    /// Puts the answer into the packet's buffer and counts the packet.
    fn redirect<B: PacketBuf + PacketMetadata>(
        &mut self,
        burst: &mut Burst<B>,
        fragmenter: &mut Fragmenter<B>,
        index: usize,
    ) -> Result<PortId, DropReason> {
        let descriptor = &burst.descriptors[index];
        let verdict = &descriptor.verdict;
        let block = self.sessions.blocks.get(verdict.block);
        let session = block.ok_or(DropReason::NoMatchingPdr)?.session();
        // Before the answer is made, which takes a hundred times as long as the packet has taken so far.
        if !self.limit.has_one(session, self.now) {
            return Err(DropReason::RedirectLimit);
        }
        parse::gather_headers(&mut burst.packets[index]);
        let mut answer = [0; redirect::LONGEST];
        let length = self.answer_to(burst, index, verdict, &mut answer)?;
        if !self.limit.take(session, self.now) {
            return Err(DropReason::RedirectLimit);
        }
        let descriptor = &burst.descriptors[index];
        let direction = verdict.direction();
        let mut egress = EgressContext {
            tables: self.tables,
            events: self.events,
            stats: self.stats,
            access: self.access,
            now: self.now,
            millisecond: Millisecond::of(self.now),
            outcome: &mut burst.outcome,
            fragmenter,
        };
        let blocks = &mut self.sessions.blocks;
        let block = blocks.live_at(verdict.block, verdict.generation, direction);
        let mut block = block.ok_or(DropReason::NoMatchingPdr)?;
        let forward = block.forward(verdict.forward);
        let adjacency = self.tables.adjacencies.resolved(forward.adjacency());
        let adjacency = adjacency.ok_or(DropReason::NoNeighbour)?;
        let buf = &mut burst.packets[index];
        buf.set_ingress(buf.ingress().answering(true).owning(true));
        refill(buf, &answer[..length]).ok_or(DropReason::NoHeadroom)?;
        let cut = Cut {
            offset: 0,
            octets: length,
            hop: Hop::None,
        };
        // A packet to a group has no family of a flow.
        let is_v4 = answer[0] >> 4 == 4;
        encap::plain(buf, cut, is_v4, adjacency)?;
        let octets = usize::from(descriptor.octets);
        egress.count_or_drop(&mut block, verdict, octets)?;
        let group = block.group();
        blocks.groups_mut().count(group, direction, octets as u64);
        if verdict.content != 0 {
            blocks.count_content(verdict.block, verdict.content, direction, octets as u64, self.now);
        }
        self.stats.directions[direction as usize].forwarded.add(octets);
        Ok(adjacency.port())
    }

    /// Writes what is said to a packet; answers how many octets that is.
    fn answer_to<B: PacketBuf>(
        &self,
        burst: &Burst<B>,
        index: usize,
        verdict: &Verdict,
        out: &mut [u8],
    ) -> Result<usize, DropReason> {
        let (descriptor, packet) = (&burst.descriptors[index], &burst.packets[index]);
        let client = descriptor.tuple(packet.data())?;
        let start = usize::from(descriptor.offset);
        let block = self.sessions.blocks.get(verdict.block);
        let block = block.ok_or(DropReason::NoMatchingPdr)?;
        let slot = self.sessions.at(block.session());
        let image = &slot.ok_or(DropReason::NoMatchingPdr)?.image;
        let url = image
            .redirect(verdict.forward)
            .ok_or(DropReason::UnsupportedAction)?;
        let home = self.tables.interfaces.at(block.forward(verdict.forward).egress);
        let home = home.ok_or(DropReason::NotRedirected)?;
        let source = client.addrs.src();
        let mut own = image.ue_addresses.iter();
        if !own.any(|(vrf, prefix)| *vrf == home.vrf && prefix.contains(source)) {
            return Err(DropReason::NotRedirected);
        }
        let segment = start + usize::from(client.l4_offset)..start + usize::from(client.total_len);
        let request = redirect::Request {
            headers: packet.data().get(start..).unwrap_or_default(),
            client: &client,
            sum: packet.sum_of(segment),
        };
        redirect::answer(self.secret, url.url().as_bytes(), request, out)
    }
}

/// Makes `buf` hold these octets, in one part.
fn refill<B: PacketBuf>(buf: &mut B, octets: &[u8]) -> Option<()> {
    let kept = octets.len().min(buf.data().len());
    buf.truncate(kept).then_some(())?;
    if octets.len() > kept {
        buf.append(octets.len() - kept)?;
    }
    buf.data_mut().get_mut(..octets.len())?.copy_from_slice(octets);
    Some(())
}
