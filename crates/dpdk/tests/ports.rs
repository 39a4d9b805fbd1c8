//! Ports to files and kernel interfaces, and what is said when one cannot be opened.
//!
//! The tests on kernel interfaces need root: each makes a network namespace of its own with a veth pair, runs the
//! example `port_echo` in it on one end, and lets the kernel ping it from the other.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use dpdk::testing::eal;
use dpdk::*;

fn pool(buffers: u32) -> Mempool {
    Mempool::new(eal(), PoolConfig::with_buffers(buffers)).unwrap()
}

/// A file of this test in the temporary folder, removed at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> TempFile {
        TempFile(std::env::temp_dir().join(format!("sluice-dpdk-{}-{name}", std::process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A capture file in the classic format, little-endian, Ethernet.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [1, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(frame);
    }
    file
}

/// The frames of such a file.
fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while let Some((header, body)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let (frame, next) = body.split_at(length);
        frames.push(frame.to_vec());
        rest = next;
    }
    frames
}

#[test]
fn a_pcap_port_reads_a_file_and_writes_one() {
    let (input, output) = (TempFile::new("in.pcap"), TempFile::new("out.pcap"));
    // The last frame is longer than a buffer: it comes as a chain.
    let sent: Vec<Vec<u8>> = [60, 61, 1514, 4000]
        .map(|length| vec![length as u8; length])
        .into();
    fs::write(&input.0, capture(&sent)).unwrap();
    let pool = pool(500);
    let spec = PortSpec::Pcap {
        rx: Some(input.0.clone()),
        tx: Some(output.0.clone()),
    };
    let mut port = Port::open(eal(), &spec).unwrap();
    let mut queues = port.start(&PortConfig::new(1, &pool)).unwrap();
    let mut burst = Burst::new();
    while queues.rx[0].rx_burst(&mut burst) > 0 {}
    let lengths: Vec<_> = burst.iter().map(|mbuf| (mbuf.len(), mbuf.is_chained())).collect();
    assert_eq!(lengths, [(60, false), (61, false), (1514, false), (4000, true)]);
    assert_eq!(queues.tx[0].tx_burst(&mut burst), 4);
    assert_eq!(port.stats().unwrap().tx_packets, 4);
    drop((port, queues));
    assert_eq!(frames(&fs::read(&output.0).unwrap()), sent);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_port_that_cannot_be_opened_says_why() {
    let refused = |spec| Port::open(eal(), &spec).unwrap_err().to_string();
    let text = refused(PortSpec::Pcap {
        rx: Some("/nonexistent/x.pcap".into()),
        tx: None,
    });
    assert!(
        text.starts_with("port pcap rx /nonexistent/x.pcap, tx none: cannot open:"),
        "{text}"
    );
    assert!(text.contains("No such file or directory"), "{text}");
    let text = refused(PortSpec::AfPacket {
        interface: "nope0".into(),
        queues: 1,
    });
    assert!(text.starts_with("port af_packet nope0: cannot open:"), "{text}");
    let why = if is_root() {
        "No such device"
    } else {
        "Operation not permitted"
    };
    assert!(text.contains(why), "{text}");
    let spec = PortSpec::AfXdp {
        interface: "nope0".into(),
        start_queue: 0,
        queues: 1,
        force_copy: false,
    };
    assert!(refused(spec).contains("Failed to get channel info of interface: nope0"));
}

#[test]
fn an_interface_that_is_no_ethernet_is_refused() {
    if !is_root() {
        println!("not run: only root can open a packet socket");
        return;
    }
    let spec = PortSpec::AfPacket {
        interface: "lo".into(),
        queues: 1,
    };
    match Port::open(eal(), &spec) {
        Err(Error::Config { field, value, bound }) => {
            assert_eq!((field, &value[..]), ("interface", "lo"));
            assert!(bound.contains("Ethernet"), "{bound}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_specification_that_cannot_be_is_refused_before_the_driver_sees_it() {
    let refused = |spec| match Port::open(eal(), &spec) {
        Err(Error::Config { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let af_packet = |interface: &str, queues| PortSpec::AfPacket {
        interface: interface.into(),
        queues,
    };
    for name in ["", "a,iface=b", "sixteen-letters-", "a b", "a/b"] {
        assert_eq!(refused(af_packet(name, 1)), "interface", "{name}");
    }
    assert_eq!(refused(af_packet("lo", 0)), "queues");
    assert_eq!(refused(af_packet("lo", 17)), "queues");
    assert_eq!(refused(PortSpec::Null { packet_size: 0 }), "packet_size");
    assert_eq!(
        refused(PortSpec::Pcap {
            rx: Some("a,tx_pcap=b".into()),
            tx: None
        }),
        "path"
    );
    assert_eq!(refused(PortSpec::Pcap { rx: None, tx: None }), "path");
    assert_eq!(
        refused(PortSpec::Pci {
            address: "0000:00:1f.0".parse().unwrap()
        }),
        "pci"
    );
}

#[test]
fn an_af_packet_port_answers_the_kernels_ping() {
    ping_through("af_packet", 1);
}

#[test]
fn an_af_packet_port_of_two_queues_answers_the_kernels_ping() {
    ping_through("af_packet", 2);
}

#[test]
fn an_af_xdp_port_answers_the_kernels_ping() {
    ping_through("af_xdp", 1);
}

#[test]
fn any_virtual_device_can_be_opened_but_not_twice() {
    let spec = PortSpec::Virtual {
        name: "net_null_any".into(),
        arguments: "size=100".into(),
    };
    let port = Port::open(eal(), &spec).unwrap();
    assert_eq!(port.capabilities().unwrap().driver, "net_null");
    let error = Port::open(eal(), &spec).unwrap_err();
    assert_eq!(
        error.to_string(),
        "port: net_null_any is not allowed: it is open already"
    );
    drop(port);
    Port::open(eal(), &spec).unwrap();
}

/// Whether this process may make network namespaces.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// A network namespace with a veth pair: `port0` for the port, `host0` with an address for the kernel.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Namespace {
        let namespace = Namespace(format!("sluice-{}-{name}", std::process::id()));
        ip(&["netns", "add", &namespace.0]);
        namespace.ip("link add port0 type veth peer name host0");
        namespace.ip("addr add 192.0.2.1/24 dev host0");
        namespace.ip("link set host0 up");
        namespace.ip("link set port0 up");
        namespace.ip("neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev host0");
        namespace
    }

    fn ip(&self, words: &str) {
        let words: Vec<&str> = ["-n", &self.0].into_iter().chain(words.split(' ')).collect();
        ip(&words);
    }

    fn command(&self, program: &str, arguments: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.0, program])
            .args(arguments.split(' '));
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(words: &[&str]) {
    let out = Command::new("ip")
        .args(words)
        .output()
        .expect("iproute2 is installed");
    assert!(
        out.status.success(),
        "ip {words:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// A running `port_echo`; it ends when its standard input closes, so with this test at the latest.
struct Echo {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Echo {
    fn start(namespace: &Namespace, arguments: &str) -> Echo {
        let mut path = std::env::current_exe().unwrap();
        path.pop();
        path.set_file_name("examples");
        path.push("port_echo");
        assert!(
            path.exists(),
            "the example port_echo is built by `cargo test` without `--test`"
        );
        let mut command = namespace.command(path.to_str().unwrap(), arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut echo = Echo { child, out };
        let mut line = String::new();
        echo.out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        echo
    }

    /// Ends it; returns what it said.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        text
    }
}

fn ping_through(kind: &str, queues: u16) {
    if !is_root() {
        println!("not run: only root can make a network namespace");
        return;
    }
    let namespace = Namespace::new(&format!("{kind}{queues}"));
    let echo = Echo::start(&namespace, &format!("{kind} port0 {queues}"));
    // More than there are buffers: each is used.
    let ping = namespace
        .command("ping", "-q -f -c 5000 -w 60 -s 1400 192.0.2.2")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ping.stdout);
    assert!(
        text.contains("5000 packets transmitted, 5000 received, 0% packet loss"),
        "{text}"
    );
    let flags = namespace.command("cat", "/sys/class/net/port0/flags").output();
    let said = echo.end();
    assert!(said.contains("tx_packets: 5000"), "{said}");
    if kind == "af_packet" {
        // A NIC passes the groups in which neighbours are asked for.
        let flags = String::from_utf8(flags.unwrap().stdout).unwrap();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
        assert_ne!(flags & libc::IFF_ALLMULTI as u32, 0, "{flags:#x}");
        // What it sends does not come in again.
        let received = said.split("rx_packets: ").nth(1).unwrap();
        let received: u32 = received.split(',').next().unwrap().parse().unwrap();
        assert!((5_000..5_100).contains(&received), "{said}");
        assert!(said.contains("\n0 buffers not given back"), "{said}");
    }
}
