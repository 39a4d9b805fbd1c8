"""What a resolver answers: dnsmasq in the data network gives addresses for names, dig asks it in the UE's network, and plain
exchanges over TCP and UDP, which name no host, are billed as the name that dnsmasq gave their address for.
"""
import contextlib
import os
import socket
import subprocess
import threading

import pytest

from conftest import serve
from lab import API_CONFIGURATION, DN, DN6, Lab, eventually, kernel_ue
from test_access_lists_by_flow import dig
from test_inspection import servers, settled, web

# A second server of the data network.
OTHER = "10.200.0.253"
HOSTS = {"cdn.video.example": DN, "game.example": OTHER, "www.free.example": DN}
PORT = 4_000
CONFIGURATION = API_CONFIGURATION + f"""
inspection: {{{{resolvers: [{DN}/32, "{DN6}/128"], address_lifetime_s: {{{{least: 300}}}}}}}}
predefined:
  rulebases:
    - name: web
      rules:
        - {{{{precedence: 10, hosts: ["*.video.example"], content: {{{{name: video}}}}}}}}
        - {{{{precedence: 20, hosts: [game.example], content: {{{{name: game}}}}}}}}
        - {{{{precedence: 30, hosts: ["*.free.example"], confirmed_by_dns: true, content: {{{{name: free}}}}}}}}
        - {{{{precedence: 90, content: {{{{name: other}}}}}}}}
"""


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_packet", 2), ("af_xdp", 1)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    lab = Lab(os.environ["SLUICE"], driver, workers, configuration=CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@contextlib.contextmanager
def resolver(lab):
    """dnsmasq, which knows the addresses of HOSTS."""
    lab.dn.run(f"ip address replace {OTHER}/24 dev dn0")
    known = [f"--address=/{name}/{address}" for name, address in HOSTS.items()]
    process = lab.dn.popen("dnsmasq", "--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", *known, "--local-ttl=1",
                           f"--listen-address={DN},{DN6}", "--bind-interfaces", "--user=root", stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: dig(lab.dn, "game.example", "a")[1], "dnsmasq answers")
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def bound(namespace, kind, address, port=0):
    with namespace.entered():
        sock = socket.socket(socket.AF_INET, kind)
    sock.settimeout(5)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    return sock


def exchange_datagrams(lab, ue, server, octets):
    """As many octets each way over UDP, in one datagram; their octets with IP headers, both ways."""
    with bound(lab.dn, socket.SOCK_DGRAM, server, PORT) as there, bound(lab.ue, socket.SOCK_DGRAM, ue) as here:
        here.sendto(b"q" * octets, (server, PORT))
        _, source = there.recvfrom(2_000)
        there.sendto(b"a" * octets, source)
        assert len(here.recv(2_000)) == octets
    return 2 * (28 + octets)


def exchange_streams(lab, ue, server, octets):
    """The server speaks first, over TCP, and sends as many octets."""
    with bound(lab.dn, socket.SOCK_STREAM, server, PORT) as listener, bound(lab.ue, socket.SOCK_STREAM, ue) as here:
        listener.listen(1)

        def speak():
            with listener.accept()[0] as there:
                there.sendall(b"220 " + b"a" * octets)
                there.shutdown(socket.SHUT_WR)
                # Closing with octets unread would reset the connection.
                while there.recv(65_536):
                    pass
        speaker = threading.Thread(target=speak)
        speaker.start()
        here.connect((server, PORT))
        here.sendall(b"\x00\x01 nothing that is known")
        while here.recv(65_536):
            pass
        here.shutdown(socket.SHUT_WR)
        speaker.join()


def since(lab, session, before):
    """What each content has got."""
    return {content: octets - before[content] for content, octets in settled(lab, session).items() if octets != before[content]}


def test_what_names_no_host_is_billed_as_the_name_of_its_address(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _), resolver(lab):
        octets = exchange_datagrams(lab, ue, DN, 500)
        assert settled(lab, session) == {"other": octets}
        assert dig(lab.ue, "cdn.video.example", "a")[1][0][1] == DN
        before = settled(lab, session)
        octets = exchange_datagrams(lab, ue, DN, 500)
        assert since(lab, session, before) == {"video": octets}
        before = settled(lab, session)
        exchange_streams(lab, ue, DN, 100_000)
        video = since(lab, session, before)
        assert list(video) == ["video"] and video["video"] > 100_000, video
        # The other address has no name yet, and then its own.
        before = settled(lab, session)
        octets = exchange_datagrams(lab, ue, OTHER, 300)
        assert since(lab, session, before) == {"other": octets}
        assert dig(lab.ue, "game.example", "a", server=DN6)[1][0][1] == OTHER
        before = settled(lab, session)
        octets = exchange_datagrams(lab, ue, OTHER, 300)
        assert since(lab, session, before) == {"game": octets}


def test_what_a_client_names_counts_more(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, _, _), resolver(lab):
        assert dig(lab.ue, "cdn.video.example", "a")[1][0][1] == DN
        with servers(lab):
            before = settled(lab, session)
            web(lab, "get", "https://www.example/100000")
            got = since(lab, session, before)
        # What comes before the client names the host: the handshake of TCP, and the start of a ClientHello that has two segments.
        assert got["other"] > 100_000 and got.get("video", 0) < 3_000, got
        with servers(lab):
            before = settled(lab, session)
            web(lab, "get", "https://cdn.video.example/100000")
            got = since(lab, session, before)
        assert list(got) == ["video"], got


def test_a_zero_rated_host_counts_where_a_resolver_gave_the_address_for_it(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, _, _), resolver(lab):
        for name in ("game.example", "www.free.example"):
            assert dig(lab.ue, name, "a")[1]
            with servers(lab):
                before = settled(lab, session)
                web(lab, "get", "https://www.free.example/100000")
                got = since(lab, session, before)
            assert (got.get("free", 0) > 100_000) == (name == "www.free.example"), got
