"""One asks for a slot with slixmpp and fills it with curl, at these ports one after the other: put.py PORT CERTIFICATE USER PASSWORD
HTTP_PORT... Prints the path of the file, and the status of each try. Fails with a traceback."""

import asyncio
import sys
from urllib.parse import urlsplit

from chat import PATIENCE, Client

CONTENT = bytes(range(250)) * 2_400


async def put(port, path, headers):
    arguments = [part for header in headers for part in ("--header", header)]
    arguments += ["--request", "PUT", "--data-binary", "@-", f"http://127.0.0.1:{port}{path}"]
    process = await asyncio.create_subprocess_exec(
        *["curl", "--silent", "--show-error", "--output", "/dev/null", "--write-out", "%{http_code}", *arguments],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate(CONTENT)
    return answer.decode()


async def main(port, certificate, user, password, http_ports):
    client = Client(user, password, certificate)
    client.register_plugin("xep_0363")
    await client.sign_in("tcp", port)
    files = client.plugin["xep_0363"]
    service = await files.find_upload_service(timeout=PATIENCE)
    asked = await files.request_slot(service["from"], "Grüße.png", len(CONTENT), "image/png", timeout=PATIENCE)
    slot = asked["http_upload_slot"]["put"]
    path = urlsplit(slot["url"]).path
    headers = ["Content-Type: image/png"] + [f"{header['name']}: {header['value']}" for header in slot["headers"]]
    print(path, *[await put(port, path, headers) for port in http_ports])
    await client.disconnect()


if __name__ == "__main__":
    port, certificate, user, password, *http_ports = sys.argv[1:]
    asyncio.run(asyncio.wait_for(main(int(port), certificate, user, password, http_ports), 4 * PATIENCE))
