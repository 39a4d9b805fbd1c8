//! What tests of the log have in common.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flow::VrfId;
use nat::pools::PortBlock;
use natlog::{Assignment, Event, Holder, Settings};

/// A directory of this test alone, taken away in the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Most of the time would be the disk's syncs.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = folder.join(format!("natlog-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The names of the log's files, in order of their age.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| natlog::is_file(name)).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Files of an hour, which are kept for a year.
pub fn hourly() -> Settings {
    Settings {
        period: Duration::from_hours(1),
        retention: Duration::from_hours(24 * 365),
        cache_octets: 1 << 20,
    }
}

pub const HOUR: u64 = 3_600_000;
/// A start of an hour.
pub const BEGIN: u64 = 490_000 * HOUR;

pub fn block(address: u8, first: u16, bits: u8) -> PortBlock {
    PortBlock {
        address: [192, 0, 2, address].into(),
        first,
        bits,
    }
}

pub fn assignment(since_ms: u64, block: PortBlock, seid: u64) -> Assignment {
    Assignment {
        since_ms,
        vrf: VrfId(3),
        block,
        holder: Holder {
            inside: (0x0a2d_0000 + seid as u32).into(),
            seid,
            subscriber: format!("imsi-{:015}", 1_010_000_000_000 + seid),
            dnn: "internet".into(),
            instance: "n6".into(),
        },
    }
}

pub fn assigned(since_ms: u64, block: PortBlock, seid: u64) -> Event {
    Event::Assigned(assignment(since_ms, block, seid))
}

pub fn released(at_ms: u64, block: PortBlock) -> Event {
    let held = assignment(0, block, 1);
    Event::Released {
        at_ms,
        vrf: held.vrf,
        block,
        holder: held.holder,
    }
}
