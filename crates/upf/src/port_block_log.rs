//! The log of port blocks: which session had which public ports, and when.
//!
//! Control's thread makes the events and hands them to a [`PortBlockSink`], which never waits. When that has lost some,
//! all blocks that are held are reported to it, a number of them at a time.

use flow::Nanos;
use n4::Endpoint;
use nat::pools::{BlockId, NatPoolId, PortBlock};
use natlog::{Assignment, Event, Holder};
use rules::network::Network;
use session::{BlockHolder, Moment, PortBlockEvent, WallClock};

use super::usage_record_writer::milliseconds;

/// Where events of port blocks go.
pub trait PortBlockSink: Send {
    /// Takes an event. It does not wait for anything.
    fn put(&mut self, event: Event);

    /// The time, in milliseconds since 1970: the log is right up to then.
    fn set_time(&mut self, unix_ms: u64);

    /// What it wants beside events. Asked behind all events of the time.
    fn wanted(&mut self) -> Wanted {
        Wanted::Nothing
    }

    /// All blocks that are held have been reported since [`Wanted::Anew`] or as events, up to this time.
    fn end_held(&mut self, _unix_ms: u64) {}
}

/// What a [`PortBlockSink`] wants beside events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Events.
    Nothing,
    /// All blocks that are held, as [`Event::Held`], from the first on: it has lost events.
    Anew,
    /// Further ones of those.
    Further,
}

/// Blocks that are looked at in one poll.
const LOOKED_AT: u32 = 256;

/// Control's side of it.
pub(super) struct PortBlockLog {
    sink: Box<dyn PortBlockSink>,
    /// The block that is reported next, if all are being reported.
    next: u32,
}

impl PortBlockLog {
    pub fn new(sink: Box<dyn PortBlockSink>) -> Self {
        Self { sink, next: 0 }
    }

    /// Hands over what has happened to blocks. Whether there was anything.
    pub fn poll(&mut self, now: Nanos, endpoint: &mut Endpoint, network: &Network) -> bool {
        let mut is_busy = false;
        while let Some(event) = endpoint.poll_port_block_event() {
            let event = self::event(&event, network, endpoint.sessions().wall());
            event.into_iter().for_each(|event| self.sink.put(event));
            is_busy = true;
        }
        let unix_ms = milliseconds(now.into(), endpoint.sessions().wall());
        self.sink.set_time(unix_ms);
        match self.sink.wanted() {
            Wanted::Nothing => return is_busy,
            Wanted::Anew => self.next = 0,
            Wanted::Further => {}
        }
        self.tell_held(unix_ms, endpoint, network);
        true
    }

    /// Reports which of the next blocks are held.
    fn tell_held(&mut self, unix_ms: u64, endpoint: &Endpoint, network: &Network) {
        let end = network.nat().pools().blocks();
        let until = end.min(self.next.saturating_add(LOOKED_AT));
        for id in (self.next..until).map(BlockId) {
            let holder = endpoint.sessions().port_block_holder(id);
            if let Some(held) = holder.and_then(|holder| held(unix_ms, id, holder, network)) {
                self.sink.put(Event::Held(held));
            }
        }
        self.next = until;
        if until == end {
            self.sink.end_held(unix_ms);
        }
    }
}

fn event(event: &PortBlockEvent, network: &Network, wall: &WallClock) -> Option<Event> {
    let at_ms = milliseconds(Moment::from(event.at), wall);
    let assignment = assignment(at_ms, event.pool, event.block, &event.holder, network)?;
    Some(match event.is_assigned {
        true => Event::Assigned(assignment),
        false => Event::Released {
            at_ms,
            vrf: assignment.vrf,
            block: assignment.block,
            holder: assignment.holder,
        },
    })
}

/// A block that is held, if its pool is logged: of a deterministic one no end would follow.
fn held(unix_ms: u64, id: BlockId, holder: &BlockHolder, network: &Network) -> Option<Assignment> {
    let pools = network.nat().pools();
    let (pool, block) = pools.block(id)?;
    if pools.deterministic(pool).is_some() {
        return None;
    }
    assignment(unix_ms, pool, block, holder, network)
}

fn assignment(
    since_ms: u64,
    pool: NatPoolId,
    block: PortBlock,
    holder: &BlockHolder,
    network: &Network,
) -> Option<Assignment> {
    let pool = network.nat().pools().pool(pool)?;
    let instance = network
        .instance(pool.instance)
        .map(|instance| instance.name.as_str());
    Some(Assignment {
        since_ms,
        vrf: pool.vrf,
        block,
        holder: self::holder(holder, instance.unwrap_or_default()),
    })
}

fn holder(of: &BlockHolder, instance: &str) -> Holder {
    let subscriber = of.subscriber.as_deref();
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let name = subscriber.and_then(|one| {
        text(&one.imsi)
            .or_else(|| text(&one.supi))
            .or_else(|| text(&one.nai))
    });
    Holder {
        inside: of.inside,
        seid: of.seid.0,
        subscriber: name.unwrap_or_default(),
        dnn: subscriber.and_then(|one| text(&one.dnn)).unwrap_or_default(),
        instance: instance.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_deterministic_pools_are_not_reported_as_held() {
        let text = "\
node: {id: upf1.example.org}
n4: {addresses: [127.0.0.8]}
ports: [{name: ran, driver: {memory: {}}}, {name: dn, driver: {memory: {}}}]
instances:
  - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}
  - {name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24]}
nat_pools:
  - {name: cgn, instance: internet, addresses: [203.0.113.0/31]}
  - {name: fixed, instance: internet, smf_only: true, addresses: [203.0.113.2/31], deterministic: {ues: 10.45.0.0/25}}
";
        let config = config::Config::parse(text, "sluice.yaml").expect("a good configuration");
        let network = config.network().expect("a network");
        let holder = BlockHolder {
            seid: session::Seid(7),
            subscriber: None,
            inside: [10, 45, 0, 5].into(),
        };
        let pools = network.nat().pools();
        let mut seen = [0, 0];
        for id in (0..pools.blocks()).map(BlockId) {
            let (pool, _) = pools.block(id).expect("it is a block");
            let is_fixed = pools.deterministic(pool).is_some();
            assert_eq!(held(1, id, &holder, &network).is_none(), is_fixed);
            seen[usize::from(is_fixed)] += 1;
        }
        assert_eq!(seen, [252, 252]);
    }
}
