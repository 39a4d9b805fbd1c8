"""Duplicate Address Detection (RFC 4862 §5.4) between Sluice and the kernel, which is on the same link, in both
directions; and defence of an IPv4 address (RFC 5227 §2.4)."""
import json
import os
import subprocess
import time

import pytest
from scapy.all import ARP, IPv6, UDP, AsyncSniffer, Ether, Raw, sendp

from conftest import serve, tshark
from lab import CONFIGURATION, GNB6, N3_6, N6, N6_6, Lab, eventually

# Long enough for the kernel to reply, and for a test to see a tentative address.
PROBE_WAIT_MS = 1000
DAD_CONFIGURATION = CONFIGURATION.replace("[{n3}/24]", f"[{{n3}}/24, \"{N3_6}/64\"]") + f"""\
neighbours: {{{{dad_transmits: 1, retry_ms: {PROBE_WAIT_MS}}}}}
control: {{{{socket: "{{files}}/control"}}}}
"""
OTHER_STATION = "02:00:00:00:00:66"
GTPU_ECHO = bytes.fromhex("32010004000000000007") + bytes(2)


class DadLab(Lab):
    """The gNB's kernel has the N3 address of Sluice when Sluice starts."""

    def _wire(self):
        super()._wire()
        self.ran.add_address(f"{GNB6}/64", "ran0")
        self.ran.add_address(f"{N3_6}/64", "ran0")

    def own(self, address):
        """An own address as `sluice show neighbours` has it."""
        shown = subprocess.run([os.environ["SLUICE"], "show", "neighbours", "--json", "--socket",
                                str(self.files / "control")], capture_output=True, text=True, check=True)
        return next(one for one in json.loads(shown.stdout)["own_addresses"] if one["address"] == address)

    def state(self, address):
        return self.own(address)["state"]

    def station(self, link):
        return self.upf.run(f"cat /sys/class/net/{link}/address").stdout.strip()

    def replies_to_echo(self):
        """Frames from Sluice within half a second of a GTP-U Echo Request to its N3 address."""
        ours, gnb = self.station("n3"), self.ran.run("cat /sys/class/net/ran0/address").stdout.strip()
        with self.ran.entered():
            sniffer = AsyncSniffer(iface="ran0", lfilter=lambda frame: frame.src == ours and UDP in frame)
            sniffer.start()
            time.sleep(0.2)
            sendp(Ether(src=gnb, dst=ours) / IPv6(src=GNB6, dst=N3_6) / UDP(sport=2152, dport=2152) / Raw(GTPU_ECHO),
                  iface="ran0", verbose=False)
            time.sleep(0.5)
            return sniffer.stop()


@pytest.fixture(scope="module", params=["af_packet", "af_xdp"])
def lab(request):
    lab = DadLab(os.environ["SLUICE"], request.param, configuration=DAD_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


def probes(lab, name, target):
    """Source, destination and hop limit of the probes for an own address, and their octets of options."""
    wanted = f"eth.src == {lab.station(name)} && icmpv6.nd.ns.target_address == {target} && ipv6.src == ::"
    fields = ("ipv6.dst", "eth.dst", "ipv6.hlim", "ipv6.plen", "icmpv6.checksum.status")
    return tshark(lab.captures[name], wanted, *fields)


def test_an_address_that_the_kernel_has_is_a_duplicate(lab):
    eventually(lambda: lab.state(N3_6) == "duplicate", "the kernel's reply is received")
    assert lab.own(N3_6)["conflicts"] >= 1
    assert lab.said().count("own address duplicate") == 1
    kernel = lab.ran.run("cat /sys/class/net/ran0/address").stdout.strip()
    assert kernel in next(line for line in lab.said().splitlines() if "own address duplicate" in line)
    assert probes(lab, "n3", N3_6) == ["ff02::1:ff00:1\t33:33:ff:00:00:01\t255\t24\t1"]
    assert not lab.replies_to_echo()
    # The other link's address is not affected.
    eventually(lambda: lab.state(N6_6) == "preferred", "no other station has it")
    assert "3 received" in lab.dn.run(f"ping -n -c 3 -i 0.2 -W 2 {N6_6}", check=False).stdout
    assert lab.state(N3_6) == "duplicate"


def test_it_is_used_once_the_other_station_is_gone_and_the_link_is_back(lab):
    lab.ran.run(f"ip addr del {N3_6}/64 dev ran0")
    lab.ran.run("ip link set ran0 down")
    time.sleep(0.2)
    lab.ran.run("ip link set ran0 up")
    # The kernel takes global IPv6 addresses away with the link.
    lab.ran.add_address(f"{GNB6}/64", "ran0")
    eventually(lambda: lab.state(N3_6) == "tentative", "verification begins anew")
    eventually(lambda: lab.state(N3_6) == "preferred", "no other station has it")
    assert len(probes(lab, "n3", N3_6)) == 2
    announced = f"eth.src == {lab.station('n3')} && icmpv6.type == 136 && ipv6.dst == ff02::1 && " \
                f"icmpv6.nd.na.target_address == {N3_6}"
    eventually(lambda: tshark(lab.captures["n3"], announced, "frame.number"), "it is announced")
    assert [frame[IPv6].src for frame in lab.replies_to_echo()] == [N3_6]


def test_the_kernel_finds_that_sluice_has_the_address(lab):
    eventually(lambda: lab.state(N3_6) == "preferred", "it is in use")
    for address, namespace, link in ((N3_6, lab.ran, "ran0"), (N6_6, lab.dn, "dn0")):
        namespace.run(f"ip addr add {address}/64 dev {link}")
        shown = lambda: namespace.run(f"ip -6 addr show dev {link} to {address}").stdout
        eventually(lambda: "dadfailed" in shown(), "Sluice defends the address")
        namespace.run(f"ip addr del {address}/64 dev {link}")
        assert lab.state(address) == "preferred"


def test_an_ipv4_address_is_defended_at_most_every_ten_seconds(lab):
    ours = lab.station("n6")
    announcements = lambda: tshark(
        lab.captures["n6"], f"eth.src == {ours} && arp.src.proto_ipv4 == {N6} && arp.dst.proto_ipv4 == {N6}",
        "frame.number")
    before = len(announcements())
    conflicts = lab.own(N6)["conflicts"]
    claim = Ether(src=OTHER_STATION, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=OTHER_STATION, psrc=N6, pdst=N6)
    with lab.dn.entered():
        sendp([claim] * 5, iface="dn0", verbose=False)
    eventually(lambda: lab.own(N6)["conflicts"] == conflicts + 5, "claims are counted")
    eventually(lambda: len(announcements()) == before + 1, "it is defended")
    assert lab.said().count("own address claimed by another station") == 1
    assert lab.state(N6) == "preferred"
