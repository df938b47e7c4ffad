"""A gateway that acts for a user: privilege.py PORT CERTIFICATE USER PASSWORD COMPONENT_PORT DOMAIN SECRET.

Both with slixmpp, the gateway by its plugin for XEP-0356. It learns what it may do, puts a contact into the user's roster, sends a
message in the user's name, of which the user's client gets a copy, and publishes an item. What it may not do is refused. Fails with a
traceback.
"""

import asyncio
import sys
from xml.etree import ElementTree

from slixmpp import ClientXMPP, ComponentXMPP, Iq, Message
from slixmpp.plugins.xep_0356.privilege import PrivilegedIqError

PATIENCE = 20


class Gateway(ComponentXMPP):
    def __init__(self, domain, secret, port):
        super().__init__(domain, secret, "127.0.0.1", port)
        self.told = asyncio.Event()
        self.advertisements = 0
        self.presences = asyncio.Queue()
        self.register_plugin("xep_0356")
        self.register_plugin("xep_0060")
        self.register_plugin("xep_0092")
        # The library answers the probe of a user that its own roster does not know by "unsubscribed"; a gateway knows its users.
        self.del_event_handler("presence_probe", self._handle_probe)
        self.add_event_handler("privileges_advertised", self.count)
        self.add_event_handler("presence_available", self.note)

    def count(self, _):
        self.advertisements += 1
        self.told.set()

    def note(self, presence):
        # What a contact at the gateway gets is addressed to the contact.
        if presence["to"] == self.boundjid.bare:
            self.presences.put_nowait(presence)


class User(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        self.ca_certs = certificate
        self.signed_in = asyncio.Event()
        self.copies = asyncio.Queue()
        self.updates = asyncio.Queue()
        self.register_plugin("xep_0280")
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("carbon_sent", self.copies.put_nowait)
        self.add_event_handler("roster_update", self.updates.put_nowait)


async def main(port, certificate, user, password, component_port, domain, secret):
    alice = User(user, password, certificate)
    alice.connect("127.0.0.1", int(port))
    await asyncio.wait_for(alice.signed_in.wait(), PATIENCE)
    await alice.plugin["xep_0280"].enable()
    await alice.get_roster()
    alice.send_presence()

    gateway = Gateway(domain, secret, int(component_port))
    gateway.connect()
    await asyncio.wait_for(gateway.told.wait(), PATIENCE)
    presence = await asyncio.wait_for(gateway.presences.get(), PATIENCE)
    assert presence["from"] == alice.boundjid, presence

    # The roster: a contact at the gateway, seen by the user's client.
    privileges = gateway.plugin["xep_0356"]
    contact = f"pal@{domain}"
    item = {"name": "Pal", "subscription": "both", "groups": ["Gateway"]}
    await privileges.set_roster(user, {contact: item}, timeout=PATIENCE)
    roster = (await privileges.get_roster(user, timeout=PATIENCE))["roster"]["items"]
    assert roster[contact]["subscription"] == "both", roster
    # The push is on its way of its own.
    while alice.client_roster[contact]["subscription"] != "both":
        await asyncio.wait_for(alice.updates.get(), PATIENCE)

    # A message in the user's name.
    message = Message()
    message["from"], message["to"], message["type"], message["body"] = user, contact, "chat", "written elsewhere"
    privileges.send_privileged_message(message)
    copy = await asyncio.wait_for(alice.copies.get(), PATIENCE)
    assert copy["carbon_sent"]["body"] == "written elsewhere", copy

    # A request in the user's name, and one that the server refuses.
    publish = Iq(stype="set", sfrom=user, sto=user)
    publish["pubsub"]["publish"]["node"] = "urn:example:node"
    publish["pubsub"]["publish"]["item"]["id"] = "1"
    publish["pubsub"]["publish"]["item"]["payload"] = ElementTree.Element("{urn:example}mark")
    answer = await privileges.send_privileged_iq(publish)
    assert answer["type"] == "result", answer
    granted = privileges.granted_privileges[alice.boundjid.domain].iq
    assert granted["http://jabber.org/protocol/pubsub"] == "both", granted
    # The plugin does not know what is granted any more: the server has to refuse it.
    granted["jabber:iq:version"] = "both"
    refused = Iq(stype="get", sfrom=user, sto=user)
    refused["software_version"]
    try:
        await privileges.send_privileged_iq(refused)
        raise AssertionError("a request without a permission was answered")
    except PrivilegedIqError as error:
        # By the element: the library looks for errors of components in the namespace of clients.
        assert error.iq.xml.find(".//{urn:ietf:params:xml:ns:xmpp-stanzas}forbidden") is not None, error.iq
    # In a farm, too, it is told once, and each presence comes once.
    assert gateway.advertisements == 1, gateway.advertisements
    assert gateway.presences.empty(), gateway.presences.get_nowait()
    await gateway.disconnect()
    await alice.disconnect()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 6 * PATIENCE))
