//! CG-NAT: how much of pools is used, what sessions have of them, who has a public port.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use flow::Nanos;
use nat::mappings::{MovedMapping, Protocol};
use nat::pools::deterministic::Deterministic;
use nat::pools::{BlockId, Filtering, NatPool, NatPoolId, PortBlock};
use rules::model::ChosenNat;
use rules::network::{Network, SessionScope};
use session::{NatPoolStatus, SessionView};
use upf::{Control, format, identifiers};
use worker::{SessionNatStatus, SessionStatus};

use super::rows::{addresses, dnn, imsi};
use crate::values::{
    NatBlock, NatMappingList, NatMappingRow, NatOwner, NatPoolRow, NatUnsolicited, SessionNat,
};

/// A public address and port that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicEndpoint {
    /// The address.
    pub address: Ipv4Addr,
    /// The port.
    pub port: u16,
    /// The protocol whose mapping is wanted, too.
    pub protocol: Option<Protocol>,
    /// The network instance of the address; any.
    pub instance: Option<String>,
}

/// Why no session is named for a public address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// No pool has the address and port.
    NoPool,
    /// Pools of several network instances have it.
    Several,
    /// No session has it now.
    NoSession,
    /// Too many inspections are under way.
    Busy,
}

impl fmt::Display for NoOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPool => "no pool of public addresses has this address and port",
            Self::Several => "pools of several network instances have this address: name one",
            Self::NoSession => "no session has this address and port now",
            Self::Busy => "too many inspections are under way",
        })
    }
}

impl std::error::Error for NoOwner {}

/// All pools, as of now.
#[must_use]
pub fn nat_pools(now: Nanos, control: &mut Control) -> Vec<NatPoolRow> {
    let status = control.nat_status(now);
    let control = &*control;
    let nat = control.network().nat();
    let pools = nat.pools().all().iter().zip(status).zip(0..);
    let row = |((pool, status), id)| {
        let id = NatPoolId(id);
        pool_row(control, id, (pool, nat.scope(id)), &status)
    };
    pools.map(row).collect()
}

fn pool_row(
    control: &Control,
    id: NatPoolId,
    (pool, scope): (&NatPool, Option<&SessionScope>),
    status: &NatPoolStatus,
) -> NatPoolRow {
    let NatPoolStatus { blocks, exhausted } = status;
    let ranges = pool.addresses.iter();
    NatPoolRow {
        name: pool.name.clone(),
        instance: format::instance(control.network(), pool.instance),
        slice: scope.and_then(|scope| Some(scope.slice?.to_string())),
        dnn: scope.and_then(|scope| scope.dnn.clone()),
        smf_only: scope.is_none(),
        deterministic: control.network().nat().pools().deterministic(id).map(prefix),
        addresses: ranges
            .map(|range| format!("{}-{}", range.start(), range.end()))
            .collect(),
        block: 1 << pool.block_bits,
        filtering: match pool.filtering {
            Filtering::EndpointIndependent => "endpoint_independent",
            Filtering::AddressDependent => "address_dependent",
        }
        .into(),
        unsolicited: (pool.filtering == Filtering::EndpointIndependent).then_some(NatUnsolicited {
            pages: pool.unsolicited.pages,
            charged: pool.unsolicited.charged,
        }),
        blocks: blocks.blocks,
        held: blocks.held,
        resting: blocks.resting,
        reserved: blocks.reserved,
        free: blocks
            .blocks
            .saturating_sub(blocks.held + blocks.resting + blocks.reserved),
        full_addresses: blocks.full_addresses,
        exhausted: *exhausted,
    }
}

fn prefix(of: &Deterministic) -> String {
    let (first, len) = of.prefix();
    format!("{first}/{len}")
}

/// What a session has of its pool, if it has one; `status` is what its worker says.
pub(super) fn session_nat(
    control: &Control,
    session: &SessionView<'_>,
    status: Option<&SessionStatus>,
) -> Option<SessionNat> {
    let id = session.rules().nat()?;
    let pool = control.network().nat().pools().pool(id)?;
    let blocks = control.endpoint().sessions().port_blocks(session.index());
    let ues = control.network().nat().pools().deterministic(id);
    let lacks = ues.filter(|_| blocks.is_empty()).map(|ues| {
        let own = addresses(session).join(", ");
        format!("the pool is for the UEs {}, this one is {own}", prefix(ues))
    });
    let used = status.and_then(|status| Some(status.nat.as_ref()?.used));
    let free = used.map(|used| Protocol::ALL.into_iter().zip(used.ports_free));
    Some(SessionNat {
        pool: pool.name.clone(),
        chosen_by: chosen_by(control.network(), session.rules().chosen_nat()),
        address: blocks.first().map(|block| block.address.to_string()),
        blocks: blocks.into_iter().map(block).collect(),
        lacks,
        mappings: used.map(|used| used.mappings),
        free_ports: free
            .into_iter()
            .flatten()
            .map(|(protocol, ports)| (protocol.label().into(), ports))
            .collect(),
    })
}

/// What chose the pool of a session.
fn chosen_by(network: &Network, chosen: Option<ChosenNat>) -> String {
    let Some(ChosenNat { far, policy, .. }) = chosen else {
        return "configuration".into();
    };
    let name = |policy| network.policy(policy).map_or("?", |policy| &policy.name);
    match policy {
        None => format!("FAR {}", far.0),
        Some(policy) => format!("forwarding policy `{}` of FAR {}", name(policy), far.0),
    }
}

fn block(block: PortBlock) -> NatBlock {
    let ports = block.ports();
    NatBlock {
        first: *ports.start(),
        last: *ports.end(),
    }
}

/// The session that has a public address and port, without a mapping; and the block that it is of. Where the block is a
/// UE's by configuration, that is named without a session, too.
///
/// # Errors
/// See [`NoOwner`].
pub fn nat_owner(control: &Control, wanted: &PublicEndpoint) -> Result<(NatOwner, BlockId), NoOwner> {
    let network = control.network();
    let pools = network.nat().pools();
    let (pool, id) = pool_of(control, wanted)?;
    let (_, ports) = pools.block(id).ok_or(NoOwner::NoPool)?;
    let sessions = control.endpoint().sessions();
    let owner = sessions.port_block_owner(id);
    let session = owner.and_then(|owner| sessions.view(owner));
    let by_configuration = pools.ue_of(id).map(|ue| ue.to_string());
    if session.is_none() && by_configuration.is_none() {
        return Err(NoOwner::NoSession);
    }
    let session = session.as_ref();
    let owner = NatOwner {
        address: wanted.address.to_string(),
        port: wanted.port,
        instance: format::instance(network, pool.instance),
        pool: pool.name.clone(),
        block: block(ports),
        seid: session.map(|session| identifiers::seid(session.seid().0)),
        ue: session.map_or_else(|| Vec::from_iter(by_configuration), addresses),
        imsi: session.and_then(imsi),
        dnn: session.and_then(dnn),
        protocol: wanted.protocol.map(|protocol| protocol.label().into()),
        mapping: None,
    };
    Ok((owner, id))
}

/// The only pool that has a public address and port, and the block.
fn pool_of<'c>(control: &'c Control, wanted: &PublicEndpoint) -> Result<(&'c NatPool, BlockId), NoOwner> {
    let network = control.network();
    let named = wanted.instance.as_ref();
    let vrf = match named {
        Some(name) => {
            let instance = network.instance_by_name(name.as_bytes());
            Some(instance.ok_or(NoOwner::NoPool)?.vrf)
        }
        None => None,
    };
    let pools = network.nat().pools();
    let mut found = pools.all().iter().zip(0..).filter_map(|(pool, number)| {
        let is_meant = vrf.is_none_or(|vrf| vrf == pool.vrf);
        let id = pools.block_of(pool.vrf, wanted.address, wanted.port)?;
        let (own, _) = pools.block(id)?;
        (is_meant && own == NatPoolId(number)).then_some((pool, id))
    });
    let first = found.next().ok_or(NoOwner::NoPool)?;
    match found.next() {
        None => Ok(first),
        Some(_) => Err(NoOwner::Several),
    }
}

/// A mapping of a worker's session.
#[must_use]
pub fn nat_mapping(control: &Control, mapping: &MovedMapping) -> Option<NatMappingRow> {
    let pools = control.network().nat().pools();
    let (pool, block) = pools.block(mapping.block)?;
    let inside = mapping.inside;
    // Where anyone may send, no list says who may.
    let filters = |pool: &NatPool| pool.filtering == Filtering::AddressDependent;
    let remotes = mapping.remotes.as_ref();
    let remotes = remotes.filter(|_| pools.pool(pool).is_some_and(filters));
    Some(NatMappingRow {
        protocol: inside.protocol.label().into(),
        inside: SocketAddrV4::new(inside.address.into(), inside.port).to_string(),
        public: SocketAddrV4::new(block.address, mapping.port).to_string(),
        state: (inside.protocol == Protocol::Tcp).then(|| mapping.state.label().into()),
        expires_s: (mapping.remaining != Duration::MAX).then_some(mapping.remaining.as_secs()),
        remotes: remotes.map(|remotes| {
            remotes
                .iter()
                .map(|remote| Ipv4Addr::from(*remote).to_string())
                .collect()
        }),
    })
}

/// The mappings of a session, as its worker says.
#[must_use]
pub fn nat_mappings(
    control: &Control,
    session: &SessionView<'_>,
    status: Option<&SessionNatStatus>,
) -> NatMappingList {
    let mappings = status.into_iter().flat_map(|status| &status.mappings);
    NatMappingList {
        seid: identifiers::seid(session.seid().0),
        mappings: mappings
            .filter_map(|mapping| nat_mapping(control, mapping))
            .collect(),
        total: match session.rules().nat() {
            Some(_) => status.map(|status| status.used.mappings),
            None => Some(0),
        },
    }
}
