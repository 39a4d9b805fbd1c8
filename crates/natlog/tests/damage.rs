//! Octets that no log wrote are an error of the file, and never the end of the thread.

mod common;

use common::{BEGIN, Scratch, assigned, block, hourly, released};
use flow::VrfId;
use natlog::{NatLog, NatLogReader};

/// Numbers that are drawn, the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

#[test]
fn a_damaged_file_is_an_error_or_answers() {
    // The library's words on each damage are no part of the test.
    std::panic::set_hook(Box::new(|_| {}));
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    for number in 0..40u16 {
        let of = block(number as u8 % 4, 1_024 + 512 * (number / 4), 9);
        log.append(&[
            assigned(BEGIN + u64::from(number), of, number.into()),
            released(BEGIN + 50, of),
        ])
        .unwrap();
        log.append(&[assigned(BEGIN + 60, of, number.into())]).unwrap();
    }
    drop(log);
    let path = scratch.path().join(scratch.files().remove(0));
    let whole = std::fs::read(&path).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut draw, mut refused) = (Draw(0x2545_f491_4f6c_dd1d), 0);
    for round in 0..400 {
        let mut octets = whole.clone();
        for _ in 0..=draw.below(3) {
            let at = used[draw.below(used.len())];
            octets[at] ^= 1 << draw.below(8);
        }
        if round % 5 == 0 {
            octets.truncate(draw.below(whole.len()));
        }
        std::fs::write(&path, &octets).unwrap();
        let mut reader = NatLogReader::open(scratch.path()).unwrap();
        let of = block(1, 1_024, 9);
        let asked = [10, 55, 70].map(|at| reader.at(BEGIN + at, VrfId(3), of.address, 1_024).is_err());
        let opened = NatLog::open(scratch.path(), hourly(), BEGIN + 100, &[])
            .and_then(|(mut log, _)| log.append(&[assigned(BEGIN + 101, of, 7)]));
        refused += usize::from(asked.contains(&true)) + usize::from(opened.is_err());
    }
    let _ = std::panic::take_hook();
    assert!(refused > 0);
}
