"""Client certificates that an authority revokes, by OpenSSL: `openssl ca` writes the CRLs, Python's TLS is the client."""
import contextlib
import ssl
import time

import pytest

from api_daemon import api_daemon, make_client, make_crl, read, revoke

HEAD = b"GET /v1/n4 HTTP/1.1\r\nHost: localhost\r\n"


def asked_by(daemon, client):
    """The status that the holder of a certificate gets; none where TLS refuses it."""
    with contextlib.suppress(ssl.SSLError, ConnectionResetError, BrokenPipeError):
        with daemon.connect(client=client) as tls:
            tls.sendall(HEAD + b"Connection: close\r\n\r\n")
            return read(tls)[0]


def becomes(daemon, client, status):
    deadline = time.monotonic() + 15
    while (got := asked_by(daemon, client)) != status:
        assert time.monotonic() < deadline, (got, daemon.said())
        time.sleep(0.2)


def test_certificates_that_openssl_revokes_are_refused_and_end_their_streams():
    https = (", client_ca: {files}/ca.pem, client_crl: {files}/crl.pem, clients: [{san: 'dns:one.example', role: viewer}, "
             "{san: 'dns:two.example', role: viewer}]")
    with api_daemon(https=https) as daemon:
        files = daemon.files
        one, two = (make_client(files, f"{name}.example") for name in ("one", "two"))
        assert asked_by(daemon, one) == asked_by(daemon, two) == 200
        with daemon.connect(client=one) as stream, daemon.connect(client=two) as other:
            for tls in (stream, other):
                tls.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert b" 200 " in tls.recv(4096).split(b"\r\n")[0]
            revoke(files, one[0])
            becomes(daemon, one, None)
            # The stream ends, which would have gone on; that of the other one stays.
            stream.settimeout(15)
            with contextlib.suppress(ssl.SSLError, ConnectionResetError):
                while stream.recv(65536):
                    pass
            other.settimeout(3)
            with pytest.raises(TimeoutError):
                while other.recv(65536):
                    pass
        assert asked_by(daemon, two) == 200
        # What is no list is named and not taken.
        (files / "crl.pem").write_text("nothing")
        daemon.wait("crl.pem: has no CRL in PEM")
        assert asked_by(daemon, one) is None and asked_by(daemon, two) == 200
        # A list that is not valid any more says nothing, so no certificate is taken; tokens do not depend on it.
        make_crl(files, "-crl_lastupdate", "20240101000000Z", "-crl_nextupdate", "20240201000000Z")
        daemon.wait("API CRL expired")
        becomes(daemon, two, None)
        assert daemon.ask("/v1/n4", daemon.tokens["viewer"])[0] == 200
        make_crl(files)
        becomes(daemon, two, 200)
        assert asked_by(daemon, one) is None
