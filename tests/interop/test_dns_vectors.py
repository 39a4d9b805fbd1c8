"""scapy as oracle of queries of DNS, and tshark of both: the vectors of crates/dpi/tests/dns_vectors.txt are those that
scapy makes, and tshark reads in them what they say. The crate's own tests compare them with what the crate reads and writes.

Run as a program it writes them."""
import pathlib
import re
import subprocess

from scapy.layers.dns import DNS, DNSQR, DNSRR, DNSRROPT, DNSRRTSIG, EDNS0TLV
from scapy.layers.inet import IP, UDP
from scapy.utils import wrpcap

VECTORS = pathlib.Path(__file__).parents[2] / "crates/dpi/tests/dns_vectors.txt"
HEADER = """# Queries of DNS, and the responses of a sinkhole: made by scapy, read by tshark (tests/interop/test_dns_vectors.py,
# which writes this file when it is run as a program).
#
# query    the query, the name that it is of, the type of records
# none     what is no query, and why
# answer   the query, the sinkhole's IPv4 address, IPv6 address and TTL, the response
"""
LONG = ".".join(["a" * 63] * 3 + ["b" * 61])
NAMES = ["www.example.com", "a.example", "localhost", "XN--BCHER-KVA.Example", "_dmarc.example.com", "1.2.0.192.in-addr.arpa",
         LONG, "hvO.=auth.tunnel.example"]
# A, NS, CNAME, PTR, MX, TXT, AAAA, SRV, DS, HTTPS, ANY
TYPES = [1, 2, 5, 12, 15, 16, 28, 33, 43, 65, 255]
SINKHOLES = [(None, None, 0), ("192.0.2.7", None, 60), (None, "2001:db8::7", 300), ("192.0.2.7", "2001:db8::7", 10)]
UNSIGNED = {"aa": 0, "tc": 0, "z": 0, "ad": 0}


def read(name):
    """The name as the crate has it."""
    return re.sub(r"[^a-z0-9_.-]", "_", name.lower())


def edns():
    """OPT records of clients."""
    return {
        "plain": DNSRROPT(rclass=1232, z=0),
        "DNSSEC": DNSRROPT(rclass=4096, z=0x8000),
        "cookie and padding": DNSRROPT(rclass=512, z=0, rdata=[EDNS0TLV(optcode=10, optdata=b"cookies!"),
                                                               EDNS0TLV(optcode=12, optdata=bytes(40))]),
        "version 1": DNSRROPT(rclass=1232, version=1),
    }


def query(number, name="www.example.com", kind=1, additional=(), **fields):
    question = DNSQR(qname=name, qtype=kind, qclass=1)
    return DNS(id=number, rd=fields.pop("rd", 1), qd=question, ar=list(additional), **fields)


def tsig():
    return DNSRRTSIG(rrname="key.example.", algo_name="hmac-sha256.", mac_len=32, mac_data=bytes(32))


def queries():
    number = 0x0100
    for name in NAMES:
        yield query(number, name), name, 1
        number += 0x0a51
    for kind in TYPES:
        yield query(number, kind=kind, rd=kind & 1), NAMES[0], kind
        number += 0x0a51
    for record in edns().values():
        yield query(number, additional=[record], cd=1), NAMES[0], 1
        yield query(number, kind=28, additional=[record, tsig()]), NAMES[0], 28
        number += 0x0a51


def no_queries():
    good = bytes(query(7))
    address = DNSRR(rrname="www.example.com", type=1, rdata="192.0.2.1", ttl=1)
    yield bytes(query(7, qr=1)), "a response"
    yield bytes(query(7, opcode=5)), "an update"
    yield bytes(query(7, ".")), "the root"
    yield bytes(DNS(id=7, qd=[DNSQR(qname="a.example"), DNSQR(qname="b.example")])), "two questions"
    yield bytes(DNS(id=7, qd=[])), "no question"
    yield bytes(DNS(id=7, qd=DNSQR(qname="a.example", qclass=3))), "another class"
    yield bytes(query(7, an=address)), "an answer"
    yield bytes(query(7, ns=address)), "an authority"
    yield bytes(query(7, additional=[address] * 3)), "three additional records"
    yield bytes(query(7, additional=[DNSRROPT(), DNSRROPT()])), "two records of EDNS"
    yield bytes(query(7, additional=[DNSRROPT(rrname="a.example")])), "EDNS of a name"
    yield bytes(query(7, additional=[DNSRROPT(rdata=[EDNS0TLV(optcode=10, optlen=9, optdata=b"cookies!")])])), "half an option"
    yield good + b"\0", "an octet behind"
    yield good[:-1], "an octet too few"
    yield good[:12] + b"\xc0\x0c" + good[-4:], "a pointer"
    yield bytes(query(7, LONG + "cd.e")), "a name that is too long"


def answer(asked, ipv4, ipv6, ttl):
    """The response that scapy makes of what the RFCs say."""
    kind, records, error = asked.qd[0].qtype, [], 17
    option = next((record for record in asked.ar if isinstance(record, DNSRROPT)), None)
    address = {1: ipv4, 28: ipv6}.get(kind)
    rcode = 0 if ipv4 or ipv6 else 3
    bad_version = option is not None and option.version > 0
    if bad_version:
        address, rcode = None, 0
    if address:
        records, error = [DNSRR(rrname=asked.qd[0].qname, type=kind, ttl=ttl, rdata=address)], 4
    additional = []
    if option is not None:
        options = [] if bad_version else [EDNS0TLV(optcode=15, optdata=error.to_bytes(2, "big"))]
        additional = [DNSRROPT(rclass=1232, extrcode=int(bad_version), z=option.z & 0x8000, rdata=options)]
    response = DNS(id=asked.id, qr=1, rd=asked.rd, ra=1, cd=asked.cd, rcode=rcode, qd=asked.qd, an=records, ar=additional)
    whole = bytes(response)
    if not records:
        return whole
    # scapy writes the whole name where a resolver writes a pointer to it.
    name = whole[12:12 + whole[12:].index(0) + 1]
    at = len(name) + 16
    assert whole[at:at + len(name)] == name
    return whole[:at] + b"\xc0\x0c" + whole[at + len(name):]


def answers():
    for asked, _, _ in queries():
        for sinkhole in SINKHOLES:
            yield asked, *sinkhole, answer(asked, *sinkhole)


def vectors():
    lines = [f"query {bytes(asked).hex()} {read(name)} {kind}" for asked, name, kind in queries()]
    lines += [f"none {octets.hex()} {why}" for octets, why in no_queries()]
    lines += [f"answer {bytes(asked).hex()} {ipv4 or '-'} {ipv6 or '-'} {ttl} {response.hex()}"
              for asked, ipv4, ipv6, ttl, response in answers()]
    return HEADER + "".join(line + "\n" for line in lines)


def tshark(messages, folder, fields):
    """What tshark reads in messages to and from port 53: a row for each."""
    capture = str(folder / "dns.pcap")
    wrpcap(capture, [IP(dst="192.0.2.53") / UDP(sport=40_000 + at, dport=53) / message for at, message in enumerate(messages)])
    columns = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(["tshark", "-r", capture, "-T", "fields", "-E", "occurrence=a", *columns],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_vectors_are_those_that_scapy_makes():
    assert VECTORS.read_text() == vectors()


def test_tshark_reads_the_queries(tmp_path):
    messages = list(queries())
    rows = tshark([bytes(asked) for asked, _, _ in messages], tmp_path,
                  ["dns.flags.response", "dns.qry.name", "dns.qry.type", "_ws.malformed"])
    assert len(rows) == len(messages)
    for row, (_, name, kind) in zip(rows, messages):
        assert (row[0], read(row[1]), row[2], row[3]) == (row[0], read(name), str(kind), ""), row
        assert row[0] in ("0", "False")


def test_tshark_reads_the_responses(tmp_path):
    messages = list(answers())
    rows = tshark([response for *_, response in messages], tmp_path,
                  ["dns.id", "dns.flags.rcode", "dns.qry.name", "dns.a", "dns.aaaa", "dns.resp.ttl", "dns.opt.ext_error.info_code",
                   "_ws.malformed"])
    assert len(rows) == len(messages)
    for row, (asked, ipv4, ipv6, ttl, _) in zip(rows, messages):
        number, rcode, name, a, aaaa, lives, error, malformed = row
        version = max([record.version for record in asked.ar if isinstance(record, DNSRROPT)], default=None)
        kind = asked.qd[0].qtype
        assert int(number, 16) == asked.id and read(name) == read(asked.qd[0].qname.decode().rstrip(".")) and not malformed
        assert int(rcode) == (0 if ipv4 or ipv6 or version else 3)
        assert a == (ipv4 or "" if kind == 1 and not version else "")
        assert aaaa == (ipv6 or "" if kind == 28 and not version else "")
        assert not (a or aaaa) or lives.split(",")[0] == str(ttl)
        assert error == {None: "", 1: ""}.get(version, "4" if a or aaaa else "17"), row


if __name__ == "__main__":
    VECTORS.write_text(vectors())
    print(f"{VECTORS.name}: {vectors().count(chr(10))} lines")
