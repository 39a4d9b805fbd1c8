//! Usage records: in the world, every octet is in one of them, however a session ends; as a process, they survive
//! `kill -9`.

use crate::support;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use flow::{Nanos, WorkerId};
use records::{EndCause, Entry, SessionEnd, Usage};
use session::Random;
use sim::report::Totals;
use sim::smf::{Smf, State};

use support::*;

const SESSIONS: u32 = 50;

/// A world with sessions that packets have crossed while buckets moved.
fn used(workers: u16, seed: u64) -> (World, Records, Totals) {
    let (mut world, records) = World::recording(workers, SESSIONS, seed);
    world.smf.start(world.now);
    world.until(State::Established);
    let mut random = Random::from_number(seed);
    let shards = world.shards();
    let totals = world.traffic_with(shards, Duration::from_millis(50), |world| {
        let sessions = world.control.endpoint().sessions();
        let some = sessions
            .iter()
            .nth(random.next_u32() as usize % SESSIONS as usize);
        if let Some(bucket) = some.map(|session| session.bucket()).filter(|_| workers > 1) {
            let to = WorkerId((random.next_u32() % u32::from(workers)) as u16);
            // Refused while another one is on its way.
            let _ = world.control.move_bucket(world.now, bucket, to);
        }
    });
    assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
    assert!(totals.uplink.received_octets > 0 && totals.downlink.received_octets > 0);
    (world, records, totals)
}

fn split(records: &Records) -> (Vec<Usage>, Vec<SessionEnd>) {
    let (mut usage, mut ends) = (Vec::new(), Vec::new());
    for entry in records.all() {
        match entry {
            Entry::Usage(one) => usage.push(*one),
            Entry::SessionEnd(one) => ends.push(*one),
            Entry::SessionStart(one) => assert!(!one.imported && one.urrs.len() == 1 && one.pdrs == 2),
            other => panic!("{other:?}"),
        }
    }
    (usage, ends)
}

/// That the usage records of all sessions have every octet that arrived, and that the record of each session's end has
/// them.
fn assert_exact(records: &Records, totals: &Totals, cause: EndCause) {
    let (usage, ends) = split(records);
    let sum = |of: fn(&Usage) -> u64| usage.iter().map(of).sum::<u64>();
    assert_eq!(sum(|one| one.volumes.ul_octets), totals.uplink.received_octets);
    assert_eq!(sum(|one| one.volumes.dl_octets), totals.downlink.received_octets);
    assert_eq!(ends.len(), SESSIONS as usize);
    let mut of_session: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for one in &usage {
        let (count, octets) = of_session.entry(one.subject.seid).or_default();
        (*count, *octets) = (*count + 1, *octets + one.volumes.total_octets);
        assert_eq!(one.subject.node, "upf.example");
        assert_eq!(one.subject.smf.as_deref(), Some("127.0.0.2"));
        assert_eq!(one.subject.instances, ["access", "internet"]);
        assert!(one.subject.ue[0].starts_with("10.45.0."), "{one:?}");
        assert!(one.start_ms <= one.end_ms && one.start_ms >= 1_700_000_000_000);
    }
    for end in &ends {
        let reported = (end.usage_records, end.volumes.total_octets);
        assert_eq!(of_session.get(&end.subject.seid), Some(&reported));
        assert_eq!(end.cause, cause);
    }
}

#[test]
fn of_sessions_that_are_deleted_every_octet_is_in_a_record() {
    for (workers, seed) in [(1, 50), (3, 51)] {
        let (mut world, records, totals) = used(workers, seed);
        world.smf.release(world.now);
        world.until(State::Released);
        assert_exact(&records, &totals, EndCause::Deleted);
    }
}

#[test]
fn of_abandoned_sessions_every_octet_is_in_a_record() {
    for (workers, seed) in [(1, 52), (3, 53)] {
        let (mut world, records, totals) = used(workers, seed);
        // Another life of the SMF sets its association up anew.
        let mut config = sim::smf::Config::new(N4_SMF.ip(), 1);
        config.profile.gnbs = vec![GNB.into()];
        config.started += 100;
        world.smf = Smf::new(config).expect("a good profile");
        world.smf.start(world.now);
        world.until(State::Established);
        while world.control.is_waiting() {
            world.step();
        }
        world.step();
        assert_exact(&records, &totals, EndCause::CpRestarted);
    }
}

/// First and last packet to the millisecond, within their measurement; the host's clock steps forward by an hour while
/// sessions are up, then back by two: what has been keeps its dates, what follows has later ones.
#[test]
fn times_are_exact_to_the_millisecond_and_follow_the_host() {
    const HOUR: u64 = 3_600_000;
    let started = 1_700_000_000_000;
    let (mut world, records) = World::recording(1, 4, 55);
    world.smf.start(world.now);
    world.until(State::Established);
    let ms = |now: Nanos| started + now.0 / 1_000_000;
    let shards = world.shards();
    let begin = ms(world.now);
    world.traffic(shards, Duration::from_millis(1_234));
    let end = ms(world.now);
    let host = |now: Nanos, ms: u64| (ms * 1_000_000) + now.0 % 1_000_000;
    let change = world
        .control
        .follow_wall(world.now, host(world.now, end + HOUR), 0);
    assert!(
        matches!(change, Some(session::WallChange::Stepped(_))),
        "{change:?}"
    );
    world.smf.release(world.now);
    world.until(State::Released);
    let (usage, _) = split(&records);
    assert_eq!(usage.len(), 4);
    for one in &usage {
        let (first, last) = (one.first_packet_ms.unwrap(), one.last_packet_ms.unwrap());
        assert!(
            one.start_ms <= first && (begin..begin + 200).contains(&first),
            "{begin} {one:?}"
        );
        assert!((end - 200..=end).contains(&last), "{end} {one:?}");
        assert!((end + HOUR..end + HOUR + 1_000).contains(&one.end_ms), "{one:?}");
    }
    // Set back: the times of what comes are no earlier than those reported.
    let reported = usage.iter().map(|one| one.end_ms).max().unwrap();
    let now = world.now;
    let change = world.control.follow_wall(now, host(now, ms(now) - HOUR), 0);
    assert!(
        matches!(change, Some(session::WallChange::Behind(_))),
        "{change:?}"
    );
    let mut config = sim::smf::Config::new(N4_SMF.ip(), 4);
    config.profile.gnbs = vec![GNB.into()];
    config.started += 100;
    world.smf = Smf::new(config).expect("a good profile");
    world.smf.start(world.now);
    world.until(State::Established);
    world.smf.release(world.now);
    world.until(State::Released);
    let (_, ends) = split(&records);
    let later = &ends[4..];
    assert_eq!(later.len(), 4);
    assert!(
        later
            .iter()
            .all(|one| one.start_ms >= reported && one.end_ms >= one.start_ms)
    );
}

#[test]
fn when_memory_is_full_new_sessions_are_refused() {
    let (mut world, records) = World::recording(1, 4, 54);
    records.is_full.store(true, std::sync::atomic::Ordering::Relaxed);
    world.smf.start(world.now);
    world.until(State::Established);
    let progress = world.smf.progress();
    assert_eq!((progress.up, progress.failed), (0, 4));
    assert_eq!(world.control.endpoint().sessions().count().sessions, 0);
}

/// A daemon with a directory for its records.
struct Daemon {
    process: Child,
    config: PathBuf,
    directory: PathBuf,
    errors: PathBuf,
    port: u16,
}

const PORT: u16 = 18_821;
/// That of the daemons whose sessions go from one to the other.
const HAND_OVER_PORT: u16 = 18_822;

impl Daemon {
    fn start(name: &str) -> Daemon {
        Daemon::with(name, PORT, &[])
    }

    fn with(name: &str, port: u16, arguments: &[&str]) -> Daemon {
        let at = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (config, directory) = (at.join(format!("{name}.yaml")), at.join(name));
        let text = format!(
            "node: {{id: 127.0.0.8}}\n\
             n4: {{addresses: [127.0.0.8], port: {port}, release_wait_s: 0}}\n\
             control: {{socket: {}.sock}}\n\
             records: {{directory: {}, sync_ms: 20}}\n\
             ports: [{{name: ran, driver: {{memory: {{}}}}}}]\n\
             instances:\n\
             \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\n\
             \x20 - {{name: internet, roles: [n6], port: ran, vlan: 6, addresses: [10.200.0.1/24],\n\
             \x20    routes: [{{to: 0.0.0.0/0, via: 10.200.0.254}}]}}\n",
            directory.display(),
            directory.display()
        );
        std::fs::write(&config, text).expect("a file");
        let errors = at.join(format!("{name}.err"));
        let process = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["run", "-c", config.to_str().expect("a path in UTF-8")])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&errors).expect("a file"))
            .spawn()
            .expect("the program starts");
        Daemon {
            process,
            config,
            directory,
            errors,
            port,
        }
    }

    /// When it says that it started: the Recovery Time Stamp of its answer to a heartbeat.
    fn recovery(&self) -> u32 {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 90), 0)).expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("a time");
        let request = [0x20, 1, 0, 12, 0, 0, 7, 0, 0, 96, 0, 4, 0xe0, 0, 0, 1];
        let mut octets = [0; 100];
        for _ in 0..300 {
            // Refused until the daemon listens.
            let _ = socket.send_to(&request, (Ipv4Addr::new(127, 0, 0, 8), self.port));
            if let Ok(length) = socket.recv(&mut octets) {
                assert_eq!((length, octets[1]), (16, 2), "{octets:?}");
                return u32::from_be_bytes(octets[12..16].try_into().expect("four octets"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no answer to a heartbeat: {}", self.said());
    }

    /// Lets its sessions go to a file.
    fn export(&self, file: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command
            .args(["sessions", "export"])
            .arg(file)
            .args(more)
            .arg("-c")
            .arg(&self.config);
        command.output().expect("the program starts")
    }

    fn records(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("records").args(arguments).arg("-c").arg(&self.config);
        command.output().expect("the program starts")
    }

    fn read(&self) -> Vec<serde_json::Value> {
        let output = self.records(&["read", "--json"]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// An SMF at the last octet's address, driven over the loopback until `is_over`.
    fn drive(&self, smf: &mut Smf, last: u8, mut is_over: impl FnMut(&Smf) -> bool) {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 8805)).expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("a time");
        let start = Instant::now();
        let mut octets = [0; 9_000];
        while !is_over(smf) {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "{:?}: {}",
                smf.state(),
                self.said()
            );
            let now = Nanos(start.elapsed().as_nanos() as u64);
            if smf.poll_timeout().is_some_and(|at| at <= now) {
                smf.handle_timeout(now);
            }
            while let Some(datagram) = smf.poll_transmit() {
                // Refused until the daemon listens.
                let _ = socket.send_to(&datagram, (Ipv4Addr::new(127, 0, 0, 8), self.port));
            }
            if let Ok(length) = socket.recv(&mut octets) {
                smf.handle(now, &octets[..length]);
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn smf(last: u8, sessions: u32) -> Smf {
    let mut config = sim::smf::Config::new([127, 0, 0, last].into(), sessions);
    config.profile.gnbs = vec![GNB.into()];
    config.profile.ue_ipv4 = [10, 45, last, 1].into();
    (config.t1, config.n1) = (Duration::from_secs(3), 20);
    Smf::new(config).expect("a good profile")
}

/// Establishes the sessions of the SMF at 127.0.0.`last`, and deletes them.
fn establish_and_release(daemon: &mut Daemon, last: u8, sessions: u32) {
    let mut smf = smf(last, sessions);
    smf.start(Nanos(0));
    daemon.drive(&mut smf, last, |smf| smf.state() == State::Established);
    let progress = smf.progress();
    assert_eq!(progress.up, sessions, "{progress:?}: {}", daemon.said());
    smf.release(Nanos(0));
    daemon.drive(&mut smf, last, |smf| smf.state() == State::Released);
}

#[test]
fn what_is_durable_survives_kill_9_and_the_rest_is_stated() {
    let name = "spool-of-a-killed-daemon";
    let _ = std::fs::remove_dir_all(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    let mut daemon = Daemon::start(name);
    // Each session leaves a record of its start, one of its URR and one of its end.
    establish_and_release(&mut daemon, 78, 40);
    let durable = 3 * 40;
    for _ in 0..3_000 {
        if daemon.read().len() == 1 + durable {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(daemon.read().len(), 1 + durable, "beside that of the process");
    let mut second = smf(79, 400);
    second.start(Nanos(0));
    daemon.drive(&mut second, 79, |smf| smf.state() == State::Established);
    second.release(Nanos(0));
    daemon.drive(&mut second, 79, |smf| smf.progress().up < 300);
    daemon.process.kill().expect("killed");
    daemon.process.wait().expect("a status");

    // The next process puts it right, and continues.
    let mut daemon = Daemon::start(name);
    establish_and_release(&mut daemon, 80, 10);
    let reported = Command::new("kill")
        .args(["-TERM", &daemon.process.id().to_string()])
        .status();
    assert!(reported.expect("kill runs").success());
    assert!(
        daemon.process.wait().expect("a status").success(),
        "{}",
        daemon.said()
    );

    let verified = daemon.records(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");
    let names: Vec<String> = std::fs::read_dir(&daemon.directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    assert!(!names.iter().any(|name| name.ends_with(".open")), "{names:?}");
    let records = daemon.read();
    let of = |last: u8| {
        let smf = format!("127.0.0.{last}");
        records.iter().filter(|one| one["session"]["smf"] == *smf).count()
    };
    assert_eq!((of(78), of(80)), (durable, 3 * 10));
    assert!(of(79) <= 3 * 400);
    let typed = |wanted: &str| records.iter().filter(|one| one["type"] == *wanted).count();
    assert_eq!(typed("process_start"), 2);
    // Those that were live at the kill have a start and no end.
    let open = typed("session_start") - typed("session_end");
    assert!(open >= 200, "{open}");
    let reported = daemon.records(&["open", "--json"]);
    assert_eq!(
        reported.stdout.iter().filter(|octet| **octet == b'\n').count(),
        open
    );
    let reported = daemon.records(&["open"]);
    let reported = String::from_utf8_lossy(&reported.stdout).into_owned();
    let orphans = reported
        .matches("its process ended without a record of its end")
        .count();
    assert_eq!(
        (orphans, reported.lines().count()),
        (open, open + 1),
        "{reported}"
    );
    let seqs: Vec<u64> = records
        .iter()
        .map(|one| one["seq"].as_u64().expect("a number"))
        .collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    // People and filters see them too.
    let ue = daemon.records(&["read", "--ue", "10.45.78.1"]);
    let text = String::from_utf8_lossy(&ue.stdout).into_owned();
    assert_eq!(
        text.lines().count(),
        4,
        "a head, the start, the usage and the end: {text}"
    );
    assert!(
        text.contains("TERMR") && text.contains("session ended: deleted"),
        "{text}"
    );
}

#[test]
fn sessions_continue_in_a_second_process_and_their_smf_sees_no_restart() {
    let (name, sessions) = ("spool-of-two-processes", 20);
    let at = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = at.join("sessions-of-two-processes");
    let taken = at.join("sessions-of-two-processes.taken");
    let _ = std::fs::remove_dir_all(at.join(name));
    [&file, &taken]
        .into_iter()
        .for_each(|path| drop(std::fs::remove_file(path)));
    let mut first = Daemon::with(name, HAND_OVER_PORT, &[]);
    let mut smf = smf(81, sessions);
    smf.start(Nanos(0));
    first.drive(&mut smf, 81, |smf| smf.state() == State::Established);
    let started = first.recovery();

    // What cannot be written does not leave, and neither does what is only copied.
    std::fs::write(&taken, b"of another owner").expect("a file");
    let refused = first.export(&taken, &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    std::fs::remove_file(&taken).expect("it is there");
    let copied = first.export(&taken, &["--copy"]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(std::fs::read(&taken).expect("a file").len() > 20 * 100);
    std::fs::remove_file(&taken).expect("it is there");
    assert_eq!(first.recovery(), started, "it lives");

    let exported = first.export(&file, &[]);
    assert!(exported.status.success(), "{exported:?} {}", first.said());
    let status = first.process.wait().expect("a status");
    assert!(status.success(), "{}", first.said());
    // A Recovery Time Stamp has seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    let path = file.to_str().expect("a path in UTF-8");
    let mut second = Daemon::with(name, HAND_OVER_PORT, &["--sessions", path]);
    assert_eq!(second.recovery(), started, "{}", second.said());
    assert!(!file.exists() && taken.exists(), "it is not taken in again");
    smf.release(Nanos(0));
    second.drive(&mut smf, 81, |smf| smf.state() == State::Released);
    let stopped = Command::new("kill")
        .args(["-TERM", &second.process.id().to_string()])
        .status();
    assert!(stopped.expect("kill runs").success());
    assert!(
        second.process.wait().expect("a status").success(),
        "{}",
        second.said()
    );

    let records = second.read();
    let typed = |wanted: &str| records.iter().filter(|one| one["type"] == *wanted).count();
    let all = sessions as usize;
    let (starts, lefts, ends) = (
        typed("session_start"),
        typed("session_left"),
        typed("session_end"),
    );
    assert_eq!((starts, lefts, ends), (2 * all, all, all), "{}", second.said());
    let imported = records.iter().filter(|one| one["imported"] == true).count();
    let deleted = records.iter().filter(|one| one["cause"] == "deleted").count();
    assert_eq!((imported, deleted), (all, all), "each deletion was accepted");
    let open = second.records(&["open", "--json"]);
    assert!(open.status.success() && open.stdout.is_empty(), "{open:?}");
    let verified = second.records(&["verify"]);
    assert!(verified.status.success(), "{verified:?}");

    // A damaged file is refused, not taken in by halves.
    let mut octets = std::fs::read(&taken).expect("a file");
    let last = octets.len() - 1;
    octets[last] ^= 1;
    std::fs::write(&file, &octets).expect("a file");
    let mut third = Daemon::with(name, HAND_OVER_PORT, &["--sessions", path]);
    let status = third.process.wait().expect("a status");
    assert_eq!(status.code(), Some(1));
    assert!(third.said().contains("check sum"), "{}", third.said());
    assert!(file.exists());
}

#[test]
fn a_damaged_record_is_found() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged-spool");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory");
    let lost = |seq: u64| {
        let mut line = Vec::new();
        let lost = records::Lost {
            time_ms: 1,
            first: 0,
            records: seq,
            cause: records::LossCause::NoRoom,
        };
        assert!(records::seal(seq, &Entry::Lost(lost), &mut line));
        line
    };
    let file = directory.join("usage-00000000000000000001.jsonl");
    let verify = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(["records", "verify", "-d"]).arg(&directory);
        let output = command.output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    std::fs::write(&file, lost(3)).expect("a file");
    assert_eq!(verify().0, Some(0));
    let mut damaged = lost(3);
    damaged[30] ^= 1;
    std::fs::write(&file, damaged).expect("a file");
    let (status, text) = verify();
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("its check sum is another") && text.contains("1 damaged"),
        "{text}"
    );
}
