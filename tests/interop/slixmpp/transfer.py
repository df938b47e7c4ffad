"""One sends a file to another through the server's proxy of bytestreams, with slixmpp's plugin for XEP-0065:
transfer.py PORT CERTIFICATE USER USER PASSWORD. Fails with a traceback."""

import asyncio
import hashlib
import sys

from slixmpp.exceptions import IqError

from chat import PATIENCE, Client

# A megabyte in which no two KiB are the same.
CONTENT = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(1 << 15))


async def main(port, certificate, one, two, password):
    alice, bob = (Client(jid, password, certificate) for jid in (one, two))
    got, ended = bytearray(), asyncio.Event()
    for client in (alice, bob):
        client.register_plugin("xep_0065", {"auto_accept": True})
        await client.sign_in("tcp", port)
        client.send_presence()
    bob.add_event_handler("socks5_data", got.extend)
    bob.add_event_handler("socks5_closed", lambda _: ended.set())

    streams = alice.plugin["xep_0065"]
    proxies = await streams.discover_proxies(timeout=PATIENCE)
    assert list(map(str, proxies)) == [f"proxy.{alice.boundjid.domain}"], proxies
    connection = await streams.handshake(bob.boundjid.full, timeout=PATIENCE)
    assert connection is not None
    await connection.write(CONTENT)
    connection.transport.write_eof()
    await asyncio.wait_for(ended.wait(), PATIENCE)
    assert hashlib.sha256(got).digest() == hashlib.sha256(CONTENT).digest(), len(got)

    # A stream at which nothing is connected.
    try:
        await streams.activate(f"proxy.{alice.boundjid.domain}", "unknown", bob.boundjid.full, timeout=PATIENCE)
        raise AssertionError("it was activated")
    except IqError as error:
        assert error.condition == "item-not-found", error.condition
    for client in (alice, bob):
        await client.disconnect()


if __name__ == "__main__":
    port, certificate, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), certificate, *rest), 4 * PATIENCE))
