#!/usr/bin/env python3
"""Processor time of a forwarded packet on ports that are kernel interfaces, beside testpmd's io mode on the same driver.

    SLUICE=target/release/sluice [TESTPMD=dpdk-testpmd] tests/interop/bench_kernel_ports.py [--driver af_xdp] ...

Two veth pairs join a namespace with a RAN and a data network to one with the forwarder. `sluice sim` sets the sessions up
and sends one packet of each and direction; these frames are then sent again, in random order, by an XDP program that the
kernel runs over and over (live frames, kernel 5.18), at more than any forwarder takes. At the other end an XDP program
drops them. The forwarder is one thread on CPU 1, the generator is on CPU 0.

Rates are of the wall clock, and of the forwarder's processor time (schedstat), which has the kernel's work on behalf of
what it sends, and on a veth the receiver's. Other load on the machine disturbs the first and hardly the second; compare
figures of one run alone. testpmd (Debian: dpdk-dev) forwards the frames as they come, with GTP-U headers or without.
Needs root; takes about a minute.
"""
import argparse
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from lab import DN, GNB, LIBC, N3, N6, UE_POOL, Namespace, sh

CONFIGURATION = """
node: {{id: 10.4.0.1}}
n4: {{addresses: [10.4.0.1], peers: [10.4.0.2/32]}}
workers: {{count: 1, cores: [1]{backlog}}}
ports:
  - {{name: ran, driver: {{{driver}: {{interface: n3{options}}}}}}}
  - {{name: dn, driver: {{{driver}: {{interface: n6}}}}}}
instances:
  - {{name: access, roles: [n3], port: ran, addresses: [{n3}/24]}}
  - {{name: internet, roles: [n6], port: dn, addresses: [{n6}/24], routes: [{{to: 0.0.0.0/0, via: {dn}}}]}}
"""
TESTPMD = os.environ.get("TESTPMD", "dpdk-testpmd")
LINKS = (("ran0", "n3", f"{GNB}/24"), ("dn0", "n6", f"{DN}/24"), ("smf0", "n4", "10.4.0.2/24"))
# By direction: where frames are sent, where they come in, where they arrive.
DIRECTIONS = {"uplink": ("ran0", "n3", "dn0"), "downlink": ("dn0", "n6", "ran0")}

BPF = 321  # the system call, x86-64
MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, PROG_LOAD, TEST_RUN, LINK_CREATE = 0, 1, 2, 5, 10, 28
ARRAY, XDP, ATTACH_XDP, LIVE_FRAMES = 2, 6, 37, 2
XDP_DROP, XDP_PASS, XDP_TX = 1, 2, 3
# Octets at the start of a frame that differ between sessions.
HEAD = 96
# Frames sent in the first call, and seconds that later ones take: the kernel needs some 30 ms between two.
FIRST, CALL_SECONDS = 100_000, 1.5
# Seconds in which a packet of each session has to be recorded.
RECORDING = 30


def instruction(code, dst=0, src=0, offset=0, value=0):
    return struct.pack("<BBhi", code, dst | src << 4, offset, value)


def bpf(command, attributes):
    """The bpf system call: a descriptor, or 0."""
    attributes = attributes.ljust(128, b"\0")
    result = LIBC.syscall(BPF, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf {command}: {os.strerror(ctypes.get_errno())}")
    return result


def load(program):
    code, licence = (ctypes.create_string_buffer(octets, len(octets)) for octets in (program, b"GPL\0"))
    return bpf(PROG_LOAD, struct.pack("<IIQQ", XDP, len(program) // 8, ctypes.addressof(code), ctypes.addressof(licence)))


def array(values):
    """A BPF array of values of one length."""
    made = bpf(MAP_CREATE, struct.pack("<IIII", ARRAY, 4, len(values[0]), len(values)))
    for number, value in enumerate(values):
        key, value = (ctypes.create_string_buffer(octets, len(octets)) for octets in (struct.pack("<I", number), value))
        bpf(MAP_UPDATE, struct.pack("<IIQQQ", made, 0, ctypes.addressof(key), ctypes.addressof(value), 0))
    return made


def drop_ipv4():
    """Drops IPv4, and lets the rest pass: ARP."""
    i = instruction
    return load(b"".join((
        i(0x61, 2, 1, 0), i(0x61, 3, 1, 4), i(0xBF, 4, 2), i(0x07, 4, value=14), i(0xB7, 0, value=XDP_PASS),
        i(0x2D, 4, 3, 3), i(0x69, 5, 2, 12), i(0x55, 5, offset=1, value=0x0008), i(0xB7, 0, value=XDP_DROP), i(0x95))))


def replay(heads):
    """Puts the next of these heads on each frame, and sends it."""
    i, count = instruction, len(heads)
    end = (i(0xB7, 0, value=XDP_DROP), i(0x95))

    def look_up(descriptor):
        return (i(0x18, 1, 1, 0, descriptor), i(0), i(0xBF, 2, 10), i(0x07, 2, value=-4), i(0x85, value=1),
                i(0x55, 0, offset=2), *end)

    copy = (step for at in range(0, HEAD, 8) for step in (i(0x79, 1, 0, at), i(0x7B, 7, 1, at)))
    return load(b"".join((
        i(0x61, 7, 1, 0), i(0x61, 8, 1, 4), i(0xBF, 2, 7), i(0x07, 2, value=HEAD), i(0xBD, 2, 8, 2), *end,
        i(0x62, 10, 0, -4, 0), *look_up(array([bytes(4)])),
        i(0x61, 9, 0), i(0xBF, 1, 9), i(0x07, 1, value=1), i(0xA5, 1, offset=1, value=count), i(0xB7, 1), i(0x63, 0, 1),
        i(0x63, 10, 9, -4), *look_up(array(heads)),
        *copy, i(0xB7, 0, value=XDP_TX), i(0x95))))


class Generator(threading.Thread):
    """Sends frames by an interface until it is stopped."""

    def __init__(self, namespace, link, frame, program, realtime):
        super().__init__(daemon=True)
        self.namespace, self.link, self.realtime, self.stopped = namespace, link, realtime, False
        self.frame = ctypes.create_string_buffer(frame, len(frame))
        self.program = program

    def run(self):
        os.sched_setaffinity(0, {0})
        if self.realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        with self.namespace.entered():
            index = socket.if_nametoindex(self.link)
            size = len(self.frame)
            context = ctypes.create_string_buffer(struct.pack("<6I", 0, size, 0, index, 0, 0), 24)
            repeat = FIRST
            while not self.stopped:
                begin = time.monotonic()
                bpf(TEST_RUN, struct.pack("<4IQQ4IQQ4I", self.program, 0, size, 0, ctypes.addressof(self.frame), 0, repeat,
                                          0, 24, 0, ctypes.addressof(context), 0, LIVE_FRAMES, 0, 64, 0))
                repeat = int(repeat * CALL_SECONDS / (time.monotonic() - begin))


def capture(namespace, link, key, wanted, frames):
    """Collects what is sent by an interface: one frame for each key."""
    with namespace.entered():
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        tap.bind((link, 0))
    tap.settimeout(8)
    deadline = time.monotonic() + RECORDING
    with tap, contextlib.suppress(TimeoutError):
        tap.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        while len(frames) < wanted and time.monotonic() < deadline:
            frame, address = tap.recvfrom(4096)
            if address[2] == socket.PACKET_OUTGOING and (name := key(frame)):
                frames.setdefault(name, frame)


def teid(frame):
    is_gtpu = frame[12:14] == b"\x08\0" and frame[23] == 17 and frame[36:38] == b"\x08\x68" and frame[43] == 255
    return frame[46:50] if is_gtpu else None


def ue(frame):
    return frame[30:34] if frame[12:14] == b"\x08\0" and frame[30:32] == bytes((10, 45)) else None


def received(pid, link):
    """Packets that an interface of this process's namespace has received."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        name, _, numbers = line.strip().partition(":")
        if name == link:
            return int(numbers.split()[1])
    raise RuntimeError(f"no {link}")


def thread(process, name):
    """The thread whose name has this in it."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return next(task for task in tasks if name in (task / "comm").read_text())


class Bench:
    configuration = CONFIGURATION

    def __init__(self, options, files, stack):
        self.options, self.files, self.stack = options, files, stack
        self.sim, self.upf = Namespace("sim"), Namespace("upf")
        stack.callback(self.upf.close)
        stack.callback(self.sim.close)
        for link, there, address in LINKS:
            self.sim.run(f"ip link add {link} type veth peer name {there} netns {self.upf.name}")
            self.sim.run(f"ip addr add {address} dev {link}")
            # What is recorded is to be complete.
            self.sim.run(f"ethtool -K {link} tx off")
            for namespace, name in ((self.sim, link), (self.upf, there)):
                namespace.run(f"sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1")
                namespace.run(f"ip link set {name} up")
            # Frames of an XDP program are taken by an interface that polls.
            self.upf.run(f"ethtool -K {there} gro on")
        self.upf.run("ip addr add 10.4.0.1/24 dev n4")
        self.sim.run(f"ip route add {UE_POOL} via {N6}")

    def popen(self, namespace, *command, log):
        process = namespace.popen(*command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def sluice(self):
        """Starts Sluice, sets the sessions up and records their frames, the first time alone."""
        options = ", force_copy: true" if self.options.driver == "af_xdp" else ""
        if getattr(self.options, "udp_segmentation", False):
            options += ", udp_segmentation: true"
        file, log = self.files / "sluice.yaml", self.files / "log"
        backlog = "" if self.options.backlog is None else f", backlog: {self.options.backlog}"
        file.write_text(self.configuration.format(
            driver=self.options.driver, options=options, backlog=backlog, n3=N3, n6=N6, dn=DN))
        with log.open("w") as out:
            process = self.popen(self.upf, os.environ["SLUICE"], "run", "-c", str(file), log=out)
        deadline = time.monotonic() + 30
        while "ready" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        found = {"uplink": {}, "downlink": {}}
        taps = [threading.Thread(target=capture, args=(self.sim, link, key, self.options.sessions, frames))
                for link, key, frames in (("ran0", teid, found["uplink"]), ("dn0", ue, found["downlink"]))]
        for tap in taps:
            tap.start()
        with (self.files / "sim").open("w") as out:
            words = (f"sim --upf-n4 10.4.0.1 --upf-n3 {N3} --smf 10.4.0.2 --gnb {GNB} --server {DN} --seconds 600 "
                     f"--sessions {self.options.sessions} --rate 8000 --size {self.options.size}")
            self.simulator = self.popen(self.sim, os.environ["SLUICE"], *words.split(), log=out)
        for tap in taps:
            tap.join()
        # Its sessions remain.
        self.simulator.send_signal(signal.SIGSTOP)
        self.frames = {direction: list(frames.values()) for direction, frames in found.items()}
        recorded = {direction: len(frames) for direction, frames in self.frames.items()}
        if min(recorded.values()) < 0.99 * self.options.sessions:
            raise RuntimeError(f"frames of too few sessions: {recorded}; {(self.files / 'sim').read_text()}")
        program = self.sink()
        with self.sim.entered():
            for link in ("ran0", "dn0"):
                bpf(LINK_CREATE, struct.pack("<4I", program, socket.if_nametoindex(link), ATTACH_XDP, 0))
        return process, thread(process, "worker")

    def sink(self):
        """The program at the far ends of the forwarder's links."""
        return drop_ipv4()

    def testpmd(self):
        copy = ",force_copy=1" if self.options.driver == "af_xdp" else ""
        devices = (f"--vdev=net_{self.options.driver}{number},iface={link}{copy}" for number, link in enumerate(("n3", "n6")))
        words = ("--no-huge -m 512 --no-pci --lcores 0@0,1@1 --file-prefix", f"sluice{os.getpid()}", *devices,
                 "-- --forward-mode=io --auto-start --total-num-mbufs=16384 --rxd=1024 --txd=1024")
        with (self.files / "testpmd").open("w") as out:
            process = self.popen(self.upf, TESTPMD, *" ".join(words).split(), log=out)
        deadline = time.monotonic() + 20
        while "Checking link" not in (self.files / "testpmd").read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.files / "testpmd").read_text())
            time.sleep(0.1)
        return process, thread(process, "worker-1")

    def measure(self, forwarder, direction):
        """Packets a second of wall clock, and nanoseconds of the forwarder's processor time a packet."""
        process, task = forwarder
        sent, _, arrives = DIRECTIONS[direction]
        # The namespace's processes are children of `ip`, which has become them.
        frames = random.sample(self.frames[direction], len(self.frames[direction]))
        program = replay([frame[:HEAD] for frame in frames])
        generator = Generator(self.sim, sent, frames[0], program, self.options.realtime)
        look = lambda: (received(self.simulator.pid, arrives), int((task / "schedstat").read_text().split()[0]),
                        time.monotonic_ns())
        if self.options.realtime:
            sh(f"chrt -f -p 2 {task.name}")
        generator.start()
        time.sleep(0.5)
        before = look()
        time.sleep(self.options.seconds)
        packets, cpu, wall = (now - then for now, then in zip(look(), before))
        generator.stopped = True
        generator.join()
        if self.options.realtime:
            sh(f"chrt -o -p 0 {task.name}")
        if not packets:
            raise RuntimeError(f"nothing was forwarded {direction}")
        return 1e3 * packets / wall, cpu / packets

    def rounds(self, name, start):
        forwarder = start()
        time.sleep(1)
        figures = {direction: [self.measure(forwarder, direction) for _ in range(self.options.rounds)]
                   for direction in DIRECTIONS}
        forwarder[0].terminate()
        forwarder[0].wait(15)
        megahertz = next(float(line.split(":")[1]) for line in Path("/proc/cpuinfo").read_text().splitlines()
                         if line.startswith("cpu MHz"))
        result = {}
        for direction, taken in figures.items():
            wall, cpu = (statistics.median(column) for column in zip(*taken))
            spread = f"{min(cpu for _, cpu in taken):.0f} to {max(cpu for _, cpu in taken):.0f}"
            result[direction] = {"mpps": wall, "cpu_ns": cpu, "cpu_ns_of_rounds": [cpu for _, cpu in taken]}
            print(f"{name:22} {direction:9} {wall:.3f} Mpps; {cpu:.0f} ns ({spread}), {cpu * megahertz / 1e3:.0f} cycles "
                  f"of processor time a packet: {1e3 / cpu:.3f} Mpps a core", flush=True)
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=("af_packet", "af_xdp"), default="af_packet")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=100, help="octets of a user packet")
    parser.add_argument("--seconds", type=float, default=2, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--udp-segmentation", action="store_true", help="of the port to the RAN (af_packet)")
    parser.add_argument("--backlog", type=int, help="workers.backlog; absent: the daemon's default")
    parser.add_argument("--realtime", action="store_true", help="both threads before others of the machine (SCHED_FIFO)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # What was made goes when it is terminated, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(options, files, stack)
        ours = bench.rounds(f"Sluice {options.driver}", bench.sluice)
        results = {"options": {name: str(value) for name, value in vars(options).items()}, "sluice": ours}
        if not shutil.which(TESTPMD):
            print(f"no {TESTPMD}: nothing to compare with")
        else:
            theirs = results["testpmd"] = bench.rounds(f"testpmd io {options.driver}", bench.testpmd)
            for direction in DIRECTIONS:
                ratio = theirs[direction]["cpu_ns"] / ours[direction]["cpu_ns"]
                print(f"Sluice / testpmd io    {direction:9} {ratio:.2f} of its packets a processor second")
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
