"""`sluice config commit` under traffic: a mark and a route change, and no packet is lost."""
import os
import socket
import struct
import subprocess
import threading
import time

from scapy.all import IP, UDP, Raw

from lab import DN, Tunnel, shown

PACKETS, PER_S = 6_000, 2_000
# Of asm-generic/socket.h: Python does not name it.
SO_RCVBUFFORCE = 33
MARK = "    routes:\n"


def config(lab, *arguments):
    command = [os.environ["SLUICE"], "config", *map(str, arguments), "--socket", lab.files / "control"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr


def numbered(frames, ue):
    """Number and DSCP of each packet of the UE that has come within a second, in their order."""
    time.sleep(1)
    frames.setblocking(False)
    while True:
        try:
            frame = frames.recv(65535)
        except BlockingIOError:
            return
        packet = frame[14:]
        if frame[12:14] == b"\x08\x00" and socket.inet_ntoa(packet[12:16]) == ue and packet[9] == 17:
            yield struct.unpack("!I", packet[28:32])[0], packet[1] >> 2


def test_a_commit_under_traffic_loses_no_packet(api_lab):
    session = api_lab.smf.session(ue4="10.45.8.1")
    ue = session["ue_ipv4"]
    file = api_lab.files / "sluice.yaml"
    before = file.read_text()
    candidate = api_lab.files / "candidate.yaml"
    candidate.write_text(before.replace(MARK, "    dscp: [{qfi: 9, dscp: 46}]\n" + MARK
                                        + "      - {to: 198.51.100.0/24, via: " + DN + "}\n"))
    with api_lab.dn_udp_socket(DN, 9), api_lab.gnb_socket() as gnb, api_lab.dn_tap() as tap:
        tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        tunnel = Tunnel(session, gnb)
        # The first one asks for the neighbour.
        tunnel.send(bytes(IP(src=ue, dst=DN) / UDP(sport=40000, dport=9) / Raw(struct.pack("!I", PACKETS))))
        time.sleep(0.5)
        head = IP(src=ue, dst=DN) / UDP(sport=40000, dport=9, chksum=0)
        packets = [bytes(head / Raw(struct.pack("!I", number))) for number in range(PACKETS)]

        def send():
            began = time.monotonic()
            for number, packet in enumerate(packets):
                tunnel.send(packet)
                time.sleep(max(0, began + number / PER_S - time.monotonic()))
        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(1)
        status, said = config(api_lab, "commit", candidate, "--confirm-within", 60)
        assert status == 0, said
        assert "dscp" in said and "198.51.100.0/24" in said and "rolled back in 60 s" in said
        assert file.read_text() == before
        time.sleep(0.5)
        status, said = config(api_lab, "confirm")
        assert status == 0, said
        sender.join()
        came = list(numbered(tap, ue))
    assert file.read_text() == candidate.read_text()
    numbers = [number for number, _ in came if number < PACKETS]
    marks = [mark for number, mark in came if number < PACKETS]
    assert numbers == list(range(PACKETS)), f"{PACKETS - len(set(numbers))} packets are lost"
    # All before one packet have the old mark, all from it on the new one.
    turn = marks.index(46)
    assert PER_S // 2 < turn < PACKETS and set(marks[:turn]) == {0} and set(marks[turn:]) == {46}
    status, said = config(api_lab, "rollback")
    assert status == 0, said
    assert file.read_text() == before
    api_lab.smf("delete", up_seid=session["up_seid"])


def test_a_commit_takes_a_changed_file_of_applications(api_lab):
    file = api_lab.files / "sluice.yaml"
    before = file.read_text()
    shops = api_lab.files / "applications" / "shops.yaml"
    shops.parent.mkdir()
    shops.write_text("- {name: shop, hosts: [shop.example]}\n")
    # The file is elsewhere: applications are those beside the daemon's.
    candidate = api_lab.files / "elsewhere" / "candidate.yaml"
    candidate.parent.mkdir()
    candidate.write_text(before + "predefined: {application_files: ['applications/*.yaml']}\n")
    status, said = config(api_lab, "commit", candidate)
    assert status == 0 and "+ predefined.applications[shop]" in said, said
    assert [one["id"] for one in shown(api_lab, "applications")["applications"]] == ["shop"]

    # One that another file has already: neither counts, and both places are named.
    more = shops.with_name("more.yaml")
    more.write_text("# Of partners\n- {name: shop, hosts: [other.example]}\n")
    status, said = config(api_lab, "commit", file)
    assert status == 1 and "applications/shops.yaml: line 1" in said and "first in applications/more.yaml line 2" in said, said
    assert check(file) == (2, said.partition("applications/shops.yaml: ")[2].splitlines()[0])

    # Another host, which is written twice: a note. Nothing waits for the next start.
    more.unlink()
    shops.write_text("- {name: shop, hosts: [shop.example, www.shop.example, www.shop.example]}\n")
    note = "application `shop`: `www.shop.example` is written twice"
    assert check(file) == (0, note)
    status, said = config(api_lab, "check", file)
    assert status == 0 and f"note: {note}" in said and "predefined.applications[shop].hosts" in said, said
    assert "application files have been edited" in config(api_lab, "show")[1]
    status, said = config(api_lab, "commit", file)
    assert status == 0 and "predefined.applications[shop].hosts" in said and "are others" not in said, said
    assert [one["urls"] for one in shown(api_lab, "applications")["applications"]] == [3]

    # A rollback takes the application of before, and says that the file has another one.
    status, said = config(api_lab, "rollback")
    assert status == 0 and "the application files beside the configuration are others" in said, said
    assert [one["urls"] for one in shown(api_lab, "applications")["applications"]] == [1]
    file.write_text(before)
    status, said = config(api_lab, "commit", file)
    assert status == 0, said
    assert shown(api_lab, "applications")["applications"] == []


def check(file):
    """Exit status of `sluice check`, and its last note or what its error says of an application file."""
    done = subprocess.run([os.environ["SLUICE"], "check", "-c", file], capture_output=True, text=True, timeout=30)
    notes = [line.removeprefix("Note").strip() for line in done.stdout.splitlines() if line.startswith("Note")]
    return done.returncode, notes[-1] if notes else done.stderr.splitlines()[0].partition("applications/shops.yaml: ")[2]
