"""`sluice mirror`: copies of a UE's packets at a host of the data network, in GRE and VXLAN, as scapy reads them."""
import contextlib
import os
import socket
import subprocess
import time

import pytest
from scapy.all import GRE, IP, UDP, VXLAN, Ether, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer

from lab import DN, GNB, N3, N6

PACKETS = 5


@contextlib.contextmanager
def mirrored(lab, *arguments):
    """`sluice mirror` beside the daemon, once it is under way, and how it ended."""
    command = [os.environ["SLUICE"], "mirror", "--socket", lab.files / "control", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    yield process
    try:
        assert process.wait(10) == 0, process.stderr.read()
    finally:
        process.kill()


def gre(lab):
    sock = lab.dn_socket(4, socket.IPPROTO_GRE)
    return sock, ("--to-gre", DN, "--key", 77), lambda octets: GRE(IP(octets)[GRE].build())


def vxlan(lab):
    sock = lab.dn_udp_socket(DN, 4789)
    return sock, ("--to-vxlan", DN, "--vni", 4711), VXLAN


@pytest.mark.parametrize("tunnel", [gre, vxlan])
def test_a_host_gets_the_packets_of_a_ue(api_lab, tunnel):
    session = api_lab.smf.session(ue4="10.45.7.1")
    inner = IP(src=session["ue_ipv4"], dst=DN) / UDP(sport=40000, dport=9) / Raw(b"mirrored")
    packet = bytes(GTP_U_Header(teid=session["teid"], gtp_type=255, E=1, next_ex=0x85)
                   / GTPPDUSessionContainer(type=1, QFI=session["qfi"]) / inner)
    sock, arguments, read = tunnel(api_lab)
    # A socket listens, so that nothing comes back to the UE.
    with sock, api_lab.dn_udp_socket(DN, 9), api_lab.gnb_socket() as gnb:
        # The first one asks for the neighbour.
        gnb.sendto(packet, (N3, 2152))
        wanted = ("--ue", session["ue_ipv4"], "--which", "both", "--by", "internet", "--count", PACKETS)
        with mirrored(api_lab, *wanted, *arguments) as process:
            for _ in range(PACKETS):
                gnb.sendto(packet, (N3, 2152))
                time.sleep(0.02)
            copies = [read(sock.recv(65535)) for _ in range(2 * PACKETS)]
        assert process.stderr.read().startswith(f"{PACKETS} of {PACKETS} packets")
    for copy in copies:
        if tunnel is gre:
            assert (copy.proto, copy.key_present, copy.key) == (0x6558, 1, 77)
        else:
            assert (copy.vni, int(copy.flags)) == (4711, 8)
    frames = [Ether(bytes(copy.payload)) for copy in copies]
    came = [frame for frame in frames if frame[IP].src == GNB]
    left = [frame for frame in frames if frame[IP].src == session["ue_ipv4"]]
    assert len(came) == len(left) == PACKETS
    assert all(bytes(frame[UDP].payload) == packet for frame in came)
    assert all((frame[IP].dst, frame[IP].ttl, frame[UDP].load) == (DN, 63, b"mirrored") for frame in left)
    api_lab.smf("delete", up_seid=session["up_seid"])


def test_what_cannot_be_is_said(api_lab):
    def said(*arguments):
        command = [os.environ["SLUICE"], "mirror", "--socket", api_lab.files / "control", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        assert done.returncode != 0
        return done.stderr
    assert "one of this node's own" in said("--to-gre", N6, "--by", "internet")
    assert "--to-port" in said("--ue", "10.45.7.1")
