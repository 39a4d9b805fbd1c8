//! What the process before has left: the segments are read from the oldest to the newest, and the latest record of each
//! key counts.
//!
//! The headers are read first, from the newest segment back: each says which segment is before it and how much of that
//! one counts. What is between them, or behind what counts, was never confirmed and was written again.

use std::collections::HashMap;
use std::io::{self, Read};

use crate::form::{
    Damage, HeaderFault, Kind, Location, OLDEST_VERSION, Record, SEGMENT_HEADER, SegmentHeader, VERSION,
    file_name, number_of,
};
use crate::index::{Index, Place, Slot};
use crate::key::Key;
use crate::log::{Log, remove};
use crate::lsn::Lsn;
use crate::open_error::OpenError;
use crate::recovered::{Found, Recovered};
use crate::scan::{Item, scan_file};
use crate::segments::{Segment, Segments};
use crate::store_disk::StoreDisk;

/// What was found.
pub(crate) struct Outcome {
    pub(crate) recovered: Recovered,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) log: Log,
    /// The last operation that certainly was confirmed.
    pub(crate) confirmed: Lsn,
    pub(crate) last_batch: LastBatch,
}

/// The records of the last batch of all.
#[derive(Debug, Default)]
pub(crate) struct LastBatch {
    pub(crate) octets: Vec<u8>,
    /// Where each is.
    pub(crate) slots: Vec<Slot>,
}

/// What is read of a segment.
#[derive(Clone, Copy, Debug)]
struct Plan {
    number: u64,
    /// Whether its header is right.
    has_header: bool,
    /// Octets that count; none: all.
    octets: Option<u64>,
    /// What is damaged behind here may be an unfinished write; none: behind the last mark.
    confirmed: Option<u64>,
}

pub(crate) fn recover(disk: &mut impl StoreDisk) -> Result<Outcome, OpenError> {
    let names = disk.list().map_err(|error| fault("", error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    let next_number = numbers.last().map_or(1, |last| last + 1);
    let mut headers = Vec::with_capacity(numbers.len());
    for number in numbers {
        headers.push((number, header(disk, number)?));
    }
    let mut reading = Reading::default();
    reading.drop_unfinished(disk, &mut headers)?;
    let plans = reading.plan(&headers);
    let newest = plans.last().map(|plan| plan.number);
    let mut previous = (0, 0, 0);
    for plan in plans {
        previous = reading.read(disk, plan, newest == Some(plan.number))?;
    }
    Ok(reading.finish(next_number, previous))
}

fn fault(file: &str, error: io::Error) -> OpenError {
    OpenError::Disk {
        file: file.to_owned(),
        error,
    }
}

/// The header of a segment; none where it is damaged.
fn header(disk: &mut impl StoreDisk, number: u64) -> Result<Option<SegmentHeader>, OpenError> {
    let name = file_name(number);
    let mut octets = Vec::new();
    let read = disk
        .read(&name)
        .and_then(|file| file.take(SEGMENT_HEADER as u64).read_to_end(&mut octets));
    read.map_err(|error| fault(&name, error))?;
    match SegmentHeader::decode(&octets) {
        Ok(header) => Ok(Some(header).filter(|header| header.number == number)),
        Err(HeaderFault::Damaged) => Ok(None),
        Err(HeaderFault::Version(version)) => Err(OpenError::Version {
            file: name,
            version,
            oldest: OLDEST_VERSION,
            newest: VERSION,
        }),
    }
}

/// What else is known of a live record while the log is read.
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    lsn: Lsn,
    bucket: u16,
    /// Where in the heads its own is, how long it is, and how long one may be there.
    head: (usize, u16, u16),
}

#[derive(Default)]
struct Reading {
    recovered: Recovered,
    index: Index,
    segments: Segments,
    /// Of sessions, by their places.
    of_sessions: Vec<Info>,
    of_others: HashMap<Key, Info>,
    confirmed: Lsn,
    last_batch: LastBatch,
    /// Segments that do not count.
    void: Vec<String>,
}

type Headers = Vec<(u64, Option<SegmentHeader>)>;

impl Reading {
    /// Newest segments without a header and without any record: they were being begun.
    fn drop_unfinished(&mut self, disk: &mut impl StoreDisk, headers: &mut Headers) -> Result<(), OpenError> {
        while let Some((number, None)) = headers.last() {
            let name = file_name(*number);
            let mut records = 0;
            let scanned = disk.read(&name).and_then(|file| {
                scan_file(file, 0, |_, item| {
                    records += u64::from(matches!(item, Item::Record(..)))
                })
            });
            let octets = scanned.map_err(|error| fault(&name, error))?;
            if records > 0 {
                break;
            }
            self.recovered.torn_octets += octets;
            remove(disk, &name)
                .and_then(|()| disk.sync_directory())
                .map_err(|error| fault(&name, error))?;
            headers.pop();
        }
        Ok(())
    }

    /// Which segments count, and how much of each, from the oldest on.
    fn plan(&mut self, headers: &Headers) -> Vec<Plan> {
        let mut plans = Vec::new();
        let mut expected: Option<SegmentHeader> = None;
        for (number, header) in headers.iter().rev() {
            let mut plan = Plan {
                number: *number,
                has_header: header.is_some(),
                octets: None,
                confirmed: None,
            };
            if let Some(next) = expected {
                if *number > next.previous {
                    self.void.push(file_name(*number));
                    continue;
                }
                if *number == next.previous {
                    plan.octets = Some(next.previous_octets);
                    plan.confirmed = Some(next.previous_confirmed);
                } else {
                    // It was taken away: segments go from the oldest on.
                    self.recovered.damaged.push(Damage {
                        file: file_name(next.previous),
                        offset: 0,
                        octets: next.previous_octets,
                        is_unconfirmed: false,
                    });
                }
            }
            expected = *header;
            plans.push(plan);
        }
        plans.reverse();
        plans
    }

    /// Reads a segment. Returns what the header of the next one says of it.
    fn read(
        &mut self,
        disk: &mut impl StoreDisk,
        plan: Plan,
        is_newest: bool,
    ) -> Result<(u64, u64, u64), OpenError> {
        let name = file_name(plan.number);
        let Some(id) = self.segments.push(Segment {
            number: plan.number,
            ..Segment::default()
        }) else {
            return Err(fault(&name, io::Error::other("there are too many segments")));
        };
        let (mut damaged, mut mark) = (Vec::<(u64, u64)>::new(), 0);
        let mut file = disk.read(&name).map_err(|error| fault(&name, error))?;
        let from = if plan.has_header {
            skip_header(&mut file).map_err(|error| fault(&name, error))?
        } else {
            0
        };
        let most = plan.octets.map_or(u64::MAX, |octets| octets.saturating_sub(from));
        self.last_batch = LastBatch::default();
        let end = scan_file(file.take(most), from, |at, item| match item {
            Item::Damage(octets) => match damaged.last_mut() {
                Some((from, before)) if *from + *before == at => *before += octets as u64,
                _ => damaged.push((at, octets as u64)),
            },
            Item::Record(record, octets) => {
                if record.kind == Kind::Mark {
                    mark = at;
                    self.confirmed = self.confirmed.max(record.lsn);
                    self.last_batch = LastBatch::default();
                }
                let slot = Slot::new(id, at, octets.len());
                self.take(&record, slot);
                if is_newest && record.kind != Kind::Mark {
                    self.last_batch.octets.extend_from_slice(octets);
                    self.last_batch.slots.push(slot);
                }
            }
        });
        let mut end = end.map_err(|error| fault(&name, error))?;
        self.recovered.segments += 1;
        self.recovered.octets += end;
        if let Some(missing) = plan
            .octets
            .map(|octets| octets.saturating_sub(end))
            .filter(|missing| *missing > 0)
        {
            damaged.push((end, missing));
        }
        if is_newest {
            end = self.cut_tail(disk, &name, &mut damaged, end)?;
            // So that what the process before did not sync stays until it is written again. Nothing relies on it.
            let _ = disk.sync(&name).and_then(|()| disk.sync_directory());
        }
        // The header is confirmed with the first batch.
        let first = if mark > SEGMENT_HEADER as u64 { mark } else { 0 };
        let confirmed = plan.confirmed.unwrap_or(first);
        self.recovered
            .damaged
            .extend(damaged.into_iter().map(|(offset, octets)| Damage {
                file: name.clone(),
                offset,
                octets,
                is_unconfirmed: offset >= confirmed,
            }));
        self.segments.grow(id, end);
        if !is_newest {
            self.confirmed = self.confirmed.max(self.recovered.last);
        }
        Ok((plan.number, end, confirmed))
    }

    /// What is behind the last record of the newest segment goes: a write that was not finished.
    fn cut_tail(
        &mut self,
        disk: &mut impl StoreDisk,
        name: &str,
        damaged: &mut Vec<(u64, u64)>,
        end: u64,
    ) -> Result<u64, OpenError> {
        let Some((offset, octets)) = damaged.pop_if(|(offset, octets)| *offset + *octets == end) else {
            return Ok(end);
        };
        self.recovered.torn_octets += octets;
        disk.truncate(name, offset).map_err(|error| fault(name, error))?;
        Ok(offset)
    }

    fn take(&mut self, record: &Record<'_>, slot: Slot) {
        self.recovered.last = self.recovered.last.max(record.lsn);
        let Some(key) = record.key else { return };
        self.recovered.records += 1;
        if record.kind == Kind::Removal {
            if let Some(old) = self.index.remove(key) {
                self.segments.drop_live(old);
            }
            return;
        }
        let (old, place) = self.index.set_and_place(key, slot);
        if let Some(old) = old {
            self.segments.drop_live(old);
        }
        self.segments.add_live(slot);
        let heads = &mut self.recovered.heads;
        let info = match place {
            Some(place) => info_at(&mut self.of_sessions, place),
            None => self.of_others.entry(key.to_key()).or_default(),
        };
        info.lsn = record.lsn;
        info.bucket = record.bucket;
        // A head takes the place of the one before it, or of that of a session that is gone, if it is not too short.
        let octets = record.head.len() as u16;
        let (from, _, room) = info.head;
        match heads.get_mut(from..from + record.head.len()) {
            Some(place) if octets <= room => {
                place.copy_from_slice(record.head);
                info.head = (from, octets, room);
            }
            _ => {
                info.head = (heads.len(), octets, octets);
                heads.extend_from_slice(record.head);
            }
        }
    }

    fn finish(mut self, next_number: u64, previous: (u64, u64, u64)) -> Outcome {
        self.recovered.found.reserve_exact(self.index.records() as usize);
        for (key, slot, place) in self.index.iter() {
            let info = match place {
                Some(place) => self.of_sessions.get(place),
                None => self.of_others.get(&key),
            };
            let (Some(info), Some(segment)) = (info, self.segments.get(slot.segment())) else {
                continue;
            };
            self.recovered.found.push(Found {
                key,
                bucket: info.bucket,
                lsn: info.lsn,
                location: Location {
                    segment: segment.number,
                    offset: slot.offset(),
                    octets: slot.octets(),
                },
                head: (info.head.0, info.head.1),
            });
        }
        Outcome {
            confirmed: self.confirmed.min(self.recovered.last),
            recovered: self.recovered,
            index: self.index,
            segments: self.segments,
            log: Log::new(next_number, previous, self.void),
            last_batch: self.last_batch,
        }
    }
}

fn info_at(infos: &mut Vec<Info>, place: Place) -> &mut Info {
    if infos.len() <= place {
        infos.resize((place + 1).next_multiple_of(4096), Info::default());
    }
    &mut infos[place]
}

fn skip_header(file: &mut impl Read) -> io::Result<u64> {
    let mut header = [0; SEGMENT_HEADER];
    file.read_exact(&mut header)?;
    Ok(SEGMENT_HEADER as u64)
}
