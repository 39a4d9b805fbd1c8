"""Fixtures: one laboratory for each kernel-interface driver, shared by the tests of a module."""
import os
import re
import subprocess

import pytest

from lab import (API_CONFIGURATION, EGRESS_CONFIGURATION, GNB6, HOST_CONFIGURATION, LINKS, OAI_LINKS, ROUTERS_CONFIGURATION,
                 SIZES_CONFIGURATION, SMFS_CONFIGURATION, SMFS_EGRESS_CONFIGURATION, Lab)

FAULTY = "_ws.malformed || _ws.expert.severity == error"
# Each segment is looked at alone: that one was sent again, or overlaps another, is a matter of the two ends.
BY_ITSELF = ("-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.analyze_sequence_numbers:FALSE")


# Messages of a stream that go over segments.
TOGETHER = ("-o", "tcp.desegment_tcp_streams:TRUE")


# What Sluice writes, by the names that tshark's display filters have. All else is payload of UEs and servers, of which
# tshark guesses by its octets or by ports, which are chosen at random, what it could be.
WRITTEN = re.compile(r"_ws\..*|frame|eth|ethertype|vlan|slow|lacp|arp|ip|ipv6|ipv6\..*|icmp|icmpv6|udp|tcp|tcp\.options\..*"
                     r"|gtp|pfcp|bfd|cflow|dns|data")


def tshark(capture, wanted, *fields, options=(), settings=None):
    """These fields of the frames of a capture that match a display filter, a line each. `settings`: a folder with
    tshark's."""
    options = [*options] + [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", *BY_ITSELF, "-r", str(capture), "-Y", wanted, "-T", "fields", *options],
                          capture_output=True, text=True,
                          env=os.environ | ({"WIRESHARK_CONFIG_DIR": str(settings)} if settings else {}))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def written_alone(folder):
    """Settings of tshark, in this folder, by which it reads nothing but what Sluice writes."""
    done = subprocess.run(["tshark", "-G", "protocols"], capture_output=True, text=True, check=True)
    names = {line.split("\t")[2] for line in done.stdout.splitlines()}
    assert {"gtp", "pfcp", "tcp.options.mss", "_ws.malformed"} <= names
    folder.mkdir()
    (folder / "disabled_protos").write_text("".join(f"{name}\n" for name in sorted(names) if not WRITTEN.fullmatch(name)))
    return folder


def oracle(lab):
    """What tshark finds wrong in what Sluice sent. The other ends send nonsense on purpose."""
    merged = lab.files / "all.pcap"
    subprocess.run(["mergecap", "-w", merged, *lab.captures.values()], check=True)
    ours = " || ".join(f"{field} == {address}" for field, address in lab.ours.values())
    # The first of several layers, as of a packet in a tunnel.
    senders = {address.split(",")[0] for line in tshark(merged, ours, "eth.src", "ip.src", "ipv6.src")
               for address in line.split("\t")}
    for name, (_, address) in lab.ours.items():
        assert address in senders, f"nothing of ours in the capture of {name}"
    return tshark(merged, f"({ours}) && ({FAULTY})", "frame.time_relative", "frame.protocols", "_ws.expert.message",
                  settings=written_alone(lab.files / "tshark"))


def serve(request, lab, prepare=lambda: None):
    """Lends a laboratory once it is prepared, and in the end holds what Sluice sent to the oracle."""
    try:
        prepare()
    except BaseException:
        lab.close()
        raise
    yield lab
    if request.session.testsfailed:
        print(lab.said())
    lab.stop_captures()
    faults = oracle(lab)
    lab.close()
    assert not faults, faults


@pytest.fixture(scope="module", params=["af_packet", "af_xdp", "accelerator"])
def lab(request):
    assert os.geteuid() == 0, "network namespaces need root: run as root or with sudo"
    lab = Lab(os.environ["SLUICE"], request.param)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def packet_lab(request):
    """A laboratory without any SMF yet."""
    yield from serve(request, Lab(os.environ["SLUICE"], "af_packet"))


@pytest.fixture(scope="module")
def router_lab(request):
    """A laboratory with two routers that the test plays."""
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=ROUTERS_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def host_lab(request):
    """A laboratory whose UPF has a network stack of its own on both links."""
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=HOST_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module", params=["af_packet", "af_xdp"])
def sizes_lab(request):
    """A laboratory whose gNB has an IPv6 address, too, and where TCP connections agree on what fits."""
    lab = Lab(os.environ["SLUICE"], request.param, configuration=SIZES_CONFIGURATION)

    def prepare():
        lab.ran.add_address(f"{GNB6}/64", "ran0")
        lab.associate()
    yield from serve(request, lab, prepare)


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_xdp", 1), ("af_packet", 2)], ids="{0[0]}-{0[1]}".format)
def egress_lab(request):
    """A laboratory where packets to gNBs wait in queues, and whose UPF can be asked."""
    driver, workers = request.param
    lab = Lab(os.environ["SLUICE"], driver, workers, EGRESS_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def api_lab(request):
    """A laboratory whose UPF can be asked."""
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=API_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module", params=["af_packet", "accelerator", "queues"])
def smf_lab(request):
    """A laboratory for SMFs of several makes at once, without any yet."""
    driver, configuration = request.param, SMFS_CONFIGURATION
    if driver == "queues":
        driver, configuration = "af_packet", SMFS_EGRESS_CONFIGURATION
    lab = Lab(os.environ["SLUICE"], driver, configuration=configuration, links=LINKS + OAI_LINKS)
    yield from serve(request, lab, lab.add_oai)
