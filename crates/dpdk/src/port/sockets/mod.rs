//! A kernel interface as a port, by packet sockets of our own: a ring for each receive queue, one call of the kernel
//! for each burst that is sent.
//!
//! DPDK has a driver for that (`net_af_packet`). It has the kernel put fragments together, keeps from us which
//! checksums the kernel has not filled in yet, cuts off what is longer than 2,048 octets, and gives the kernel memory
//! to send from that it writes again before the other end of a veth has read it.
//!
//! The kernel gives a packet socket frames as they come from other parts of it: of TCP up to 64 KiB in one, without
//! checksums, where their sender leaves that to a NIC that is not there (veth), or GRO has put them together. Checksums
//! are filled in here, as a NIC would; frames that are several are given on as [coalesced](crate::Mbuf::coalesced).

mod checksum;
mod counts;
mod group;
mod interface;
mod ring;
mod segmentation;
mod send;

use std::sync::Arc;

pub use group::FilterInstruction;
pub(super) use group::set_program;
pub(super) use interface::{Interface, MTU_MAX, QUEUES_MAX, last_errno};
pub(super) use ring::Ring;
pub(super) use send::{SEGMENTS_MAX, Sender};

use self::group::{Group, Sharing};
use self::ring::Shape;
use super::config::PortConfig;
use super::queue::{Beside, Queues, RxQueue, TxQueue};
use super::urgent::{Chooser, Sorting, UrgentQueues};
use crate::error::Error;

/// Urgent packets that a queue of theirs holds.
const URGENT_SLOTS: u16 = 512;

/// Opens the sockets of all queues and starts them.
pub(super) fn start(
    interface: &Arc<Interface>,
    config: &PortConfig,
    sorting: &Arc<Sorting>,
) -> Result<Queues, Error> {
    check(config)?;
    if let Some(mtu) = config.mtu {
        interface.set_mtu(mtu)?;
    }
    interface.hear_groups()?;
    if config.promiscuous {
        interface.set_promiscuous(true)?;
    }
    let mtu = interface.mtu()?;
    let rx = receivers(interface, config, mtu, sorting)?;
    let senders = (0..config.tx_queues).map(|number| {
        let sender = Sender::open(interface, config.tx_udp_segmentation.then_some(mtu))?;
        Ok(TxQueue::of_socket(sender, number))
    });
    let tx = senders.collect::<Result<Vec<_>, Error>>()?;
    Ok(Queues { rx, tx })
}

/// Opens the rings of all receive queues, and then those of urgent packets, where they are wanted.
fn receivers(
    interface: &Interface,
    config: &PortConfig,
    mtu: u16,
    sorting: &Arc<Sorting>,
) -> Result<Vec<RxQueue>, Error> {
    let queues = config.rx_queues;
    let mut rings = open(interface, config, mtu, config.rx_descriptors)?;
    let mut sharing = Sharing::Hash;
    if config.urgent_queues {
        rings.extend(open(interface, config, mtu, URGENT_SLOTS)?);
        sharing = Sharing::Program;
    }
    if rings.len() > 1 {
        match Group::open(interface, &rings[0], sharing) {
            Ok(group) => rings[1..]
                .iter()
                .try_for_each(|ring| group.join(interface, ring))?,
            // Older kernels open none while the interface is down: one queue does without.
            Err(Error::Driver { errno, .. }) if queues == 1 => {
                sorting.note(UrgentQueues::Refused(errno));
                rings.truncate(1);
            }
            Err(error) => return Err(error),
        }
    }
    let mut urgent = rings.split_off(queues.into());
    // Each ring has had what came in before it joined.
    urgent.iter_mut().for_each(Ring::skip);
    if !urgent.is_empty() {
        sorting.note(UrgentQueues::Waiting);
    }
    let mut urgent = urgent.into_iter().map(|ring| Beside {
        ring: Box::new(ring),
        chooser: Chooser::Group,
        sorting: Arc::clone(sorting),
    });
    let rings = rings.into_iter().zip(0..);
    Ok(rings
        .map(|(ring, number)| RxQueue::of_socket(ring, urgent.next(), number))
        .collect())
}

/// Opens a ring for each receive queue.
fn open(interface: &Interface, config: &PortConfig, mtu: u16, slots: u16) -> Result<Vec<Ring>, Error> {
    let shape = Shape::of(mtu, slots);
    (0..config.rx_queues)
        .map(|number| Ring::open(interface, shape, config.pool(number).clone()))
        .collect()
}

/// Opens the rings of urgent packets alone, of a port whose other packets do not come by packet sockets. They share by
/// hash.
pub(super) fn urgent_rings(interface: &Interface, config: &PortConfig) -> Result<Vec<Ring>, Error> {
    let rings = open(interface, config, interface.mtu()?, URGENT_SLOTS)?;
    if rings.len() > 1 {
        let group = Group::open(interface, &rings[0], Sharing::Hash)?;
        rings[1..]
            .iter()
            .try_for_each(|ring| group.join(interface, ring))?;
    }
    Ok(rings)
}

fn check(config: &PortConfig) -> Result<(), Error> {
    let within = |field, value: u16| match (1..=QUEUES_MAX).contains(&value) {
        true => Ok(()),
        false => Err(Error::config(
            field,
            value,
            format!("this port has 1 to {QUEUES_MAX}"),
        )),
    };
    within("rx_queues", config.rx_queues)?;
    within("tx_queues", config.tx_queues)?;
    config.check_pools()
}
