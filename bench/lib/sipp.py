"""SIPp as the generator: one uas, one or more uacs, their counters read by column name."""

import collections
import csv
import glob
import os
import signal
import subprocess
import time

from .procs import Failure, free_port, stop, tail

# What the built-in uac and uas send between them for one call: INVITE, ACK, BYE, 180, 200, 200.
SENT_PER_CALL = 6
BUFFER = 8 * 1024 * 1024


class Outcome:
    """What one or several SIPps counted."""

    def __init__(self):
        self.calls = 0
        self.failed = 0
        # SIPp's own columns, those that are not 0: "FailedMaxUDPRetrans", "FailedUnexpectedMessage", ...
        self.reasons = collections.Counter()
        self.retransmissions = 0
        self.seconds = 0.0
        self.answers = []

    @property
    def rate(self):
        return self.calls / self.seconds if self.seconds else 0.0

    def percentile(self, share):
        """Milliseconds within which this share of the calls was answered."""
        if not self.answers:
            return float("nan")
        return self.answers[min(len(self.answers) - 1, int(len(self.answers) * share))]

    @property
    def mean_answer(self):
        return sum(self.answers) / len(self.answers) if self.answers else float("nan")


def base(folder, name, port):
    """Flags that every SIPp of the harness gets."""
    return [
        "-i", "127.0.0.1", "-p", str(port), "-nostdin", "-buff_size", str(BUFFER), "-timer_resol", "1",
        "-trace_err", "-error_file", os.path.join(folder, f"{name}.errors"),
        "-trace_stat", "-stf", os.path.join(folder, f"{name}.csv"), "-fd", "1",
        # The generator says so when it is the limit; it must not end itself for it.
        "-watchdog_major_maxtriggers", "1000000", "-watchdog_minor_maxtriggers", "1000000",
    ]  # fmt: skip


def start_uas(processes, folder, name="uas", scenario=("-sn", "uas")):
    port = free_port()
    process = processes.start(["sipp", *scenario, *base(folder, name, port)], folder, f"{folder}/{name}.log")
    process.port = port
    process.name = name
    return process


def run_uacs(processes, folder, server, rate, calls, count=1, scenario=("-sn", "uac"), extra=(), limit=None, timer=1):
    """Runs `count` uacs until each has made its share of `calls`; `timer` is the scenario's rtd that counts."""
    uacs = []
    for number in range(count):
        name = f"uac{number}"
        command = [
            "sipp", *scenario, f"127.0.0.1:{server}", *base(folder, name, free_port()),
            "-r", str(max(1, rate // count)), "-m", str(calls // count), "-l", str(limit or max(200, 4 * rate // count)),
            "-trace_rtt", "-rtt_freq", "1000", *[str(flag) for flag in extra],
        ]  # fmt: skip
        uac = processes.start(command, folder, f"{folder}/{name}.log")
        uac.name = name
        uacs.append(uac)
    # At an overload SIPp may wait for ever; calls that are open then have failed.
    patience = time.monotonic() + calls / rate * 2 + 45
    for uac in uacs:
        try:
            uac.wait(max(1, patience - time.monotonic()))
        except subprocess.TimeoutExpired:
            stop(uac, first=signal.SIGUSR1, patience=2)
            continue
        # 0: all calls succeeded, 1: some failed. Anything else is SIPp's own trouble.
        if uac.returncode not in (0, 1):
            raise Failure(f"SIPp ended with {uac.returncode}\n{tail(uac.log)}{tail(f'{folder}/{uac.name}.errors')}")
    return outcome(folder, [uac.name for uac in uacs], timer)


def outcome(folder, names, timer):
    result = Outcome()
    for name in names:
        table = rows(f"{folder}/{name}.csv")
        row = table[-1]
        result.calls += int(row["SuccessfulCall(C)"])
        result.failed += int(row["FailedCall(C)"]) + int(row["CurrentCall"])
        for column, value in row.items():
            if column and column.startswith("Failed") and column.endswith("(C)") and column != "FailedCall(C)" and value != "0":
                result.reasons[column.removesuffix("(C)")] += int(value)
        result.retransmissions += int(row["Retransmissions(C)"])
        result.seconds = max(result.seconds, seconds_of_load(table))
    for path in glob.glob(f"{folder}/*_rtt.csv"):
        result.answers += answer_times(path, timer)
        os.remove(path)
    result.answers.sort()
    return result


def finish_uas(uas, folder):
    """Lets the uas write its last counters; returns its retransmissions."""
    stop(uas, first=signal.SIGUSR1, patience=5)
    return int(rows(f"{folder}/{uas.name}.csv")[-1]["Retransmissions(C)"])


def rows(path):
    try:
        with open(path, newline="") as table:
            found = list(csv.DictReader(table, delimiter=";"))
    except OSError as error:
        raise Failure(f"SIPp wrote no statistics: {error}") from error
    if not found:
        raise Failure(f"SIPp wrote no statistics into {path}")
    return found


def seconds_of_load(table):
    """From the start until the last call was placed: stragglers waiting for a timer are not load."""
    placed = table[-1]["TotalCallCreated"]
    last = next(row for row in table if row["TotalCallCreated"] == placed)
    return clock_seconds(last["ElapsedTime(C)"])


def answer_times(path, timer):
    """Milliseconds, one a call."""
    with open(path, newline="") as table:
        found = csv.DictReader(table, delimiter=";")
        return [float(row["response_time_ms"]) for row in found if row["rtd_no"] == str(timer)]


def clock_seconds(text):
    """`00:00:12:345000` or `00:00:12.345`."""
    parts = text.replace(".", ":").split(":")
    hours, minutes, seconds = (int(part) for part in parts[:3])
    fraction = float(f"0.{parts[3]}") if len(parts) > 3 else 0.0
    return hours * 3600 + minutes * 60 + seconds + fraction
