"""An administrator commands (XEP-0050, XEP-0133), with slixmpp: administer.py PORT CERTIFICATE ADMIN USER PASSWORD. Fails
with a traceback."""

import asyncio
import sys

from slixmpp import ClientXMPP
from slixmpp.exceptions import IqError

PATIENCE = 20
ADMIN = "http://jabber.org/protocol/admin#"


class Client(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        self.ca_certs = certificate
        self.signed_in = asyncio.Event()
        self.is_seen = asyncio.Event()
        self.refused = asyncio.Event()
        self.ended = asyncio.Event()
        self.messages = asyncio.Queue()
        for plugin in ("xep_0004", "xep_0030", "xep_0050", "xep_0133"):
            self.register_plugin(plugin)
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("failed_all_auth", lambda _: self.refused.set())
        self.add_event_handler("disconnected", lambda _: self.ended.set())
        self.add_event_handler("presence_available", self.handle_available)
        self.add_event_handler("message", self.messages.put_nowait)

    def handle_available(self, presence):
        if presence["from"] == self.boundjid:
            self.is_seen.set()

    def call(self, port):
        self.enable_direct_tls = True
        self.connect("127.0.0.1", port)

    async def sign_in(self, port):
        self.call(port)
        await asyncio.wait_for(self.signed_in.wait(), PATIENCE)
        self.send_presence()
        # Its own presence comes back once the server has it (RFC 6121 §4.2.2).
        await asyncio.wait_for(self.is_seen.wait(), PATIENCE)

    async def run(self, node, **fields):
        """The command's last answer."""
        commands = self.plugin["xep_0050"]
        domain = self.boundjid.domain
        answer = await commands.send_command(domain, ADMIN + node, timeout=PATIENCE)
        if answer["command"]["status"] == "completed":
            return answer["command"]
        asked = answer["command"]["form"].get_fields()
        form = self.plugin["xep_0004"].make_form(ftype="submit")
        form.add_field(var="FORM_TYPE", ftype="hidden", value="http://jabber.org/protocol/admin")
        for var, value in fields.items():
            name = var.replace("password_verify", "password-verify")
            assert name in asked, (name, list(asked))
            form.add_field(var=name, value=value)
        session = answer["command"]["sessionid"]
        done = await commands.send_command(
            domain, ADMIN + node, action="complete", payload=form, sessionid=session, timeout=PATIENCE
        )
        assert done["command"]["status"] == "completed", done
        return done["command"]


async def refused(what, condition):
    try:
        await what
    except IqError as error:
        assert error.condition == condition, error
    else:
        raise AssertionError(f"expected {condition}")


async def main(port, certificate, one, two, password):
    admin, user = (Client(jid, password, certificate) for jid in (one, two))
    for client in (admin, user):
        await client.sign_in(port)
    listed = await admin.plugin["xep_0133"].get_commands(timeout=PATIENCE)
    nodes = [item[1] for item in listed["disco_items"]["items"]]
    assert ADMIN + "announce" in nodes and ADMIN + "add-user" in nodes, nodes
    online = await admin.run("get-online-users-num")
    assert online["form"].get_fields()["onlineusersnum"]["value"] == "2", online
    await refused(user.run("get-online-users-num"), "forbidden")
    # The subject is a field of ours: XEP-0133 §4.23 has none.
    await admin.run("announce", **{"{urn:belfry:admin}subject": "News", "announcement": "Down at 5"})
    told = await asyncio.wait_for(user.messages.get(), PATIENCE)
    assert (told["subject"], told["body"]) == ("News", "Down at 5"), told
    carol = "carol@" + admin.boundjid.domain
    await admin.run("add-user", accountjid=carol, password="another", password_verify="another")
    new = Client(carol, "another", certificate)
    await new.sign_in(port)
    stats = await admin.run("user-stats", accountjid=carol)
    assert stats["form"].get_fields()["rostersize"]["value"] == "0", stats
    await admin.run("delete-user", accountjids=[carol])
    await asyncio.wait_for(new.ended.wait(), PATIENCE)
    await admin.run("end-user-session", accountjids=[user.boundjid.full])
    await asyncio.wait_for(user.ended.wait(), PATIENCE)
    gone = Client(carol, "another", certificate)
    gone.call(port)
    await asyncio.wait_for(gone.refused.wait(), PATIENCE)
    await admin.disconnect()


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), *rest), 4 * PATIENCE))
