//! `sluice sessions`: moves the sessions of a running daemon to another process (docs/adr/0006).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;
use hyper::body::Bytes;

use super::trace::{Failure, socket_of};
use oam::rest::{ApiRequest, ClientError, ResponseLimits, fetch};

/// How long the daemon may take for all records.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long the end of an export may take.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// `sluice sessions`.
#[derive(Args, Clone, Debug)]
pub struct SessionsArguments {
    #[command(subcommand)]
    what: What,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long, global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Write everything that another process needs to continue into a new file, and end the daemon without a word to
    /// its SMFs. Start the other one with `sluice run --sessions FILE`, within the time that SMFs repeat their
    /// requests.
    Export {
        /// The file, which must not exist.
        file: PathBuf,
        /// Leave the daemon and its sessions as they are. What is counted from then on is not in the file.
        #[arg(long)]
        copy: bool,
    },
}

/// Exit status 1 when there is no file then, 2 for a configuration with a mistake.
#[must_use]
pub fn sessions(arguments: &SessionsArguments) -> ExitCode {
    let What::Export { file, copy } = &arguments.what;
    match export(arguments, file, *copy) {
        Ok(octets) => {
            println!("{octets} octets in {}", file.display());
            ExitCode::SUCCESS
        }
        Err(failure) => failure.exit("sessions"),
    }
}

fn export(arguments: &SessionsArguments, file: &Path, copy: bool) -> Result<usize, Failure> {
    let socket = socket_of(arguments.socket.as_deref(), arguments.config.as_deref())?;
    // Before the daemon is asked: what cannot be written is not to leave it.
    let (part, mut written) = create(file).map_err(|error| at(file, &error))?;
    let how = if copy { "copy" } else { "take" };
    let asked = format!("/v1/export?how={how}");
    let fetched = post(&socket, &asked, PATIENCE, usize::MAX).map_err(Failure::run);
    let end = |taken: bool| {
        let asked = format!("/v1/export/end?taken={taken}");
        post(&socket, &asked, END_PATIENCE, 1 << 20)
    };
    let kept = fetched.and_then(|octets| {
        let kept = keep(&mut written, &octets, &part, file);
        kept.map(|()| octets.len()).map_err(|error| {
            if !copy {
                // It would take them back by itself, a little later.
                let _ = end(false);
            }
            at(file, &error)
        })
    });
    let octets = kept.inspect_err(|_| drop(fs::remove_file(&part)))?;
    if copy {
        return Ok(octets);
    }
    match end(true) {
        Ok(_) => Ok(octets),
        Err(ClientError::Problem(problem)) => {
            // The daemon has its sessions: two processes must not continue the same ones.
            let _ = fs::remove_file(file);
            Err(Failure::run(problem.detail))
        }
        Err(error) => Err(Failure::Run(format!(
            "{error}; whether the daemon has ended is not known: {} is good only if it has",
            file.display()
        ))),
    }
}

fn at(file: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", file.display()))
}

/// A new file beside `file`, which must not exist itself. It names subscribers: no other user may read it.
fn create(file: &Path) -> io::Result<(PathBuf, File)> {
    if file.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut how = OpenOptions::new();
    let written = how.write(true).create_new(true).mode(0o600).open(&part)?;
    Ok((part, written))
}

fn post(socket: &Path, target: &str, time: Duration, octets: usize) -> Result<Bytes, ClientError> {
    let method = Method::POST;
    fetch(
        socket,
        ApiRequest { method, target },
        ResponseLimits { time, octets },
    )
}

/// Makes the records durable under the name of the file.
fn keep(written: &mut File, octets: &[u8], part: &Path, file: &Path) -> io::Result<()> {
    written.write_all(octets)?;
    written.sync_all()?;
    fs::rename(part, file)?;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
