"""kill -9 at many moments, while the four SMFs take sessions through their lives and users' packets flow.

The moments and what the SMFs do are drawn from a seed, which is printed: SLUICE_KILLS_SEED is another one, SLUICE_KILLS
more rounds. Requests that a kill interrupts are repeated (T1, N1) to the next process, as SMFs do. Some responses
to usage reports are lost, so that the reports come again, also from the next process."""
import ipaddress
import os
import random
import re
import select
import signal
import socket
import struct
import threading
import time

import pytest
from scapy.all import IP, UDP, Raw

from lab import API_CONFIGURATION, DN, GNB, N3, OTHER_GNB, UE_POOL, Lab, Script, eventually, shown

SEED = int(os.environ.get("SLUICE_KILLS_SEED", 1))
ROUNDS = int(os.environ.get("SLUICE_KILLS", 12))
STORED = API_CONFIGURATION.replace("release_wait_s: 0", "release_wait_s: 0, accept_cp_f_teids: true") \
    .replace("[n3]", "[n3, n9, n4u]") + "store: {{directory: \"{files}/store\"}}\n"
LOCAL = {"open5gs": "127.0.0.2", "free5gc": "127.0.0.3", "sdcore": "127.0.0.4", "oai": "127.0.0.5"}
NODES = {**LOCAL, "open5gs": "smf.open5gs.org", "oai": "oai-smf.oai.org"}
QFI = {"open5gs": 1, "free5gc": 1, "sdcore": 9, "oai": 9}
UPLINK_PDR = {"open5gs": "2", "sdcore": "1", "oai": "1"}
UE_PORT, DN_PORT, FLOW_PORT = 61001, 62001, 62002
ERROR_INDICATION, G_PDU, TEID_I = 26, 255, 16
# Octets of a packet of a user, and how often each user sends one.
OCTETS, TICK = 128, 0.05
# A checkpoint of each session is made once a second; the disk takes some time for it.
CHECKPOINT = 2.5
MOST_SESSIONS = 5
# What a repeated request is rejected with that the process before has executed: the session is gone, or a rule that it
# makes is there.
EXECUTED, RULE_FAILURE = {"establish": None, "delete": 65}, 73


class User:
    """A session, what its user has sent and got, and when that may not have been charged."""

    def __init__(self, name, seid, ue):
        self.name, self.seid, self.ue = name, seid, ue
        self.is_live = self.is_active = self.is_open = self.has_flow = self.is_forwarding = False
        # Whether all usage reports have reached the SMF: none was in a response that a kill has taken.
        self.is_told = True
        self.up, self.down = [], []  # when packets came
        self.idle = []               # from when to when the downlink waited
        self.charged = None

    def begin(self, teid):
        """It has been accepted, and has this tunnel."""
        self.teid = teid
        inner = bytes(IP(src=self.ue, dst=DN) / UDP(sport=UE_PORT, dport=DN_PORT) / Raw(bytes(OCTETS - 28)))
        self.packet = struct.pack("!BBHI3sBBBBB", 0x34, G_PDU, 8 + len(inner), teid, b"", 0x85, 1, 0x10,
                                  QFI[self.name], 0) + inner
        self.is_live = self.is_open = True


class Traffic(threading.Thread):
    """All users, gNBs and the server, which sends back what it gets."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.server = lab.dn_udp_socket(DN, DN_PORT)
        self.gnbs = [lab.gnb_socket(address) for address in (GNB, OTHER_GNB)]
        for sock in (self.server, *self.gnbs):
            sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        self.users, self.by_ue, self.by_teid, self.by_downlink = [], {}, {}, {}
        self.refused, self.stop = [], threading.Event()

    def add(self, user):
        self.by_ue[user.ue], self.by_teid[user.teid] = user, user
        self.users.append(user)

    def run(self):
        due = time.monotonic()
        while not self.stop.is_set():
            ready = select.select([self.server, *self.gnbs], [], [], max(0, due - time.monotonic()))[0]
            for sock in ready:
                (self.serve if sock is self.server else self.take)(sock)
            if time.monotonic() >= due:
                due = time.monotonic() + TICK
                for user in [user for user in self.users if user.is_live]:
                    self.gnbs[0].sendto(user.packet, (N3, 2152))

    def serve(self, server):
        payload, (address, port) = server.recvfrom(2000)
        user = self.by_ue[address]
        user.up.append(time.monotonic())
        if user.is_live and user.is_active:
            server.sendto(payload, (address, port))

    def take(self, gnb):
        datagram = gnb.recv(2000)
        if datagram[1] == ERROR_INDICATION:
            return self.refuse(datagram)
        user = self.by_downlink.get(int.from_bytes(datagram[4:8]))
        if datagram[1] == G_PDU and user:
            user.down.append(time.monotonic())

    def refuse(self, datagram):
        """An Error Indication: its first IE is the TEID, behind the extension header of the UDP port."""
        place = 12 + 4 * datagram[12]
        assert datagram[place] == TEID_I
        user = self.by_teid.get(int.from_bytes(datagram[place + 1:place + 5]))
        if user and user.is_live:
            self.refused.append((user.name, user.seid, time.monotonic()))


class Life(threading.Thread):
    """One SMF, which does something with one of its sessions at a time."""

    def __init__(self, lab, name, traffic, kills):
        super().__init__(daemon=True)
        self.smf = Script(lab.upf, name, LOCAL[name], "-t1", "300ms", "-n1", "60", "-lost", "0.3", "-seed", str(SEED))
        self.name, self.traffic, self.kills = name, traffic, kills
        self.random = random.Random(f"{SEED} {name}")
        self.users, self.ended, self.executed, self.fault = [], [], [], None
        self.begun = self.interrupted = 0
        self.go, self.rests, self.stop = threading.Event(), threading.Event(), threading.Event()
        self.go.set()

    def run(self):
        try:
            while not self.stop.is_set():
                if not self.go.is_set():
                    self.rests.set()
                    self.go.wait(0.05)
                    continue
                self.rests.clear()
                self.step()
                time.sleep(self.random.uniform(0, 0.1))
        except BaseException as fault:
            self.fault = fault
        finally:
            self.rests.set()

    def step(self):
        if not self.users or len(self.users) < MOST_SESSIONS and self.random.random() < 0.4:
            return self.establish()
        user = self.random.choice(self.users)
        self.random.choice(self.possible(user))(user)

    def possible(self, user):
        """What can be done with a session."""
        if not user.is_active:
            return [self.activate, self.activate, self.activate, self.delete]
        ways = [self.handover, self.idle, self.delete]
        if self.name == "open5gs":
            ways += [self.flow, self.forward, self.grant]
        if self.name == "free5gc":
            ways += [self.flow, self.query]
        if self.name == "sdcore":
            ways += [self.gate]
        return ways

    def ask(self, op, user, **fields):
        """Does something. A request that a kill has interrupted may have been executed already by the process before, whose
        response is lost: what it makes or ends is there or gone then."""
        kills = len(self.kills)
        self.begun += 1
        try:
            answer = self.smf(op, seid=user.seid, **fields)
        except RuntimeError as refused:
            cause = re.search(r"cause (\d+)", str(refused))
            if len(self.kills) == kills or not cause or int(cause[1]) != EXECUTED.get(op, RULE_FAILURE):
                raise
            self.executed.append((self.name, op, int(cause[1])))
            answer = None
        if len(self.kills) != kills:
            self.interrupted += 1
            user.is_told &= op not in ("query", "delete")
        return answer

    def establish(self):
        self.smf.seids += 1
        number = list(LOCAL).index(self.name)
        place = 16 * 256 * number + self.smf.seids
        user = User(self.name, self.smf.seids, str(ipaddress.ip_network(UE_POOL)[place]))
        tunnels = self.ask("establish", user, ue={"ipv4": user.ue})["tunnels"]
        tunnel = tunnels[UPLINK_PDR[self.name]] if self.name in UPLINK_PDR else next(iter(tunnels.values()))
        user.begin(tunnel["teid"])
        self.traffic.add(user)
        self.users.append(user)

    def tunnel(self, user, address):
        number = list(LOCAL).index(self.name)
        teid = (number + 1) << 24 | user.seid << 8 | int(address.split(".")[-1])
        self.traffic.by_downlink[teid] = user
        return {"address": address, "teid": teid}

    def activate(self, user):
        self.ask("activate", user, gnb=self.tunnel(user, GNB))
        if user.idle and len(user.idle[-1]) == 1:
            user.idle[-1].append(time.monotonic() + 0.5)
        user.is_active = True

    def handover(self, user):
        self.ask("handover", user, gnb=self.tunnel(user, self.random.choice([GNB, OTHER_GNB])))

    def idle(self, user):
        user.is_active = False
        user.idle.append([time.monotonic()])
        self.ask("idle", user)

    def flow(self, user):
        description = f"permit out 17 from {DN} {FLOW_PORT} to assigned"
        if not user.has_flow:
            self.ask("add_flow", user, description=description)
        elif self.random.random() < 0.5:
            return self.ask("change_flow", user, description=description)
        else:
            self.ask("remove_flow", user)
        user.has_flow = not user.has_flow

    def forward(self, user):
        if user.is_forwarding:
            self.ask("stop_forwarding", user)
        else:
            self.ask("forward", user, gnb={"address": OTHER_GNB, "teid": 0xF0000 + user.seid})
        user.is_forwarding = not user.is_forwarding

    def grant(self, user):
        self.ask("grant", user, octets=1 << 30)

    def query(self, user):
        self.ask("query", user)

    def gate(self, user):
        self.ask("gate", user, on=user.is_open)
        user.is_open = not user.is_open

    def delete(self, user):
        user.is_live = False
        answer = self.ask("delete", user)
        self.users.remove(user)
        self.ended.append(user)
        user.charged = answer and {usage["urr"]: usage for usage in answer["charged"]}


class Killed:
    """The laboratory, its four SMFs, and what has been killed."""

    def __init__(self):
        self.lab = Lab(os.environ["SLUICE"], "af_packet", workers=2, configuration=STORED)
        self.random, self.kills, self.logs = random.Random(SEED), [], []
        self.traffic = Traffic(self.lab)
        self.lives = [Life(self.lab, name, self.traffic, self.kills) for name in LOCAL]
        for life in self.lives:
            self.lab.stack.callback(life.smf.close)
            life.smf("associate")
        self.recovery = self.lives[0].smf("heartbeat")["recovery"]
        for thread in (self.traffic, *self.lives):
            thread.start()

    def close(self):
        for thread in (*self.lives, self.traffic):
            thread.stop.set()
            thread.join(30)
        self.lab.close()

    def kill(self):
        """Ends the process, and starts the next one."""
        self.kills.append(time.monotonic())
        self.lab.process.send_signal(signal.SIGKILL)
        self.lab.process.wait(15)
        self.logs.append(self.lab.said())
        time.sleep(self.random.choice([0, 0, 0.3]))
        self.lab._start(os.environ["SLUICE"])

    def round(self, number):
        """A kill while one of the SMFs waits for a response, now and then another one while sessions are restored."""
        life = self.lives[number % len(self.lives)]
        quiet = 3.5 if number % 3 == 2 else 0
        begun = life.begun + self.random.randrange(1, 8)
        wait = self.random.uniform(0, 0.02)
        time.sleep(quiet)
        eventually(lambda: life.begun >= begun or life.fault, f"{life.name} does nothing")
        time.sleep(wait)
        self.kill()
        if self.random.random() < 0.3:
            time.sleep(self.random.uniform(0, 0.2))
            self.kill()

    def rest(self):
        """Has all SMFs finish what they do, and do nothing more."""
        for life in self.lives:
            life.rests.clear()
            life.go.clear()
        for life in self.lives:
            assert life.rests.wait(30), f"{life.name} does not come to an end"
            if life.fault:
                raise life.fault

    def go(self):
        for life in self.lives:
            life.go.set()

    def shown(self):
        """The daemon's sessions, as soon as all are restored."""
        eventually(lambda: shown(self.lab)["sessions"]["absent"] == 0, "all sessions are restored")
        listed = shown(self.lab, "sessions", "--limit", "500")["sessions"]
        return sorted((one["node"], int(one["cp_seid"], 16)) for one in listed)

    def check(self):
        """Each session that was accepted is there, and carries packets; no other is."""
        assert self.traffic.is_alive()
        live = [user for life in self.lives for user in life.users]
        assert self.shown() == sorted((NODES[user.name], user.seid) for user in live)
        begun = time.monotonic()
        for user in live:
            if user.is_open:
                eventually(lambda: user.up and user.up[-1] > begun, f"{user.name} {user.seid} carries packets")
        assert self.traffic.refused == []
        assert self.lives[0].smf("heartbeat")["recovery"] == self.recovery
        store = shown(self.lab)
        assert (store["unreadable"], store["sessions"]["failed"], store["state"]) == (0, 0, "writing"), store
        for life in self.lives:
            assert life.smf("told")["contradictions"] == [], life.name


@pytest.fixture
def killed(request):
    made = Killed()
    yield made
    if request.session.testsfailed:
        print(*made.logs, made.lab.said(), sep="\n---\n")
    made.close()


# The URR of each SMF that counts the most, and its directions. Without: it has none.
COUNTED = {"open5gs": ["downlink"], "free5gc": ["uplink", "downlink"], "oai": ["uplink", "downlink"], "sdcore": []}


def bounds(times, user, kills):
    """The octets that came, and those of them that may not have been charged."""
    windows = [(kill - CHECKPOINT, kill + 0.5) for kill in kills]
    windows += [(begin, end[0] if end else time.monotonic()) for begin, *end in user.idle]
    excused = [at for at in times if any(begin <= at <= end for begin, end in windows)]
    return OCTETS * len(times), OCTETS * len(excused)


def check_charged(user, kills):
    """Nothing is charged twice, and no more is lost than what came since the last checkpoint."""
    if user.charged is None:
        return 0
    for direction in COUNTED[user.name]:
        charged = max((usage[direction] for usage in user.charged.values()), default=0)
        came, excused = bounds(user.up if direction == "uplink" else user.down, user, kills)
        said = (user.name, user.seid, direction, charged, came, excused)
        assert charged <= came, said
        assert charged >= came - excused or not user.is_told, said
    return 1


def test_sessions_of_four_smfs_outlive_kills_at_any_moment(killed):
    print(f"SLUICE_KILLS_SEED={SEED} SLUICE_KILLS={ROUNDS}")
    for number in range(ROUNDS):
        killed.round(number)
        killed.rest()
        killed.check()
        killed.go()
    killed.rest()
    for life in killed.lives:
        while life.users:
            life.delete(life.users[0])
    assert killed.shown() == []
    time.sleep(0.5)
    ended = [user for life in killed.lives for user in life.ended]
    compared = sum(check_charged(user, killed.kills) for user in ended)
    told = [life.smf("told") for life in killed.lives]
    assert all(one["contradictions"] == [] for one in told), told
    executed = [one for life in killed.lives for one in life.executed]
    print(f"{len(killed.kills)} kills, {sum(life.begun for life in killed.lives)} requests, "
          f"{sum(life.interrupted for life in killed.lives)} interrupted, executed before: {executed}; {compared} "
          f"sessions charged, {sum(one['repeated'] for one in told)} reports repeated")
    assert compared > 10
