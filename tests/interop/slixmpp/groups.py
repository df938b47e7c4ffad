"""Members of shared groups see each other, with slixmpp: groups.py PORT CERTIFICATE USER USER USER PASSWORD.

The first two are in the group "The Office". It prints a line then; the group has the third in the second's place when a line comes back.
Fails with a traceback."""

import asyncio
import sys

from chat import PATIENCE, Client


async def until(client, holds):
    """Every stanza that came before the answer to a ping has been handled; the whole test has a deadline."""
    while not holds():
        await client.plugin["xep_0199"].ping(client.boundjid.domain, timeout=PATIENCE)


def sees(client, contact):
    roster = client.client_roster
    bare = contact.boundjid.bare
    return bare in roster and roster[bare]["subscription"] == "both" and roster[bare]["groups"] == ["The Office"]


async def main(port, certificate, one, two, three, password):
    alice, bob, carol = clients = [Client(jid, password, certificate) for jid in (one, two, three)]
    for client in clients:
        # Nobody asks, and no request is granted: only the group gives presence.
        client.auto_authorize = client.auto_subscribe = False
        client.register_plugin("xep_0115")
        await client.sign_in("tls", port)
        await client.get_roster()
        client.send_presence(pstatus="here")
    assert sees(alice, bob) and sees(bob, alice)
    assert not any(sees(carol, other) for other in (alice, bob)), carol.client_roster
    assert (await alice.presence_of(bob.boundjid.bare))["status"] == "here"
    assert (await bob.presence_of(alice.boundjid.bare))["status"] == "here"
    # A name of the user's own is kept beside the group, and a removal brings the contact back without it.
    alice.update_roster(bob.boundjid.bare, name="Bobby", groups=["The Office"])
    await until(alice, lambda: alice.client_roster[bob.boundjid.bare]["name"] == "Bobby")
    assert sees(alice, bob)
    alice.del_roster_item(bob.boundjid.bare)
    await until(alice, lambda: sees(alice, bob) and not alice.client_roster[bob.boundjid.bare]["name"])
    print("they see each other", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await until(alice, lambda: sees(alice, carol) and not sees(alice, bob))
    await until(carol, lambda: sees(carol, alice))
    await until(bob, lambda: not sees(bob, alice))
    assert (await alice.presence_of(carol.boundjid.bare))["status"] == "here"
    assert (await carol.presence_of(alice.boundjid.bare))["status"] == "here"
    while (await asyncio.wait_for(bob.gone.get(), PATIENCE))["from"].bare != alice.boundjid.bare:
        pass
    for client in clients:
        await client.disconnect()


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), *rest), 4 * PATIENCE))
