//! Workers some of whose ports are behind an accelerator.

use std::fmt;
use std::iter::Enumerate;
use std::vec;

use config::Config;
use offload::channel::{Channel, ConfigFault, Random as ChannelRandom};
use offload::in_band::InBand;
use ports::Ports;
use session::Random;
use worker::behind_accelerator::{AcceleratorPort, BehindAccelerator, LinkEnds};
use worker::dpdk::{DpdkBuf, DpdkIo};

/// The queues of a worker, with ports behind an accelerator.
pub type AcceleratedIo = BehindAccelerator<DpdkIo>;

/// Why the accelerator cannot be driven.
#[derive(Debug)]
pub enum AcceleratorError {
    /// No port is the one towards it.
    Port,
    /// The key of the channel.
    Key(config::KeyError),
    /// What else the channel is made with.
    Channel(ConfigFault),
    /// The system has no random numbers.
    Random,
}

impl fmt::Display for AcceleratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port => f.write_str("accelerator: there is no port towards it"),
            Self::Key(error) => write!(f, "accelerator.link: {error}"),
            Self::Channel(fault) => write!(f, "accelerator.link: {fault}"),
            Self::Random => f.write_str("the system gives no random numbers"),
        }
    }
}

/// What channels draw their nonces from, and the number of this start.
pub fn channel_random() -> Result<(ChannelRandom, u64), AcceleratorError> {
    let seed = Random::system_seed().map_err(|_| AcceleratorError::Random)?;
    let mut random = Random::from_seed(seed);
    let boot = random.next_u64();
    Ok((Box::new(move |octets| random.fill(octets)), boot))
}

/// What the workers have of the accelerator, in the order of their numbers.
pub struct TowardsAccelerator {
    /// Of this start, for all channels.
    boot: u64,
    /// Those that have not got theirs.
    ends: Enumerate<vec::IntoIter<LinkEnds<DpdkBuf>>>,
}

impl TowardsAccelerator {
    /// For as many workers as there are.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(config: &Config) -> Result<Self, AcceleratorError> {
        let (_, boot) = channel_random()?;
        let ends = LinkEnds::between(config.workers.count.size());
        Ok(Self {
            boot,
            ends: ends.into_iter().enumerate(),
        })
    }

    /// The queues of the next worker, and behind them the ports of the accelerator.
    ///
    /// # Errors
    /// The key, or what else the channel is made with, cannot be used.
    pub fn behind(
        &mut self,
        io: DpdkIo,
        config: &Config,
        ports: &Ports,
    ) -> Result<AcceleratedIo, AcceleratorError> {
        let accelerator = config.accelerator.as_ref().ok_or(AcceleratorError::Port)?;
        let (port, found) = config.accelerator_port().ok_or(AcceleratorError::Port)?;
        let mtu = found.mtu.value() as u16;
        let mac = *ports.macs().get(port.index()).ok_or(AcceleratorError::Port)?;
        let (random, _) = channel_random()?;
        let link = &accelerator.link;
        let workers = config.workers.count.size();
        let (worker, ends) = self.ends.next().ok_or(AcceleratorError::Port)?;
        let channel = accelerator
            .channel_of_worker((worker, workers), mac, mtu, self.boot)
            .map_err(AcceleratorError::Key)?;
        let channel = Channel::new(channel, random).map_err(AcceleratorError::Channel)?;
        let towards = AcceleratorPort {
            port,
            ports: config.ports_behind_accelerator() as u16,
            mac,
            vlan: link.vlan_id(),
            mtu,
        };
        Ok(BehindAccelerator::new(io, towards, InBand::new(channel)).with_ends(ends))
    }
}
