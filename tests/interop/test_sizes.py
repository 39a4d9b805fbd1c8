"""Long packets and fragments, with the kernel's stack as gNB, UE and host, in tunnels over IPv4 and IPv6."""
import contextlib
import socket
import threading
import time

import pytest

from conftest import tshark
from lab import DN, DN6, GNB, GNB6, N3, N3_6
from lab import kernel_ue as lab_ue

# What a PDU Session Container takes of 1,500 with GTP-U, UDP and IP, and what TCP and IP take of the rest.
TUNNEL = {N3: 44, N3_6: 64}
HEADERS = {DN: 40, DN6: 60}
# F-TEID: CHOOSE, IPv4 and IPv6.
BOTH = 0x07
OCTETS = bytes(range(256)) * 4000


@contextlib.contextmanager
def kernel_ue(lab, upf):
    """A session whose UE is a kernel with an MTU of 1,500, in a tunnel to this address of the UPF: the UE's addresses."""
    own = GNB if upf == N3 else GNB6
    with lab.gnb_socket(own) as gnb, lab_ue(lab, gnb, upf, 1500, gnb=own, choose_flags=BOTH) as (_, ue4, ue6):
        yield {DN: ue4, DN6: ue6}


def sent_since(lab, port, moment, wanted, *fields):
    """These fields of the frames of a port's capture since then."""
    return tshark(lab.captures[port], f"frame.time_epoch >= {moment} && ({wanted})", *fields)


@pytest.mark.parametrize("upf", [N3, N3_6])
@pytest.mark.parametrize("target", [DN, DN6])
def test_a_gnb_speaks_over_either_family(sizes_lab, upf, target):
    lab = sizes_lab
    with kernel_ue(lab, upf) as addresses:
        done = lab.ue.run(f"ping -n -c 5 -i 0.2 -W 2 {target}", check=False)
        assert "5 received" in done.stdout, done.stdout + done.stderr
        done = lab.dn.run(f"ping -n -c 5 -i 0.2 -W 2 {addresses[target]}", check=False)
        assert "5 received" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("upf", [N3, N3_6])
def test_long_pings_cross_in_fragments(sizes_lab, upf):
    """The host's fragments of 1,500 octets are cut again to fit the tunnel, and the UE puts them together. The UE's leave
    the gNB in outer fragments, which are put together here."""
    lab = sizes_lab
    octets = 3000
    moment = time.time()
    with kernel_ue(lab, upf) as addresses:
        done = lab.dn.run(f"ping -n -M dont -c 5 -i 0.2 -W 2 -s {octets - 28} {addresses[DN]}", check=False)
        assert "5 received" in done.stdout, done.stdout + done.stderr
        done = lab.ue.run(f"ping -n -M dont -c 5 -i 0.2 -W 2 -s {octets - 28} {DN}", check=False)
        assert "5 received" in done.stdout, done.stdout + done.stderr
    family = "ip" if upf == N3 else "ipv6"
    longest = max(int(line) for line in sent_since(lab, "n3", moment, f"{family}.dst == {GNB if upf == N3 else GNB6}",
                                                   "frame.len"))
    assert 1300 < longest <= 14 + 1500
    outer = "ip.flags.mf == 1 && udp.dstport == 2152" if upf == N3 else "ipv6.fraghdr"
    assert sent_since(lab, "n3", moment, f"({outer}) && {family}.src == {GNB if upf == N3 else GNB6}", "frame.number"), \
        "the gNB's kernel sends fragments"


@pytest.mark.parametrize("upf", [N3, N3_6])
@pytest.mark.parametrize("target", [DN, DN6])
def test_tcp_agrees_on_segments_that_fit(sizes_lab, upf, target):
    lab = sizes_lab
    fits = 1500 - TUNNEL[upf] - HEADERS[target]
    family = socket.AF_INET if target == DN else socket.AF_INET6
    moment = time.time()
    with kernel_ue(lab, upf):
        with lab.dn.entered():
            server = socket.create_server((target, 8080), family=family)
        with lab.ue.entered():
            client = socket.socket(family, socket.SOCK_STREAM)
        sizes, got = [], []

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.settimeout(10)
                sizes.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
                connection.sendall(OCTETS)
                octets = b""
                while len(octets) < len(OCTETS):
                    octets += connection.recv(65536)
                got.append(octets)

        server.settimeout(10)
        client.settimeout(10)
        thread = threading.Thread(target=serve)
        thread.start()
        with server, client:
            client.connect((target, 8080))
            sizes.append(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
            octets = b""
            while len(octets) < len(OCTETS):
                octets += client.recv(65536)
            client.sendall(OCTETS)
            thread.join(20)
        assert octets == OCTETS and got == [OCTETS]
        # Of either kernel's segments 12 octets are for timestamps.
        assert sizes == [fits - 12] * 2 or sizes == [fits] * 2, sizes
    reported = sent_since(lab, "n6", moment, "tcp.flags.syn == 1 && tcp.dstport == 8080", "tcp.options.mss_val")
    assert reported and set(reported) == {str(fits)}
    reported = sent_since(lab, "n3", moment, "tcp.flags.syn == 1 && tcp.srcport == 8080", "tcp.options.mss_val")
    assert reported and set(reported) == {str(fits)}
    assert not sent_since(lab, "n6", moment, "icmp.type == 3 || icmpv6.type == 2", "frame.number"), "no ICMP error"
