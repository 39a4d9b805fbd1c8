//! One burst through an engine's stages: those of a worker, and between them what sets packets aside for the host.

use flow::{KeyFields, Millisecond, Nanos, PortId, Tick};
use offload::exception::Reason;
use packet::{DropReason, PacketBuf};

use super::origin::Origin;
use super::state::Engine;
use crate::accelerator::partial_mode::{set_strangers_aside, set_users_aside};
use crate::accelerator::screening::{Taken, review, screen};
use crate::apply_rules::context::ApplyRules;
use crate::apply_rules::egress_context::EgressContext;
use crate::apply_rules::marking::EgressMark;
use crate::apply_rules::mss_clamping::MssClamping;
use crate::burst::descriptor::{Deferral, Descriptor, Fate, PacketFlags, PacketKey};
use crate::egress::duplicate::Copying;
use crate::egress::linearize::linearize_burst;
use crate::egress::tx_queues::Transmission;
use crate::ingress::parse::{gather, parse};
use crate::io::{Io, PacketMetadata};
use crate::lookup::lookup;
use crate::sessions::Images;

impl<I: Io> Engine<I> {
    /// Stage `rx`.
    pub(super) fn take_from(&mut self, port: PortId) {
        let packets = &mut self.burst.packets;
        self.ports.io.rx(port, packets);
        self.ports.io.complete_checksums(port, packets);
        let octets = packets.iter().map(|buf| buf.len() as u64).sum();
        self.stats.received(port, packets.len() as u64, octets);
        if !self.ports.lags.is_empty() {
            self.ports.lags.receive(port, packets);
        }
    }

    /// Passes the packets of the burst through all stages, and what of them recirculates.
    pub(super) fn pass(&mut self, origin: Origin, now: Nanos) {
        self.process(origin, now);
        while self.ports.tx.has_recirculated() {
            self.ports.tx.take_recirculated(&mut self.burst.packets);
            self.process(Origin::Network, now);
        }
    }

    fn process(&mut self, origin: Origin, now: Nanos) {
        if self.burst.len() == 0 {
            return;
        }
        self.aside.is_from_host = origin == Origin::Host;
        let flags = self.parse();
        let descriptors = &mut self.burst.descriptors[..self.burst.packets.len()];
        set_strangers_aside(descriptors, self.tables.interfaces.is_empty());
        match self.partial {
            Some(partial) => {
                let buckets = &mut self.aside.buckets;
                set_users_aside(partial, descriptors, &self.burst.keys, buckets);
            }
            None => {
                self.lookup(origin, now);
                self.screen(flags, now);
            }
        }
        if let Some(queues) = &self.aside.queues {
            let queueing = &queues.queueing;
            queueing.look_ahead(&self.burst.packets, &self.burst.descriptors, &self.blocks);
        }
        self.apply_rules(flags, now);
        self.send_burst(now);
    }

    /// Stage `parse`.
    fn parse(&mut self) -> PacketFlags {
        let (burst, interfaces) = (&mut self.burst, &self.tables.interfaces);
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        descriptors
            .iter_mut()
            .for_each(|descriptor| descriptor.reset(false));
        let flags = parse(interfaces, &burst.packets, descriptors, &mut burst.keys);
        if !flags.any(PacketFlags::SCATTERED) {
            return flags;
        }
        let again = gather(interfaces, &mut burst.packets, descriptors, &mut burst.keys);
        flags.and(again)
    }

    /// Stage `lookup`, also among flows that settle.
    fn lookup(&mut self, origin: Origin, now: Nanos) {
        let packets = self.burst.packets.len();
        let descriptors = &mut self.burst.descriptors[..packets];
        let misses = self.stats.misses + self.stats.stale;
        // The host says when a decision holds no longer.
        let _ = lookup(
            &mut self.flows,
            &mut self.blocks,
            &mut self.stats,
            descriptors,
            &self.burst.keys,
            Tick::of(now),
        );
        if self.stats.misses + self.stats.stale != misses {
            self.set_misses_aside(origin, now);
        }
    }

    /// Packets without an entry are the host's, unless their flow settles: then they wait, or pass by what the host
    /// gave if they come back from there.
    #[cold]
    fn set_misses_aside(&mut self, origin: Origin, now: Nanos) {
        for index in 0..self.burst.packets.len() {
            let descriptor = &self.burst.descriptors[index];
            if !descriptor.is_open() || descriptor.verdict.is_some() {
                continue;
            }
            let reason = match descriptor.flags {
                flags if flags.any(PacketFlags::FRAGMENT) => Reason::NeedsReassembly,
                flags if flags.any(PacketFlags::STALE) => Reason::Stale,
                _ => Reason::NoFlow,
            };
            // What is kept of its ends came before it.
            let kept = match origin {
                Origin::Network => self.aside.kept_or_not(&self.burst, index),
                _ => None,
            };
            let fate = match kept.or_else(|| self.settle_or_not(index, origin, reason, now)) {
                Some(fate) => fate,
                None if origin == Origin::Network && self.aside.asking.is_on() => {
                    let asked = self.aside.ask_or_not(&self.burst, index, now);
                    asked.unwrap_or(host(reason))
                }
                None => host(reason),
            };
            self.burst.descriptors[index].fate = fate;
        }
    }

    /// What becomes of a packet whose flow settles: open, with the verdict of its flow, if the host has given it back.
    fn settle_or_not(&mut self, index: usize, origin: Origin, reason: Reason, now: Nanos) -> Option<Fate> {
        if self.aside.settling.is_empty() {
            return None;
        }
        let (keys, descriptor) = (&self.burst.keys, &mut self.burst.descriptors[index]);
        let packet = PacketKey { index, keys };
        let (slot, given) = self.aside.settling.find(packet, descriptor.family)?;
        let needs_ports = given.fields().contains(KeyFields::TUPLE);
        if descriptor.flags.any(PacketFlags::FRAGMENT) && needs_ports {
            return None;
        }
        if self.aside.settling.is_stale(slot, &self.blocks) {
            self.give_up(slot);
            return Some(host(Reason::Stale));
        }
        match origin {
            Origin::Host => {
                (descriptor.verdict, descriptor.shape) = (given.entry.verdict, given.fields());
                self.aside.settling.touch(slot, now);
                Some(Fate::Open)
            }
            _ if self.aside.settling.holds(slot) => Some(Fate::Defer(Deferral::Settling(slot))),
            // Those before it have gone to the host.
            _ => Some(host(reason)),
        }
    }

    /// Sets aside what has found its entry and is the host's all the same, before anything is counted.
    fn screen(&mut self, flags: PacketFlags, now: Nanos) {
        let packets = self.burst.packets.len();
        for descriptor in &mut self.burst.descriptors[..packets] {
            if descriptor.is_open()
                && let Some(reason) = screen(&mut self.blocks, &descriptor.verdict)
            {
                descriptor.fate = host(reason);
            }
        }
        if flags.any(PacketFlags::FRAGMENT) {
            self.set_fragments_aside();
        }
        if flags.any(PacketFlags::CLOSING) {
            self.close(Tick::of(now));
        }
    }

    /// Fragments pass where ports decide nothing, as all fragments of their datagrams do. The others need each other.
    #[cold]
    fn set_fragments_aside(&mut self) {
        let packets = self.burst.packets.len();
        for descriptor in &mut self.burst.descriptors[..packets] {
            if descriptor.is_open()
                && descriptor.flags.any(PacketFlags::FRAGMENT)
                && descriptor.shape.contains(KeyFields::TUPLE)
            {
                descriptor.fate = host(Reason::NeedsReassembly);
            }
        }
    }

    /// Segments with FIN or RST pass: the entries of their connections idle for less long.
    #[cold]
    fn close(&mut self, now: Tick) {
        let packets = self.burst.packets.len();
        let keys = &self.burst.keys;
        for (index, descriptor) in self.burst.descriptors[..packets].iter().enumerate() {
            if descriptor.is_open()
                && descriptor.flags.any(PacketFlags::CLOSING)
                && descriptor.shape.contains(KeyFields::TUPLE)
            {
                let packet = PacketKey { index, keys };
                let is_shorter = self.flows.shorten(packet, descriptor, self.tcp_transitory, now);
                self.stats.closed += u64::from(is_shorter);
            }
        }
    }

    /// Stage `apply_rules`, with a look at what it does not let go.
    fn apply_rules(&mut self, flags: PacketFlags, now: Nanos) {
        let burst = &mut self.burst;
        burst.outcome.yellow = 0;
        let state = &mut self.apply_rules;
        let mut stage = ApplyRules {
            egress: EgressContext {
                tables: &self.tables,
                events: &mut self.events,
                stats: &mut self.stats,
                access: &mut self.access,
                now,
                millisecond: Millisecond::of(now),
                outcome: &mut burst.outcome,
                fragmenter: &mut self.fragmenter,
            },
            blocks: &mut self.blocks,
            images: Images::none(),
            chain: &mut state.chain,
            plans: &mut state.plans,
            shared: &mut state.shared,
            mark: EgressMark::default(),
            relays: &mut state.relays,
            checksum_offload: Some(&state.checksum_offload),
        };
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        stage.apply(&mut burst.packets, descriptors, &burst.keys);
        for descriptor in descriptors {
            // One that was dropped before has no verdict.
            if let Fate::Drop(reason) = descriptor.fate
                && descriptor.verdict.is_some()
            {
                set_aside(&mut stage, descriptor, reason);
            }
        }
        // The host answers and resolves: it has these packets.
        burst.outcome.missing.clear();
        burst.outcome.undelivered.clear();
        burst.outcome.discarded.clear();
        if flags.any(PacketFlags::OPENING) && self.tables.interfaces.clamps {
            let mut clamping = MssClamping {
                tables: &self.tables,
                blocks: &self.blocks,
                stats: &mut self.stats,
            };
            clamping.clamp_burst(&mut self.burst);
        }
    }

    /// Stage `tx`, with the copies of what leaves.
    fn send_burst(&mut self, now: Nanos) {
        if !self.burst.outcome.copied.is_empty() {
            let mut copying = Copying {
                io: &mut self.ports.io,
                copies: &mut self.copies,
                fragmenter: &mut self.fragmenter,
                blocks: &self.blocks,
                images: Images::none(),
                tables: &self.tables,
                stats: &mut self.stats,
            };
            copying.copy_burst(&mut self.burst);
        }
        let burst = &mut self.burst;
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        if !self.ports.lags.is_empty() {
            self.ports
                .lags
                .distribute(&burst.packets, descriptors, &burst.keys);
        }
        if self.fragmenter.any() {
            self.fragmenter.settle(descriptors);
        }
        let blocks = &mut self.blocks;
        if self.ports.io.bounds_chains() {
            linearize_burst(&mut self.ports.io, blocks, &mut burst.packets, descriptors);
        }
        if let Some(queues) = &mut self.aside.queues {
            let (queueing, mut plans) = queues.with_plans(blocks);
            queueing.choose(&burst.packets, descriptors, burst.outcome.yellow, &mut plans);
        }
        let transmission = Transmission {
            packets: &mut burst.packets,
            descriptors,
            yellow: burst.outcome.yellow,
            blocks: &mut self.blocks,
            deferred: &mut self.aside,
            fragmenter: &mut self.fragmenter,
            now,
        };
        self.ports
            .tx
            .transmit(&mut self.ports.io, &mut self.stats, transmission);
        if !self.aside.excepted.is_empty() {
            self.aside.note_excepted(&self.burst);
        }
        if self.aside.queues.is_some() {
            self.drop_lost_in_queues();
        }
        if !self.copies.is_empty() {
            self.copies
                .send(&mut self.ports, &mut self.stats, &mut self.fragmenter);
        }
    }
}

const fn host(reason: Reason) -> Fate {
    Fate::Defer(Deferral::Host(reason))
}

/// A packet that stage `apply_rules` drops is the host's, if that may do more for it: it gives back what it has taken.
#[cold]
fn set_aside<B>(stage: &mut ApplyRules<'_, B>, descriptor: &mut Descriptor, reason: DropReason)
where
    B: PacketBuf + PacketMetadata,
{
    let (verdict, octets) = (&descriptor.verdict, usize::from(descriptor.octets));
    let Some((reason, taken)) = review(stage.blocks, verdict, reason) else {
        return;
    };
    stage.unmatch(verdict, octets);
    if taken == Taken::MatchAndTokens {
        stage.unmeter(verdict, octets);
    }
    descriptor.fate = host(reason);
}
