"""The listener of the API under attack, by clients that share no code with ours (OpenSSL's): older TLS, guessed tokens,
slow clients, pages of other origins, heads that are too large. What is right is served meanwhile."""
import contextlib
import json
import secrets
import socket
import ssl
import subprocess
import time

import pytest

from api_daemon import api_daemon, read

HEAD = b"GET /v1/n4 HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def daemon():
    with api_daemon() as daemon:
        yield daemon


def is_served(daemon, source="127.0.0.9"):
    """Another host with a right token is served, and soon."""
    began = time.monotonic()
    status, text = daemon.ask("/v1/n4", daemon.tokens["viewer"], source=source)
    assert status == 200, text
    return time.monotonic() - began < 3


def test_nothing_but_tls_1_3(daemon):
    address = f"127.0.0.1:{daemon.port}"
    for version in ("-tls1", "-tls1_1", "-tls1_2", "-no_tls1_3"):
        command = ["openssl", "s_client", "-connect", address, version, "-cipher", "ALL:@SECLEVEL=0"]
        done = subprocess.run(command, input="", capture_output=True, text=True, timeout=30)
        assert done.returncode != 0 and "BEGIN CERTIFICATE" not in done.stdout, (version, done.stdout)
    context = daemon.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")
    # HTTP in the clear.
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as plain:
        plain.sendall(HEAD + b"\r\n")
        assert b"HTTP/1.1 200" not in plain.recv(4096)
    with daemon.connect() as tls:
        assert tls.version() == "TLSv1.3" and tls.selected_alpn_protocol() in (None, "http/1.1")
    # No renegotiation, and no data ahead of the handshake's end (0-RTT).
    done = subprocess.run(["openssl", "s_client", "-connect", address, "-sess_out", daemon.files / "session"],
                          input="", capture_output=True, text=True, timeout=30)
    assert "Max Early Data: 0" in done.stdout or "Early data was not sent" in done.stdout, done.stdout
    assert is_served(daemon)


def test_guessed_tokens_are_slowed_down_and_lock_out_no_other(daemon):
    right = daemon.tokens["viewer"]
    guesses = [f"sluice_{secrets.token_hex(32)}" for _ in range(20)]
    guesses += ["", "x", right[:-1], right + "0", right.upper(), right.removeprefix("sluice_")]
    statuses = [daemon.ask("/v1/n4", guess or " ")[0] for guess in guesses]
    assert set(statuses) <= {401, 429} and 401 in statuses and 429 in statuses, statuses
    # Neither another host nor the holder of a right token at the same address.
    assert daemon.ask("/v1/n4", right)[0] == 200
    assert is_served(daemon)
    for scheme in (f"Basic {right}", f"Bearer {right} {right}", f"Bearer  {right}x"):
        status, text = daemon.ask("/v1/n4", Authorization=scheme, source="127.0.0.3")
        assert status in (401, 429), (scheme, status, text)


def test_a_role_is_no_more_than_it_is(daemon):
    document = json.loads(daemon.ask("/openapi.json", daemon.tokens["viewer"])[1].split("\r\n\r\n", 1)[1])
    order = ["viewer", "operator", "admin"]
    asked = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "x-role" not in operation or operation["x-role"] not in order:
                continue
            target = path.replace("{", "").replace("}", "")
            for role in order[:order.index(operation["x-role"])]:
                status, text = daemon.ask(target, daemon.tokens[role], method.upper(), source=f"127.0.1.{asked % 200}")
                assert status == 403, (role, method, path, status, text)
                asked += 1
            status, text = daemon.ask(target, None, method.upper(), source=f"127.0.2.{asked % 200}")
            assert status == 401, (method, path, status, text)
    assert asked > 10


def test_slow_clients_hold_up_no_other(daemon):
    with contextlib.ExitStack() as stack:
        for number in range(120):
            source = f"127.0.{3 + number // 30}.{1 + number % 3}"
            if number % 3 == 0:
                # Nothing at all, not even a handshake.
                stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), source_address=(source, 0)))
                continue
            try:
                tls = stack.enter_context(daemon.connect(source))
            except OSError:
                # It gave way already.
                continue
            with contextlib.suppress(OSError):
                tls.sendall(HEAD if number % 3 == 1 else b"G")
        assert is_served(daemon)
    # Documents that come slowly, of a caller that may send them: more than the answers that are made at a time.
    head = (f"POST /v1/config/diff HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.tokens['admin']}\r\n"
            "Content-Type: application/yaml\r\nContent-Length: 1000\r\n\r\nnode").encode()
    with contextlib.ExitStack() as stack:
        for _ in range(24):
            stack.enter_context(daemon.connect("127.0.0.8")).sendall(head)
            time.sleep(0.06)
        assert is_served(daemon)
        assert is_served(daemon, "127.0.0.8")


def test_pages_of_other_origins_are_refused(daemon):
    token = daemon.tokens["admin"]
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Origin": f"http://localhost:{daemon.port}"}, {"Sec-Fetch-Site": "same-site"}):
        status, text = daemon.ask("/v1/config/rollback", token, "POST", **headers)
        assert status == 403 and "another origin" in text, (headers, status, text)
        assert "access-control-allow" not in text.lower()
    # A form, as a page can send it without asking.
    status, _ = daemon.ask("/v1/tokens?name=x&role=admin", None, "POST", body=b"a=b",
                           **{"Content-Type": "application/x-www-form-urlencoded"})
    assert status == 401
    status, text = daemon.ask("/v1/n4", token, Origin=f"https://localhost:{daemon.port}")
    assert status == 200 and "set-cookie" not in text.lower()


@pytest.mark.parametrize("bomb", [
    b"".join(b"X-%d: y\r\n" % number for number in range(5_000)),
    b"X: " + b"y" * 200_000 + b"\r\n",
    b"X: y\r\n" * 65,
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Host: other\r\n",
    b"X\x00: y\r\n",
    b" folded\r\n",
], ids=["many", "long", "same", "smuggled", "two lengths", "negative", "huge", "two hosts", "nul", "folded"])
def test_heads_that_are_no_heads_end_their_connection(daemon, bomb):
    with daemon.connect("127.0.0.4") as tls:
        octets = HEAD + b"Authorization: Bearer " + daemon.tokens["viewer"].encode() + b"\r\n" + bomb + b"\r\n"
        with contextlib.suppress(OSError):
            tls.sendall(octets)
        try:
            status, text = read(tls)
        except OSError:
            status, text = None, ""
    assert status is None or 400 <= status < 500, text
    assert is_served(daemon)


def test_what_was_refused_is_in_the_audit_log(daemon):
    log = "".join(file.read_text() for file in (daemon.files / "audit").iterdir() if file.is_file())
    assert '"credentials"' in log and '"role"' in log, log
