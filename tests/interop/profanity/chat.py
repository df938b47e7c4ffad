"""profanity and slixmpp chat: chat.py PORT CERTIFICATE USER USER PASSWORD. Fails with what the terminal showed.

profanity, the first user, sits at a terminal of its own and signs in after STARTTLS; slixmpp is the second.
"""

import asyncio
import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import sys
import tempfile
import termios

from slixmpp import ClientXMPP

PATIENCE = 20
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][0-9A-B]|[=>78]|\][^\x07]*\x07)")


class Profanity:
    """The program, and all that it wrote to its terminal."""

    def __init__(self, home):
        self.shown = ""
        self.changed = asyncio.Event()
        self.id, self.terminal = pty.fork()
        if self.id == 0:
            places = {"HOME": home, "TERM": "xterm", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
            os.execvpe("profanity", ["profanity"], places)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        asyncio.get_running_loop().add_reader(self.terminal, self.read)

    def read(self):
        try:
            text = os.read(self.terminal, 65536).decode(errors="replace")
        except OSError:
            # It has ended.
            text = ""
        if not text:
            asyncio.get_running_loop().remove_reader(self.terminal)
        self.shown += text
        self.changed.set()

    def words(self):
        """Without what moves the cursor and colours the text."""
        return " ".join(ESCAPES.sub(" ", self.shown).split())

    async def until(self, words):
        async def wait():
            while words not in self.words():
                self.changed.clear()
                await self.changed.wait()

        try:
            await asyncio.wait_for(wait(), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"profanity did not show {words!r}, but: {self.words()[-3000:]}") from None

    def type(self, line):
        os.write(self.terminal, line.encode() + b"\r")

    def end(self):
        os.kill(self.id, signal.SIGKILL)
        os.waitpid(self.id, 0)


class Friend(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        self.ca_certs = certificate
        self.signed_in = asyncio.Event()
        self.messages = asyncio.Queue()
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("message", self.messages.put_nowait)


async def chat(profanity, port, certificate, one, two, password):
    friend = Friend(two, password, certificate)
    friend.connect("127.0.0.1", port)
    await asyncio.wait_for(friend.signed_in.wait(), PATIENCE)
    friend.send_presence()
    await profanity.until("Type '/help'")
    profanity.type(f"/connect {one} server 127.0.0.1 port {port} tls trust")
    await profanity.until("Enter password:")
    profanity.type(password)
    await profanity.until("logged in successfully")
    profanity.type(f"/msg {two} hello-from-profanity")
    heard = await asyncio.wait_for(friend.messages.get(), PATIENCE)
    assert (heard["body"], heard["from"].bare) == ("hello-from-profanity", one), heard
    heard.reply("thanks-from-slixmpp").send()
    await profanity.until("thanks-from-slixmpp")
    profanity.type("/quit")
    await friend.disconnect()


async def main(port, certificate, *rest):
    with tempfile.TemporaryDirectory() as home:
        # Else it asks at the first start, and for OMEMO and the like.
        config = pathlib.Path(home, ".config/profanity/profrc")
        config.parent.mkdir(parents=True)
        config.write_text("[ui]\nsplash=true\n")
        profanity = Profanity(home)
        try:
            await chat(profanity, int(port), certificate, *rest)
        finally:
            profanity.end()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 4 * PATIENCE))
