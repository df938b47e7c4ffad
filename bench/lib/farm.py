"""A farm of nodes on loopback: NATS, nodes with one SIP address, and a balancer that divides its packets."""

import ctypes
import json
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from datetime import datetime

from .procs import Failure, Processes, free_port, tail, thread_usage
from .servers import ROOT, Belfry

# The exit code of a node that the farm counts as dead (docs/farm.md): its supervisor starts it again.
ENDED = 75
# A node of both roles, in a farm without a shared database, whose weight beside the others' gives it no call slot.
BACK = "back"
# What the benches read from the logs, and no line for each call.
LOG = 'level = "warn,server::farm=info,farm=debug"\nformat = "json"'
# linux/socket.h; the socket module does not have it.
SO_ATTACH_REUSEPORT_CBPF = 51
# linux/filter.h: A = a random number; A %= k; A == k ? next : skip one; return k.
RANDOM = (0x20, 0, 0, 0xFFFFF000 + 56)
REMAINDER, IS, RETURN = 0x94, 0x15, 0x06


class AtOnce(Processes):
    """Ends all at once: a node that is asked to end would hand its calls to the others first, one after the other."""

    def __exit__(self, *_):
        for process in self.started:
            if process.poll() is None:
                process.kill()
        super().__exit__()


class Node(Belfry):
    """A node with a folder and a configuration of its own; without a farm it is alone."""

    def __init__(self, processes, folder, name, port, farm=None, shards=0):
        self.processes, self.folder, self.name, self.farm, self.shards = processes, folder, name, farm, shards
        self.role = farm.roles[name] if farm else "both"
        # A node that works on no call stands behind the balancer's nodes, at an address of its own.
        self.port = free_port() if self.role in ("router", BACK) else port
        self.http, self.own_chat_port = free_port(), free_port()
        self.config, self.log = f"{folder}/belfry.toml", f"{folder}/belfry.log"
        # Before this life, and when it was last read: a node may end itself.
        self.before, self.usage = (0.0, 0), (0.0, 0)
        self.process, self.preload = None, None
        os.mkdir(folder)
        with open(self.config, "w") as config:
            config.write(self.configuration())

    def configuration(self):
        text = super().configuration()
        if self.shards:
            text = text.replace("[server]\n", f"[server]\nshards = {self.shards}\n")
        if self.farm and self.farm.database:
            text += f'\n[store]\nurl = "{self.farm.database.url()}"\n'
        if self.farm and self.farm.chat:
            text += self.farm.chat.replace("CHAT", str(self.farm.chat_port)).replace("OWNPORT", str(self.own_chat_port))
        return f"{text}\n[log]\n{LOG}\n" + (self.farm.section(self) if self.farm else "")

    def start(self):
        self.before, self.usage = self.total(), (0.0, 0)
        command = [self.binary(), "serve", "--config", self.config]
        if self.preload:
            command = ["env", *self.preload, *command]
        self.process = self.processes.start(command, self.folder, self.log)

    def lost_database(self):
        """True if its start has ended because PostgreSQL went away during it. A start that meets no PostgreSQL waits for it."""
        return self.process.poll() == 1 and "the database cannot be used" in tail(self.log, 1)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def is_healthy(self):
        """True once the node serves: a node that waits for the farm does not listen yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/health", timeout=1) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_healthy(self, seconds=40):
        deadline = time.monotonic() + seconds
        while not self.is_healthy():
            if not self.is_running():
                raise Failure(f"{self.name} ended with code {self.process.returncode}\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not serve after {seconds} s\n{tail(self.log)}")
            time.sleep(0.05)

    def kill(self):
        self.read_usage()
        self.process.kill()
        self.process.wait()

    def read_usage(self):
        """CPU seconds and wake-ups of this life so far."""
        if self.is_running():
            self.usage = thread_usage(self.process.pid)

    def total(self):
        """CPU seconds and wake-ups of all lives."""
        self.read_usage()
        return tuple(map(sum, zip(self.before, self.usage)))

    def cpu(self):
        return self.total()[0]

    def status(self):
        """`belfry farm status`; none while the node starts."""
        try:
            return json.loads(self.run("farm", "status", "--json"))
        except Failure:
            return None

    def metric(self, name):
        """Sum over shards."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        values = re.findall(rf"^{name}(?:\{{.*?\}})? (\S+)$", text, re.MULTILINE)
        if not values:
            raise Failure(f"{self.name} has no metric {name}")
        return sum(map(float, values))


class Farm:
    """NATS and the nodes, started one after the other. Routes: user and UDP port. With a `database` (lib.postgres) the nodes share
    it, its routes and so many accounts; `fill` is called when these are in it and no node runs. Without one each has routes of its own. `chat` is
    more configuration of each node, with CHAT for the port of chat clients, and OWNPORT for one that only this node has."""

    def __init__(
        self, processes, folder, roles, routes, shards=0, is_apart=False, preload=None, database=None, accounts=0, fill=None, chat=None
    ):  # fmt: skip
        self.processes, self.folder, self.roles, self.is_apart = processes, folder, roles, is_apart
        self.database, self.chat = database, chat
        self.port, self.chat_port = free_port(), free_port()
        self.links, self.nats = free_port(), free_port()
        self.secret = f"{folder}/farm.secret"
        self.start_nats()
        command = [Belfry.binary(), "farm", "secret", self.secret, "--config", "/dev/null"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.nodes = {name: Node(processes, f"{folder}/{name}", name, self.port, self, shards) for name in roles}
        first = next(iter(self.nodes.values()))
        if accounts:
            # With the keys that chat clients sign in by.
            first.import_flags = ("--scram",) if chat else ()
            first.import_accounts(accounts)
        if fill:
            fill()
        for node in self.nodes.values():
            node.preload = (preload or {}).get(node.name)
            for user, port in routes.items() if node is first or not database else ():
                node.run("route", "add", user, f"user:{user}", f"sip:127.0.0.1:{port}", "--open")
            node.start()
            # The order of the nodes is that of their sockets.
            node.wait_until_healthy()
        self.workers = [node for node in self.nodes.values() if node.role not in ("router", BACK)]
        self.wait_for_shares(len(self.workers))
        self.balancer = Balancer(self.port, self.workers)

    def start_nats(self):
        config = f"{self.folder}/nats.conf"
        listen = "0.0.0.0" if self.is_apart else "127.0.0.1"
        with open(config, "w") as file:
            file.write(f'listen: "{listen}:{self.nats}"\njetstream {{ store_dir: "{self.folder}/nats" }}\n')
        self.nats_process = self.processes.start(["nats-server", "-c", config], self.folder, f"{self.folder}/nats.log")

    def addresses(self, node):
        """Of the node's links, and of NATS as this node reaches it. Apart: addresses that packet filters tell by."""
        number = list(self.roles).index(node.name) + 1
        if self.is_apart:
            return f"127.0.2.{number}", f"127.0.3.{number}"
        return "127.0.0.1", "127.0.0.1"

    def section(self, node):
        own, nats = self.addresses(node)
        node.links = self.links if self.is_apart else free_port()
        role, weight = ("both", 1) if node.role == BACK else (node.role, 10_000)
        return f"""
[farm]
name = "bench"
node = "{node.name}"
council = ["nats://{nats}:{self.nats}"]
secret = "{self.secret}"
listen = "{own}:{node.links}"
role = "{role}"
weight = {weight}
shared_ports = true
"""

    def running(self):
        return [node for node in self.nodes.values() if node.is_running()]

    def wait_for_shares(self, count, seconds=40):
        """Returns once every running node sees the call slots divided among so many."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(shares(node) == count for node in self.running()):
                return
            time.sleep(0.2)
        logs = "".join(tail(node.log, 5) for node in self.nodes.values())
        raise Failure(f"the call slots are not at {count} nodes after {seconds} s\n{logs}")

    def supervise(self):
        """Does a supervisor's part: starts nodes that the farm has ended, and those whose start has lost the database. Returns their
        names."""
        ended = []
        for node in self.nodes.values():
            node.read_usage()
            if node.process is not None and (node.process.poll() == ENDED or node.lost_database()):
                ended.append(node.name)
                node.start()
            elif node.process is not None and not node.is_running():
                raise Failure(f"{node.name} ended with code {node.process.returncode}\n{tail(node.log)}")
        return ended

    def usage(self):
        """CPU seconds and wake-ups of all nodes."""
        return tuple(map(sum, zip(*[node.total() for node in self.nodes.values()])))

    def cpu(self):
        return self.usage()[0]

    def metric(self, name):
        return sum(self.metrics(name))

    def metrics(self, name):
        """Of each node that works on calls."""
        return [node.metric(name) for node in self.workers]


def shares(node):
    """The number of nodes with call slots, as this one sees it; 0 while it starts."""
    return sum(peer["call_slots"] > 0 for peer in (node.status() or {}).get("nodes", []))


class Balancer:
    """Divides the datagrams to a port among the sockets there, each for itself: a filter of the kernel picks one at random,
    whatever their addresses are. Without it the kernel picks by the hash of both addresses, so that all packets of one
    caller go to one node. A number without a socket, after a node's death, falls back to that."""

    def __init__(self, port, nodes):
        self.port, self.nodes = port, nodes
        # One socket a shard, in the order of their starts.
        self.count = sum(node.shards or os.cpu_count() for node in nodes)
        self.divide()

    def divide(self, without=None):
        """Gives a node nothing, as a balancer does whose check of that node has failed. Only while the nodes' sockets are those of
        their first start, and with one shard each."""
        chosen = [number for number in range(self.count) if number != without]
        program = [RANDOM, (REMAINDER, 0, 0, len(chosen))]
        for place, number in enumerate(chosen):
            program += [(IS, 0, 1, place), (RETURN, 0, 0, number)]
        self.attach([*program, (RETURN, 0, 0, 0)])

    def attach(self, program):
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member:
            member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            member.bind(("127.0.0.1", self.port))
            # The program is the group's, and stays when this member leaves. The last leaves without moving others.
            filter_program = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
            member.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, filter_program)


def build():
    """Builds both programs, unless the caller names them."""
    command = ["cargo", "build", "--release", "--locked", "--bin", "belfry", "--bin", "ringer"]
    if "BELFRY" not in os.environ and subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise Failure("the build failed")


class ReceiveBuffers:
    """`with` lets sockets have the receive buffers that they ask for; `granted` says in words how large they are. The kernel's limit
    is as before afterwards."""

    LIMIT = "/proc/sys/net/core/rmem_max"
    WANTED = 16 * 1024 * 1024

    def __enter__(self):
        self.before = self.read()
        if self.before < self.WANTED:
            self.write(self.WANTED)
        self.granted = f"net.core.rmem_max {self.read() / (1024 * 1024):.0f} MiB"
        if self.read() != self.before:
            self.granted += " (raised)"
        return self

    def __exit__(self, *_):
        if self.read() != self.before:
            self.write(self.before)

    def read(self):
        with open(self.LIMIT) as file:
            return int(file.read())

    def write(self, value):
        try:
            with open(self.LIMIT, "w") as file:
                file.write(str(value))
        except OSError:
            # Not root: the table says what was granted.
            pass


def log_lines(path):
    """The lines of a node's log; a line that a kill cut off is left out."""
    with open(path, errors="replace") as log:
        for line in log:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def deaths(nodes, life):
    """The times at which other nodes counted this life as dead, seconds since 1970."""
    found = []
    for node in nodes:
        for line in log_lines(node.log):
            if line.get("message") == "a node of the farm is dead" and str(line.get("life")) == str(life):
                found.append(seconds_of(line["timestamp"]))
    return found


def seconds_of(timestamp):
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def tenures(nodes):
    """All tenures that nodes wrote down: {(bucket, epoch): {lives}}."""
    found = {}
    for node in nodes:
        for line in log_lines(node.log):
            if line.get("message") == "buckets are served":
                for bucket in numbers(line["buckets"]):
                    found.setdefault((bucket, int(line["epoch"])), set()).add(int(line["life"]))
    return found


def numbers(ranges):
    """`0-2,7` is 0, 1, 2, 7."""
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def needs(*programs):
    """Fails if a program is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Failure(f"missing: {', '.join(missing)} (apt-get install nats-server nftables postgresql)")


def keep(folder):
    """Copies the files of a run to a folder that stays; returns its path. Sockets cannot be copied."""

    def sockets(path, names):
        return [name for name in names if stat.S_ISSOCK(os.stat(os.path.join(path, name)).st_mode)]

    return shutil.copytree(folder, tempfile.mkdtemp(prefix="kept-farm-"), dirs_exist_ok=True, ignore=sockets)


def append_result(name, result):
    """Adds a line of JSON to the results; returns its file."""
    folder = f"{ROOT}/bench/results"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{name}.jsonl"
    with open(path, "a") as file:
        file.write(json.dumps(result) + "\n")
    return path
