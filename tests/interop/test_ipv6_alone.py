"""Nothing but IPv6: N4, N3 and N6, with the kernel as gNB, UE, host, and as routers of which only link-local addresses are
known. A kernel takes no UDP datagram over IPv6 whose checksum is missing or wrong."""
import ipaddress
import json
import os
import struct
import subprocess
import time

import pytest

from conftest import serve, tshark
from lab import (DN6, DN_ROUTERS, FAR_DN6, FAR_GNB6, GNB6, IPV6_CONFIGURATION, N3_6, N4_6, RAN_ROUTER, SMF_6, Lab,
                 Smf, eventually, kernel_ue)

# F-TEID flags (TS 29.244 §8.2.3).
V4, V6, CHOOSE = 1, 2, 4
ECHO_REQUEST, ECHO_RESPONSE, ERROR_INDICATION = 1, 2, 26


class Ipv6Lab(Lab):
    def _wire(self):
        super()._wire()
        for address in (SMF_6, N4_6):
            self.upf.add_address(f"{address}/128", "lo")
        for namespace, link, addresses in ((self.ran, "ran0", (f"{GNB6}/64", f"{RAN_ROUTER}/64")),
                                           (self.ran, "lo", (f"{FAR_GNB6}/128",)),
                                           (self.dn, "dn0", [f"{router}/64" for router in DN_ROUTERS]),
                                           (self.dn, "lo", (f"{FAR_DN6}/128",))):
            for address in addresses:
                namespace.add_address(address, link)

    def _capture(self):
        super()._capture()
        self.ours["n4"] = ("ipv6.src", N4_6)

    def associate(self):
        self.smf = self._add(Smf(self.upf, SMF_6, N4_6))


@pytest.fixture(scope="module", params=["af_packet", "af_xdp"])
def lab(request):
    lab = Ipv6Lab(os.environ["SLUICE"], request.param, configuration=IPV6_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


def pings(namespace, target, source=None):
    options = f"-I {source} " if source else ""
    done = namespace.run(f"ping -n -c 5 -i 0.2 -W 2 {options}{target}", check=False)
    assert "5 received" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("gnb", [GNB6, FAR_GNB6])
@pytest.mark.parametrize("flags", [CHOOSE | V6, CHOOSE | V4 | V6])
def test_packets_pass_both_ways(lab, gnb, flags):
    with lab.gnb_socket(gnb) as sock, kernel_ue(lab, sock, N3_6, gnb=gnb, choose_flags=flags) as (session, _, ue6):
        assert session["n3"] == N3_6
        for host in (DN6, FAR_DN6):
            pings(lab.ue, host)
            pings(lab.dn, ue6, host)


def test_an_f_teid_over_ipv4_alone_is_refused(lab):
    with pytest.raises(RuntimeError, match="cause"):
        lab.smf.session(ue6="2001:db8:45:7::", gnb=GNB6, choose_flags=CHOOSE | V4)


def test_echoes_are_answered(lab):
    with lab.gnb_socket(GNB6) as gnb:
        gnb.sendto(struct.pack("!BBHIHBB", 0x32, ECHO_REQUEST, 4, 0, 7, 0, 0), (N3_6, 2152))
        answer = gnb.recv(100)
        assert answer[1] == ECHO_RESPONSE and struct.unpack("!H", answer[8:10]) == (7,)


def test_an_unknown_tunnel_gets_an_error_indication(lab):
    """The GTP-U Peer Address of an Error Indication has 16 octets (TS 29.281 §8.4)."""
    with lab.gnb_socket(GNB6) as gnb:
        gnb.sendto(struct.pack("!BBHI", 0x30, 255, 4, 0x7fff0001) + bytes(4), (N3_6, 2152))
        while (reported := gnb.recv(200))[1] != ERROR_INDICATION:
            pass
        at = reported.index(b"\x10\x7f\xff\x00\x01")
        kind, length = struct.unpack("!BH", reported[at + 5:at + 8])
        assert (kind, length) == (133, 16) and reported[at + 8:at + 24] == ipaddress.ip_address(N3_6).packed


def next_hops(lab):
    """How the link-local routers of the default route stand."""
    shown = subprocess.run([os.environ["SLUICE"], "show", "routes", "--json", "--socket", str(lab.files / "control")],
                           capture_output=True, text=True, check=True)
    return json.loads(shown.stdout)


def test_link_local_routers_share_packets_and_stand_in_for_each_other(lab):
    with lab.gnb_socket(GNB6) as gnb, kernel_ue(lab, gnb, N3_6, gnb=GNB6, choose_flags=CHOOSE | V6):
        for router in DN_ROUTERS:
            assert router in json.dumps(next_hops(lab))
            asked = f"icmpv6.type == 135 && icmpv6.nd.ns.target_address == {router}"
            eventually(lambda: tshark(lab.captures["n6"], asked, "frame.number"), f"{router} is asked for")
            lab.dn.run(f"ip addr del {router}/64 dev dn0")
            # It is asked six times, 100 ms apart.
            time.sleep(1.5)
            for _ in range(2):
                pings(lab.ue, FAR_DN6)
            lab.dn.add_address(f"{router}/64", "dn0")
            time.sleep(0.5)
