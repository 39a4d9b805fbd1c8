//! What the process before has left: the segments are read from the oldest to the newest, and the latest record of each
//! key counts. Of a segment that has an index ([`segment_index`](crate::segment_index)) that is read instead.
//!
//! The headers are read first. The newest one lists the segments before it, and how much of each counts: what is in no
//! list, or behind what counts, was never confirmed and was written again.

use std::io::{self, Read};

use crate::form::{
    ALIGN, Begin, Damage, HeaderFault, KeyRef, Kind, Listed, OLDEST_VERSION, Record, SEGMENT_HEADER,
    SegmentHeader, VERSION, aligned, file_name, index_name, indexed_number, number_of,
};
use crate::index::{Index, MOST_RESERVED, Place, Slot};
use crate::key::Table;
use crate::log::{Log, remove};
use crate::lsn::Lsn;
use crate::open_error::OpenError;
use crate::recovered::{Found, Recovered};
use crate::scan::{Item, scan_file, scan_octets};
use crate::segment_index::{HEADER, SegmentIndex};
use crate::segments::{IndexFile, Segment, Segments};
use crate::store_disk::{ReadAt, StoreDisk};

/// The most segments that room is made for ahead.
const MOST_SEGMENTS_RESERVED: usize = 4096;
/// The most octets of a head that room is made for ahead.
const MOST_HEAD_RESERVED: usize = 256;

/// Records of an index that are looked up at a time.
const AHEAD: usize = 256;

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
    /// Octets of its header; 0: it is damaged.
    header: u64,
    /// What counts of it; none: all.
    listed: Option<Listed>,
}

pub(crate) fn recover(disk: &mut impl StoreDisk) -> Result<Outcome, OpenError> {
    let names = disk.list().map_err(|error| fault("", error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    let next_number = numbers.last().map_or(1, |last| last + 1);
    remove_orphans(disk, &names, &numbers);
    let mut headers = Vec::with_capacity(numbers.len());
    for number in numbers {
        headers.push((number, header(disk, number)?));
    }
    let mut reading = Reading::default();
    reading.drop_unfinished(disk, &mut headers)?;
    let plans = reading.plan(&headers);
    let newest = plans.last().map(|plan| plan.number);
    let segments = plans.len();
    for (done, plan) in plans.into_iter().enumerate() {
        reading.read(disk, plan, newest == Some(plan.number))?;
        if done == 0 {
            // As many sessions as if all segments were like the first.
            reading.reserve(segments.min(MOST_SEGMENTS_RESERVED));
        }
    }
    Ok(reading.finish(next_number))
}

/// Indexes go whose segments are gone. Where that cannot be done they stay, and nothing reads them.
fn remove_orphans(disk: &mut impl StoreDisk, names: &[String], numbers: &[u64]) {
    for name in names {
        if indexed_number(name).is_some_and(|number| numbers.binary_search(&number).is_err()) {
            let _ = remove(disk, name);
        }
    }
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
    let read = disk.read(&name).and_then(|mut file| {
        let mut octets = Vec::new();
        file.by_ref()
            .take(SEGMENT_HEADER as u64)
            .read_to_end(&mut octets)?;
        if let Ok(list) = SegmentHeader::list_octets(&octets) {
            file.take(list as u64).read_to_end(&mut octets)?;
        }
        Ok(octets)
    });
    let octets = read.map_err(|error| fault(&name, error))?;
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
    /// The index that is being read.
    index_file: Vec<u8>,
}

/// Records of the newest segment behind damage. Where no batch follows they are of one that was not confirmed: what was
/// written before them is not there, and they may not be without it. The order of what is written means something.
#[derive(Debug, Default)]
struct BehindDamage {
    /// Where the damage begins.
    from: Option<u64>,
    octets: Vec<u8>,
    /// Where each record is.
    places: Vec<u64>,
}

type Headers = Vec<(u64, Option<SegmentHeader>)>;

impl Reading {
    /// Makes room for this many times as much as there is.
    fn reserve(&mut self, times: usize) {
        self.index.reserve(times);
        let recovered = &mut self.recovered;
        let more = |there: usize, most: usize| there.saturating_mul(times).min(most);
        let sessions = more(recovered.sessions.records.len(), MOST_RESERVED);
        // Where there is not so much memory, they grow as they are filled.
        let _ = recovered.sessions.records.try_reserve(sessions);
        let heads = more(recovered.heads.len(), sessions * MOST_HEAD_RESERVED);
        let _ = recovered.heads.try_reserve(heads);
    }

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
            scanned.map_err(|error| fault(&name, error))?;
            if records > 0 {
                break;
            }
            self.recovered.torn_octets += written_octets(disk, &name, 0)?;
            remove(disk, &name)
                .and_then(|()| disk.sync_directory())
                .map_err(|error| fault(&name, error))?;
            headers.pop();
        }
        Ok(())
    }

    /// Which segments count, and how much of each, from the oldest on.
    fn plan(&mut self, headers: &Headers) -> Vec<Plan> {
        let newest = headers
            .iter()
            .filter_map(|(_, header)| header.as_ref())
            .next_back();
        let mut plans: Vec<Plan> = Vec::new();
        for (number, header) in headers {
            let before = newest.filter(|newest| *number < newest.number);
            let listed = before.map(|newest| newest.before.iter().find(|listed| listed.number == *number));
            if listed == Some(None) {
                self.void.push(file_name(*number));
                continue;
            }
            plans.push(Plan {
                number: *number,
                header: header.as_ref().map_or(0, SegmentHeader::octets),
                listed: listed.flatten().copied(),
            });
        }
        // Segments go from the oldest on: one that is not there, and an older one is, was taken away.
        let oldest = plans.first().map_or(u64::MAX, |plan| plan.number);
        let is_there = |number| headers.iter().any(|(there, _)| *there == number);
        let listed = newest.into_iter().flat_map(|newest| &newest.before);
        for missing in listed.filter(|listed| listed.number > oldest && !is_there(listed.number)) {
            self.recovered.damaged.push(Damage {
                file: file_name(missing.number),
                offset: 0,
                octets: missing.octets,
                // Where nothing was confirmed, not even its name was.
                is_unconfirmed: missing.confirmed == 0,
            });
        }
        plans
    }

    /// Reads a segment, or its index.
    fn read(&mut self, disk: &mut impl StoreDisk, plan: Plan, is_newest: bool) -> Result<(), OpenError> {
        let name = file_name(plan.number);
        let Some(id) = self.segments.push(Segment {
            number: plan.number,
            header: plan.header,
            ..Segment::default()
        }) else {
            return Err(fault(&name, io::Error::other("there are too many segments")));
        };
        self.recovered.numbers.push(plan.number);
        let listed = plan.listed.filter(|listed| listed.confirmed == listed.octets);
        if let Some(listed) = listed
            && self.read_index(disk, id, listed)
        {
            return Ok(());
        }
        self.read_segment(disk, id, plan, is_newest)
    }

    /// Reads the index of a segment of which all that counts is confirmed. Returns whether there is one.
    fn read_index(&mut self, disk: &mut impl StoreDisk, id: u16, listed: Listed) -> bool {
        let mut octets = std::mem::take(&mut self.index_file);
        octets.clear();
        let read = disk.read(&index_name(listed.number));
        // What an index has of a record is no longer than the record.
        let most = HEADER as u64 + listed.octets + 1;
        let read = read.and_then(|file| file.take(most).read_to_end(&mut octets));
        let index = SegmentIndex::decode(&octets, listed.number, listed.octets);
        let index = index.filter(|index| read.is_ok() && are_whole(disk, listed.number, *index));
        let is_there = index.is_some();
        if let Some(index) = index {
            self.take_all(index, id);
            self.segments.grow(id, listed.octets);
            self.segments.set_index(id, IndexFile::There(octets.len() as u64));
            self.recovered.segments += 1;
            self.recovered.octets += listed.octets;
            self.confirm();
        }
        self.index_file = octets;
        is_there
    }

    fn take_all(&mut self, index: SegmentIndex<'_>, id: u16) {
        let mut records = index.records();
        loop {
            let next = records.clone().take(AHEAD);
            self.index.warm(next.filter_map(|(_, record)| record.seid()));
            let mut taken = 0;
            for (offset, record) in records.by_ref().take(AHEAD) {
                self.take(&record, Slot::new(id, u64::from(offset), record.octets));
                taken += 1;
            }
            if taken < AHEAD {
                return;
            }
        }
    }

    fn read_segment(
        &mut self,
        disk: &mut impl StoreDisk,
        id: u16,
        plan: Plan,
        is_newest: bool,
    ) -> Result<(), OpenError> {
        let name = file_name(plan.number);
        let (mut damaged, mut marks, mut last_mark) = (Vec::<(u64, u64)>::new(), 0, 0);
        let mut held = BehindDamage::default();
        let mut file = disk.read(&name).map_err(|error| fault(&name, error))?;
        let from = plan.header;
        skip(&mut file, from).map_err(|error| fault(&name, error))?;
        let most = plan
            .listed
            .map_or(u64::MAX, |listed| listed.octets.saturating_sub(from));
        // Of a segment that certainly was confirmed nothing is kept.
        let is_doubtful = plan.listed.is_none_or(|listed| listed.confirmed < listed.octets);
        let ahead = |reading: &Reading, octets: &[u8]| reading.index.warm(Record::seids(octets));
        let end = scan_file(
            file.take(most),
            from,
            self,
            ahead,
            |reading, at, item| match item {
                Item::Damage(octets) => {
                    if is_newest {
                        held.from.get_or_insert(at);
                    }
                    match damaged.last_mut() {
                        Some((from, before)) if *from + *before == at => *before += octets as u64,
                        _ => damaged.push((at, octets as u64)),
                    }
                }
                Item::Record(record, octets) => {
                    if record.kind == Kind::Mark {
                        reading.take_held(&mut held, (id, is_doubtful));
                        marks += 1;
                        if marks > 1 {
                            // No batch is written before the one before it is confirmed.
                            reading.confirm();
                            last_mark = at;
                        }
                    }
                    if held.from.is_some() {
                        held.octets.extend_from_slice(octets);
                        held.places.push(at);
                    } else {
                        reading.take_found(&record, octets, (id, at), is_doubtful);
                    }
                }
            },
        );
        let mut end = end.map_err(|error| fault(&name, error))?;
        self.recovered.segments += 1;
        self.recovered.octets += end;
        if let Some(listed) = plan.listed.filter(|listed| listed.octets > end) {
            damaged.push((end, listed.octets - end));
        }
        if is_newest {
            end = self.cut_tail(disk, &name, (&mut damaged, held.from), end)?;
            // So that what the process before did not sync stays until it is written again. Nothing relies on it.
            let _ = disk.sync(&name).and_then(|()| disk.sync_directory());
        }
        // The header is confirmed with the first batch.
        let confirmed = plan.listed.map_or(last_mark, |listed| listed.confirmed);
        self.recovered
            .damaged
            .extend(damaged.into_iter().map(|(offset, octets)| Damage {
                file: name.clone(),
                offset,
                octets,
                is_unconfirmed: offset >= confirmed,
            }));
        self.segments.grow(id, end);
        if is_doubtful {
            self.segments.doubt(id, confirmed);
        } else {
            self.confirm();
        }
        Ok(())
    }

    /// All that was read is confirmed.
    fn confirm(&mut self) {
        self.confirmed = self.recovered.last;
        self.unconfirmed = Unconfirmed::default();
    }

    /// Takes what was held behind damage: a batch follows, so that what is before it was confirmed.
    fn take_held(&mut self, held: &mut BehindDamage, (id, is_doubtful): (u16, bool)) {
        let BehindDamage { octets, places, .. } = std::mem::take(held);
        let mut places = places.into_iter();
        scan_octets(&octets, true, |_, item| {
            if let Item::Record(record, octets) = item
                && let Some(at) = places.next()
            {
                self.take_found(&record, octets, (id, at), is_doubtful);
            }
        });
    }

    fn take_found(&mut self, record: &Record<'_>, octets: &[u8], (id, at): (u16, u64), is_doubtful: bool) {
        let slot = Slot::new(id, at, octets.len());
        self.take(record, slot);
        if is_doubtful && record.kind != Kind::Mark {
            self.unconfirmed.octets.extend_from_slice(octets);
            self.unconfirmed.slots.push(slot);
        }
    }

    /// What is behind the first damage in the last batch of the newest segment does not count: a write that was not
    /// finished, which goes, and zeros ahead.
    fn cut_tail(
        &mut self,
        disk: &mut impl StoreDisk,
        name: &str,
        (damaged, from): (&mut Vec<(u64, u64)>, Option<u64>),
        end: u64,
    ) -> Result<u64, OpenError> {
        let Some(offset) = from else {
            return Ok(end);
        };
        damaged.retain(|(at, _)| *at < offset);
        let torn = written_octets(disk, name, offset)?;
        self.recovered.torn_octets += torn;
        // Zeros may stay: nothing reads them.
        if torn > 0 {
            disk.truncate(name, offset).map_err(|error| fault(name, error))?;
        }
        Ok(offset)
    }

    fn take(&mut self, record: &Record<'_>, slot: Slot) {
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
                found.slot = Slot::NONE;
            }
            return;
        }
        let (old, place_of_session) = self.index.set_and_place(key, slot);
        match old {
            Some(old) => self.segments.drop_live(old),
            None => recovered.live += 1,
        }
        self.segments.add_live(slot);
        let before = *found_at(recovered, key, place_of_session);
        // A head takes the place of the one before it, or of that of a session that is gone, if it is not too short.
        let (octets, end) = (record.head.len() as u16, recovered.heads.len());
        let (mut head, mut room) = (before.head, before.head_room);
        let place = head as usize * ALIGN;
        match recovered.heads.get_mut(place..place + record.head.len()) {
            Some(place) if octets <= room => place.copy_from_slice(record.head),
            _ => {
                (head, room) = ((end / ALIGN) as u32, octets);
                recovered.heads.extend_from_slice(record.head);
                recovered.heads.resize(end + aligned(record.head.len()), 0);
            }
        }
        *found_at(recovered, key, place_of_session) = Found {
            lsn: record.lsn,
            slot,
            head,
            head_octets: octets,
            head_room: room,
            bucket: record.bucket,
        };
    }

    fn finish(mut self, next_number: u64) -> Outcome {
        self.index.shrink();
        Outcome {
            confirmed: self.confirmed,
            recovered: self.recovered,
            index: self.index,
            segments: self.segments,
            log: Log::new(next_number, self.void),
            unconfirmed: self.unconfirmed,
        }
    }
}

/// Whether the records are whole, of those that a segment has by its index, that all sessions depend on: there are few.
/// Where one is damaged the segment has an older one, perhaps.
fn are_whole(disk: &impl StoreDisk, segment: u64, index: SegmentIndex<'_>) -> bool {
    let is_one = |record: &Record<'_>| {
        let table = record.key.map(KeyRef::table);
        let few = [Table::Node, Table::Association, Table::Application];
        record.kind == Kind::Value && table.is_some_and(|table| few.contains(&table))
    };
    let mut few = index.records().filter(|(_, record)| is_one(record)).peekable();
    if few.peek().is_none() {
        return true;
    }
    let (Ok(mut reads), name) = (disk.reads(), file_name(segment)) else {
        return false;
    };
    few.all(|(offset, record)| {
        let mut octets = vec![0; record.octets];
        let read = reads.read_at(&name, u64::from(offset), &mut octets);
        let found = Record::decode(&octets);
        read.is_ok()
            && matches!(found, Begin::Record(found) if (found.lsn, found.key) == (record.lsn, record.key))
    })
}

/// The place of a record of this key; where it is a session's, what was there may be of another session before it.
fn found_at<'r>(recovered: &'r mut Recovered, key: KeyRef<'_>, place: Option<Place>) -> &'r mut Found {
    let (KeyRef::Session(table, seid), Some(place)) = (key, place) else {
        return recovered.others.entry(key.to_key()).or_default();
    };
    let (kept, found) = match table {
        Table::Usage => recovered.usage.at(place),
        _ => recovered.sessions.at(place),
    };
    *kept = seid;
    found
}

/// Octets of a file from `offset` to the last one that is not 0.
fn written_octets(disk: &mut impl StoreDisk, name: &str, offset: u64) -> Result<u64, OpenError> {
    let (mut seen, mut written) = (0, 0);
    let mut chunk = [0; 4096];
    let counted = disk.read(name).and_then(|mut file| {
        skip(&mut file, offset)?;
        loop {
            let read = match file.read(&mut chunk) {
                Ok(0) => return Ok(written),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let octets = chunk.get(..read).unwrap_or_default();
            if let Some(last) = octets.iter().rposition(|octet| *octet != 0) {
                written = seen + last as u64 + 1;
            }
            seen += read as u64;
        }
    });
    counted.map_err(|error| fault(name, error))
}

fn skip(file: &mut impl Read, octets: u64) -> io::Result<()> {
    io::copy(&mut file.take(octets), &mut io::sink()).map(drop)
}
