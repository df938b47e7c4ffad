"""One uploads a file and another fetches it, with slixmpp and curl: share.py PORT CERTIFICATE USER USER PASSWORD. Fails with a
traceback."""

import asyncio
import sys

from chat import PATIENCE, Client

CONTENT = bytes(range(256)) * 2_000


async def curl(certificate, *arguments, content=None):
    process = await asyncio.create_subprocess_exec(
        "curl",
        "--silent",
        "--show-error",
        "--fail-with-body",
        "--cacert",
        certificate,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate(content)
    return process.returncode, answer


async def main(port, certificate, one, two, password):
    alice, bob = (Client(jid, password, certificate) for jid in (one, two))
    for client in (alice, bob):
        for plugin in ("xep_0066", "xep_0363"):
            client.register_plugin(plugin)
        await client.sign_in("tls", port)
        client.send_presence()
    files = alice.plugin["xep_0363"]
    service = await files.find_upload_service(timeout=PATIENCE)
    assert service is not None, "no service for files is announced"
    asked = await files.request_slot(service["from"], "Grüße & more.bin", len(CONTENT), "application/x-test")
    slot = asked["http_upload_slot"]
    headers = [f"{header['name']}: {header['value']}" for header in slot["put"]["headers"]]
    headers.append("Content-Type: application/x-test")
    arguments = [part for header in headers for part in ("--header", header)]
    put = ["--request", "PUT", "--data-binary", "@-", *arguments, slot["put"]["url"]]
    code, answer = await curl(certificate, *put, content=CONTENT)
    assert code == 0, answer
    code, answer = await curl(certificate, *put, content=CONTENT)
    assert code == 22 and b"used already" in answer, answer

    message = alice.make_message(bob.boundjid.bare, slot["get"]["url"], mtype="chat")
    message["oob"]["url"] = slot["get"]["url"]
    message.send()
    heard = await asyncio.wait_for(bob.messages.get(), PATIENCE)
    code, answer = await curl(certificate, heard["oob"]["url"])
    assert code == 0 and answer == CONTENT, (code, len(answer))
    code, answer = await curl(certificate, "--range", "256-511", heard["oob"]["url"])
    assert code == 0 and answer == CONTENT[256:512], (code, len(answer))
    for client in (alice, bob):
        await client.disconnect()


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), *rest), 4 * PATIENCE))
