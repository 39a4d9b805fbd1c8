//! `sluice accel`: an accelerator that passes packets for a UPF.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use config::AcceleratorNodeConfig;
use flow::Seed;
use oam::{LogControl, totals};
use offload::channel::Role;
use offload::exception::{Class, Reason};
use packet::MacAddr;
use ports::Ports;
use runtime::{AcceleratorThread, Clock, Idle, NodeView};
use serde_json::{Value, json};
use session::Random;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tracing::{error, info, warn};
use worker::accelerator::Node;

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use crate::daemon::accelerator::channel_random;

/// How often it is looked at whether there is contact.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is looked at whether the ports' frames are kept from the kernel's network stack.
const DROP_POLL: Duration = Duration::from_secs(1);

/// What `sluice accel` is asked for.
#[derive(Args)]
pub struct AccelArguments {
    /// The configuration.
    #[arg(short, long)]
    config: PathBuf,
    /// Read the configuration and the key, open nothing, and end: exit status 2 and the reason where there is a
    /// mistake.
    #[arg(long)]
    check: bool,
    /// Print what was counted, as one line of JSON, at the end.
    #[arg(long)]
    json: bool,
}

/// Passes packets for the host at the other end of the link until SIGINT or SIGTERM. Exit status 2 for a configuration
/// with a mistake, 1 for what failed while it ran.
#[must_use]
pub fn accel(arguments: &AccelArguments) -> ExitCode {
    let log = LogControl::start();
    let config = match AcceleratorNodeConfig::load(&arguments.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    if let Err(error) = config.link.key() {
        eprintln!("{}: link: {error}", arguments.config.display());
        return ExitCode::from(CONFIGURATION_ERROR);
    }
    if arguments.check {
        print!("{}", explain(&config));
        return ExitCode::SUCCESS;
    }
    log.set(config.log.level);
    log.set_format(config.log.format);
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = register(&stop).and_then(|()| serve(&config, &stop));
    match outcome {
        Ok(counted) => {
            info!("stopped");
            if arguments.json {
                println!("{}", as_json(&counted));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            error!("{error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

/// What the configuration makes, a few lines that a person reads.
fn explain(config: &AcceleratorNodeConfig) -> String {
    let link = &config.link.port.value;
    let line = |(number, port): (usize, &config::PortConfig)| match &port.name.value {
        name if name == link => format!(
            "link       {name}, MTU {}, channel {}\n",
            port.mtu.value(),
            config.link.channel.value()
        ),
        name => format!("port {number}     {name}, MTU {}\n", port.mtu.value()),
    };
    let limits = &config.limits;
    let tables = format!(
        "tables     {} sessions, {} IPv4 and {} IPv6 flows\n",
        limits.sessions.value(),
        limits.flows_ipv4.value(),
        limits.flows_ipv6.value()
    );
    config
        .ordered_ports()
        .enumerate()
        .map(line)
        .chain([tables])
        .collect()
}

fn register(stop: &Arc<AtomicBool>) -> Result<(), String> {
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(stop)).map_err(|error| format!("signal {signal}: {error}"))?;
    }
    Ok(())
}

/// In words.
fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

fn serve(config: &AcceleratorNodeConfig, stop: &AtomicBool) -> Result<NodeView, String> {
    let eal = ports::start_eal_of_accelerator(config).map_err(text)?;
    let mut ports = Ports::start_of_accelerator(eal, config).map_err(text)?;
    ports.swept().iter().for_each(|what| warn!("{what}"));
    let macs = ports.macs();
    log_ports(config, &macs);
    let io = ports.take_io(eal).map_err(text)?.pop();
    let io = io.ok_or("there are no queues")?;
    let (random, boot) = channel_random().map_err(text)?;
    let mtu = config.ordered_ports().last().map_or(0, |port| port.mtu.value());
    let own = macs.last().copied().unwrap_or(MacAddr::ZERO);
    let channel = config.link.channel(Role::Accelerator, own, mtu as u16, boot);
    let channel = channel.map_err(|error| format!("link: {error}"))?;
    let mut secrets = Random::from_seed(Random::system_seed().map_err(text)?);
    let node = config.node(&macs, channel, Seed([secrets.next_u64(), secrets.next_u64()]));
    let idle = config.longest_sleep().map_or_else(Idle::busy, Idle::adaptive);
    let clock = Clock::starting_now(eal.tsc_hz());
    let halt = Arc::new(AtomicBool::new(false));
    let made = move || Node::new(node, io, random);
    let thread = AcceleratorThread::start(eal, clock, (config.core(), idle), Arc::clone(&halt), made);
    let thread = thread.map_err(text)?;
    info!(
        link = config.link.port.value,
        channel = config.link.channel.value(),
        "ready"
    );
    watch(&thread, &mut ports, stop)?;
    halt.store(true, Ordering::Relaxed);
    Ok(thread.join())
}

/// Says which number and address each port has, which the host's configuration has to have.
fn log_ports(config: &AcceleratorNodeConfig, macs: &[MacAddr]) {
    let link = &config.link.port.value;
    for (number, (port, mac)) in config.ordered_ports().zip(macs).enumerate() {
        let name = &port.name.value;
        match name == link {
            true => info!(port = name, %mac, "port towards the host"),
            false => info!(port = name, %mac, number, "port of the network"),
        }
    }
}

/// Waits for `stop`; logs when contact begins and ends, and keeps the ports' frames from the kernel's network stack.
fn watch(thread: &AcceleratorThread, ports: &mut Ports, stop: &AtomicBool) -> Result<(), String> {
    let (mut before, mut drops_due) = ((None, 0), Instant::now() + DROP_POLL);
    while !stop.load(Ordering::Relaxed) {
        if thread.is_finished() {
            return Err("the thread of the packets ended".into());
        }
        let view = thread.view();
        let now = (view.host, view.contacts);
        if before != now {
            if let (Some(mac), _) = before {
                warn!(host = %mac, "contact with the host lost: all that it had given is forgotten");
            }
            if let (Some(mac), contacts) = now {
                info!(host = %mac, contacts, "contact with the host");
            }
        }
        before = now;
        if Instant::now() >= drops_due {
            drops_due = Instant::now() + DROP_POLL;
            for interface in ports.renew_drops() {
                warn!(interface, "ingress drop restored: another process had removed it");
            }
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// What was counted, for programs.
fn as_json(view: &NodeView) -> Value {
    let exceptions = Reason::ALL.iter().zip(&view.exceptions);
    let exceptions = exceptions.map(|(reason, count)| (reason.label().to_owned(), json!(count)));
    let lost: u64 = view.node.lost.iter().sum();
    json!({
        "contacts": view.contacts,
        "flows": view.flows,
        "exceptions": exceptions.collect::<serde_json::Map<_, _>>(),
        "urgent_exceptions": view.node.exceptions[Class::Urgent as usize],
        "exceptions_lost": view.exceptions_lost + lost,
        "through": view.node.through,
        "refused": view.node.refused,
        "sent_for_host": view.node.sent,
        "discarded": view.discarded,
        "forged": view.node.forged,
        "replayed": view.node.replayed,
        "malformed": view.node.malformed,
        "settled": view.settling.settled,
        "settling_timed_out": view.settling.timed_out,
        "path": totals::totals(view.path.as_slice()),
    })
}
