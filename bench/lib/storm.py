"""Random deaths in a farm with accounts: front ends, back ends, one of each at once, and once in ten NATS or PostgreSQL."""

import random
import signal
import time

from .procs import Failure, say

# Of each role so many go on serving: the death of all back ends, or of all front ends, is an outage and no take-over.
LEFT = 1
# One death in so many is that of NATS or PostgreSQL, in turn.
ENGINES = 10
NAMES = ("front end", "back end", "front end and back end", "NATS", "PostgreSQL")


class Storm:
    """Kills until there were so many deaths, each time once enough nodes serve, and starts again at once what was killed."""

    def __init__(self, farm, options):
        self.farm, self.options, self.chance = farm, options, random.Random(options.seed)
        self.counts = dict.fromkeys(NAMES, 0)
        # Nodes that ended themselves, as they do when they cannot prove their lease.
        self.ended = []

    def run(self, ringer):
        began = time.monotonic()
        while (deaths := sum(self.counts.values())) < self.options.kills and ringer.poll() is None:
            self.watch(self.chance.uniform(*self.options.between))
            at = time.monotonic() - began
            what = self.kill(deaths)
            self.counts[what] += 1
            say(f"{at:7.1f} s  {what}\n")
        self.settle()
        return dict(self.counts)

    def kill(self, deaths):
        if deaths % ENGINES == ENGINES - 1:
            is_nats = deaths // ENGINES % 2 == 0
            (self.kill_nats if is_nats else self.kill_database)()
            return "NATS" if is_nats else "PostgreSQL"
        while True:
            what = self.chance.choice(NAMES[:3])
            roles = {"front end": ["edge"], "back end": ["router"]}.get(what, ["edge", "router"])
            victims = [self.victim(role) for role in roles]
            if all(victims):
                break
            self.watch(0.2)
        for victim in victims:
            victim.kill()
        for victim in victims:
            victim.start()
        return what

    def victim(self, role):
        """One of the nodes of this role that serve; none while too few do."""
        serving = [node for node in self.farm.nodes.values() if node.role == role and node.is_running() and node.is_healthy()]
        return self.chance.choice(serving) if len(serving) > LEFT else None

    def kill_nats(self):
        self.farm.nats_process.kill()
        self.farm.nats_process.wait()
        self.farm.start_nats()

    def kill_database(self):
        """All its sessions end at once, as by a crash, and it reads its log when it starts."""
        database = self.farm.database
        database.process.send_signal(signal.SIGQUIT)
        database.process.wait()
        database.start()

    def watch(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.ended += self.farm.supervise()
            time.sleep(min(0.1, max(0, until - time.monotonic())))

    def settle(self, patience=120):
        """Returns once all nodes serve."""
        deadline = time.monotonic() + patience
        while not all(node.is_running() and node.is_healthy() for node in self.farm.nodes.values()):
            self.watch(0.2)
            if time.monotonic() > deadline:
                raise Failure(f"not all nodes serve {patience} s after the last death")
