"""Messages between accounts (RFC 3428) while nodes die: each has an id, and at the end those are counted that were acknowledged and have not
come, and those that have come twice.

All users are behind one socket, which is the contact of each. They register by digest, again and again, and prove each message, too. A
request is repeated as RFC 3261 section 17.1.2 says. One that is refused with 503 is not sent again: it is counted as refused."""

import hashlib
import heapq
import re
import select
import socket
import threading
import time

from .procs import Failure
from .servers import DOMAIN, password

T1, T2, TIMEOUT = 0.5, 4.0, 32.0
# Below the time for which a registration lasts by default, and so often that messages that wait for an address come soon.
REGISTER_EVERY = 300
# A message that was acknowledged with 202 waits for its address, and comes after the next registration.
PATIENCE = 60


class Request:
    """A request of one user until its final response."""

    def __init__(self, method, user, to, ident):
        self.method, self.user, self.to, self.ident = method, user, to, ident
        self.sequence, self.proof, self.tries = 1, "", 0


class Messages:
    """Users `first` … of the database, `count` of them, who send so many messages a second from `start` to `finish`."""

    def __init__(self, target, first, count, rate):
        self.target, self.users, self.rate = ("127.0.0.1", target), list(range(first, first + count)), rate
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        # By branch: the request, its bytes, the interval, its end.
        self.open, self.timers, self.counter = {}, [], 0
        self.replies, self.received = {}, {}
        self.acknowledged, self.refused, self.unanswered, self.sent = set(), 0, 0, 0
        self.registered, self.is_sending, self.has_ended = {}, False, False
        self.fault = None
        self.thread = threading.Thread(target=self.run, name="messages", daemon=True)
        self.thread.start()

    def start(self, patience=60):
        """Sends as soon as all users are registered."""
        deadline = time.monotonic() + patience
        while len(self.registered) < len(self.users):
            self.check()
            if time.monotonic() > deadline:
                raise Failure(f"{len(self.registered)} of {len(self.users)} users who send messages are registered after {patience} s")
            time.sleep(0.1)
        self.is_sending = True

    def finish(self):
        """Sends no more, and returns the counts once each message has come or had its time."""
        self.is_sending = False
        self.registered.clear()
        deadline = time.monotonic() + TIMEOUT + PATIENCE
        while time.monotonic() < deadline and (self.open or self.missing()):
            self.check()
            time.sleep(0.2)
        self.has_ended = True
        self.thread.join()
        self.check()
        doubled = sum(count > 1 for count in self.received.values())
        return {
            "sent": self.sent, "acknowledged": len(self.acknowledged), "refused": self.refused, "unanswered": self.unanswered,
            "lost": len(self.missing()), "doubled": doubled,
        }  # fmt: skip

    def missing(self):
        return [ident for ident in self.acknowledged.copy() if ident not in self.received]

    def check(self):
        if self.fault:
            raise Failure(f"messages: {self.fault}")

    def run(self):
        try:
            next_message = time.monotonic()
            while not self.has_ended:
                readable, _, _ = select.select([self.socket], [], [], 0.02)
                while readable:
                    try:
                        self.handle(self.socket.recv(65_535, socket.MSG_DONTWAIT).decode(errors="replace"))
                    except BlockingIOError:
                        break
                now = time.monotonic()
                self.expire(now)
                self.register(now)
                while self.is_sending and next_message <= now:
                    next_message = max(next_message + 1 / self.rate, now - 1)
                    self.send_message()
                if not self.is_sending:
                    next_message = now
        except Exception as error:  # noqa: BLE001
            self.fault = error

    def register(self, now):
        registering = {request.user for request, *_ in self.open.values() if request.method == "REGISTER"}
        for user in self.users:
            if user not in registering and self.registered.get(user, -REGISTER_EVERY) + REGISTER_EVERY <= now and len(self.open) < 500:
                self.begin(Request("REGISTER", user, user, f"register-{user}-{now:.3f}"))

    def send_message(self):
        sender = self.users[self.sent % len(self.users)]
        receiver = self.users[(self.sent * 7 + 3) % len(self.users)]
        self.sent += 1
        self.begin(Request("MESSAGE", sender, receiver, f"message-{self.sent}"))

    def begin(self, request):
        self.counter += 1
        branch = f"z9hG4bK{self.port}-{self.counter}"
        user, to = f"sip:user{request.user}@{DOMAIN}", f"sip:user{request.to}@{DOMAIN}"
        uri = f"sip:{DOMAIN}" if request.method == "REGISTER" else to
        contact = f"Contact: <sip:user{request.user}@127.0.0.1:{self.port}>\r\nExpires: 3600\r\n" if request.method == "REGISTER" else ""
        kind, body = ("Content-Type: text/plain\r\n", request.ident) if request.method == "MESSAGE" else ("", "")
        call = request.ident if request.method == "MESSAGE" else f"register-{request.user}-{self.port}"
        if request.method == "REGISTER":
            request.sequence = self.counter
        data = (
            f"{request.method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{self.port};branch={branch};rport\r\nMax-Forwards: 70\r\n"
            f"From: <{user}>;tag={self.port}\r\nTo: <{to}>\r\nCall-ID: {call}@{self.port}\r\nCSeq: {request.sequence} {request.method}\r\n"
            f"{contact}{request.proof}{kind}Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
        now = time.monotonic()
        self.open[branch] = (request, data, T1, now + TIMEOUT)
        heapq.heappush(self.timers, (now + T1, branch))
        self.socket.sendto(data, self.target)

    def expire(self, now):
        while self.timers and self.timers[0][0] <= now:
            _, branch = heapq.heappop(self.timers)
            if branch not in self.open:
                continue
            request, data, interval, end = self.open[branch]
            if end <= now:
                del self.open[branch]
                self.unanswered += request.method == "MESSAGE"
                continue
            interval = min(2 * interval, T2)
            self.open[branch] = (request, data, interval, end)
            heapq.heappush(self.timers, (now + interval, branch))
            self.socket.sendto(data, self.target)

    def handle(self, text):
        if text.startswith("SIP/2.0 "):
            self.handle_response(text)
        elif text.startswith("MESSAGE "):
            self.handle_message(text)

    def handle_message(self, text):
        via = header(text, "Via")
        branch = re.search(r"branch=([^;,\s]+)", via[0])[1]
        # A repeated request is of the same transaction (section 17.2.3), also when another node forwards it again.
        if branch not in self.replies:
            ident = text.split("\r\n\r\n", 1)[1]
            self.received[ident] = self.received.get(ident, 0) + 1
            lines = [f"Via: {line}" for line in via]
            to = header(text, "To")[0]
            lines += [f"From: {header(text, 'From')[0]}", f"To: {to};tag=b", f"Call-ID: {header(text, 'Call-ID')[0]}"]
            lines += [f"CSeq: {header(text, 'CSeq')[0]}", "Content-Length: 0"]
            self.replies[branch] = ("SIP/2.0 200 OK\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode()
        self.socket.sendto(self.replies[branch], self.target)

    def handle_response(self, text):
        status = int(text[8:11])
        branch = re.search(r"branch=([^;,\s]+)", header(text, "Via")[0])[1]
        if status < 200 or branch not in self.open:
            return
        request = self.open.pop(branch)[0]
        if status in (401, 407) and request.tries < 3:
            request.tries += 1
            request.sequence += 1
            request.proof = credentials(text, status, request)
            self.begin(request)
        elif request.method == "REGISTER":
            # One that is refused is sent again with the next turn but a few.
            delay = 0 if status == 200 else REGISTER_EVERY - 2
            self.registered[request.user] = time.monotonic() - delay
            if status not in (200, 503):
                self.fault = f"REGISTER of user{request.user}: {text.splitlines()[0]}"
            if status != 200 and not self.is_sending:
                self.registered.pop(request.user)
        elif status in (200, 202):
            self.acknowledged.add(request.ident)
        else:
            self.refused += 1


def header(text, name):
    head = text.split("\r\n\r\n", 1)[0]
    return [line.split(":", 1)[1].strip() for line in head.split("\r\n")[1:] if line.lower().startswith(f"{name.lower()}:")]


def credentials(text, status, request):
    """The line that answers a challenge, by MD5 (RFC 7616)."""
    names = ("WWW-Authenticate", "Authorization") if status == 401 else ("Proxy-Authenticate", "Proxy-Authorization")
    challenges = header(text, names[0])
    challenge = next((one for one in challenges if re.search(r"algorithm=\"?MD5\b", one, re.I) or "algorithm" not in one), challenges[-1])
    realm, nonce = (re.search(rf'\b{name}="([^"]*)"', challenge)[1] for name in ("realm", "nonce"))
    opaque = re.search(r'\bopaque="([^"]*)"', challenge)
    user, uri = f"user{request.user}", f"sip:{DOMAIN}" if request.method == "REGISTER" else f"sip:user{request.to}@{DOMAIN}"

    def digest(value):
        return hashlib.md5(value.encode()).hexdigest()  # noqa: S324

    first, second = digest(f"{user}:{realm}:{password(request.user)}"), digest(f"{request.method}:{uri}")
    response = digest(f"{first}:{nonce}:00000001:b:auth:{second}")
    more = f', opaque="{opaque[1]}"' if opaque else ""
    return (
        f'{names[1]}: Digest username="{user}", realm="{realm}", nonce="{nonce}", uri="{uri}", response="{response}", '
        f'algorithm=MD5, qop=auth, nc=00000001, cnonce="b"{more}\r\n'
    )
