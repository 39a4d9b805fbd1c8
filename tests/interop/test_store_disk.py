"""What a daemon makes of a disk that is full, and of a log that is damaged, of another node or of another version."""
import hashlib
import http.client
import os
import re
import signal
import socket
import struct
import subprocess
import time

import pytest

from lab import API_CONFIGURATION, DN, N4, PATIENCE, Lab, Tunnel, eventually, sh, shown
from test_store import STORE, reaches_dn, restart

MIB = 1 << 20
# The reserve of 64 MiB, what must be free besides for it to be made again, and room for a short log.
ROOM = 96 * MIB
ALARM_HOLD = 10
RECORD_MAGIC, VALUE, SESSIONS = b"SlRc", 1, 4
# A daemon with other ports and addresses.
OTHER_PROCESS = """
node: {{id: 127.0.0.8}}
n4: {{addresses: [127.0.0.77]}}
store: {{directory: "{files}/store"}}
control: {{socket: "{files}/other"}}
ports: [{{name: ran, driver: {{memory: {{}}}}}}]
instances: [{{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}]
"""
SYSTEM_FAILURE, UNKNOWN_SESSION = "cause 77", "cause 65"


class SmallDisk(Lab):
    """A laboratory whose store has a file system of its own."""

    def _wire(self):
        self.store = self.files / "store"
        self.store.mkdir(mode=0o750)
        sh(f"mount -t tmpfs -o size={ROOM},mode=750 tmpfs {self.store}")
        self.stack.callback(sh, f"umount -l {self.store}")
        super()._wire()

    def fill(self):
        """Another file takes all the room that is left."""
        with open(self.store / "other", "wb", buffering=0) as file:
            for size in (MIB, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def make_room(self):
        (self.store / "other").unlink()


class Sessions:
    """Sessions that the UPF has accepted, and not deleted."""

    def __init__(self, lab):
        self.lab, self.live, self.number = lab, [], 0

    def establish(self):
        self.number += 1
        self.live.append(self.lab.smf.session(ue4=f"10.45.{9 + self.number // 250}.{self.number % 250 + 1}"))

    def is_refused(self):
        """Whether another one is refused because of the disk."""
        try:
            self.establish()
        except RuntimeError as refused:
            assert SYSTEM_FAILURE in str(refused)
            if "gnb" in str(refused):
                self.delete_without_gnb()
            return True
        return False

    def delete_without_gnb(self):
        """Deletes the session that was accepted just before the disk was full, and whose modification was not."""
        known = {one["up_seid"] for one in self.live}
        listed = {int(one["seid"], 16) for one in shown(self.lab, "sessions")["sessions"]}
        [seid] = listed - known
        self.lab.smf("delete", up_seid=seid)

    def delete(self, count):
        gone, self.live = self.live[:count], self.live[count:]
        for session in gone:
            self.lab.smf("delete", up_seid=session["up_seid"])
        return gone

    def check(self, server, gnb, port):
        """They are all that there are, and each carries packets both ways."""
        eventually(lambda: shown(self.lab)["sessions"]["absent"] == 0, "all sessions are restored")
        listed = shown(self.lab, "sessions")["sessions"]
        assert sorted(int(one["seid"], 16) for one in listed) == sorted(one["up_seid"] for one in self.live)
        for session in self.live:
            assert reaches_dn(Tunnel(session, gnb), session["ue_ipv4"], server, port), session


def metric(lab, name):
    """A metric of the daemon's API, which is at a socket of the file system."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(lab.files / "control"))
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def alarms(lab):
    return [one["alarm"] for one in shown(lab, "alarms")["alarms"]]


@pytest.fixture
def small_disk(request):
    made = SmallDisk(os.environ["SLUICE"], "af_packet", workers=2, configuration=STORE)
    made.associate()
    yield made
    if request.session.testsfailed:
        print(made.said())
    made.close()


def assert_failing(lab, sessions):
    assert sessions.is_refused()
    assert shown(lab)["state"] == "failing" and shown(lab)["error"]
    said = subprocess.run([os.environ["SLUICE"], "show", "store", "--socket", str(lab.files / "control")],
                          capture_output=True, text=True, check=True)
    assert "FAILING" in said.stdout
    assert metric(lab, "sluice_store_failing") == 1
    eventually(lambda: "store_failing" in alarms(lab), "the alarm is raised")


def test_a_full_disk_stops_new_sessions_and_nothing_else(small_disk):
    sessions = Sessions(small_disk)
    for _ in range(20):
        sessions.establish()
    with small_disk.dn_udp_socket(DN, 9002) as server, small_disk.gnb_socket() as gnb:
        small_disk.fill()
        # Some have room in what was written ahead; what meets the full disk is still written, in the room of the reserve.
        assert any(sessions.is_refused() for _ in range(1000))
        assert_failing(small_disk, sessions)
        for session in sessions.live[:3]:
            with pytest.raises(RuntimeError, match=SYSTEM_FAILURE):
                small_disk.smf("qfi", up_seid=session["up_seid"], qfi=7)
        gone = sessions.delete(len(sessions.live) - 15)
        sessions.check(server, gnb, 9002)
        assert "session store:" in small_disk.said()

        restart(small_disk)
        sessions.check(server, gnb, 9002)
        for session in gone:
            with pytest.raises(RuntimeError, match=UNKNOWN_SESSION):
                small_disk.smf("delete", up_seid=session["up_seid"])
        assert_failing(small_disk, sessions)
        gone = sessions.delete(5)

        small_disk.make_room()
        eventually(lambda: shown(small_disk)["state"] == "writing", "the disk takes sessions again")
        assert metric(small_disk, "sluice_store_failing") == 0 and shown(small_disk)["reserve_octets"] == 64 * MIB
        for _ in range(5):
            sessions.establish()
        small_disk.smf("qfi", up_seid=sessions.live[0]["up_seid"], qfi=sessions.live[0]["qfi"])
        restored = time.monotonic()
        while "store_failing" in alarms(small_disk):
            assert time.monotonic() < restored + ALARM_HOLD + PATIENCE, "the alarm is cleared"
            time.sleep(0.2)
        restart(small_disk)
        sessions.check(server, gnb, 9002)


@pytest.fixture(scope="module")
def stored():
    """A laboratory with ten sessions in its store."""
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=STORE)
    lab.associate()
    lab.sessions = Sessions(lab)
    for _ in range(10):
        lab.sessions.establish()
    yield lab
    lab.close()


@pytest.fixture
def stopped(stored, request):
    """The same while its daemon has been killed; it is as it was before once the test has ended."""
    stored.process.kill()
    stored.process.wait(15)
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in (stored.files / "store").iterdir()}
    configuration = stored.configuration
    yield stored
    if request.session.testsfailed:
        print(stored.said())
    if stored.process.poll() is None:
        stored.process.kill()
        stored.process.wait(15)
    stored.configuration = configuration
    for path in (stored.files / "store").iterdir():
        path.unlink()
    for path, (octets, mode) in before.items():
        path.write_bytes(octets)
        path.chmod(mode)
    start(stored)


def start(lab):
    lab._start(os.environ["SLUICE"])


def segments(lab):
    return sorted((lab.files / "store").glob("store-*.log"))


def digest(lab):
    """What is in the store, but for the reserve."""
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in segments(lab)]


def records(lab):
    """The records of sessions in the log: where they are, how long they are, and whose."""
    for path in segments(lab):
        octets = path.read_bytes()
        for place in range(64, len(octets) - 32, 8):
            if octets[place:place + 4] != RECORD_MAGIC:
                continue
            kind, table, _, _, value, head, identifier = struct.unpack_from("!BBHQIHH", octets, place + 4)
            if kind == VALUE and table == SESSIONS:
                yield path, place, 32 + identifier + head + value, octets[place + 32:place + 32 + identifier]


def crc32c(octets):
    """CRC-32C (RFC 3385)."""
    register = 0xFFFFFFFF
    for octet in octets:
        register ^= octet
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def refused(lab, why):
    """The daemon does not start, says why, and leaves the log as it is."""
    before = digest(lab)
    with pytest.raises(RuntimeError, match=why):
        start(lab)
    assert lab.process.wait(15) not in (0, -signal.SIGSEGV, -signal.SIGABRT)
    assert digest(lab) == before


def test_the_log_of_another_node_is_refused(stopped):
    stopped.configuration = STORE.replace("node: {{id: {n4}}}", "node: {{id: 127.0.0.99}}")
    refused(stopped, f"session store.*another node, {re.escape(N4)}")


def test_a_log_of_another_version_is_refused(stopped):
    path = segments(stopped)[-1]
    octets = bytearray(path.read_bytes())
    octets[9] += 1
    octets[60:64] = struct.pack("!I", crc32c(octets[:60]))
    path.write_bytes(octets)
    refused(stopped, f"{path.name}: is of version 3; this build reads versions 1 to 2: a newer Sluice wrote it")


@pytest.mark.parametrize("spoil, why", [
    (lambda path: path.chmod(0o666), "mode 0666; expected"),
    (lambda path: os.chown(path, 65534, 65534), "user 65534"),
    (lambda path: (path.parent).chmod(0o777), "mode 0777; expected"),
], ids=["mode", "owner", "directory"])
def test_a_log_that_others_may_write_is_refused(stopped, spoil, why):
    spoil(segments(stopped)[-1])
    try:
        refused(stopped, why)
    finally:
        (stopped.files / "store").chmod(0o750)


def test_a_directory_that_another_process_has_is_refused(stopped):
    start(stopped)
    file = stopped.files / "other.yaml"
    file.write_text(OTHER_PROCESS.format(files=stopped.files))
    other = stopped.upf.popen(os.environ["SLUICE"], "run", "-c", str(file), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    said, _ = other.communicate(timeout=30)
    assert other.returncode and "another process has it" in said


def has_all(lab, but=None):
    """The daemon has all sessions, perhaps without this one, by its SEID; those that are there can be used."""
    start(lab)
    eventually(lambda: shown(lab)["sessions"]["absent"] == 0, "all sessions are restored")
    have = {int(one["seid"], 16) for one in shown(lab, "sessions")["sessions"]}
    assert have | {but} == {one["up_seid"] for one in lab.sessions.live} | {but}
    with lab.dn_udp_socket(DN, 9003) as server, lab.gnb_socket() as gnb:
        for session in lab.sessions.live:
            if session["up_seid"] != but:
                assert reaches_dn(Tunnel(session, gnb), session["ue_ipv4"], server, 9003), session


def test_a_torn_tail_is_cut_off(stopped):
    """An unfinished write: octets behind the last record, which nothing has confirmed."""
    path, place, length, _ = list(records(stopped))[-1]
    torn = path.read_bytes()[place:place + length // 2]
    with open(segments(stopped)[-1], "ab") as file:
        file.write(torn)
    has_all(stopped)
    assert "cut off behind the last whole record" in stopped.said()
    assert "passed over" not in stopped.said()


def test_a_damaged_record_costs_its_session_alone(stopped):
    """The last record of a session, which is not the last one of the log: it is as it was before, or gone."""
    last = {identifier: found for *found, identifier in records(stopped)}
    identifier, (path, place, length) = list(last.items())[4]
    octets = bytearray(path.read_bytes())
    octets[place + length - 20] ^= 1
    path.write_bytes(octets)
    has_all(stopped, but=int.from_bytes(identifier))
    assert f"passed over: Damage {{ file: \"{path.name}\", offset: {place}" in stopped.said()
