#!/usr/bin/env python3
"""Overload of ports that are kernel interfaces (T14): goodput, and answers to GTP-U Echo Requests and ARP.

    SLUICE=target/release/sluice tests/interop/bench_overload.py [--driver af_xdp] ...

The laboratory is that of `bench_kernel_ports.py`. The XDP program that sends keeps to a rate, and sends Echo Requests and ARP
requests, 1,000 of each a second, between the user packets of the RAN's link. The one at the other ends notes when the
answers come, on the clock of the first: the delay is that of both queues, of both links and of the worker.

The greatest goodput is that of a worker without a backlog (`workers.backlog: 0`), whose port's queue overflows by itself, at
more than it takes. Then the daemon's defaults get 1, 2 and 4 times that, as far as the generator makes it. Offered is what
the generator sends, also what the link's own queue (256 frames of a veth) has no room for.
Needs root; takes about a minute.
"""
import argparse
import contextlib
import ctypes
import json
import random
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

from bench_kernel_ports import (CONFIGURATION, HEAD, MAP_LOOKUP, MAP_UPDATE, XDP_DROP, XDP_PASS, XDP_TX, Bench, Generator, array,
                                bpf, instruction, load, received)
from lab import GNB, N3

# Answers are not limited: all are to be seen.
ANSWERS = "gtpu: {{answers: {{per_source_s: 100000, others_s: 100000}}}}\n"
# The words of the program's state, each of 8 octets.
NEXT, DUE, GAP, SENT, URGENT_DUE, URGENT, ECHOES_BACK, ARPS_BACK, WORDS = (8 * word for word in range(9))
URGENT_GAP = 500_000
# What a generator that was away may make up for, nanoseconds.
MOST_BEHIND = 1_000_000
# Echo Requests have numbers of 16 bits.
NUMBERS = 1 << 16
KTIME, LOOK_UP = 5, 1


class Assembler:
    """eBPF with labels: a jump names one that comes later."""

    def __init__(self):
        self.code, self.jumps, self.labels = [], [], {}

    def add(self, *words, **fields):
        self.code.append(instruction(*words, **fields))

    def jump(self, code, label, dst=0, src=0, value=0):
        self.jumps.append((len(self.code), code, dst, src, value, label))
        self.code.append(b"")

    def label(self, name):
        self.labels[name] = len(self.code)

    def map(self, register, descriptor):
        self.add(0x18, register, 1, 0, descriptor)
        self.add(0)

    def look_up(self, descriptor, label):
        """r0 = the place of the value whose key is on the stack; jumps where there is none."""
        self.map(1, descriptor)
        self.add(0xBF, 2, 10)
        self.add(0x07, 2, value=-4)
        self.add(0x85, value=LOOK_UP)
        self.jump(0x15, label)

    def leave(self, outcome):
        self.add(0xB7, 0, value=outcome)
        self.add(0x95)

    def load(self):
        for at, code, dst, src, value, label in self.jumps:
            self.code[at] = instruction(code, dst, src, self.labels[label] - at - 1, value)
        return load(b"".join(self.code))


def paced(heads, state, times):
    """Puts the next of these heads on a frame when it is due, and sends it; the last two are those of requests."""
    a, users = Assembler(), len(heads) - 2
    heads = array(heads)
    a.add(0x61, 7, 1, 0)
    a.add(0x61, 8, 1, 4)
    a.add(0xBF, 2, 7)
    a.add(0x07, 2, value=HEAD)
    a.jump(0x2D, "drop", 2, 8)
    a.add(0x62, 10, 0, -4, 0)
    a.look_up(state, "drop")
    a.add(0xBF, 9, 0)
    a.add(0x85, value=KTIME)
    a.add(0xBF, 6, 0)
    # A request is due.
    a.add(0x79, 1, 9, URGENT_DUE)
    a.jump(0x2D, "user", 1, 6)
    a.add(0xBF, 1, 6)
    a.add(0x07, 1, value=URGENT_GAP)
    a.add(0x7B, 9, 1, URGENT_DUE)
    a.add(0x79, 8, 9, URGENT)
    a.add(0xBF, 1, 8)
    a.add(0x07, 1, value=1)
    a.add(0x7B, 9, 1, URGENT)
    a.add(0xBF, 1, 8)
    a.add(0x57, 1, value=1)
    a.add(0x07, 1, value=users)
    a.add(0x63, 10, 1, -4)
    a.look_up(heads, "drop")
    copy(a)
    # Every other one is an Echo Request: its number, and when it was sent.
    a.add(0xBF, 1, 8)
    a.add(0x57, 1, value=1)
    a.jump(0x55, "send", 1)
    a.add(0x77, 8, value=1)
    a.add(0x57, 8, value=NUMBERS - 1)
    a.add(0x63, 10, 8, -4)
    a.add(0xDC, 8, value=16)
    a.add(0x6B, 7, 8, 50)
    a.look_up(times, "drop")
    a.add(0x7B, 0, 6, 0)
    a.label("send")
    a.leave(XDP_TX)
    a.label("user")
    a.add(0x79, 1, 9, DUE)
    a.jump(0x2D, "drop", 1, 6)
    a.add(0x79, 2, 9, GAP)
    a.add(0x0F, 1, 2)
    a.add(0xBF, 3, 6)
    a.add(0x17, 3, value=MOST_BEHIND)
    a.jump(0x2D, "due", 1, 3)
    a.add(0xBF, 1, 3)
    a.label("due")
    a.add(0x7B, 9, 1, DUE)
    a.add(0x79, 1, 9, SENT)
    a.add(0x07, 1, value=1)
    a.add(0x7B, 9, 1, SENT)
    a.add(0x79, 1, 9, NEXT)
    a.add(0x63, 10, 1, -4)
    a.add(0x07, 1, value=1)
    a.jump(0xA5, "next", 1, value=users)
    a.add(0xB7, 1)
    a.label("next")
    a.add(0x7B, 9, 1, NEXT)
    a.look_up(heads, "drop")
    copy(a)
    a.leave(XDP_TX)
    a.label("drop")
    a.leave(XDP_DROP)
    return a.load()


def copy(a):
    for at in range(0, HEAD, 8):
        a.add(0x79, 1, 0, at)
        a.add(0x7B, 7, 1, at)


def sink(state, times, delays):
    """Drops IPv4, and notes Echo Responses and ARP replies."""
    a = Assembler()
    a.add(0x61, 7, 1, 0)
    a.add(0x61, 8, 1, 4)
    a.add(0xBF, 2, 7)
    a.add(0x07, 2, value=42)
    a.jump(0x2D, "pass", 2, 8)
    a.add(0x69, 5, 7, 12)
    a.jump(0x15, "arp", 5, value=0x0608)
    a.jump(0x55, "pass", 5, value=0x0008)
    a.add(0xBF, 2, 7)
    a.add(0x07, 2, value=52)
    a.jump(0x2D, "drop", 2, 8)
    a.add(0x71, 5, 7, 23)
    a.jump(0x55, "drop", 5, value=17)
    a.add(0x69, 5, 7, 34)
    a.jump(0x55, "drop", 5, value=socket.htons(2152))
    a.add(0x71, 5, 7, 43)
    a.jump(0x55, "drop", 5, value=2)
    a.add(0x69, 5, 7, 50)
    a.add(0xDC, 5, value=16)
    a.add(0x63, 10, 5, -4)
    a.look_up(times, "drop")
    a.add(0x79, 6, 0, 0)
    a.look_up(delays, "drop")
    a.add(0xBF, 9, 0)
    a.add(0x85, value=KTIME)
    a.add(0x1F, 0, 6)
    a.add(0x7B, 9, 0, 0)
    count(a, state, ECHOES_BACK, "drop")
    a.label("drop")
    a.leave(XDP_DROP)
    a.label("arp")
    a.add(0x69, 5, 7, 20)
    a.jump(0x55, "pass", 5, value=0x0200)
    count(a, state, ARPS_BACK, "pass")
    a.label("pass")
    a.leave(XDP_PASS)
    return a.load()


def count(a, state, word, otherwise):
    a.add(0x62, 10, 0, -4, 0)
    a.look_up(state, otherwise)
    a.add(0xB7, 1, value=1)
    a.add(0xDB, 0, 1, word)


def look_up(descriptor, number, octets):
    key, value = ctypes.create_string_buffer(struct.pack("<I", number), 4), ctypes.create_string_buffer(octets)
    bpf(MAP_LOOKUP, struct.pack("<IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(value), 0))
    return value.raw


def update(descriptor, number, value):
    key, value = ctypes.create_string_buffer(struct.pack("<I", number), 4), ctypes.create_string_buffer(value, len(value))
    bpf(MAP_UPDATE, struct.pack("<IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(value), 0))


def echo_request(frame):
    """With the addresses of a user's packet."""
    gtpu = struct.pack(">BBHIHBB", 0x32, 1, 4, 0, 0, 0, 0)
    udp = struct.pack(">HHHH", 2152, 2152, 8 + len(gtpu), 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(gtpu), 0, 0x4000, 64, 17, 0, frame[26:30], frame[30:34])
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + ip[12:]
    return (frame[:14] + ip + udp + gtpu).ljust(HEAD, b"\0")


def arp_request(frame):
    addresses = frame[6:12] + socket.inet_aton(GNB) + bytes(6) + socket.inet_aton(N3)
    return (b"\xff" * 6 + frame[6:12] + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + addresses).ljust(HEAD, b"\0")


class Overload(Bench):
    configuration = CONFIGURATION + ANSWERS

    def __init__(self, options, files, stack):
        self.state, self.times, self.delays = array([bytes(WORDS)]), array([bytes(8)] * NUMBERS), array([bytes(8)] * NUMBERS)
        super().__init__(options, files, stack)

    def sink(self):
        return sink(self.state, self.times, self.delays)

    def words(self):
        return dict(zip(("next", "due", "gap", "sent", "urgent_due", "urgent", "echoes", "arps"),
                        struct.unpack("<8Q", look_up(self.state, 0, WORDS))))

    def trial(self, rate):
        """What becomes of this many million packets a second."""
        for number in range(NUMBERS // 8):
            update(self.delays, number, bytes(8))
        update(self.state, 0, struct.pack("<8Q", 0, 0, int(1e3 / rate), 0, 0, 0, 0, 0))
        users = random.sample(self.frames["uplink"], len(self.frames["uplink"]))
        heads = [frame[:HEAD] for frame in users] + [echo_request(users[0]), arp_request(users[0])]
        generator = Generator(self.sim, "ran0", users[0], paced(heads, self.state, self.times), realtime=False)
        look = lambda: (self.words()["sent"], received(self.simulator.pid, "dn0"), time.monotonic())
        generator.start()
        time.sleep(0.7)
        before = look()
        time.sleep(self.options.seconds)
        offered, goodput, wall = (now - then for now, then in zip(look(), before))
        generator.stopped = True
        generator.join()
        time.sleep(0.3)
        words = self.words()
        delays = (struct.unpack("<Q", look_up(self.delays, number, 8))[0] for number in range((words["urgent"] + 1) // 2))
        delays = sorted(delay / 1e6 for delay in delays if delay)
        part = lambda share: delays[min(int(share * len(delays)), len(delays) - 1)] if delays else None
        return {"offered_mpps": offered / wall / 1e6, "goodput_mpps": goodput / wall / 1e6, "echoes": (words["urgent"] + 1) // 2,
                "echoes_answered": words["echoes"], "arps": words["urgent"] // 2, "arps_answered": words["arps"],
                "echo_p50_ms": part(0.5), "echo_p999_ms": part(0.999), "echo_worst_ms": part(1)}

    def median(self, rate):
        trials = [self.trial(rate) for _ in range(self.options.rounds)]
        return sorted(trials, key=lambda trial: trial["goodput_mpps"])[len(trials) // 2] | {"trials": trials}


def told(name, result, greatest):
    share = result["goodput_mpps"] / greatest
    print(f"{name:12} {result['offered_mpps']:.2f} Mpps offered, {result['goodput_mpps']:.3f} forwarded ({share:.2f} of the greatest); "
          f"echo {result['echoes_answered']} of {result['echoes']}, p50 {result['echo_p50_ms'] or 0:.3f} ms, "
          f"p99.9 {result['echo_p999_ms'] or 0:.3f} ms; ARP {result['arps_answered']} of {result['arps']}", flush=True)


def run(options, backlog, rates):
    """Trials of a daemon of its own: at each rate, by its name."""
    with contextlib.ExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Overload(argparse.Namespace(**vars(options), backlog=backlog), files, stack)
        bench.sluice()
        time.sleep(1)
        return {name: bench.median(rate) for name, rate in rates.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=("af_packet", "af_xdp"), default="af_packet")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=100, help="octets of a user packet")
    parser.add_argument("--seconds", type=float, default=2, help="of a trial")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--greatest", type=float, help="Mpps; absent: measured first")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # What was made goes when it is terminated, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = {"options": {name: str(value) for name, value in vars(options).items()}}
    greatest = options.greatest
    if not greatest:
        results["no backlog"] = run(options, 0, {"all": 20})["all"]
        greatest = results["no backlog"]["goodput_mpps"]
        told("no backlog", results["no backlog"], greatest)
    defaults = run(options, None, {f"{times}x": times * greatest for times in (1, 2, 4)})
    greatest = max(greatest, *(result["goodput_mpps"] for result in defaults.values()))
    for name, result in defaults.items():
        told(name, result, greatest)
    if options.json:
        options.json.write_text(json.dumps(results | {"defaults": defaults, "greatest_mpps": greatest}, indent=1) + "\n")


if __name__ == "__main__":
    main()
