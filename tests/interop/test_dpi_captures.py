"""tshark as oracle of inspection: the hosts that crates/dpi/tests/captures says its captures have are those that tshark
finds. The crate's own tests compare them with what the crate finds.

Run as a program it writes them."""
import pathlib
import subprocess
import sys

CAPTURES = sorted((pathlib.Path(__file__).parents[2] / "crates/dpi/tests/captures").glob("*.pcap"))
FIELDS = ["ip.src", "ipv6.src", "udp.srcport", "tcp.srcport", "ip.dst", "ipv6.dst", "udp.dstport", "tcp.dstport",
          "tls.handshake.extensions_server_name", "http.host", "http.request.uri"]
NAMES = "tls.handshake.extensions_server_name or http.host"


def hosts(capture):
    """A line for each flow with a host: protocol, addresses and ports, the host, of HTTP the first path."""
    columns = [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", str(capture), "-Y", NAMES, "-T", "fields", "-E", "occurrence=f", *columns],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        source4, source6, udp, tcp, to4, to6, to_udp, to_tcp, name, host, path = line.split("\t")
        flow = f"{'udp' if udp else 'tcp'} {source4 or source6} {udp or tcp} {to4 or to6} {to_udp or to_tcp}"
        found.setdefault(flow, f"{flow} {name or host.partition(':')[0]} {path}".rstrip())
    return sorted(found.values())


def expected(capture):
    return capture.with_suffix(".hosts")


def test_the_hosts_are_those_that_tshark_finds():
    assert CAPTURES
    for capture in CAPTURES:
        assert expected(capture).read_text().splitlines() == hosts(capture), capture.name


if __name__ == "__main__":
    for capture in CAPTURES:
        expected(capture).write_text("".join(line + "\n" for line in hosts(capture)))
        print(f"{capture.name}: {len(hosts(capture))} hosts", file=sys.stderr)
