//! What a session has of a pool of public addresses.

use nat::mappings::{Inside, MappingState, MovedMapping, Protocol};
use nat::pools::{NatPoolId, NatPools, PortBlock};
use packet::tuple::proto;
use rules::model::{Far, NatChoice};
use rules::network;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::super::error::RecordError;
use super::convert::Result;
use super::form::{Mapping, Nat};

/// Blocks and mappings of a session, at most.
const MOST_BLOCKS: usize = 255;
const MOST_MAPPINGS: usize = 196_608;

/// The states of mappings, by the number that they have in records.
const STATES: [MappingState; 5] = [
    MappingState::Established,
    MappingState::Opening,
    MappingState::Answered,
    MappingState::Finished,
    MappingState::Reset,
];

/// The form of these; none of none.
pub(super) fn write(blocks: &[PortBlock], mappings: &[MovedMapping]) -> Option<Nat> {
    if blocks.is_empty() {
        return None;
    }
    let block = |block: &PortBlock| (block.address, block.first, block.bits);
    Some(Nat {
        blocks: blocks.iter().map(block).collect(),
        mappings: mappings.iter().map(mapping).collect(),
    })
}

/// What FARs themselves choose of public addresses.
pub(super) fn choices(fars: &[Far], pools: &NatPools) -> Vec<(u32, Option<String>)> {
    let choice = |far: &Far| {
        let name = match far.optional.nat? {
            NatChoice::Untranslated => None,
            NatChoice::Pool(id) => Some(pools.pool(id)?.name.clone()),
        };
        Some((far.id.0, name))
    };
    fars.iter().filter_map(choice).collect()
}

/// What a FAR chose. A pool that is configured no more is as if it had chosen none.
pub(super) fn choice(choices: &[(u32, Option<String>)], far: u32, nat: &network::Nat) -> Option<NatChoice> {
    let (_, name) = choices.iter().find(|(id, _)| *id == far)?;
    match name {
        None => Some(NatChoice::Untranslated),
        Some(name) => nat.by_name(name.as_bytes()).map(NatChoice::Pool),
    }
}

fn mapping(moved: &MovedMapping) -> Mapping {
    let addresses = |remotes: &Vec<[u8; 4]>| remotes.iter().copied().map(Ipv4Addr::from).collect();
    Mapping {
        address: moved.inside.address.into(),
        port: moved.inside.port,
        protocol: match moved.inside.protocol {
            Protocol::Tcp => proto::TCP,
            Protocol::Udp => proto::UDP,
            Protocol::Icmp => proto::ICMP,
        },
        public_port: moved.port,
        remaining_ms: u64::try_from(moved.remaining.as_millis()).unwrap_or(u64::MAX),
        state: STATES
            .iter()
            .position(|state| *state == moved.state)
            .unwrap_or_default() as u8,
        remotes: moved.remotes.as_ref().map(addresses),
    }
}

/// The blocks of a record that are of this pool, which is the session's now, and the mappings to them.
pub(super) fn read(
    form: Nat,
    pool: NatPoolId,
    pools: &NatPools,
) -> Result<(Vec<PortBlock>, Vec<MovedMapping>)> {
    let Nat { blocks, mappings } = form;
    if blocks.len() > MOST_BLOCKS || mappings.len() > MOST_MAPPINGS {
        return Err(bad("number of port blocks or mappings"));
    }
    let blocks = blocks
        .into_iter()
        .map(|(address, first, bits)| PortBlock { address, first, bits });
    let blocks: Vec<PortBlock> = blocks
        .filter(|block| pools.id_of(pool, *block).is_some())
        .collect();
    let mut known = Vec::with_capacity(mappings.len());
    for mapping in mappings {
        let block = blocks
            .iter()
            .find(|block| block.ports().contains(&mapping.public_port));
        let Some(id) = block.and_then(|block| pools.id_of(pool, *block)) else {
            continue;
        };
        let octets = |remotes: Vec<Ipv4Addr>| remotes.iter().map(Ipv4Addr::octets).collect();
        known.push(MovedMapping {
            inside: Inside {
                address: mapping.address.octets(),
                port: mapping.port,
                protocol: Protocol::of(mapping.protocol).ok_or(bad("protocol of a mapping"))?,
            },
            block: id,
            port: mapping.public_port,
            remaining: Duration::from_millis(mapping.remaining_ms),
            state: *STATES
                .get(usize::from(mapping.state))
                .ok_or(bad("state of a mapping"))?,
            remotes: mapping.remotes.map(octets),
        });
    }
    Ok((blocks, known))
}

fn bad(what: &'static str) -> RecordError {
    RecordError::Malformed(what)
}
