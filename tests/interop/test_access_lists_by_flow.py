"""Access lists whose rules ask what flows are: curl, Go's clients and dig ask for hosts and names, servers say who came.

The data network has a web server for every host and dnsmasq as its resolver. What a client receives is judged by the client;
that nothing of a denied host went on is what tshark says of the capture on N6, and the log of the server.
"""
import atexit
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import serve
from lab import API_CONFIGURATION, DN, DN6, Lab, eventually, kernel_ue, shown
from test_inspection import servers, web

PORTAL = "http://portal.example/blocked?by=list"
SINK, SINK6, REAL = "203.0.113.9", "2001:db8:bad::9", "192.0.2.200"
LISTS = tempfile.mkdtemp(prefix="sluice-lists-")
# Many domains, and among them those that are asked for.
DOMAINS = {"adult": ["adult.good.example"], "gambling": ["0.0.0.0 bets.good.example"]}
for category, domains in DOMAINS.items():
    others = [f"host{number}.{category}{number % 977}.example" for number in range(200_000)]
    pathlib.Path(LISTS, category).write_text("\n".join(["# domains", *others, *domains, ""]))
atexit.register(shutil.rmtree, LISTS)
CONFIGURATION = API_CONFIGURATION + f"""
predefined:
  applications:
    - {{{{name: shops, hosts: [shop.example], flows: [permit out 6 from {DN} 8443 to assigned]}}}}
domain_lists:
  - {{{{category: adult, file: "{LISTS}/adult"}}}}
  - {{{{category: gambling, file: "{LISTS}/gambling"}}}}
access_lists:
  - name: schools
    dnn: internet
    rules:
      - {{{{name: malware, action: sinkhole, protocols: [dns], hosts: ["*.malware.example"],
           sinkhole: {{{{ipv4: {SINK}, ipv6: "{SINK6}", ttl_s: 77}}}}}}}}
      - {{{{name: typo, action: sinkhole, protocols: [dns], hosts: [nowhere.example]}}}}
      - {{{{name: youth-dns, action: sinkhole, categories: [gambling], protocols: [dns]}}}}
      - {{{{name: resolver, action: permit, flows: [permit out 17 from {DN} 53 to assigned, permit out 17 from {DN6} 53 to assigned]}}}}
      - {{{{name: games, action: redirect, hosts: ["*.games.example", good.example/games], redirect_to: "{PORTAL}"}}}}
      - {{{{name: shops, action: deny, applications: [shops]}}}}
      - {{{{name: youth, action: reset, categories: [adult, gambling]}}}}
      - {{{{name: good, action: permit, hosts: ["*.good.example"]}}}}
    otherwise: reset
"""


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_packet", 2), ("af_xdp", 1)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    lab = Lab(os.environ["SLUICE"], driver, workers, configuration=CONFIGURATION)
    yield from serve(request, lab, lab.associate)


def curl(lab, url, *options):
    """How curl ends: its exit status, and the status and the redirection of the response."""
    host = url.split("/")[2].partition(":")[0]
    where = [f"{host}:{port}:{DN}" for port in (80, 443, 8443)]
    resolve = [word for one in where for word in ("--resolve", one)]
    done = subprocess.run(["ip", "netns", "exec", lab.ue.name, "curl", "-sko", "/dev/null", "--max-time", "20", *resolve,
                           "-w", "%{http_code} %{redirect_url}", *options, url], capture_output=True, text=True)
    code, _, location = done.stdout.partition(" ")
    return done.returncode, int(code), location


# Exit statuses of curl.
CONNECTED, TIMED_OUT, BROKE_TLS, WAS_RESET = 0, 28, 35, 56


@contextlib.contextmanager
def resolver(lab):
    """dnsmasq, which knows one address of all names."""
    process = lab.dn.popen("dnsmasq", "--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", f"--address=/#/{REAL}",
                           f"--listen-address={DN},{DN6}", "--bind-interfaces", "--log-queries", "--log-facility=-", "--user=root",
                           stderr=subprocess.PIPE, text=True)
    asked = []
    try:
        eventually(lambda: dig(lab.dn, "started.good.example", "a")[1], "dnsmasq answers")
        yield asked
    finally:
        process.terminate()
        asked += re.findall(r"query\[(\w+)\] (\S+)", process.communicate(timeout=10)[1])


def dig(namespace, name, kind, *options, server=DN):
    """The status of the response, the answers, and the whole of it."""
    said = namespace.run(f"dig +tries=1 +time=3 {' '.join(options)} @{server} {name} {kind}", check=False).stdout
    status = re.search(r"status: (\w+)", said)
    answers = re.findall(rf"^{re.escape(name)}\.\s+(\d+)\s+IN\s+{kind.upper()}\s+(\S+)$", said, re.MULTILINE)
    return status and status[1], [(int(ttl), address) for ttl, address in answers], said


def names_on_n6(lab):
    """Hosts and names that tshark finds in what went to the data network."""
    fields = ["tls.handshake.extensions_server_name", "http.host", "dns.qry.name"]
    columns = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", str(lab.captures["n6"]), "-Y", f"ip.dst == {DN} || ipv6.dst == {DN6}", "-T", "fields",
                           *columns], capture_output=True, text=True)
    return {word for line in done.stdout.splitlines() for word in re.split(r"[\t,]", line) if word}


def dropped(lab):
    """Packets that each rule has dropped."""
    rules = shown(lab, "access-lists")["access_lists"][0]["rules"]
    return {rule["name"]: rule["dropped_packets"] for rule in rules}


def test_hosts_are_permitted_reset_and_redirected(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock), servers(lab) as asked:
        before = dropped(lab)
        assert curl(lab, "https://www.good.example/3000") == (CONNECTED, 200, "")
        assert curl(lab, "http://good.example/3000") == (CONNECTED, 200, "")
        web(lab, "get", "h3://www.good.example/3000", "https://good.example/100000")
        assert curl(lab, "http://chess.games.example/play") == (CONNECTED, 302, PORTAL)
        assert curl(lab, "http://good.example/games/1") == (CONNECTED, 302, PORTAL)
        # The second request of a connection is denied, the first was not.
        options = ["http://good.example/1", "-o", "/dev/null", "--next", "-sk", "-o", "/dev/null", "-w", "%{http_code}"]
        assert curl(lab, "http://chess.games.example/again", *options)[:1] == (CONNECTED,)
        assert curl(lab, "https://chess.games.example/")[0] in (BROKE_TLS, WAS_RESET)
        assert curl(lab, "https://other.example/")[0] in (BROKE_TLS, WAS_RESET)
        assert curl(lab, "http://other.example/")[0] == WAS_RESET
        for listed in "adult", "www.adult", "bets":
            assert curl(lab, f"https://{listed}.good.example/")[0] in (BROKE_TLS, WAS_RESET), listed
        # It is denied, and receives nothing.
        assert curl(lab, "http://shop.example/", "--max-time", "2")[0] == TIMED_OUT
        assert curl(lab, "https://good.example:8443/", "--connect-timeout", "2")[0] == TIMED_OUT
    hosts = {what.partition("/")[0] for _, _, what in asked}
    assert hosts == {"good.example", "www.good.example"}, asked
    assert not [what for _, _, what in asked if what.startswith("good.example/games")]
    assert not [what for _, _, what in asked if "adult" in what or "bets" in what]
    lab.stop_captures()
    on_n6 = {name for name in names_on_n6(lab) if not name.endswith("good.example") or "adult" in name or "bets" in name}
    assert not on_n6, on_n6
    counts = {name: count - before[name] for name, count in dropped(lab).items()}
    assert counts["good"] == counts["resolver"] == 0 and min(counts["games"], counts["shops"], counts["otherwise"]) > 0, counts


def test_names_are_led_into_a_sinkhole(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock), resolver(lab) as asked:
        for server in DN, DN6:
            assert dig(lab.ue, "www.good.example", "a", server=server)[1] == [(0, REAL)]
            status, answers, said = dig(lab.ue, "c2.malware.example", "a", server=server)
            assert (status, answers) == ("NOERROR", [(77, SINK)]) and "EDE: 4" in said, said
            assert dig(lab.ue, "a.b.malware.example", "aaaa", server=server)[1] == [(77, SINK6)]
            status, answers, said = dig(lab.ue, "malware.example", "mx", server=server)
            assert (status, answers) == ("NOERROR", []) and "EDE: 17" in said, said
            status, answers, said = dig(lab.ue, "nowhere.example", "a", server=server)
            assert (status, answers) == ("NXDOMAIN", []) and "EDE: 17" in said, said
            assert dig(lab.ue, "nowhere.example", "a", "+noedns", server=server)[:2] == ("NXDOMAIN", [])
            assert dig(lab.ue, "www.bets.good.example", "a", server=server)[:2] == ("NXDOMAIN", [])
            assert dig(lab.ue, "adult.good.example", "a", server=server)[1] == [(0, REAL)]
            assert dig(lab.ue, "below.nowhere.example", "a", server=server)[1] == [(0, REAL)]
    names = {name for _, name in asked}
    assert {"www.good.example", "below.nowhere.example"} <= names
    assert not [name for name in names if name.endswith("malware.example") or name == "nowhere.example"], names
