"""Debian's Prometheus scrapes a UPF under traffic: each expression of the dashboards and alerts of monitoring/ has series."""
import contextlib
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from scapy.all import IP, UDP, Raw
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer

from conftest import serve
from lab import DN, EGRESS_CONFIGURATION, N3, Lab

MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
# The laboratory has no accelerator.
WITHOUT_SERIES = {"SluiceAcceleratorLost"}
TARGET, PROMETHEUS = "127.0.0.1:9443", "127.0.0.1:9090"
# With queues, pools, usage records and a store, of which there are metrics, too. No session of the test is translated.
METRICS_CONFIGURATION = EGRESS_CONFIGURATION + """\
pools: [{{name: ues, instance: internet, ipv4: [10.47.0.0/24]}}]
nat_pools: [{{name: cgn, instance: internet, dnn: translated, addresses: [198.51.100.0/30]}}]
records: {{directory: "{files}/records"}}
store: {{directory: "{files}/store"}}
"""
CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}, {alerts}]
scrape_configs:
  - {{job_name: sluice, static_configs: [{{targets: ["{target}"]}}]}}
  - {{job_name: ts28552, metrics_path: /metrics/ts28552, static_configs: [{{targets: ["{target}"]}}]}}
"""


@pytest.fixture(scope="module")
def metrics_lab(request):
    """A laboratory whose UPF has something to say in every metric."""
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=METRICS_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


def pipe(source, sink):
    with contextlib.suppress(OSError):
        while octets := source.recv(65536):
            sink.sendall(octets)
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def forwarded(lab):
    """The API's socket at a TCP port in the UPF's namespace."""
    with lab.upf.entered():
        host, port = TARGET.split(":")
        server = socket.create_server((host, int(port)))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(str(lab.files / "control"))
                for ends in ((client, daemon), (daemon, client)):
                    threading.Thread(target=pipe, args=ends, daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def get(lab, where):
    with lab.upf.entered():
        with urllib.request.urlopen(f"http://{where}", timeout=5) as response:
            return response.headers["Content-Type"], response.read().decode()


def query(lab, expression):
    found = get(lab, f"{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    return json.loads(found[1])["data"]["result"]


@contextlib.contextmanager
def prometheus(lab):
    file = lab.files / "prometheus.yml"
    file.write_text(CONFIGURATION.format(rules=MONITORING / "rules.yaml", alerts=MONITORING / "alerts.yaml",
                                         target=TARGET))
    process = lab.upf.popen("prometheus", f"--config.file={file}", f"--storage.tsdb.path={lab.files / 'tsdb'}",
                            f"--web.listen-address={PROMETHEUS}", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def traffic(lab, session):
    """Packets of a UE, one every 20 ms, until the end."""
    inner = IP(src=session["ue_ipv4"], dst=DN) / UDP(sport=40000, dport=9) / Raw(b"counted")
    packet = bytes(GTP_U_Header(teid=session["teid"], gtp_type=255, E=1, next_ex=0x85)
                   / GTPPDUSessionContainer(type=1, QFI=session["qfi"]) / inner)
    over = threading.Event()
    with lab.gnb_socket() as gnb, lab.dn_udp_socket(DN, 9):
        def send():
            while not over.wait(0.02):
                gnb.sendto(packet, (N3, 2152))
        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def expressions():
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{file.stem}: {panel['title']}", target["expr"].replace("$instance", TARGET)
    for name in ("rules.yaml", "alerts.yaml"):
        for group in yaml.safe_load((MONITORING / name).read_text())["groups"]:
            for rule in group["rules"]:
                # An alert's series without the comparison: most of the time nothing is to be wrong.
                yield rule.get("alert") or rule["record"], re.sub(r"\s(==|>|<)\s\S+$", "", rule["expr"].strip())


def test_every_expression_has_series(metrics_lab):
    session = metrics_lab.smf.session(ue4="10.45.7.1")
    with pytest.raises(RuntimeError):
        metrics_lab.smf("delete", up_seid=12345)
    wanted = {name: text for name, text in expressions() if name not in WITHOUT_SERIES}
    assert len(wanted) > 50
    with forwarded(metrics_lab), prometheus(metrics_lab), traffic(metrics_lab, session):
        deadline = time.monotonic() + 60
        missing = wanted
        while missing and time.monotonic() < deadline:
            time.sleep(1)
            with contextlib.suppress(OSError):
                missing = {name: text for name, text in missing.items() if not query(metrics_lab, text)}
        assert not missing, missing
        # One packet every 20 ms, seen over a minute that has only begun: it rises to that.
        rate = 0
        while rate < 10 and time.monotonic() < deadline + 30:
            time.sleep(1)
            found = query(metrics_lab, 'instance_direction:sluice_user_forwarded_packets:rate1m{direction="uplink"}')
            rate = float(found[0]["value"][1])
        assert 10 < rate < 100
        assert query(metrics_lab, "up{job='ts28552'} == 1")
        assert float(query(metrics_lab, "fivegs_ep_n3_gtp_indatapktn3upf_total")[0]["value"][1]) > 10
        # Both jobs were understood from the first scrape on.
        assert not query(metrics_lab, "min_over_time(up[1m]) == 0")


def test_promtool_finds_no_fault(metrics_lab):
    with forwarded(metrics_lab):
        kind, text = get(metrics_lab, f"{TARGET}/metrics")
    assert kind.startswith("text/plain; version=0.0.4")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^sluice_sessions 1$", text, re.M)


def test_the_rules_pass_their_tests():
    done = subprocess.run(["promtool", "test", "rules", MONITORING / "tests.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("rules.yaml", "alerts.yaml"):
        done = subprocess.run(["promtool", "check", "rules", MONITORING / name], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
