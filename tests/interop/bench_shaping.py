#!/usr/bin/env python3
"""What a download by the kernel's TCP gets of a rate that is policed, shaped, and shaped with ends that heed ECN; and the same
through a kernel that forwards and shapes by HTB or TBF.

    SLUICE=target/release/sluice SMF=... tests/interop/bench_shaping.py [--trials 3] [--driver af_packet]

One connection from a host of the data network to a UE whose QER has an MBR of 8 Mbit/s, with CUBIC and with BBR: the octets of
the connection over the time from its first segment to its last octet, of the rate; and the segments that were sent again.
Headers take 3.7% of the rate. HTB and TBF have the same rate of IP packets, the same burst of 50 ms and a queue as long as
the default of Sluice, 262,144 octets, without active queue management: this kernel has none.
"""
import argparse
import contextlib
import os
import statistics
import time
import types

import test_egress
from lab import API_CONFIGURATION, EGRESS_CONFIGURATION, Lab, Namespace, kernel_ue

OCTETS = bytes(1500) * 5000
QUEUE = 262_144
# 50 ms of the rate, in octets.
BURST = test_egress.KBIT * 1000 // 8 // 20
# Both count the link layer's header, too, and with it a full packet takes 1,514 for 1,500 octets.
RATE = f"{test_egress.KBIT * 1514 // 1500}kbit"
DISCIPLINES = {"htb": ["root handle 1: htb default 1",
               f"parent 1: classid 1:1 htb rate {RATE} ceil {RATE} burst {BURST} cburst {BURST}",
               f"parent 1:1 handle 2: bfifo limit {QUEUE}"],
               "tbf": [f"root tbf rate {RATE} burst {BURST} limit {QUEUE}"]}


@contextlib.contextmanager
def through_sluice(configuration, driver):
    """The two ends of a way through Sluice, and the address of the second."""
    lab = Lab(os.environ["SLUICE"], driver, configuration=configuration)
    try:
        lab.associate()
        with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mbr=test_egress.KBIT) as (_, ue4, _):
            yield lab, ue4
    finally:
        lab.close()


@contextlib.contextmanager
def through_a_kernel(discipline):
    """The same through a namespace that forwards and shapes by a discipline of the kernel."""
    with contextlib.ExitStack() as stack:
        names = "dn", "router", "ue"
        ends = types.SimpleNamespace(**{name: stack.enter_context(contextlib.closing(Namespace(name))) for name in names})
        ends.router.run("sysctl -q -w net.ipv4.ip_forward=1")
        for namespace, link, network in ((ends.dn, "left", "10.201.0"), (ends.ue, "right", "10.202.0")):
            namespace.run(f"ip link add name side mtu 1400 type veth peer name {link} mtu 1400 netns {ends.router.name}")
            for where, device, host in ((namespace, "side", 2), (ends.router, link, 1)):
                where.run(f"ip addr add {network}.{host}/24 dev {device}")
                where.run(f"ip link set {device} up")
            namespace.run(f"ip route add default via {network}.1")
        for words in DISCIPLINES[discipline]:
            kind = "class" if "classid" in words else "qdisc"
            ends.router.run(f"tc {kind} add dev right {words}")
        yield ends, "10.202.0.2"


def trial(way, congestion, ecn):
    """Goodput of the rate, and segments that were sent again."""
    with way as (ends, address):
        begin = time.monotonic()
        got = test_egress.download(ends, address, ecn, congestion)
        seconds = time.monotonic() - begin
    assert got["octets"] == len(OCTETS)
    return got["octets"] * 8 / seconds / (test_egress.KBIT * 1000), got["retransmitted"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--driver", choices=["af_packet", "af_xdp"], default="af_packet")
    asked = parser.parse_args()
    test_egress.OCTETS = OCTETS
    sluice = lambda configuration: lambda: through_sluice(configuration, asked.driver)
    kernel = lambda discipline: lambda: through_a_kernel(discipline)
    cases = [("policed", sluice(API_CONFIGURATION), False), ("shaped", sluice(EGRESS_CONFIGURATION), False),
             ("shaped, with ECN", sluice(EGRESS_CONFIGURATION), True), ("the kernel's HTB", kernel("htb"), False),
             ("the kernel's TBF", kernel("tbf"), False)]
    for congestion in "cubic", "bbr":
        for name, way, ecn in cases:
            all_trials = [trial(way(), congestion, ecn) for _ in range(asked.trials)]
            goodput = [part for part, _ in all_trials]
            again = [segments for _, segments in all_trials]
            print(f"{congestion:6} {name:17} {statistics.median(goodput):.3f} of the rate "
                  f"({min(goodput):.3f} to {max(goodput):.3f}), sent again: {min(again)} to {max(again)} segments")


if __name__ == "__main__":
    main()
