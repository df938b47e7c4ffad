"""One uploads a file with slixmpp, and another fetches it with curl: share.py PORT CERTIFICATE USER USER PASSWORD. Fails with a
traceback."""

import asyncio
import io
import os
import sys

from chat import PATIENCE, Client

CONTENT = bytes(range(256)) * 2_000


async def curl(certificate, *arguments, content=b""):
    process = await asyncio.create_subprocess_exec(
        *["curl", "--silent", "--show-error", "--fail-with-body", "--cacert", certificate, *arguments],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate(content)
    return process.returncode, answer


async def share(alice, bob, certificate):
    """slixmpp finds the service, asks for a slot and uploads; the other gets the address and fetches the file."""
    url = await alice.plugin["xep_0363"].upload_file(
        "Grüße & more.png", content_type="image/png", input_file=io.BytesIO(CONTENT), timeout=PATIENCE
    )
    message = alice.make_message(bob.boundjid.bare, url, mtype="chat")
    message["oob"]["url"] = url
    message.send()
    heard = await asyncio.wait_for(bob.messages.get(), PATIENCE)
    code, answer = await curl(certificate, heard["oob"]["url"])
    assert code == 0 and answer == CONTENT, (code, len(answer))
    code, answer = await curl(certificate, "--range", "256-511", heard["oob"]["url"])
    assert code == 0 and answer == CONTENT[256:512], (code, len(answer))


async def put_twice(alice, certificate):
    """A slot by itself, filled by curl; it is good for once."""
    files = alice.plugin["xep_0363"]
    asked = await files.request_slot(files.upload_service, "note.txt", 5, "text/plain", timeout=PATIENCE)
    put = asked["http_upload_slot"]["put"]
    headers = ["Content-Type: text/plain"] + [f"{header['name']}: {header['value']}" for header in put["headers"]]
    arguments = [part for header in headers for part in ("--header", header)]
    arguments += ["--request", "PUT", "--data-binary", "@-", put["url"]]
    code, answer = await curl(certificate, *arguments, content=b"hello")
    assert code == 0, answer
    code, answer = await curl(certificate, *arguments, content=b"hello")
    assert code == 22 and b"used already" in answer, (code, answer)


async def main(port, certificate, one, two, password):
    alice, bob = (Client(jid, password, certificate) for jid in (one, two))
    for client in (alice, bob):
        for plugin in ("xep_0066", "xep_0363"):
            client.register_plugin(plugin)
        await client.sign_in("tls", port)
        client.send_presence()
    await share(alice, bob, certificate)
    await put_twice(alice, certificate)
    for client in (alice, bob):
        await client.disconnect()


if __name__ == "__main__":
    port, certificate, *rest = sys.argv[1:]
    # Its client of HTTP asks OpenSSL whom to trust.
    os.environ["SSL_CERT_FILE"] = certificate
    asyncio.run(asyncio.wait_for(main(int(port), certificate, *rest), 4 * PATIENCE))
