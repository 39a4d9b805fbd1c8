//! The sessions and the network: model Q in a worker.

use std::sync::Arc;

use ::rules::SessionRules;
use ::rules::compile::compile;
use ::rules::image::SessionChange;
use ::rules::model::{BitRates, BitsPerSecond, Edit, QerId, QerUpdate};
use ::rules::network::{Egress, EgressClass, EgressClasses, InstanceEgress, Network, QueueManagement};
use flow::meter::Rate;
use flow::{Direction, OpId, SessionIndex};
use packet::Qfi;
use worker::{Command, EgressLimits, Worker, control_channel};

use super::super::super::error::BenchError;
use super::super::super::model::{Model, Policy, qfi};
use super::super::super::network::{self, N3_PORT, Routers};
use super::super::super::rules::{Identity, WHOLE_SESSION, session_rules};
use super::super::super::settings::{Setting, WorkerOf};
use super::super::super::world::{identities, tell};
use super::super::load::{CLASSES, LARGEST};
use super::port::{BEARERS, Port, WIRE};

/// The Session-AMBR of each session, in kbit/s: 65,536 of them are 40 Gbit/s.
pub const KBIT: u64 = 610;
/// Packets that may wait, for each queue.
const MOST_WAITING: u32 = 8;

/// Sessions of two QoS flows, each of which has a flow of packets; their Session-AMBR; one URR for each QoS flow.
fn model(sessions: u32) -> Model {
    Model {
        name: "Q",
        bearers: BEARERS,
        uplink_per_mille: 0,
        policy: Policy {
            session_qer: true,
            urrs: 1,
            ..Policy::BARE
        },
        ..Model::open().with_sessions(sessions)
    }
}

/// The rules of a session, with its Session-AMBR.
fn rules(model: &Model, session: u32, identity: Identity) -> Result<SessionRules, BenchError> {
    let mut rules = session_rules(model, session, identity).map_err(BenchError::of)?;
    let rate = BitsPerSecond::from_kbit(KBIT);
    let update = QerUpdate {
        mbr: Edit::Set(BitRates { ul: rate, dl: rate }),
        ..QerUpdate::new(QerId(WHOLE_SESSION))
    };
    rules.update_qer(update).map_err(BenchError::of)?;
    Ok(rules)
}

/// The network of the benchmarks. With queues the port and the instance towards gNBs have shapers of a quarter more
/// than all sessions may send.
fn network(sessions: u32, has_queues: bool) -> Result<Network, BenchError> {
    let network = network::network(WIRE).map_err(BenchError::of)?;
    if !has_queues {
        return Ok(network);
    }
    let rate = Rate::from_kbit(KBIT * u64::from(sessions) * 5 / 4);
    let mut instances = network.instances().to_vec();
    for instance in &mut instances {
        instance.egress = (instance.port == N3_PORT).then_some(InstanceEgress { rate });
    }
    let class = |(bearer, priority): (u8, u8)| EgressClass {
        name: format!("class {bearer}"),
        qfis: Qfi::new(qfi(bearer)).into_iter().collect(),
        priority,
        weight: 1,
        octets: 8 * u32::from(LARGEST),
        management: QueueManagement::TailDrop,
    };
    let classes = EgressClasses::new((0..).zip(CLASSES).map(class).collect()).map_err(BenchError::of)?;
    let egress = Egress {
        classes,
        ports: vec![rate],
    };
    let network = Network::new(instances).map_err(BenchError::of)?;
    Ok(network.with_egress(Some(egress)))
}

/// A worker with these sessions, and queues or meters for their rates.
///
/// # Errors
/// When memory runs out.
pub fn worker(sessions: u32, has_queues: bool) -> Result<Worker<Port>, BenchError> {
    let (model, of) = (model(sessions), WorkerOf { id: 0, workers: 1 });
    let network = Arc::new(network(sessions, has_queues)?);
    let identities = identities(sessions, of)?;
    let setting = Setting {
        wire: WIRE,
        worker: of,
        ..Setting::new(model)
    };
    let mut config = setting.config(&network)?;
    // First packets alone come at times: all of them are to be served.
    config.slow_share_percent = 100;
    let packets = (sessions * BEARERS * MOST_WAITING) as usize;
    config.egress = EgressLimits {
        packets,
        octets: packets * usize::from(LARGEST),
        queues: (sessions * BEARERS) as usize,
    };
    let (mut control, end) = control_channel(64, 256);
    let mut worker = Worker::new(config, Port::new(Arc::clone(&identities)), end).map_err(BenchError::of)?;
    for command in network::neighbours(&network, WIRE) {
        tell(&mut worker, &mut control, command)?;
    }
    for (session, identity) in (0..).zip(identities.iter()) {
        let rules = Arc::new(rules(&model, session, *identity)?);
        let mut image = compile(&rules, &network, &Routers).map_err(BenchError::of)?;
        (image.session, image.seid) = (SessionIndex(session), u64::from(session) + 1);
        let queues = image
            .egress_queues(Direction::Downlink)
            .map_or(0, |plan| plan.queues.len());
        if queues != if has_queues { BEARERS as usize } else { 0 } {
            return Err(BenchError(format!("session {session} has {queues} queues")));
        }
        let change = SessionChange::Install(Box::new(image));
        let op = OpId(session.into());
        tell(&mut worker, &mut control, Command::Session { op, change })?;
    }
    Ok(worker)
}
