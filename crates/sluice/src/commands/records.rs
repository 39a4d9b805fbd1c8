//! `sluice records`: reads and verifies usage records, whether or not a daemon writes them.

use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use clap::{Args, Subcommand};
use records::{Audit, Break, DirectoryHandle, Entry, Item, Reader, Subject, is_open};
use rules::prefix::IpPrefix;
use session::Seid;

mod open;
mod spool;

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::Config;
use oam::values::clean;
use spool::{files, open_file, subject, tell_bad, time_words, unknown};
use upf::identifiers::read_seid;

/// `sluice records`.
#[derive(Args, Clone, Debug)]
pub struct RecordsArguments {
    #[command(subcommand)]
    what: What,
    /// The directory; else that of the configuration.
    #[arg(short, long, global = true)]
    directory: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long, global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Print records; with several conditions, those that meet all.
    Read {
        #[command(flatten)]
        wanted: Wanted,
        /// The lines as they are in the files.
        #[arg(long)]
        json: bool,
    },
    /// Print the sessions that have started and have no record of their end: those that are live, and those that were
    /// when their process was killed. Of these what was used since the last usage record is not known.
    Open {
        /// The lines of their starts as they are in the files.
        #[arg(long)]
        json: bool,
    },
    /// Check every line and all numbers. Exit status 1 when a line is damaged, or a record is missing without a record
    /// of its loss, or there twice.
    Verify,
}

/// Which records.
#[derive(Args, Clone, Debug, Default)]
struct Wanted {
    /// Of this subscriber: the IMSI, MSISDN, NAI, SUPI or GPSI.
    #[arg(long)]
    subscriber: Option<String>,
    /// Of the session with this address of the UE.
    #[arg(long)]
    ue: Option<IpAddr>,
    /// Of the session with this SEID, here or at the control plane.
    #[arg(long, value_parser = read_seid)]
    seid: Option<Seid>,
    /// Of this URR.
    #[arg(long)]
    urr: Option<u32>,
    /// Of the content of predefined rules with this name.
    #[arg(long)]
    content: Option<String>,
    /// Only of usage reports that their SMF has not taken.
    #[arg(long)]
    unreported: bool,
    /// Ended then or later: RFC 3339 (2026-01-31T08:00:00Z), or seconds since 1970.
    #[arg(long, value_parser = time)]
    from: Option<u64>,
    /// Ended before.
    #[arg(long, value_parser = time)]
    to: Option<u64>,
}

/// Milliseconds since 1970.
fn time(text: &str) -> Result<u64, &'static str> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(seconds.saturating_mul(1_000));
    }
    let time = humantime::parse_rfc3339_weak(text).ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since
        .map(|since| since.as_millis() as u64)
        .ok_or("must be as 2026-01-31T08:00:00Z, or seconds since 1970")
}

impl Wanted {
    fn wants(&self, entry: &Entry) -> bool {
        let is_of = |what: &dyn Fn(&Subject) -> bool| entry.subject().is_some_and(what);
        let named = |name: &String| is_of(&|subject| has_name(subject, name));
        let at = |ue: IpAddr| is_of(&|subject| subject.ue.iter().any(|one| contains(one, ue)));
        let with = |seid: Seid| is_of(&|subject| [subject.seid, subject.cp_seid].contains(&seid.0));
        let counts = |urr| match entry {
            Entry::Usage(usage) => usage.urr == urr,
            Entry::Unreported(report) => report.urr == urr,
            _ => false,
        };
        let is_untaken = !self.unreported || matches!(entry, Entry::Unreported(_));
        let is_content =
            |name: &String| matches!(entry, Entry::Content(one) if one.name.as_ref() == Some(name));
        is_untaken
            && self.subscriber.as_ref().is_none_or(named)
            && self.content.as_ref().is_none_or(is_content)
            && self.ue.is_none_or(at)
            && self.seid.is_none_or(with)
            && self.urr.is_none_or(counts)
            && self.from.is_none_or(|from| entry.time_ms() >= from)
            && self.to.is_none_or(|to| entry.time_ms() < to)
    }
}

fn has_name(subject: &Subject, name: &str) -> bool {
    let Subject {
        imsi,
        msisdn,
        nai,
        supi,
        gpsi,
        ..
    } = subject;
    [imsi, msisdn, nai, supi, gpsi]
        .into_iter()
        .any(|one| one.as_deref() == Some(name))
}

/// Whether an address or a prefix in words is or has this address.
fn contains(words: &str, address: IpAddr) -> bool {
    match words.split_once('/') {
        None => words.parse() == Ok(address),
        Some((prefix, length)) => {
            let prefix = prefix.parse().ok().zip(length.parse().ok());
            let prefix = prefix.and_then(|(prefix, length)| IpPrefix::new(prefix, length));
            prefix.is_some_and(|prefix| prefix.contains(address))
        }
    }
}

/// Exit status 1 for what cannot be read and for what `verify` finds, 2 for a configuration with a mistake.
#[must_use]
pub fn records(arguments: &RecordsArguments) -> ExitCode {
    let configured = match arguments.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config.and_then(|config| config.records),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    let configured = configured.map(|records| records.directory.value);
    let Some(directory) = arguments.directory.clone().or(configured) else {
        eprintln!(
            "records: name a directory with --directory, or a configuration that has one with --config"
        );
        return ExitCode::from(RUN_ERROR);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = DirectoryHandle::to_read(&directory).and_then(|opened| match &arguments.what {
        What::Read { wanted, json } => read(&opened, wanted, *json, &mut out).map(|()| true),
        What::Open { json } => open::show(&opened, *json, &mut out).map(|()| true),
        What::Verify => verify(&opened, &mut out),
    });
    match outcome.and_then(|is_sound| out.flush().map(|()| is_sound)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(RUN_ERROR),
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("records: {}: {error}", directory.display());
            ExitCode::from(RUN_ERROR)
        }
    }
}

fn read(directory: &DirectoryHandle, wanted: &Wanted, json: bool, out: &mut impl Write) -> io::Result<()> {
    if !json {
        writeln!(
            out,
            "{:>10}  {:<24}  {:<18}  {:<16}  {:<24}  {:>10}  {:>14}  {:>14}  why",
            "seq", "ended", "seid", "subscriber", "ue", "urr", "ul octets", "dl octets"
        )?;
    }
    for name in files(directory)? {
        let Some(file) = open_file(directory, &name)? else {
            continue;
        };
        let mut reader = Reader::new(file);
        while let Some(item) = reader.next().transpose()? {
            match item {
                Item::Record(seq, entry) if wanted.wants(&entry) => {
                    if json {
                        out.write_all(reader.line())?;
                        out.write_all(b"\n")?;
                    } else {
                        writeln!(out, "{}", row(seq, &entry))?;
                    }
                }
                Item::Record(..) => {}
                Item::Bad(place, fault) => tell_bad(&name, place, fault),
            }
        }
    }
    Ok(())
}

/// A record in one line for people.
fn row(seq: u64, entry: &Entry) -> String {
    let front = format!("{seq:>10}  {}", time_words(entry.time_ms()));
    match entry {
        Entry::Usage(usage) => format!(
            "{front}  {}  {:>10}  {:>14}  {:>14}  {}",
            subject(&usage.subject),
            usage.urr,
            usage.volumes.ul_octets,
            usage.volumes.dl_octets,
            clean(&usage.triggers.join(","))
        ),
        Entry::Content(content) => {
            let number = |number: Option<u32>| number.map_or_else(unknown, |number| number.to_string());
            format!(
                "{front}  {}  {:>10}  {:>14}  {:>14}  content {}, rating group {}, service {}",
                subject(&content.subject),
                "-",
                content.volumes.ul_octets,
                content.volumes.dl_octets,
                content
                    .name
                    .as_deref()
                    .map_or_else(|| "without a counter".to_owned(), clean),
                number(content.rating_group),
                number(content.service_id),
            )
        }
        Entry::Unreported(report) => format!(
            "{front}  {}  {:>10}  {:>14}  {:>14}  {} not taken: {}{}",
            subject(&report.subject),
            report.urr,
            report.volumes.ul_octets,
            report.volumes.dl_octets,
            clean(&report.triggers.join(",")),
            word(&report.outcome),
            report.cause.map(cause_words).unwrap_or_default()
        ),
        Entry::SessionStart(start) => format!(
            "{front}  {}  {:>10}  {:>14}  {:>14}  session {}",
            subject(&start.subject),
            "-",
            "-",
            "-",
            if start.imported { "taken over" } else { "started" }
        ),
        Entry::SessionLeft(left) => format!(
            "{front}  {}  {:>10}  {:>14}  {:>14}  session went to another process",
            subject(&left.subject),
            "-",
            left.volumes.ul_octets,
            left.volumes.dl_octets,
        ),
        Entry::ProcessStart(start) => format!("{front}  process started, Sluice {}", clean(&start.version)),
        Entry::SessionEnd(end) => format!(
            "{front}  {}  {:>10}  {:>14}  {:>14}  session ended: {}",
            subject(&end.subject),
            "-",
            end.volumes.ul_octets,
            end.volumes.dl_octets,
            word(&end.cause)
        ),
        Entry::Lost(lost) => format!(
            "{front}  {} records lost from {} on: {}",
            lost.records,
            lost.first,
            word(&lost.cause)
        ),
    }
}

/// A cause with its name (TS 29.244 Table 8.2.1-1).
fn cause_words(cause: u8) -> String {
    let name = pfcp::ie::Cause::new(cause).map_or("reserved", pfcp::ie::Cause::name);
    format!(" (cause {cause}, {name})")
}

/// A value as JSON has it, without its quotes.
fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    json.trim_matches('"').to_owned()
}

/// Prints what is wrong; returns whether nothing is.
fn verify(directory: &DirectoryHandle, out: &mut impl Write) -> io::Result<bool> {
    let mut audit = Audit::default();
    let (mut damaged, mut unfinished) = (0_u64, 0_u64);
    let names = files(directory)?;
    for name in &names {
        let Some(file) = open_file(directory, name)? else {
            continue;
        };
        for item in Reader::new(file) {
            match item? {
                Item::Record(seq, entry) => tell_break(name, audit.take(seq, &entry), out)?,
                Item::Bad(place, _) if is_open(name) && !place.is_whole => {
                    unfinished += 1;
                    writeln!(
                        out,
                        "{name}: octet {}: the last line has no end: it is being written, or its process has ended",
                        place.offset
                    )?;
                }
                Item::Bad(place, fault) => {
                    damaged += 1;
                    writeln!(out, "{name}: octet {}: {fault}", place.offset)?;
                }
            }
        }
    }
    writeln!(
        out,
        "{} files, {} records; {damaged} damaged lines, {unfinished} without an end, {} missing, {} repeated; {} stated as lost",
        names.len(),
        audit.records,
        audit.missing,
        audit.repeated,
        audit.lost
    )?;
    Ok(damaged == 0 && audit.is_sound())
}

fn tell_break(name: &str, found: Option<Break>, out: &mut impl Write) -> io::Result<()> {
    match found {
        None => Ok(()),
        Some(Break::Missing(first, records)) => {
            writeln!(out, "{name}: {records} records missing from {first} on")
        }
        Some(Break::Lost(first, records)) => {
            writeln!(out, "{name}: {records} records lost from {first} on, as it says")
        }
        Some(Break::Repeated(seq)) => writeln!(out, "{name}: record {seq} is there again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Usage, Volumes};

    fn entry() -> Entry {
        Entry::Usage(Box::new(Usage {
            subject: Subject {
                imsi: Some("001010000000001".into()),
                seid: 7,
                cp_seid: 8,
                ue: vec!["10.45.0.1".into(), "2001:db8:1::/64".into()],
                ..Subject::default()
            },
            urr: 3,
            ur_seqn: 0,
            triggers: Vec::new(),
            volumes: Volumes::default(),
            start_ms: 0,
            end_ms: 5_000,
            duration_s: None,
            events: None,
            first_packet_ms: None,
            last_packet_ms: None,
        }))
    }

    #[test]
    fn a_record_is_wanted_when_it_meets_every_condition() {
        let all = Wanted::default;
        let yes = [
            all(),
            Wanted {
                subscriber: Some("001010000000001".into()),
                ..all()
            },
            Wanted {
                ue: Some("10.45.0.1".parse().unwrap()),
                ..all()
            },
            Wanted {
                ue: Some("2001:db8:1::5".parse().unwrap()),
                urr: Some(3),
                ..all()
            },
            Wanted {
                seid: Some(Seid(8)),
                from: Some(5_000),
                to: Some(5_001),
                ..all()
            },
        ];
        let no = [
            Wanted {
                subscriber: Some("00101".into()),
                ..all()
            },
            Wanted {
                ue: Some("10.45.0.2".parse().unwrap()),
                ..all()
            },
            Wanted {
                ue: Some("10.45.0.1".parse().unwrap()),
                urr: Some(4),
                ..all()
            },
            Wanted {
                seid: Some(Seid(9)),
                ..all()
            },
            Wanted {
                from: Some(5_001),
                ..all()
            },
            Wanted {
                to: Some(5_000),
                ..all()
            },
        ];
        assert!(yes.iter().all(|wanted| wanted.wants(&entry())));
        assert!(!no.iter().any(|wanted| wanted.wants(&entry())));
    }

    #[test]
    fn what_an_smf_names_does_not_move_the_terminal() {
        let mut entry = entry();
        let Entry::Usage(usage) = &mut entry else {
            unreachable!()
        };
        (usage.subject.imsi, usage.subject.nai) = (None, Some("a\u{1b}[2J\u{9b}1m\u{202e}é".into()));
        let row = row(1, &entry);
        assert!(row.contains("a\\u{1b}[2J\\u{9b}1m\\u{202e}é"), "{row:?}");
        assert!(!row.contains(char::is_control), "{row:?}");
    }

    #[test]
    fn times_are_dates_or_seconds() {
        assert_eq!(time("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!(time("12"), Ok(12_000));
        assert!(time("yesterday").is_err());
    }
}
