//! What the process before has left: the segments are read from the oldest to the newest, and the latest record of each
//! key counts.
//!
//! The headers are read first, from the newest segment back: each says which segment is before it and how much of that
//! one counts. What is between them, or behind what counts, was never confirmed and was written again.

use std::io::{self, Read};

use crate::form::{
    Damage, HeaderFault, KeyRef, Kind, Location, OLDEST_VERSION, Record, SEGMENT_HEADER, SegmentHeader,
    VERSION, file_name, number_of,
};
use crate::index::{Index, Place, Slot};
use crate::key::Table;
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
    pub(crate) unconfirmed: Unconfirmed,
}

/// The records that may never have been confirmed: those of the last batch of all. Where that is the first one of a
/// process, which has what the process before had not confirmed, those of that one's last batch too.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
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
    let segments = plans.len();
    for (done, plan) in plans.into_iter().enumerate() {
        previous = reading.read(disk, plan, newest == Some(plan.number))?;
        if done == 0 {
            // As many sessions as if all segments were like the first: what is too much is given back.
            reading.index.reserve(segments.min(4096));
        }
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

#[derive(Default)]
struct Reading {
    recovered: Recovered,
    index: Index,
    segments: Segments,
    confirmed: Lsn,
    unconfirmed: Unconfirmed,
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
                scan_file(
                    file,
                    0,
                    &mut records,
                    |_, _| {},
                    |records, _, item| *records += u64::from(matches!(item, Item::Record(..))),
                )
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
                        // Where nothing was confirmed, not even its name was.
                        is_unconfirmed: next.previous_confirmed == 0,
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
        // Of a segment that certainly was confirmed nothing is kept.
        let is_doubtful = plan.confirmed.is_none() || plan.confirmed < plan.octets;
        let ahead = |reading: &Reading, octets: &[u8]| reading.index.warm(Record::seids(octets));
        let end = scan_file(
            file.take(most),
            from,
            self,
            ahead,
            |reading, at, item| match item {
                Item::Damage(octets) => match damaged.last_mut() {
                    Some((from, before)) if *from + *before == at => *before += octets as u64,
                    _ => damaged.push((at, octets as u64)),
                },
                Item::Record(record, octets) => {
                    if record.kind == Kind::Mark {
                        mark = at;
                        if at > SEGMENT_HEADER as u64 {
                            // No batch is written before the one before it is confirmed.
                            reading.confirm();
                        }
                    }
                    let slot = Slot::new(id, at, octets.len());
                    reading.take(&record, slot, plan.number);
                    if is_doubtful && record.kind != Kind::Mark {
                        reading.unconfirmed.octets.extend_from_slice(octets);
                        reading.unconfirmed.slots.push(slot);
                    }
                }
            },
        );
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
        if !is_doubtful {
            self.confirm();
        }
        Ok((plan.number, end, confirmed))
    }

    /// All that was read is confirmed.
    fn confirm(&mut self) {
        self.confirmed = self.recovered.last;
        self.unconfirmed = Unconfirmed::default();
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

    fn take(&mut self, record: &Record<'_>, slot: Slot, segment_number: u64) {
        self.recovered.last = self.recovered.last.max(record.lsn);
        let Some(key) = record.key else { return };
        self.recovered.records += 1;
        let recovered = &mut self.recovered;
        if record.kind == Kind::Removal {
            let (old, place) = self.index.remove_and_place(key);
            if let Some(old) = old {
                self.segments.drop_live(old);
                recovered.live -= 1;
                let found = found_at(recovered, key, place);
                found.location = Location::default();
            }
            return;
        }
        let (old, place) = self.index.set_and_place(key, slot);
        match old {
            Some(old) => self.segments.drop_live(old),
            None => recovered.live += 1,
        }
        self.segments.add_live(slot);
        let before = *found_at(recovered, key, place);
        // A head takes the place of the one before it, or of that of a session that is gone, if it is not too short.
        let (octets, end) = (record.head.len() as u16, recovered.heads.len());
        let (mut head, mut room) = (before.head, before.head_room);
        match recovered.heads.get_mut(head..head + record.head.len()) {
            Some(place) if octets <= room => place.copy_from_slice(record.head),
            _ => {
                (head, room) = (end, octets);
                recovered.heads.extend_from_slice(record.head);
            }
        }
        *found_at(recovered, key, place) = Found {
            lsn: record.lsn,
            location: Location {
                segment: segment_number,
                offset: slot.offset(),
                octets: slot.octets(),
            },
            head,
            head_octets: octets,
            head_room: room,
            bucket: record.bucket,
        };
    }

    fn finish(mut self, next_number: u64, previous: (u64, u64, u64)) -> Outcome {
        self.index.shrink();
        Outcome {
            confirmed: self.confirmed,
            recovered: self.recovered,
            index: self.index,
            segments: self.segments,
            log: Log::new(next_number, previous, self.void),
            unconfirmed: self.unconfirmed,
        }
    }
}

/// The place of a record of this key; where it is a session's, what was there may be of another session before it.
fn found_at<'r>(recovered: &'r mut Recovered, key: KeyRef<'_>, place: Option<Place>) -> &'r mut Found {
    let (KeyRef::Session(table, seid), Some(place)) = (key, place) else {
        return recovered.others.entry(key.to_key()).or_default();
    };
    let table = if table == Table::Usage {
        &mut recovered.usage
    } else {
        &mut recovered.sessions
    };
    if table.len() <= place {
        table.resize((place + 1).next_multiple_of(4096), (0, Found::default()));
    }
    let (kept, found) = &mut table[place];
    *kept = seid;
    found
}

fn skip_header(file: &mut impl Read) -> io::Result<u64> {
    let mut header = [0; SEGMENT_HEADER];
    file.read_exact(&mut header)?;
    Ok(SEGMENT_HEADER as u64)
}
