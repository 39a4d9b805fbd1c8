"""CG-NAT for two data networks with everything the same: their addresses, the UEs' own ones, the public ones and their ports."""
import contextlib
import os
import re
import socket
import subprocess
import time

import pytest

from conftest import serve
from lab import DN, OTHER_GNB, eventually, kernel_ue, shown
from nat_lab import BLOCK, POOL, PORTS, held_by, made_networks, sock

HOST_PORT = 50_100


@pytest.fixture(scope="module")
def lab(request):
    lab = made_networks()
    yield from serve(request, lab, lab.associate)


class Attached:
    """A UE of one of the networks, and mappings of all ports that its session may have."""

    def __init__(self, stack, network, session, address, namespace, dn):
        self.network, self.address, self.seid = network, address, f"{session['up_seid']:#018x}"
        socket_of = lambda *what: stack.enter_context(contextlib.closing(sock(*what)))
        self.host = socket_of(dn, socket.SOCK_DGRAM, DN, HOST_PORT)
        # The UE's sockets by their public ends.
        self.clients = {}
        for number in range(BLOCK):
            client, words = socket_of(namespace, socket.SOCK_DGRAM, address), f"{network} {number}".encode()
            client.sendto(words, (DN, HOST_PORT))
            got, public = self.host.recvfrom(100)
            assert got == words
            self.clients[public] = client


@pytest.fixture(scope="module")
def ues(lab):
    """A UE of each network, with the same address."""
    with contextlib.ExitStack() as stack:
        gnb, other_gnb = stack.enter_context(lab.gnb_socket()), stack.enter_context(lab.gnb_socket(OTHER_GNB))
        other = stack.enter_context(lab.other_ue())
        one, address, _ = stack.enter_context(kernel_ue(lab, gnb, number=900))
        two, same, _ = stack.enter_context(
            kernel_ue(other, other_gnb, number=900, gnb=OTHER_GNB, core_instance="corporate"))
        assert address == same
        yield [Attached(stack, "internet", one, address, lab.ue, lab.dn),
               Attached(stack, "corporate", two, same, other.ue, lab.other_dn)]


def test_the_same_addresses_at_the_same_time(ues):
    every = {(str(POOL[0]), port) for port in PORTS[:BLOCK]}
    assert [set(ue.clients) for ue in ues] == [every, every]
    # All are under way before any is received.
    for ue in ues:
        for public in ue.clients:
            ue.host.sendto(f"{ue.network} to {public}".encode(), public)
    for ue in ues:
        for public, client in ue.clients.items():
            assert client.recvfrom(100) == (f"{ue.network} to {public}".encode(), (DN, HOST_PORT))


def test_operators_tell_the_networks_apart(lab, ues):
    used, public = time.time(), min(ues[0].clients)
    outside = f"{public[0]}:{public[1]}"
    for ue in ues:
        owner = shown(lab, "nat", outside, "udp", "--instance", ue.network)
        assert (owner["instance"], owner["pool"], owner["seid"]) == (ue.network, ue.network, ue.seid)
        assert owner["mapping"]["inside"] == f"{ue.address}:{ue.clients[public].getsockname()[1]}"
        holder = eventually(lambda: held_by(lab, public, used, "--instance", ue.network)[0], f"the log of {ue.network}")
        assert (holder["instance"], holder["ue"], holder["seid"]) == (ue.network, ue.address, ue.seid)
    # Without a network instance there are two answers, and so there is none.
    for options in (("--socket", lab.files / "control"), ("-c", lab.files / "sluice.yaml", "--at", "2026-01-01T00:00:00Z")):
        done = subprocess.run([os.environ["SLUICE"], "show", "nat", outside, *options], capture_output=True, text=True)
        assert done.returncode != 0 and re.search("several .*: name", done.stderr), done
