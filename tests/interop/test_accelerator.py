"""`sluice accel` between a UPF and its links: what passes there is charged to the octet and keeps its order; the end of
either process, a link that goes, a wrong key and frames that come again cost what they may, and no more.

The suites of user plane, network, kernel ports and SMFs run over an accelerator, too (`lab.driver` is `accelerator`).
"""
import contextlib
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw
from scapy.utils import PcapReader

from accelerator import LINK_MTU, TO_ACCELERATOR, TO_HOST
from conftest import FAULTY, serve, tshark
from lab import API_CONFIGURATION, DN, UE4, Lab, Tunnel, eventually, shown

PORT = 9_700
SIZE = 400
# A packet each so often, seconds.
EVERY = 0.004
# Packets whose counts may be lost with the accelerator: what passes between two of its reports, ten times over.
LOST = 250
CONTROL, EXCEPTION = 0x88B5, 0x88B6
DISSECTOR = f"lua_script:{Path(__file__).parents[2]}/tools/wireshark/sluice_inband.lua"


class AcceleratorLab(Lab):
    # As long as it may be: on a machine with other work a process waits for a core.
    lost_after_ms = 2_000


@pytest.fixture(scope="module")
def lab(request):
    made = AcceleratorLab(os.environ["SLUICE"], "accelerator",
                          configuration=API_CONFIGURATION + "store: {{directory: {files}/store}}\n")
    yield from serve(request, made, made.associate)


@pytest.fixture
def gnb(lab):
    with lab.gnb_socket() as sock:
        yield sock


def offload(lab):
    [accelerator] = shown(lab, "offload")["accelerators"]
    return accelerator


class Stream:
    """Packets of a UE with numbers, one after the other: what has come to the data network, in order."""

    def __init__(self, lab, gnb, session):
        self.tunnel, self.ue = Tunnel(session, gnb), session["ue_ipv4"]
        self.server = lab.dn_udp_socket(DN, PORT)
        self.server.settimeout(0.2)
        self.came, self.at, self.sent = [], [], 0
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._receive)]

    def _send(self):
        while not self.is_over.is_set():
            payload = struct.pack("!I", self.sent) + bytes(SIZE - 32)
            self.tunnel.send(bytes(IP(src=self.ue, dst=DN) / UDP(sport=PORT, dport=PORT) / Raw(payload)))
            self.sent += 1
            time.sleep(EVERY)

    def _receive(self):
        quiet = False
        while not (quiet and self.is_over.is_set()):
            try:
                self.came.append(struct.unpack("!I", self.server.recv(2_000)[:4])[0])
                self.at.append(time.monotonic())
                quiet = False
            except TimeoutError:
                quiet = True

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join(10)
        self.server.close()

    def passes(self, packets=20):
        """Waits until that number more have come."""
        so_far = len(self.came)
        eventually(lambda: len(self.came) >= so_far + packets, "packets pass")


_ues = iter(range(4_000, 5_000))


def new_session(lab):
    return lab.smf.session(ue4=str(UE4[next(_ues)]))


def charged(lab, session):
    """What was reported until the session ends: octets to the data network."""
    last = lab.smf("delete", up_seid=session["up_seid"])["usage"]
    before = lab.smf("charged", seid=session["seid"])["charged"]
    return sum(usage["uplink"] for usage in before + last)


def is_away(lab):
    return eventually(lambda: offload(lab)["sessions"]["away"] > 0, "a session is at the accelerator")


def assert_in_order(stream):
    """Some are lost where a process or the link ends."""
    assert stream.came == sorted(set(stream.came)), "each packet once, and none behind a later one"


def test_what_passes_at_the_accelerator_is_charged_to_the_octet(lab, gnb):
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        is_away(lab)
        stream.passes(200)
    assert stream.came == list(range(stream.sent)), "none is lost, twice or out of order"
    assert charged(lab, session) == stream.sent * SIZE
    eventually(lambda: offload(lab)["sessions"]["returned"] >= 1, "the session came home")


def test_the_dissector_reads_what_is_on_the_link(lab, gnb):
    capture = lab.files / "link.pcap"
    with captured(lab, capture):
        session = new_session(lab)
        with Stream(lab, gnb, session) as stream:
            is_away(lab)
            stream.passes()
        charged(lab, session)
    options = ("-X", DISSECTOR)
    assert not tshark(capture, FAULTY, "frame.number", "_ws.expert.message", options=options)
    ours = f"eth.type == {CONTROL} || eth.type == {EXCEPTION}"
    read = tshark(capture, "sluice_control || sluice_exception", "frame.number", options=options)
    assert read == tshark(capture, ours, "frame.number", options=options) and len(read) > 20
    assert not tshark(capture, f"!({ours})", "frame.number", options=options), "there is nothing else on the link"


@contextlib.contextmanager
def captured(lab, file):
    process = lab.upf.popen("tcpdump", "-Z", "root", "--immediate-mode", "-U", "-i", TO_ACCELERATOR, "-w", str(file),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    try:
        yield
    finally:
        time.sleep(0.3)
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("_", range(3))
def test_a_kill_of_the_accelerator_loses_no_more_than_it_may(lab, gnb, _):
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        is_away(lab)
        stream.passes(100)
        lab.accelerator.kill()
        lab.accelerator.start()
        stream.passes(200)
        is_away(lab)
        stream.passes(100)
    assert_in_order(stream)
    passed = len(stream.came) * SIZE
    assert passed - LOST * SIZE <= charged(lab, session) <= passed


def test_a_link_that_goes_and_comes(lab, gnb):
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        is_away(lab)
        stream.passes(100)
        lab.accelerator.namespace.run(f"ip link set {TO_HOST} down")
        time.sleep(3)
        lab.accelerator.namespace.run(f"ip link set {TO_HOST} up")
        stream.passes(200)
        is_away(lab)
    assert_in_order(stream)
    # What passes until the accelerator misses its host is not counted.
    passed = len(stream.came) * SIZE
    uncounted = LOST + lab.lost_after_ms / 1_000 / EVERY
    assert passed - uncounted * SIZE <= charged(lab, session) <= passed


def test_the_link_of_one_of_its_ports(lab, gnb):
    """The UPF learns that it goes and comes: routers behind it are silent at once, and asked as soon as it is back."""
    def is_up(name):
        return {port["port"]: port["link"] for port in shown(lab, "ports")["ports"]}[name]

    session = new_session(lab)
    there = next(there for _, link, there in lab.links if link == "dn0")
    with Stream(lab, gnb, session) as stream:
        is_away(lab)
        stream.passes(100)
        lab.accelerator.namespace.run(f"ip link set {there} down")
        eventually(lambda: is_up("dn") is False, "the link is down")
        assert is_up("ran") and offload(lab)["contact"]
        lab.accelerator.namespace.run(f"ip link set {there} up")
        eventually(lambda: is_up("dn"), "the link is up")
        stream.passes(200)
        is_away(lab)
    log = lab.said()
    assert "link down" in log and "link up" in log
    assert stream.came == sorted(set(stream.came)), "none is twice or out of order"
    assert charged(lab, session) >= len(stream.came) * SIZE


def test_the_upf_restarts(lab, gnb):
    """Its sessions come back from its store; the accelerator has begun anew with the contact."""
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        is_away(lab)
        stream.passes(100)
        lab.process.send_signal(signal.SIGKILL)
        lab.process.wait(15)
        lab._start(os.environ["SLUICE"])
        stream.passes(200)
        is_away(lab)
    assert_in_order(stream)
    # A second's counts go with the process; what passes until the accelerator misses it is not counted either.
    passed = len(stream.came) * SIZE
    uncounted = LOST + (1 + lab.lost_after_ms / 1_000) / EVERY
    assert passed - uncounted * SIZE <= charged(lab, session) <= passed


def test_another_key_makes_no_contact(lab, gnb):
    session = new_session(lab)
    key = lab.accelerator.key.read_text()
    lab.accelerator.stop()
    lab.accelerator.write_key(secrets.token_hex(32))
    lab.accelerator.start()
    with Stream(lab, gnb, session) as stream:
        eventually(lambda: not offload(lab)["contact"], "contact is lost")
        time.sleep(2.5)
        assert not stream.came, "without contact nothing passes"
        assert not offload(lab)["contact"]
        there = lab.accelerator.stop()
        assert there["discarded"] > 0 and there["contacts"] == 0, there
        lab.accelerator.write_key(key.strip())
        lab.accelerator.start()
        stream.passes()
        is_away(lab)
    assert_in_order(stream)
    assert charged(lab, session) == len(stream.came) * SIZE


def test_control_frames_that_come_again_change_nothing(lab, gnb):
    capture = lab.files / "replayed.pcap"
    with Stream(lab, gnb, new_session(lab)) as stream:
        stream.passes(500)
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream, captured(lab, capture):
        is_away(lab)
        stream.passes(50)
        before = offload(lab)
        with PcapReader(str(capture)) as packets:
            frames = [bytes(packet) for packet in packets]
        frames = [frame for frame in frames if struct.unpack("!H", frame[12:14])[0] == CONTROL]
        host = lab.upf.run(f"cat /sys/class/net/{TO_ACCELERATOR}/address").stdout.strip().replace(":", "")
        assert len(frames) > 20
        for frame in frames:
            where, link = ((lab.upf, TO_ACCELERATOR) if frame[6:12].hex() == host
                           else (lab.accelerator.namespace, TO_HOST))
            with where.entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind((link, 0))
                raw.send(frame)
        stream.passes(100)
        after = offload(lab)
        assert after["contact"] and after["channel"]["contacts"] == before["channel"]["contacts"]
        assert sum(after["channel"]["discarded"].values()) > sum(before["channel"]["discarded"].values())
    assert stream.came == list(range(stream.came[0], stream.came[0] + len(stream.came)))
    assert charged(lab, session) == len(stream.came) * SIZE


def test_an_accelerator_is_checked_before_it_starts(lab, tmp_path):
    """Mistakes in its file, and a key that others can read, have words of their own."""
    def run(*arguments):
        done = lab.accelerator.namespace.popen(os.environ["SLUICE"], *arguments,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, said = done.communicate(timeout=30)
        return done.returncode, said or out

    def said(text, *options):
        file = tmp_path / "accel.yaml"
        file.write_text(text)
        return run("accel", "-c", str(file), *options)

    ports = ("ports:\n  - {name: a, driver: {memory: {}}, mtu: %d}\n  - {name: b, driver: {memory: {}}}\n" % LINK_MTU)
    status, words = said(f"link: {{port: c, key: {tmp_path}/key}}\n{ports}")
    assert status == 2 and "link.port: no port is named `c`" in words, words
    status, words = said(f"link: {{port: b, key: {tmp_path}/key}}\n{ports}")
    assert status == 2 and "has an MTU of 1500; packets of `a`" in words, words
    key = tmp_path / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o644)
    status, words = said(f"link: {{port: a, key: {key}}}\n{ports}")
    assert status == 2 and "others may read it" in words, words
    key.chmod(0o600)
    key.write_text("abcd")
    status, words = said(f"link: {{port: a, key: {key}}}\n{ports}")
    assert status == 2 and "the key has 2 octets, at least 32 are needed" in words, words
    key.write_text(secrets.token_hex(32))
    status, words = said(f"link: {{port: a, key: {key}}}\n{ports}", "--check")
    assert status == 0 and words.splitlines()[:2] == ["port 0     b, MTU 1500", f"link       a, MTU {LINK_MTU}, channel 0"], words
    # So does `sluice check` of the UPF's file.
    host = lab.accelerator.host_key
    for mode, wanted in ((0o644, 2), (0o600, 0)):
        host.chmod(mode)
        status, words = run("check", "-c", str(lab.files / "sluice.yaml"))
        assert status == wanted and ("others may read it" in words) == (wanted == 2), words


def test_the_accelerator_says_how_it_stands(lab, gnb):
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        stream.passes(50)
        seen = json.loads(lab.accelerator.shown("--json"))
        text = lab.accelerator.shown()
        metrics = subprocess.run(["curl", "-sS", "--unix-socket", lab.files / "accel.sock", "http://localhost/metrics"],
                                 capture_output=True, text=True, check=True).stdout
    own = lab.upf.run(f"cat /sys/class/net/{TO_ACCELERATOR}/address").stdout.strip()
    assert seen["host"] == own and seen["sessions"]["used"] >= 1 and seen["sessions"]["room"] == 100_000, seen
    assert seen["flows"]["used"] >= 1 and seen["path"]["flow_hits"] > 0 and 0 < seen["working_s"] < seen["uptime_s"], seen
    assert f"contact     with {own}" in text and "no_flow" in text, text
    checked = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    value = lambda name: float(next(line for line in metrics.splitlines() if line.startswith(f"{name} ")).split()[1])
    assert value("sluice_accel_up") == 1 and value("sluice_accel_flow_hits_total") >= seen["path"]["flow_hits"]


def test_a_trace_says_where_a_session_is(lab, gnb):
    session = new_session(lab)
    with Stream(lab, gnb, session) as stream:
        stream.passes()
        traced = lab.upf.popen(os.environ["SLUICE"], "trace", "--socket", str(lab.files / "control"), "--ue",
                               session["ue_ipv4"], "--count", "1", stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        # The first packet of the other direction: packets uplink have an entry there already.
        stream.server.sendto(bytes(40), (session["ue_ipv4"], PORT))
        out, _ = traced.communicate(timeout=30)
    assert "offload   the session is away" in out and "-> BACK      to the accelerator" in out, out
    assert "INTERPRETER DISAGREES" not in out


def test_zz_the_accelerator_says_what_it_counted(lab):
    """Runs last."""
    counted = lab.accelerator.stop()
    assert counted["path"]["flow_hits"] > 100 and counted["settled"] > 0, json.dumps(counted)
