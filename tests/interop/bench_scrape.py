#!/usr/bin/env python3
"""What a scrape costs: how long it takes with many sessions, and what forwarding loses by one a second.

    SLUICE=target/release/sluice tests/interop/bench_scrape.py [--sessions 600000] [--pairs 40] [--json FILE]

`sluice demo` has the sessions, and is offered more packets than its worker can process: what is forwarded is then what the
worker can do. Spans without a scrape and spans with one a second follow upon each other, in pairs of alternate order. A
span's packets are read by /v1/runtime at its ends, in both kinds alike. The result is the median of the pairs' ratios, with
an interval of 95% by ranks. No root; takes about six minutes with 40 pairs.
"""
import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from urllib.parse import urlsplit


class Demo:
    def __init__(self, sessions, mpps):
        self.process = subprocess.Popen(
            [os.environ["SLUICE"], "demo", "--ui", "--workers", "1", "--sessions", str(sessions), "--mpps", str(mpps)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if "#token=" in line:
                url = urlsplit(next(word for word in line.split() if "#token=" in word))
                break
        else:
            raise SystemExit("sluice demo printed no address")
        self.host, self.token = url.netloc, url.fragment.removeprefix("token=")

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {text[:200]}")
        return text

    def forwarded(self):
        """Packets that the worker has sent, and when."""
        workers = json.loads(self.get("/v1/runtime"))["workers"]
        return sum(worker["sent"] for worker in workers), time.monotonic()

    def sessions(self):
        return json.loads(self.get("/v1/n4"))["sessions"]

    def close(self):
        self.process.kill()
        self.process.wait()


def scrape_times(demo, count):
    times = []
    for _ in range(count):
        began = time.perf_counter()
        text = demo.get("/metrics")
        times.append(1_000 * (time.perf_counter() - began))
        time.sleep(0.1)
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return times, series, len(text)


def rate(demo, seconds, with_scrapes):
    """Packets a second of a span."""
    before, began = demo.forwarded()
    for second in range(seconds):
        if with_scrapes:
            demo.get("/metrics")
        time.sleep(max(0, began + second + 1 - time.monotonic()))
    after, ended = demo.forwarded()
    return (after - before) / (ended - began)


def interval(ratios):
    """The ranks that the median of all is between with 95%."""
    ordered, count = sorted(ratios), len(ratios)
    away = round(0.98 * count ** 0.5)
    middle = (count - 1) / 2
    return ordered[max(0, int(middle - away))], ordered[min(count - 1, int(middle + away + 1))]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sessions", type=int, default=600_000)
    arguments.add_argument("--mpps", type=float, default=10)
    arguments.add_argument("--pairs", type=int, default=40)
    arguments.add_argument("--seconds", type=int, default=4)
    arguments.add_argument("--json")
    wanted = arguments.parse_args()
    demo = Demo(wanted.sessions, wanted.mpps)
    try:
        while demo.sessions() < wanted.sessions:
            time.sleep(0.5)
        time.sleep(3)
        times, series, octets = scrape_times(demo, 50)
        pairs = []
        for number in range(wanted.pairs):
            order = (False, True) if number % 2 else (True, False)
            pairs.append({scrapes: rate(demo, wanted.seconds, scrapes) for scrapes in order})
    finally:
        demo.close()
    ratios = [pair[True] / pair[False] for pair in pairs]
    low, high = interval(ratios)
    result = {"sessions": wanted.sessions, "series": series, "octets": octets,
              "scrape_ms": {"median": statistics.median(times), "p90": sorted(times)[44], "most": max(times)},
              "forwarded_per_s": statistics.median(pair[False] for pair in pairs),
              "ratio": statistics.median(ratios), "ratio_95": [low, high], "pairs": wanted.pairs}
    print(f"a scrape with {wanted.sessions:,} sessions: {series} series, {octets:,} octets, median "
          f"{result['scrape_ms']['median']:.1f} ms, p90 {result['scrape_ms']['p90']:.1f} ms, at most {max(times):.1f} ms")
    print(f"forwarding with a scrape a second: {100 * result['ratio']:.2f}% of that without "
          f"(95%: {100 * low:.2f}% to {100 * high:.2f}%), {result['forwarded_per_s']:,.0f} packets/s, {wanted.pairs} pairs")
    if wanted.json:
        with open(wanted.json, "w", encoding="utf-8") as file:
            json.dump(result | {"pairs_per_s": [[pair[False], pair[True]] for pair in pairs]}, file)


if __name__ == "__main__":
    sys.exit(main())
