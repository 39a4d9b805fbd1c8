//! Sessions that have a record of their start and none of their end.

use std::collections::BTreeMap;
use std::io::{self, Write};

use records::{DirectoryHandle, Entry, Item, Reader, SessionStart, Subject, Volumes};

use super::spool::{files, open_file, subject, tell_bad, time_words};

/// A session by its node and its SEID there, which no two live sessions share.
type Key = (String, u64);

/// A session that has started.
struct Open {
    seq: u64,
    start: SessionStart,
    line: Vec<u8>,
    /// What its usage records have in sum, and how many there are.
    usage: (u64, Volumes),
    /// Whether its node has started anew since.
    is_orphan: bool,
}

fn key(subject: &Subject) -> Key {
    (subject.node.clone(), subject.seid)
}

/// Sessions in the order of the records: as many as are open at a time are in memory.
#[derive(Default)]
struct Opened {
    /// The last one of a key is that which records speak of: a node may give a SEID again in another life.
    sessions: BTreeMap<Key, Vec<Open>>,
}

impl Opened {
    fn take(&mut self, seq: u64, entry: Entry, line: &[u8]) {
        match entry {
            Entry::SessionStart(start) => self.begin(seq, *start, line),
            Entry::Usage(usage) => {
                if let Some(open) = self.last(&usage.subject) {
                    let (count, sum) = &mut open.usage;
                    *count += 1;
                    *sum = added(sum, &usage.volumes);
                }
            }
            Entry::SessionEnd(end) => self.end(&end.subject),
            Entry::SessionLeft(left) => self.end(&left.subject),
            Entry::ProcessStart(process) => {
                let all = self.sessions.iter_mut();
                let its = all.filter(|((node, _), _)| *node == process.node);
                its.flat_map(|(_, open)| open)
                    .for_each(|open| open.is_orphan = true);
            }
            Entry::Content(_) | Entry::Unreported(_) | Entry::Lost(_) => {}
        }
    }

    fn begin(&mut self, seq: u64, start: SessionStart, line: &[u8]) {
        let of_key = self.sessions.entry(key(&start.subject)).or_default();
        // One that comes from a copy of the other's record continues here.
        if start.imported {
            of_key.pop();
        }
        of_key.push(Open {
            seq,
            start,
            line: line.to_vec(),
            usage: (0, Volumes::default()),
            is_orphan: false,
        });
    }

    fn last(&mut self, subject: &Subject) -> Option<&mut Open> {
        self.sessions.get_mut(&key(subject))?.last_mut()
    }

    fn end(&mut self, subject: &Subject) {
        let key = key(subject);
        if let Some(of_key) = self.sessions.get_mut(&key) {
            of_key.pop();
            if of_key.is_empty() {
                self.sessions.remove(&key);
            }
        }
    }

    fn in_order(self) -> Vec<Open> {
        let mut all: Vec<Open> = self.sessions.into_values().flatten().collect();
        all.sort_unstable_by_key(|open| open.seq);
        all
    }
}

fn added(one: &Volumes, other: &Volumes) -> Volumes {
    Volumes::new(
        [
            one.ul_octets.wrapping_add(other.ul_octets),
            one.dl_octets.wrapping_add(other.dl_octets),
        ],
        [
            one.ul_packets.wrapping_add(other.ul_packets),
            one.dl_packets.wrapping_add(other.dl_packets),
        ],
    )
}

/// Prints the open sessions of a directory.
pub(super) fn show(directory: &DirectoryHandle, json: bool, out: &mut impl Write) -> io::Result<()> {
    let mut opened = Opened::default();
    for name in files(directory)? {
        let Some(file) = open_file(directory, &name)? else {
            continue;
        };
        let mut reader = Reader::new(file);
        while let Some(item) = reader.next().transpose()? {
            match item {
                Item::Record(seq, entry) => opened.take(seq, entry, reader.line()),
                Item::Bad(place, fault) => tell_bad(&name, place, fault),
            }
        }
    }
    if !json {
        writeln!(
            out,
            "{:>10}  {:<24}  {:<18}  {:<16}  {:<24}  {:>7}  {:>14}  {:>14}  state",
            "seq", "started", "seid", "subscriber", "ue", "records", "ul octets", "dl octets"
        )?;
    }
    for open in opened.in_order() {
        if json {
            out.write_all(&open.line)?;
            out.write_all(b"\n")?;
            continue;
        }
        let (records, volumes) = open.usage;
        let state = if open.is_orphan {
            "its process ended without a record of its end"
        } else {
            "started, no end"
        };
        writeln!(
            out,
            "{:>10}  {}  {}  {records:>7}  {:>14}  {:>14}  {state}",
            open.seq,
            time_words(open.start.time_ms),
            subject(&open.start.subject),
            volumes.ul_octets,
            volumes.dl_octets,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{EndCause, ProcessStart, SessionEnd, SessionLeft, Usage};

    fn subject(seid: u64) -> Subject {
        Subject {
            node: "upf.example".into(),
            seid,
            ..Subject::default()
        }
    }

    fn start(seid: u64, imported: bool) -> Entry {
        Entry::SessionStart(Box::new(SessionStart {
            subject: subject(seid),
            time_ms: 1,
            start_ms: 1,
            imported,
            pdrs: 2,
            qers: 0,
            urrs: vec![1],
        }))
    }

    fn end(seid: u64) -> Entry {
        Entry::SessionEnd(Box::new(SessionEnd {
            subject: subject(seid),
            cause: EndCause::Deleted,
            start_ms: 1,
            end_ms: 2,
            usage_records: 0,
            volumes: Volumes::default(),
        }))
    }

    fn left(seid: u64) -> Entry {
        Entry::SessionLeft(Box::new(SessionLeft {
            subject: subject(seid),
            time_ms: 2,
            start_ms: 1,
            usage_records: 0,
            volumes: Volumes::default(),
        }))
    }

    fn used(seid: u64, octets: u64) -> Entry {
        Entry::Usage(Box::new(Usage {
            subject: subject(seid),
            urr: 1,
            ur_seqn: 0,
            triggers: Vec::new(),
            volumes: Volumes::new([octets, 0], [1, 0]),
            start_ms: 1,
            end_ms: 2,
            duration_s: None,
            events: None,
            first_packet_ms: None,
            last_packet_ms: None,
        }))
    }

    fn restart() -> Entry {
        Entry::ProcessStart(ProcessStart {
            time_ms: 3,
            node: "upf.example".into(),
            version: "0".into(),
        })
    }

    /// SEID, octets so far, whether its process has ended.
    fn open(entries: Vec<Entry>) -> Vec<(u64, u64, bool)> {
        let mut opened = Opened::default();
        for (seq, entry) in (0..).zip(entries) {
            opened.take(seq, entry, b"");
        }
        let told = |open: &Open| (open.start.subject.seid, open.usage.1.ul_octets, open.is_orphan);
        opened.in_order().iter().map(told).collect()
    }

    #[test]
    fn what_has_neither_ended_nor_left_is_open_and_of_an_ended_process_it_is_said() {
        let entries = vec![
            start(3, false),
            start(2, false),
            start(1, false),
            used(2, 70),
            used(2, 30),
            end(1),
            restart(),
            start(4, false),
            start(5, false),
            left(5),
        ];
        assert_eq!(open(entries), [(3, 0, true), (2, 100, true), (4, 0, false)]);
    }

    #[test]
    fn a_seid_that_is_given_again_is_another_session_but_an_import_continues() {
        let again = vec![start(1, false), restart(), start(1, false), end(1)];
        assert_eq!(open(again), [(1, 0, true)]);
        let copied = vec![start(1, false), used(1, 5), restart(), start(1, true), used(1, 7)];
        assert_eq!(open(copied), [(1, 7, false)]);
    }
}
