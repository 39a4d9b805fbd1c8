"""ndpiReader as oracle of the plug-in: what crates/ndpi/tests/captures says that the flows of its captures are is what
ndpiReader finds, without guesses by ports and addresses. The crate's own tests compare it with what the plug-in finds.

Run as a program it makes the captures and writes that. What is said in a flow of TCP comes after a handshake, which the
plug-in is not shown."""
import csv
import pathlib
import random
import subprocess
import sys
import tempfile

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.utils import wrpcap

FOLDER = pathlib.Path(__file__).parents[2] / "crates/ndpi/tests/captures"
CAPTURES = sorted(FOLDER.glob("*.pcap"))


def protocols(capture):
    """A line for each flow: protocol, addresses and ports, what it is; nothing of one that is unknown."""
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "flows.csv"
        done = subprocess.run(["ndpiReader", "-q", "-d", "-i", str(capture), "-C", str(table)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with table.open() as rows:
            flows = list(csv.DictReader(rows, delimiter="|" if "|" in table.read_text().splitlines()[0] else ","))
    lines = []
    for flow in flows:
        name = {"6": "tcp", "17": "udp"}[flow["protocol"]]
        ends = " ".join(flow[field] for field in ["src_ip", "src_port", "dst_ip", "dst_port"])
        if flow["ndpi_proto"] != "Unknown":
            lines.append(f"{name} {ends} {flow['ndpi_proto']}")
    return sorted(lines)


def expected(capture):
    return capture.with_suffix(".protocols")


def test_the_protocols_are_those_that_ndpi_reader_finds():
    assert CAPTURES
    for capture in CAPTURES:
        assert expected(capture).read_text().splitlines() == protocols(capture), capture.name


def ends(number, ip):
    """Both headers, of a UE's and of the other end's."""
    if ip is IPv6:
        return [IPv6(src="2001:db8::2", dst="2001:db8:1::7"), IPv6(src="2001:db8:1::7", dst="2001:db8::2")]
    other = f"198.51.100.{number}"
    return [IP(src="10.45.0.2", dst=other), IP(src=other, dst="10.45.0.2")]


def tcp_flow(number, port, said, ip=IP):
    """What a client (True) and a server (False) say in turn."""
    ports = [40_000 + number, port]
    packets, next_of = [], {True: 1_000, False: 9_000}

    def send(by_client, flags, payload=b""):
        source, destination = ports if by_client else reversed(ports)
        header = ends(number, ip)[0 if by_client else 1]
        segment = TCP(sport=source, dport=destination, flags=flags, seq=next_of[by_client],
                      ack=0 if flags == "S" else next_of[not by_client])
        packets.append(header / segment / payload)
        next_of[by_client] += len(payload) + ("S" in flags)

    send(True, "S")
    send(False, "SA")
    send(True, "A")
    for by_client, payload in said:
        send(by_client, "PA", payload)
    return packets


def udp_flow(number, port, said, ip=IP):
    ports = [40_000 + number, port]
    packets = []
    for by_client, payload in said:
        source, destination = ports if by_client else reversed(ports)
        packets.append(ends(number, ip)[0 if by_client else 1] / UDP(sport=source, dport=destination) / payload)
    return packets


def bittorrent(peer):
    return b"\x13BitTorrent protocol" + bytes(5) + b"\x10\x00\x05" + bytes(range(20)) + f"-{peer}-".encode() + b"abcdefghijkl"


def sip(method, cseq):
    return (f"{method} sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.45.0.2:5060;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n"
            f"From: <sip:a@example.com>;tag=1\r\nTo: <sip:b@example.com>\r\nCall-ID: 1@10.45.0.2\r\nCSeq: {cseq} {method}\r\n"
            "Content-Length: 0\r\n\r\n").encode()


def made():
    """The packets of flows of protocols that Sluice does not recognise by itself, at ports of their own and at others."""
    noise = random.Random(23)
    ssh = [(False, b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), (True, b"SSH-2.0-OpenSSH_9.6\r\n")]
    smtp = [(False, b"220 mail.example ESMTP Postfix\r\n"), (True, b"EHLO ue.example\r\n"),
            (False, b"250-mail.example\r\n250-PIPELINING\r\n250 8BITMIME\r\n"), (True, b"MAIL FROM:<a@ue.example>\r\n"),
            (False, b"250 2.1.0 Ok\r\n"), (True, b"RCPT TO:<b@mail.example>\r\n"), (False, b"250 2.1.5 Ok\r\n")]
    ftp = [(False, b"220 ftp.example FTP server ready\r\n"), (True, b"USER anonymous\r\n"), (False, b"331 Please specify the password.\r\n"),
           (True, b"PASS ue@\r\n"), (False, b"230 Login successful.\r\n")]
    imap = [(False, b"* OK IMAP4rev1 ready\r\n"), (True, b"a1 LOGIN a b\r\n"), (False, b"a1 OK LOGIN completed\r\n"), (True, b"a2 SELECT INBOX\r\n"),
            (False, b"a2 OK done\r\n"), (True, b"a3 LOGOUT\r\n")]
    pop3 = [(False, b"+OK POP3 ready\r\n"), (True, b"USER a\r\n"), (False, b"+OK\r\n"), (True, b"PASS b\r\n"), (False, b"+OK\r\n"), (True, b"STAT\r\n"),
            (False, b"+OK 2 320\r\n")]
    mqtt = [(True, b"\x10\x16\x00\x04MQTT\x04\x02\x00\x3c\x00\x0aclient0001"), (False, b"\x20\x02\x00\x00"),
            (True, b"\x82\x08\x00\x01\x00\x03a/b\x00"), (False, b"\x90\x03\x00\x01\x00")]
    redis = [(True, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"), (False, b"$1\r\nb\r\n"), (True, b"*2\r\n$3\r\nGET\r\n$1\r\nc\r\n"), (False, b"$1\r\nd\r\n")]
    torrent = [(True, bittorrent("UT3550")), (False, bittorrent("TR2940"))]
    dht = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe"
    ntp = b"\xe3\x00\x04\xfa\x00\x01\x00\x00\x00\x01" + bytes(30) + b"\xe9\x2c\x10\x22\x80\x00\x00\x00"
    snmp = bytes.fromhex("302602010104067075626c6963a019020101020100020100300e300c06082b060102010101000500")
    radius = b"\x01\x07\x00\x2c" + bytes(range(16)) + b"\x01\x06user" + b"\x04\x06\x0a\x2d\x00\x02" + b"\x05\x06\x00\x00\x00\x01" + b"\x06\x06\x00\x00\x00\x02"
    noise_of = lambda octets: bytes(noise.randrange(256) for _ in range(octets))
    quiet = [(bool(place % 2 == 0), b"\xf7" + noise_of(80)) for place in range(12)]
    tcp = [(21, ftp), (22, ssh), (25, smtp), (110, pop3), (143, imap), (1883, mqtt), (6379, redis), (6881, torrent), (51_413, torrent),
           (2222, ssh), (9_999, quiet)]
    udp = [(123, [(True, ntp)]), (161, [(True, snmp)]), (1812, [(True, radius)]), (5060, [(True, sip("REGISTER", 1)), (True, sip("INVITE", 2))]),
           (6881, [(True, dht), (False, dht.replace(b"1:q4:ping", b""))]), (50_001, [(True, dht)]), (9_999, quiet)]
    flows = [tcp_flow(number, port, said) for number, (port, said) in enumerate(tcp, 1)]
    flows += [udp_flow(number, port, said) for number, (port, said) in enumerate(udp, 101)]
    flows += [tcp_flow(201, 51_413, torrent, IPv6), udp_flow(202, 123, [(True, ntp)], IPv6)]
    return [packet for flow in flows for packet in flow]


if __name__ == "__main__":
    for place, packet in enumerate(packets := made()):
        packet.time = 1_700_000_000 + place / 1_000
    wrpcap(str(FOLDER / "spoken.pcap"), packets, linktype=101)
    for capture in sorted(FOLDER.glob("*.pcap")):
        expected(capture).write_text("".join(line + "\n" for line in protocols(capture)))
        print(f"{capture.name}: {len(protocols(capture))} protocols", file=sys.stderr)
