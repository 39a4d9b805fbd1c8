//! A fixed number of packets through a worker, without a clock or a system call: for instruction counts.

use clap::{Args, ValueEnum};

use super::error::BenchError;
use super::load::Load;
use super::model::Model;
use super::progress::Progress;
use super::settings::Setting;
use super::world::World;

/// Which packets.
#[derive(Args, Clone, Debug)]
pub struct Fixed {
    /// The model.
    #[arg(long, value_enum, default_value = "open")]
    model: Which,
    /// Sessions.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    sessions: u32,
    /// Packets uplink, of a thousand.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    uplink: u32,
    /// Packets, besides the first of each flow; as many as the next full burst.
    #[arg(long, default_value_t = 0)]
    packets: u64,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Which {
    /// The model of open UPFs' measurements: an entry for each tunnel.
    Open,
    /// Model V, profile 2, 256 octets: an entry for each 5-tuple.
    V,
}

impl Fixed {
    /// Makes the world, lets each flow in, and sends the packets.
    ///
    /// # Errors
    /// As [`World::new`] and [`World::install_flows`].
    pub fn run(&self) -> Result<(), BenchError> {
        let model = match self.model {
            Which::Open => Some(Model::open()),
            Which::V => Model::v(2, 1),
        };
        let model = model.ok_or_else(|| BenchError("no such model".into()))?;
        let model = Model {
            uplink_per_mille: self.uplink,
            ..model.with_sessions(self.sessions)
        };
        let progress = Progress::silent();
        let mut world = World::new(Setting::new(model), &progress)?;
        world.install_flows(0, model.flows(), &progress)?;
        world.load(Load::saturated(&model, model.flows()));
        let first = world.feed().counts().given;
        while world.feed().counts().given - first < self.packets {
            world.worker.poll(flow::Nanos::from_secs(1));
        }
        let counts = world.feed().counts();
        println!(
            "{} packets, {} sent, {} dropped",
            counts.given - first,
            counts.sent.iter().sum::<u64>(),
            counts.freed.iter().sum::<u64>()
        );
        Ok(())
    }
}
