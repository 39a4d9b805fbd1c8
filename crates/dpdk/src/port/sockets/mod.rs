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
mod interface;
mod ring;
mod segmentation;
mod send;

use std::sync::Arc;

pub(super) use interface::{Interface, MTU_MAX, QUEUES_MAX};
pub(super) use ring::Ring;
pub(super) use send::{SEGMENTS_MAX, Sender};

use super::config::PortConfig;
use super::queue::{Queues, RxQueue, TxQueue};
use crate::error::Error;

/// Opens the sockets of all queues and starts them.
pub(super) fn start(interface: &Arc<Interface>, config: &PortConfig) -> Result<Queues, Error> {
    check(config)?;
    if let Some(mtu) = config.mtu {
        interface.set_mtu(mtu)?;
    }
    interface.hear_groups()?;
    if config.promiscuous {
        interface.set_promiscuous(true)?;
    }
    let mtu = interface.mtu()?;
    let shape = ring::Shape::of(mtu, config.rx_descriptors);
    let mut group = None;
    let mut rx = Vec::new();
    for number in 0..config.rx_queues {
        let pool = config.pool(number).clone();
        let ring = Ring::open(interface, shape, pool)?;
        if config.rx_queues > 1 {
            group = Some(ring.join(interface, group)?);
        }
        rx.push(RxQueue::of_socket(ring, number));
    }
    let senders = (0..config.tx_queues).map(|number| {
        let sender = Sender::open(interface, config.tx_udp_segmentation.then_some(mtu))?;
        Ok(TxQueue::of_socket(sender, number))
    });
    let tx = senders.collect::<Result<Vec<_>, Error>>()?;
    Ok(Queues { rx, tx })
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
