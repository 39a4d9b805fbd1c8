"""Ports that are interfaces of the kernel, as a user finds them: veth pairs with the offloads that they have by default.

The neighbours are the kernel's: its TCP leaves checksums and segments to a NIC that is not there.
"""
import hashlib
import os
import signal
import socket
import struct
import threading

import pytest

from lab import CONFIGURATION, DN, DN6, GNB, N3, PATIENCE, Lab, Tunnel, kernel_ue

OCTETS = 3_000_000
UDP_SEGMENT = 103
SO_RCVBUFFORCE = 33

@pytest.fixture(scope="module", params=["af_packet", "af_xdp", "accelerator"])
def kernel_lab(request):
    lab = Lab(os.environ["SLUICE"], request.param)
    try:
        lab.associate()
        yield lab
    finally:
        if request.session.testsfailed:
            print(lab.said())
        lab.close()


def pattern(octets):
    return hashlib.shake_128(b"sluice").digest(octets)


def receive_all(sock, octets):
    got = bytearray()
    while len(got) < octets and (piece := sock.recv(1 << 16)):
        got += piece
    return bytes(got)


class JumboLab(Lab):
    """Links of 9,000 octets; the UPF's ends are set to it by Sluice."""

    def _wire(self):
        super()._wire()
        for namespace, link, _ in self.links:
            getattr(self, namespace).run(f"ip link set {link} mtu 9000")


# Before the others: the laboratory that they share has namespaces of the same names.
def test_jumbo_frames_cross():
    """Segments of TCP that do not fit one buffer, in 64 KiB; longer packets than one slot of a ring holds by default."""
    configuration = CONFIGURATION.replace("{options}" + 6 * "}", "{options}" + 4 * "}" + ", mtu: 9000}}")
    lab = JumboLab(os.environ["SLUICE"], "af_packet", configuration=configuration)
    try:
        lab.associate()
        for host in (DN, DN6):
            tcp_crosses(lab, host, mtu=8900)
        with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mtu=8900):
            done = lab.ue.run(f"ping -n -M do -c 3 -i 0.2 -W 3 -s 8800 {DN}", check=False)
            assert "3 received" in done.stdout, done.stdout + done.stderr
    finally:
        lab.close()


@pytest.mark.parametrize("cut_by", ["gnb", "upf"])
def test_gtpu_packets_cross_as_segments(cut_by):
    """UDP segmentation on N3: the gNB's kernel gets datagrams with segments, or those that the UPF's kernel has cut."""
    configuration = CONFIGURATION.replace("n3{options}", "n3{options}, udp_segmentation: true")
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=configuration)
    try:
        if cut_by == "upf":
            lab.upf.run("ethtool -K n3 tx-udp-segmentation off")
        lab.associate()
        with lab.ran.entered():
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            tap.bind(("ran0", 0))
        with tap:
            tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            tap.settimeout(1)
            for host in (DN, DN6):
                tcp_crosses(lab, host)
            longest = longest_frame(tap)
        assert (longest > 1_514) == (cut_by == "gnb"), longest
    finally:
        lab.close()


def longest_frame(tap):
    """The longest of the frames that have come from the link."""
    longest = 0
    try:
        while True:
            frame, address = tap.recvfrom(1 << 16)
            if address[2] != socket.PACKET_OUTGOING:
                longest = max(longest, len(frame))
    except TimeoutError:
        return longest


def test_two_workers_share_links():
    """The kernel spreads packets over the sockets of two workers, as they are on the link; what one sends is not for the
    other."""
    lab = Lab(os.environ["SLUICE"], "af_packet", workers=2)
    try:
        lab.associate()
        for host in (DN, DN6):
            tcp_crosses(lab, host)
    finally:
        lab.close()


SORTED = "urgent packets come to a queue of their own"


def test_urgent_packets_are_not_sorted_where_the_host_has_the_port_too():
    """What an XDP program passes on would reach the host's network stack; and the log says so."""
    configuration = CONFIGURATION.replace("{options}", "{options}, leave_to_host: true", 1)
    lab = Lab(os.environ["SLUICE"], "af_xdp", configuration=configuration)
    try:
        lab.associate()
        assert "looked for among all: the host gets frames of this port, too" in lab.said(), lab.said()
        assert lab.said().count(SORTED) == 1, lab.said()
        with lab.gnb_socket() as gnb:
            echo(gnb, 7)
            assert gnb.recv(100)[1] == 2
    finally:
        lab.close()


@pytest.mark.parametrize("driver, workers", [("af_packet", 1), ("af_packet", 2), ("af_xdp", 1)])
def test_echo_and_arp_are_answered_however_many_packets_came_before(driver, workers):
    """The daemon is away while more user packets come than its receive queue holds: what is urgent has a queue of its own."""
    answers = "answers: {{per_source_s: 1000, others_s: 1000}}"
    configuration = CONFIGURATION.replace("restoration_s: 0", f"restoration_s: 0, {answers}")
    lab = Lab(os.environ["SLUICE"], driver, workers=workers, configuration=configuration)
    try:
        lab.associate()
        assert lab.said().count(SORTED) == 2, lab.said()
        session = lab.smf.session(ue4="10.45.9.9")
        with lab.gnb_socket() as gnb, lab.ran.entered():
            arp = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
            arp.bind(("ran0", 0))
            # The gNB has N3's link layer address before the daemon is away.
            echo(gnb, 0)
            assert gnb.recv(100)[1] == 2
            lab.process.send_signal(signal.SIGSTOP)
            inner = bytes.fromhex("4500001c00000000401100000a2d09090ac800fe0035003500080000")
            for _ in range(6_000):
                Tunnel(session, gnb).send(inner)
            for number in range(1, 101):
                echo(gnb, number)
                arp_request(arp)
            lab.process.send_signal(signal.SIGCONT)
            gnb.settimeout(PATIENCE)
            numbers = set()
            while len(numbers) < 100:
                answer = gnb.recv(100)
                if answer[1] == 2:
                    numbers.add(int.from_bytes(answer[8:10], "big"))
            assert numbers == set(range(1, 101))
            arp.settimeout(PATIENCE)
            with arp:
                replies = 0
                while replies < 100:
                    frame, address = arp.recvfrom(100)
                    replies += address[2] != socket.PACKET_OUTGOING and frame[20:22] == b"\0\2"
    finally:
        lab.process.send_signal(signal.SIGCONT)
        lab.close()


def echo(gnb, number):
    gnb.sendto(struct.pack("!BBHIHBB", 0x32, 1, 4, 0, number, 0, 0), (N3, 2152))


def arp_request(arp):
    own = arp.getsockname()[4]
    addresses = own + socket.inet_aton(GNB) + bytes(6) + socket.inet_aton(N3)
    arp.send(b"\xff" * 6 + own + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + addresses)


@pytest.mark.parametrize("host", [DN, DN6])
def test_tcp_crosses_both_ways(kernel_lab, host):
    """The data network's kernel sends TCP of 64 KiB in one, and leaves checksums to the NIC."""
    tcp_crosses(kernel_lab, host)


def tcp_crosses(lab, host, mtu=1400):
    family = socket.AF_INET if host == DN else socket.AF_INET6
    data, got = pattern(OCTETS), {}

    def serve(server):
        connection, _ = server.accept()
        with connection:
            connection.settimeout(60)
            got["up"] = receive_all(connection, OCTETS)
            connection.sendall(data)

    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mtu=mtu):
        with lab.dn.entered():
            server = socket.create_server((host, 8080), family=family)
        with lab.ue.entered():
            client = socket.socket(family, socket.SOCK_STREAM)
        with server, client:
            server.settimeout(10)
            client.settimeout(60)
            thread = threading.Thread(target=serve, args=(server,))
            thread.start()
            client.connect((host, 8080))
            client.sendall(data)
            got["down"] = receive_all(client, OCTETS)
            thread.join(60)
    assert got["up"] == data and got["down"] == data


@pytest.mark.parametrize("host", [DN, DN6])
def test_udp_crosses_both_ways(kernel_lab, host):
    """Datagrams whose checksums are left to the NIC, and several in one (UDP_SEGMENT), as QUIC servers send them."""
    lab = kernel_lab
    family = socket.AF_INET if host == DN else socket.AF_INET6
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb):
        with lab.dn.entered():
            server = socket.socket(family, socket.SOCK_DGRAM)
        with lab.ue.entered():
            client = socket.socket(family, socket.SOCK_DGRAM)
        with server, client:
            server.bind((host, 9090))
            server.settimeout(5)
            client.settimeout(5)
            client.sendto(b"up" * 300, (host, 9090))
            octets, ue = server.recvfrom(65535)
            assert octets == b"up" * 300
            server.sendto(b"down" * 200, ue)
            assert client.recv(65535) == b"down" * 200
            data = pattern(10_500)
            server.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1_000)
            server.sendto(data, ue)
            pieces = [client.recv(65535) for _ in range(11)]
            assert sorted(pieces) == sorted(data[at:at + 1_000] for at in range(0, len(data), 1_000))


def test_long_datagrams_cross(kernel_lab):
    """Fragments reach Sluice as they are on the link, however long the datagram is that they make."""
    lab = kernel_lab
    with lab.gnb_socket() as gnb, kernel_ue(lab, gnb) as (_, ue4, _):
        for octets in (1_972, 5_000, 20_000):
            for there, target in ((lab.dn, ue4), (lab.ue, DN)):
                done = there.run(f"ping -n -M dont -c 3 -i 0.2 -W 3 -s {octets} {target}", check=False)
                assert "3 received" in done.stdout, (octets, target, done.stdout + done.stderr)
