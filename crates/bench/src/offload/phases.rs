//! The parts of a run.

use std::time::Instant;

use flow::cycles;

use super::super::clock::{Presence, Rounds, Spread, nanos};
use super::super::error::BenchError;
use super::super::load::Load;
use super::super::progress::Progress;
use super::super::settings::Setting;
use super::super::world::{World, deadline};
use super::arguments::Arguments;
use super::outcome::{Beside, Counted, Ended, Installs, Offloaded};
use super::pair::{Pair, Ticks};

/// Control frames of which one is lost.
const LOSES: u32 = 100;
/// Packets, or flows, of a round.
const ROUND: u64 = 16_384;
/// Flows of which some are new beside established ones, of ten.
const NEW: u32 = 1;

/// Flows that are established, of all: pairs.
const fn established(all: u32) -> u32 {
    (all / 10 * (10 - NEW)) & !1
}

/// A worker that is alone: nanoseconds of a first packet, and of a packet of established flows.
pub fn alone(
    arguments: &Arguments,
    setting: Setting,
    progress: &Progress,
) -> Result<(Spread, Spread), BenchError> {
    let mut world = World::new(setting, progress)?;
    let model = setting.model;
    let all = model.flows();
    // The first packet of each session is about its tunnel as well.
    world.install_flows(0, all / 64 * 2, progress)?;
    world.load(Load::saturated(&model, all).with_fresh(all / 64 * 2, established(all), None));
    let first = rounds_alone(&mut world, |world| world.feed().load().fresh_left() == 0);
    world.drain();
    world.load(Load::saturated(&model, established(all)));
    let warm = deadline(arguments.seconds);
    world.poll_until(|_| warm());
    let done = deadline(arguments.seconds * f64::from(arguments.pairs));
    let later = rounds_alone(&mut world, |_| done());
    Ok((first, later))
}

fn rounds_alone(world: &mut World, mut is_done: impl FnMut(&mut World) -> bool) -> Spread {
    let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
    while !is_done(world) {
        let (before, start) = (world.feed().counts(), cycles::now());
        world.poll_until(|world| {
            let given = world.feed().counts().since(&before).given;
            given >= ROUND || (given > 0 && is_done(world))
        });
        let ticks = cycles::now().wrapping_sub(start);
        let counts = world.feed().counts().since(&before);
        if counts.given > 0 {
            let own = ticks.saturating_sub(counts.port_ticks);
            rounds.add(nanos(own) / counts.given as f64, presence.was_kept());
        }
    }
    rounds.spread()
}

/// All sessions leave; then all flows come, and traffic of them.
pub fn whole(arguments: &Arguments, setting: &Setting, progress: &Progress) -> Result<Offloaded, BenchError> {
    let mut pair = Pair::new(setting, progress)?;
    leave(&mut pair, progress)?;
    let all = setting.model.flows();
    let installs = install(&mut pair, (0, established(all)), progress)?;
    let beside = beside(arguments, &mut pair, progress)?;
    install(&mut pair, (established(all), all), progress)?;
    Ok(Offloaded {
        sessions: setting.model.sessions,
        flows: pair.node.engine().stats().flows,
        installs,
        beside,
        bound: bound(),
        ..Offloaded::default()
    })
}

/// First packets of flows where the accelerator asks nothing: each goes to the host whole.
pub fn installs_whole(setting: &Setting, progress: &Progress) -> Result<Installs, BenchError> {
    let mut pair = Pair::that(setting, false, progress)?;
    leave(&mut pair, progress)?;
    install(&mut pair, (0, established(setting.model.flows())), progress)
}

/// Packets whose counts may be lost with an accelerator.
fn bound() -> u32 {
    use ::offload::channel::{ChannelConfig, Key, Role};
    use worker::accelerator::{EngineConfig, NodeConfig};
    let engine = EngineConfig::new(
        Default::default(),
        Vec::new(),
        flow::PortId(0),
        flow::Seed([0; 2]),
    );
    let key = Key::new(vec![0; 32]);
    key.map_or(0, |key| {
        let mac = packet::MacAddr([0; 6]);
        NodeConfig::new(engine, ChannelConfig::new(Role::Accelerator, 0, mac, key, 0)).counts_lost
    })
}

/// Has all sessions leave, by first packets of flows of all of them.
fn leave(pair: &mut Pair, progress: &Progress) -> Result<(), BenchError> {
    let (model, sessions) = (pair.model, u64::from(pair.model.sessions));
    let before = pair.feed().counts();
    pair.set_load(Load::saturated(&model, model.flows()).with_fresh(0, model.flows(), None));
    progress.begin("sessions leave", sessions);
    while pair.host.offload_stats().left < sessions {
        if pair.feed().counts().since(&before).given >= model.flows().into() {
            return Err(BenchError(format!("some sessions stay: {}", pair.state())));
        }
        pair.poll();
        // Those that are on their way arrive before others begin.
        pair.rest();
        progress.at(pair.host.offload_stats().left);
    }
    pair.set_load(Load::none());
    pair.rest();
    passed(pair, &before)
}

/// Whether all packets that came in since then have left.
fn passed(pair: &mut Pair, before: &super::super::load::Counts) -> Result<(), BenchError> {
    let counts = pair.feed().counts().since(before);
    let sent: u64 = counts.sent.iter().sum();
    if sent == counts.given {
        return Ok(());
    }
    Err(BenchError(format!(
        "{sent} of {} packets passed: {}",
        counts.given,
        pair.state()
    )))
}

/// A packet of each flow from one number to another: the first one of nearly all of them.
fn install(pair: &mut Pair, (from, to): (u32, u32), progress: &Progress) -> Result<Installs, BenchError> {
    let flows = to - from;
    let (model, before, first) = (pair.model, pair.feed().counts(), pair.given_flows());
    pair.set_load(Load::saturated(&model, to).with_fresh(from, to, None));
    let (mut accelerator, mut host) = (Rounds::default(), Rounds::default());
    let mut presence = Presence::new();
    progress.begin("flows", flows.into());
    let is_over = |pair: &mut Pair| pair.feed().counts().since(&before).given >= flows.into();
    while !is_over(pair) {
        let (mut ticks, through) = (Ticks::default(), pair.given_flows());
        while pair.given_flows() - through < ROUND && !is_over(pair) {
            let poll = pair.poll();
            (ticks.node, ticks.host) = (ticks.node + poll.node, ticks.host + poll.host);
        }
        let installed = (pair.given_flows() - through).max(1) as f64;
        let was_kept = presence.was_kept();
        accelerator.add(nanos(ticks.node) / installed, was_kept);
        host.add(nanos(ticks.host) / installed, was_kept);
        progress.at(pair.given_flows() - first);
    }
    pair.set_load(Load::none());
    pair.rest();
    passed(pair, &before)?;
    Ok(Installs {
        flows: pair.given_flows() - first,
        accelerator: accelerator.spread(),
        host: host.spread(),
        local: Spread::default(),
    })
}

/// Established traffic, with new flows and without in turn.
fn beside(arguments: &Arguments, pair: &mut Pair, progress: &Progress) -> Result<Beside, BenchError> {
    let all = pair.model.flows();
    let (from, slice) = (
        established(all),
        (all - established(all)) / arguments.pairs / 2 * 2,
    );
    let before = pair.feed().counts();
    let (mut without, mut with, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    progress.begin("pairs", arguments.pairs.into());
    for number in 0..arguments.pairs {
        progress.at(number.into());
        let established = Load::saturated(&pair.model, from);
        let slice = (from + number * slice, from + (number + 1) * slice);
        let fresh = established.with_fresh(slice.0, slice.1, Some(arguments.rate.into()));
        if number % 2 == 0 {
            without.push(run(arguments, pair, established)?.0);
        }
        let (nanos, rate) = run(arguments, pair, fresh)?;
        with.push(nanos);
        rates.push(rate);
        if number % 2 == 1 {
            without.push(run(arguments, pair, established)?.0);
        }
    }
    let counts = pair.feed().counts().since(&before);
    let kept = without.iter().zip(&with).map(|(without, with)| without / with);
    Ok(Beside {
        kept: Spread::of(kept.collect()),
        without: Spread::of(without),
        with: Spread::of(with),
        rate: Spread::of(rates).median,
        alone: Spread::default(),
        dropped: counts.given - counts.sent.iter().sum::<u64>(),
    })
}

/// A load for a time: nanoseconds of the accelerator for each packet of established flows, and new flows a second of
/// its time.
fn run(arguments: &Arguments, pair: &mut Pair, load: Load) -> Result<(f64, f64), BenchError> {
    let has_new = load.fresh_left() > 0;
    pair.set_load(load);
    let warm = deadline(arguments.seconds / 8.0);
    while !warm() {
        pair.poll();
    }
    let done = deadline(arguments.seconds);
    let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
    let (mut all, first) = (0, pair.given_flows());
    while !done() && (!has_new || pair.feed().load().fresh_left() > 0) {
        let (mut ticks, before) = (0, pair.feed().counts());
        let sent = loop {
            ticks += pair.poll().node;
            let sent = pair.feed().counts().since(&before).sent[0];
            if sent >= ROUND {
                break sent;
            }
        };
        all += ticks;
        rounds.add(nanos(ticks) / sent as f64, presence.was_kept());
    }
    let rate = (pair.given_flows() - first) as f64 * 1e9 / nanos(all).max(1.0);
    pair.set_load(Load::none());
    pair.rest();
    if rounds.is_empty() {
        return Err(BenchError(
            "no round: more sessions, fewer --pairs, or a lower --rate".into(),
        ));
    }
    Ok((rounds.spread().median, rate))
}

/// A part of the control frames is lost, from the first contact on.
pub fn lossy(arguments: &Arguments, setting: &Setting, progress: &Progress) -> Result<Counted, BenchError> {
    let mut pair = Pair::new(setting, progress)?;
    pair.link.lose_one_of(LOSES);
    leave(&mut pair, progress)?;
    install(&mut pair, (0, setting.model.flows()), progress)?;
    run(
        arguments,
        &mut pair,
        Load::saturated(&setting.model, setting.model.flows()),
    )?;
    let counted = pair.counted()?;
    Ok(Counted {
        passed: pair.feed().counts().sent.iter().sum(),
        counted,
        control_lost: pair.link.lost(),
        contacts: pair.node.agent().stats().contacts,
    })
}

/// The accelerator's process ends under traffic, and another one begins at once: what its start takes is not in it.
pub fn ended(
    arguments: &Arguments,
    setting: &Setting,
    number: u32,
    progress: &Progress,
) -> Result<Ended, BenchError> {
    let mut pair = Pair::new(setting, progress)?;
    let mut other = pair.other_node(setting, u64::from(number) + 2)?;
    leave(&mut pair, progress)?;
    install(&mut pair, (0, setting.model.flows()), progress)?;
    let load = Load::saturated(&setting.model, setting.model.flows());
    pair.set_load(load);
    // Counts are reported now and then: each end is at another moment.
    let until = deadline(arguments.seconds * (1.0 + f64::from(number) / 7.0));
    while !until() {
        pair.poll();
    }
    let before: u64 = pair.feed().counts().sent.iter().sum();
    other.engine_mut().io_mut().feed.set_load(load);
    pair.node = other;
    pair.link.cut();
    let begin = Instant::now();
    let first_ms = until_some_pass(&mut pair, begin, |sent, _| sent > 0)?;
    let most_ms = until_some_pass(&mut pair, begin, |sent, given| sent * 10 >= given * 9)?;
    pair.set_load(Load::none());
    pair.rest();
    let after: u64 = pair.feed().counts().sent.iter().sum();
    Ok(Ended {
        passed: before + after,
        counted: pair.counted()?,
        first_ms,
        most_ms,
    })
}

/// Milliseconds since `begin` until as many packets of those that came in passed, in one look at 1,024 of them.
fn until_some_pass(
    pair: &mut Pair,
    begin: Instant,
    is_enough: impl Fn(u64, u64) -> bool,
) -> Result<f64, BenchError> {
    for _ in 0..10_000 {
        let before = pair.feed().counts();
        let counts = loop {
            pair.poll();
            let counts = pair.feed().counts().since(&before);
            if counts.given >= 1_024 {
                break counts;
            }
        };
        if is_enough(counts.sent.iter().sum(), counts.given) {
            return Ok(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    Err(BenchError(format!("no packet passes any more: {}", pair.state())))
}
