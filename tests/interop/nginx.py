"""nginx as the web server of every host in the data network: HTTP/1 with keep-alive, and TLS with a certificate for each host.

A path that ends with a number gets as many octets, where the number is one of SIZES. Which host each connection and each
request was for is what nginx's access log says.
"""
import collections
import contextlib
import os

from api_daemon import openssl
from lab import DN, eventually

SIZES = (1, 100, 1_000, 2_000, 3_000, 5_000, 7_000, 20_000, 50_000, 90_000, 100_000, 200_000)
# Hosts of which each has a server and a certificate of its own; all others share one.
HOSTS = ("video.example", "cdn.video.example", "shop.example", "other.example")
# The connection by nginx's number; of its requests the number there, what was asked for, and the octets sent, head and body.
Request = collections.namedtuple("Request", "client port connection request server_port sni what octets status")
LOG = "$remote_addr $remote_port $connection $connection_requests $server_port -$ssl_server_name $host$request_uri $bytes_sent $status"
CONFIGURATION = """
daemon off;
master_process off;
pid {files}/pid;
error_log {files}/errors;
events {{ worker_connections 1024; }}
http {{
    log_format asked "{log}";
    access_log {files}/asked asked;
    ssl_protocols TLSv1.2 TLSv1.3;
    sendfile on;
    # What was sent is in the log before the connection is closed.
    lingering_close off;
{servers}
}}
"""
SERVER = """
    server {{
        server_name {host};
        listen {address}:80{default};
        listen {address}:443 ssl{default};
        ssl_certificate {files}/{host}.pem;
        ssl_certificate_key {files}/{host}.key;
        location / {{ return 200 "{host}"; }}
        location ~ /([0-9]+)$ {{ alias {files}/$1; }}
    }}
"""


def configure(files):
    servers = ""
    for host in HOSTS:
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={host}",
                "-addext", f"subjectAltName=DNS:{host}", "-keyout", files / f"{host}.key", "-out", files / f"{host}.pem")
        default = " default_server" if host == HOSTS[-1] else ""
        servers += SERVER.format(host=host, address=DN, files=files, default=default)
    for size in SIZES:
        (files / str(size)).touch()
        os.truncate(files / str(size), size)
    (files / "nginx.conf").write_text(CONFIGURATION.format(files=files, log=LOG, servers=servers))


def read_log(file):
    for line in file.read_text().splitlines():
        client, port, connection, request, server_port, sni, what, octets, status = line.split()
        yield Request(client, int(port), int(connection), int(request), int(server_port), sni[1:], what, int(octets), int(status))


@contextlib.contextmanager
def serving(lab):
    """Serves; gives what was asked for in the end."""
    files = lab.files / "nginx"
    if not files.exists():
        files.mkdir()
        configure(files)
    for name in ("asked", "pid"):
        (files / name).unlink(missing_ok=True)
    process = lab.dn.popen("nginx", "-p", str(files), "-c", str(files / "nginx.conf"), "-e", str(files / "errors"))
    requests = []
    try:
        # It is written when the sockets are open.
        eventually(lambda: (files / "pid").exists() or process.poll() is not None, "nginx serves")
        assert process.poll() is None, (files / "errors").read_text()
        yield requests
    finally:
        process.terminate()
        process.wait(10)
    requests += read_log(files / "asked")
    assert all(one.status == 200 for one in requests), requests
