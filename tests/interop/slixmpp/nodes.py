"""A collection of nodes, with slixmpp's plugins for XEP-0060, XEP-0131 and XEP-0030: one owns it, the other subscribes to it (XEP-0248):
nodes.py PORT CERTIFICATE USER USER PASSWORD. Fails with a traceback."""

import asyncio
import sys

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from chat import PATIENCE, Client

PUBSUB = "http://jabber.org/protocol/pubsub"


class User(Client):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password, certificate)
        for plugin in ("xep_0004", "xep_0060", "xep_0131"):
            self.register_plugin(plugin)
        self.arrived = asyncio.Queue()
        for event in ("pubsub_publish", "pubsub_delete"):
            self.add_event_handler(event, self.arrived.put_nowait)

    @property
    def service(self):
        return f"pubsub.{self.boundjid.domain}"

    def form(self, **fields):
        form = self.plugin["xep_0004"].make_form(ftype="submit")
        for name, value in fields.items():
            form.add_field(var=f"pubsub#{name}", value=value)
        return form

    async def create(self, node, kind, **fields):
        plugin = self.plugin["xep_0060"]
        await plugin.create_node(self.service, node, config=self.form(**fields), ntype=kind, timeout=PATIENCE)

    async def subscribe(self, node, **fields):
        options = self.form(**fields)
        options.add_field(var="FORM_TYPE", ftype="hidden", value=f"{PUBSUB}#subscribe_options")
        await self.plugin["xep_0060"].subscribe(self.service, node, options=options, timeout=PATIENCE)

    async def next_event(self):
        """The node of the next event, and the collection by which it comes."""
        message = await asyncio.wait_for(self.arrived.get(), PATIENCE)
        (part,) = message["pubsub_event"].xml
        return part.get("node"), message["headers"]["Collection"]

    async def items(self, **of):
        items = await self.plugin["xep_0030"].get_items(jid=self.service, timeout=PATIENCE, **of)
        return {node for _, node, _ in items["disco_items"]["items"]}


async def main(port, certificate, one, two, password):
    alice, bob = (User(jid, password, certificate) for jid in (one, two))
    for client in (alice, bob):
        await client.sign_in("tcp", port)
        client.send_presence()
    info = await bob.plugin["xep_0030"].get_info(jid=bob.service, timeout=PATIENCE)
    assert f"{PUBSUB}#collections" in info["disco_info"]["features"], info

    await alice.create("blogs", "collection")
    await alice.create("royal", "collection", collection="blogs")
    await alice.create("musings", "leaf", collection="royal")
    assert await bob.items() == {"blogs"}
    assert await bob.items(node="blogs") == {"royal"}
    assert await bob.items(node="royal") == {"musings"}
    info = await bob.plugin["xep_0030"].get_info(jid=bob.service, node="blogs", timeout=PATIENCE)
    assert ("pubsub", "collection", None, None) in info["disco_info"]["identities"], info

    await bob.subscribe("blogs", subscription_type="all", subscription_depth="all")
    payload = ET.Element("{urn:x}x")
    await alice.plugin["xep_0060"].publish(alice.service, "musings", id="1", payload=payload, timeout=PATIENCE)
    assert await bob.next_event() == ("musings", "blogs")

    # What the node does not show, the collection does not show either.
    closed = alice.form(access_model="whitelist")
    closed.add_field(var="FORM_TYPE", ftype="hidden", value=f"{PUBSUB}#node_config")
    await alice.plugin["xep_0060"].set_node_config(alice.service, "musings", closed, timeout=PATIENCE)
    await alice.plugin["xep_0060"].publish(alice.service, "musings", id="2", payload=payload, timeout=PATIENCE)
    try:
        await alice.create("loop", "collection", collection="musings")
        raise AssertionError("a leaf has a node")
    except IqError as error:
        assert error.condition == "not-allowed", error.condition
    await alice.plugin["xep_0060"].delete_node(alice.service, "royal", timeout=PATIENCE)
    assert await bob.next_event() == ("royal", "blogs")
    assert await alice.items() == {"blogs", "musings"}
    for client in (alice, bob):
        await client.disconnect()


if __name__ == "__main__":
    port, certificate, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), certificate, *rest), 4 * PATIENCE))
