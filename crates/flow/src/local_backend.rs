//! The local backend of the FlowOp contract: [`FlowTable`] and [`Blocks`] behind [`Backend`](crate::contract::Backend).
//!
//! It shows that what a worker calls directly keeps the contract, and takes the place of another backend. Workers do
//! not go through it: they hold their tables themselves.

mod node;

use std::collections::HashMap;

use self::node::Node;
use crate::contract::{AnyKey, Capabilities, Epoch, Fate, Flow, Object, ObjectId, PacketPath, Refusal, Why};
use crate::meter::{Offer, SharedId, SharedMeters};
use crate::slab::OutOfMemory;
use crate::table_backend::{BackendTables, TableBackend, entry_of};
use crate::{
    Blocks, Counted, Extension, ExtensionId, Extensions, FlowEntry, FlowKey, FlowKey4, FlowKey6, FlowTable,
    Installed, LiveBlock, Millisecond, Nanos, Nat, Seed, SessionIndex, Tick, Verdict,
};

/// Content counters of all sessions together.
const CONTENTS: usize = 1024;
/// Buckets that the aging hands pass in a `poll`.
const AGED_AT_ONCE: usize = 64;

/// Tables of its own.
pub struct LocalTables {
    v4: FlowTable<FlowKey4>,
    v6: FlowTable<FlowKey6>,
    lines: Extensions,
    blocks: Blocks,
    node: Node,
    /// The flows of each session.
    flows: HashMap<SessionIndex, HashMap<AnyKey, Flow>>,
}

/// The backend that owns its tables.
pub type LocalBackend = TableBackend<LocalTables>;

impl LocalBackend {
    /// A backend without state, in its first epoch.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had.
    pub fn local(ipv4_flows: u32, ipv6_flows: u32, sessions: u32, seed: Seed) -> Result<Self, OutOfMemory> {
        let capabilities = Capabilities::local(ipv4_flows, ipv6_flows, sessions);
        let blocks = Blocks::new(sessions as usize, Blocks::TYPICAL_LINES)?;
        let tables = LocalTables {
            v4: FlowTable::new(ipv4_flows as usize, seed)?,
            v6: FlowTable::new(ipv6_flows as usize, seed)?,
            lines: Extensions::new(ipv4_flows as usize)?,
            blocks: blocks.with_contents(sessions as usize, CONTENTS)?,
            node: Node::new(capabilities.shared_meters),
            flows: HashMap::new(),
        };
        Ok(Self::new(capabilities, Epoch(1), tables))
    }
}

impl LocalTables {
    /// The line of the entry of a key; no IPv6 flow has one.
    fn extension(&self, key: &AnyKey) -> ExtensionId {
        match key {
            AnyKey::V4(key) => {
                let entry = self.v4.entry(self.v4.lookup(key));
                entry.map_or(ExtensionId::NONE, |entry| entry.extension)
            }
            AnyKey::V6(_) => ExtensionId::NONE,
        }
    }

    /// The entry that a packet finds, which is used now.
    fn visit(&mut self, key: &AnyKey, now: Tick) -> Option<FlowEntry<()>> {
        match key {
            AnyKey::V4(key) => visit(&mut self.v4, key, now),
            AnyKey::V6(key) => visit(&mut self.v6, key, now),
        }
    }

    /// Passes a packet, if its entry is one and valid.
    fn pass(&mut self, key: &AnyKey, offer: &Offer) -> Option<(SessionIndex, Verdict, Passed)> {
        let entry = self.visit(key, Tick::of(offer.now))?;
        let nat = self.lines.get(entry.extension).map(|line| line.nat);
        let block = self.blocks.live(&entry)?;
        let session = block.session();
        let leads_on = self
            .node
            .leads_on(block.whole_forward(entry.verdict.forward).adjacency);
        let passed = pass(
            block,
            &entry.verdict,
            (nat, leads_on),
            offer,
            &mut self.node.shared,
        );
        let Verdict { block, content, .. } = entry.verdict;
        if matches!(passed.fate, Fate::Passed { .. }) && content != 0 {
            let (direction, octets) = (entry.verdict.direction(), offer.octets.into());
            self.blocks
                .count_content(block, content, direction, octets, offer.now);
        }
        Some((session, entry.verdict, passed))
    }
}

impl BackendTables for LocalTables {
    fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn owner(&self, key: &AnyKey) -> Option<SessionIndex> {
        let block = match key {
            AnyKey::V4(key) => self.v4.entry(self.v4.lookup(key))?.verdict.block,
            AnyKey::V6(key) => self.v6.entry(self.v6.lookup(key))?.verdict.block,
        };
        Some(self.blocks.get(block)?.session())
    }

    fn put(
        &mut self,
        session: SessionIndex,
        flow: &Flow,
        entry: &FlowEntry<AnyKey>,
        now: Nanos,
    ) -> Result<(), Refusal> {
        if self.owner(&flow.key).is_some_and(|owner| owner != session) {
            return Err(Refusal::Exists);
        }
        let tick = Tick::of(now);
        let mut entry = *entry;
        self.lines.remove(self.extension(&entry.key));
        entry.extension = ExtensionId::NONE;
        if let Some(nat) = flow.nat {
            let extension = self.lines.insert(Extension { nat });
            entry.extension = extension.ok_or(Refusal::Full)?;
        }
        let inserted = match entry.key {
            AnyKey::V4(key) => self.v4.insert(entry.with_key(key), tick),
            AnyKey::V6(key) => self.v6.insert(entry.with_key(key), tick),
        };
        if inserted.is_err() {
            self.lines.remove(entry.extension);
            return Err(Refusal::Full);
        }
        self.flows.entry(session).or_default().insert(flow.key, *flow);
        Ok(())
    }

    fn any_flow(&self, session: SessionIndex, is_it: &dyn Fn(&Flow) -> bool) -> bool {
        let flows = self.flows.get(&session);
        flows.is_some_and(|flows| flows.values().any(is_it))
    }

    /// Points each flow at the block.
    fn moved(&mut self, session: SessionIndex, _: Installed, installed: Installed) {
        let flows: Vec<Flow> = self
            .flows
            .get(&session)
            .into_iter()
            .flat_map(|flows| flows.values().copied())
            .collect();
        for flow in flows {
            // The counter of its content is there.
            let Some(mut entry) = entry_of(&flow, session, installed.block, &mut self.blocks) else {
                continue;
            };
            entry.extension = self.extension(&entry.key);
            // What is there is replaced where it is: there is always room.
            let _ = match entry.key {
                AnyKey::V4(key) => self.v4.replace(entry.with_key(key)),
                AnyKey::V6(key) => self.v6.replace(entry.with_key(key)),
            };
        }
    }

    fn remove(&mut self, session: SessionIndex, key: &AnyKey, _: Nanos) {
        if let Some(flows) = self.flows.get_mut(&session) {
            flows.remove(key);
        }
        self.lines.remove(self.extension(key));
        match key {
            AnyKey::V4(key) => drop(self.v4.remove(key)),
            AnyKey::V6(key) => drop(self.v6.remove(key)),
        }
    }

    fn remove_all(&mut self, session: SessionIndex, installed: Installed, now: Nanos) -> Installed {
        for key in self.flows.remove(&session).unwrap_or_default().keys() {
            self.remove(session, key, now);
        }
        installed
    }

    fn age(&mut self, now: Nanos, aged: &mut Vec<(AnyKey, SessionIndex)>) {
        let tick = Tick::of(now);
        let Self {
            v4,
            v6,
            lines,
            blocks,
            flows,
            ..
        } = self;
        let begin = aged.len();
        let session = |verdict: &Verdict| Some(blocks.get(verdict.block)?.session());
        v4.age(tick, AGED_AT_ONCE, |entry| {
            lines.remove(entry.extension);
            aged.extend(session(&entry.verdict).map(|session| (AnyKey::V4(entry.key), session)));
        });
        v6.age(tick, AGED_AT_ONCE, |entry| {
            aged.extend(session(&entry.verdict).map(|session| (AnyKey::V6(entry.key), session)));
        });
        for (key, session) in aged.get(begin..).unwrap_or_default() {
            if let Some(flows) = flows.get_mut(session) {
                flows.remove(key);
            }
        }
    }

    fn change_node(&mut self, id: ObjectId, object: Option<&Object>) -> Result<(), Refusal> {
        self.node.change(id, object);
        Ok(())
    }

    fn take_demand(&mut self, id: SharedId) -> [u64; 2] {
        let mut demand = [(id, [0; 2])];
        self.node.shared.take_demand(&mut demand);
        demand[0].1
    }
}

impl PacketPath for LocalBackend {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        let Some((session, verdict, passed)) = self.tables_mut().pass(key, &Offer::new(octets, now)) else {
            self.tell_miss(*key);
            return Fate::Missed;
        };
        for counted in passed.counted {
            self.tell(session, verdict.direction(), counted);
        }
        passed.fate
    }
}

/// What became of a packet.
struct Passed {
    fate: Fate,
    /// What it has done to counters before QoS, and after.
    counted: [Counted; 2],
}

/// Counts a packet before QoS; then applies gates, quotas, forward, meters and counters to it, in this order.
fn pass(
    mut block: LiveBlock<'_>,
    verdict: &Verdict,
    (nat, leads_on): (Option<Nat>, bool),
    offer: &Offer,
    shared: &mut SharedMeters,
) -> Passed {
    let (octets, millisecond) = (offer.octets.into(), Millisecond::of(offer.now));
    let before = block.count_before_qos(verdict.urrs, octets, millisecond);
    let stays = |fate| Passed {
        fate,
        counted: [before, Counted::PASSED],
    };
    let forward = block.forward(verdict.forward);
    let held = if block.is_closed(verdict.qers) {
        Some(Fate::Dropped(Why::Gate))
    } else if block.is_stopped(verdict.urrs) {
        Some(Fate::of_limit(block.stop_action(verdict.urrs)))
    } else {
        Fate::of_action(forward.kind()).or((!leads_on).then_some(Fate::Trapped(Why::Adjacency)))
    };
    if let Some(fate) = held {
        return stays(fate);
    }
    let Ok(colour) = block.meter(verdict.qers, offer, shared) else {
        return stays(Fate::Dropped(Why::Meter));
    };
    let counted = block.count_with_units(verdict.urrs, octets, millisecond);
    let mark = block.mark(verdict.marking);
    let passed = Fate::Passed {
        forward: block.whole_forward(verdict.forward),
        mark,
        colour,
        nat,
    };
    Passed {
        fate: counted.action.map_or(passed, Fate::of_limit),
        counted: [before, counted],
    }
}

fn visit<K: FlowKey>(table: &mut FlowTable<K>, key: &K, now: Tick) -> Option<FlowEntry<()>> {
    let hit = table.lookup(key);
    table.visit(hit, now).map(|entry| entry.with_key(()))
}
