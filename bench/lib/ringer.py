"""Ringer as callers and answerers: a process each, with its report read as JSON."""

import json
import os
import signal
import socket
import subprocess
import time

from .procs import Failure, free_port, tail
from .servers import target_folder

# As SIPp's in the other benches: what is asked for; the kernel grants net.core.rmem_max at most.
BUFFER = 8 * 1024 * 1024
# Milliseconds after which a response is lost: a caller whose INVITE rings has no timer of its own for the answer.
LOST = 40_000
# RFC 3261 section 17.2.3: a request is a retransmission by its transaction, not by its bytes. When another node of a farm forwards it
# again, its Via names that node. The loose comparison leaves the Via out.
ANSWERER = ["-rtcheck", "loose"]
OWN = ["-i", "127.0.0.1", "-nostdin", "-buff_size", str(BUFFER)]


def binary():
    path = os.environ.get("RINGER", os.path.join(target_folder(), "release", "ringer"))
    if not os.access(path, os.X_OK):
        raise Failure(f"no {path}: cargo build --release --bin ringer")
    return path


def start_answerer(processes, folder, name, port, scenario=("-sn", "uas"), threads=None, extra=()):
    """Returns once the answerer has its port."""
    command = [binary(), "sip", *scenario, "-p", str(port), *OWN, *ANSWERER, *_threads(threads), *extra]
    process = processes.start(command, folder, f"{folder}/{name}.log")
    wait_for_port(process, port)
    return process


class Calls:
    """Calls that a Ringer of their own places; `report()` when they are over."""

    def __init__(self, processes, folder, name, target, rate, seconds, scenario=("-sn", "uac"), extra=(), threads=None):
        self.name, self.rate, self.seconds = name, rate, seconds
        self.path, self.errors = f"{folder}/{name}.json", f"{folder}/{name}.errors"
        command = [
            binary(), "sip", *scenario, f"127.0.0.1:{target}", *OWN, "-p", str(free_port()), *_threads(threads),
            "-r", f"{rate:g}", "--for", f"{seconds}s", "-l", "1000000", "-trace_err", "-error_file", self.errors,
            "--json", self.path, *[str(word) for word in extra],
        ]  # fmt: skip
        self.began = time.monotonic()
        self.process = processes.start(command, folder, f"{folder}/{name}.log")

    def is_over(self):
        return self.process.poll() is not None

    def finish(self):
        """Places no more calls; those that are open come to their end."""
        if not self.is_over():
            self.process.send_signal(signal.SIGUSR1)

    def report(self, patience):
        """The report, `patience` seconds from now at the latest."""
        wait(self.process, patience)
        return read_report(self.process, self.path)


def prepared(plan, folder):
    """The plan as it comes with Ringer, with the buffers of the other benches and an end of waiting for lost answers."""
    text = subprocess.run([binary(), "run", plan, "--show"], capture_output=True, text=True, check=True).stdout
    more = f'"-l", "1000000", "-buff_size", "{BUFFER}", "-recv_timeout", "{LOST}"]'
    if text.count('"-l", "1000000"]') != 1:
        raise Failure(f"the plan {plan} has no calls without a limit")
    path = f"{folder}/{plan}.toml"
    with open(path, "w") as file:
        file.write(text.replace('"-l", "1000000"]', more).replace('"{uas_port}"]', f'"{{uas_port}}", "-buff_size", "{BUFFER}", "-rtcheck", "loose"]'))
    return path


def read_report(process, path):
    if process.poll() is None:
        raise Failure(f"Ringer has not ended its calls\n{tail(process.log)}")
    if not os.path.exists(path):
        raise Failure(f"Ringer ended with code {process.returncode}\n{tail(process.log)}")
    with open(path) as file:
        return json.load(file)


def faults_of_load(report):
    """Reasons why the load itself does not count, in words."""
    faults = [f"Ringer was the limit: {reason}" for reason in report["limited_by_ringer"]]
    totals = report["totals"]
    if totals["blocked"]:
        faults.append(f"{totals['blocked']:,} calls could not be placed")
    if not totals["started"]:
        faults.append("no call was placed")
    return faults


def wait(process, seconds):
    """Waits so long, or until the process ends."""
    try:
        process.wait(max(0, seconds))
    except subprocess.TimeoutExpired:
        pass


def wait_for_port(process, port, seconds=15):
    """Returns once the process has its UDP port: an answerer of calls need not answer an OPTIONS."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure(f"Ringer ended with code {process.returncode}\n{tail(process.log)}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                return
        time.sleep(0.1)
    raise Failure(f"nothing listens at udp:127.0.0.1:{port} after {seconds} s\n{tail(process.log)}")


def _threads(count):
    return ["--threads", str(count)] if count else []
