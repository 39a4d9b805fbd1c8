"""Alarms about queues before ports: room for queues and for waiting packets that is nearly used up."""
import os
import time

import pytest

from lab import DN, EGRESS_CONFIGURATION, GNB, Lab, eventually, shown

QUEUES, PACKETS = 16, 512
# Sessions that are there may take of a reserve.
WITH_RESERVE = QUEUES + QUEUES // 4 + 64


@pytest.fixture
def small():
    """A laboratory whose UPF has room for few queues and packets."""
    lab = Lab(os.environ["SLUICE"], "af_packet",
              configuration=EGRESS_CONFIGURATION + f"  queues: {QUEUES}\n  packets: {PACKETS}\n")
    lab.associate()
    yield lab
    lab.close()


class Sessions:
    """Sessions that get their queues when their gNBs come to be known."""

    def __init__(self, lab, count):
        self.lab, self.with_queues = lab, 0
        self.all = [self._establish(number + 1) for number in range(count)]
        # Another session has another number.
        lab.smf.seids = count

    def _establish(self, number):
        wanted = {"seid": number, "ue_ipv4": f"10.45.30.{number}", "ue_ipv6": "", "qfi": 9, "access_instance": "access",
                  "core_instance": "internet", "gnb": GNB, "gnb_teid": 0x1000 + number, "mbr": 64}
        return {**wanted, **self.lab.smf("establish", session={**wanted, "gnb": ""})}

    def reach(self, count):
        """As many have gNBs then."""
        for session in self.all[self.with_queues:count]:
            self.lab.smf("gnb", up_seid=session["up_seid"], session=session)
        self.with_queues = count


def counts(lab):
    """Queues that sessions have, and directions of sessions that lack them."""
    queues = shown(lab, "queues")
    return queues["queues"], queues["lacking"]


def alarms(lab):
    return {(row["alarm"], row["object"]): row["severity"] for row in shown(lab, "alarms")["alarms"]}


def test_room_that_is_nearly_used_up_is_an_alarm_until_there_is_more(small):
    lab, near = small, ("egress_queues_near_limit", "0")
    sessions = Sessions(lab, WITH_RESERVE + 1)
    sessions.reach(QUEUES - 3)
    eventually(lambda: counts(lab) == (QUEUES - 3, 0), "the sessions have queues")
    assert not alarms(lab)
    sessions.reach(QUEUES - 1)
    eventually(lambda: alarms(lab) == {near: "warning"}, "the alarm is raised")
    # Beyond the limit no session is set up any more; those that are there grow, until nothing is left for them.
    sessions.reach(QUEUES + 1)
    eventually(lambda: counts(lab) == (QUEUES + 1, 0), "the sessions have queues")
    with pytest.raises(RuntimeError, match="cause 75"):
        lab.smf.session(ue4="10.45.32.2", mbr=64)
    sessions.reach(WITH_RESERVE)
    eventually(lambda: counts(lab) == (WITH_RESERVE, 0), "the sessions have queues")
    sessions.reach(WITH_RESERVE + 1)
    eventually(lambda: counts(lab) == (WITH_RESERVE, 1), "one has none")
    eventually(lambda: alarms(lab) == {near: "warning", ("egress_queues_lacking", "0"): "major"}, "the alarm is raised")
    assert not shown(lab, "session", str(sessions.all[-1]["up_seid"])).get("queues")

    # More than can leave at 64 kbit/s each, of so many that nearly all room is in use: each may have as much as is left.
    with lab.dn_udp_socket(DN, 0) as server:
        def is_full():
            for session in sessions.all[:32]:
                for _ in range(PACKETS // 32):
                    server.sendto(bytes(1000), (session["ue_ipv4"], 41000))
            return alarms(lab).get(("egress_pool_near_full", "0 packets")) == "minor"
        eventually(is_full, "the alarm is raised")
    dropped = lambda: {reason for row in shown(lab, "queues")["priorities"] for reason in row["dropped"]}
    eventually(lambda: dropped() & {"pool_full", "pool_share"}, "what found no room is counted")

    for session in sessions.all:
        lab.smf("delete", up_seid=session["up_seid"])
    eventually(lambda: counts(lab) == (0, 0), "no session has queues")
    # An alarm is over when its condition has been away for ten seconds, as long as is waited for anything here.
    time.sleep(6)
    eventually(lambda: len(alarms(lab)) < 3, "an alarm is over")
    eventually(lambda: not alarms(lab), "all alarms are over")
