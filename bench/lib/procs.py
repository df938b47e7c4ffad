"""Processes the harness starts: ended by pid, measured through /proc."""

import os
import random
import signal
import socket
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """The run cannot go on; the text says why."""


class Processes:
    """Every process started in a run; `with` ends them all, also on Ctrl-C."""

    def __init__(self):
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            stop(process)

    def start(self, command, cwd, log, cores=None):
        if cores:
            command = ["taskset", "--cpu-list", cores, *command]
        with open(log, "ab") as output:
            process = subprocess.Popen(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        process.log = log
        self.started.append(process)
        return process


def run_bench(name, main):
    """Runs a bench to its exit code: Ctrl-C and SIGTERM end it in order, so that `with` ends what it started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"{name}: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


def say(text):
    """Prints at once, without a line's end of its own."""
    print(text, end="", flush=True)


def stop(process, first=signal.SIGTERM, patience=10):
    """Asks, then insists. Children are in the process's own session, so they end with it."""
    if getattr(process, "ended", False):
        return
    if process.poll() is None:
        process.send_signal(first)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process.ended = True


def family(pid):
    """The process and all its descendants."""
    pids = [pid]
    for parent in pids:
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as children:
                    pids += [int(child) for child in children.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return pids


def cpu_seconds(pid):
    """User and system time of the whole family so far."""
    total = 0
    for member in family(pid):
        try:
            with open(f"/proc/{member}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def thread_usage(pid):
    """CPU seconds, to the nanosecond where the kernel counts them, and voluntary context switches of all threads so far: each
    of these ends in a wake-up."""
    nanoseconds, switches = 0, 0
    for task in _tasks(pid):
        try:
            with open(f"{task}/schedstat") as schedstat, open(f"{task}/status") as status:
                nanoseconds += int(schedstat.read().split()[0])
                lines = (line.split() for line in status)
                switches += next(int(line[1]) for line in lines if line[0] == "voluntary_ctxt_switches:")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return nanoseconds / 1e9, switches


def _tasks(pid):
    try:
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def memory_bytes(pid):
    """Proportional set size of the whole family: shared pages count once."""
    total = 0
    for member in family(pid):
        try:
            with open(f"/proc/{member}/smaps_rollup") as rollup:
                total += sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return total


def free_port():
    """A port of 127.0.0.1 that is free for UDP and TCP now; none that the kernel gives to connections meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = int(file.read().split()[0])
    for _ in range(100):
        port = random.randrange(min(15_000, end - 1_000), end)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            try:
                udp.bind(("127.0.0.1", port))
                tcp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Failure("no free port on 127.0.0.1")


def wait_for_sip(process, port, seconds=15):
    """Returns once the server answers an OPTIONS, whatever it answers."""
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.1)
        own = udp.getsockname()[1]
        attempt = 0
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise Failure(f"the server ended with code {process.returncode}\n{tail(process.log)}")
            attempt += 1
            try:
                udp.sendto(_options(port, own, attempt), ("127.0.0.1", port))
                udp.recv(65536)
                return
            except OSError:
                # Refused or not yet answered. Refused comes at once, so wait on what never comes.
                _pause(udp)
    raise Failure(f"no answer on udp:127.0.0.1:{port} in {seconds} s\n{tail(process.log)}")


def _pause(udp):
    try:
        udp.recv(65536)
    except OSError:
        pass


def _options(port, own, attempt):
    return (
        f"OPTIONS sip:127.0.0.1:{port} SIP/2.0\r\n"
        f"Via: SIP/2.0/UDP 127.0.0.1:{own};branch=z9hG4bKready{own}-{attempt};rport\r\n"
        f"From: <sip:bench@127.0.0.1>;tag=ready{attempt}\r\nTo: <sip:127.0.0.1:{port}>\r\n"
        f"Call-ID: ready-{own}-{attempt}\r\nCSeq: {attempt} OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    ).encode()


def tail(path, lines=15):
    try:
        with open(path, errors="replace") as log:
            return "".join(log.readlines()[-lines:])
    except OSError:
        return ""
