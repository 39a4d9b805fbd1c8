//! What happens to a log besides its events: other processes, ends of the process, clocks, age.

mod common;

use std::process::Command;
use std::time::Duration;

use common::{BEGIN, HOUR, Scratch, assigned, assignment, block, hourly, released};
use flow::VrfId;
use natlog::{Event, Gap, LogError, NatLog, NatLogReader, Reconciled, Settings};

/// The session that held a port of a block at a time.
fn seid(reader: &mut NatLogReader, at: u64, place: u16) -> Option<u64> {
    let of = block(1, 1_024 + 512 * place, 9);
    let answer = reader.at(at, VrfId(3), of.address, of.first + 511).unwrap();
    Some(answer?.found?.assignment.holder.seid)
}

fn place(number: u16) -> nat::pools::PortBlock {
    block(1, 1_024 + 512 * number, 9)
}

#[test]
fn an_assignment_is_found_from_its_start_to_its_end() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    log.append(&[assigned(BEGIN + 10, place(0), 7), released(BEGIN + 20, place(0))])
        .unwrap();
    let mut ask = |at, vrf, port| {
        let address = place(0).address;
        let answer = log.at(at, VrfId(vrf), address, port).unwrap()?;
        assert_eq!(answer.gap, None);
        answer.found
    };
    let found = ask(BEGIN + 10, 3, 1_024).unwrap();
    assert_eq!(found.assignment, assignment(BEGIN + 10, place(0), 7));
    assert_eq!(found.until_ms, Some(BEGIN + 20));
    assert_eq!(ask(BEGIN + 19, 3, 1_535), Some(found));
    for (at, vrf, port) in [
        (BEGIN + 9, 3, 1_024),
        (BEGIN + 20, 3, 1_024),
        (BEGIN + 10, 2, 1_024),
        (BEGIN + 10, 3, 1_023),
        (BEGIN + 10, 3, 1_536),
        (BEGIN - HOUR, 3, 1_024),
    ] {
        assert_eq!(ask(at, vrf, port), None);
    }
}

#[test]
fn a_period_has_what_was_open_when_it_began_and_old_ones_go() {
    let scratch = Scratch::new();
    let settings = Settings {
        retention: Duration::from_hours(2),
        ..hourly()
    };
    let (mut log, _) = NatLog::open(scratch.path(), settings, BEGIN, &[]).unwrap();
    log.append(&[assigned(BEGIN, place(0), 1), assigned(BEGIN, place(1), 2)])
        .unwrap();
    for hour in 1..=4 {
        log.mark(BEGIN + hour * HOUR).unwrap();
    }
    log.append(&[released(BEGIN + 4 * HOUR + 5, place(1))]).unwrap();
    // The hours from 2 on: all of hour 1 is older than two hours.
    assert_eq!(scratch.files().len(), 3);
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    assert_eq!(
        reader.known().unwrap(),
        Some(BEGIN + 2 * HOUR..=BEGIN + 4 * HOUR + 5)
    );
    assert_eq!(seid(&mut reader, BEGIN + 2 * HOUR - 1, 0), None);
    for at in [2 * HOUR, 3 * HOUR + 7, 4 * HOUR, 4 * HOUR + 4] {
        assert_eq!(seid(&mut reader, BEGIN + at, 0), Some(1));
        assert_eq!(seid(&mut reader, BEGIN + at, 1), Some(2));
    }
    assert_eq!(seid(&mut reader, BEGIN + 4 * HOUR + 5, 1), None);
    assert_eq!(seid(&mut reader, BEGIN + 99 * HOUR, 0), Some(1));
}

#[test]
fn of_what_was_before_the_log_nothing_is_known() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN + 7, &[]).unwrap();
    let reader = NatLogReader::open(scratch.path()).unwrap();
    assert_eq!(reader.known().unwrap(), Some(BEGIN + 7..=BEGIN + 7));
    // A session had its block before the log began: that others had none then is not known.
    log.append(&[assigned(BEGIN + 5, place(0), 1)]).unwrap();
    log.mark(BEGIN + 9).unwrap();
    assert_eq!(reader.known().unwrap(), Some(BEGIN + 7..=BEGIN + 9));
    log.mark(BEGIN + HOUR + 3).unwrap();
    assert_eq!(reader.known().unwrap(), Some(BEGIN + 7..=BEGIN + HOUR + 3));
    let empty = Scratch::new();
    std::fs::create_dir(empty.path()).unwrap();
    assert_eq!(NatLogReader::open(empty.path()).unwrap().known().unwrap(), None);
}

#[test]
fn a_clock_that_was_wrong_removes_no_files_and_hides_no_events() {
    let scratch = Scratch::new();
    let settings = Settings {
        retention: Duration::from_hours(3),
        ..hourly()
    };
    let (mut log, _) = NatLog::open(scratch.path(), settings, BEGIN, &[]).unwrap();
    log.append(&[assigned(BEGIN, place(0), 1)]).unwrap();
    // Years ahead, and back.
    log.append(&[assigned(BEGIN + 90_000 * HOUR, place(1), 2)])
        .unwrap();
    assert_eq!(scratch.files().len(), 2);
    for hour in 1..5 {
        let at = BEGIN + hour * HOUR;
        log.append(&[assigned(at, place(2), 10 + hour), released(at + 5, place(2))])
            .unwrap();
    }
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    for hour in 2..5 {
        let at = BEGIN + hour * HOUR;
        assert_eq!(seid(&mut reader, at + 4, 2), Some(10 + hour));
        assert_eq!(seid(&mut reader, at + 5, 2), None);
        assert_eq!(seid(&mut reader, at, 0), Some(1));
        assert_eq!(seid(&mut reader, at, 1), None);
    }
    assert_eq!(seid(&mut reader, BEGIN + 90_001 * HOUR, 1), Some(2));
    assert_eq!(seid(&mut reader, BEGIN + 90_001 * HOUR, 0), Some(1));
}

#[test]
fn what_is_given_again_changes_nothing() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    let events = [
        assigned(BEGIN + 1, place(0), 1),
        released(BEGIN + 2, place(0)),
        assigned(BEGIN + 3, place(0), 2),
    ];
    log.append(&events).unwrap();
    assert_eq!(log.unknown(), 0);
    log.append(&events).unwrap();
    log.append(&[released(BEGIN + 9, place(5))]).unwrap();
    assert_eq!(log.unknown(), 1);
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    let seen = [0, 1, 2, 3, 4].map(|at| seid(&mut reader, BEGIN + at, 0));
    assert_eq!(seen, [None, Some(1), None, Some(2), Some(2)]);
}

#[test]
fn a_file_that_is_not_one_of_a_log_is_named() {
    let scratch = Scratch::new();
    drop(NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap());
    let name = scratch.files().remove(0);
    let path = scratch.path().join(&name);
    for octets in [&b""[..], b"no database", &[0; 100_000], &[0xff; 8_192]] {
        std::fs::write(&path, octets).unwrap();
        let opened = NatLog::open(scratch.path(), hourly(), BEGIN, &[]);
        let error = opened.err().expect("refused").to_string();
        assert!(error.starts_with(&name), "{error}");
        let asked = NatLogReader::open(scratch.path())
            .unwrap()
            .at(BEGIN, VrfId(3), place(0).address, 1);
        let error = asked.expect_err("refused").to_string();
        assert!(error.starts_with(&name), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    let opened = NatLog::open(scratch.path(), hourly(), BEGIN, &[]);
    let error = opened.err().expect("refused").to_string();
    assert!(
        error.starts_with(&name) && error.ends_with("a regular file"),
        "{error}"
    );
}

#[test]
fn two_processes_do_not_write_one_log() {
    let scratch = Scratch::new();
    let (_log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    match NatLog::open(scratch.path(), hourly(), BEGIN, &[]).err() {
        Some(LogError::Disk(error)) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        other => panic!("{other:?}"),
    }
}

/// A process that the tests start again, as `PART`.
fn other_process(scratch: &Scratch, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_part_that_another_process_has", "--nocapture"])
        .env("NATLOG_PART", part)
        .env("NATLOG_PATH", scratch.path());
    command
}

/// Does nothing unless another test starts it.
#[test]
fn a_part_that_another_process_has() {
    let (Ok(part), Ok(path)) = (std::env::var("NATLOG_PART"), std::env::var("NATLOG_PATH")) else {
        return;
    };
    let path = std::path::Path::new(&path);
    if part == "ask" {
        let mut reader = NatLogReader::open(path).unwrap();
        for number in 0..3 {
            println!("held by {:?}", seid(&mut reader, BEGIN + 5, number));
        }
    } else {
        let (mut log, _) = NatLog::open(path, hourly(), BEGIN, &[]).unwrap();
        for number in 0..40 {
            log.append(&[assigned(BEGIN + 1, place(number), number.into())])
                .unwrap();
        }
        // Two files are open then.
        log.append(&[assigned(BEGIN - HOUR, place(100), 100)]).unwrap();
        // As a crash: nothing is closed.
        std::process::abort();
    }
}

#[test]
fn another_process_asks_the_log_that_is_written() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    for number in 0..3 {
        assert_eq!(seid(&mut reader, BEGIN + 5, number), None);
        log.append(&[assigned(BEGIN + 1, place(number), (number + 1).into())])
            .unwrap();
        assert_eq!(seid(&mut reader, BEGIN + 5, number), Some((number + 1).into()));
        let answer = other_process(&scratch, "ask").output().unwrap();
        let answer = String::from_utf8(answer.stdout).unwrap();
        let held = answer.matches("held by Some").count();
        assert_eq!(held, usize::from(number) + 1, "{answer}");
    }
}

#[test]
fn a_crash_loses_nothing_that_was_confirmed() {
    let scratch = Scratch::new();
    let ended = other_process(&scratch, "write").output().unwrap();
    assert!(!ended.status.success());
    // Of the 40 sessions 30 are still there, and one has another block, too.
    let mut open: Vec<_> = (0..30)
        .map(|number| assignment(BEGIN + 1, place(number), number.into()))
        .collect();
    open.push(assignment(BEGIN + 500, place(60), 5));
    let later = BEGIN + 2 * HOUR;
    let (mut log, reconciled) = NatLog::open(scratch.path(), hourly(), later, &open).unwrap();
    let expected = Reconciled {
        kept: 30,
        closed: 11,
        added: 1,
        gap: Some(Gap {
            from_ms: BEGIN + 1,
            to_ms: Some(later),
            lost: 0,
        }),
    };
    assert_eq!(reconciled, expected);
    let mut seen = |at, number| {
        let of = place(number);
        let answer = log.at(at, VrfId(3), of.address, of.first).unwrap();
        let found = answer?.found?;
        Some((found.assignment.holder.seid, found.until_ms))
    };
    assert_eq!(seen(BEGIN + 1, 29), Some((29, None)));
    assert_eq!(seen(later, 29), Some((29, None)));
    // They ended when something was written last.
    assert_eq!(seen(BEGIN - HOUR, 100), Some((100, None)));
    assert_eq!(seen(BEGIN + 1, 39), None);
    assert_eq!(seen(BEGIN, 60), None);
    assert_eq!(seen(BEGIN + 500, 60), Some((5, None)));
    assert_eq!(seen(later, 60), Some((5, None)));
}

/// A block is of another size in the same period.
#[test]
fn sizes_of_blocks_may_change() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    let (large, small) = (block(1, 1_024, 9), block(1, 1_280, 8));
    log.append(&[
        assigned(BEGIN + 1, large, 1),
        released(BEGIN + 2, large),
        assigned(BEGIN + 3, small, 2),
    ])
    .unwrap();
    let mut seen = |at, port| {
        let answer = log.at(BEGIN + at, VrfId(3), large.address, port).unwrap();
        Some(answer?.found?.assignment.holder.seid)
    };
    assert_eq!((seen(1, 1_024), seen(1, 1_280)), (Some(1), Some(1)));
    assert_eq!((seen(3, 1_279), seen(3, 1_280)), (None, Some(2)));
}

#[test]
fn many_events_are_one_step() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    let events: Vec<Event> = (0..20_000u64)
        .map(|number| {
            let (address, place) = ((number / 120) as u8, (number % 120) as u16);
            assigned(BEGIN + number, block(address, 1_024 + 512 * place, 9), number)
        })
        .collect();
    log.append(&events).unwrap();
    // More than are taken over at once.
    log.mark(BEGIN + HOUR).unwrap();
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    for number in [0, 119, 120, 16_383, 16_384, 19_999] {
        let of = block((number / 120) as u8, 1_024 + 512 * (number % 120) as u16, 9);
        let answer = reader.at(BEGIN + HOUR, VrfId(3), of.address, of.first).unwrap();
        assert_eq!(
            answer.unwrap().found.map(|found| found.assignment),
            Some(assignment(BEGIN + number, of, number))
        );
    }
}

/// What the log says of a port of a place at a time: the session, and the gap that has the time.
fn told(log: &mut NatLog, at: u64, number: u16) -> (Option<u64>, Option<Gap>, bool) {
    let of = place(number);
    let answer = log.at(at, VrfId(3), of.address, of.first).unwrap().unwrap();
    let is_around = answer.is_held_around_gap;
    (
        answer.found.map(|found| found.assignment.holder.seid),
        answer.gap,
        is_around,
    )
}

#[test]
fn lost_events_are_a_gap_until_all_that_is_held_is_reported() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    let events: Vec<Event> = (0..3)
        .map(|number| assigned(BEGIN + 1, place(number), number.into()))
        .collect();
    log.append(&events).unwrap();
    // 0 is released, and 1 goes to session 9: none of it is in the log.
    log.lose(BEGIN + 10, 3).unwrap();
    let gap = |to_ms, lost| {
        Some(Gap {
            from_ms: BEGIN + 10,
            to_ms,
            lost,
        })
    };
    assert_eq!(told(&mut log, BEGIN + 9, 0), (Some(0), None, false));
    assert_eq!(told(&mut log, BEGIN + 10, 0), (Some(0), gap(None, 3), false));
    // It continues in the next file, where more is lost.
    log.append(&[assigned(BEGIN + HOUR + 1, place(5), 5)]).unwrap();
    log.lose(BEGIN + HOUR + 2, 1).unwrap();
    assert_eq!(scratch.files().len(), 2);
    let held = |number: u16, seid| Event::Held(assignment(BEGIN + HOUR + 20, place(number), seid));
    log.append(&[held(1, 9), held(2, 2)]).unwrap();
    // Reported before the second loss, and not behind it: it has ended.
    assert_eq!(log.end_gap(BEGIN + HOUR + 30).unwrap(), 2);
    assert_eq!(log.end_gap(BEGIN + HOUR + 31).unwrap(), 0);
    let whole = gap(Some(BEGIN + HOUR + 30), 4);
    for at in [BEGIN + 10, BEGIN + HOUR - 1, BEGIN + HOUR, BEGIN + HOUR + 29] {
        assert_eq!(told(&mut log, at, 2).1, whole, "{at}");
    }
    assert_eq!(told(&mut log, BEGIN + 700, 2), (Some(2), whole, true));
    assert_eq!(told(&mut log, BEGIN + 700, 0), (None, whole, false));
    // The file of the hour in which the gap began has no end of it: 9 was reported in the next one.
    assert_eq!(told(&mut log, BEGIN + 700, 1), (Some(1), whole, false));
    let later = BEGIN + HOUR + 30;
    assert_eq!(
        [0, 1, 2, 5].map(|number| told(&mut log, later, number)),
        [
            (None, None, false),
            (Some(9), None, false),
            (Some(2), None, false),
            (None, None, false)
        ]
    );
    assert_eq!(told(&mut log, BEGIN + 9, 1), (Some(1), None, false));
}

/// The clock is set back, and is right again later.
#[test]
fn a_crash_and_an_earlier_clock_are_a_gap_until_a_later_time() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    log.append(&[assigned(BEGIN + 1, place(0), 1)]).unwrap();
    log.mark(BEGIN + 100).unwrap();
    drop(log);
    let earlier = BEGIN - 2 * HOUR + 7;
    let (mut log, found) = NatLog::open(scratch.path(), hourly(), earlier, &[]).unwrap();
    let gap = |to_ms| {
        Some(Gap {
            from_ms: earlier,
            to_ms,
            lost: 0,
        })
    };
    assert_eq!((found.closed, found.gap), (1, gap(None)));
    // Before the log began still nothing is known.
    let reader = NatLogReader::open(scratch.path()).unwrap();
    assert_eq!(reader.known().unwrap(), Some(BEGIN..=BEGIN + 100));
    assert_eq!(told(&mut log, BEGIN + 99, 0), (Some(1), gap(None), false));
    log.mark(BEGIN + 100).unwrap();
    assert_eq!(told(&mut log, BEGIN + 100, 0), (None, gap(None), false));
    log.mark(BEGIN + 110).unwrap();
    let whole = gap(Some(BEGIN + 110));
    for at in [earlier, BEGIN - 1, BEGIN + 109] {
        assert_eq!(told(&mut log, at, 0).1, whole, "{at}");
    }
    assert_eq!(told(&mut log, BEGIN + 110, 0), (None, None, false));
    // Events are lost in such a gap.
    drop(log);
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN + 105, &[]).unwrap();
    log.lose(BEGIN + 107, 1).unwrap();
    log.mark(BEGIN + 120).unwrap();
    assert_eq!(told(&mut log, BEGIN + 105, 0).1.map(|gap| gap.to_ms), Some(None));
    log.end_gap(BEGIN + 130).unwrap();
    for at in [105, 106, 107, 129] {
        let gap = told(&mut log, BEGIN + at, 0).1.unwrap();
        assert_eq!(gap.to_ms, Some(BEGIN + 130), "{at}");
    }
    assert_eq!(told(&mut log, BEGIN + 130, 0).1, None);
}

#[test]
fn an_end_in_order_leaves_no_gap() {
    let scratch = Scratch::new();
    let (mut log, first) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    assert_eq!(first.gap, None);
    log.append(&[assigned(BEGIN + 1, place(0), 1)]).unwrap();
    log.end(BEGIN + 20).unwrap();
    let (mut log, found) = NatLog::open(scratch.path(), hourly(), BEGIN + 50, &[]).unwrap();
    assert_eq!((found.closed, found.gap), (1, None));
    assert_eq!(told(&mut log, BEGIN + 19, 0), (Some(1), None, false));
    assert_eq!(told(&mut log, BEGIN + 20, 0), (None, None, false));
    // The end before says nothing of this one.
    drop(log);
    let (_, found) = NatLog::open(scratch.path(), hourly(), BEGIN + 90, &[]).unwrap();
    let gap = Gap {
        from_ms: BEGIN + 50,
        to_ms: Some(BEGIN + 90),
        lost: 0,
    };
    assert_eq!(found.gap, Some(gap));
}

/// Makes a file one of another version, without the table of gaps.
fn set_version(scratch: &Scratch, version: u64) {
    let path = scratch.path().join(scratch.files().remove(0));
    let database = (0..500).find_map(|_| {
        let opened = redb::Database::create(&path).ok();
        if opened.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        opened
    });
    let database = database.unwrap();
    let mut change = database.begin_write().unwrap();
    change.set_quick_repair(true);
    let about = redb::TableDefinition::<&str, u64>::new("about");
    change
        .open_table(about)
        .unwrap()
        .insert("version", version)
        .unwrap();
    let gaps = redb::TableDefinition::<u64, (u64, u64)>::new("gaps");
    assert!(change.delete_table(gaps).unwrap());
    change.commit().unwrap();
}

#[test]
fn files_of_the_version_before_are_read_and_later_ones_are_refused() {
    let scratch = Scratch::new();
    let (mut log, _) = NatLog::open(scratch.path(), hourly(), BEGIN, &[]).unwrap();
    log.append(&[assigned(BEGIN + 1, place(0), 1)]).unwrap();
    drop(log);
    set_version(&scratch, 1);
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    assert_eq!(seid(&mut reader, BEGIN + 1, 0), Some(1));
    let (mut log, found) = NatLog::open(scratch.path(), hourly(), BEGIN + 50, &[]).unwrap();
    assert_eq!(found.gap.map(|gap| gap.from_ms), Some(BEGIN + 1));
    log.lose(BEGIN + 60, 1).unwrap();
    drop((log, reader));
    set_version(&scratch, LogError::VERSION + 1);
    let mut reader = NatLogReader::open(scratch.path()).unwrap();
    for error in [
        NatLog::open(scratch.path(), hourly(), BEGIN + 90, &[])
            .err()
            .unwrap(),
        reader
            .at(BEGIN + 1, VrfId(3), place(0).address, 1_024)
            .unwrap_err(),
    ] {
        assert!(
            error
                .to_string()
                .ends_with("is of version 3; this build reads versions 1 to 2"),
            "{error}"
        );
    }
}
