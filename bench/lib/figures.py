"""Figures that `bench/all` compares with the kept ones. A bench records what people compare; alone it only prints."""

import json
import os

# Names the file that figures are appended to, a line of JSON each.
FILE = "BENCH_FIGURES"


def record_figure(name, value, unit="ratio"):
    """A figure by a name that stays: `call, CPU to kamailio-fm`. Less is better in all of them."""
    path = os.environ.get(FILE)
    if path and value is not None:
        with open(path, "a") as lines:
            lines.write(json.dumps({"name": name, "value": value, "unit": unit}) + "\n")


def read(path):
    """What was recorded there: value and unit by name, the last one of each."""
    if not os.path.exists(path):
        return {}
    with open(path) as lines:
        rows = [json.loads(line) for line in lines]
    return {row["name"]: (row["value"], row["unit"]) for row in rows}
