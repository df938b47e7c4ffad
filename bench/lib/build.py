"""The programs of a demonstration: those of an earlier build where no source is newer, else a build that says first how long it takes."""

import os
import re
import subprocess
import time

from .procs import Failure
from .servers import ROOT, target_folder

PROGRAMS = ("belfry", "ringer")
# Of the whole build; Cargo's lists of sources do not have them.
COMMON = ("Cargo.lock", "Cargo.toml", "rust-toolchain.toml")
# Minutes of processor time that a build from nothing takes (CONTRIBUTING.md: 9.2 minutes on two cores), and the minutes that
# more processors do not shorten: the largest crates and the links come one after the other.
MINUTES, LEAST = 18, 3


def build():
    """Builds the programs that the caller does not name, unless they are there already."""
    wanted = [name for name in PROGRAMS if name.upper() not in os.environ]
    release = os.path.join(target_folder(), "release")
    why = first_reason(release, wanted)
    if why is None:
        if wanted:
            print(f"{' and '.join(wanted)}: built already, in {release}", flush=True)
        return
    print(f"Building {' and '.join(wanted)} in release mode, as {why}: {estimate(release)}. Cargo shows its progress.", flush=True)
    began = time.monotonic()
    setup = subprocess.run([f"{ROOT}/tools/setup", "build"], check=False)
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"]
    for name in wanted:
        command += ["--bin", name]
    if setup.returncode != 0 or subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise Failure("the build failed")
    # Cargo leaves a program as it is if a newer file has made no difference: it counts as built now.
    for name in wanted:
        os.utime(os.path.join(release, name))
    seconds = round(time.monotonic() - began)
    print(f"Built in {seconds // 60} min {seconds % 60} s; the next start needs no build.", flush=True)


def first_reason(release, wanted):
    """The reason for a build; `None`: there is none."""
    for name in wanted:
        program = os.path.join(release, name)
        built = modified(program)
        if built is None:
            return f"there is no {program}"
        listed = sources(f"{program}.d")
        if not listed:
            return f"the sources of {program} are not known"
        for source in [*listed, *(os.path.join(ROOT, file) for file in COMMON)]:
            changed = modified(source)
            if changed is None or changed > built:
                return f"{os.path.relpath(source, ROOT)} {'is gone' if changed is None else 'is newer'}"
    return None


def sources(path):
    """The sources of a program, as Cargo lists them beside it: `program: source source`, spaces in names escaped."""
    try:
        with open(path) as listed:
            _, _, rest = listed.readline().rstrip("\n").partition(": ")
    except OSError:
        return []
    names = [re.sub(r"\\(.)", r"\1", name) for name in re.split(r"(?<!\\) ", rest) if name]
    # `build.dep-info-basedir` makes them relative.
    return [os.path.join(ROOT, name) for name in names]


def modified(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def estimate(release):
    """How long the build takes, in words."""
    if os.path.isdir(os.path.join(release, "deps")):
        return "only what has changed is compiled, in one to five minutes"
    cores = os.cpu_count() or 1
    return f"from nothing this takes about {max(LEAST, round(MINUTES / cores))} minutes on {cores} processors, twice that on slow ones, once"
