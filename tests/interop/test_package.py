"""The Debian package through its whole life: it is installed in a root directory of its own, configured by `sluice
init`, started as its unit says, forwards packets, is upgraded under traffic, removed and purged."""
import contextlib
import ctypes
import gzip
import os
import re
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab import DN, DN6, LIBC, N3, N4, N6, N6_6, Lab, Namespace, kernel_ue
from service import Root, Service

REPOSITORY = Path(__file__).parents[2]
UNIT = "lib/systemd/system/sluice.service"
ACCELERATOR_UNIT = "lib/systemd/system/sluice-accel.service"
CONFIGURATION = "etc/sluice/sluice.yaml"
# Seconds in which the service manager wants a sign of life.
ALLOWED = 2
SETTINGS = ["--n3", "n3", "--n3-address", f"{N3}/24", "--n6", "n6", "--n6-address", f"{N6}/24", "--n6-address",
            f"{N6_6}/64", "--gateway", DN, "--gateway", DN6, "--n4-address", N4, "--smf", "127.0.0.0/8", "--records"]
PTRACE_CONT, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 17, 0x4206, 0x4207


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package, which is made anew: packed quickly, and the program without debug information, of which there is much."""
    quickly = {"DEB_BUILD_OPTIONS": "nostrip", "DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    out = tmp_path_factory.mktemp("deb")
    program = tmp_path_factory.mktemp("program") / "sluice"
    subprocess.run(["strip", "--strip-debug", "-o", program, os.environ["SLUICE"]], check=True)
    done = subprocess.run([REPOSITORY / "tools/deb.sh", program, out], capture_output=True, text=True,
                          env={**os.environ, **quickly})
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.strip())


@pytest.fixture
def root(tmp_path):
    root = Root(tmp_path)
    try:
        yield root
    finally:
        root.close()


def newer(package):
    """The same package with a higher version."""
    tree = package.parent / "newer"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", r"\g<0>+1", control.read_text()))
    made = package.parent / "newer.deb"
    subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "-b", tree, made], check=True, stdout=subprocess.DEVNULL)
    return made


class PackageLab(Lab):
    """A laboratory whose UPF is the service of the package in a root directory."""

    def __init__(self, root):
        self.root = root
        super().__init__(None, "af_packet")

    def _start(self, binary):
        self.log = open(self.files / "log", "w+")
        self.service = Service(self.root.path, UNIT, self.upf, self.log, ALLOWED)
        self.stack.callback(self.service.close)
        self.service.start()


def pings(lab, gnb):
    with kernel_ue(lab, gnb):
        for host in (DN, DN6):
            done = lab.ue.run(f"ping -n -c 3 -i 0.2 -W 3 {host}", check=False)
            assert "3 received" in done.stdout, done.stdout + done.stderr


def test_the_package_is_as_debian_wants_it(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", "--suppress-tags",
                           "unstripped-binary-or-object,bogus-mail-host", package], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_life_of_the_package(package, root):
    root.run("dpkg", "-i", root.copy(package))
    # It waits for its configuration, and is not started without.
    assert not (root.path / CONFIGURATION).exists()
    service = Service(root.path, UNIT, None, None, ALLOWED)
    assert not service.condition()
    service.close()
    sets_of_words = root.run("sh", "-c", "zcat /usr/share/man/man1/sluice.1.gz /usr/share/man/man1/sluice-show.1.gz").stdout
    assert "sluice\\-init(1)" in sets_of_words and "\\-\\-json" in sets_of_words
    completions = (root.path / "usr/share/bash-completion/completions/sluice").read_text()
    assert "--n6-address" in completions
    initialize(root)

    lab = PackageLab(root)
    try:
        lab.associate()
        with lab.gnb_socket() as gnb:
            pings(lab, gnb)
            runs_as_the_unit_says(lab)
            signs_of_life_stop_with_a_worker(lab)
            bundle(lab, root)
            commit(root)
            # The running daemon stays, and so does what an operator has changed.
            before = (root.path / CONFIGURATION).read_text()
            pid = lab.service.process.pid
            root.run("dpkg", "-i", root.copy(newer(package)))
            assert root.run("dpkg-query", "-W", "-f", "${Version}", "sluice").stdout.endswith("+1")
            assert lab.service.process.poll() is None and lab.service.process.pid == pid
            assert (root.path / CONFIGURATION).read_text() == before
            pings(lab, gnb)
            lab.smf.close()
            assert lab.service.stop() == 0
            lab.service.start()
            lab.associate()
            pings(lab, gnb)
            assert lab.service.stop() == 0
    finally:
        said = lab.said()
        lab.close()
    # As the journal gets it: standard error was no journal here.
    assert "panicked" not in said, said

    root.run("dpkg", "-r", "sluice")
    assert not (root.path / "usr/bin/sluice").exists() and (root.path / CONFIGURATION).exists()
    records = root.path / "var/lib/sluice/records"
    assert "usage records stay" in root.run("dpkg", "-P", "sluice").stdout
    assert not (root.path / "etc/sluice").exists() and list(records.iterdir())
    assert not (records.parent / "store").exists()


ACCELERATOR = """\
link: {port: upf, key: /etc/sluice/accelerator.key}
ports:
  - {name: upf, driver: {memory: {}}, mtu: 2000}
  - {name: ran, driver: {memory: {}}}
control: {socket: /run/sluice-accel/control.sock, group: sluice}
limits: {sessions: 1000}
"""


def test_the_package_has_a_service_for_an_accelerator(package, root, tmp_path):
    root.run("dpkg", "-i", root.copy(package))
    namespace = Namespace("accel")
    with contextlib.closing(namespace), open(tmp_path / "log", "w+") as log:
        service = Service(root.path, ACCELERATOR_UNIT, namespace, log, ALLOWED)
        assert not service.condition()
        (root.path / "etc/sluice/accelerator.yaml").write_text(ACCELERATOR)
        key = root.path / "etc/sluice/accelerator.key"
        key.write_text("5a" * 32)
        key.chmod(0o640)
        root.run("chgrp", "sluice", "/etc/sluice/accelerator.key")
        service.start()
        try:
            shown = root.run("sluice", "show", "accelerator", "-c", "/etc/sluice/accelerator.yaml").stdout
            assert "contact     NONE" in shown and "sessions    0 of 1,000" in shown, shown
            assert service.receive(ALLOWED).count("WATCHDOG=1") >= 2
            assert service.stop() == 0
        finally:
            service.close()


def initialize(root):
    refused = root.run("sluice", "init", "--n3", "n3", check=False, stdin=subprocess.DEVNULL)
    assert refused.returncode == 2 and "--n3-address" in refused.stderr
    root.run("sluice", "init", *SETTINGS)
    again = root.run("sluice", "init", *SETTINGS, check=False)
    assert again.returncode == 1 and "--force" in again.stderr
    root.run("sluice", "init", *SETTINGS, "--force")
    file = root.path / CONFIGURATION
    # What a test has no time for.
    text = file.read_text().replace("n4:  ", "neighbours: {dad_transmits: 0}\n\nn4:  ")
    file.write_text(text.replace("  peers:", "  release_wait_s: 0\n  peers:"))
    root.run("sluice", "check", "-c", f"/{CONFIGURATION}")


def runs_as_the_unit_says(lab):
    status = Path(f"/proc/{lab.service.process.pid}/status").read_text()
    field = lambda name: re.search(rf"(?m)^{name}:\s*(.*)$", status)[1]
    # CAP_NET_ADMIN and CAP_NET_RAW.
    assert {field(name) for name in ("CapEff", "CapPrm", "CapBnd")} == {f"{1 << 12 | 1 << 13:016x}"}
    assert field("NoNewPrivs") == "1" and field("Uid").split()[0] != "0"


def signs_of_life_stop_with_a_worker(lab):
    """One thread alone is stopped, as a debugger does it."""
    alive = lambda: lab.service.receive(ALLOWED).count("WATCHDOG=1")
    assert alive() >= 2
    tasks = Path(f"/proc/{lab.service.process.pid}/task")
    (worker,) = (int(task.name) for task in tasks.iterdir() if (task / "comm").read_text() == "worker\n")
    ptrace(PTRACE_SEIZE, worker)
    ptrace(PTRACE_INTERRUPT, worker)
    os.waitpid(worker, 0x40000000)
    alive()
    assert alive() == 0
    ptrace(PTRACE_DETACH, worker)
    assert alive() >= 2


def ptrace(request, thread):
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    assert LIBC.ptrace(request, thread, None, None) == 0, os.strerror(ctypes.get_errno())


def commit(root):
    """The configuration changes while the daemon runs: the daemon replaces its file, and keeps what it was."""
    file = root.path / CONFIGURATION
    edited = file.read_text().replace("level: info", "level: debug")
    root.run("sluice", "config", "commit", "-", input=edited)
    assert file.read_text() == edited
    assert list((root.path / "var/lib/sluice/versions").iterdir())


def bundle(lab, root):
    """A file for support, without the session's user."""
    address = "10.45.7.7"
    session = lab.smf.session(ue4=address)
    contents = {}
    for name, options in (("plain", []), ("whole", ["--with-subscribers"])):
        root.run("sluice", "bundle", "-o", f"/tmp/{name}.tar.gz", *options)
        with tarfile.open(root.path / f"tmp/{name}.tar.gz") as archive:
            contents[name] = {member.name.split("/", 1)[1]: archive.extractfile(member).read().decode(errors="replace")
                              for member in archive}
    plain, whole = contents["plain"], contents["whole"]
    assert {"README.txt", "configuration.json", "openapi.json", "show/n4.txt", "show/runtime.json",
            "system/proc/meminfo"} <= set(plain)
    assert all(address not in text for text in plain.values())
    assert address in whole["show/sessions.json"] and "show/sessions" in whole["README.txt"]
    lab.smf("delete", up_seid=session["up_seid"])
