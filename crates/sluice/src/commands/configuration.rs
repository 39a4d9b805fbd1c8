//! `sluice config`: shows, compares and changes the configuration of a running daemon.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;

use super::trace::{Failure, socket_of};
use config::{Config, json_schema};
use oam::rest::{ApiRequest, Submission, get, submit};
use oam::values::{
    CommitReport, ConfigDifferences, ConfigStatus, ConfigVersionList, ConfigVersionText, clean,
};

/// Octets of a document that daemons take.
const LONGEST: u64 = 16 << 20;

/// `sluice config`.
#[derive(Args, Clone, Debug)]
pub struct ConfigArguments {
    #[command(subcommand)]
    what: What,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
    /// The daemon's configuration, which names its socket.
    #[arg(short, long, global = true)]
    config: Option<PathBuf>,
    /// JSON, as the API has it.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Print the configuration in effect, or another version.
    Show {
        /// The version.
        #[arg(long)]
        version: Option<u64>,
    },
    /// List the versions that are kept, the newest first; `*` is in effect.
    Versions,
    /// Check a file, and say which of its changes would take effect at once and which at a start only.
    Check {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
    /// Compare a file, or another version, with the configuration in effect: a line for each field.
    Diff {
        /// The file; `-` is standard input.
        #[arg(required_unless_present = "version")]
        file: Option<PathBuf>,
        /// The version.
        #[arg(long, conflicts_with = "file")]
        version: Option<u64>,
    },
    /// Take a file into effect, all of it or nothing, without losing a packet, and make it that of the next start.
    Commit(CommitArguments),
    /// Keep what was committed with --confirm-within.
    Confirm,
    /// Return to the version before, or to another.
    Rollback {
        /// The version.
        to: Option<u64>,
        /// What is to be said of it in the list of versions.
        #[arg(long)]
        comment: Option<String>,
        /// Store it for the next start, and change nothing now.
        #[arg(long)]
        at_restart: bool,
    },
    /// Print the JSON Schema of configurations.
    Schema {
        /// Of those of `sluice accel`.
        #[arg(long)]
        accelerator: bool,
    },
}

#[derive(Args, Clone, Debug)]
struct CommitArguments {
    /// The file; `-` is standard input.
    file: PathBuf,
    /// Roll it back unless it is confirmed within this number of seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), conflicts_with = "at_restart")]
    confirm_within: Option<u64>,
    /// What is to be said of it in the list of versions.
    #[arg(long)]
    comment: Option<String>,
    /// Store it for the next start, and change nothing now.
    #[arg(long)]
    at_restart: bool,
    /// Replace the daemon's file although it has been edited since it was read, and says something else.
    #[arg(long)]
    overwrite: bool,
}

/// Exit status 1 when no daemon answers or it refuses, 2 for a configuration with a mistake.
#[must_use]
pub fn config(arguments: &ConfigArguments) -> ExitCode {
    match run(arguments) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.exit("config"),
    }
}

fn run(arguments: &ConfigArguments) -> Result<String, Failure> {
    if let What::Schema { accelerator } = arguments.what {
        return Ok(match accelerator {
            true => json_schema::text_of_accelerator(),
            false => json_schema::text(),
        });
    }
    let candidate = match &arguments.what {
        What::Check { file } | What::Diff { file: Some(file), .. } => Some(read(file)?),
        What::Commit(commit) => Some(read(&commit.file)?),
        _ => None,
    };
    let socket = socket_of(arguments.socket.as_deref(), arguments.config.as_deref())?;
    let daemon = Daemon {
        socket: &socket,
        json: arguments.json,
    };
    match (&arguments.what, candidate) {
        (What::Show { version: None }, _) => {
            let status = daemon.status()?;
            daemon.print(&status, || clean_lines(&status.text()))
        }
        (
            What::Show {
                version: Some(number),
            },
            _,
        ) => {
            let shown: ConfigVersionText = daemon.get(&format!("/v1/config/versions/{number}"))?;
            daemon.print(&shown, || clean_lines(&shown.text))
        }
        (What::Versions, _) => {
            let list: ConfigVersionList = daemon.get("/v1/config/versions")?;
            daemon.print(&list, || clean_lines(&list.text()))
        }
        (What::Check { .. }, Some(text)) => {
            let found = daemon.differences("/v1/config/diff", text)?;
            daemon.print(&found, || clean_lines(&checked(&found)))
        }
        (
            What::Diff {
                version: Some(number),
                ..
            },
            _,
        ) => {
            let target = format!("/v1/config/diff?version={number}");
            let found = daemon.differences(&target, String::new())?;
            daemon.print(&found, || clean_lines(&found.text()))
        }
        (What::Diff { .. }, Some(text)) => {
            let found = daemon.differences("/v1/config/diff", text)?;
            daemon.print(&found, || clean_lines(&found.text()))
        }
        (What::Commit(commit), Some(text)) => daemon.commit(commit, text),
        (What::Confirm, _) => daemon.report(Method::POST, "/v1/config/confirm"),
        (
            What::Rollback {
                to,
                comment,
                at_restart,
            },
            _,
        ) => {
            let mut target = Target::new("/v1/config/rollback");
            target.add("to", to.as_ref());
            target.add("comment", comment.as_ref());
            target.add("at_restart", at_restart.then_some(&true));
            daemon.report(Method::POST, &target.0)
        }
        // Each has its candidate, or was answered before.
        (What::Check { .. } | What::Diff { .. } | What::Commit(_) | What::Schema { .. }, _) => {
            Ok(String::new())
        }
    }
}

/// The daemon that is asked.
struct Daemon<'a> {
    socket: &'a Path,
    json: bool,
}

impl Daemon<'_> {
    fn get<T: serde::de::DeserializeOwned>(&self, target: &str) -> Result<T, Failure> {
        get(self.socket, target).map_err(Failure::run)
    }

    fn status(&self) -> Result<ConfigStatus, Failure> {
        self.get("/v1/config")
    }

    fn differences(&self, target: &str, text: String) -> Result<ConfigDifferences, Failure> {
        let request = ApiRequest {
            method: Method::POST,
            target,
        };
        let submission = Submission {
            document: text.into_bytes(),
            ..request.into()
        };
        submit(self.socket, submission).map_err(Failure::run)
    }

    fn commit(&self, arguments: &CommitArguments, text: String) -> Result<String, Failure> {
        let status = self.status()?;
        if status.file_edited && !arguments.overwrite {
            let edited = std::fs::read_to_string(&status.file).ok();
            if edited.is_none_or(|edited| edited != text) {
                return Err(Failure::Run(format!(
                    "{} has been edited since the daemon read it, and is not what is committed: commit that file, or \
                     have it replaced by --overwrite",
                    status.file
                )));
            }
        }
        let mut target = Target::new("/v1/config");
        target.add("confirm_s", arguments.confirm_within.as_ref());
        target.add("comment", arguments.comment.as_ref());
        target.add("at_restart", arguments.at_restart.then_some(&true));
        let submission = Submission {
            request: ApiRequest {
                method: Method::PUT,
                target: &target.0,
            },
            document: text.into_bytes(),
            if_match: Some(&status.etag),
        };
        self.reported(submission)
    }

    fn report(&self, method: Method, target: &str) -> Result<String, Failure> {
        self.reported(ApiRequest { method, target }.into())
    }

    fn reported(&self, submission: Submission<'_>) -> Result<String, Failure> {
        let report: CommitReport = submit(self.socket, submission).map_err(Failure::run)?;
        self.print(&report, || clean_lines(&report.text()))
    }

    fn print<T: serde::Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<String, Failure> {
        if !self.json {
            return Ok(text());
        }
        let json = serde_json::to_string_pretty(value).map_err(Failure::run)?;
        Ok(json + "\n")
    }
}

/// A path with a query.
struct Target(String);

impl Target {
    fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    fn add(&mut self, name: &str, value: Option<&impl ToString>) {
        let Some(value) = value.map(ToString::to_string) else {
            return;
        };
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        for octet in value.bytes() {
            match octet {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    self.0.push(octet as char);
                }
                _ => self.0.push_str(&format!("%{octet:02X}")),
            }
        }
    }
}

/// A file that is a good configuration; the first mistake of one that is not.
fn read(file: &Path) -> Result<String, Failure> {
    let is_input = file == Path::new("-");
    let text = if is_input {
        let mut text = String::new();
        let read = std::io::stdin().take(LONGEST + 1).read_to_string(&mut text);
        read.map(|_| text).map_err(Failure::run)?
    } else {
        Config::read(file).map_err(|error| Failure::Configuration(error.to_string()))?
    };
    if text.len() as u64 > LONGEST {
        let words = format!("{}: longer than {} MiB", file.display(), LONGEST >> 20);
        return Err(Failure::Configuration(words));
    }
    // Application files are those beside the daemon's configuration, which it reads itself.
    Config::check_alone(&text, &file.display().to_string())
        .map_err(|error| Failure::Configuration(error.to_string()))?;
    Ok(text)
}

/// What becomes of the changes of a good file.
fn checked(found: &ConfigDifferences) -> String {
    let later = found
        .changes
        .iter()
        .filter(|change| change.class != "live")
        .count();
    let said = match (found.changes.len(), later) {
        (0, _) => "good; it changes nothing".to_owned(),
        (all, 0) => format!("good; {all} changes, all of which take effect at once"),
        (all, later) => {
            format!(
                "good; {all} changes, {later} of which take effect at a start only (`commit --at-restart`)"
            )
        }
    };
    let notes: String = found.notes.iter().map(|note| format!("note: {note}\n")).collect();
    match found.changes.is_empty() {
        true => format!("{said}\n{notes}"),
        false => format!("{said}\n{notes}{}", found.text()),
    }
}

/// The same without what a terminal would obey, but for tabs.
fn clean_lines(text: &str) -> String {
    let line = |line: &str| {
        let parts: Vec<String> = line.split('\t').map(clean).collect();
        parts.join("\t") + "\n"
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_written_so_that_it_is_one_parameter() {
        let mut target = Target::new("/v1/config");
        target.add("confirm_s", Some(&60));
        target.add("comment", Some(&"routes & peers, 100 %"));
        target.add("at_restart", None::<&bool>);
        assert_eq!(
            target.0,
            "/v1/config?confirm_s=60&comment=routes%20%26%20peers%2C%20100%20%25"
        );
    }
}
