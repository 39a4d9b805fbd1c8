"""Alarms reach receivers that share no code with ours: a webhook of Python's http.server over TLS, which refuses the first
one, and a collector of syslog over TLS and UDP."""
import http.server
import json
import queue
import re
import socket
import ssl
import threading

import pytest

from api_daemon import api_daemon, free_port

# RFC 5424 §6, with the structured data of RFC 5674.
MESSAGE = re.compile(r'<(\d+)>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 127\.0\.0\.11 sluice \d+ (\S+) '
                     r'(-|\[alarm resource="[^"]+" probableCause="\w+" perceivedSeverity="\w+" eventType="\w+"\]'
                     r'\[meta sequenceId="\d+"\]) (.+)')
ALARMS = """
alarms:
  watermarks: [{{of: sessions, at: 1}}]
  webhooks: [{{url: "https://localhost:{hook}/alarms", ca: {{files}}/ca.pem}},
             {{url: "https://localhost:{hook}/unknown"}}]
  syslog: [{{to: "tls://localhost:{tls}", ca: {{files}}/ca.pem, facility: 10}}, {{to: "udp://127.0.0.1:{udp}"}}]
"""


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.came.put(body)
        self.send_response(500 if self.server.refuses else 204)
        self.server.refuses = False
        self.end_headers()

    def log_message(self, *_):
        pass


def messages(octets):
    """Messages with their lengths ahead (RFC 5425 §4.3)."""
    while octets:
        length, _, octets = octets.partition(b" ")
        yield octets[:int(length)].decode()
        octets = octets[int(length):]


@pytest.fixture(scope="module")
def ports():
    return {"hook": free_port(), "tls": free_port(), "udp": free_port()}


def serve_syslog(server, context, came):
    while True:
        try:
            plain, _ = server.accept()
        except OSError:
            return
        with context.wrap_socket(plain, server_side=True) as tls:
            octets = b""
            while part := tls.recv(65536):
                octets += part
        for message in messages(octets):
            came.put(message)


def test_alarms_reach_a_webhook_and_collectors_of_syslog(ports):
    # What is sent to a port without a listener is lost.
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", ports["udp"]))
    datagrams.settimeout(60)
    with api_daemon(more=ALARMS.format(**ports)) as daemon:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(daemon.files / "server.pem", daemon.files / "server.key")
        # Receivers that were not there are tried again.
        daemon.wait("alarms not delivered")
        hook = http.server.ThreadingHTTPServer(("127.0.0.1", ports["hook"]), Hook)
        hook.socket = context.wrap_socket(hook.socket, server_side=True)
        hook.came, hook.refuses = queue.Queue(), True
        collector = socket.create_server(("127.0.0.1", ports["tls"]))
        syslog = queue.Queue()
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        threading.Thread(target=serve_syslog, args=(collector, context, syslog), daemon=True).start()
        try:
            refused = hook.came.get(timeout=60)
            taken = hook.came.get(timeout=60)
            assert refused["node"] == "127.0.0.11" and refused["started_ms"] == taken["started_ms"]
            # The receiver whose authority is not known is an alarm, which the other one gets.
            events = taken["events"]
            while not any("unknown" in event["alarm"]["object"] for event in events):
                events += hook.came.get(timeout=60)["events"]
            assert [event["id"] for event in events] == sorted({event["id"] for event in events})
            alarm = next(event["alarm"] for event in events if "unknown" in event["alarm"]["object"])
            assert (alarm["alarm"], alarm["severity"]) == ("alarms_undelivered", "minor"), alarm
            first = syslog.get(timeout=60)
            assert MESSAGE.fullmatch(first) and "started" in first, first
            # The host's disk may be nearly full, too.
            while "alarms_undelivered" not in (message := syslog.get(timeout=60)):
                assert MESSAGE.fullmatch(message), message
            found = MESSAGE.fullmatch(message)
            assert found and found[2] == "alarms_undelivered", message
            # The facility and the severity (RFC 5674 §2): minor is an error.
            assert int(found[1]) == 10 * 8 + 3, message
            said = [datagrams.recv(65536).decode() for _ in range(2)]
            assert all(MESSAGE.fullmatch(text) for text in said), said
            # There it is by its name.
            status, text = daemon.ask("/v1/alarms", daemon.tokens["viewer"])
            assert status == 200 and "/unknown" in text, text
        finally:
            hook.shutdown()
            hook.server_close()
            collector.close()
            datagrams.close()
