"""The golden message of port block events (crates/natlog/tests/golden): tshark reads what its test says is in it."""
import pathlib
import struct

from conftest import FAULTY, tshark

GOLDEN = pathlib.Path(__file__).parents[2] / "crates/natlog/tests/golden/port_blocks.hex"
FIELDS = ["nat_event", "ingress_vrfid", "srcaddr", "post_natsource_ipv4_address", "port_range_start", "port_range_end",
          "port_range_step_size", "user_name", "observation_time_milliseconds"]


def capture(message, path):
    """A capture file with one datagram to IPFIX's port."""
    datagram = struct.pack("!HHHH", 4739, 4739, 8 + len(message), 0) + message
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0, bytes([192, 0, 2, 1]),
                         bytes([192, 0, 2, 2]))
    packet = header + datagram
    raw_ip = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101)
    path.write_bytes(raw_ip + struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)


def test_tshark_reads_the_golden_message(tmp_path):
    written = tmp_path / "ipfix.pcap"
    capture(bytes.fromhex(GOLDEN.read_text()), written)
    assert not tshark(written, FAULTY, "_ws.expert.message")
    assert tshark(written, "cflow", "cflow.version", "cflow.sequence", "cflow.od_id") == ["10\t0\t7"]
    # Fields of one packet are beside each other: first that of the allocation, then that of its end.
    [line] = tshark(written, "cflow.nat_event", *(f"cflow.{field}" for field in FIELDS))
    *values, times = [value.split(",") for value in line.split("\t")]
    block = ["3", "10.45.0.1", "192.0.2.1", "1024", "1535", "1", "imsi-001010000000001"]
    assert values == [["16", "17"], *([value, value] for value in block)]
    assert times
