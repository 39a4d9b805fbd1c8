"""The plug-in in a daemon: nDPI (Debian's libndpi4.2) says what flows are that Sluice does not recognise, they are billed as that
and denied as that; flows of TLS are not shown to it. Libraries that are missing or another, and names that it does not know.
"""
import os
import pathlib
import socket
import subprocess
import threading

import pytest

from conftest import serve
from lab import API_CONFIGURATION, DN, Lab, eventually, kernel_ue, shown
from test_inspection import servers, settled, web
from test_ndpi_captures import bittorrent
from test_resolver import bound, since

SLUICE = os.environ["SLUICE"]
PORT = 51_413
DENIED_PORT = 2_222
INSPECTION = "inspection: {{ndpi: {{flows: 256}}}}\n"
RULES = """
access_lists:
  - name: no ssh
    dnn: internet
    rules: [{{name: ssh, action: reset, protocols: [ndpi.ssh]}}]
predefined:
  rulebases:
    - name: web
      rules:
        - {{precedence: 10, protocols: [ndpi.bittorrent, ndpi.edonkey], content: {{name: sharing}}}}
        - {{precedence: 20, hosts: ["*.video.example"], content: {{name: video}}}}
        - {{precedence: 90, content: {{name: other}}}}
"""


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_packet", 2)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    lab = Lab(SLUICE, driver, workers, configuration=API_CONFIGURATION + INSPECTION + RULES)
    yield from serve(request, lab, lab.associate)


def counted(lab):
    """Flows that nDPI has begun to look at, and that are what it says, of all workers."""
    workers = shown(lab, "runtime")["workers"]
    return [sum(worker["counts"][what] for worker in workers) for what in ("ndpi_flows", "ndpi_found")]


def share(lab, ue, octets):
    """Peers of BitTorrent: a handshake of each end, then as many octets to the UE."""
    with bound(lab.dn, socket.SOCK_STREAM, DN, PORT) as listener, bound(lab.ue, socket.SOCK_STREAM, ue) as here:
        listener.listen(1)

        def seed():
            with listener.accept()[0] as there:
                assert there.recv(68, socket.MSG_WAITALL) == bittorrent("UT3550")
                there.sendall(bittorrent("TR2940") + bytes(octets))
                there.shutdown(socket.SHUT_WR)
                while there.recv(65_536):
                    pass
        seeder = threading.Thread(target=seed)
        seeder.start()
        here.connect((DN, PORT))
        here.sendall(bittorrent("UT3550"))
        got = 0
        while piece := here.recv(65_536):
            got += len(piece)
        here.shutdown(socket.SHUT_WR)
        seeder.join()
    assert got == 68 + octets


def test_a_flow_is_billed_as_what_ndpi_calls_it(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        shown_before, found_before = counted(lab)
        share(lab, ue, 200_000)
        got = settled(lab, session)
        eventually(lambda: counted(lab) == [shown_before + 1, found_before + 1], "the flow is counted")
        # The handshake of TCP comes before nDPI says anything.
        assert got["sharing"] > 200_000 and got.get("other", 0) < 400, got
        # A flow of TLS is read here.
        with servers(lab):
            before = settled(lab, session)
            web(lab, "get", "https://cdn.video.example/100000")
            got = since(lab, session, before)
        assert got["video"] > 100_000 and "sharing" not in got, got
        assert counted(lab) == [shown_before + 1, found_before + 1]


def test_a_trace_says_what_ndpi_calls_it(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (_, ue, _), open(lab.files / "trace", "w+") as said:
        trace = subprocess.Popen([SLUICE, "trace", "--ue", ue, "--socket", str(lab.files / "control"), "--count", "200"],
                                 stdout=said)
        # It may begin a little later than it is asked for.
        while trace.poll() is None:
            share(lab, ue, 50_000)
        said.seek(0)
        text = said.read()
    assert "this packet shows that it is BitTorrent by nDPI, for no host that is known" in text, text


def test_an_access_list_denies_what_ndpi_finds(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (_, ue, _):
        with bound(lab.dn, socket.SOCK_STREAM, DN, DENIED_PORT) as listener, bound(lab.ue, socket.SOCK_STREAM, ue) as here:
            listener.listen(1)
            here.connect((DN, DENIED_PORT))
            there, _ = listener.accept()
            with there:
                there.settimeout(5)
                there.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
                here.recv(100)
                here.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                with pytest.raises(ConnectionResetError):
                    while here.recv(100):
                        pass


CHECKED = """
node: {{id: 127.0.0.8}}
n4: {{addresses: [127.0.0.8]}}
ports: [{{name: ran, driver: {{memory: {{}}}}}}]
instances: [{{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}]
inspection: {{{inspection}}}
predefined:
  rulebases: [{{name: r, rules: [{{precedence: 1, protocols: [{protocol}]}}]}}]
"""


@pytest.mark.parametrize("inspection, protocol, words", [
    ("ndpi: {}", "ndpi.BitTorrent", None),
    ("", "ndpi.bittorrent", "protocols: `ndpi.bittorrent`: nothing looks for it without `inspection.ndpi`"),
    ("ndpi: {}", "ndpi.bittorent", "protocols: `ndpi.bittorent`: nDPI 4.2.0 has no protocol of this name"),
    ("ndpi: {}", "ndpi.quic", "`ndpi.quic`: Sluice recognises it by itself, as `quic`"),
    ("ndpi: {library: libndpi.so.3.4}", "ndpi.bittorrent", "inspection.ndpi.library: `libndpi.so.3.4`: libndpi.so.3.4: cannot open shared object"),
    ("ndpi: {library: /nowhere/libndpi.so}", "ndpi.bittorrent", "`/nowhere/libndpi.so`: No such file"),
    ("ndpi: {library: libc.so.6}", "ndpi.bittorrent", "it is no nDPI that is known: it has no function `ndpi_get_api_version`"),
])
def test_what_cannot_be_is_refused_with_the_field(tmp_path, inspection, protocol, words):
    file = tmp_path / "sluice.yaml"
    file.write_text(CHECKED.format(inspection=inspection, protocol=protocol))
    done = subprocess.run([SLUICE, "check", "-c", str(file)], capture_output=True, text=True)
    assert (done.returncode == 0) == (words is None), done.stderr
    assert words is None or words in done.stderr, done.stderr


def test_another_version_is_refused(tmp_path):
    stub, library = pathlib.Path(__file__).parents[2] / "crates/ndpi/tests/all/stub.c", tmp_path / "libndpi.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-DAPI=9876", '-DREVISION="4.8.0"', "-o", library, stub], check=True)
    library.chmod(0o755)
    file = tmp_path / "sluice.yaml"
    for mode, words in [(0o755, "it is nDPI 4.8.0, with the interface 9876"), (0o777, "others may write to it")]:
        library.chmod(mode)
        file.write_text(CHECKED.format(inspection=f"ndpi: {{library: {library}}}", protocol="tls"))
        done = subprocess.run([SLUICE, "check", "-c", str(file)], capture_output=True, text=True)
        assert done.returncode != 0 and words in done.stderr, done.stderr
