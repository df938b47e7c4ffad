"""Somebody makes an account, changes its password and removes it, with slixmpp: account.py PORT CERTIFICATE ADDRESS."""

import asyncio
import sys

from slixmpp import ClientXMPP

PATIENCE = 20


class Client(ClientXMPP):
    def __init__(self, jid, password, certificate, makes=False):
        super().__init__(jid, password)
        self.ca_certs = certificate
        self.makes = makes
        self.signed_in = asyncio.Event()
        self.refused = asyncio.Event()
        for plugin in ("xep_0030", "xep_0004", "xep_0066", "xep_0077"):
            self.register_plugin(plugin)
        self.plugin["xep_0077"].create_account = makes
        self.add_event_handler("session_start", lambda _: self.signed_in.set())
        self.add_event_handler("failed_all_auth", lambda _: self.refused.set())
        self.add_event_handler("register", self.make)

    async def make(self, form):
        assert {"username", "password"} <= form["register"]["fields"], form
        answer = self.Iq()
        answer["type"] = "set"
        answer["register"]["username"] = self.boundjid.user
        answer["register"]["password"] = self.password
        await answer.send(timeout=PATIENCE)

    async def sign_in(self, port):
        self.enable_direct_tls = False
        self.connect("127.0.0.1", port)
        await asyncio.wait_for(self.signed_in.wait(), PATIENCE)


async def main(port, certificate, address):
    first = Client(address, "first secret", certificate, makes=True)
    await first.sign_in(port)
    registration = first.plugin["xep_0077"]
    await registration.change_password("second secret", jid=first.boundjid.domain, timeout=PATIENCE)
    await first.disconnect()
    stranger = Client(address, "first secret", certificate)
    stranger.enable_direct_tls = False
    stranger.connect("127.0.0.1", port)
    await asyncio.wait_for(stranger.refused.wait(), PATIENCE)
    again = Client(address, "second secret", certificate)
    await again.sign_in(port)
    await again.plugin["xep_0077"].cancel_registration(jid=again.boundjid.domain, timeout=PATIENCE)
    gone = Client(address, "second secret", certificate)
    gone.enable_direct_tls = False
    gone.connect("127.0.0.1", port)
    await asyncio.wait_for(gone.refused.wait(), PATIENCE)


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), *rest), 4 * PATIENCE))
