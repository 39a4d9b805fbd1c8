//! DPDK's `rte_acl` as a partner: a classifier of 5-tuples that shares no code with ours. It runs in a process of its
//! own, which `rte_acl.c` is, compiled when it is first asked for. Where that fails, so does what asks.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use packet::tuple::proto;

use super::UserPacket;
use super::long_lists::AclEntry;

/// Where its program is.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(compile);

/// Its options to DPDK: no huge pages, no devices, no rights, nothing that another process sees.
const OPTIONS: [&str; 8] = [
    "--no-huge",
    "--no-shconf",
    "--no-pci",
    "--no-telemetry",
    "--log-level=error",
    // What one compiled for this processor may use. By itself DPDK stays at 256.
    "--force-max-simd-bitwidth=512",
    "-m",
    "1024",
];

/// A table of rules, and packets to be looked up in it.
#[derive(Debug)]
pub struct RteAcl {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    packets: usize,
    /// What it took to build the table, without reading the rules.
    pub build_ns: f64,
    /// What it takes, without the rules that it is of.
    pub octets: f64,
}

impl RteAcl {
    /// A table of the entries of rules in the order of matching, and these packets, all of one IP version.
    ///
    /// # Panics
    /// If there is no C compiler or no DPDK, or if `rte_acl` builds no table.
    pub fn new(entries: &[AclEntry], packets: &[UserPacket], is_ipv4: bool) -> Self {
        let mut process = Command::new(&*PROGRAM)
            .args(OPTIONS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program that was just compiled");
        let questions = process.stdin.take().expect("it is piped");
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut acl = Self {
            process,
            questions,
            answers,
            packets: packets.len(),
            build_ns: 0.0,
            octets: 0.0,
        };
        acl.ask(&input(entries, packets, is_ipv4));
        let built = acl.answer();
        let (build_ns, octets) = built.split_once(' ').expect("two numbers");
        acl.build_ns = build_ns.parse().expect("a number");
        acl.octets = octets.parse().expect("a number");
        acl
    }

    /// For each packet the rule that it matches, 0 for none.
    pub fn matches(&mut self) -> Vec<u32> {
        self.ask("match\n");
        (0..self.packets)
            .map(|_| self.answer().parse().expect("a number"))
            .collect()
    }

    /// Nanoseconds of a lookup, `batch` packets to a call, over the first `distinct` packets.
    pub fn lookup_ns(&mut self, batch: usize, distinct: usize) -> f64 {
        self.ask(&format!("time {batch} {distinct}\n"));
        self.answer().parse().expect("a number")
    }

    fn ask(&mut self, question: &str) {
        let asked = self.questions.write_all(question.as_bytes());
        asked
            .and_then(|()| self.questions.flush())
            .expect("it takes its input");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("text");
        assert!(line.ends_with('\n'), "rte_acl ends: {:?}", self.process.wait());
        line.truncate(line.len() - 1);
        line
    }
}

impl Drop for RteAcl {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Rules and packets as the program reads them.
fn input(entries: &[AclEntry], packets: &[UserPacket], is_ipv4: bool) -> String {
    let version = if is_ipv4 { 4 } else { 6 };
    let mut text = format!("{version} {} {}\n", entries.len(), packets.len());
    let last = entries.last().map_or(0, |entry| entry.id);
    for entry in entries {
        let (from, to) = (entry.source_ports, entry.destination_ports);
        let _ = writeln!(
            text,
            "{} {} {} {} {} {} {} {} {}",
            entry.id,
            // The first of them counts.
            last - entry.id + 1,
            entry.protocol.map_or(-1, i32::from),
            entry.source,
            entry.destination,
            from.first(),
            from.last(),
            to.first(),
            to.last(),
        );
    }
    for packet in packets {
        let [from, to] = ports(packet);
        let _ = writeln!(text, "{} {} {} {from} {to}", packet.proto, packet.src, packet.dst);
    }
    text
}

/// The ports of a packet; 0 where it has none, as in fragments behind the first.
fn ports(packet: &UserPacket) -> [u16; 2] {
    let has_ports =
        [proto::TCP, proto::UDP, proto::UDP_LITE, proto::SCTP, proto::DCCP].contains(&packet.proto);
    match has_ports && !packet.is_later_fragment {
        true => [packet.src_port, packet.dst_port],
        false => [0; 2],
    }
}

/// Compiles the program into the folder of the one that runs.
fn compile() -> PathBuf {
    let own = std::env::current_exe().expect("the program has a path");
    let made = own.with_extension(format!("rte_acl.{}", std::process::id()));
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O3", "-Wall", "-Wextra"])
        // DPDK's headers are not ours to warn about.
        .args(pkg_config("--cflags").map(|flag| flag.replacen("-I", "-isystem", 1)))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testing/rte_acl.c"))
        .arg("-o")
        .arg(&made)
        .args(pkg_config("--libs-only-L"))
        .args(["-lrte_acl", "-lrte_eal"])
        .status();
    let is_made = status.is_ok_and(|status| status.success());
    assert!(is_made, "rte_acl.c was not compiled: run `tools/setup.sh build`");
    // Another process may run the one that was there.
    let program = own.with_extension("rte_acl");
    std::fs::rename(&made, &program).expect("both are in one folder");
    program
}

/// What pkg-config says of DPDK.
fn pkg_config(argument: &str) -> impl Iterator<Item = String> {
    let said = Command::new("pkg-config").args([argument, "libdpdk"]).output();
    let said = said.ok().filter(|said| said.status.success());
    let said = said.expect("DPDK was not found by pkg-config: run `tools/setup.sh build`");
    let text = String::from_utf8(said.stdout).expect("pkg-config speaks UTF-8");
    text.split_whitespace()
        .map(String::from)
        .collect::<Vec<_>>()
        .into_iter()
}
