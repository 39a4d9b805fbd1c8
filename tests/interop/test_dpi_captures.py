"""tshark as oracle of inspection: the hosts that crates/dpi/tests/captures says its captures have are those that tshark
finds. The crate's own tests compare them with what the crate finds.

Run as a program it writes them."""
import pathlib
import re
import subprocess
import sys

CAPTURES = sorted((pathlib.Path(__file__).parents[2] / "crates/dpi/tests/captures").glob("*.pcap"))
FIELDS = ["ip.src", "ipv6.src", "udp.srcport", "tcp.srcport", "ip.dst", "ipv6.dst", "udp.dstport", "tcp.dstport",
          "tls.handshake.extensions_server_name", "http.host", "http.request.uri", "dns.qry.name"]
# Standard queries of one name.
QUERIES = "udp and dns.qry.name and dns.flags.response == 0 and dns.flags.opcode == 0 and dns.qry.class == 1 and not _ws.malformed"
NAMES = f"tls.handshake.extensions_server_name or http.host or ({QUERIES})"


def rows(capture, what, fields):
    columns = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", str(capture), "-Y", what, "-T", "fields", "-E", "occurrence=f", *columns],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def as_host(name):
    return re.sub(r"[^a-z0-9_.-]", "_", name.lower())


def names(capture):
    """The name of each query of DNS over UDP, with underscores where no host name has an octet."""
    return [as_host(name) for name, in rows(capture, QUERIES, ["dns.qry.name"])]


def hosts(capture):
    """A line for each flow with a host: protocol, addresses and ports, the host, of HTTP the first path, of DNS the first name
    that is asked for."""
    found = {}
    for source4, source6, udp, tcp, to4, to6, to_udp, to_tcp, name, host, path, asked in rows(capture, NAMES, FIELDS):
        name = name or as_host(asked)
        protocol = "dns" if asked else "udp" if udp else "tcp"
        flow = f"{protocol} {source4 or source6} {udp or tcp} {to4 or to6} {to_udp or to_tcp}"
        found.setdefault(flow, f"{flow} {name or host.partition(':')[0]} {path}".rstrip())
    return sorted(found.values())


def expected(capture):
    return capture.with_suffix(".hosts")


def expected_names(capture):
    return capture.with_suffix(".names")


def test_the_hosts_are_those_that_tshark_finds():
    assert CAPTURES
    for capture in CAPTURES:
        assert expected(capture).read_text().splitlines() == hosts(capture), capture.name


def test_the_names_are_those_that_tshark_finds():
    for capture in CAPTURES:
        written = expected_names(capture)
        assert (written.read_text().splitlines() if written.exists() else []) == names(capture), capture.name


if __name__ == "__main__":
    for capture in CAPTURES:
        expected(capture).write_text("".join(line + "\n" for line in hosts(capture)))
        if names(capture):
            expected_names(capture).write_text("".join(line + "\n" for line in names(capture)))
        print(f"{capture.name}: {len(hosts(capture))} hosts, {len(names(capture))} names", file=sys.stderr)
