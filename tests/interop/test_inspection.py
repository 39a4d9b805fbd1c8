"""Rules that name hosts, with clients and servers that we did not write: curl, Chromium, Go's TLS and quic-go.

What each flow was for is what its server says; in which packet it was said, and how many octets came from there on, is what
tshark says of the capture on N3. The octets of each content are those, to the octet.
"""
import collections
import contextlib
import json
import os
import subprocess

import pytest

from conftest import serve
from lab import API_CONFIGURATION, DN, Lab, eventually, kernel_ue, shown

# Hosts, and of one the path; nothing of what is not billed by its host.
CONTENTS = {"video.example": "video", "cdn.video.example": "video", "shop.example/api": "api", "h3.example": "quic"}
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
FIELDS = ["frame.time_epoch", "ip.src", "ip.dst", "ip.len", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport",
          "tls.handshake.extensions_server_name", "http.host", "http.request.uri"]
# A packet of the server that was captured so soon after a host was named may have been charged before.
RACE_S = 0.005


@pytest.fixture(scope="module", params=[("af_packet", 1), ("af_xdp", 1), ("af_packet", 2)], ids=lambda of: f"{of[0]}-{of[1]}")
def lab(request):
    driver, workers = request.param
    lab = Lab(os.environ["SLUICE"], driver, workers, configuration=CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@contextlib.contextmanager
def servers(lab):
    """Serves every host; gives what was asked for so far: (transport, port of the client) and what."""
    process = lab.dn.popen(os.environ["WEB"], "serve", DN, stdout=subprocess.PIPE, text=True)
    asked = []
    try:
        assert process.stdout.readline() == "serving\n"
        yield asked
    finally:
        process.terminate()
        for line in process.communicate(timeout=10)[0].splitlines():
            transport, client, what = line.split()
            asked.append((transport, int(client.rpartition(":")[2]), what))


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
    fits = [content for rule, content in CONTENTS.items() if (host + slash + path).startswith(rule) and (
        "/" in rule or host == rule)]
    return fits[0] if fits else "unknown"


def packets(capture, ue):
    """Of each packet between the UE and the server, in order: time, flow, whether it is the UE's, octets, and the name it says."""
    columns = [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", str(capture), "-Y", f"gtp && ip.addr == {ue} && ip.addr == {DN}", "-T", "fields",
                           "-E", "occurrence=a", *columns], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        columns = [column.split(",") for column in line.split("\t")]
        (time,), addresses, _, lengths, *ports, names, hosts, paths = columns
        is_up, octets = addresses[1] == ue, int(lengths[1])
        # The first ports of UDP are the tunnel's. An ICMP error has addresses and ports of what it is about behind its own.
        transport, here = "other", [0, 0]
        if len(addresses) == 2:
            tcp, udp = ports[:2], [port[1:] for port in ports[2:]]
            transport, here = ("tcp", tcp) if tcp[0][0] else ("udp", udp)
            here = [int(port[0]) for port in here]
        name = names[0] or (hosts[0].partition(":")[0] + paths[0] if hosts[0] else "")
        yield float(time), (transport, here[0] if is_up else here[1]), is_up, octets, name


def expected(capture, ue):
    """Octets by content as tshark sees them, and how many of each may belong to what came before it."""
    octets, race = collections.Counter(), collections.Counter()
    now = {}
    for time, flow, is_up, length, name in packets(capture, ue):
        content, since = now.get(flow, ("unknown", 0))
        if name:
            content, since = now[flow] = content_of(name), time
        octets[content] += length
        if not is_up and time - since < RACE_S:
            race[content] += length
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


def check(lab, session, ue, asked):
    """Compares what was billed with the capture and with what the servers say."""
    counted = settled(lab, session)
    seen = []

    def is_captured():
        seen[:] = expected(lab.captures["n3"], ue)
        return sum(seen[0].values()) >= sum(counted[content] for content in seen[0])
    eventually(is_captured, "tcpdump has written what was billed")
    octets, race, named = seen
    # tshark and the servers agree on the last host of each flow, where a flow had one.
    last = {(transport, port): content_of(what) for transport, port, what in asked}
    assert {flow: content for flow, (content, _) in named.items()} == last
    assert sum(octets.values()) == sum(counted[content] for content in octets), (octets, counted)
    for content in octets:
        assert abs(octets[content] - counted[content]) <= sum(race.values()), (content, octets, counted, race)
    return counted


def test_contents_are_billed_as_the_servers_say(lab):
    sock = lab.gnb_socket()
    before = totals(lab)
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with servers(lab) as asked:
            web(lab, "get", "https://video.example/200000", "https://www.example/3000", "https://cdn.video.example/5000")
            web(lab, "get", "h3://h3.example/60000", "h3://www.example/100", "h3://cdn.video.example/30000")
            curl(lab, "https://cdn.video.example/100000")
            curl(lab, "https://cdn.video.example/1000", "--tlsv1.2", "--tls-max", "1.2")
            curl(lab, "http://shop.example/api/orders/2000")
            curl(lab, "http://shop.example/index")
        counted = check(lab, session, ue, asked)
        assert counted["video"] > 330_000 and counted["quic"] > 60_000 and counted["api"] > 2_000
        eventually(lambda: totals(lab) - before == counted, "the totals are what the session was billed")
    # They stay when the session has ended.
    assert totals(lab) - before == counted


def test_each_request_of_a_connection_is_billed_by_itself(lab):
    sock = lab.gnb_socket()
    with sock, kernel_ue(lab, sock, activate=["web"]) as (session, ue, _):
        with servers(lab) as asked:
            web(lab, "follow", "http://shop.example/api/20000", "http://www.example/5000", "http://shop.example/api/100",
                "http://shop.example/index/7000", "http://cdn.video.example/90000", "http://www.example/1")
        counted = check(lab, session, ue, asked)
        assert counted["api"] > 20_100 and counted["video"] > 90_000 and counted["unknown"] > 12_000


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
            return sum(length for *_, length, _ in seen) >= sum(counted.values())
        eventually(is_captured, "tcpdump has written what was counted")
        octets, race, now = collections.Counter(), 0, {}
        for time, flow, is_up, length, name in seen:
            application, since = now.get(flow, ("rest", 0))
            if name:
                is_http[flow] = "/" in name
                application, since = now[flow] = application_of(name, flow[0], is_http[flow]), time
            octets[application] += length
            race += length if not is_up and time - since < RACE_S else 0
        # The servers agree with tshark about the last name of each flow.
        assert {(transport, port): application_of(what, transport, is_http.get((transport, port)))
                for transport, port, what in asked} == {flow: application for flow, (application, _) in now.items()}
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
