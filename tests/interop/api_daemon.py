"""A daemon whose API other hosts could use: TLS by a certificate of openssl's, a token for each role, an audit log."""
import contextlib
import os
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

ROLES = ("viewer", "operator", "admin")
CONFIGURATION = """
node: {{id: 127.0.0.11}}
n4: {{addresses: [127.0.0.11], release_wait_s: 0}}
control:
  socket: {files}/control
  token_file: {files}/tokens
  https: {{addresses: ["127.0.0.1:{port}"], certificate: {files}/server.pem, key: {files}/server.key{https}}}
  audit: {{directory: {files}/audit}}
ports: [{{name: ran, driver: {{memory: {{}}}}}}]
instances: [{{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}]
{more}
"""


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def make_certificates(files):
    """An authority, and a certificate of it for this host."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", files / "ca.key", "-out", files / "ca.pem", "-subj", "/CN=authority",
            "-days", "2", "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", *curve, "-keyout", files / "server.key", "-out", files / "server.csr", "-subj", "/CN=upf")
    names = files / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", files / "server.csr", "-CA", files / "ca.pem", "-CAkey", files / "ca.key",
            "-out", files / "server.pem", "-days", "2", "-extfile", names)
    (files / "server.key").chmod(0o600)


class ApiDaemon:
    def __init__(self, files, https, more):
        self.files, self.port = files, free_port()
        self.file = files / "sluice.yaml"
        self.file.write_text(CONFIGURATION.format(files=files, port=self.port, https=https, more=more))
        self.log = open(files / "log", "w+")
        self.process = subprocess.Popen([os.environ["SLUICE"], "run", "-c", str(self.file)], stdout=subprocess.DEVNULL,
                                        stderr=self.log)
        self.wait("ready")
        self.tokens = {role: self.token(role, role) for role in ROLES}

    def said(self):
        return (self.files / "log").read_text()

    def wait(self, words, seconds=30):
        deadline = time.monotonic() + seconds
        while words not in self.said():
            assert self.process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def token(self, name, role, *more):
        command = [os.environ["SLUICE"], "token", "create", "--name", name, "--role", role, *more,
                   "--socket", str(self.files / "control")]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()

    def context(self):
        """A client's view of TLS: Python's, that is OpenSSL's."""
        return ssl.create_default_context(cafile=self.files / "ca.pem")

    def connect(self, source="127.0.0.1"):
        """A connection over TLS; addresses of loopback other than the first stand for other hosts."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))
        return self.context().wrap_socket(plain, server_hostname="localhost")

    def ask(self, target, token=None, method="GET", source="127.0.0.1", body=b"", **headers):
        """Status and text of an answer."""
        head = {"Host": f"localhost:{self.port}", "Connection": "close"} | headers
        if token:
            head["Authorization"] = f"Bearer {token}"
        if body or method in ("POST", "PUT"):
            head["Content-Length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        with self.connect(source) as tls:
            tls.sendall("\r\n".join(lines).encode() + body)
            return read(tls)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(15)
        self.log.close()


def read(tls):
    """All of an answer that ends with its connection."""
    octets = b""
    with contextlib.suppress(ssl.SSLEOFError, ConnectionResetError):
        while part := tls.recv(65536):
            octets += part
    status = int(octets.split(b" ", 2)[1]) if octets.startswith(b"HTTP/1.1 ") else None
    return status, octets.decode(errors="replace")


@contextlib.contextmanager
def api_daemon(https="", more=""):
    """A daemon, until it is left; it has not failed then. Names in braces of `more` are replaced."""
    with tempfile.TemporaryDirectory() as directory:
        files = Path(directory)
        make_certificates(files)
        daemon = ApiDaemon(files, https, more.replace("{files}", directory))
        try:
            yield daemon
            assert daemon.process.poll() is None, daemon.said()
            assert "panicked" not in daemon.said(), daemon.said()
        finally:
            daemon.close()
