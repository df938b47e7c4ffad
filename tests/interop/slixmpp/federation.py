"""Users of two servers meet, with slixmpp: federation.py CERTIFICATE PORT USER PORT USER PASSWORD. The first is ours and has
TLS, the second is at a peer and in the clear. Fails with a traceback."""

import asyncio
import sys

from slixmpp import ClientXMPP
from slixmpp.xmlstream import ET

PATIENCE = 30
MUC = "http://jabber.org/protocol/muc"


class Client(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        if certificate:
            self.ca_certs = certificate
        else:
            self.enable_starttls = self.enable_direct_tls = False
            self.enable_plaintext = True
            self["feature_mechanisms"].unencrypted_plain = True
        self.signed_in = asyncio.Event()
        self.messages = asyncio.Queue()
        self.presences = asyncio.Queue()
        self.register_plugin("xep_0030")
        self.register_plugin("xep_0199")
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("message", self.messages.put_nowait)
        self.add_event_handler("groupchat_message", self.messages.put_nowait)
        self.add_event_handler("presence_available", self.presences.put_nowait)

    async def sign_in(self, port):
        self.connect("127.0.0.1", port)
        await asyncio.wait_for(self.signed_in.wait(), PATIENCE)
        await self.get_roster()
        self.auto_authorize = self.auto_subscribe = True
        self.send_presence(pstatus="here")

    async def hears(self, sender, body):
        while True:
            message = await asyncio.wait_for(self.messages.get(), PATIENCE)
            assert message["type"] != "error", message
            if message["body"] == body and str(message["from"]) == sender:
                return message

    async def sees(self, sender):
        while True:
            presence = await asyncio.wait_for(self.presences.get(), PATIENCE)
            if str(presence["from"]).startswith(sender):
                return presence

    def enter(self, room, nick):
        presence = self.make_presence(pto=f"{room}/{nick}")
        presence.xml.append(ET.Element(f"{{{MUC}}}x"))
        presence.send()

    async def open(self, room):
        iq = self.make_iq_set(ito=room)
        query = ET.SubElement(iq.xml, f"{{{MUC}#owner}}query")
        ET.SubElement(query, "{jabber:x:data}x", type="submit")
        await iq.send(timeout=PATIENCE)


async def chat(one, other):
    for sender, receiver in ((one, other), (other, one)):
        sender.send_message(mto=receiver.boundjid.full, mbody="Grüße & <Kisses>", mtype="chat")
        await receiver.hears(sender.boundjid.full, "Grüße & <Kisses>")


async def ask(one, other):
    for asker, asked in ((one, other), (other, one)):
        await asker.plugin["xep_0199"].ping(asked.boundjid.full, timeout=PATIENCE)
        info = await asker.plugin["xep_0030"].get_info(jid=asked.boundjid.domain, timeout=PATIENCE)
        assert "http://jabber.org/protocol/disco#info" in info["disco_info"]["features"], info


async def subscribe(one, other):
    one.send_presence_subscription(pto=other.boundjid.bare)
    assert (await one.sees(other.boundjid.bare))["status"] == "here"
    assert (await other.sees(one.boundjid.bare))["status"] == "here"


async def meet(host, guest):
    room = f"tea@conference.{host.boundjid.domain}"
    host.enter(room, "host")
    await host.sees(f"{room}/host")
    await host.open(room)
    guest.enter(room, "guest")
    await guest.sees(f"{room}/guest")
    await host.sees(f"{room}/guest")
    guest.send_message(mto=room, mbody="cake?", mtype="groupchat")
    await host.hears(f"{room}/guest", "cake?")
    await guest.hears(f"{room}/guest", "cake?")
    host.send_message(mto=room, mbody="cake!", mtype="groupchat")
    await guest.hears(f"{room}/host", "cake!")


async def main(certificate, port, user, other_port, other_user, password):
    one, other = Client(user, password, certificate), Client(other_user, password, None)
    await one.sign_in(int(port))
    await other.sign_in(int(other_port))
    for step in (chat, ask, subscribe):
        await step(one, other)
        print(step.__name__, flush=True)
    await meet(other, one)
    print("their room", flush=True)
    await meet(one, other)
    print("our room", flush=True)
    for client in (one, other):
        await client.disconnect()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 5 * PATIENCE))
