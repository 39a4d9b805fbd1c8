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
from lab import API_CONFIGURATION, DN, EGRESS_CONFIGURATION, N3, Lab, Tunnel, eventually, shown

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
alarms:
  watermarks:
    - {{of: packet_rate, at: 20, slice: {{sst: 3, sd: "000003"}}, dnn: watched, direction: uplink}}
    - {{of: throughput, at: 1000000, slice: {{sst: 3, sd: "000003"}}}}
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


def metrics(lab):
    with forwarded(lab):
        return get(lab, f"{TARGET}/metrics")[1]


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


# Slice and DNN of a session, its UE, and payload octets of its packets.
GROUPS = {("1-000001", "internet"): ({"sst": 1, "sd": 1, "dnn": "internet"}, "10.45.8.1", 100),
          ("2-000abc", "internet"): ({"sst": 2, "sd": 0xabc, "dnn": "internet"}, "10.45.8.2", 300),
          ("1-000001", "ims"): ({"sst": 1, "sd": 1, "dnn": "ims"}, "10.45.8.3", 500)}
UPLINK, DOWNLINK = 30, 20


def forwarded_of(text, kind):
    """Of each slice, DNN and direction."""
    found = re.findall(rf'^sluice_slice_forwarded_{kind}_total{{slice="(.*)",dnn="(.*)",direction="(.*)"}} (\d+)$', text,
                       re.M)
    return {tuple(labels): int(value) for *labels, value in found}


def test_slices_count_what_the_kernel_of_the_data_network_has_counted(metrics_lab):
    """nftables counts packets and octets by UE where they reach and leave the data network."""
    lab = metrics_lab
    sessions = {group: lab.smf.session(ue4=ue, **said) for group, (said, ue, _) in GROUPS.items()}
    rules = "".join(f"add rule ip slices {hook} ip {end} {ue} counter\n"
                    for _, ue, _ in GROUPS.values() for hook, end in (("input", "saddr"), ("output", "daddr")))
    file = lab.files / "slices.nft"
    file.write_text("add table ip slices\n" + "".join(
        f"add chain ip slices {hook} {{ type filter hook {hook} priority 0; }}\n" for hook in ("input", "output")) + rules)
    lab.dn.run(f"nft -f {file}")
    before = {kind: forwarded_of(metrics(lab), kind) for kind in ("packets", "bytes")}
    with lab.gnb_socket() as gnb, lab.dn_udp_socket(DN, 9) as host:
        for group, (_, ue, size) in GROUPS.items():
            session = sessions[group]
            inner = bytes(IP(src=ue, dst=DN) / UDP(sport=40000, dport=9) / Raw(b"u" * size))
            tunnel = Tunnel(session, gnb)
            for _ in range(UPLINK):
                tunnel.send(inner)
                host.recv(2000)
            for _ in range(DOWNLINK):
                host.sendto(b"d" * (size + 1), (ue, 40000))
                tunnel.receive()
    counted = json.loads(lab.dn.run("nft -j list table ip slices").stdout)["nftables"]
    kernel = {}
    for rule in (one["rule"] for one in counted if "rule" in one):
        match, counter = rule["expr"][0]["match"], rule["expr"][1]["counter"]
        group = next(group for group, (_, ue, _) in GROUPS.items() if ue == match["right"])
        direction = "uplink" if rule["chain"] == "input" else "downlink"
        kernel[(*group, direction)] = (counter["packets"], counter["bytes"])
    assert set(packets for packets, _ in kernel.values()) == {UPLINK, DOWNLINK}

    def ours():
        text = metrics(lab)
        now = {kind: forwarded_of(text, kind) for kind in before}
        return {key: tuple(now[kind].get(key, 0) - before[kind].get(key, 0) for kind in ("packets", "bytes"))
                for key in kernel}
    eventually(lambda: ours() == kernel, "what the kernel has counted")
    rows = {(row["slice"], row["dnn"]): row for row in shown(lab, "slices")["slices"]}
    for group in GROUPS:
        row = rows[group]
        assert (row["uplink_packets"], row["downlink_packets"]) == (UPLINK, DOWNLINK), row
        assert row["sessions"] == 1, row
    # TS 28.552 has subcounters by S-NSSAI, of all DNNs together.
    with forwarded(lab):
        text = get(lab, f"{TARGET}/metrics/ts28552")[1]
    of_slice = re.findall(r'^fivegs_ep_n3_gtp_(\w+)_snssai_total{snssai="1-000001"} (\d+)$', text, re.M)
    octets = [sum(value[1] for key, value in kernel.items() if key[0] == "1-000001" and key[2] == direction)
              for direction in ("uplink", "downlink")]
    assert dict(of_slice) == {"indatapktn3upf": str(2 * UPLINK), "outdatapktn3upf": str(2 * DOWNLINK),
                              "indataoctn3upf": str(octets[0]), "outdataoctn3upf": str(octets[1])}
    # What a session has forwarded stays when it has gone.
    for session in sessions.values():
        lab.smf("delete", up_seid=session["up_seid"])
    assert ours() == kernel


def test_a_packet_rate_raises_an_alarm_and_its_end_clears_it(metrics_lab):
    session = metrics_lab.smf.session(ue4="10.45.8.4", sst=3, sd=3, dnn="watched")

    def raised():
        return [row["object"] for row in shown(metrics_lab, "alarms")["alarms"] if row["alarm"] == "watermark"]

    def wait_until(is_so, seconds):
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, raised()
            time.sleep(0.5)
    # 50 packets a second, of which the mean of ten seconds is made. They are far from a throughput of 1 Gbit/s.
    with traffic(metrics_lab, session):
        wait_until(raised, 60)
        assert raised() == ["packet_rate slice=3-000003 dnn=watched direction=uplink"]
    # The rate falls for ten seconds, and the alarm stays for ten more.
    wait_until(lambda: not raised(), 60)
    metrics_lab.smf("delete", up_seid=session["up_seid"])


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
