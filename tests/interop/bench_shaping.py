#!/usr/bin/env python3
"""What a download by the kernel's TCP gets of a rate that is policed, shaped, and shaped with ends that heed ECN.

    SLUICE=target/release/sluice SMF=... tests/interop/bench_shaping.py [--trials 3] [--driver af_packet]

One connection from a host of the data network to a UE whose QER has an MBR of 8 Mbit/s: the octets of the connection over the
time from its first segment to its last octet, of the rate; and the segments that were sent again. Headers take 3.7% of the rate.
"""
import argparse
import os
import statistics
import time

import test_egress
from lab import API_CONFIGURATION, EGRESS_CONFIGURATION, Lab, kernel_ue

OCTETS = bytes(1500) * 5000
CASES = {"policed": (API_CONFIGURATION, False), "shaped": (EGRESS_CONFIGURATION, False),
         "shaped, with ECN": (EGRESS_CONFIGURATION, True)}


def trial(configuration, driver, ecn):
    """Goodput of the rate, and segments that were sent again."""
    lab = Lab(os.environ["SLUICE"], driver, configuration=configuration)
    try:
        lab.associate()
        with lab.gnb_socket() as gnb, kernel_ue(lab, gnb, mbr=test_egress.KBIT) as (_, ue4, _):
            begin = time.monotonic()
            got = test_egress.download(lab, ue4, ecn)
            seconds = time.monotonic() - begin
    finally:
        lab.close()
    assert got["octets"] == len(OCTETS)
    return got["octets"] * 8 / seconds / (test_egress.KBIT * 1000), got["retransmitted"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--driver", choices=["af_packet", "af_xdp"], default="af_packet")
    asked = parser.parse_args()
    test_egress.OCTETS = OCTETS
    for name, (configuration, ecn) in CASES.items():
        all_trials = [trial(configuration, asked.driver, ecn) for _ in range(asked.trials)]
        goodput = [part for part, _ in all_trials]
        again = [segments for _, segments in all_trials]
        print(f"{name:17} {statistics.median(goodput):.3f} of the rate ({min(goodput):.3f} to {max(goodput):.3f}), "
              f"sent again: {min(again)} to {max(again)} segments")


if __name__ == "__main__":
    main()
