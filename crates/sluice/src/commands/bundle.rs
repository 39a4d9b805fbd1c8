//! `sluice bundle`: a file for support: configuration, state, log and machine, without subscribers.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Method;
use serde_json::Value;
use tar::{Builder, Header};

use super::show::{self, Shown};
use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::Config;
use oam::rest::{ApiRequest, ResponseLimits, default_path, fetch};

/// Lines of the journal.
const LOG_LINES: &str = "5000";
/// Digits in a row that may be an IMSI, an IMEI or an MSISDN with its country.
const SUBSCRIBER_DIGITS: usize = 11;
/// Words in the names of fields whose values are not for others.
const SECRET_WORDS: [&str; 7] = [
    "secret",
    "password",
    "passphrase",
    "token",
    "credential",
    "private",
    "psk",
];
/// What the kernel says about the machine.
const KERNEL_FILES: [&str; 14] = [
    "/etc/os-release",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/interrupts",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/net/snmp",
    "/proc/net/softnet_stat",
    "/proc/net/sockstat",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/kernel/mm/transparent_hugepage/enabled",
];

/// `sluice bundle`.
#[derive(Args, Clone, Debug)]
pub struct BundleArguments {
    /// The file, which must not exist; else `sluice-bundle-TIME.tar.gz` here.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long, default_value = "/etc/sluice/sluice.yaml")]
    config: PathBuf,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The service whose log is taken from the journal.
    #[arg(long, default_value = "sluice")]
    service: String,
    /// With what identifies subscribers: sessions with their IMSIs and addresses, and the log as it is.
    #[arg(long)]
    with_subscribers: bool,
}

/// Writes the bundle; what cannot be had is named in it, and on standard error. Exit status 1 when the file cannot be
/// written, 2 when there is no socket to ask at.
#[must_use]
pub fn bundle(arguments: &BundleArguments) -> ExitCode {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = UNIX_EPOCH + Duration::from_secs(seconds.as_secs());
    let stem = format!("sluice-bundle-{}", humantime::format_rfc3339(time)).replace(':', "");
    let mut parts = Parts::default();
    let configured = parts.add_configuration(&arguments.config);
    let Some(socket) = arguments.socket.clone().or(configured).or_else(default_path) else {
        eprintln!("bundle: there is no default socket for this user: name one with --socket");
        return ExitCode::from(CONFIGURATION_ERROR);
    };
    parts.add_state(&socket, arguments.with_subscribers);
    parts.add_log(&arguments.service, arguments.with_subscribers);
    KERNEL_FILES.iter().for_each(|path| parts.add_file(path));
    parts.add(
        "version.txt",
        concat!("sluice ", env!("CARGO_PKG_VERSION"), "\n").into(),
    );
    for what in &parts.absent {
        eprintln!("bundle: without {what}");
    }
    let readme = parts.readme(arguments.with_subscribers);
    parts.files.insert(
        0,
        Part {
            name: "README.txt".into(),
            octets: readme.into_bytes(),
        },
    );
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| format!("{stem}.tar.gz").into());
    match parts.write(&output, &stem, seconds.as_secs()) {
        Ok(()) => {
            println!(
                "{}: {} files; read README.txt before you send it",
                output.display(),
                parts.files.len()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bundle: {}: {error}", output.display());
            ExitCode::from(RUN_ERROR)
        }
    }
}

/// A file of the bundle.
struct Part {
    name: String,
    octets: Vec<u8>,
}

/// What a bundle consists of, and what of that could not be had.
#[derive(Default)]
struct Parts {
    files: Vec<Part>,
    absent: Vec<String>,
}

impl Parts {
    fn add(&mut self, name: &str, octets: Vec<u8>) {
        self.files.push(Part {
            name: name.to_owned(),
            octets,
        });
    }

    fn add_absent(&mut self, what: &str, why: &dyn std::fmt::Display) {
        self.absent.push(format!("{what}: {why}"));
    }

    fn add_file(&mut self, path: &str) {
        match std::fs::read(path) {
            Ok(octets) => self.add(&format!("system{path}"), octets),
            Err(error) => self.add_absent(path, &error),
        }
    }

    /// Adds the configuration as it is understood, without comments and secrets; returns the socket that it names.
    fn add_configuration(&mut self, path: &Path) -> Option<PathBuf> {
        match Config::load(path) {
            Ok(config) => {
                let mut document = config.document();
                hide_secrets(&mut document);
                // Plain values always have a JSON form.
                let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
                self.add("configuration.json", text.into_bytes());
                config.control.socket
            }
            Err(error) => {
                self.add_absent("configuration", &error);
                None
            }
        }
    }

    /// Adds what the daemon answers.
    fn add_state(&mut self, socket: &Path, with_subscribers: bool) {
        for Shown { name, text, json } in show::everything(socket, with_subscribers) {
            match (text, json) {
                (Ok(text), Ok(json)) => {
                    self.add(&format!("show/{name}.txt"), text.into_bytes());
                    self.add(&format!("show/{name}.json"), json.into_bytes());
                }
                (Err(error), _) | (_, Err(error)) => self.add_absent(&format!("show {name}"), &error),
            }
        }
        let limits = ResponseLimits {
            time: Duration::from_secs(5),
            octets: 64 << 20,
        };
        for (name, target) in [("openapi.json", "/openapi.json"), ("metrics.txt", "/metrics")] {
            let request = ApiRequest {
                method: Method::GET,
                target,
            };
            match fetch(socket, request, limits) {
                Ok(octets) => self.add(name, octets.to_vec()),
                Err(error) => self.add_absent(name, &error),
            }
        }
    }

    /// Adds the last lines of the service in the journal.
    fn add_log(&mut self, service: &str, with_subscribers: bool) {
        let read = Command::new("journalctl")
            .args([
                "--no-pager",
                "--quiet",
                "--output=short-iso-precise",
                "--lines",
                LOG_LINES,
                "--unit",
                service,
            ])
            .output();
        match read {
            Ok(read) if read.status.success() && !read.stdout.is_empty() => {
                let text = String::from_utf8_lossy(&read.stdout);
                let text = if with_subscribers {
                    text.into_owned()
                } else {
                    without_numbers(&text)
                };
                self.add("log.txt", text.into_bytes());
            }
            Ok(_) => self.add_absent("log", &format!("the journal has no lines of `{service}`")),
            Err(error) => self.add_absent("log", &format!("journalctl: {error}")),
        }
    }

    fn readme(&self, with_subscribers: bool) -> String {
        let subscribers = if with_subscribers {
            "It identifies subscribers: show/sessions has their IMSIs and addresses, and the log is as it was.\n"
        } else {
            "Without subscribers: no sessions, IMSIs, UE addresses, usage records. In the log, numbers as long as an\n\
             IMSI or MSISDN are masked. (`sluice bundle --with-subscribers` has them.)\n"
        };
        let mut text = format!(
            "Support bundle of Sluice {}.\n\n{subscribers}\
             It has addresses of this node, of its SMFs, gNBs and routers. Values of fields whose names mean secrets\n\
             are removed from the configuration, and so are its comments. Look through it before you send it.\n\nFiles:\n",
            env!("CARGO_PKG_VERSION")
        );
        text.extend(self.files.iter().map(|part| format!("  {}\n", part.name)));
        if !self.absent.is_empty() {
            text += "\nNot here:\n";
            text.extend(
                self.absent
                    .iter()
                    .map(|what| format!("  {}\n", what.replace('\n', "\n    "))),
            );
        }
        text
    }

    /// Writes all files into a new archive, below the folder `stem`. Only its owner may read it.
    fn write(&self, path: &Path, stem: &str, modified: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
        for Part { name, octets } in &self.files {
            let mut header = Header::new_gnu();
            header.set_size(octets.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(modified);
            archive.append_data(&mut header, format!("{stem}/{name}"), octets.as_slice())?;
        }
        let mut file = archive.into_inner()?.finish()?;
        file.flush()?;
        file.sync_all()
    }
}

/// Replaces values of fields whose names mean secrets. Paths of files, which hold secrets elsewhere, stay.
fn hide_secrets(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_lowercase();
                let is_path = name.ends_with("_file") || name.ends_with("_path");
                if SECRET_WORDS.iter().any(|word| name.contains(word)) && !is_path && !value.is_null() {
                    *value = "removed".into();
                } else {
                    hide_secrets(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide_secrets),
        _ => {}
    }
}

/// The text with digits in a row that may name a subscriber as `#`.
fn without_numbers(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, digits) = rest.split_at(start);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        masked += before;
        match end {
            SUBSCRIBER_DIGITS.. => masked.extend(std::iter::repeat_n('#', end)),
            _ => masked += &digits[..end],
        }
        rest = &digits[end..];
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn secrets_are_removed_and_paths_stay() {
        let mut document = serde_json::json!({
            "api": {"token_hash": "1a", "key_file": "/etc/key", "Password": ["a", "b"], "private_key_path": "/etc/key"},
            "peers": [{"psk": "x", "prefix": "10.0.0.0/8"}],
            "none": {"secret": null},
        });
        hide_secrets(&mut document);
        let expected = serde_json::json!({
            "api": {"token_hash": "removed", "key_file": "/etc/key", "Password": "removed", "private_key_path": "/etc/key"},
            "peers": [{"psk": "removed", "prefix": "10.0.0.0/8"}],
            "none": {"secret": null},
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn numbers_of_subscribers_are_masked_and_others_stay() {
        let line = "2026-11-24T03:00:00.123456 imsi-001010123456789 msisdn=49170123456 seid=0x1f port 8805 é 10.1.2.3";
        let masked = "2026-11-24T03:00:00.123456 imsi-############### msisdn=########### seid=0x1f port 8805 é 10.1.2.3";
        assert_eq!(without_numbers(line), masked);
        assert_eq!(without_numbers("123456789012"), "############");
    }

    #[test]
    fn an_archive_has_its_files_and_takes_no_other_s_place() {
        let path = std::env::temp_dir().join(format!("sluice-bundle-{}.tar.gz", std::process::id()));
        let mut parts = Parts::default();
        parts.add("show/n4.txt", b"node".into());
        parts.add_absent("log", &"none");
        let readme = parts.readme(false);
        assert!(readme.contains("  show/n4.txt\n") && readme.contains("  log: none\n"));
        parts.write(&path, "stem", 7).unwrap();
        assert_eq!(
            parts.write(&path, "stem", 7).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(&path).unwrap()));
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(
            (entry.path().unwrap().to_str(), text.as_str()),
            (Some("stem/show/n4.txt"), "node")
        );
        assert!(entries.next().is_none());
        std::fs::remove_file(path).unwrap();
    }
}
