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
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# What `openssl ca` has to know of it.
AUTHORITY = """
[ca]
default_ca = authority
[authority]
database = {files}/index
crlnumber = {files}/crlnumber
certificate = {files}/ca.pem
private_key = {files}/ca.key
default_md = sha256
default_crl_days = 2
"""


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=30)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def make_certificates(files):
    """An authority, and a certificate of it for this host."""
    openssl("req", "-x509", *CURVE, "-keyout", files / "ca.key", "-out", files / "ca.pem", "-subj", "/CN=authority",
            "-days", "2", "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", *CURVE, "-keyout", files / "server.key", "-out", files / "server.csr", "-subj", "/CN=upf")
    names = files / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", files / "server.csr", "-CA", files / "ca.pem", "-CAkey", files / "ca.key",
            "-out", files / "server.pem", "-days", "2", "-extfile", names)
    (files / "server.key").chmod(0o600)
    (files / "authority").write_text(AUTHORITY.format(files=files))
    (files / "index").touch()
    (files / "crlnumber").write_text("01\n")
    make_crl(files)


def make_client(files, name):
    """A certificate of the authority's for this host name: its file, and that of its key."""
    certificate, key = files / f"{name}.pem", files / f"{name}.key"
    openssl("req", *CURVE, "-keyout", key, "-out", files / "client.csr", "-subj", "/CN=client")
    names = files / "client.names"
    names.write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage=clientAuth\n")
    openssl("x509", "-req", "-in", files / "client.csr", "-CA", files / "ca.pem", "-CAkey", files / "ca.key",
            "-out", certificate, "-days", "2", "-extfile", names)
    return certificate, key


def make_crl(files, *more):
    """The authority's CRL, of what it has revoked so far."""
    openssl("ca", "-gencrl", "-config", files / "authority", "-out", files / "crl.new", *more)
    (files / "crl.new").rename(files / "crl.pem")


def revoke(files, certificate):
    openssl("ca", "-revoke", certificate, "-config", files / "authority")
    make_crl(files)


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

    def context(self, client=None):
        """A client's view of TLS: Python's, that is OpenSSL's; perhaps with certificate and key."""
        context = ssl.create_default_context(cafile=self.files / "ca.pem")
        if client:
            context.load_cert_chain(*client)
        return context

    def connect(self, source="127.0.0.1", client=None):
        """A connection over TLS; addresses of loopback other than the first stand for other hosts."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))
        return self.context(client).wrap_socket(plain, server_hostname="localhost")

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
        daemon = ApiDaemon(files, https.replace("{files}", directory), more.replace("{files}", directory))
        try:
            yield daemon
            assert daemon.process.poll() is None, daemon.said()
            assert "panicked" not in daemon.said(), daemon.said()
        finally:
            daemon.close()
