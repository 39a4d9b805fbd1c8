"""CG-NAT over a kill -9, with kernels at both ends: who had an address and ports has them again, and a server behind a port
forward is reached before it sends anything. Deterministic blocks are held to their arithmetic by RFC 7422, done here anew.
"""
import contextlib
import ipaddress
import socket
import time

import pytest

from lab import DN, N3, UE6, Tunnel, Ue, eventually, shown
from nat_lab import FORWARDED, POOL, PORTS, SERVER, held_by, made, reach, sock
from test_store import restart

BLOCK = 64
STORE = 'store: {{directory: "{files}/store"}}\n'


def at_dn(lab, client):
    """From where the data network sees a socket's datagram."""
    with contextlib.closing(sock(lab.dn, socket.SOCK_DGRAM, DN, 7010)) as host:
        def seen():
            client.sendto(b"who am I", (DN, 7010))
            host.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                return host.recvfrom(100)[1]
        return eventually(seen, "a datagram at the data network")


def known(lab, public, at):
    """Whose a port was at a time, once the log knows."""
    holder, _ = eventually(lambda: (answer := held_by(lab, public, at))[1] and answer, "the log's knowledge of a time")
    return holder and (holder["seid"], holder["ue"])


@contextlib.contextmanager
def server_session(lab):
    """A session of the server's UE, in the kernel."""
    with lab.gnb_socket() as gnb:
        session = lab.smf.session(ue4=SERVER, ue6=str(UE6[0xfff << 64]))
        ue = Ue(lab, Tunnel(session, gnb, N3), [f"{SERVER}/32"], 1400)
        try:
            yield f"{session['up_seid']:#018x}"
        finally:
            ue.close()
            lab.smf("delete", up_seid=session["up_seid"])


@pytest.fixture(params=["af_packet", "af_xdp"])
def driver(request):
    return request.param


def laboratory(driver, change=str):
    # A veth has one queue: one worker on af_xdp.
    return made(driver, 2 if driver == "af_packet" else 1, filtering="address_dependent",
                change=lambda configuration: change(configuration) + STORE)


def test_who_had_ports_has_them_after_a_kill(driver):
    with contextlib.closing(laboratory(driver)) as lab:
        lab.associate()
        with server_session(lab) as seid:
            with contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, SERVER, 40_001)) as client:
                reach(lab)
                before = at_dn(lab, client)
                used = time.time()
                assert known(lab, before, used) == (seid, SERVER)
                blocks = shown(lab, "session", seid)["nat"]["blocks"]
                restart(lab)
                # The data network begins.
                reach(lab)
                after = at_dn(lab, client)
                assert shown(lab, "session", seid)["nat"]["blocks"] == blocks
                assert before[0] == after[0] == FORWARDED[0]
                assert any(block["first"] <= after[1] <= block["last"] for block in blocks), (after, blocks)
                assert known(lab, after, time.time()) == (seid, SERVER)
                # What was in the files stays.
                assert known(lab, before, used) == (seid, SERVER)


def test_deterministic_blocks_are_those_of_their_arithmetic_before_and_after_a_kill(driver):
    prefix = ipaddress.ip_network("10.45.255.0/24")

    def change(configuration):
        begin, end = configuration.index("    forwards:"), configuration.index("  - name: chosen")
        return configuration[:begin] + f"    deterministic: {{{{ues: {prefix}}}}}\n" + configuration[end:]

    number = int(ipaddress.ip_address(SERVER)) - int(prefix[0])
    each = len(PORTS) // BLOCK
    address, first = str(POOL[number // each]), PORTS.start + number % each * BLOCK
    with contextlib.closing(laboratory(driver, change)) as lab:
        lab.associate()
        early = shown(lab, "nat", f"{address}:{first}")
        assert early["ue"] == [SERVER] and "seid" not in early
        with server_session(lab) as seid, contextlib.closing(sock(lab.ue, socket.SOCK_DGRAM, SERVER, 40_001)) as client:
            for _ in range(2):
                public = at_dn(lab, client)
                assert public[0] == address and first <= public[1] < first + BLOCK
                assert shown(lab, "nat", "%s:%d" % public)["seid"] == seid
                restart(lab)
