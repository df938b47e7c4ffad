"""Two accounts meet and chat, with slixmpp: chat.py tcp|tls PORT CERTIFICATE USER USER PASSWORD. Fails with a traceback."""

import asyncio
import sys

from slixmpp import ClientXMPP

PATIENCE = 20


class Client(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        self.ca_certs = certificate
        self.signed_in = asyncio.Event()
        self.refused = asyncio.Event()
        self.messages = asyncio.Queue()
        self.presences = asyncio.Queue()
        self.register_plugin("xep_0030")
        self.register_plugin("xep_0199")
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("failed_all_auth", lambda _: self.refused.set())
        self.add_event_handler("message", self.messages.put_nowait)
        self.add_event_handler("presence_available", self.presences.put_nowait)
        self.gone = asyncio.Queue()
        self.add_event_handler("presence_unavailable", self.gone.put_nowait)

    def call(self, way, port):
        self.enable_starttls = way == "tcp"
        self.enable_direct_tls = way == "tls"
        self.connect("127.0.0.1", port)

    async def sign_in(self, way, port):
        self.call(way, port)
        await asyncio.wait_for(self.signed_in.wait(), PATIENCE)

    async def presence_of(self, bare):
        while True:
            presence = await asyncio.wait_for(self.presences.get(), PATIENCE)
            if presence["from"].bare == bare:
                return presence


async def meet(alice, bob):
    """The roster is empty; then each is in the other's, and sees him."""
    roster = await alice.get_roster()
    assert not roster["roster"]["items"], roster
    await bob.get_roster()
    for client in (alice, bob):
        client.auto_authorize = client.auto_subscribe = True
        client.send_presence(pstatus="here")
    alice.send_presence_subscription(pto=bob.boundjid.bare)
    assert (await alice.presence_of(bob.boundjid.bare))["status"] == "here"
    assert (await bob.presence_of(alice.boundjid.bare))["status"] == "here"
    await alice.get_roster()
    # Roster pushes; the whole test has a deadline.
    while alice.client_roster[bob.boundjid.bare]["subscription"] != "both":
        await alice.plugin["xep_0199"].ping(alice.boundjid.domain, timeout=PATIENCE)


async def chat(alice, bob):
    alice.send_message(mto=bob.boundjid.bare, mbody="Grüße & <Kisses>", mtype="chat")
    message = await asyncio.wait_for(bob.messages.get(), PATIENCE)
    assert (message["body"], message["from"]) == ("Grüße & <Kisses>", alice.boundjid), message
    message.reply("Thank you").send()
    assert (await asyncio.wait_for(alice.messages.get(), PATIENCE))["body"] == "Thank you"


async def main(way, port, certificate, one, two, password):
    alice, bob = (Client(jid, password, certificate) for jid in (one, two))
    for client in (alice, bob):
        await client.sign_in(way, port)
        info = await client.plugin["xep_0030"].get_info(jid=client.boundjid.domain, timeout=PATIENCE)
        assert "urn:xmpp:ping" in info["disco_info"]["features"], info
        assert await client.plugin["xep_0199"].ping(client.boundjid.domain, timeout=PATIENCE) is not None
    await meet(alice, bob)
    await chat(alice, bob)
    stranger = Client(one, "wrong", certificate)
    stranger.call(way, port)
    await asyncio.wait_for(stranger.refused.wait(), PATIENCE)
    for client in (alice, bob):
        await client.disconnect()


if __name__ == "__main__":
    way, port, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(way, int(port), *rest), 4 * PATIENCE))
