"""The runs of a farm with accounts: they register by digest through a PostgreSQL server of this machine, and call each other."""

import tempfile
import time

from .farm import AtOnce, Farm
from .postgres import Postgres
from .procs import free_port, say, tail
from .ringer import LOST, binary, faults_of_load, prepared, read_report, wait

PARTS = {"r6": "cgp-r6", "r7": "cgp-r7", "kills": "cgp-r7"}
# R6: several front ends and one back end. R7: 13 front ends and 7 back ends, 25 million accounts, 5 million registered.
PUBLISHED = {
    "calls a second": ("394.0", "1,049.6"), "calls": ("-", "-"), "failed": ("-", "-"), "answer, mean": ("-", "-"),
    "answer, p99": ("-", "-"), "open at most": ("-", "-"), "retransmissions": ("-", "-"), "registrations": ("-", "-"),
    "of these failed": ("-", "-"), "CPU of nodes a call": ("-", "-"), "CPU of PostgreSQL a call": ("-", "-"), "kills": ("-", "-"),
}  # fmt: skip
# After the last call has ended: an answer that is lost, and a BYE that is repeated until 64*T1, 32 s (RFC 3261 §17.1.2.2).
GRACE = 2 * LOST / 1000 + 10


def measure(part, options):
    plan, backs = PARTS[part], 1 if part == "r6" else options.backs
    roles = {f"back{number}": "router" for number in range(1, backs + 1)}
    roles |= {f"front{number}": "edge" for number in range(1, options.fronts + 1)}
    with tempfile.TemporaryDirectory(prefix="bench-farm-") as folder, AtOnce() as processes:
        callee, database = free_port(), Postgres(processes, folder)
        farm = Farm(processes, folder, roles, {}, options.shards, database=database, accounts=options.accounts)
        say(f"\n{part}: {plan} through {options.fronts} + {backs} nodes\n{farm.nodes['front1'].run('farm', 'status')}")
        path = f"{folder}/report.json"
        values = {
            "accounts": options.accounts, "register_rate": options.registers, "refresh_rate": options.refreshes,
            "rate": options.rate, "seconds": options.seconds, "length": 1000 * options.length, "uas_port": callee,
        }  # fmt: skip
        command = [binary(), "run", prepared(plan, folder), "--target", f"127.0.0.1:{farm.port}", "--json", path]
        for name, value in values.items():
            command += ["--set", f"{name}={value}"]
        before = farm.cpu(), database.cpu()
        ringer = processes.start(command, folder, f"{folder}/ringer.log")
        registered = options.accounts / options.registers
        kills = kill_both(farm, ringer, registered, options) if part == "kills" else 0
        wait(ringer, registered + options.seconds + options.length + 2 * GRACE)
        reports = {report["title"]: report for report in read_report(ringer, path)}
        # The plan's own page, with the published row.
        say(tail(ringer.log, 30))
        used = farm.cpu() - before[0], database.cpu() - before[1]
        say(f"{database.size() / options.accounts:,.0f} bytes of database an account\n")
        return figures(reports, used, kills)


def kill_both(farm, ringer, registered, options):
    """Kills a back end and a front end, each in its third of the time in which calls are placed."""
    began, count = time.monotonic(), 0
    for share, name in ((1 / 3, "back1"), (2 / 3, "front1")):
        wait(ringer, began + registered + share * options.seconds - time.monotonic())
        if ringer.poll() is not None:
            break
        victim = farm.nodes[name]
        victim.kill()
        killed = time.monotonic()
        victim.start()
        # It gets its name back when the council has forgotten the life before.
        victim.wait_until_healthy()
        count += 1
        say(f"{killed - began:6.1f} s  {name} is killed; serves again after {time.monotonic() - killed:.1f} s\n")
    return count


def figures(reports, used, kills):
    calls, registers = reports["calls"], [reports["register"], reports["refresh"]]
    totals = calls["totals"]
    answer = next(iter(calls["response_times"]), None) or dict.fromkeys(("mean", "p99"), float("nan"))
    placed = max(1, totals["started"])
    run = {
        "calls": totals["started"], "rate": totals["rate"], "peak_open": totals["peak_open"], "failed": totals["failed"],
        "mean": answer["mean"], "p99": answer["p99"], "retransmissions": totals["retransmissions"] / max(1, totals["messages_sent"]),
        "registrations": sum(one["totals"]["started"] for one in registers),
        "refused": sum(one["totals"]["failed"] for one in registers),
        "cpu": used[0] / placed, "database_cpu": used[1] / placed, "kills": kills,
    }  # fmt: skip
    run["faults"] = [fault for report in reports.values() for fault in faults_of(report)]
    return run


def faults_of(report):
    totals = report["totals"]
    found = faults_of_load(report) if report["title"] != "answer" else []
    if totals["failed"] and report["title"] != "answer":
        causes = ", ".join(f"{failure['name']} {failure['count']:,}" for failure in report["failures"])
        found.append(f"{report['title']}: {totals['failed']:,} of {totals['started']:,} failed: {causes}")
    return found


def table(runs):
    say(f"\n| | published R6 | published R7 | {' | '.join(runs)} |\n|---|---|---|{'---|' * len(runs)}\n")
    cells = [list(row(run)) for run in runs.values()]
    for number, (name, published) in enumerate(PUBLISHED.items()):
        ours = " | ".join(run[number] for run in cells)
        say(f"| {name} | {' | '.join(published)} | {ours} |\n")


def row(run):
    yield f"{run['rate']:,.1f}"
    yield f"{run['calls']:,}"
    yield f"{run['failed']:,}"
    yield f"{run['mean']:.1f} ms"
    yield f"{run['p99']:.1f} ms"
    yield f"{run['peak_open']:,}"
    yield f"{100 * run['retransmissions']:.3f} %"
    yield f"{run['registrations']:,}"
    yield f"{run['refused']:,}"
    yield f"{1e6 * run['cpu']:,.0f} us"
    yield f"{1e6 * run['database_cpu']:,.0f} us"
    yield f"{run['kills']}"
