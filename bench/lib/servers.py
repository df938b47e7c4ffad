"""The servers under test, each started for one run and thrown away with it."""

import os
import re
import subprocess

from .procs import Failure, cpu_seconds, free_port, memory_bytes, wait_for_sip

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOMAIN = "example.test"
CORES = 2


def target_folder():
    return os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))


def password(number):
    return f"secret{number}"


class Server:
    """A running server: its port, its CPU so far, its memory."""

    process = None
    port = None

    def cpu(self):
        return cpu_seconds(self.process.pid)

    def memory(self):
        return memory_bytes(self.process.pid)


class Kamailio(Server):
    name = "kamailio"
    # Its memory managers: none named is the packaged default, q_malloc, which checks what it hands out.
    allocator = ()
    # Its configuration for calls to one target, and for accounts.
    configs = ("proxy.cfg", "registrar.cfg")

    def __init__(self, processes, folder, target=None, users=0, cores=None, workers=CORES, extra=()):
        self.port = free_port()
        config = self.configs[1 if users else 0]
        command = [
            "kamailio", "-f", f"{ROOT}/bench/kamailio/{config}", "-DD", "-E", "-l", f"udp:127.0.0.1:{self.port}",
            "-m", "2048", "-M", "32", "-b", str(8 * 1024 * 1024), "-A", f"WORKERS={workers}",
            "-Y", folder, "-P", f"{folder}/kamailio.pid", *self.allocator, *extra,
        ]  # fmt: skip
        command += ["-A", f"USERS={users}"] if users else ["-A", f'TARGET="sip:127.0.0.1:{target}"']
        self.process = processes.start(command, folder, f"{folder}/kamailio.log", cores)
        wait_for_sip(self.process, self.port, 30)

    @staticmethod
    def version():
        text = subprocess.run(["kamailio", "-v"], capture_output=True, text=True, check=False).stdout
        return "Kamailio " + (re.search(r"kamailio (\S+)", text) or ["", "?"])[1]


class KamailioFast(Kamailio):
    """With its fast memory manager, as someone who tunes it would run it."""

    name = "kamailio-fm"
    allocator = ("-x", "fm", "-X", "fm")


class Belfry(Server):
    name = "belfry"
    # Of `belfry account import`.
    import_flags = ()
    # A program that runs the node, with its flags, and the seconds that its start may take then.
    wrapper = ()
    patience = 15

    def __init__(self, processes, folder, target=None, users=0, cores=None):
        self.port = free_port()
        self.http = free_port()
        self.folder = folder
        self.config = f"{folder}/belfry.toml"
        with open(self.config, "w") as config:
            config.write(self.configuration())
        if users:
            self.import_accounts(users)
        if target:
            self.run("route", "add", "bench", "user:service", f"sip:127.0.0.1:{target}", "--open")
        command = [*self.wrapper, self.binary(), "serve", "--config", self.config]
        self.process = processes.start(command, folder, f"{folder}/belfry.log", cores)
        wait_for_sip(self.process, self.port, self.patience)

    def configuration(self):
        return f"""[server]
data = "{self.folder}/data"
control = "{self.folder}/control.sock"

[sip]
listen = ["udp:127.0.0.1:{self.port}"]
domains = ["{DOMAIN}"]
# COMPAT(sipp 3.6): it gives up on a challenge that is not MD5.
algorithms = ["MD5"]

[http]
listen = "127.0.0.1:{self.http}"
"""

    def import_accounts(self, users):
        path = f"{self.folder}/accounts.csv"
        with open(path, "w") as table:
            table.write("account,password,name\n")
            table.writelines(f"user{n}@{DOMAIN},{password(n)},User {n}\n" for n in range(users))
        self.run("account", "import", path, *self.import_flags)

    def run(self, *arguments):
        """A command of the CLI; it works on the store when no node runs."""
        command = [self.binary(), *arguments, "--config", self.config]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}: code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    @staticmethod
    def binary():
        path = os.environ.get("BELFRY", os.path.join(target_folder(), "release", "belfry"))
        if not os.access(path, os.X_OK):
            raise Failure(f"no {path}: cargo build --release --bin belfry")
        return path

    @staticmethod
    def version():
        text = subprocess.run([Belfry.binary(), "--version"], capture_output=True, text=True, check=False).stdout
        return text.strip() or "belfry"


class Relay(Server):
    """The floor: a program that receives and sends a proxy's datagrams and does nothing else (crates/mmsg/examples/relay.rs)."""

    name = "relay"

    def __init__(self, processes, folder, target=None, users=0, cores=None):
        self.port = free_port()
        self.process = processes.start([self.binary(), str(self.port), str(target)], folder, f"{folder}/relay.log", cores)
        wait_for_sip(self.process, self.port)

    @staticmethod
    def binary():
        path = os.path.join(target_folder(), "release", "examples", "relay")
        if not os.access(path, os.X_OK):
            raise Failure(f"no {path}: cargo build --release --example relay")
        return path

    @staticmethod
    def version():
        return "the floor: the same datagrams and nothing else"


SERVERS = {server.name: server for server in (Belfry, Kamailio, KamailioFast, Relay)}


def write_users(folder, users, name="users.csv"):
    """SIPp's injection file for bench/scenarios/register.xml."""
    path = f"{folder}/{name}"
    with open(path, "w") as table:
        table.write("SEQUENTIAL\n")
        table.writelines(
            f"user{n};{DOMAIN};[authentication username=user{n} password={password(n)}]\n" for n in range(users)
        )
    return path
