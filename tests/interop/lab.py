"""A laboratory of network namespaces: a RAN, a UE, a UPF and a data network, joined by veth pairs with the offloads that they
have by default: the kernels around leave checksums and segments to NICs that are not there.

    ue (tun)  ran  --veth--  upf  --veth--  dn
              10.100.0.2     .1   10.200.0.1  10.200.0.254, 2001:db8:6::254

The UPF's namespace has no addresses on the two veths: every packet there is Sluice's own work. N4 is on that
namespace's loopback. All that is made here carries the process id in its name and goes when the lab is closed.
"""
import contextlib
import copy
import ctypes
import fcntl
import ipaddress
import itertools
import json
import os
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from accelerator import Accelerator

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE = 33

GNB, N3 = "10.100.0.2", "10.100.0.1"
OTHER_GNB, SMF_GTPU = "10.100.0.3", "10.100.0.4"
DN, N6 = "10.200.0.254", "10.200.0.1"
DN6, N6_6 = "2001:db8:6::254", "2001:db8:6::1"
UE_POOL, UE_POOL6 = "10.45.0.0/16", "2001:db8:45::/48"
GNB6, N3_6 = "2001:db8:3::2", "2001:db8:3::1"
N4 = "127.0.0.8"
# A lab without IPv4: N4, and routers of which only link-local addresses are known, with what is beyond them.
SMF_6, N4_6 = "fd00::2", "fd00::8"
RAN_ROUTER, DN_ROUTERS = "fe80::1", ("fe80::fd", "fe80::fe")
FAR_GNB6, FAR_DN6 = "2001:db8:30::2", "2001:db8:60::1"
# The network instances of OAI's configuration, on ports of their own.
OAI_GNB, OAI_N3 = "10.100.1.2", "10.100.1.1"
OAI_DN, OAI_N6 = "10.200.1.254", "10.200.1.1"
OAI_POOL = "10.46.0.0/16"
# Addresses that the UPF chooses, those behind UEs, and the SMF that the UPF sets its association up with.
CHOSEN_POOL = "10.47.0.0/24"
FRAMED, FRAMED6 = "10.60.0.0/16", "2001:db8:60::/48"
ASKED_SMF = "127.0.0.6"

CONFIGURATION = """
node: {{id: {n4}}}
n4: {{addresses: [{n4}], release_wait_s: 0, unknown_source_s: 0, unverified_percent: 100}}
gtpu: {{restoration_s: 0}}
workers: {{count: {workers}}}
ports:
  - {{name: ran, driver: {{{driver}: {{interface: n3{options}}}}}}}
  - {{name: dn, driver: {{{driver}: {{interface: n6{options}}}}}}}
instances:
  - {{name: access, roles: [n3], port: ran, addresses: [{n3}/24]}}
  - name: internet
    roles: [n6]
    port: dn
    addresses: [{n6}/24, "{n6_6}/64"]
    routes:
      - {{to: 0.0.0.0/0, via: {dn}}}
      - {{to: "::/0", via: "{dn6}"}}
"""

# Two routers before the data network, and no other.
ROUTERS_CONFIGURATION = CONFIGURATION.replace("      - {{to: 0.0.0.0/0, via: {dn}}}\n", """\
      - {{to: 0.0.0.0/0, via: 10.200.0.251}}
      - {{to: 0.0.0.0/0, via: 10.200.0.252}}
""") + "routers: {{check_ms: 100}}\n"

# Neighbour entries are valid for a short time, so that they age during a test.
NEIGHBOUR_TIMES = """\
neighbours: {{reachable_ms: 300, retry_ms: 100, hold_ms: 300}}
routers: {{check_ms: 200}}
"""

# The UPF's own network stack is on both links, too.
HOST_CONFIGURATION = CONFIGURATION.replace("addresses: [{n3}/24]", "addresses: [{n3}/24], host: {{interface: host-n3}}") \
    .replace("""{n6_6}/64"]\n""", """{n6_6}/64"]\n    host: {{interface: host-n6}}\n""")

# Its API is at a socket of this laboratory's own.
API_CONFIGURATION = CONFIGURATION + "control: {{socket: \"{files}/control\"}}\n"

# What goes to gNBs waits in queues.
EGRESS_CLASSES = """\
egress:
  classes:
    - {{name: voice, qfis: [1], priority: 0, aqm: tail_drop}}
    - {{name: rest, priority: 1}}
"""
EGRESS_CONFIGURATION = API_CONFIGURATION.replace("addresses: [{n3}/24]", "addresses: [{n3}/24], egress: {{}}") + EGRESS_CLASSES

# N3 has an IPv6 address as well, and TCP connections agree on what fits.
SIZES_CONFIGURATION = CONFIGURATION.replace("[{n3}/24]", f"[{{n3}}/24, \"{N3_6}/64\"]").replace(
    "    port: dn\n", "    port: dn\n    mss: auto\n")

# Nothing but IPv6: N4, tunnels, data network. What is beyond routers is reached by their link-local addresses.
IPV6_CONFIGURATION = f"""
node: {{{{id: "{N4_6}"}}}}
n4: {{{{addresses: ["{N4_6}"], release_wait_s: 0, unknown_source_s: 0, unverified_percent: 100}}}}
gtpu: {{{{restoration_s: 0}}}}
routers: {{{{check_ms: 100}}}}
ports:
  - {{{{name: ran, driver: {{{{{{driver}}: {{{{interface: n3{{options}}}}}}}}}}}}}}
  - {{{{name: dn, driver: {{{{{{driver}}: {{{{interface: n6{{options}}}}}}}}}}}}}}
instances:
  - name: access
    roles: [n3, n9, n4u]
    port: ran
    addresses: ["{N3_6}/64"]
    routes: [{{{{to: "2001:db8:30::/48", via: "{RAN_ROUTER}"}}}}]
  - name: internet
    roles: [n6]
    port: dn
    addresses: ["{{n6_6}}/64"]
    routes: [{{{{to: "::/0", via: "{DN_ROUTERS[0]}"}}}}, {{{{to: "::/0", via: "{DN_ROUTERS[1]}"}}}}]
control: {{{{socket: "{{files}}/control"}}}}
"""

# For SMFs of several makes: one chooses TEIDs itself, one has a tunnel of its own, one has a name for each interface.
SMFS_CONFIGURATION = CONFIGURATION.replace(
    "release_wait_s: 0", f"release_wait_s: 0, accept_cp_f_teids: true, smfs: [{ASKED_SMF}], setup_retry_s: 1, "
    "setup_retry_most_s: 1").replace("[n3]", "[n3, n9, n4u]").replace("instances:", """\
  - {{name: oai-ran, driver: {{{driver}: {{interface: n3o{options}}}}}}}
  - {{name: oai-dn, driver: {{{driver}: {{interface: n6o{options}}}}}}}
instances:""") + f"""
  - {{{{name: access.oai.org, roles: [n3], port: oai-ran, vrf: 1, addresses: [{OAI_N3}/24]}}}}
  - name: core.oai.org
    roles: [n6]
    port: oai-dn
    vrf: 1
    addresses: [{OAI_N6}/24]
    routes: [{{{{to: 0.0.0.0/0, via: {OAI_DN}}}}}]
pools:
  - {{{{name: pool, instance: internet, ipv4: [{CHOSEN_POOL}]}}}}
"""

# The same, and what leaves by any instance waits in queues before.
SMFS_EGRESS_CONFIGURATION = SMFS_CONFIGURATION.replace("roles: [n3, n9, n4u]", "egress: {{}}, roles: [n3, n9, n4u]") \
    .replace("access.oai.org,", "access.oai.org, egress: {{}},") \
    .replace("    roles: [n6]\n", "    roles: [n6]\n    egress: {{}}\n") + EGRESS_CLASSES + "control: {{socket: \"{files}/control\"}}\n"

# A namespace, its end of a veth pair, Sluice's end.
LINKS = (("ran", "ran0", "n3"), ("dn", "dn0", "n6"))
OAI_LINKS = (("ran", "ran1", "n3o"), ("dn", "dn1", "n6o"))


def sh(command, check=True):
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return done


# Seconds that a test waits for what has to come.
PATIENCE = 10


def eventually(wanted, what):
    deadline = time.monotonic() + PATIENCE
    while not (got := wanted()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return got


def shown(lab, *what):
    """What `sluice show` has to say over the API of a laboratory: of the store, unless of something else."""
    said = subprocess.run([os.environ["SLUICE"], "show", *(what or ["store"]), "--json", "--socket",
                           str(lab.files / "control")], capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


def mtu_of(namespace, address):
    """The MTU that a kernel knows of the path to an address; `None` where that is its link's."""
    words = namespace.run(f"ip route get {address}").stdout.split()
    return int(words[words.index("mtu") + 1]) if "mtu" in words else None


class Namespace:
    """One network namespace; `entered` opens sockets in it."""

    def __init__(self, name):
        self.name = f"slu{os.getpid()}{name}"
        sh(f"ip netns add {self.name}")
        self.run("ip link set lo up")
        # tshark takes packets of none of these ports for some protocol.
        with self.entered(), open("/proc/sys/net/ipv4/ip_local_port_range", "w") as ports:
            ports.write("50000 54000")

    def run(self, command, check=True):
        return sh(f"ip netns exec {self.name} {command}", check)

    def add_address(self, address, link):
        """An address with its prefix length, on a link that is up. Of an IPv6 address the kernel does the rest later;
        until then it takes nothing for it."""
        interface = ipaddress.ip_interface(address)
        if interface.version == 4:
            return self.run(f"ip addr add {address} dev {link}")
        self.run(f"ip addr add {address} dev {link} nodad")
        local = lambda: f"local {interface.ip} " in self.run(f"ip -6 route show table local dev {link}").stdout
        eventually(local, f"{address} on {link} is usable")

    def popen(self, *command, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], **options)

    @contextlib.contextmanager
    def entered(self):
        """Puts this thread into the namespace: sockets opened meanwhile stay there."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.name}") as there:
            if LIBC.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                LIBC.setns(home.fileno(), CLONE_NEWNET)

    def close(self):
        sh(f"ip netns del {self.name}", check=False)


class Client:
    """An SMF of go-pfcp as a child process in the UPF's namespace: it executes commands, a line each."""

    def __init__(self, namespace, program, local, *options, upf=N4):
        at = lambda address: f"[{address}]:8805" if ":" in address else f"{address}:8805"
        self.process = namespace.popen(
            program, "-local", at(local), "-upf", at(upf), *options,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seids = 0

    def __call__(self, op, **fields):
        self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{op}: {answer['error']}")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait(5)


class Smf(Client):
    """The SMF that does what a test wants of it."""

    def __init__(self, namespace, local="127.0.0.2", upf=N4):
        super().__init__(namespace, os.environ["SMF"], local, upf=upf)

    def session(self, ue4="", ue6="", qfi=9, gnb_teid=None, **more):
        self.seids += 1
        wanted = {"seid": self.seids, "ue_ipv4": ue4, "ue_ipv6": ue6, "qfi": qfi, "access_instance": "access",
                  "core_instance": "internet", "gnb": GNB, "gnb_teid": gnb_teid or 0x1000 + self.seids, **more}
        # As real SMFs do: the gNB's end of the tunnel comes with a modification.
        got = self("establish", session={**wanted, "gnb": ""})
        self("gnb", up_seid=got["up_seid"], session=wanted)
        return {**wanted, **got}


class Script(Client):
    """An SMF that does everything in the words of the one whose name it has: see smf/cmd/script."""

    def __init__(self, namespace, name, local, *options):
        super().__init__(namespace, os.environ["SMF_SCRIPT"], local, "-smf", name, *options)
        self.name = name


class Lab:
    # Contact with an accelerator does not end because a busy machine gives a thread no core for a while.
    lost_after_ms = 2_000
    # The modes of the UPF and of its accelerator.
    accelerator_modes = ("full", "full")

    def __init__(self, binary, driver, workers=1, configuration=CONFIGURATION, links=LINKS):
        self.stack = contextlib.ExitStack()
        self.files = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.binary, self.driver, self.workers = binary, driver, workers
        self.configuration, self.links = configuration, links
        self.accelerator = None
        try:
            self._wire()
            self._capture()
            self._start(binary)
        except BaseException:
            self.stack.close()
            raise

    def _namespace(self, name):
        namespace = Namespace(name)
        self.stack.callback(namespace.close)
        return namespace

    @property
    def ports_in(self):
        """The namespace with the ends of the links that Sluice has."""
        return self.accelerator.namespace if self.accelerator else self.upf

    def _wire(self):
        self.ran, self.ue, self.upf, self.dn = (self._namespace(n) for n in ("ran", "ue", "upf", "dn"))
        if self.driver == "accelerator":
            self.accelerator = Accelerator(self._namespace("acc"), self.upf, self.files, self.binary,
                                           self.lost_after_ms, self.accelerator_modes)
        for namespace, link, there in self.links:
            here = getattr(self, namespace)
            here.run(f"ip link add {link} type veth peer name {there} netns {self.ports_in.name}")
            self.ports_in.run(f"sysctl -qw net.ipv6.conf.{there}.disable_ipv6=1")
            here.run(f"ip link set {link} up")
            self.ports_in.run(f"ip link set {there} up")
        # Answers that the kernel cuts in pieces are cut before they are captured, not behind.
        self.upf.run("ethtool -K lo tx-udp-segmentation off")
        for address in (GNB, OTHER_GNB, SMF_GTPU):
            self.ran.add_address(f"{address}/24", "ran0")
        self.dn.add_address(f"{DN}/24", "dn0")
        self.dn.add_address(f"{DN6}/64", "dn0")
        self.dn.run(f"ip route add {UE_POOL} via {N6}")
        self.dn.run(f"ip route add {UE_POOL6} via {N6_6}")

    def add_oai(self):
        """Addresses and routes of OAI's gNB and server, and routes to what is behind UEs and to addresses of pools."""
        for prefix in (CHOSEN_POOL, FRAMED):
            self.dn.run(f"ip route add {prefix} via {N6}")
        self.dn.run(f"ip route add {FRAMED6} via {N6_6}")
        self.ran.add_address(f"{OAI_GNB}/24", "ran1")
        self.dn.add_address(f"{OAI_DN}/24", "dn1")
        self.dn.run(f"ip route add {OAI_POOL} via {OAI_N6}")

    def _capture(self):
        self.captures, self.dumps = {}, []
        mac = lambda link: (self.ports_in.run(f"cat /sys/class/net/{link}/address").stdout).strip()
        # How a display filter knows what Sluice sent.
        self.ours = {name: ("eth.src", mac(name)) for _, _, name in self.links} | {"n4": ("ip.src", N4)}
        links = [(name, getattr(self, namespace), link, "") for namespace, link, name in self.links]
        for name, namespace, link, what in (*links, ("n4", self.upf, "lo", "udp port 8805")):
            self.captures[name] = self.files / f"{name}.pcap"
            process = namespace.popen("tcpdump", "-Z", "root", "--immediate-mode", "-B", "65536", "-s", "16384", "-U", "-i", link, "-w",
                                      str(self.captures[name]), *what.split(),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            process.stderr.readline()  # "listening on ..."
            self.dumps.append(process)
        self.stack.callback(self.stop_captures)

    def stop_captures(self):
        while self.dumps:
            process = self.dumps.pop()
            process.terminate()
            process.wait(10)

    def _start(self, binary):
        options = ", force_copy: true" if self.driver == "af_xdp" else ""
        file = self.files / "sluice.yaml"
        text = self.configuration.format(n4=N4, n3=N3, n6=N6, n6_6=N6_6, dn=DN, dn6=DN6, workers=self.workers,
                                         driver=self.driver, options=options, files=self.files)
        if self.accelerator:
            text = self.accelerator.configure(text)
            if not self.accelerator.process:
                self.accelerator.start()
                self.stack.callback(self.accelerator.close)
        if "neighbours:" not in text:
            # Own IPv6 addresses are in use from the start.
            text += "neighbours: {dad_transmits: 0}\n"
        file.write_text(text)
        self.log = open(self.files / "log", "w+")
        self.process = self.upf.popen(binary, "run", "-c", str(file), "--json",
                                      stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.stack.callback(self._stop_upf)
        deadline = time.monotonic() + 30
        while "ready" not in self.said():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sluice run did not become ready:\n{self.said()}")
            time.sleep(0.05)

    def associate(self):
        """Adds the SMF that does what a test wants."""
        self.smf = self._add(Smf(self.upf))

    def script(self, name, local):
        """Adds an SMF in the words of the one of this name."""
        return self._add(Script(self.upf, name, local))

    def asked_script(self, name, local):
        """Adds one that waits for the UPF to set the association up."""
        smf = Script(self.upf, name, local)
        self.stack.callback(smf.close)
        smf("await_setup")
        return smf

    def _add(self, smf):
        self.stack.callback(smf.close)
        smf("associate")
        return smf

    @contextlib.contextmanager
    def other_ue(self):
        """The same laboratory with another UE's kernel."""
        other = copy.copy(self)
        other.ue = Namespace("ue2")
        try:
            yield other
        finally:
            other.ue.close()

    def said(self):
        return Path(self.log.name).read_text()

    def _stop_upf(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise

    def counters(self):
        """Stops the UPF, and its accelerator, and gives what they counted."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=15)
        if self.process.returncode:
            raise RuntimeError(f"sluice run ended with {self.process.returncode}:\n{self.said()}")
        counted = json.loads(out.strip().splitlines()[-1])
        if self.accelerator:
            there = self.accelerator.stop()["path"]
            assert there["flow_hits"] > 0, there
            for reason, packets in there["drops"].items():
                counted["drops"][reason] = counted["drops"].get(reason, 0) + packets
        return counted

    def gnb_socket(self, address=GNB):
        """A gNB's GTP-U socket."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        gnb = self._socket(self.ran, family, socket.SOCK_DGRAM, 0, (address, 2152))
        # It loses nothing that the UPF has sent.
        gnb.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        return gnb

    def n4_socket(self, address):
        """A socket for PFCP at this address of the UPF's loopback."""
        return self._socket(self.upf, socket.AF_INET, socket.SOCK_DGRAM, 0, (address, 8805))

    def dn_udp_socket(self, address, port):
        """A UDP socket of the data network."""
        return self._socket(self.dn, socket.AF_INET, socket.SOCK_DGRAM, 0, (address, port))

    def dn_udp_socket6(self, address, port):
        """The same over IPv6."""
        return self._socket(self.dn, socket.AF_INET6, socket.SOCK_DGRAM, 0, (address, port))

    def dn_socket(self, version, proto):
        """A raw IP socket of the data network: sends and receives whole payloads of `proto`."""
        family, address = (socket.AF_INET, DN) if version == 4 else (socket.AF_INET6, DN6)
        return self._socket(self.dn, family, socket.SOCK_RAW, proto, (address, 0))

    def dn_tap(self):
        """Every frame that reaches or leaves the data network."""
        return self._socket(self.dn, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3), ("dn0", 0))

    def _socket(self, namespace, family, kind, proto, address):
        with namespace.entered():
            sock = socket.socket(family, kind, proto)
            sock.bind(address)
        sock.settimeout(3)
        return sock

    def close(self):
        self.stack.close()


class Tunnel:
    """A session's GTP-U tunnel, as its gNB has it: G-PDUs with a PDU Session Container (TS 38.415)."""

    def __init__(self, session, gnb, to=N3):
        self.gnb, self.to = gnb, to
        self.teid, self.qfi = session["teid"], session["qfi"]

    def send(self, inner):
        """Sends a user packet to the UPF."""
        header = struct.pack("!BBHI3sBBBBB", 0x34, 255, 8 + len(inner), self.teid, b"", 0x85, 1, 0x10, self.qfi, 0)
        self.gnb.sendto(header + inner, (self.to, 2152))

    def receive(self):
        """The user packet that comes next; `None` where another message comes."""
        datagram = self.gnb.recv(65535)
        flags, kind = datagram[:2]
        if kind != 255:
            return None
        start, following = (12, datagram[11]) if flags & 7 else (8, 0)
        if not flags & 4:
            following = 0
        while following:
            octets = 4 * datagram[start]
            following = datagram[start + octets - 1]
            start += octets
        return datagram[start:]


class Ue:
    """A UE whose kernel stack sends through a TUN device; a thread plays the gNB between it and the tunnel."""

    IFF_TUN_NO_PI, TUNSETIFF = 0x1001, 0x400454CA

    def __init__(self, lab, tunnel, addresses, mtu=1400):
        self.tunnel = tunnel
        with lab.ue.entered():
            self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.tun, self.TUNSETIFF, struct.pack("16sH", b"ue0", self.IFF_TUN_NO_PI))
        lab.ue.run(f"ip link set ue0 up mtu {mtu}")
        for address in addresses:
            lab.ue.add_address(address, "ue0")
        lab.ue.run("ip route add default dev ue0")
        lab.ue.run("ip -6 route add default dev ue0")
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._relay, daemon=True)
        self.thread.start()

    def _relay(self):
        while not self.stop.is_set():
            for ready in select.select([self.tun, self.tunnel.gnb], [], [], 0.1)[0]:
                # What has no way is lost here, as on a radio link.
                with contextlib.suppress(OSError):
                    if ready is self.tun:
                        self.tunnel.send(os.read(self.tun, 65535))
                    elif (inner := self.tunnel.receive()) is not None:
                        os.write(self.tun, inner)

    def close(self):
        self.stop.set()
        self.thread.join(5)
        os.close(self.tun)


UE4, UE6 = ipaddress.ip_network(UE_POOL), ipaddress.ip_network(UE_POOL6)
# Apart from those that tests take themselves.
_ues = itertools.count(1_000)


@contextlib.contextmanager
def kernel_ue(lab, sock, to=N3, mtu=1400, number=None, **wanted):
    """A session whose UE is a kernel, dual stack: the session and the UE's addresses, which are of this number."""
    number = next(_ues) if number is None else number
    ue4, prefix = str(UE4[number]), UE6[number << 64]
    ue6 = str(prefix + 1)
    session = lab.smf.session(ue4=ue4, ue6=str(prefix), **wanted)
    ue = Ue(lab, Tunnel(session, sock, to), [f"{ue4}/32", f"{ue6}/128"], mtu)
    try:
        yield session, ue4, ue6
    finally:
        ue.close()
        lab.smf("delete", up_seid=session["up_seid"])
