"""The runs of a farm with accounts: they register by digest through a PostgreSQL server of this machine, and call each other."""

import os
import subprocess
import tempfile
import time

from .farm import AtOnce, Farm
from .messages import Messages
from .postgres import Postgres
from .procs import Failure, free_port, memory_bytes, say, tail
from .ringer import LOST, binary, faults_of_load, prepared, read_report, wait
from .servers import DOMAIN, ROOT, target_folder
from .storm import Storm

PARTS = {"r6": "cgp-r6", "r7": "cgp-r7", "kills": "cgp-r7", "storm": "cgp-r7"}
# R6: several front ends and one back end. R7: 13 front ends and 7 back ends, 25 million accounts, 5 million registered.
PUBLISHED = {
    "calls a second": ("394.0", "1,049.6"), "calls": ("-", "-"), "failed": ("-", "-"), "answer, mean": ("-", "-"),
    "answer, p99": ("-", "-"), "open at most": ("-", "-"), "retransmissions": ("-", "-"), "registrations": ("-", "-"),
    "of these failed": ("-", "-"), "CPU of nodes a call": ("-", "-"), "CPU of PostgreSQL a call": ("-", "-"), "kills": ("-", "-"),
    "accounts": ("-", "25,000,000"), "registered": ("-", "5,000,000"), "memory of nodes": ("-", "-"),
}  # fmt: skip
# Accounts that send each other messages in a storm, beside those that are called.
MESSAGE_USERS = 50
# After the last call has ended: an answer that is lost, and a BYE that is repeated until 64*T1, 32 s (RFC 3261 §17.1.2.2).
GRACE = 2 * LOST / 1000 + 10


def measure(part, options):
    plan, backs = PARTS[part], 1 if part == "r6" else options.backs
    roles = {f"back{number}": "router" for number in range(1, backs + 1)}
    roles |= {f"front{number}": "edge" for number in range(1, options.fronts + 1)}
    with tempfile.TemporaryDirectory(prefix="bench-farm-") as folder, AtOnce() as processes:
        database = Postgres(processes, options.database or folder)
        callee = callee_port(database)
        imported, registered = (max(number, options.accounts) for number in (options.imported, options.bound))
        # Users of their own send messages in a storm: their contact is no answerer of calls.
        first_sender, senders = imported, MESSAGE_USERS if part == "storm" and options.messages else 0
        imported += senders
        began = time.monotonic()

        def fill():
            say(f"{imported:,} accounts are in the database after {time.monotonic() - began:,.0f} s\n")
            if registered > options.accounts:
                bind(database, callee, options.accounts, registered)

        content = {"accounts": imported, "fill": fill} if database.is_new else {}
        farm = Farm(processes, folder, roles, {}, options.shards, database=database, **content)
        wait_for_bindings(farm, registered - options.accounts)
        say(f"\n{part}: {plan} through {options.fronts} + {backs} nodes\n{farm.nodes['front1'].run('farm', 'status')}")
        path = f"{folder}/report.json"
        seconds = storm_seconds(options) if part == "storm" else options.seconds
        values = {
            "accounts": options.accounts, "register_rate": options.registers, "refresh_rate": options.refreshes,
            "rate": options.rate, "seconds": seconds, "length": 1000 * options.length, "uas_port": callee,
        }  # fmt: skip
        command = [binary(), "run", prepared(plan, folder), "--target", f"127.0.0.1:{farm.port}", "--json", path]
        for name, value in values.items():
            command += ["--set", f"{name}={value}"]
        before = farm.cpu(), database.cpu()
        ringer = processes.start(command, folder, f"{folder}/ringer.log")
        registering = options.accounts / options.registers
        deaths = {}
        if part == "kills":
            deaths = kill_both(farm, ringer, registering, options)
        elif part == "storm":
            wait(ringer, registering)
            messages = Messages(farm.port, first_sender, senders, options.messages) if senders else None
            if messages:
                messages.start()
            deaths = Storm(farm, options).run(ringer)
            counts = messages.finish() if messages else {}
            say("".join(f"{count:7,} messages {what}\n" for what, count in counts.items()))
            say("".join(f"{count:5} {what}\n" for what, count in deaths.items()))
        wait(ringer, registering + seconds + options.length + 2 * GRACE)
        reports = {report["title"]: report for report in read_report(ringer, path)}
        if part == "storm":
            # Calls begin with the storm, and so do their seconds.
            failed = [f"{sample['failed']:.0f} at {sample['at']:.0f} s" for sample in reports["calls"]["samples"] if sample["failed"]]
            say(f"calls that failed: {', '.join(failed) or 'none'}\n")
            refused = [f"{sample['failed']:.0f} at {sample['at']:.0f} s" for sample in reports["refresh"]["samples"] if sample["failed"]]
            say(f"refreshes that failed: {', '.join(refused) or 'none'}\n")
        # The plan's own page, with the published row.
        say(tail(ringer.log, 30))
        used = farm.cpu() - before[0], database.cpu() - before[1]
        memory = {node.name: memory_bytes(node.process.pid) for node in farm.nodes.values()}
        say("".join(f"{name}: {size / (1024 * 1024):,.0f} MiB\n" for name, size in memory.items()))
        say(f"{database.size() / imported:,.0f} bytes of database an account\n")
        sizes = {"accounts": imported, "registered": registered, "memory": sum(memory.values())}
        run = figures(reports, used, sum(deaths.values())) | sizes | {"deaths": deaths}
        if part == "storm":
            # REGISTER is refused while PostgreSQL is away (503); the phone asks again, and what was acknowledged has to be there.
            run["faults"] = [fault for fault in run["faults"] if not fault.startswith("refresh: ")]
            run["faults"] += missing_bindings(database, options, senders)
            run["messages"] = counts
            if counts.get("lost"):
                run["faults"].append(f"{counts['lost']:,} of {counts['acknowledged']:,} acknowledged messages have not come")
        return run


def storm_seconds(options):
    """The time for all deaths, and then for a call to each account."""
    between = sum(options.between) / 2
    # Two of one role do not die within the time that a node takes to get its name back.
    return int(options.kills * (between + 4) + 60 + options.accounts / options.rate)


def missing_bindings(database, options, senders):
    """Each account was told that it is registered, and its registration lasts longer than the run."""
    found = int(database.query("SELECT count(*) FROM binding")[0])
    wanted = max(options.bound, options.accounts) + senders
    return [f"{wanted - found:,} of {wanted:,} bindings are not in the database"] if found < wanted else []


def callee_port(database):
    """The port of the answerer, which the contacts of all bindings name; a database that is used again has them already."""
    path = f"{database.folder}/callee"
    if database.is_new:
        with open(path, "w") as file:
            file.write(str(free_port()))
    with open(path) as file:
        return int(file.read())


def binding_rows(port, first, end):
    """The command that prints the rows of these accounts; BINDING_ROWS names a program that is built already."""
    program = os.environ.get("BINDING_ROWS")
    if program is None:
        command = ["cargo", "build", "--release", "--locked", "--example", "binding_rows"]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            raise Failure("the build failed")
        program = f"{target_folder()}/release/examples/binding_rows"
    return [program, DOMAIN, f"127.0.0.1:{port}", f"{first}", f"{end}"]


def bind(database, callee, first, end):
    """Writes the bindings of accounts as a node would have."""
    began = time.monotonic()
    rows = binding_rows(callee, first, end)
    database.copy("binding (bucket, aor, seq, epoch, written_at, record)", rows)
    database.query(f"SELECT setval('binding_seq', {end})")
    say(f"{end - first:,} bindings are in the database after {time.monotonic() - began:,.0f} s\n")


def wait_for_bindings(farm, count, patience=300):
    """Returns once the owners have read so many bindings."""
    began = time.monotonic()
    while time.monotonic() - began < patience:
        found = sum(node["figures"]["bindings"] or 0 for node in (farm.nodes["front1"].status() or {}).get("nodes", []))
        if found >= count:
            say(f"{found:,} bindings are with their owners {time.monotonic() - began:.1f} s after the last node's start\n")
            return
        time.sleep(0.2)
    raise Failure(f"the owners have read {found:,} of {count:,} bindings after {patience} s")


def kill_both(farm, ringer, registered, options):
    """Kills a back end and a front end, each in its third of the time in which calls are placed."""
    began, killed_nodes = time.monotonic(), {}
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
        killed_nodes[name] = 1
        say(f"{killed - began:6.1f} s  {name} is killed; serves again after {time.monotonic() - killed:.1f} s\n")
    return killed_nodes


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
    yield f"{run['accounts']:,}"
    yield f"{run['registered']:,}"
    yield f"{run['memory'] / (1024 * 1024):,.0f} MiB"
