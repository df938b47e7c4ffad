"""Calls and messages of all kinds at once through a farm: a caller and an answerer of each kind, and a route to it."""

import glob
import os
import re
import shutil
import tempfile
from collections import namedtuple

from .procs import free_port
from .ringer import LOST, Calls, faults_of_load, start_answerer
from .servers import ROOT

OWN = f"{ROOT}/bench/farm/scenarios"
# Share of the rate, scenarios of both ends, milliseconds of each pause without a length of its own.
Kind = namedtuple("Kind", "share caller answerer pause")
KINDS = {
    "call": Kind(0.40, f"{OWN}/call.xml", f"{ROOT}/bench/scenarios/answer.xml", 2000),
    "re-INVITE": Kind(0.15, f"{OWN}/reinvite.xml", f"{OWN}/answer-reinvite.xml", 2000),
    # Rings for one to six seconds.
    "early dialog": Kind(0.10, f"{OWN}/call.xml", f"{OWN}/answer-late.xml", 1000),
    "CANCEL": Kind(0.10, f"{OWN}/cancel.xml", f"{OWN}/ring.xml", 1000),
    "OPTIONS": Kind(0.15, f"{OWN}/options.xml", f"{OWN}/answer-options.xml", 0),
    "MESSAGE": Kind(0.10, f"{OWN}/message.xml", f"{OWN}/answer-message.xml", 0),
}
TIMER_J = 32_000
# These are answered at once: the time of the answer is the farm's.
ANSWERED = ("call", "re-INVITE", "OPTIONS", "MESSAGE")


def is_cancelled(kind):
    return kind == "CANCEL"


def user(kind):
    return kind.replace(" ", "-").lower()


class Mix:
    """The answerers; `start` places calls."""

    def __init__(self, processes, folder):
        self.processes, self.folder = processes, folder
        self.ports = {kind: free_port() for kind in KINDS}
        self.calls = {}
        for kind, port in self.ports.items():
            scenario = ("-sf", self.lingering(KINDS[kind].answerer))
            name = f"answer-{user(kind)}"
            errors = ("-trace_err", "-error_file", f"{folder}/{name}.errors", *self.messages(name))
            start_answerer(processes, folder, name, port, scenario, threads=1, extra=errors)

    def messages(self, name):
        """Flags by which Ringer writes the messages of its failed calls, and forgets those of the others."""
        return ("-trace_calldebug", "-calldebug_file", f"{self.folder}/{name}.failed")

    def keep_failed(self):
        """Copies what both ends have written about failed calls to a folder that stays, and returns its path: their messages and their errors.
        A call has the same Call-ID at both ends. An answerer ends a call with the caller's patience or later, so some have no second half."""
        kept = tempfile.mkdtemp(prefix="kept-calls-")
        for path in glob.glob(f"{self.folder}/*.failed") + glob.glob(f"{self.folder}/*.errors"):
            if os.path.getsize(path):
                shutil.copy(path, kept)
        return kept

    def lingering(self, scenario):
        """The scenario, which answers repeated requests for as long as a server transaction does: Timer J, 64*T1
        (RFC 3261 section 17.2.2). A node that takes a request over late repeats it."""
        path = f"{self.folder}/{os.path.basename(scenario)}"
        with open(scenario) as text, open(path, "w") as copy:
            copy.write(re.sub(r'<timewait milliseconds="\d+"', f'<timewait milliseconds="{TIMER_J}"', text.read()))
        return path

    def routes(self):
        return {user(kind): port for kind, port in self.ports.items()}

    def start(self, target, rate, seconds):
        for kind, (share, caller, _, pause) in KINDS.items():
            self.calls[kind] = Calls(
                self.processes, self.folder, user(kind), target, rate * share, seconds, ("-sf", caller),
                ["-s", user(kind), "-d", pause, "-recv_timeout", LOST, *self.messages(user(kind))], threads=1,
            )  # fmt: skip

    def is_over(self):
        return any(calls.is_over() for calls in self.calls.values())

    def finish(self):
        for calls in self.calls.values():
            calls.finish()

    def outcome(self, patience):
        """Of each kind: calls, failed ones, and the delay of the answer in milliseconds."""
        found = {}
        for kind, calls in self.calls.items():
            report = calls.report(patience)
            totals = report["totals"]
            answer = next(iter(report["response_times"]), {}) if kind in ANSWERED else {}
            found[kind] = {
                "calls": totals["started"], "failed": totals["failed"], "retransmissions": totals["retransmissions"],
                "p99": answer.get("p99"), "p999": answer.get("p999"), "max": answer.get("max"),
                "faults": [f"{kind}: {fault}" for fault in faults_of_load(report)], "failures": report["failures"],
            }  # fmt: skip
        return found

    def errors(self, kind, lines=4):
        """The last words on failed calls of a kind."""
        return "".join(f"    {line.strip()[:200]}\n" for line in [line for line in self.error_lines(kind) if line.strip()][-lines:])

    def error_lines(self, kind):
        path = self.calls[kind].errors
        if not os.path.exists(path):
            return []
        with open(path, errors="replace") as file:
            return file.readlines()


def faults(outcome):
    """What speaks against a run: the load itself, and calls that failed and were not cancelled."""
    found = [fault for kind in outcome.values() for fault in kind["faults"]]
    for kind, figures in outcome.items():
        if figures["failed"] and not is_cancelled(kind):
            found.append(f"{kind}: {figures['failed']:,} of {figures['calls']:,} failed")
    return found


def table(outcome):
    """In Markdown."""
    lines = ["| kind | calls | failed | late 1xx | answer p99 | p99.9 | at most |", "|---|---|---|---|---|---|---|"]
    for kind, figures in outcome.items():
        times = " | ".join(milliseconds(figures[name]) for name in ("p99", "p999", "max"))
        lines.append(f"| {kind} | {figures['calls']:,} | {figures['failed']:,} | {figures.get('late', 0):,} | {times} |")
    return "\n".join(lines) + "\n"


def milliseconds(value):
    return "-" if value is None else f"{value:,.1f} ms"
