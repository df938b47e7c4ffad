"""One account chats with the phone of another, with slixmpp: phone.py tcp|tls PORT CERTIFICATE USER USER PASSWORD. Signs
in as both for as long as it takes to subscribe; then the second has its phone only. Fails with a traceback."""

import asyncio
import sys

from chat import PATIENCE, Client, meet


async def main(way, port, certificate, one, two, password):
    alice, bob = (Client(jid, password, certificate) for jid in (one, two))
    for client in (alice, bob):
        await client.sign_in(way, port)
    await meet(alice, bob)
    client = bob.boundjid.full
    await bob.disconnect()
    while True:
        phone = await alice.presence_of(two)
        if phone["from"].resource == "sip-phone":
            break
    info = await alice.plugin["xep_0030"].get_info(jid=phone["from"], timeout=PATIENCE)
    assert ("client", "phone", None, None) in info["disco_info"]["identities"], info
    # Until the server has seen that the user is gone, the message goes to chat; then it goes to the phone.
    while (await asyncio.wait_for(alice.gone.get(), PATIENCE))["from"].full != client:
        pass
    alice.send_message(mto=two, mbody="hello phone", mtype="chat")
    message = await asyncio.wait_for(alice.messages.get(), PATIENCE)
    assert (message["body"], message["from"].bare) == ("hello chat", two), message
    await alice.disconnect()


if __name__ == "__main__":
    way, port, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(way, int(port), *rest), 4 * PATIENCE))
