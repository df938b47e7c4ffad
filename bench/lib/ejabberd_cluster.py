"""A cluster of Debian's ejabberd on loopback, as those who run it would set it up, for what a farm of Belfry is measured by."""

import os
import re
import secrets

from .chat_servers import ITERATIONS, PASSWORD, Ejabberd, wait_for
from .procs import family, free_port, thread_usage
from .servers import DOMAIN, ROOT

# asm-generic/socket.h: SOL_SOCKET and SO_REUSEPORT. ejabberd cannot set it for its listeners; Erlang does for all of a node's.
REUSE_PORT = "[{raw, 1, 15, <<1:32/native>>}]"


class EjabberdCluster:
    """The first node, with the accounts, and others that join it one after the other. All take clients at `chat_port`: the kernel divides
    connections among them, as it does among the nodes of a farm of Belfry. Every node has an address of its own for the others, at one port, so that
    no epmd runs (`ERL_DIST_PORT` of ejabberdctl). All accounts have the keys of one password: making keys of each would take minutes."""

    name = "ejabberd"
    password = PASSWORD

    def __init__(self, processes, folder, count, accounts, schedulers, archive, modules="least"):
        self.processes, self.accounts, self.schedulers = processes, accounts, schedulers
        self.archive, self.modules = archive, modules
        self.chat_port, self.links = free_port(), free_port()
        self.cookie = secrets.token_hex(16)
        self.nodes = []
        for number in range(1, count + 1):
            self.start(f"{folder}/ejabberd-{number}", number)

    def start(self, folder, number):
        """Returns once the node serves, with copies of all tables."""
        os.makedirs(f"{folder}/db")
        # Erlang wants a cookie that only its owner can read.
        with open(os.open(f"{folder}/.erlang.cookie", os.O_CREAT | os.O_WRONLY, 0o400), "w") as file:
            file.write(self.cookie)
        with open(f"{folder}/ejabberd.yml", "w") as config:
            config.write(self.configuration())
        environment = {
            "EJABBERD_CONFIG_PATH": f"{folder}/ejabberd.yml", "EJABBERD_LOG_PATH": f"{folder}/ejabberd.log",
            "ERL_LIBS": Ejabberd.LIBRARIES, "ERL_MAX_PORTS": "32000", "ERL_CRASH_DUMP": f"{folder}/crash", "HOME": folder,
        }  # fmt: skip
        command = [
            "env", *(f"{name}={value}" for name, value in environment.items()), "erl", "-noinput", *self.flags(number),
            "-mnesia", "dir", f'"{folder}/db"', "-eval", self.first() if number == 1 else self.joins(number),
        ]  # fmt: skip
        process = self.processes.start(command, folder, f"{folder}/log")
        self.nodes.append(process)
        wait_for(process, self.chat_port, seconds=120, ready=f"the cluster has {number} nodes")

    def configuration(self):
        general, modules = halves("farm")
        if self.modules == "packaged":
            modules = halves("xmpp")[1]
        words = {"DOMAIN": DOMAIN, "PORT": self.chat_port, "ARCHIVE": "mod_mam:\n    default: always" if self.archive else ""}
        return re.sub(r"@([A-Z]+)@", lambda word: str(words[word[1]]), general + modules)

    def flags(self, number):
        """As many schedulers as a node of Belfry has shards. They sleep when there is nothing to do (`+sbwt`): otherwise they look for work
        for a while first, which would count as CPU of messages, and takes it from the other nodes of the machine."""
        address = f"{{127,0,0,{number}}}"
        return [
            "+K", "true", "+P", "250000", "+S", f"{self.schedulers}:{self.schedulers}", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none",
            "-name", node(number), "-start_epmd", "false", "-erl_epmd_port", f"{self.links}",
            "-kernel", "inet_dist_use_interface", address, "-kernel", "inet_default_listen_options", REUSE_PORT,
        ]  # fmt: skip

    def first(self):
        return f"""
            {{ok, _}} = application:ensure_all_started(ejabberd),
            Keys = ejabberd_auth:password_to_scram(<<"{DOMAIN}">>, <<"{PASSWORD}">>),
            {ITERATIONS} = element(6, Keys),
            [mnesia:dirty_write(passwd, {{passwd, {{<<"user", (integer_to_binary(N))/binary>>, <<"{DOMAIN}">>}}, Keys}})
             || N <- lists:seq(0, {self.accounts} - 1)],
            io:format("the cluster has 1 nodes~n")."""

    def joins(self, number):
        """What `ejabberdctl join_cluster` does; then a look that nothing is at fewer nodes than there are."""
        return f"""
            {{ok, _}} = application:ensure_all_started(ejabberd),
            ok = ejabberd_cluster:join('{node(1)}'),
            {number} = length(ejabberd_cluster:get_nodes()),
            [{number} = length(mnesia:table_info(Table, where_to_write)) || Table <- [passwd, roster, session, offline_msg]],
            {self.accounts} = mnesia:table_info(passwd, size),
            io:format("the cluster has {number} nodes~n")."""

    def cpu(self):
        """Seconds of all nodes."""
        return sum(thread_usage(pid)[0] for process in self.nodes for pid in family(process.pid))

    @staticmethod
    def version():
        return Ejabberd.version()


def halves(folder):
    """A configuration until its modules, and these."""
    with open(f"{ROOT}/bench/{folder}/ejabberd.yml") as file:
        general, heading, modules = file.read().partition("\nmodules:\n")
    return general, heading + modules


def node(number):
    return f"n{number}@127.0.0.{number}"
