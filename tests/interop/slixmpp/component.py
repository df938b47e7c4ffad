"""A component that echoes, and a user of it: component.py PORT CERTIFICATE USER PASSWORD COMPONENT_PORT DOMAIN SECRET.

Both with slixmpp. The component is discovered, becomes a contact, echoes a message, and a wrong secret gets it nowhere.
Fails with a traceback.
"""

import asyncio
import sys

from slixmpp import ClientXMPP, ComponentXMPP

PATIENCE = 20


class Echo(ComponentXMPP):
    def __init__(self, domain, secret, port):
        super().__init__(domain, secret, "127.0.0.1", port)
        self.ready = asyncio.Event()
        self.refused = asyncio.Event()
        self.register_plugin("xep_0030")
        self.plugin["xep_0030"].add_identity(category="gateway", itype="irc", name="Echo")
        self.auto_authorize = self.auto_subscribe = True
        self.add_event_handler("session_start", lambda _: self.ready.set())
        self.add_event_handler("stream_error", lambda _: self.refused.set())
        self.add_event_handler("message", self.echo)

    def echo(self, message):
        if message["type"] != "error":
            message.reply(message["body"].upper()).send()


class User(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        self.ca_certs = certificate
        self.signed_in = asyncio.Event()
        self.messages = asyncio.Queue()
        self.subscribed = asyncio.Event()
        self.register_plugin("xep_0030")
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("message", self.messages.put_nowait)
        self.add_event_handler("message_error", self.messages.put_nowait)
        self.add_event_handler("presence_subscribed", lambda _: self.subscribed.set())


async def main(port, certificate, user, password, component_port, domain, secret):
    wrong = Echo(domain, "wrong", int(component_port))
    wrong.connect()
    await asyncio.wait_for(wrong.refused.wait(), PATIENCE)
    assert not wrong.ready.is_set()
    wrong.abort()

    echo = Echo(domain, secret, int(component_port))
    echo.connect()
    await asyncio.wait_for(echo.ready.wait(), PATIENCE)
    alice = User(user, password, certificate)
    alice.connect("127.0.0.1", int(port))
    await asyncio.wait_for(alice.signed_in.wait(), PATIENCE)
    await alice.get_roster()
    alice.send_presence()

    disco = alice.plugin["xep_0030"]
    items = await disco.get_items(jid=alice.boundjid.domain, timeout=PATIENCE)
    assert domain in [jid for jid, _, _ in items["disco_items"]["items"]], items
    info = await disco.get_info(jid=domain, timeout=PATIENCE)
    assert ("gateway", "irc") in [identity[:2] for identity in info["disco_info"]["identities"]], info

    alice.send_presence_subscription(pto=f"friend@{domain}")
    await asyncio.wait_for(alice.subscribed.wait(), PATIENCE)
    alice.send_message(mto=f"friend@{domain}", mbody="grüße", mtype="chat")
    message = await asyncio.wait_for(alice.messages.get(), PATIENCE)
    assert (message["body"], message["from"].bare) == ("GRÜSSE", f"friend@{domain}"), message

    await echo.disconnect()
    alice.send_message(mto=f"friend@{domain}", mbody="still there?", mtype="chat")
    message = await asyncio.wait_for(alice.messages.get(), PATIENCE)
    assert message["error"]["condition"] == "service-unavailable", message
    await alice.disconnect()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 4 * PATIENCE))
