"""Chat servers under test, each started for one run and thrown away with it: Belfry, and Debian's ejabberd and Prosody
with configurations that are fair to each: no shapers, no debug logs, the same iteration counts, the same certificate,
everything that is durable on the same disk, archives for all of them or for none."""

import base64
import hashlib
import hmac
import os
import re
import socket
import sqlite3
import subprocess
import tempfile
import time

from .procs import Failure, free_port, stop, tail
from .servers import ROOT, Belfry, Server

DOMAIN = "localhost"
PASSWORD = "secret"
ITERATIONS = 4096
# A process may have so many files open here.
FILES = 20_000


def certificate(folder):
    """One for both servers: a key of another kind would cost a handshake another price."""
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
        "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem", "-subj", f"/CN={DOMAIN}",
        "-addext", f"subjectAltName=DNS:{DOMAIN}", "-addext", "basicConstraints=critical,CA:FALSE",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"openssl made no certificate: {done.stderr}")


# Bytes of an account's verifiers before the keys of SCRAM: three entries with their two bytes of head.
HA1 = 16 + 32 + 32 + 6


class Node(Belfry):
    """With chat clients, and accounts that have the keys of SCRAM already. It never has a password itself."""

    def __init__(self, processes, folder, accounts, clear=0, sha1=0, archive=True):
        self.ranges, self.archive = Ranges(accounts, clear, sha1), archive
        self.shared, folder = folder, tempfile.mkdtemp(dir=folder, prefix="belfry-")
        self.folder, self.config = folder, f"{folder}/belfry.toml"
        self.tcp, self.tls, self.sip, self.http = free_port(), free_port(), free_port(), free_port()
        with open(self.config, "w") as config:
            config.write(self.configuration())
        self.import_accounts(accounts + clear + sha1)
        self.restart(processes)

    def restart(self, processes):
        """With its record, but without what it holds in memory."""
        if self.process:
            stop(self.process)
        command = [self.binary(), "serve", "--config", self.config]
        self.process = processes.start(command, self.folder, f"{self.folder}/log")
        wait_for(self.process, self.tcp)

    def configuration(self):
        return f"""[server]
data = "{self.folder}/data"
control = "{self.folder}/control.sock"

[sip]
listen = ["udp:127.0.0.1:{self.sip}"]
domains = ["{DOMAIN}"]

[xmpp]
listen = ["tcp:127.0.0.1:{self.tcp}", "tls:127.0.0.1:{self.tls}"]
require_tls = false
archive = "{"always" if self.archive else "never"}"

[tls]
certificate = "{self.shared}/cert.pem"
key = "{self.shared}/key.pem"

[limits]
connections_per_source = {FILES}

[http]
listen = "127.0.0.1:{self.http}"
"""

    def import_accounts(self, accounts):
        path = f"{self.folder}/accounts.csv"
        with open(path, "w") as table:
            table.write("account,password,name\n")
            table.writelines(f"user{n}@{DOMAIN},{PASSWORD},\n" for n in range(accounts))
        self.run("account", "import", path)
        self.share_keys()

    def import_time(self, path):
        """Seconds for a file of XEP-0227; no node may run meanwhile."""
        stop(self.process)
        began = time.monotonic()
        self.run("account", "import", path)
        return time.monotonic() - began

    def who(self, mechanism):
        return DOMAIN, self.ranges.first(mechanism)

    def share_keys(self):
        """Making keys takes some 10 ms an account, and they say nothing of whose they are: all get the same."""
        path = f"{self.folder}/one.csv"
        with open(path, "w") as table:
            table.write(f"account,password,name\nuser0@{DOMAIN},{PASSWORD},\n")
        self.run("account", "import", path, "--scram")
        (database,) = [name for name in os.listdir(f"{self.folder}/data") if name.endswith((".db", ".sqlite"))]
        record = sqlite3.connect(f"{self.folder}/data/{database}")
        (own,) = record.execute("SELECT verifiers FROM account WHERE name = 'user0'").fetchone()
        keys = own[HA1:]
        if not keys:
            raise Failure("the import made no keys of SCRAM")
        rows = record.execute("SELECT rowid, verifiers FROM account WHERE name <> 'user0'").fetchall()
        changed = [(old + keys, row) for row, old in rows]
        record.executemany("UPDATE account SET verifiers = ? WHERE rowid = ?", changed)
        record.commit()
        record.close()



class Ejabberd(Server):
    """Debian's, without distribution, so that it needs no epmd, and with schedulers that do not spin before they sleep. Its accounts have a SCRAM-SHA-256 verifier, `sha1` of
    them one of SCRAM-SHA-1, and `clear` of them the password itself: a PLAIN sign-in is checked against that, which is
    cheaper for it."""

    name = "ejabberd"
    LIBRARIES = "/usr/lib/x86_64-linux-gnu"

    def __init__(self, processes, folder, accounts, clear=0, sha1=0, archive=False, imported=None):
        self.ranges, self.imported = Ranges(accounts, clear, sha1), imported
        shared, folder = folder, tempfile.mkdtemp(dir=folder, prefix="ejabberd-")
        self.tcp, self.tls = free_port(), free_port()
        with open(f"{shared}/both.pem", "w") as both:
            both.write(open(f"{shared}/cert.pem").read() + open(f"{shared}/key.pem").read())
        words = {"DOMAIN": DOMAIN, "CERTIFICATE": f"{shared}/both.pem", "TCP": self.tcp, "TLS": self.tls}
        words["ARCHIVE"] = "mod_mam:\n    default: always" if archive else ""
        self.config = f"{folder}/ejabberd.yml"
        fill("ejabberd.yml", self.config, words)
        os.mkdir(f"{folder}/db")
        environment = {
            "EJABBERD_CONFIG_PATH": f"{folder}/ejabberd.yml", "EJABBERD_LOG_PATH": f"{folder}/ejabberd.log",
            "ERL_LIBS": self.LIBRARIES, "ERL_MAX_PORTS": "32000", "ERL_CRASH_DUMP": f"{folder}/crash", "HOME": folder,
        }  # fmt: skip
        command = ["env", *(f"{name}={value}" for name, value in environment.items()), "erl", "-noinput", "+K", "true",
                   "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none", "+P", "250000", "-mnesia", "dir", f'"{folder}/db"', "-eval", self.accounts()]  # fmt: skip
        self.process = processes.start(command, folder, f"{folder}/log")
        wait_for(self.process, self.tcp, seconds=1_800, ready="accounts are there")

    def import_time(self, _path):
        """Seconds for the file of XEP-0227 that it was started with."""
        (time,) = re.findall(r"imported in (\d+) us: ok", open(f"{self.process.log}").read())
        return int(time) / 1e6

    def accounts(self):
        count, clear, sha1 = self.ranges.counts
        # The server's own function makes the configured kind only.
        old = ", ".join(f'<<"{base64.b64encode(key).decode()}">>' for key in keys("sha1"))
        return f"""
            {{ok, _}} = application:ensure_all_started(ejabberd),
            Keys = ejabberd_auth:password_to_scram(<<"{DOMAIN}">>, <<"{PASSWORD}">>),
            {ITERATIONS} = element(6, Keys),
            Old = {{scram, {old}, sha, {ITERATIONS}}},
            Add = fun(First, Last, Secret) ->
                [mnesia:dirty_write(passwd, {{passwd, {{<<"user", (integer_to_binary(N))/binary>>, <<"{DOMAIN}">>}}, Secret}})
                 || N <- lists:seq(First, Last - 1)]
            end,
            Add(0, {count}, Keys),
            Add({count}, {count + clear}, <<"{PASSWORD}">>),
            Add({count + clear}, {count + clear + sha1}, Old),
            {self.imports()}
            io:format("accounts are there~n")."""

    def imports(self):
        if not self.imported:
            return ""
        return f"""{{Time, Result}} = timer:tc(fun() -> ejabberd_piefxis:import_file(<<"{self.imported}">>) end),
            io:format("imported in ~p us: ~p~n", [Time, Result]),"""

    def who(self, mechanism):
        return DOMAIN, self.ranges.first(mechanism)

    @staticmethod
    def version():
        return f"ejabberd {packaged('ejabberd')}"


class Prosody(Server):
    """Debian's. A host of it has one kind of verifier, so each kind of account has a host of its own."""

    name = "prosody"
    HOSTS = {"SCRAM-SHA-256": DOMAIN, "SCRAM-SHA-1": f"sha1.{DOMAIN}", "PLAIN": f"plain.{DOMAIN}"}

    def __init__(self, processes, folder, accounts, clear=0, sha1=0, archive=False):
        shared, folder = folder, tempfile.mkdtemp(dir=folder, prefix="prosody-")
        self.ranges = Ranges(accounts, clear, sha1)
        self.tcp, self.tls = free_port(), free_port()
        self.config = f"{folder}/prosody.cfg.lua"
        words = {"FOLDER": folder, "CERTIFICATES": shared, "DOMAIN": DOMAIN, "TCP": self.tcp, "TLS": self.tls,
                 "ARCHIVE": '"mam";' if archive else ""}  # fmt: skip
        fill("prosody.cfg.lua", self.config, words)
        clear = f'["password"] = "{PASSWORD}";'
        for mechanism, secret in (("SCRAM-SHA-256", hashed("sha256")), ("SCRAM-SHA-1", hashed("sha1")), ("PLAIN", clear)):
            place = f"{folder}/data/{self.HOSTS[mechanism].replace('.', '%2e')}/accounts"
            os.makedirs(place)
            first = self.ranges.first(mechanism)
            for number in range(first, first + self.ranges.count(mechanism)):
                with open(f"{place}/user{number}.dat", "w") as account:
                    account.write(f"return {{ {secret} }};\n")
        self.process = processes.start(["prosody", "--config", self.config, "-F"], folder, f"{folder}/log")
        wait_for(self.process, self.tcp)

    def who(self, mechanism):
        return self.HOSTS[mechanism], self.ranges.first(mechanism)

    @staticmethod
    def version():
        return f"Prosody {packaged('prosody')}"


SALT = b"5d3c1f00-bench"


def keys(name):
    """The stored key, the server's and the salt (RFC 5802 §3)."""
    salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), SALT, ITERATIONS)
    client, server = (hmac.new(salted, label, name).digest() for label in (b"Client Key", b"Server Key"))
    return hashlib.new(name, client).digest(), server, SALT


def hashed(name):
    """A verifier as Prosody has it."""
    stored, server, salt = keys(name)
    return (
        f'["salt"] = "{salt.decode()}"; ["iteration_count"] = {ITERATIONS}; '
        f'["stored_key"] = "{stored.hex()}"; ["server_key"] = "{server.hex()}";'
    )


SERVERS = {"belfry": Node, "ejabberd": Ejabberd, "prosody": Prosody}


class Ranges:
    """Whose numbers are which: those with a SCRAM-SHA-256 verifier, those for PLAIN, those with a SCRAM-SHA-1 one."""

    KINDS = ("SCRAM-SHA-256", "PLAIN", "SCRAM-SHA-1")

    def __init__(self, *counts):
        self.counts = counts

    def first(self, mechanism):
        return sum(self.counts[: self.KINDS.index(mechanism)])

    def count(self, mechanism):
        return self.counts[self.KINDS.index(mechanism)]


def fill(template, path, words):
    """Copies a configuration of bench/xmpp with its words in @ signs filled in."""
    text = open(f"{ROOT}/bench/xmpp/{template}").read()
    with open(path, "w") as config:
        config.write(re.sub(r"@([A-Z]+)@", lambda word: str(words[word[1]]), text))


def packaged(name):
    command = ["dpkg-query", "-W", "-f", "${Version}", name]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if not text:
        raise Failure(f"{name} is not installed: tools/setup installs it")
    return text


def wait_for(process, port, seconds=60, ready=None):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure(f"the server ended with code {process.returncode}\n{tail(process.log)}")
        with socket.socket() as tcp:
            if tcp.connect_ex(("127.0.0.1", port)) == 0 and (ready is None or ready in tail(process.log)):
                return
        time.sleep(0.1)
    raise Failure(f"nothing listens on tcp:127.0.0.1:{port} after {seconds} s\n{tail(process.log)}")
