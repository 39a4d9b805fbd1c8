//! `sluice audit`: checks or prints the audit log, whether or not a daemon writes it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use audit::{Entry, Finding, Head, Line, Verified};
use clap::{Args, Subcommand};
use oam::values::clean;
use records::DirectoryHandle;

use super::status::RUN_ERROR;

/// `sluice audit`.
#[derive(Args, Clone, Debug)]
pub struct AuditArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Check that no line was changed, removed, added or moved. Exit status 1 when one was.
    Verify {
        /// The directory of the log.
        directory: PathBuf,
        /// The number and hash of a line that were kept elsewhere, as the daemon's log has them: `head=123:...`.
        #[arg(long)]
        head: Option<Head>,
    },
    /// Print the lines.
    Show {
        /// The directory of the log.
        directory: PathBuf,
        /// The lines as they are in the files.
        #[arg(long)]
        json: bool,
    },
}

/// Exit status 1 for what cannot be read and for what `verify` finds.
#[must_use]
pub fn audit(arguments: &AuditArguments) -> ExitCode {
    let done = match &arguments.what {
        What::Verify { directory, head } => verify(directory.clone(), *head),
        What::Show { directory, json } => show(directory.clone(), *json).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(RUN_ERROR),
        // Who reads the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("audit: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

fn verify(directory: PathBuf, head: Option<Head>) -> io::Result<bool> {
    let handle = DirectoryHandle::to_read(&directory)?;
    let found = audit::verify(handle.names()?, |name| handle.read(name), head)?;
    for finding in &found.findings {
        println!("{}", words(finding));
    }
    let Verified {
        lines, first, last, ..
    } = &found;
    match (first, last) {
        (Some(first), Some(last)) => println!("{lines} lines, from number {first} on; the last is {last}"),
        _ => println!("no lines"),
    }
    Ok(found.is_sound())
}

fn words(finding: &Finding) -> String {
    match finding {
        Finding::Line { file, line, fault } => format!("{file} line {line}: {fault}"),
        Finding::Missing { seq, lines } => {
            format!("line {seq}: the process that wrote it missed {lines} lines before it")
        }
        Finding::Cut(lines) => format!("{lines} lines that `head` knows are not there"),
        Finding::Replaced(seq) => format!("line {seq} is another than it was"),
        Finding::Absent(seq) => format!("line {seq} is not there"),
    }
}

fn show(directory: PathBuf, json: bool) -> io::Result<()> {
    let handle = DirectoryHandle::to_read(&directory)?;
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    audit::read(
        handle.names()?,
        |name| handle.read(name),
        |line, octets| {
            written = match json {
                true => output.write_all(octets).and_then(|()| output.write_all(b"\n")),
                false => writeln!(output, "{}", clean(&text(line))),
            };
            written.is_ok()
        },
    )?;
    written.and_then(|()| output.flush())
}

/// The last time that has a date of four digits, which is the last that can be written, in milliseconds.
const LAST_TIME_MS: u64 = 253_402_300_799_999;

fn text(line: &Line) -> String {
    let time =
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(line.time_ms.min(LAST_TIME_MS)));
    let what = match &line.entry {
        Entry::Start {
            version,
            torn_octets,
            missing,
        } => format!("started, version {version}; {torn_octets} octets cut off, {missing} lines missing"),
        Entry::Request {
            caller,
            method,
            target,
        } => format!(
            "{} ({}) from {}: {method} {target}",
            caller.name, caller.role, caller.from
        ),
        Entry::Result { request, status } => format!("answer to {request}: {status}"),
        Entry::Refused { from, what, count } => format!("refused from {from}: {what}, {count} times"),
        Entry::Missed { count } => format!("{count} lines could not be written"),
    };
    format!("{:>6}  {time}  {what}", line.seq)
}
