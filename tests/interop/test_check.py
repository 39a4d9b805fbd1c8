"""`sluice check --ports` on kernel interfaces: what they can do, and which cannot be had."""
import os
import subprocess

import pytest

from lab import Namespace

CONFIGURATION = """
node: {{id: 127.0.0.8}}
n4: {{addresses: [127.0.0.8]}}
ports:
  - {{name: ran, driver: {{af_packet: {{interface: n3}}}}}}
  - {{name: dn, driver: {{af_xdp: {{interface: {dn}, force_copy: true}}}}}}
instances:
  - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}
  - {{name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24]}}
"""


@pytest.fixture(scope="module")
def host():
    """A namespace with two links."""
    namespace = Namespace("check")
    for link in ("n3", "n6"):
        namespace.run(f"ip link add {link} type veth peer name {link}far")
        namespace.run(f"ip link set {link} up")
    namespace.run("ip link set n3far up")
    yield namespace
    namespace.close()


def check(host, directory, dn):
    """Exit status, what it says of each port by name and line, and its errors."""
    file = directory / "sluice.yaml"
    file.write_text(CONFIGURATION.format(dn=dn))
    process = host.popen(os.environ["SLUICE"], "check", "--ports", "-c", str(file),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=30)
    ports = {}
    _, _, reported = out.partition("The ports, opened")
    for block in reported.split("\nport       ")[1:]:
        name, *lines = block.splitlines()
        ports[name] = {line[11:29].strip(): line[31:] for line in lines if line.startswith(" " * 11)}
    return process.returncode, ports, err


def test_kernel_interfaces_say_what_they_can_do(host, tmp_path):
    status, ports, err = check(host, tmp_path, "n6")
    assert status == 0, err
    ran, dn = ports["ran"], ports["dn"]
    assert ran["driver"].startswith("packet sockets") and dn["driver"].startswith("net_af_xdp")
    # Only one of them has a peer at the other end.
    assert ran["link"].startswith("up") and dn["link"].startswith("down")
    # What keeps their frames from the host, and what is on the interface.
    assert "`table netdev sluice-n3`" in ran["host"] and "XDP" not in ran["host"]
    assert "`table netdev sluice-n6`" in dn["host"] and "is this port's" in dn["host"]
    assert all(port["queues"].startswith("1 of ") and port["MTU"].startswith("1500") for port in (ran, dn))
    assert ran["rte_flow for GTP-U"] == "not wanted with one worker"
    assert dn["rte_flow for GTP-U"].startswith("not wanted: no tunnels")


def test_a_port_that_cannot_be_had_does_not_hide_the_other(host, tmp_path):
    status, ports, err = check(host, tmp_path, "nosuch0")
    assert status == 1 and "port `dn`" in err and "nosuch0" in err
    assert set(ports) == {"ran"}
