"""Unsolicited packets through CG-NAT: what comes to a mapping from a host that the UE has not sent to by it pages no
idle UE, and is not charged, unless the pool says so.

The SMF is that of Open5GS in its own words. The data network is a kernel, whose nftables counts what each of its hosts has
sent, by itself.
"""
import http.client
import json
import re
import socket
import types

import pytest

from conftest import serve
from lab import DN, GNB
from nat_lab import OTHER_DN, POOL, is_public, made
from test_smfs import DN_PORT, LOCAL, Node, Session, data, volume

SMF = "open5gs"
# What the pool says, whether it pages, and whether it is charged.
POLICIES = {"": (False, False), "pages: true": (True, False), "charged: true": (False, True),
            "pages: true, charged: true": (True, True)}


def saying(policy):
    """Makes the first pool of a configuration say this of what is unsolicited."""
    filtering = "    filtering: endpoint_independent\n"
    said = f"    unsolicited: {{{{{policy}}}}}\n" if policy else ""
    return lambda configuration: configuration.replace(filtering, filtering + said, 1)


@pytest.fixture(scope="module", params=list(enumerate(POLICIES)), ids=lambda of: of[1] or "default")
def lab(request):
    number, policy = request.param
    lab = made("af_packet", 1 + number % 2, udp_s=60, change=saying(policy))
    lab.policy = POLICIES[policy]
    yield from serve(request, lab, lambda: None)


@pytest.fixture(scope="module")
def network(lab):
    host = {name: lab.dn_udp_socket(address, DN_PORT) for name, address in (("known", DN), ("other", OTHER_DN))}
    chain = "type filter hook output priority 0;"
    count = [f"ip saddr {address} ip daddr {POOL} counter" for address in (DN, OTHER_DN)]
    file = lab.files / "sent.nft"
    file.write_text("\n".join(["table inet sent {", "chain output {", chain, *count, "}", "}", ""]))
    lab.dn.run(f"nft -f {file}")
    return types.SimpleNamespace(lab=lab, smfs={SMF: lab.script(SMF, LOCAL[SMF])}, gnb=Node(lab, GNB),
                                 servers={DN_PORT: host["known"]}, **host, others_received_nothing=lambda _: None)


def pages(smf):
    """The Downlink Data Reports that have come since."""
    return [report for report in smf("reports")["reports"] if report["downlink_data"]]


def sent(lab):
    """Octets that the two hosts of the data network have sent to public addresses, by nftables."""
    listed = json.loads(lab.dn.run("nft -j list table inet sent").stdout)["nftables"]
    counters = [part["counter"]["bytes"] for one in listed if "rule" in one for part in one["rule"]["expr"] if "counter" in part]
    known, other = counters
    return types.SimpleNamespace(known=known, other=other)


def metrics(lab):
    """Packets that have come through a mapping unsolicited, and those of them that were dropped for it."""
    connection = http.client.HTTPConnection("localhost")
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.connect(str(lab.files / "control"))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    came = re.findall(r"^sluice_nat_unsolicited_admitted(?:_total)? (\S+)$", text, re.M)
    ended = re.findall(r'^sluice_drops_total{[^}]*reason="nat_unsolicited"[^}]*} (\S+)$', text, re.M)
    return sum(map(float, came)), sum(map(float, ended))


def test_another_host_neither_pages_nor_costs(network):
    lab, (is_paged, is_charged) = network.lab, network.lab.policy
    is_told = not (is_paged and is_charged)
    before, (came, ended) = sent(lab), metrics(lab)
    session = Session(network, SMF)
    session.activate()
    session.send(b"question")
    got, public = network.known.recvfrom(100)
    assert got == b"question" and is_public(public[0])
    session.sent += 28 + len(got)
    for size in (10, 700, 1_200):
        for host in (network.known, network.other):
            host.sendto(data(size), public)
            session.arrives(data(size))

    # It is idle: one whom it has sent to may page it.
    session("idle")
    pages(session.smf)
    free = sent(lab)
    network.other.sendto(b"are you there", public)
    session.gnb.receives_nothing()
    if is_paged:
        session.is_reported_once()
    assert not pages(session.smf)
    network.known.sendto(b"answer", public)
    if not is_paged:
        session.is_reported_once()
    session.gnb.receives_nothing()
    assert not pages(session.smf)
    session.activate()
    if is_paged:
        session.arrives(b"are you there")
    session.arrives(b"answer")

    # It sends to the other host: from then on that is none that it does not know.
    asked = sent(lab)
    session.server = network.other
    session.send(b"who are you")
    assert network.other.recvfrom(100) == (b"who are you", public)
    session.sent += 28 + len(b"who are you")
    for size in (30, 900):
        network.other.sendto(data(size), public)
        session.arrives(data(size))
    session("idle")
    network.other.sendto(b"again", public)
    session.is_reported_once()
    session.activate()
    session.arrives(b"again")

    after = sent(lab)
    downlink = after.known - before.known + after.other - asked.other
    if is_charged:
        downlink += free.other - before.other
    if is_charged and is_paged:
        downlink += asked.other - free.other
    assert list(session.charged().values()) == [volume(0, downlink)]
    now = metrics(lab)
    assert (now[0] - came, now[1] - ended) == (4 if is_told else 0, 0 if is_paged else 1)
