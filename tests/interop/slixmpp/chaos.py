"""Chat clients that stay at work while a farm fails: chaos.py CERTIFICATE PASSWORD SEED ROOM PORT,… USER@DOMAIN,…

Each client signs in at one of the ports, says something to another one every now and then, is in the room, and has the next client as a
contact. When its stream ends it connects to another port, and resumes its session or begins a new one. Events go to standard output, a line of
JSON each. Orders come as lines on standard input: `stop` says nothing more, `views` prints how each client sees the others, `archives`
prints the texts in each user's archive."""

import asyncio
import json
import logging
import random
import sys
import time

from slixmpp import ClientXMPP

# Seconds between two messages of a client.
BETWEEN = (0.1, 0.6)
# Seconds for a connection attempt, up to the session.
ATTEMPT = 6
# Seconds until the room is entered again.
ENTRY = 2
# Seconds for a page of an archive; a node that is behind, or whose owner has died, needs some.
PAGE = 20
# Seconds between two pings: a connection that a node has left without a word is given up after twice that.
PING = 4


def tell(event, **what):
    print(json.dumps({"event": event, **what}), flush=True)


class Client(ClientXMPP):
    def __init__(self, jid, password, certificate, ports, chance, room):
        super().__init__(jid, password)
        self.ca_certs, self.enable_direct_tls = certificate, False
        self.ports, self.chance, self.room, self.bare = ports, chance, room, jid
        self.nick = jid.split("@")[0]
        for plugin in ("xep_0045", "xep_0198", "xep_0199", "xep_0313"):
            self.register_plugin(plugin)
        # An acknowledgement is asked for after each stanza.
        self.plugin["xep_0198"].window = 1
        self.auto_authorize = self.auto_subscribe = True
        self.is_up, self.tried, self.said, self.contact = False, 0.0, 0, None
        self.full = None
        self.is_in_room, self.entered, self.occupants, self.available = False, 0.0, set(), set()
        # When the contact is asked for its presence again, after an error.
        self.subscribes_at = None
        self.add_event_handler("session_bind", self.bind)
        self.add_event_handler("session_start", lambda _: self.begin())
        self.add_event_handler("session_resumed", lambda _: self.come_back())
        self.add_event_handler("disconnected", lambda _: self.go())
        self.add_event_handler("connection_failed", lambda _: self.go())
        self.add_event_handler("message", self.hear)
        self.add_event_handler("message_error", lambda message: tell("bounced", id=message["id"], condition=message["error"]["condition"]))
        self.add_event_handler("stanza_acked", self.acknowledge)
        self.add_event_handler("presence_available", lambda presence: self.see(presence, True))
        self.add_event_handler("presence_unavailable", lambda presence: self.see(presence, False))
        self.add_event_handler("presence_error", self.handle_presence_error)
        self.add_event_handler("groupchat_presence", self.see_occupant)

    def bind(self, full):
        # A resumed session reports none, and keeps the one that it has.
        if full.resource:
            self.full = str(full)

    def begin(self):
        # A session that could not be resumed: its view of the others has ended with it.
        self.is_in_room, self.occupants, self.available = False, set(), set()

        async def ask():
            try:
                await self.get_roster(timeout=ATTEMPT)
            except Exception:
                self.abort()
                return
            self.send_presence()
            self.subscribe()
            self.is_up = True
            tell("session", user=self.bare)

        self.asked = asyncio.ensure_future(ask())

    def come_back(self):
        self.is_up = True
        tell("resumed", user=self.bare)

    def go(self):
        if self.is_up:
            tell("disconnected", user=self.bare)
        self.is_up = False
        self.cancel_connection_attempt()
        # At once, but not in a loop.
        self.tried = min(self.tried, time.monotonic() - ATTEMPT + 0.3)

    def hear(self, message):
        if message["body"] and message["type"] != "error":
            tell("heard", user=self.bare, id=message["body"])

    def acknowledge(self, stanza):
        if stanza.name == "message":
            tell("acked", id=stanza["id"])

    def see(self, presence, is_available):
        if presence["from"].bare == self.contact:
            (self.available.add if is_available else self.available.discard)(presence["from"].full)

    def subscribe(self):
        self.subscribes_at = None
        self.send_presence_subscription(pto=self.contact)

    def handle_presence_error(self, presence):
        # RFC 6121 §8.1: the server could not take it to the contact. A silent loss is not made up for.
        if presence["from"].bare == self.contact:
            tell("presence_error", user=self.bare, condition=presence["error"]["condition"])
            self.subscribes_at = time.monotonic() + ENTRY

    def see_occupant(self, presence):
        nick, is_there = presence["from"].resource, presence["type"] != "unavailable"
        if nick == self.nick:
            self.is_in_room = is_there
            if not is_there:
                self.occupants = set()
            elif presence.xml.find(".//{http://jabber.org/protocol/muc#user}status[@code='201']") is not None:
                # XEP-0045 §10.1.2: an instant room.
                form = "<x xmlns='jabber:x:data' type='submit'/>"
                query = f"<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>"
                self.send_raw(f"<iq type='set' id='instant' to='{self.room}'>{query}</iq>")
        (self.occupants.add if is_there else self.occupants.discard)(nick)

    def say(self, other):
        self.said += 1
        mark = f"{self.nick}-{self.said}"
        message = self.make_message(mto=other.bare, mbody=mark, mtype="chat")
        message["id"] = mark
        tell("sent", id=mark, user=self.bare, to=other.bare)
        message.send()

    def look(self):
        """Connects, or enters the room, where it is time to."""
        now = time.monotonic()
        if not self.is_up and now - self.tried > ATTEMPT:
            self.tried = now
            if self.transport:
                self.abort()
            self.connect("127.0.0.1", self.chance.choice(self.ports))
        if self.is_up and not self.is_in_room and now - self.entered > ENTRY:
            self.entered = now
            self.plugin["xep_0045"].join_muc(self.room, self.nick)
        if self.is_up and self.subscribes_at is not None and now > self.subscribes_at:
            self.subscribe()

    async def stay(self):
        """Ends a connection that answers nothing."""
        while True:
            await asyncio.sleep(PING)
            if not self.is_up:
                continue
            try:
                await self.plugin["xep_0199"].ping(self.boundjid.domain, timeout=2 * PING)
            except Exception:
                if self.is_up:
                    self.abort()

    def view(self):
        return {
            "user": self.bare, "is_up": self.is_up, "full": self.full, "is_in_room": self.is_in_room,
            "occupants": sorted(self.occupants), "contact": self.contact, "available": sorted(self.available),
            "subscription": self.client_roster[self.contact]["subscription"],
        }  # fmt: skip

    async def archive(self):
        """The texts in the archive. A page that fails ends it: the library's own iteration takes an error for the end."""
        found, rsm = [], {"max": 100}
        while True:
            page = await self.plugin["xep_0313"].retrieve(rsm=rsm, timeout=PAGE)
            results = [result["mam_result"] for result in page["mam"]["results"]]
            found += [result["forwarded"]["stanza"]["body"] for result in results]
            if page["mam_fin"]["complete"] == "true":
                return [body for body in found if body]
            rsm["after"] = page["mam_fin"]["rsm"]["last"]


class Load:
    def __init__(self, clients):
        self.clients, self.is_over = clients, False

    async def connect(self):
        while True:
            for client in self.clients:
                client.look()
            await asyncio.sleep(0.1)

    async def talk(self, client):
        others = [other for other in self.clients if other is not client]
        while not self.is_over:
            await asyncio.sleep(client.chance.uniform(*BETWEEN))
            if client.is_up and not self.is_over:
                client.say(client.chance.choice(others))

    async def read_archive(self, client):
        """Reads it until it was read to the end in one stream."""
        while True:
            try:
                tell("archive", user=client.bare, ids=await client.archive())
                return
            except Exception as fault:
                tell("archive_fault", user=client.bare, fault=repr(fault))
            await asyncio.sleep(ENTRY)

    async def obey(self, order):
        if order == "stop":
            self.is_over = True
        elif order == "views":
            tell("views", clients=[client.view() for client in self.clients])
        elif order == "archives":
            await asyncio.gather(*(self.read_archive(client) for client in self.clients))


async def main(certificate, password, seed, room, ports, users):
    # The library writes each end of a stream as an error.
    logging.disable(logging.CRITICAL)
    users, ports = users.split(","), [int(port) for port in ports.split(",")]
    clients = [Client(user, password, certificate, ports, random.Random(f"{seed}{user}"), room) for user in users]
    for number, client in enumerate(clients):
        client.contact = users[(number + 1) % len(users)]
    load = Load(clients)
    tasks = [load.connect(), *(load.talk(client) for client in clients), *(client.stay() for client in clients)]
    running = [asyncio.ensure_future(task) for task in tasks]
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        running.append(asyncio.ensure_future(load.obey(line.decode().strip())))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
