"""Rules that name hosts, with clients and servers that we did not write: curl, Chromium, Go's TLS and quic-go, nginx.

What each flow was for is what its server says; in which packet it was said, and how many octets came from there on, is what
tshark says of the capture on N3, and on N6. The octets of each content are those, to the octet.
"""
import collections
import contextlib
import json
import os
import socket
import subprocess

import pytest

import nginx
from conftest import serve
from lab import API_CONFIGURATION, DN, OTHER_GNB, Lab, eventually, kernel_ue, shown

# Hosts, of one all below it, and of one the path; nothing of what is not billed by its host.
CONTENTS = {"video.example": "video", ".video.example": "video", "shop.example/api": "api", "h3.example": "quic"}
CONFIGURATION = API_CONFIGURATION + f"""
predefined:
  applications:
    - {{{{name: video, hosts: ["*.video.example"]}}}}
  rulebases:
    - name: web
      rules:
        - {{{{precedence: 10, applications: [video], content: {{{{name: video}}}}}}}}
        - {{{{precedence: 20, hosts: [shop.example/api], content: {{{{name: api}}}}}}}}
        - {{{{precedence: 30, hosts: [h3.example], content: {{{{name: quic}}}}}}}}
        - {{{{precedence: 40, flows: [permit out ip from {DN} to assigned], content: {{{{name: unknown}}}}}}}}
        - {{{{precedence: 90, content: {{{{name: other}}}}}}}}
"""
FIELDS = ["frame.time_epoch", "ip.src", "ip.dst", "ip.len", "ip.hdr_len", "tcp.hdr_len", "tcp.len", "tcp.analysis.flags",
          "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "tls.handshake.extensions_server_name", "http.host", "http.request.uri"]
# Where it took several packets to name a host, what the server sent to the first of them may have been charged before the
# last, although it was captured so soon behind.
RACE_S = 0.005
# Octets of a packet of the UE. What the data network sends at once is cut into packets of as many.
MTU = 1400


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_xdp", 1), ("af_packet", 2)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    lab = Lab(os.environ["SLUICE"], driver, workers, configuration=CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@contextlib.contextmanager
def servers(lab):
    """Serves every host; gives what was asked for so far: transport, ports of client and server, and what."""
    process = lab.dn.popen(os.environ["WEB"], "serve", DN, stdout=subprocess.PIPE, text=True)
    asked = []
    try:
        assert process.stdout.readline() == "serving\n"
        yield asked
    finally:
        process.terminate()
        for line in process.communicate(timeout=10)[0].splitlines():
            transport, client, server_port, what = line.split()
            asked.append((transport, (int(client.rpartition(":")[2]), int(server_port)), what))


def ports_of(request):
    """Of a request to nginx, as of the flow that it is in."""
    return request.port, request.server_port


@contextlib.contextmanager
def nginx_servers(lab):
    """The same by nginx."""
    asked = []
    with nginx.serving(lab) as requests:
        yield asked
    asked += [("tcp", ports_of(one), one.what) for one in requests]


def web(lab, command, *urls):
    done = subprocess.run(["ip", "netns", "exec", lab.ue.name, "env", f"WEB_SERVER={DN}", os.environ["WEB"], command, *urls],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def curl(lab, url, *options):
    host = url.split("/")[2]
    port = 443 if url.startswith("https") else 80
    done = lab.ue.run(f"curl -sSko /dev/null --max-time 20 --resolve {host}:{port}:{DN} {' '.join(options)} {url}", check=False)
    assert done.returncode == 0, done.stderr


def content_of(what):
    """How what a server was asked for is billed."""
    host, slash, path = what.partition("/")
    fits = [content for rule, content in CONTENTS.items() if host == rule or (rule[0] == "." and host.endswith(rule)) or (
        "/" in rule and (host + slash + path).startswith(rule))]
    return fits[0] if fits else "unknown"


def packets(capture, ue):
    """Of each packet between the UE and the server, in order: time, flow, whether it is the UE's, octets as it is on N3, those
    that it carries, whether it is out of order, and the name it says."""
    # What comes last is the user's, behind what is the tunnel's.
    at, words = (1, "gtp") if capture.name == "n3.pcap" else (0, "!gtp")
    columns = [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", str(capture), "-Y", f"{words} && ip.addr == {ue} && ip.addr == {DN}", "-T", "fields",
                           # Also names in segments of which one was sent again.
                           "-o", "tcp.reassemble_out_of_order:TRUE", "-E", "occurrence=a", *columns],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        columns = [column.split(",") for column in line.split("\t")]
        (time,), addresses, _, lengths, heads, tcp_heads, carried, odd, *ports, names, hosts, paths = columns
        is_up, octets = addresses[at] == ue, int(lengths[at])
        # The first ports of UDP are the tunnel's. An ICMP error has addresses and ports of what it is about behind its own.
        transport, here, payload = "other", [0, 0], 1
        if len(addresses) == at + 1:
            tcp, udp = ports[:2], [port[at:] for port in ports[2:]]
            transport, here = ("tcp", tcp) if tcp[0][0] else ("udp", udp)
            here = [int(port[0]) for port in here]
        if transport == "tcp":
            head, payload = int(heads[at]) + int(tcp_heads[0]), int(carried[0])
            octets += head * ((payload - 1) // (MTU - head) if payload else 0)
        name = names[0] or (hosts[0].partition(":")[0] + paths[0] if hosts[0] else "")
        # A client's port is that of several connections, to several ports of the server.
        yield float(time), (transport, tuple(here if is_up else here[::-1])), is_up, octets, payload, bool(odd[0]), name


def expected(capture, ue):
    """Octets by content as tshark sees them, and how many may belong to what came before it, or to what comes behind: of flows of
    HTTP, and of others."""
    octets, doubtful, race = collections.Counter(), collections.Counter(), collections.Counter()
    now, begun, http, asking = {}, set(), set(), set()
    for time, flow, is_up, length, payload, is_odd, name in packets(capture, ue):
        content, since = now.get(flow, ("unknown", 0))
        is_behind = flow in asking
        if name:
            content, since = now[flow] = content_of(name), time if flow in begun else 0
            if "/" in name:
                http.add(flow)
                asking.add(flow)
        elif payload and is_up:
            begun.add(flow)
        elif payload:
            asking.discard(flow)
        octets[content] += length
        is_amid = not is_up and ((flow in begun and flow not in now) or time - since < RACE_S)
        # What was sent again before another request may be charged behind it, and what follows a request in the same burst,
        # before it.
        if is_amid or is_behind and not payload or is_odd and (flow in http or flow not in now):
            doubtful[flow] += length
    for flow in now:
        race["http" if flow in http else "other"] += doubtful[flow]
    return octets, race, now


def billed(lab, session):
    contents = shown(lab, "session", f"{session['up_seid']:#x}")["contents"]
    total = lambda counts: counts["uplink_octets"] + counts["downlink_octets"]
    return collections.Counter({one["content"]: total(one["counts"]) for one in contents})


def totals(lab):
    """What all sessions have counted since the start of the daemon."""
    rows = shown(lab, "contents")["contents"]
    return collections.Counter({one["name"]: one["uplink_octets"] + one["downlink_octets"] for one in rows})


def settled(lab, session):
    """What is billed once no packet is under way any more."""
    last = [None]

    def is_still():
        last.append(billed(lab, session))
        return last[-1] == last[-2]
    eventually(is_still, "the connections are over")
    return last[-1]


def check(lab, session, ue, asked, link="n3", tls=()):
    """Compares what was billed with the capture and with what the servers say: to the octet in sum, and by
    contents but for what is in doubt; no flow of HTTP is of those in `tls`."""
    counted = settled(lab, session)
    seen = []

    def is_captured():
        seen[:] = expected(lab.captures[link], ue)
        return sum(seen[0].values()) >= sum(counted[content] for content in seen[0])
    eventually(is_captured, "tcpdump has written what was billed")
    octets, race, named = seen
    # tshark and the servers agree on the last host of each flow, where a flow had one.
    last = {(transport, ports): content_of(what) for transport, ports, what in asked}
    assert {flow: content for flow, (content, _) in named.items()} == last
    assert sum(octets.values()) == sum(counted[content] for content in octets), (octets, counted)
    for content in octets:
        most = race["other"] + (0 if content in tls else race["http"])
        assert abs(octets[content] - counted[content]) <= most, (content, octets, counted, race)
    return counted


@contextlib.contextmanager
def two_ues(lab):
    """Two sessions by two gNBs: of each the laboratory as it sees it, the session and the UE's address."""
    with lab.gnb_socket() as sock, lab.gnb_socket(OTHER_GNB) as other_sock, lab.other_ue() as other:
        with kernel_ue(lab, sock, activate=["web"]) as (session, ue, _), \
                kernel_ue(other, other_sock, activate=["web"], gnb=OTHER_GNB) as (other_session, other_ue, _):
            yield (lab, session, ue), (other, other_session, other_ue)


@pytest.mark.parametrize("serve_all", [servers, nginx_servers], ids=["go", "nginx"])
def test_contents_are_billed_as_the_servers_say(lab, serve_all):
    sock = lab.gnb_socket()
    before = totals(lab)
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with serve_all(lab) as asked:
            web(lab, "get", "https://video.example/200000", "https://www.example/3000", "https://cdn.video.example/5000")
            if serve_all is servers:
                web(lab, "get", "h3://h3.example/60000", "h3://www.example/100", "h3://cdn.video.example/30000")
            curl(lab, "https://cdn.video.example/100000")
            curl(lab, "https://cdn.video.example/1000", "--tlsv1.2", "--tls-max", "1.2")
            curl(lab, "http://shop.example/api/orders/2000")
            curl(lab, "http://shop.example/index")
        counted = check(lab, session, ue, asked)
        assert counted["video"] > 300_000 and counted["api"] > 2_000
        assert counted["quic"] > 60_000 or serve_all is nginx_servers
        eventually(lambda: totals(lab) - before == counted, "the totals are what the session was billed")
    # They stay when the session has ended.
    assert totals(lab) - before == counted


@pytest.mark.parametrize("serve_all", [servers, nginx_servers], ids=["go", "nginx"])
def test_each_request_of_a_connection_is_billed_by_itself(lab, serve_all):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with serve_all(lab) as asked:
            web(lab, "follow", "http://shop.example/api/20000", "http://www.example/5000", "http://shop.example/api/100",
                "http://shop.example/index/7000", "http://cdn.video.example/90000", "http://www.example/1")
        counted = check(lab, session, ue, asked)
        assert counted["api"] > 20_100 and counted["video"] > 90_000 and counted["unknown"] > 12_000


def visits(lab):
    """Starts clients of a UE that are there at the same time: eight connections of curl, one of curl and one of Go with several
    requests, and one of each URL."""
    hosts = ("video.example", "cdn.video.example", "shop.example", "www.example", "other.example")
    resolve = [word for host in hosts for port in (80, 443) for word in ("--resolve", f"{host}:{port}:{DN}")]
    curl = ["curl", "-sSkf", "--max-time", "20", *resolve]
    nowhere = lambda urls: [word for url in urls for word in ("-o", "/dev/null", url)]
    at_once = [f"https://{host}/{size}" for host in hosts for size in (90_000, 20_000)]
    kept = ["https://cdn.video.example/50000", "https://cdn.video.example/1000", "https://cdn.video.example/100"]
    http = ["http://shop.example/api/20000", "http://www.example/api/5000", "http://shop.example/api/100",
            "http://shop.example/index/7000", "http://other.example/90000", "http://www.example/1"]
    start = lambda *words: lab.ue.popen(*words, stderr=subprocess.PIPE, text=True)
    yield start(*curl, "--parallel", "--parallel-immediate", "--parallel-max", "8", *nowhere(at_once))
    yield start(*curl, *nowhere(kept))
    yield start(*curl, *nowhere(http))
    yield start("env", f"WEB_SERVER={DN}", os.environ["WEB"], "follow", *http)


def test_parallel_connections_of_two_ues_are_billed_to_the_octet(lab):
    """By nginx's access log, and by the capture on N6. Of TLS nothing is in doubt unless a SYN is sent again."""
    # What was not lost is not sent again.
    lab.dn.run("sysctl -q -w net.ipv4.tcp_early_retrans=0")
    with two_ues(lab) as ues:
        with nginx.serving(lab) as requests:
            for client in [client for view, *_ in ues for client in visits(view)]:
                _, said = client.communicate(timeout=30)
                assert client.returncode == 0, said
        for view, session, ue in ues:
            own = [one for one in requests if one.client == ue]
            # Of TLS each connection is for one host, and has several requests; of HTTP/1 each request is.
            assert len({one.connection for one in own if one.server_port == 443}) >= 9, own
            assert max(one.request for one in own if one.server_port == 443) == 3, own
            assert [one.request for one in own if one.server_port == 80].count(6) == 1, own
            assert all(one.sni == one.what.partition("/")[0] for one in own if one.server_port == 443), own
            asked = [("tcp", ports_of(one), one.what) for one in own]
            for link in ("n6", "n3"):
                counted = check(view, session, ue, asked, link, tls=("video",))
            sent = collections.Counter()
            for one in own:
                sent[content_of(one.what)] += one.octets
            assert set(sent) == {"video", "api", "unknown"} and all(counted[content] > sent[content] for content in sent)


def test_requests_in_advance_are_billed_by_what_the_ue_sends(lab):
    """Answers to requests that come before them are separated only roughly: in sum, and of the requests, all is exact."""
    asked = [("shop.example", "/api/100000"), ("www.example", "/20000"), ("shop.example", "/api/7000")]
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with nginx.serving(lab) as requests, lab.ue.entered():
            with socket.create_connection((DN, 80), timeout=10) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for number, (host, path) in enumerate(asked):
                    last = "Connection: close\r\n" if number + 1 == len(asked) else ""
                    client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{last}\r\n".encode())
                received = sum(map(len, iter(lambda: client.recv(1 << 16), b"")))
        assert [one.what for one in requests] == ["".join(one) for one in asked]
        assert received == sum(one.octets for one in requests)
        counted = settled(lab, session)
        seen = list(packets(lab.captures["n6"], ue))
        assert sum(counted[content] for content in ("api", "unknown")) == sum(length for *_, length, _, _, _ in seen)
        contents = shown(lab, "session", f"{session['up_seid']:#x}")["contents"]
        uplink = {one["content"]: one["counts"]["uplink_octets"] for one in contents}
        for content in ("api", "unknown"):
            asking = sum(length for *_, is_up, length, _, _, name in seen if is_up and name and content_of(name) == content)
            empty = sum(length for *_, is_up, length, payload, _, _ in seen if is_up and not payload)
            assert asking <= uplink[content] <= asking + empty, (content, uplink)


def test_a_browser_is_billed_by_its_hosts(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with servers(lab) as asked:
            rules = f"MAP * {DN}"
            done = subprocess.run(
                ["ip", "netns", "exec", lab.ue.name, "/usr/bin/chromium", "--headless", "--no-sandbox", "--disable-gpu",
                 f"--user-data-dir={lab.files}/browser", f"--host-resolver-rules={rules}", "--ignore-certificate-errors",
                 "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=3000", "--dump-dom",
                 "https://cdn.video.example/50000"], capture_output=True, text=True, timeout=90)
            assert done.returncode == 0, done.stderr
        counted = settled(lab, session)
        assert [what for _, _, what in asked if what == "cdn.video.example/50000"], asked
        assert counted["video"] > 50_000, counted


def test_a_trace_says_what_a_flow_is_for_and_where_that_was_said(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with servers(lab), open(lab.files / "trace", "w+") as said:
            trace = subprocess.Popen([os.environ["SLUICE"], "trace", "--ue", ue, "--json", "--socket", str(lab.files / "control"),
                                      "--count", "200"], stdout=said)
            # It may begin a little later than it is asked for.
            while trace.poll() is None:
                web(lab, "get", "https://cdn.video.example/50000")
            said.seek(0)
            traced = [json.loads(line) for line in said]
    seen = [one for one in traced if one["flow"].get("host")]
    assert {one["flow"]["host"] for one in seen} == {"undecided", "cdn.video.example"}, seen
    showing = [one for one in seen if one["flow"].get("shows_host")]
    assert showing and all(one["flow"]["host"] == "cdn.video.example" for one in showing)
    assert not [one["disagreement"] for one in traced if one.get("disagreement")]


# CH, V4 and CHID: all uplink PDRs have one F-TEID.
CHOOSE_ID = 0x01 | 0x04 | 0x08
# What the SMF says of each application: in all forms of names, of which free5GC's NEF has the first.
PFDS = {
    "api": [{"url": r"^http://shop\.example/api(/\S*)?$"}],
    "vod": [{"domain": "*.tls.example", "protocol": "TLS_SNI",
             "more_domains": ["*.other.example", "", r"^vod[0-9]+\.example$", "TLS_SNI"]},
            {"url": "http://video.example/clip", "more_urls": ["https://h3.example/"]}],
    "here": [{"flow": f"permit out 17 from {DN} 443 to assigned", "domain": "www.example"}],
}
# In the order of their PDRs; the last one is of the configuration.
APPLICATIONS = [*PFDS, "video"]


def application_of(what, transport, is_http):
    """The application that a server was asked for, by the words of PFDS and of the configuration."""
    host, slash, path = what.partition("/")
    path = slash + path
    if is_http and host == "shop.example" and (path == "/api" or path.startswith("/api/")):
        return "api"
    if host.endswith(".other.example") or (is_http and host == "video.example" and path.startswith("/clip")):
        return "vod"
    is_vod = host.endswith(".tls.example") or host == "h3.example" or host[:3] == "vod" and host[3:-len(".example")].isdigit()
    if is_vod and not is_http:
        return "vod"
    if host == "www.example" and transport == "udp":
        return "here"
    return "video" if host == "video.example" or host.endswith(".video.example") else "rest"


def used(lab, session, names):
    """Octets of each application by its URR, and of the rest by the session's own."""
    urrs = shown(lab, "session", f"{session['up_seid']:#x}")["urrs"]
    name = {1: "rest", **{11 + place: name for place, name in enumerate(names)}}
    total = lambda counts: counts["uplink_octets"] + counts["downlink_octets"]
    return collections.Counter({name[one["id"]]: total(one["since_last_report"]) for one in urrs})


def test_applications_of_pfds_are_counted_by_their_names(lab):
    for name, pfds in PFDS.items():
        lab.smf("pfds", application=name, pfds=pfds)
    known = shown(lab, "applications")["applications"]
    assert [tuple(one.values()) for one in known] == [
        ("video", True, 0, 1, 0, 0), ("api", False, 0, 1, 0, 1), ("here", False, 1, 0, 1, 0), ("vod", False, 0, 2, 3, 1)]
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, choose_flags=CHOOSE_ID, applications=APPLICATIONS) as (session, ue, _):
        pdrs = shown(lab, "session", f"{session['up_seid']:#x}")["pdrs"]
        assert [pdr["id"] for pdr in pdrs if "application vod" in pdr["matches"]] == [13, 14]
        with servers(lab) as asked:
            web(lab, "get", "https://cdn.video.example/90000", "https://vod12.example/7000", "https://vod.example/3000",
                "https://a.tls.example/800")
            web(lab, "get", "h3://h3.example/60000", "h3://www.example/5000", "h3://shop.example/40")
            curl(lab, "https://www.example/4000")
            web(lab, "follow", "http://shop.example/api/20000", "http://video.example/clip/8000", "http://shop.example/apis/500",
                "http://a.other.example/900", "http://cdn.video.example/30000", "http://a.tls.example/10")
        last = [None]

        def is_still():
            last.append(used(lab, session, APPLICATIONS))
            return last[-1] == last[-2]
        eventually(is_still, "the connections are over")
        counted, is_http, seen = last[-1], {}, []

        def is_captured():
            seen[:] = packets(lab.captures["n3"], ue)
            return sum(length for *_, length, _, _, _ in seen) >= sum(counted.values())
        eventually(is_captured, "tcpdump has written what was counted")
        octets, race, now = collections.Counter(), 0, {}
        for time, flow, is_up, length, *_, name in seen:
            application, since = now.get(flow, ("rest", 0))
            if name:
                is_http[flow] = "/" in name
                application, since = now[flow] = application_of(name, flow[0], is_http[flow]), time
            octets[application] += length
            race += length if not is_up and time - since < RACE_S else 0
        # The servers agree with tshark about the last name of each flow.
        assert {(transport, ports): application_of(what, transport, is_http.get((transport, ports)))
                for transport, ports, what in asked} == {flow: application for flow, (application, _) in now.items()}
        assert sum(octets.values()) == sum(counted.values()), (octets, counted)
        for application in [*APPLICATIONS, "rest"]:
            assert abs(octets[application] - counted[application]) <= race, (application, octets, counted, race)
        assert counted["api"] > 20_000 and counted["vod"] > 76_000 and counted["here"] > 5_000, counted
        assert counted["video"] > 120_000, counted


def test_what_can_be_taken_of_several_applications_is(lab):
    """By go-pfcp, to which the IE of R19 is one that it does not know."""
    several = {"music": [{"domain": "music.example"}], "probe": [{"domain": "probe.example", "protocol": "TLS_SAN"}],
               "wrong": [{"flow": "deny out ip from any to assigned"}], "video": [{"domain": "video.example"}]}
    known = lambda: {one["id"] for one in shown(lab, "applications")["applications"]} & {*several}
    refused = lab.smf("several", applications=several)
    assert refused["cause"] in (69, 76) and refused["failed"] == {}
    assert known() == {"video"}, "the configured one"
    features = bytes.fromhex(lab.smf("partial_pfds")["features"])
    assert len(features) == 12 and features[10] == 0x40
    # A syntax error; what is not supported; what is configured.
    assert lab.smf("several", applications=several) == {"cause": 3, "failed": {"wrong": 90, "probe": 76, "video": 69}}
    assert known() == {"video", "music"}
    lab.smf("pfds", application="music", pfds=[])
    assert known() == {"video"}
