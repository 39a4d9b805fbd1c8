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
use flow::{Nanos, Seed};
use oam::LogControl;
use oam::rest::{Access, RestSocket, Role as CallerRole, accelerator_node_router};
use oam::values::{AcceleratorNodeStatus, AcceleratorNodeUse};
use offload::channel::Role;
use offload::codec::HostCapabilities;
use packet::MacAddr;
use ports::Ports;
use runtime::{AcceleratorReport, AcceleratorThread, Clock, Idle};
use session::Random;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tracing::{error, info, warn};
use worker::accelerator::Node;

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use crate::daemon::accelerator::channel_random;
use crate::daemon::service_manager::ServiceManager;

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
    let access = match access_of(&config) {
        Ok(access) => access,
        Err(error) => {
            eprintln!("{}: {error}", arguments.config.display());
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    if arguments.check {
        print!("{}", explain(&config));
        return ExitCode::SUCCESS;
    }
    log.set(config.log.level);
    log.set_format(config.log.format);
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = register(&stop).and_then(|()| serve(&config, access, &stop));
    match outcome {
        Ok(counted) => {
            info!("stopped");
            if arguments.json {
                // Plain values always have a JSON form.
                println!("{}", serde_json::to_string(&counted).unwrap_or_default());
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

fn serve(
    config: &AcceleratorNodeConfig,
    access: Option<Access>,
    stop: &AtomicBool,
) -> Result<AcceleratorNodeStatus, String> {
    let eal = ports::start_eal_of_accelerator(config).map_err(text)?;
    let mut ports = Ports::start_of_accelerator(eal, config).map_err(text)?;
    ports.swept().iter().for_each(|what| warn!("{what}"));
    let macs = ports.macs();
    log_ports(config, &macs);
    let io = ports.take_io(eal).map_err(text)?.pop();
    let io = io.ok_or("there are no queues")?;
    let (random, boot) = channel_random().map_err(text)?;
    // Of the channels of a host's other workers.
    let more: Result<Vec<_>, _> = (1..HostCapabilities::MOST_CHANNELS)
        .map(|_| channel_random())
        .collect();
    let more = more.map_err(text)?.into_iter().map(|(random, _)| random);
    let mtu = config.ordered_ports().last().map_or(0, |port| port.mtu.value());
    let own = macs.last().copied().unwrap_or(MacAddr::ZERO);
    let channel = config.link.channel(Role::Accelerator, own, mtu as u16, boot);
    let channel = channel.map_err(|error| format!("link: {error}"))?;
    let mut secrets = Random::from_seed(Random::system_seed().map_err(text)?);
    let node = config.node(&macs, channel, Seed([secrets.next_u64(), secrets.next_u64()]));
    let idle = config.longest_sleep().map_or_else(Idle::busy, Idle::adaptive);
    let clock = Clock::starting_now(eal.tsc_hz());
    let halt = Arc::new(AtomicBool::new(false));
    let made = move || Ok(Node::new(node, io, random)?.with_channels(more)?);
    let thread = AcceleratorThread::start(eal, clock, (config.core(), idle), Arc::clone(&halt), made);
    let thread = thread.map_err(text)?;
    info!(
        link = config.link.port.value,
        channel = config.link.channel.value(),
        "ready"
    );
    let room = room_of(config);
    let socket = access.and_then(|access| open_socket(config, access, &thread, room));
    let mut manager = ServiceManager::of_environment();
    manager.ready();
    watch(&thread, &mut ports, &mut manager, stop)?;
    manager.ending();
    halt.store(true, Ordering::Relaxed);
    drop(socket);
    Ok(status_of(&thread.join(), room))
}

/// What the tables have room for.
fn room_of(config: &AcceleratorNodeConfig) -> AcceleratorNodeUse {
    let limits = &config.limits;
    AcceleratorNodeUse {
        sessions: limits.sessions.value(),
        flows: limits.flows_ipv4.value() + limits.flows_ipv6.value(),
        ..AcceleratorNodeUse::default()
    }
}

fn status_of(report: &AcceleratorReport, room: AcceleratorNodeUse) -> AcceleratorNodeStatus {
    let used = AcceleratorNodeUse {
        running: report.running,
        working: report.working,
        ..room
    };
    AcceleratorNodeStatus::of(&report.node, used)
}

/// How it stands, for the service manager.
fn in_a_line(report: &AcceleratorReport) -> String {
    let contact = match report.node.host {
        Some(mac) => format!("in contact with {mac}"),
        None => "without a host".into(),
    };
    format!(
        "{contact}, {} sessions, {} flows",
        report.node.sessions, report.node.flows
    )
}

/// Who may use the socket; `None` where there is none.
fn access_of(config: &AcceleratorNodeConfig) -> Result<Option<Access>, String> {
    let control = &config.control;
    match (&control.socket, &control.group) {
        (None, _) => Ok(None),
        (Some(_), None) => Ok(Some(Access::Owner)),
        (Some(_), Some(group)) => Access::group(&group.value, CallerRole::Viewer)
            .map(Some)
            .map_err(|error| format!("control.group: {error}")),
    }
}

/// The socket that `sluice show accelerator` asks. Packets pass without it, too.
fn open_socket(
    config: &AcceleratorNodeConfig,
    access: Access,
    thread: &AcceleratorThread,
    room: AcceleratorNodeUse,
) -> Option<RestSocket> {
    let path = config.control.socket.as_ref().map(|path| &path.value)?;
    let report = thread.reader();
    let router = accelerator_node_router(Arc::new(move || status_of(&report(), room)));
    match RestSocket::open_router(path, access, router) {
        Ok(opened) => Some(opened),
        Err(error) => {
            warn!(socket = %path.display(), why = %error, "the socket cannot be opened: it cannot be asked how it stands");
            None
        }
    }
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

/// The ports without a link that a bit can say it of. The last one is that towards the host.
fn links_down(ports: &Ports) -> u64 {
    let down = ports.links().filter(|(port, up)| !up && port.index() < 64);
    down.fold(0, |bits, (port, _)| bits | 1 << port.index())
}

/// Waits for `stop`; reports the ports' links to the host, logs when contact begins and ends, keeps the ports' frames
/// from the kernel's network stack, and gives the service manager signs of life of the thread.
fn watch(
    thread: &AcceleratorThread,
    ports: &mut Ports,
    manager: &mut ServiceManager,
    stop: &AtomicBool,
) -> Result<(), String> {
    let begin = Instant::now();
    let (mut before, mut drops_due) = ((None, 0), Instant::now() + DROP_POLL);
    while !stop.load(Ordering::Relaxed) {
        if thread.is_finished() {
            return Err("the thread of the packets ended".into());
        }
        thread.set_links_down(links_down(ports));
        let report = thread.report();
        let elapsed = Nanos(begin.elapsed().as_nanos() as u64);
        manager.turn(elapsed, [report.polls].into_iter(), || in_a_line(&report));
        let now = (report.node.host, report.node.contacts);
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
