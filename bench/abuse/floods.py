"""Floods of strangers against one node on loopback, each a process of its own, bounded in rate and time. A flood counts
what it sent and what came back, and ends by itself."""

import base64
import hashlib
import hmac
import multiprocessing
import os
import random
import re
import socket
import time

# Strangers' own addresses, so that what a server counts by source is spread as over a botnet, and apart from the served.
SOURCES = [f"127.66.{third}.{fourth}" for third in range(1, 5) for fourth in range(1, 65)]
BOMB_DEPTH = 60


class Flood:
    """One kind of abuse. `attack` is called until the time is over; it paces itself by `pause`."""

    name = ""
    # Units a second that are aimed at; a loaded machine makes fewer.
    rate = 100

    def __init__(self, node, seconds):
        self.node, self.seconds = node, seconds
        self.sent = multiprocessing.Value("q", 0)
        self.answered = multiprocessing.Value("q", 0)
        self.process = multiprocessing.Process(target=self.run, daemon=True)

    def start(self):
        self.process.start()

    def finish(self):
        self.process.join(self.seconds + 30)
        if self.process.is_alive():
            self.process.kill()

    def run(self):
        random.seed(self.name)
        os.nice(5)
        self.began = time.monotonic()
        self.end = self.began + self.seconds
        self.prepare()
        while time.monotonic() < self.end:
            self.attack()
            self.pause()

    def prepare(self):
        pass

    def attack(self):
        raise NotImplementedError

    def pause(self):
        ahead = self.sent.value / self.rate - (time.monotonic() - self.began)
        if ahead > 0:
            time.sleep(min(ahead, 1))

    def count(self, sent=0, answered=0):
        self.sent.value += sent
        self.answered.value += answered


def udp(source):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.bind((source, 0))
    out.setblocking(False)
    return out


def drain(sockets):
    """Datagrams that have come, and nothing is done with them."""
    count = 0
    for one in sockets:
        try:
            while one.recv(65536):
                count += 1
        except OSError:
            pass
    return count


def sip_request(method, uri, source, to, number, extra="", body=""):
    host, port = source.getsockname()
    length = len(body.encode())
    return (
        f"{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {host}:{port};branch=z9hG4bK{random.getrandbits(60):x};rport\r\n"
        f"Max-Forwards: 70\r\nFrom: <sip:stranger{number}@elsewhere.test>;tag={random.getrandbits(32):x}\r\n"
        f"To: <{to}>\r\nCall-ID: {random.getrandbits(64):x}@{host}\r\nCSeq: 1 {method}\r\n"
        f"Contact: <sip:stranger@{host}:{port}>\r\n{extra}Content-Length: {length}\r\n\r\n{body}"
    ).encode()


class Invites(Flood):
    """INVITEs of strangers to accounts that are there, accounts that are not, and other people's hosts; never acknowledged."""

    name = "INVITEs of strangers"
    rate = 2_000

    def prepare(self):
        self.sockets = [udp(source) for source in SOURCES]

    def attack(self):
        for _ in range(50):
            source, number = random.choice(self.sockets), self.sent.value
            user = random.choice([f"user{number % 400}@{self.node.domain}", f"absent{number}@{self.node.domain}", "a@203.0.113.9"])
            try:
                source.sendto(sip_request("INVITE", f"sip:{user}", source, f"sip:{user}", number), self.node.sip)
            except OSError:
                pass
            self.count(sent=1)
        self.count(answered=drain(self.sockets))


class WrongPasswords(Flood):
    """REGISTERs with genuine challenges and wrong answers, for accounts that are in use."""

    name = "REGISTERs with wrong passwords"
    rate = 300

    def prepare(self):
        self.sockets = [udp(source) for source in SOURCES[:64]]

    def attack(self):
        for source in random.sample(self.sockets, 8):
            user = f"user{random.randrange(400)}"
            uri = f"sip:{self.node.domain}"
            aor = f"sip:{user}@{self.node.domain}"
            source.sendto(sip_request("REGISTER", uri, source, aor, 0).replace(b"From: <sip:stranger0@elsewhere.test>", f"From: <{aor}>".encode()), self.node.sip)
            self.count(sent=1)
            source.settimeout(0.05)
            try:
                challenge = source.recv(65536).decode(errors="replace")
            except OSError:
                continue
            finally:
                source.setblocking(False)
            self.count(answered=1)
            nonce = re.search(r'nonce="([^"]+)"', challenge)
            call_id = re.search(r"Call-ID: (\S+)", challenge)
            if not (nonce and call_id):
                continue
            proof = f'Authorization: Digest username="{user}", realm="{self.node.domain}", nonce="{nonce[1]}", uri="{uri}", response="{"0" * 32}", algorithm=MD5\r\n'
            again = sip_request("REGISTER", uri, source, aor, 0, proof).replace(b"From: <sip:stranger0@elsewhere.test>", f"From: <{aor}>".encode())
            again = re.sub(rb"Call-ID: \S+", b"Call-ID: " + call_id[1].encode(), again).replace(b"CSeq: 1", b"CSeq: 2")
            try:
                source.sendto(again, self.node.sip)
            except OSError:
                pass
            self.count(sent=1)
        self.count(answered=drain(self.sockets))


class Held(Flood):
    """Connections that are opened and held, at several listeners, while a few of them say one more byte."""

    AT_ONCE = 0
    # How many of those that are open say a byte in a turn.
    TRICKLING = 1
    byte = b"x"

    def prepare(self):
        self.open = []

    def addresses(self):
        raise NotImplementedError

    def first(self):
        """What a connection begins with."""
        return b""

    def attack(self):
        for address in self.addresses():
            one = socket.socket()
            one.settimeout(0.2)
            try:
                one.bind((random.choice(SOURCES), 0))
                one.connect(address)
                one.send(self.first())
                self.open.append(one)
                self.count(sent=1)
            except OSError:
                one.close()
        while len(self.open) > self.AT_ONCE:
            self.open.pop(0).close()
        for one in random.sample(self.open, min(self.TRICKLING, len(self.open))):
            try:
                one.send(self.byte)
            except OSError:
                self.open.remove(one)
                one.close()


class Silent(Held):
    """Connections that say nothing, or a byte now and then, at each listener of TCP."""

    name = "silent connections"
    rate = 400
    AT_ONCE = 3_000
    byte = b"<"

    def addresses(self):
        return self.node.tcp


class SlowHttp(Held):
    """Headers and bodies that come a few bytes at a time, at the listeners of HTTP."""

    name = "slow HTTP"
    rate = 50
    AT_ONCE = 400
    TRICKLING = 20

    def addresses(self):
        return self.node.http

    def first(self):
        return random.choice([b"GET /metrics HTTP/1.1\r\nHost: a\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"])


class Bombs(Flood):
    """Documents whose namespaces, depth and attributes are to grow in memory, before anybody has signed in."""

    name = "XML bombs"
    rate = 40

    def prepare(self):
        space = "u" * 800
        declared = "".join(f"<a{n} xmlns:p{n}='{space}{n}'>" for n in range(BOMB_DEPTH))
        attributes = " ".join(f"x{n}='{n}'" for n in range(1_500))
        entities = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;'>]><x>&b;</x>"
        self.bodies = [declared, "<d>" * 8_000, f"<iq {attributes}/>", entities, "<message>" + "'" * 60_000]

    def attack(self):
        with socket.socket() as one:
            one.settimeout(0.2)
            try:
                one.bind((random.choice(SOURCES), 0))
                one.connect(self.node.chat)
                one.send(stream_head(self.node.domain).encode())
                one.send(random.choice(self.bodies).encode())
                self.count(sent=1)
                while one.recv(65536):
                    self.count(answered=1)
            except OSError:
                pass


def stream_head(domain):
    return f"<?xml version='1.0'?><stream:stream to='{domain}' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"


class ChatClient:
    """As much of a chat client as it takes to misbehave."""

    def __init__(self, node, user, password):
        self.socket = socket.create_connection(node.chat, timeout=10)
        self.buffer = b""
        self.domain = node.domain
        self.send(stream_head(node.domain))
        self.until(b"</stream:features>")
        self.sign_in(user, password)
        self.send(stream_head(node.domain))
        self.until(b"</stream:features>")
        self.send(f"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{os.getpid()}</resource></bind></iq>")
        self.until(b"</iq>")
        self.send("<presence/>")
        self.socket.setblocking(False)

    def send(self, text):
        self.socket.sendall(text.encode())

    def until(self, end):
        while end not in self.buffer:
            more = self.socket.recv(65536)
            if not more:
                raise OSError("the stream ended")
            self.buffer += more
        found, _, self.buffer = self.buffer.partition(end)
        return found + end

    def sign_in(self, user, password):
        """SCRAM-SHA-1 (RFC 5802)."""
        bare = f"n={user},r={random.getrandbits(64):x}"
        self.send(auth("auth", " mechanism='SCRAM-SHA-1'", "n,," + bare))
        challenge = re.search(rb"<challenge[^>]*>([^<]+)<", self.until(b"</challenge>"))
        first = base64.b64decode(challenge[1]).decode()
        fields = dict(part.split("=", 1) for part in first.split(","))
        salted = hashlib.pbkdf2_hmac("sha1", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        key = hmac.digest(salted, b"Client Key", "sha1")
        last = f"c=biws,r={fields['r']}"
        signature = hmac.digest(hashlib.sha1(key).digest(), f"{bare},{first},{last}".encode(), "sha1")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        self.send(auth("response", "", f"{last},p={proof}"))
        self.until(b"</success>")


def auth(name, attributes, text):
    return f"<{name} xmlns='urn:ietf:params:xml:ns:xmpp-sasl'{attributes}>{base64.b64encode(text.encode()).decode()}</{name}>"


class Misbehaving(Flood):
    """Floods of accounts of the node's own: they may sign in, and then do too much."""

    CLIENTS = 8

    def prepare(self):
        self.clients = []

    def client(self):
        if len(self.clients) < self.CLIENTS:
            number = len(self.clients)
            try:
                self.clients.append(ChatClient(self.node, f"{self.account}{number}", self.node.password))
            except OSError:
                time.sleep(0.2)
        return random.choice(self.clients) if self.clients else None

    def attack(self):
        one = self.client()
        if one is None:
            return
        try:
            one.send(self.stanzas())
            self.count(sent=10)
            while one.socket.recv(65536):
                self.count(answered=1)
        except BlockingIOError:
            pass
        except OSError:
            self.clients.remove(one)


class Presences(Misbehaving):
    """Presence to everybody who is served, again and again."""

    name = "presence storms"
    account = "storm"
    rate = 1_000

    def stanzas(self):
        def one():
            to = f"user{random.randrange(400)}@{self.node.domain}"
            return f"<presence to='{to}'><show>{random.choice(['away', 'dnd'])}</show><status>{'&apos;' * 200}</status></presence>"

        return "".join(one() for _ in range(10))


class RoomJoins(Misbehaving):
    """Rooms joined and left as fast as it goes, many of them new."""

    name = "joins of rooms"
    account = "joiner"
    rate = 500

    def stanzas(self):
        def one():
            place = f"room{random.randrange(60)}@conference.{self.node.domain}/n{random.randrange(1000)}"
            join = "<x xmlns='http://jabber.org/protocol/muc'/>"
            return random.choice([f"<presence to='{place}'>{join}</presence>", f"<presence to='{place}' type='unavailable'/>"])

        return "".join(one() for _ in range(10))


KINDS = [Invites, WrongPasswords, Silent, SlowHttp, Bombs, Presences, RoomJoins]
