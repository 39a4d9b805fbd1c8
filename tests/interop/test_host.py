"""The UPF's own network stack on its links: what is for its addresses and not for a user plane reaches sockets there."""
import hashlib
import socket
import threading

import pytest
from scapy.all import IP, UDP, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer

from lab import DN, DN6, GNB, N3, N6, N6_6

BGP, SSH = 179, 22
# Of no protocol that a dissector knows.
DATAGRAMS = 40001
OCTETS = bytes(range(256)) * 1000


def listen(namespace, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with namespace.entered():
        server = socket.create_server((address, port), family=family)
    server.settimeout(5)
    return server


def connect(namespace, address, port):
    with namespace.entered():
        return socket.create_connection((address, port), timeout=5)


def received(connection, length):
    got = b""
    while len(got) < length:
        some = connection.recv(65536)
        assert some, f"closed after {len(got)} octets"
        got += some
    return got


def exchange(server, client):
    """Octets from the client to the server, and their digest back."""
    def answer():
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            connection.sendall(hashlib.sha256(received(connection, len(OCTETS))).digest())
    thread = threading.Thread(target=answer)
    thread.start()
    client.sendall(OCTETS)
    digest = received(client, 32)
    thread.join(5)
    return digest


@pytest.mark.parametrize("address, port", [(N6, BGP), (N6_6, BGP), (N6, SSH)])
def test_a_router_reaches_a_server_of_the_host(host_lab, address, port):
    with listen(host_lab.upf, address, port) as server, connect(host_lab.dn, address, port) as client:
        assert exchange(server, client) == hashlib.sha256(OCTETS).digest()


@pytest.mark.parametrize("address", [DN, DN6])
def test_the_host_reaches_a_server_of_the_data_network(host_lab, address):
    with listen(host_lab.dn, address, BGP) as server, connect(host_lab.upf, address, BGP) as client:
        assert exchange(server, client) == hashlib.sha256(OCTETS).digest()


def test_the_host_and_its_neighbours_ping_each_other(host_lab):
    for address in (DN, DN6, GNB):
        host_lab.upf.run(f"ping -c 3 -i 0.2 -W 2 {address}")
    host_lab.dn.run(f"ping -c 3 -i 0.2 -W 2 {N6}")
    host_lab.ran.run(f"ping -c 3 -i 0.2 -W 2 {N3}")


def test_a_ue_reaches_the_data_network_and_not_the_host(host_lab):
    session = host_lab.smf.session(ue4="10.45.9.1")
    with host_lab.upf.entered():
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ours.bind((N6, DATAGRAMS))
    with host_lab.dn.entered():
        theirs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        theirs.bind((DN, DATAGRAMS))
    ours.settimeout(2)
    theirs.settimeout(2)

    def from_ue(gnb, to, words):
        inner = IP(src=session["ue_ipv4"], dst=to) / UDP(sport=40000, dport=DATAGRAMS) / Raw(words)
        container = GTPPDUSessionContainer(type=1, QFI=session["qfi"])
        packet = GTP_U_Header(teid=session["teid"], gtp_type=255, E=1, next_ex=0x85) / container / inner
        gnb.sendto(bytes(packet), (N3, 2152))

    with ours, theirs, host_lab.gnb_socket() as gnb:
        from_ue(gnb, N6, b"to the host")
        from_ue(gnb, DN, b"to the data network")
        assert theirs.recv(100) == b"to the data network"
        # What came before is through, or nowhere.
        theirs.sendto(b"from a router", (N6, DATAGRAMS))
        assert ours.recv(100) == b"from a router"
    host_lab.smf("delete", up_seid=session["up_seid"])
