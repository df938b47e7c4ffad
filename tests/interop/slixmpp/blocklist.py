"""A real-time block list at a server that another one follows, with slixmpp: blocklist.py PORT OPERATOR USER OTHER ROOM PASSWORD. All three users
are at the first server, in the clear; the room is at the other. Fails with a traceback."""

import asyncio
import hashlib
import sys

from slixmpp.xmlstream import ET

from federation import PATIENCE, Client

NODE = "muc_bans_sha256"
PUBSUB = "http://jabber.org/protocol/pubsub"
STANZAS = "{urn:ietf:params:xml:ns:xmpp-stanzas}"


class User(Client):
    def __init__(self, jid, password):
        super().__init__(jid, password, None)
        self.refusals = asyncio.Queue()
        self.add_event_handler("presence_error", self.refusals.put_nowait)

    async def outcome_in(self, room):
        """The condition with which the room refuses the user. The server lets only its own users make rooms."""
        self.enter(room, "nick")
        presence = await asyncio.wait_for(self.refusals.get(), PATIENCE)
        error = presence.xml.find("{jabber:client}error")
        return error[0].tag.removeprefix(STANZAS)

    async def until(self, room, is_listed):
        for _ in range(4 * PATIENCE):
            if (await self.outcome_in(room) == "forbidden") == is_listed:
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"{self.boundjid.bare}: still not {is_listed}")


class Operator(Client):
    def hash(self, address):
        return hashlib.sha256(address.encode()).hexdigest()

    async def pubsub(self, *elements):
        iq = self.make_iq_set(ito=f"pubsub.{self.boundjid.domain}")
        pubsub = ET.SubElement(iq.xml, f"{{{PUBSUB}}}pubsub")
        pubsub.extend(elements)
        await iq.send(timeout=PATIENCE)

    async def create(self):
        form = ET.Element("{jabber:x:data}x", type="submit")
        fields = {"FORM_TYPE": f"{PUBSUB}#node_config", "pubsub#access_model": "open", "pubsub#max_items": "2000"}
        for name, value in fields.items():
            field = ET.SubElement(form, "{jabber:x:data}field", var=name)
            ET.SubElement(field, "{jabber:x:data}value").text = value
        configure = ET.Element(f"{{{PUBSUB}}}configure")
        configure.append(form)
        await self.pubsub(ET.Element(f"{{{PUBSUB}}}create", node=NODE), configure)

    async def publish(self, address):
        publish = ET.Element(f"{{{PUBSUB}}}publish", node=NODE)
        item = ET.SubElement(publish, f"{{{PUBSUB}}}item", id=self.hash(address))
        ET.SubElement(item, "{urn:xmpp:reporting:1}report", reason="urn:xmpp:reporting:spam")
        await self.pubsub(publish)

    async def retract(self, address):
        retract = ET.Element(f"{{{PUBSUB}}}retract", node=NODE, notify="1")
        ET.SubElement(retract, f"{{{PUBSUB}}}item", id=self.hash(address))
        await self.pubsub(retract)


async def main(port, operator, user, other, room, password):
    operator, user, other = Operator(operator, password, None), User(user, password), User(other, password)
    for client in (operator, user, other):
        await client.sign_in(int(port))
    await operator.create()
    await operator.publish(user.boundjid.bare)
    # More than the other server asks for at once.
    for number in range(600):
        await operator.publish(f"spammer{number}@nowhere.invalid")
    await user.until(room, True)
    print("read", flush=True)
    assert await other.outcome_in(room) != "forbidden"
    await operator.publish(other.boundjid.bare)
    await other.until(room, True)
    print("added", flush=True)
    await operator.retract(user.boundjid.bare)
    await user.until(room, False)
    print("retracted", flush=True)
    assert await other.outcome_in(room) == "forbidden"
    await operator.publish(user.boundjid.domain)
    await user.until(room, True)
    print("domain", flush=True)
    for client in (operator, user, other):
        await client.disconnect()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 8 * PATIENCE))
