"""The vectors of the in-band protocol (docs/inband.md): tshark reads them by the dissector in tools/wireshark."""
import pathlib
import re
import struct
import subprocess

import pytest

from conftest import FAULTY, tshark

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = f"lua_script:{ROOT}/tools/wireshark/sluice_inband.lua"
CONTROL, EXCEPTION = 0x88b5, 0x88b6
HOST, ACCELERATOR = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def chapter(title):
    """The vectors of a chapter, by name."""
    text = (ROOT / "docs/inband.md").read_text()
    inside = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.S | re.M)[1]
    return {name: bytes.fromhex(octets) for name, octets in re.findall(r"^```hex (\S+)\n(.*?)^```", inside, re.S | re.M)}


MESSAGES, FRAMES = chapter("Messages"), chapter("Exception frames")


def control(kind, payload):
    """A control frame of the host, with a MAC that is none."""
    header = struct.pack("!BBBBIQQQQHH", 1, kind, 2, 0, 7, 0x1122334455667788, 11, 12, 5, len(payload), 0)
    return header + payload + bytes(range(16))


def data(*messages):
    return control(4, b"".join(struct.pack("!H", len(message)) + message for message in messages))


def welcome(capabilities):
    greeting = bytes(range(16)) + bytes(range(16, 32)) + struct.pack("!QQQIHH", 8, 9, 10, 3, len(capabilities), 0)
    return control(2, greeting + capabilities.ljust(256, b"\0"))


def capture(path, ether_type, *contents):
    """A capture file with an Ethernet frame for each of the contents."""
    written = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
    for content in contents:
        frame = ACCELERATOR + HOST + struct.pack("!H", ether_type) + content
        written += struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
    path.write_bytes(written)


def read(path, *fields, wanted="frame"):
    """These fields of each frame, a list for each."""
    return [line.split("\t") for line in tshark(path, wanted, *fields, options=("-X", SCRIPT))]


def faults(path):
    """What is wrong with the frames, errors of the dissector among them."""
    return read(path, "frame.number", "_ws.expert.message", wanted=f"{FAULTY} || _ws.lua.error || sluice.trailing")


def verbose(path):
    done = subprocess.run(["tshark", "-X", SCRIPT, "-V", "-r", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


# By vector: display filter's names without "sluice.", and their values as tshark prints them. Of each a reader of
# the document fills in by hand what the octets say: no code of Sluice is asked.
REQUEST = {"message.version": "1", "request": "258", "epoch": "3", "session": "261", "request.flags": "0x01"}
OF_NODE = REQUEST | {"session": "0", "request.flags": "0x00"}
FLOW = {"key.fields": "0x06", "key.kind": "0x02", "key.origin": "2", "key.teid": "0x00c0ffee", "key.src": "10.45.0.1",
        "key.dst": "198.51.100.7", "key.srcport": "40000", "key.dstport": "443", "key.protocol": "6", "key.tos": "0x00",
        "key.qfi": "9"}
OF_FLOW = {"flow.urrs": "0x00000005", "flow.qers": "0x0003", "flow.idle": "112", "flow.flags": "0x02",
           "flow.forward": "1", "flow.marking": "255", "flow.parts": "0x00", "generation": "7"}
KEY6 = {"key.fields": "0x2e", "key.kind": "0x03", "key.origin": "3", "key.teid": "0x0badcafe",
        "key.src6": "2001:db8:45:1::ab", "key.dst6": "2001:db8:ffff::53", "key.srcport": "50000", "key.dstport": "53",
        "key.protocol": "17", "key.tos": "0xb8", "key.qfi": "255", "key.flow_label": "0x000abcde"}
METER = {"object": "4", "slot": "4", "direction": "1", "meter.state": "0"}
STATE = {"meter.tokens": "80000000,160000000", "moment": "1000000007,60000000000,61000000000", "meter.left": "11,12"}
QUEUES = {"object": "11", "direction": "1", "queues.shapers": "1", "queues.node": "5", "slot": "4"}
TOKENS = {"moment": "1000000007", "queues.tokens": "-80000000,1,2,3,-4"}
CLASS = {"message.type": "0x12", "object": "22", "queues.class": "2", "class.priority": "3", "class.weight": "4",
         "class.octets": "200000"}
NODE = {"message.type": "0x12", "object": "23", "class.weight": "6", "node.overhead": "38", "node.burst": "25000"}
EXPECTED = {
    "fence-node": OF_NODE | {"message.type": "0x15", "object": "0"},
    "fence-session": REQUEST | {"message.type": "0x15", "object": "0", "session": "5"},
    "install-flow-ipv4": REQUEST | FLOW | OF_FLOW | {"message.type": "0x10", "object": "1"},
    "put-flow-prefix": REQUEST | OF_FLOW | {
        "message.type": "0x12", "key.fields": "0x01", "key.kind": "0x01", "key.origin": "1",
        "key.prefix": "20010db800450001", "flow.flags": "0x01", "flow.forward": "2", "flow.marking": "4"},
    "install-flow-nat": REQUEST | FLOW | OF_FLOW | {
        "flow.urrs": "0x00000002", "flow.qers": "0x0001", "flow.flags": "0x42", "flow.parts": "0x07",
        "flow.high_qers": "0x0000000000000001", "flow.high_urrs": "0x00000001", "nat.src": "192.0.2.1",
        "nat.dst": "0.0.0.0", "nat.srcport": "1024", "nat.dstport": "0", "nat.addresses_sum": "0x1234",
        "nat.ports_sum": "0x5678", "nat.changes": "0x05", "content": "77"},
    "remove-flow-ipv6": REQUEST | KEY6 | {"message.type": "0x13", "object": "1"},
    "update-forward-tunnel-ipv4": REQUEST | {
        "message.type": "0x11", "object": "2", "slot": "1", "forward.kind": "2", "forward.flags": "0x01",
        "forward.outer": "4", "adjacency": "42", "instance": "3", "forward.mirror": "0", "forward.parts": "0x00",
        "forward.dscp": "255", "forward.teid": "0xdead0001", "forward.srcport": "2152", "forward.tos": "0xb8",
        "forward.src": "192.0.2.10", "forward.dst": "192.0.2.20"},
    "put-forward-tunnel-ipv6": REQUEST | {
        "slot": "2", "forward.outer": "6", "adjacency": "4294967295", "forward.mirror": "65535", "forward.parts": "0x01",
        "forward.teid": "0xdead0002", "forward.src6": "2001:db8::10", "forward.dst6": "2001:db8::20"},
    "put-forward-plain": REQUEST | {
        "slot": "249", "forward.kind": "3", "forward.flags": "0x00", "forward.outer": "0", "instance": "4",
        "forward.mirror": "7", "forward.dscp": "46"},
    "remove-forward": REQUEST | {"message.type": "0x13", "object": "2", "slot": "1"},
    "put-qer": REQUEST | {"object": "3", "slot": "4", "qer.gates": "0x06", "qer.mark": "0x0dc9"},
    "put-qer-service-class": REQUEST | {"qer.mark": "0x1303"},
    "remove-qer": REQUEST | {"message.type": "0x13", "object": "3", "slot": "4"},
    "install-meter-single": REQUEST | METER | {"meter.kind": "0", "meter.flags": "0x00", "meter.rate": "50000",
                                               "meter.burst": "312500"},
    "install-meter-srtcm": REQUEST | METER | {"meter.kind": "1", "meter.flags": "0x01", "meter.rate": "1000",
                                              "meter.burst": "10000,20000"},
    "install-meter-trtcm-state": REQUEST | METER | STATE | {
        "meter.state": "1", "meter.kind": "2", "meter.rate": "1000,18446744073709551615", "meter.burst": "10000,30000"},
    "put-meter-packets": REQUEST | METER | {"meter.kind": "3", "meter.flags": "0x06", "meter.packets": "100,7",
                                            "meter.unit": "2,4"},
    "put-meter-shared": REQUEST | METER | {"meter.kind": "4", "shared": "12"},
    "remove-meter": REQUEST | {"message.type": "0x13", "object": "4", "slot": "4", "direction": "0"},
    "install-counter": REQUEST | {
        "object": "5", "slot": "2", "counter.flags": "0x08", "counter.of": "0", "counter.action": "1",
        "counter.times": "0", "counter.volumes": "0x0d", "counter.volume": "800000,700000,1000000"},
    "put-counter-weight": REQUEST | {"slot": "63", "counter.flags": "0x05", "counter.of": "2", "counter.times": "300",
                                     "counter.volumes": "0x00", "counter.volume": ""},
    "query-counter": REQUEST | {"message.type": "0x14", "object": "5", "slot": "2"},
    "put-share": REQUEST | {"object": "6", "shared": "12"},
    "remove-share": REQUEST | {"message.type": "0x13", "object": "6"},
    "remove-flows": REQUEST | {"message.type": "0x13", "object": "7"},
    "query-contents": REQUEST | {"message.type": "0x14", "object": "8"},
    "remove-session": REQUEST | {"message.type": "0x13", "object": "9"},
    "put-generation": REQUEST | {"message.type": "0x12", "object": "10", "generation": "7"},
    "remove-generation": REQUEST | {"message.type": "0x13", "object": "10"},
    "install-queues": REQUEST | QUEUES | {
        "message.type": "0x10", "queues.queues": "1", "queues.flags": "0x00", "queues.burst": "20,10",
        "meter.rate": "50000,0,18446744073709551615", "flow.marking": "3", "queues.shaper": "0", "queues.class": "2",
        "queues.tokens": ""},
    "put-queues-tokens": REQUEST | QUEUES | TOKENS | {
        "message.type": "0x12", "queues.queues": "2", "queues.flags": "0x01", "queues.burst": "20,10,30",
        "meter.rate": "50000,0,18446744073709551615,1000,2000", "flow.marking": "3,255", "queues.shaper": "0,255",
        "queues.class": "2,1"},
    "remove-queues": REQUEST | {"message.type": "0x13", "object": "11", "direction": "1"},
    "install-instance": OF_NODE | {
        "object": "16", "instance": "3", "instance.port": "6", "instance.vlan": "100,200", "instance.tpid": "0x88a8",
        "vrf": "1", "mtu": "1500", "ether": "02:00:00:00:00:16", "instance.uses": "0x01", "instance.too_long": "1",
        "instance.parts": "0x03", "instance.marks": "2", "ipv4": "192.0.2.10", "ipv6": "2001:db8::10",
        "prefix_length": "24,64", "local": "2,3", "mark.qfi": "9,1", "mark.green": "46,10", "mark.yellow": "40,12",
        "mark.pcp": "5,1"},
    "put-instance-untagged": OF_NODE | {"instance": "4", "instance.vlan": "0,0", "instance.tpid": "0x8100",
                                        "instance.uses": "0x02", "instance.too_long": "2", "mark.qfi": ""},
    "put-instance-mss-auto": OF_NODE | {"instance.parts": "0x04", "instance.mss": "0"},
    "put-instance-mss": OF_NODE | {"instance.parts": "0x04", "instance.mss": "1360"},
    "remove-instance": OF_NODE | {"message.type": "0x13", "object": "16", "instance": "3"},
    "install-route-router": OF_NODE | {
        "object": "17", "vrf": "1", "family": "4", "prefix_length": "16", "ipv4": "10.45.0.0", "route.target": "1",
        "route.flags": "0x01", "instance": "3", "adjacency": "42"},
    "put-route-paths": OF_NODE | {"family": "6", "prefix_length": "64", "ipv6": "2001:db8:45:1::", "route.target": "2",
                                  "route.flags": "0x01", "adjacency": "42"},
    "put-route-link": OF_NODE | {"route.target": "0", "route.flags": "0x00", "instance": "3", "adjacency": "0"},
    "put-route-host": OF_NODE | {"prefix_length": "0", "ipv4": "0.0.0.0", "route.target": "3", "instance": "0"},
    "remove-route": OF_NODE | {"message.type": "0x13", "object": "17", "ipv6": "2001:db8:45:1::", "route.target": ""},
    "put-adjacency": OF_NODE | {"object": "18", "adjacency": "42", "instance": "3", "family": "4",
                                "adjacency.flags": "0x01", "ether": "02:00:00:00:00:20", "ipv4": "192.0.2.20"},
    "put-adjacency-path": OF_NODE | {"family": "0", "adjacency.flags": "0x00", "ether": "00:00:00:00:00:00", "ipv4": ""},
    "remove-adjacency": OF_NODE | {"message.type": "0x13", "object": "18", "adjacency": "42"},
    "put-path-mtu": OF_NODE | {"object": "19", "family": "4", "mtu": "1400", "ipv4": "192.0.2.10,192.0.2.20"},
    "remove-path-mtu": OF_NODE | {"message.type": "0x13", "object": "19", "mtu": "0", "ipv4": "192.0.2.10,192.0.2.20"},
    "install-shared-meter": OF_NODE | {"object": "20", "shared": "12", "meter.rate": "100000,200000",
                                       "meter.burst": "625000,1250000"},
    "query-shared-meter": OF_NODE | {"message.type": "0x14", "object": "20", "shared": "12"},
    "put-shared-chain": OF_NODE | {"object": "21", "shared": "13,12,14,0,0"},
    "remove-shared-chain": OF_NODE | {"message.type": "0x13", "object": "21", "shared": "13"},
    "put-queue-class": OF_NODE | CLASS | {"class.management": "1", "class.wred_weight": "0", "class.threshold": ""},
    "put-queue-class-wred": OF_NODE | CLASS | {
        "class.management": "3", "class.wred_weight": "9", "class.threshold": "50000,150000,25000,75000",
        "class.one_in": "10,20"},
    "remove-queue-class": OF_NODE | {"message.type": "0x13", "object": "22", "queues.class": "2"},
    "put-shared-node-port": OF_NODE | NODE | {"queues.node": "5,0", "node.flags": "0x00",
                                              "meter.rate": "18446744073709551615"},
    "put-shared-node": OF_NODE | NODE | {"queues.node": "5,1", "node.flags": "0x01", "meter.rate": "100000"},
    "remove-shared-node": OF_NODE | {"message.type": "0x13", "object": "23", "queues.node": "5"},
    "reply-done": {"message.type": "0x20", "request": "258"},
    "reply-counts": {
        "message.type": "0x21", "request": "258", "entries": "2", "more": "0", "slot": "2,63", "ul_packets": "5,6",
        "ul_octets": "500,600", "dl_packets": "10,12", "dl_octets": "15000,18000", "events": "6,7"},
    "reply-counts-more": {"message.type": "0x21", "entries": "1", "more": "1", "slot": "1", "ul_packets": "7"},
    "reply-meter": STATE | {"message.type": "0x22"},
    "reply-contents": {"message.type": "0x23", "entries": "1", "more": "0", "content": "77", "ul_packets": "9",
                       "ul_octets": "900", "dl_packets": "18", "dl_octets": "27000", "events": "10",
                       "moment": "1000000007,2000000011"},
    "reply-demand": {"message.type": "0x24", "demand": "123456,654321"},
    "reply-tokens": TOKENS | {"message.type": "0x26", "request": "258", "queues.shapers": "1", "queues.queues": "2"},
    "reply-refused": {"message.type": "0x25", "refusal": "3", "request": "258"},
    "event-aged": FLOW | {"message.type": "0x30", "session": "261", "entries": "1", "more": "0", "slot": "2",
                          "dl_octets": "15000"},
    "event-watermark": {"message.type": "0x31", "session": "261", "slot": "2"},
    "event-limit": {"message.type": "0x32", "session": "261", "slot": "2", "direction": "1"},
    "event-counts": {"message.type": "0x33", "session": "261", "entries": "1", "more": "0", "slot": "2",
                     "ul_packets": "8", "dl_octets": "24000", "events": "9"},
    "event-counts-more": {"message.type": "0x33", "session": "261", "more": "1", "slot": "1"},
    "event-miss": KEY6 | {"message.type": "0x34"},
    "event-backend-reset": {"message.type": "0x35", "epoch": "4"},
    "event-unreachable": {"message.type": "0x36"},
    "event-links": {"message.type": "0x37", "links.down": "0x0000000000000009"},
    "capabilities": {
        "message.type": "0x40", "key.fields": "0x07", "can.flags": "0x1e", "can.actions": "0x004b",
        "can.counters": "2", "can.qers": "3", "can.ipv4_flows": "16000000", "can.ipv6_flows": "1000000",
        "can.sessions": "500000", "can.routes": "1024", "can.adjacencies": "4096", "can.shared_meters": "0",
        "can.instances": "16", "can.loss": "10000", "can.counts_every": "100000000"},
    "capabilities-queues": {
        "message.type": "0x40", "key.fields": "0x07", "can.flags": "0x3e", "can.instances": "16", "can.loss": "10000",
        "can.counts_every": "100000000", "can.queues": "131072", "can.queue_packets": "65536",
        "can.queue_octets": "67108864", "can.shared_nodes": "64", "can.managements": "0x05"},
    "capabilities-local": {"message.type": "0x40", "key.fields": "0x2f", "can.flags": "0x03", "can.actions": "0x1fff",
                           "can.counters": "64", "can.qers": "64", "can.sessions": "300", "can.counts_every": "0"},
    "capabilities-partial": {"message.type": "0x40", "key.fields": "0x00", "can.flags": "0x02", "can.actions": "0x0000",
                             "can.counters": "0", "can.qers": "0", "can.sessions": "0", "can.counts_every": "0"},
    "host-capabilities": {"message.type": "0x41", "can.host_flags": "0x01", "can.more_channels": "0"},
    "host-capabilities-channels": {"message.type": "0x41", "can.host_flags": "0x01", "can.more_channels": "3"},
    "host-capabilities-partial": {"message.type": "0x41", "can.host_flags": "0x0e", "can.more_channels": "3"},
}
HEADER = {"version": "1", "channel": "2", "frame.port": "6"}
INNER = {"ip.src": "198.51.100.7", "ip.dst": "10.45.0.1", "udp.dstport": "40000", "vlan.id": "100"}
EXPECTED_FRAMES = {
    "exception-user-packet": HEADER | INNER | {
        "frame.type": "0x01", "frame.class": "1", "frame.reason": "0", "frame.tags": "1", "frame.hops": "0",
        "frame.length": "50", "frame.user_packet": "18", "frame.layer4": "38", "frame.hint": "0x13579bdf",
        "frame.time": "1000000007"},
    "exception-arp": HEADER | {"frame.class": "0", "frame.reason": "2", "frame.tags": "0", "frame.length": "42",
                               "frame.user_packet": "0", "frame.layer4": "0", "arp.dst.proto_ipv4": "192.0.2.10"},
    "steered": HEADER | INNER | {
        "frame.type": "0x04", "frame.class": "1", "frame.reason": "0", "frame.tags": "1", "frame.hops": "0",
        "frame.length": "50", "frame.user_packet": "18", "frame.layer4": "38", "frame.hint": "0x13579bdf",
        "frame.time": "1000000007", "frame.bucket": "140"},
    "send": HEADER | {"frame.type": "0x81", "frame.length": "42", "arp.dst.proto_ipv4": "192.0.2.10"},
    "through": HEADER | INNER | FLOW | OF_FLOW | {
        "frame.type": "0x82", "frame.hops": "1", "session": "261", "frame.counter": "12",
        "frame.length": "50", "frame.flow_length": "40", "mac": "a5" * 16},
    "marker": {"frame.type": "0x02", "channel": "2", "frame.marker": "18838586676582"},
    "marker-back": {"frame.type": "0x83", "channel": "2", "frame.marker": "18838586676582"},
    "questions": HEADER | {
        "frame.type": "0x03", "frame.questions": "1", "frame.number": "65543", "frame.length": "50",
        "frame.user_packet": "18", "frame.layer4": "38", "frame.head": "46"},
    "answers": FLOW | OF_FLOW | {
        "version": "1", "channel": "2", "frame.type": "0x84", "frame.answers": "2", "frame.counter": "13",
        "frame.answers_length": "60", "frame.number": "65543,8", "frame.answer": "1,0", "frame.flow_length": "40,0",
        "session": "261", "mac": "a5" * 16},
}
# Wireshark's own.
OTHERS = ("ip.", "udp.", "vlan.", "arp.")


def test_every_vector_is_expected():
    assert list(MESSAGES) == list(EXPECTED)
    assert list(FRAMES) == list(EXPECTED_FRAMES)


def check(path, expected):
    """Holds the frames of a capture to what is expected of each."""
    names = sorted({name for values in expected for name in values})
    fields = [name if name.startswith(OTHERS) else f"sluice.{name}" for name in names]
    assert not faults(path), verbose(path)
    for frame, (values, line) in enumerate(zip(expected, read(path, *fields), strict=True)):
        found = {name: value.replace(":", "") if name in ("key.prefix", "mac") else value
                 for name, value in zip(names, line, strict=True) if name in values}
        assert found == values, f"frame {frame + 1}"


def test_tshark_reads_every_message(tmp_path):
    path = tmp_path / "messages.pcap"
    capture(path, CONTROL, *(data(message) for message in MESSAGES.values()))
    check(path, list(EXPECTED.values()))


def test_tshark_reads_every_exception_frame(tmp_path):
    path = tmp_path / "exceptions.pcap"
    # Padding of a short frame belongs to none.
    capture(path, EXCEPTION, *(frame.ljust(46, b"\0") for frame in FRAMES.values()))
    check(path, list(EXPECTED_FRAMES.values()))


def test_tshark_reads_control_frames(tmp_path):
    path = tmp_path / "control.pcap"
    several = data(MESSAGES["install-flow-ipv4"], MESSAGES["fence-session"], MESSAGES["reply-done"])
    capture(path, CONTROL, welcome(MESSAGES["capabilities"]), several, control(5, b""), data())
    common = {"version": "1", "channel": "2", "role": "0", "handshake": "7", "boot": "0x1122334455667788",
              "sequence": "11", "acknowledged": "12", "bitmap": "0x0000000000000005", "mac": bytes(range(16)).hex()}
    check(path, [
        common | {"kind": "2", "length": "320", "peer_boot": "0x0000000000000008", "clock": "9", "echoed_clock": "10",
                  "epoch": "3", "capabilities_length": "44", "can.sessions": "500000", "message.type": "0x40"},
        common | {"kind": "4", "message.length": "60,20,12", "message.type": "0x10,0x15,0x20"},
        common | {"kind": "5", "length": "0"},
        common | {"kind": "4", "length": "0", "message.type": ""},
    ])


@pytest.mark.parametrize("broken", [
    data(MESSAGES["install-flow-ipv4"][:-1]), data(MESSAGES["install-flow-ipv4"] + b"\0"), data(b"\x01\x77"),
    control(4, b"\0\x09\1"), data(MESSAGES["reply-done"])[:-1], data(b"\x01\x10\x63" + bytes(20)),
], ids=["short", "long", "type", "length", "mac", "object"])
def test_tshark_says_what_is_broken(tmp_path, broken):
    path = tmp_path / "broken.pcap"
    capture(path, CONTROL, broken)
    assert faults(path)
    assert not read(path, "frame.number", wanted="_ws.lua.error"), verbose(path)
