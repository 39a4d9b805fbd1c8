"""An accelerator between a laboratory's UPF and its links: `sluice accel`, in a namespace of its own that has the links.

    ran  --veth--  accelerator  --veth--  dn
                       |
                      veth (frames of docs/inband.md alone)
                       |
                      upf
"""
import json
import re
import secrets
import subprocess
import time

# What the end or the start of the process may take on a machine with other work, seconds.
PATIENCE = 60
# The link: what the UPF, and what the accelerator calls its end.
TO_ACCELERATOR, TO_HOST = "toacc", "tohost"
# Room for what comes in front of packets of 1,500 octets.
LINK_MTU = 2000
PORT = re.compile(r"driver: \{accelerator: \{interface: (\w+)\}\}")


class Accelerator:
    """The process, and the files of both ends."""

    def __init__(self, namespace, host, files, binary, lost_after_ms, modes):
        self.namespace, self.files, self.binary, self.lost_after_ms = namespace, files, binary, lost_after_ms
        self.host_mode, self.mode = modes
        namespace.run(f"ip link add {TO_HOST} mtu {LINK_MTU} type veth peer name {TO_ACCELERATOR} netns {host.name}")
        for where, link in ((namespace, TO_HOST), (host, TO_ACCELERATOR)):
            where.run(f"sysctl -qw net.ipv6.conf.{link}.disable_ipv6=1")
            where.run(f"ip link set {link} up mtu {LINK_MTU}")
        # Each end has a file of its own.
        self.key, self.host_key = files / "accel.key", files / "host.key"
        digits = secrets.token_hex(32)
        for file in (self.key, self.host_key):
            file.touch(0o600)
            file.write_text(f"{digits}\n")
        self.process = self.log = None

    def write_key(self, digits):
        self.key.write_text(f"{digits}\n")

    def configure(self, text):
        """The configuration of a UPF whose ports are this accelerator's, of one that names their interfaces; writes
        that of the accelerator."""
        interfaces = PORT.findall(text)
        ports = "".join(f"  - {{name: {name}, driver: {{af_packet: {{interface: {name}}}}}}}\n" for name in interfaces)
        (self.files / "accel.yaml").write_text(
            f"mode: {self.mode}\nlink: {{port: host, key: {self.key}, lost_after_ms: {self.lost_after_ms}}}\nports:\n"
            f"  - {{name: host, driver: {{af_packet: {{interface: {TO_HOST}}}}}, mtu: {LINK_MTU}}}\n{ports}"
            f"control: {{socket: {self.files}/accel.sock}}\n" + ("queues: {}\n" if "\negress:" in text else ""))
        text = PORT.sub(lambda found: f'driver: {{accelerator: {{mac: "{self.mac(found[1])}"}}}}', text)
        link = f"  - {{name: link, driver: {{af_packet: {{interface: {TO_ACCELERATOR}}}}}, mtu: {LINK_MTU}}}\n"
        before, behind = text.split("\nports:\n", 1)
        return (f"{before}\nports:\n{link}{behind}"
                f"accelerator: {{link: {{port: link, key: {self.host_key}, lost_after_ms: {self.lost_after_ms}}}, "
                f"mode: {self.host_mode}, policy: {{stays_s: 1}}}}\n")

    def mac(self, interface):
        return self.namespace.run(f"cat /sys/class/net/{interface}/address").stdout.strip()

    def start(self):
        self.log = open(self.files / "accel.log", "a+")
        before = self.said().count("ready")
        self.process = self.namespace.popen(self.binary, "accel", "-c", str(self.files / "accel.yaml"), "--json",
                                            stdout=subprocess.PIPE, stderr=self.log, text=True)
        deadline = time.monotonic() + PATIENCE
        while self.said().count("ready") == before:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sluice accel did not become ready:\n{self.said()}")
            time.sleep(0.05)

    def said(self):
        return (self.files / "accel.log").read_text()

    def shown(self, *options):
        """What `sluice show accelerator` says."""
        return self.namespace.run(f"{self.binary} show accelerator --socket {self.files}/accel.sock {' '.join(options)}").stdout

    def stop(self):
        """Ends it in order; what it counted."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=PATIENCE)
        if self.process.returncode:
            raise RuntimeError(f"sluice accel ended with {self.process.returncode}:\n{self.said()}")
        return json.loads(out.strip().splitlines()[-1])

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def close(self):
        if self.process and self.process.poll() is None:
            self.stop()
