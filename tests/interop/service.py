"""A stub of a service manager: it starts the service of a systemd unit as the unit says, where PID 1 is not systemd.

It reads ExecStart, the user, the capabilities, the directories and what is writable from the unit, and receives at a
notify socket. What only the kernel's filters of system calls do is left out.
"""
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

DIRECTORIES = {"RuntimeDirectory": "run", "StateDirectory": "var/lib", "LogsDirectory": "var/log"}


def read_unit(path):
    """The settings of a unit: a list of values for each."""
    settings = {}
    for line in path.read_text().splitlines():
        if line and line[0] not in "#;[":
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


class Service:
    """A service in the root directory `root`, in a network namespace; `log` is the file of its standard error."""

    def __init__(self, root, unit, namespace, log, allowed_s):
        self.root, self.namespace, self.log, self.allowed_s = root, namespace, log, allowed_s
        self.settings = read_unit(root / unit)
        assert self.one("Type") == "notify" and self.one("NoNewPrivileges") == "yes"
        self.process = None
        (root / "run/notify").mkdir(exist_ok=True)
        os.chmod(root / "run/notify", 0o755)
        path = root / "run/notify/socket"
        path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        os.chmod(path, 0o666)
        self.said = []

    def one(self, name):
        (value,) = self.settings[name]
        return value

    def condition(self):
        """Whether the unit would be started at all."""
        return (self.root / self.one("ConditionPathExists").lstrip("/")).exists()

    def start(self):
        assert self.condition() and self.process is None
        writable = [self._directory(top, name, setting) for setting, top in DIRECTORIES.items()
                    for name in " ".join(self.settings.get(setting, [])).split()]
        writable += [self.root / path.lstrip("/")
                     for path in " ".join(self.settings.get("ReadWritePaths", [])).split()]
        capabilities = lambda setting: ",".join(
            "+" + word.removeprefix("CAP_").lower() for word in self.one(setting).split())
        ambient = capabilities("AmbientCapabilities")
        binds = "".join(f"mount --bind {path} {path}\n" for path in writable)
        script = f"""
set -e
umask {self.one("UMask")}
{binds}mount -t sysfs sysfs {self.root}/sys
mount -o remount,bind,ro {self.root}/run
mount -o remount,bind,ro {self.root}
exec chroot {self.root} setpriv --reuid {self.one("User")} --regid {self.one("Group")} --init-groups \
    --inh-caps=-all,{ambient} --ambient-caps=-all,{ambient} --bounding-set=-all,{capabilities("CapabilityBoundingSet")} \
    --no-new-privs -- {self.one("ExecStart")}
"""
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "/run/notify/socket",
                       "WATCHDOG_USEC": str(int(self.allowed_s * 1e6))}
        # The namespace of `ip netns exec` has mounts of its own.
        self.process = self.namespace.popen("sh", "-c", script, stderr=self.log, env=environment)
        self.wait_for("READY=1", 60)

    def _directory(self, top, name, setting):
        path = self.root / top / name
        path.mkdir(parents=True, exist_ok=True)
        for made in (path, *[above for above in path.parents if above.is_relative_to(self.root / top)][:-1]):
            os.chmod(made, int(self.one(setting + "Mode"), 8))
            self.own(made)
        return path

    def own(self, path):
        """Gives a file to the service's user."""
        entry = next(line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines()
                     if line.startswith(self.one("User") + ":"))
        os.chown(path, int(entry[2]), int(entry[3]))

    def receive(self, seconds):
        """What the service says in this time, a list of lines."""
        self.said, end = [], time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._receive(left)
        return self.said

    def wait_for(self, line, seconds):
        end = time.monotonic() + seconds
        self.said = []
        while line not in self.said:
            assert self.process.poll() is None or line == "STOPPING=1", "the service ended"
            left = end - time.monotonic()
            assert left > 0, f"no {line} but {self.said}"
            self._receive(min(left, 1))

    def _receive(self, seconds):
        self.socket.settimeout(seconds)
        try:
            self.said += self.socket.recv(4096).decode().splitlines()
        except TimeoutError:
            pass

    def stop(self):
        """Ends the service in order; returns what it said and its exit status."""
        # Room in the socket's queue, which has been read now and then only.
        self.receive(0.2)
        self.process.send_signal(signal.SIGTERM)
        self.wait_for("STOPPING=1", 20)
        status = self.process.wait(20)
        self.process = None
        return status

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.socket.close()


class Root:
    """A root directory of its own over that of the machine: what is written there is gone in the end."""

    def __init__(self, base):
        self.base, self.path = base, base / "root"
        self.mounts = []
        self._mount("-t", "tmpfs", "tmpfs", base)
        for name in ("upper", "work", "root"):
            (base / name).mkdir()
        options = f"lowerdir=/,upperdir={base}/upper,workdir={base}/work"
        self._mount("-t", "overlay", "overlay", "-o", options, self.path)
        self._mount("--bind", "/dev", self.path / "dev")
        self._mount("-t", "proc", "proc", self.path / "proc")
        # Not those of the machine.
        for name in ("run", "tmp"):
            self._mount("-t", "tmpfs", "tmpfs", self.path / name)
        os.chmod(self.path / "tmp", 0o1777)

    def _mount(self, *arguments):
        subprocess.run(["mount", *map(str, arguments)], check=True)
        self.mounts.append(arguments[-1])

    def run(self, *command, check=True, **options):
        done = subprocess.run(["chroot", str(self.path), *map(str, command)], capture_output=True, text=True, **options)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def copy(self, file):
        """Brings a file in; returns where it is there."""
        shutil.copy(file, self.path / "tmp")
        return Path("/tmp") / Path(file).name

    def close(self):
        while self.mounts:
            subprocess.run(["umount", "-l", str(self.mounts.pop())], check=False)
