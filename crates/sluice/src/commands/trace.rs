//! `sluice trace`: packets explained one by one, of a capture or of a running daemon.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::conditions::Conditions;
use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::Config;
use config::bounded_file;
use oam::rest::{ApiRequest, default_path, stream};
use trace::{Bounds, Capture, CaptureFile, PacketTrace, TraceLine, TraceSummary, replay};

/// Octets of the largest capture that is read: it is held in memory.
const LARGEST: u64 = 2 << 30;

/// `sluice trace`.
#[derive(Args, Clone, Debug)]
pub struct TraceArguments {
    /// Packets of this capture (pcap or pcapng), sent through the user plane of the configuration; sessions are those
    /// that PFCP in it sets up. Without it: packets of the running daemon.
    #[arg(long, requires = "config")]
    pcap: Option<PathBuf>,
    /// PFCP is in this capture, made at the same time.
    #[arg(long, requires = "pcap")]
    n4: Option<PathBuf>,
    /// The port that the capture's packets came in by; else the names of its interfaces say it, or addresses.
    #[arg(long, requires = "pcap")]
    arrived_at: Option<String>,
    /// The configuration.
    #[arg(short, long)]
    config: Option<PathBuf>,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long, conflicts_with = "pcap")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
    /// Packets at most.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Seconds at most, of a running daemon.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Packets a second at most, of each worker of a running daemon.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Octets of each packet that are kept, of a running daemon.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(64..=9_216))]
    snap: u16,
    /// Also every PDR that was tried, and why it does not match.
    #[arg(short, long)]
    verbose: bool,
    /// JSON, a packet a line.
    #[arg(long)]
    json: bool,
    /// Write the packets to this file (pcapng), with what is said of each as its comment, and say nothing of them here.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Megabytes of the file.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    file_mb: u64,
    /// Files: with one, writing stops when it is full; with several, they have numbers and the oldest goes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    files: u32,
}

/// Why there is no trace.
pub(super) enum Failure {
    Configuration(String),
    Run(String),
}

impl Failure {
    pub(super) fn run(error: impl std::fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    /// Says it; `who` is the command.
    pub(super) fn exit(&self, who: &str) -> ExitCode {
        match self {
            Self::Configuration(words) => {
                eprintln!("{words}");
                ExitCode::from(CONFIGURATION_ERROR)
            }
            Self::Run(words) => {
                eprintln!("{who}: {words}");
                ExitCode::from(RUN_ERROR)
            }
        }
    }
}

/// Traces. Exit status 1 when that cannot be done or Sluice contradicts itself, 2 for a configuration with a mistake.
#[must_use]
pub fn trace(arguments: &TraceArguments) -> ExitCode {
    let done = match &arguments.pcap {
        Some(pcap) => of_capture(arguments, pcap),
        None => of_daemon(arguments),
    };
    match done {
        Ok(summary) if summary.disagreements == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(RUN_ERROR),
        Err(failure) => failure.exit("trace"),
    }
}

/// Where packets are printed.
struct Output<'a> {
    arguments: &'a TraceArguments,
    file: Option<CaptureFile>,
    first_ns: Option<u64>,
    summary: TraceSummary,
}

impl<'a> Output<'a> {
    fn new(arguments: &'a TraceArguments) -> Result<Self, Failure> {
        let bounds = Bounds {
            octets: arguments.file_mb * 1_000_000,
            files: arguments.files,
        };
        let create = |path: &PathBuf| {
            CaptureFile::create(path, bounds)
                .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
        };
        Ok(Self {
            arguments,
            file: arguments.write.as_ref().map(create).transpose()?,
            first_ns: None,
            summary: TraceSummary::default(),
        })
    }

    /// Prints a packet. Whether more is wanted.
    fn packet(&mut self, mut packet: PacketTrace) -> io::Result<bool> {
        let first = *self.first_ns.get_or_insert(packet.time_ns);
        self.summary.told += 1;
        self.summary.disagreements += u64::from(packet.disagreement.is_some());
        if let Some(file) = &mut self.file {
            file.write(&packet)?;
            if packet.disagreement.is_some() {
                eprint!("{}", packet.text(first, true));
            }
            return Ok(!file.is_full());
        }
        let mut out = io::stdout().lock();
        if self.arguments.json {
            packet.frames = None;
            // Plain values always have a JSON form.
            writeln!(out, "{}", serde_json::to_string(&packet).unwrap_or_default())?;
        } else {
            writeln!(out, "{}", packet.text(first, self.arguments.verbose).trim_end())?;
        }
        Ok(true)
    }

    fn finish(self) -> Result<TraceSummary, Failure> {
        let Self { file, summary, .. } = self;
        if let Some(file) = file {
            let is_full = file.is_full();
            for path in file.finish().map_err(Failure::run)? {
                eprintln!("written: {}", path.display());
            }
            if is_full {
                eprintln!("the file is full (--file-mb); --files would continue in others");
            }
        }
        eprint!("{}", summary.text());
        Ok(summary)
    }
}

fn load(path: &Path) -> Result<Config, Failure> {
    Config::load(path).map_err(|error| Failure::Configuration(error.to_string()))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    bounded_file::read(path, LARGEST).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            Failure::Run(format!("{}: {error}: cut it to what matters", path.display()))
        }
        _ => Failure::Run(format!("{}: {error}", path.display())),
    })
}

fn of_capture(arguments: &TraceArguments, pcap: &Path) -> Result<TraceSummary, Failure> {
    let path = arguments.config.as_deref().unwrap_or(Path::new(""));
    let config = load(path)?;
    let port = match &arguments.conditions.port {
        None => None,
        Some(name) => {
            let lag = config.lag_of(name).map(|lag| &lag.name.value);
            let name = lag.unwrap_or(name);
            let place = config.ports.iter().position(|port| port.name.value == *name);
            let place = place.ok_or_else(|| Failure::Run(format!("there is no port `{name}`")))?;
            Some(flow::PortId(place as u16))
        }
    };
    let file = read(pcap)?;
    let n4 = arguments.n4.as_deref().map(read).transpose()?;
    let capture = Capture {
        file: &file,
        n4: n4.as_deref(),
        port: arguments.arrived_at.as_deref(),
        filter: arguments.conditions.filter(port),
    };
    let mut output = Output::new(arguments)?;
    let mut failed = None;
    let replayed = replay(config, &capture, |packet| {
        output.summary.wanted += 1;
        let done = output.packet(packet);
        let goes_on = done.unwrap_or_else(|error| {
            failed = Some(error);
            false
        });
        goes_on && output.summary.told < arguments.count
    });
    let replayed = replayed.map_err(|error| Failure::Run(format!("{}: {error}", pcap.display())))?;
    if let Some(error) = failed {
        return Err(Failure::run(error));
    }
    for note in &replayed.notes {
        eprintln!("note: {note}");
    }
    eprintln!(
        "{} frames: {} PFCP requests said again, {} packets that came in, {} that this node sent or that answer it, {} others",
        replayed.frames, replayed.requests, replayed.packets, replayed.own, replayed.others
    );
    if let Some(left) = replayed.left {
        let why = match output.summary.told >= arguments.count {
            true => "as many packets as --count says",
            false => "the file is full",
        };
        eprintln!("ended before the capture did: {why}; {left} more frames were not looked at");
    }
    output.finish()
}

/// The daemon's socket: this one, or that of a configuration, or the default one.
pub(super) fn socket_of(named: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, Failure> {
    let configured = config.map(load).transpose()?;
    let configured = configured.and_then(|config| config.control.socket);
    let socket = named.map(Path::to_owned).or(configured).or_else(default_path);
    socket.ok_or_else(|| {
        Failure::Run("there is no default socket for this user: name one with --socket".into())
    })
}

fn of_daemon(arguments: &TraceArguments) -> Result<TraceSummary, Failure> {
    let socket = socket_of(arguments.socket.as_deref(), arguments.config.as_deref())?;
    let mut output = Output::new(arguments)?;
    let mut failed = None;
    let request = ApiRequest {
        method: Method::GET,
        target: &target(arguments),
    };
    let told = stream(&socket, request, |line| {
        let done = match serde_json::from_str(line) {
            Ok(TraceLine::Packet(packet)) => output.packet(*packet),
            Ok(TraceLine::End(end)) => {
                let TraceSummary { told, .. } = output.summary;
                output.summary = TraceSummary { told, ..end };
                Ok(true)
            }
            Err(error) => Err(io::Error::other(error)),
        };
        done.unwrap_or_else(|error| {
            failed = Some(error);
            false
        })
    });
    told.map_err(Failure::run)?;
    match failed {
        Some(error) => Err(Failure::run(error)),
        None => output.finish(),
    }
}

/// What the daemon is asked.
fn target(arguments: &TraceArguments) -> String {
    let octets = if arguments.write.is_some() {
        "octets=true&"
    } else {
        ""
    };
    format!(
        "/v1/trace?{}{octets}count={}&seconds={}&rate={}&snap={}",
        arguments.conditions.query(),
        arguments.count,
        arguments.seconds,
        arguments.rate,
        arguments.snap
    )
}
