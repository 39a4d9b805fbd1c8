"""What the host's own network stack gets of the interfaces that are ports: nothing.

It is looked at from outside: by what the host answers and forwards, and by what its sockets receive.
"""
import contextlib
import os
import signal
import socket

import pytest
from scapy.all import IP, UDP, Ether, IPv6, Raw

from lab import CONFIGURATION, DN, GNB, N3, UE_POOL, Lab, kernel_ue

# N4 is on an address of the host that packets from outside can be for, too.
MANAGEMENT, MANAGEMENT6, SMF_OUTSIDE = "192.0.2.8", "2001:db8:4::8", "192.0.2.77"
USELESS = "198.51.100.7"


class HostLab(Lab):
    """The host has addresses behind Sluice's interfaces, listens there, and forwards. N4 is at one of them. Its neighbours
    on N3 and N6 know the way, and no filter of source addresses is in it."""

    def _wire(self):
        super()._wire()
        upf = self.upf
        for name in ("all", "default", "n3", "n6"):
            upf.run(f"sysctl -qw net.ipv4.conf.{name}.rp_filter=0")
            upf.run(f"sysctl -qw net.ipv6.conf.{name}.disable_ipv6=0")
            upf.run(f"sysctl -qw net.ipv6.conf.{name}.accept_dad=0")
        for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            upf.run(f"sysctl -qw {setting}")
        # A mistake, of which Sluice warns.
        upf.run(f"ip addr add {USELESS}/24 dev n3")
        upf.run("ip link add management type veth peer name beyond")
        upf.run("ip link set management up")
        upf.run("ip link set beyond up")
        for address in (f"{MANAGEMENT}/24", f"{MANAGEMENT6}/64"):
            upf.add_address(address, "management")
        # What the host forwards, it would deliver: a route, and the next hop's address.
        upf.run("ip neigh replace 192.0.2.99 lladdr 02:00:00:00:00:99 dev management")
        self.mac = {link: upf.run(f"cat /sys/class/net/{link}/address").stdout.strip() for link in ("n3", "n6")}


@contextlib.contextmanager
def listener(lab, address):
    """A socket of the host where N4 might be: what it receives."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with lab.upf.entered():
        sock = socket.socket(family, socket.SOCK_DGRAM)
    with sock:
        sock.bind((address, 8805))
        sock.settimeout(0.3)
        yield sock


def reaches(lab, address):
    """Whether a frame of a neighbour, as from an SMF, reaches what listens at an address of the host: by which links."""
    spoofed = "2001:db8:4::77" if ":" in address else SMF_OUTSIDE
    layer = IPv6 if ":" in address else IP
    by = []
    with listener(lab, address) as sock:
        for namespace, link, there in lab.links:
            # Of several flows, so that some come by each queue.
            packets = [Ether(dst=lab.mac[there], src="02:00:00:00:00:77") / layer(src=spoofed, dst=address)
                       / UDP(sport=20_000 + n, dport=8805) / Raw(b"\x20\x09\x00\x04" + link.encode()) for n in range(16)]
            with getattr(lab, namespace).entered():
                raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            with raw:
                raw.bind((link, 0))
                for packet in packets:
                    raw.send(bytes(packet))
            with contextlib.suppress(TimeoutError):
                if sock.recv(2048):
                    by.append(there)
            with contextlib.suppress(TimeoutError):
                while sock.recv(2048):
                    pass
    return by


class TwoQueuesLab(HostLab):
    """Each interface has two queues, of which Sluice's one worker polls one."""

    def _wire(self):
        super()._wire()
        for namespace, link, there in self.links:
            getattr(self, namespace).run(f"ethtool -L {link} tx 2")
            self.upf.run(f"ethtool -L {there} rx 2")


def test_packets_of_unpolled_queues_are_not_the_hosts():
    lab = TwoQueuesLab(os.environ["SLUICE"], "af_xdp")
    try:
        for address in (MANAGEMENT, MANAGEMENT6):
            assert reaches(lab, address) == []
    finally:
        lab.close()


def kill(lab):
    lab.process.send_signal(signal.SIGKILL)
    lab.process.wait(10)


def programs(lab):
    """The interfaces that have an XDP program."""
    return [link for _, _, link in lab.links if "xdp" in lab.upf.run(f"ip link show {link}").stdout]


@pytest.fixture(params=["af_packet", "af_xdp"])
def host_side(request):
    lab = HostLab(os.environ["SLUICE"], request.param)
    yield lab
    if request.session.testsfailed:
        print(lab.said())
    lab.close()


def test_neighbours_do_not_reach_the_host(host_side):
    """From the start to the end in order; and from a kill to the next start."""
    lab = host_side
    for address in (MANAGEMENT, MANAGEMENT6):
        assert reaches(lab, address) == []
    assert USELESS in lab.said() and "nothing reaches it there" in lab.said()
    kill(lab)
    for address in (MANAGEMENT, MANAGEMENT6):
        assert reaches(lab, address) == [], "what keeps them away outlives a process that is killed"
    lab._start(os.environ["SLUICE"])
    for address in (MANAGEMENT, MANAGEMENT6):
        assert reaches(lab, address) == []
    lab._stop_upf()
    assert reaches(lab, MANAGEMENT) == ["n3", "n6"], "the links are the host's again"
    assert reaches(lab, MANAGEMENT6) == ["n3", "n6"]
    assert programs(lab) == []


def test_the_host_forwards_nothing(host_side):
    """User packets to an address that the host has a route to do not leave by it a second time, and no gNB gets an error that
    there is no port."""
    lab = host_side
    lab.associate()
    lab.upf.run(f"ip route replace {UE_POOL} via 192.0.2.99 dev management")
    lab.upf.run(f"ip addr add {N3}/32 dev management")
    gnb_mac = lab.ran.run("cat /sys/class/net/ran0/address").stdout.strip()
    lab.upf.run(f"ip neigh replace {GNB} lladdr {gnb_mac} dev n3")
    lab.upf.run(f"ip route replace {GNB}/32 dev n3")
    with lab.upf.entered():
        outside = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with lab.ran.entered():
        reported = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with outside, reported, lab.gnb_socket() as gnb, kernel_ue(lab, gnb):
        outside.bind(("management", 3))
        outside.settimeout(0.5)
        done = lab.ue.run(f"ping -n -c 5 -i 0.2 -W 2 {DN}", check=False)
        assert "5 received" in done.stdout, done.stdout + done.stderr
        forwarded = []
        with contextlib.suppress(TimeoutError):
            while True:
                frame = outside.recv(2048)
                if frame[12:14] == b"\x08\x00":
                    forwarded.append(frame)
        assert not forwarded
        reported.setblocking(False)
        with pytest.raises(BlockingIOError):
            reported.recv(2048)


def test_another_interface_is_taken_by_the_next_start(host_side):
    """A process that was killed leaves nothing on interfaces that the next one does not use."""
    lab = host_side
    kill(lab)
    lab.upf.run("ip link add n6b type veth peer name n6far")
    lab.upf.run("ip link set n6b up")
    lab.configuration, lab.driver = CONFIGURATION.replace("interface: n6", "interface: n6b"), "af_packet"
    lab._start(os.environ["SLUICE"])
    assert reaches(lab, MANAGEMENT) == ["n6"]
    assert programs(lab) == []
    assert "a process that did not end in order" in lab.said()


HEARTBEAT = b"\x20\x01\x00\x0c\x00\x00\x01\x00\x00\x60\x00\x04\xe0\x00\x00\x01"


def answers_heartbeats(lab):
    """Whether N4 answers a heartbeat that comes by N3. The answer leaves where the sender's address is: by the host's own
    link."""
    beyond = lab.upf.run("cat /sys/class/net/beyond/address").stdout.strip()
    lab.upf.run(f"ip neigh replace {SMF_OUTSIDE} lladdr {beyond} dev management")
    packet = Ether(dst=lab.mac["n3"], src="02:00:00:00:00:77") / IP(src=SMF_OUTSIDE, dst=MANAGEMENT) \
        / UDP(sport=8805, dport=8805) / Raw(HEARTBEAT)
    with lab.ran.entered():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with lab.upf.entered():
        answers = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with raw, answers:
        answers.bind(("beyond", 0x0800))
        answers.settimeout(1)
        raw.bind(("ran0", 0))
        raw.send(bytes(packet))
        with contextlib.suppress(TimeoutError):
            while True:
                # Heartbeat Response.
                if answers.recv(2048)[42:44] == b"\x20\x02":
                    return True
    return False


@pytest.mark.parametrize("shared, device, answers", [(True, "", True), (True, ", device: lo", False), (False, "", False)])
def test_n4_receives_on_its_interface_alone(shared, device, answers):
    """Where the host gets the frames of a port, too, `n4.device` names the interface on which N4 receives."""
    leave = ", leave_to_host: true" if shared else ""
    configuration = CONFIGURATION.replace("{options}", f"{{options}}{leave}") \
        .replace("addresses: [{n4}]", f"addresses: [{{n4}}, {MANAGEMENT}]{device}")
    lab = HostLab(os.environ["SLUICE"], "af_packet", configuration=configuration)
    try:
        lab.associate()
        assert answers_heartbeats(lab) == answers
        assert ("leave_to_host" in lab.said()) == shared
    finally:
        lab.close()


def test_two_processes_do_not_share_an_interface(host_side):
    lab = host_side
    done = lab.upf.run(f"{os.environ['SLUICE']} check --ports -c {lab.files}/sluice.yaml", check=False)
    assert done.returncode == 1 and "another process of Sluice has this interface" in done.stderr, done
