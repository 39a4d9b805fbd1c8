"""`sluice sim` against `sluice run`, over the kernel's sockets: SMF, gNB and data network in one namespace, the UPF in
another."""
import contextlib
import json
import os
import subprocess
import time

from lab import DN, GNB, N3, N6, UE_POOL, Namespace

CONFIGURATION = """
node: {id: 10.4.0.1}
n4: {addresses: [10.4.0.1], peers: [10.4.0.2/32]}
ports:
  - {name: ran, driver: {af_packet: {interface: n3}}}
  - {name: dn, driver: {af_packet: {interface: n6}}}
instances:
  - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}
  - {name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24], routes: [{to: 0.0.0.0/0, via: 10.200.0.254}]}
"""


def wire(sim, upf):
    for link, there, address in (("ran0", "n3", f"{GNB}/24"), ("dn0", "n6", f"{DN}/24"), ("smf0", "n4", "10.4.0.2/24")):
        sim.run(f"ip link add {link} type veth peer name {there} netns {upf.name}")
        sim.run(f"ip addr add {address} dev {link}")
        sim.run(f"ip link set {link} up")
        upf.run(f"ip link set {there} up")
    upf.run("ip addr add 10.4.0.1/24 dev n4")
    sim.run(f"ip route add {UE_POOL} via {N6}")


def test_the_simulator_drives_a_upf_over_the_network(tmp_path):
    binary = os.environ["SLUICE"]
    config = tmp_path / "sluice.yaml"
    config.write_text(CONFIGURATION)
    log = tmp_path / "log"
    with contextlib.ExitStack() as stack:
        sim, upf = Namespace("sim"), Namespace("upf")
        stack.callback(upf.close)
        stack.callback(sim.close)
        wire(sim, upf)
        process = upf.popen(binary, "run", "-c", str(config), stdout=subprocess.DEVNULL, stderr=log.open("w"))
        stack.callback(process.wait, 15)
        stack.callback(process.terminate)
        deadline = time.monotonic() + 30
        while "ready" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        done = sim.run(f"{binary} sim --upf-n4 10.4.0.1 --upf-n3 {N3} --smf 10.4.0.2 --gnb {GNB} --server {DN} "
                       "--sessions 50 --rate 2000 --seconds 3 --json", check=False)
        assert done.returncode == 0, done.stdout + done.stderr + log.read_text()
        summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert summary["sessions"] == 50
    assert summary["ul_sent"] > 2000 and summary["dl_sent"] > 2000
    assert summary["ul_lost"] == summary["dl_lost"] == 0
    # 600 octets a packet, each charged once.
    assert summary["usage_octets"] == {"uplink": 600 * summary["ul_sent"], "downlink": 600 * summary["dl_sent"]}
