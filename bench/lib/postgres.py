"""A PostgreSQL server in a folder of its own and at no port, set up as for a machine that it shares with the nodes."""

import glob
import os
import pwd
import subprocess
import time

from .procs import TICKS, Failure, cpu_seconds, tail

USER = "belfry"
# What its manual advises for a server of a few GiB; commits stay on disk when they return.
SETTINGS = {
    "listen_addresses": "", "max_connections": "200", "shared_buffers": "1GB", "effective_cache_size": "4GB",
    "wal_compression": "on", "max_wal_size": "8GB", "checkpoint_timeout": "15min", "wal_buffers": "16MB",
    "autovacuum_vacuum_cost_limit": "2000",
}  # fmt: skip


class Postgres:
    """Started at once; ends with the processes. A folder with a database of an earlier run is used as it is. It listens at a port if one is
    given, and takes the same way then for all."""

    def __init__(self, processes, folder, port=None, settings=None):
        self.port, self.settings = port, SETTINGS | (settings or {})
        self.processes, self.folder, self.log = processes, f"{folder}/postgres", f"{folder}/postgres.log"
        self.is_new = not os.path.exists(self.folder)
        os.makedirs(self.folder, exist_ok=True)
        # Its user has to reach a folder that only we may list.
        os.chmod(folder, 0o711)
        self.user = []
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        if self.is_new:
            self.run("initdb", "--encoding", "UTF8", "--locale", "C.UTF-8", "--auth", "trust", "--username", USER, "--pgdata", f"{self.folder}/data")
        self.process = None
        self.start()
        if self.is_new:
            self.run("createdb", *self.host(), "--username", USER, "belfry")

    def start(self):
        command = [*self.user, program("postgres"), "-D", f"{self.folder}/data", "-k", self.folder]
        own = {"listen_addresses": "127.0.0.1", "port": self.port} if self.port else {}
        for name, value in (self.settings | own).items():
            command += ["-c", f"{name}={value}"]
        self.process = self.processes.start(command, self.folder, self.log)
        # One that was killed reads its log first: gigabytes of it after an import.
        deadline = time.monotonic() + (60 if self.is_new else 1_200)
        ready = [program("pg_isready"), "--quiet", *self.host()]
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"PostgreSQL does not take connections\n{tail(self.log)}")
            time.sleep(0.1)

    def run(self, name, *arguments):
        command = [*self.user, program(name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}: code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def host(self):
        return ["--host", self.folder, *(["--port", str(self.port)] if self.port else [])]

    def url(self):
        host = f"127.0.0.1 port={self.port}" if self.port else self.folder
        return f"host={host} user={USER} dbname=belfry"

    def query(self, sql):
        """Rows as text, values between bars."""
        done = self.run("psql", *self.host(), "--username", USER, "--no-align", "--tuples-only", "--command", sql, "belfry")
        return done.splitlines()

    def copy(self, columns, command):
        """The rows that a command prints, into the columns of a table."""
        with subprocess.Popen(command, stdout=subprocess.PIPE) as rows:
            sql = f"COPY {columns} FROM STDIN"
            psql = [*self.user, program("psql"), *self.host(), "--username", USER, "--quiet", "--command", sql, "belfry"]
            done = subprocess.run(psql, stdin=rows.stdout, capture_output=True, text=True, check=False, cwd=self.folder)
        if rows.returncode or done.returncode:
            raise Failure(f"{' '.join(command)}: code {rows.returncode}\n{done.stderr}")

    def size(self):
        """Bytes of the database."""
        return int(self.query("SELECT pg_database_size('belfry')")[0])

    def cpu(self):
        """Seconds of the server and its sessions, those that have ended among them."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return cpu_seconds(self.process.pid) + (int(fields[13]) + int(fields[14])) / TICKS


def program(name):
    """Of the newest release that Debian's packages have installed, or the one in PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return found[-1] if found else name
