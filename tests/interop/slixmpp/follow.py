"""A chat client that a test leads: follow.py CERTIFICATE USER PASSWORD, in the clear with an empty certificate. Orders come as lines on standard input, in words; events go to
standard output, a line of JSON each. The client signs in again by itself only when it is told where."""

import asyncio
import base64
import hashlib
import json
import logging
import sys
from xml.etree import ElementTree as ET

from slixmpp import ClientXMPP


VOICEMAIL = "{urn:belfry:voicemail:0}"


def tell(event, **what):
    print(json.dumps({"event": event, **what}), flush=True)


class Client(ClientXMPP):
    def __init__(self, jid, password, certificate):
        super().__init__(jid, password)
        if certificate:
            self.ca_certs = certificate
        else:
            # A peer of ours, in the clear.
            self.enable_starttls = self.enable_direct_tls = False
            self.enable_plaintext = True
            self.plugin["feature_mechanisms"].unencrypted_plain = True
        for plugin in ("xep_0045", "xep_0198", "xep_0199", "xep_0313"):
            self.register_plugin(plugin)
        self.auto_authorize = self.auto_subscribe = True
        self.add_event_handler("session_start", lambda _: self.begin())
        self.add_event_handler("session_resumed", lambda _: tell("resumed"))
        self.add_event_handler("disconnected", lambda _: tell("disconnected"))
        self.add_event_handler("stream_error", lambda error: tell("stream-error", condition=error["condition"]))
        self.add_event_handler("message", self.hear)
        self.acknowledged = []
        self.add_event_handler("stanza_acked", self.note)
        for kind in ("available", "unavailable"):
            self.add_event_handler(f"presence_{kind}", lambda presence, kind=kind: self.see(kind, presence))
        self.add_event_handler("groupchat_presence", self.see_occupant)

    def begin(self):
        async def ask():
            roster = await self.get_roster()
            self.send_presence()
            tell("session", roster=sorted(str(jid) for jid in roster["roster"]["items"]))

        self.ordered = asyncio.ensure_future(ask())

    def hear(self, message):
        if message["body"]:
            tell("message", **{"from": message["from"].bare, "body": message["body"], "kind": message["type"]})

    def note(self, stanza):
        if stanza.name == "message" and stanza["body"]:
            self.acknowledged.append([stanza["to"].bare, stanza["body"]])

    def see(self, kind, presence):
        tell("presence", bare=presence["from"].bare, resource=presence["from"].resource, kind=kind)

    def see_occupant(self, presence):
        self.see("unavailable" if presence["type"] == "unavailable" else "available", presence)

    async def ask_voicemail(self, kind, name, **attributes):
        question = self.make_iq_get() if kind == "get" else self.make_iq_set()
        question.xml.append(ET.Element(VOICEMAIL + name, attributes))
        return (await question.send(timeout=30)).xml

    async def obey(self, order, *words):
        if order == "connect":
            self.connect("127.0.0.1", int(words[0]))
        elif order == "say":
            self.send_message(mto=words[0], mbody=" ".join(words[1:]), mtype="chat")
        elif order == "flood":
            for number in range(int(words[1])):
                for to in words[2:]:
                    self.send_message(mto=to, mbody=f"{words[0]}-{number}", mtype="chat")
        elif order == "subscribe":
            self.send_presence_subscription(pto=words[0])
        elif order == "enter":
            self.plugin["xep_0045"].join_muc(words[0], words[1])
        elif order == "configure":
            # XEP-0045 §10.1.2: an instant room, and §10.1.3 with the word `persistent`.
            field = "<field var='muc#roomconfig_persistentroom'><value>1</value></field>" if words[1:] else ""
            form = f"<x xmlns='jabber:x:data' type='submit'>{field}</x>"
            query = f"<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>"
            # Not as raw bytes, which the library does not count (XEP-0198).
            self.send(self.make_iq_set(sub=ET.fromstring(query), ito=words[0]))
        elif order == "say-in":
            self.send_message(mto=words[0], mbody=" ".join(words[1:]), mtype="groupchat")
        elif order == "archive":
            found = []
            async for result in self.plugin["xep_0313"].iterate(total=5000):
                found.append(result["mam_result"]["forwarded"]["stanza"]["body"])
            tell("archive", bodies=[body for body in found if body])
        elif order == "calls":
            question = self.make_iq_get()
            question.xml.append(ET.Element("{urn:belfry:calls:0}calls"))
            answer = await question.send(timeout=30)
            calls = answer.xml.iter("{urn:belfry:calls:0}call")
            tell("calls", calls=[[call.get("direction"), call.get("with")] for call in calls])
        elif order == "voicemail":
            messages = []
            for message in (await self.ask_voicemail("get", "voicemail")).iter(VOICEMAIL + "message"):
                name, sound, size = message.get("id"), b"", 1
                while len(sound) < size:
                    piece = (await self.ask_voicemail("get", "sound", id=name, offset=str(len(sound)))).find(VOICEMAIL + "sound")
                    sound, size = sound + base64.b64decode(piece.text or ""), int(piece.get("size"))
                messages.append([name, hashlib.sha256(sound).hexdigest()])
            tell("voicemail", messages=messages)
        elif order == "delete-voicemail":
            await self.ask_voicemail("set", "delete", id=words[0])
            tell("deleted")
        elif order == "acknowledged":
            tell("acknowledged", messages=self.acknowledged)
        elif order == "ping":
            await self.plugin["xep_0199"].ping(self.boundjid.domain, timeout=30)
            tell("pong")


class Faults(logging.Handler):
    """Reports what the library finds wrong in the server's acknowledgements (XEP-0198)."""

    def emit(self, record):
        tell("fault", order="none", text=record.getMessage())


async def main(certificate, user, password):
    logging.getLogger("slixmpp.plugins.xep_0198").addHandler(Faults(logging.ERROR))
    client = Client(user, password, certificate)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    orders = set()

    async def perform(words):
        try:
            await client.obey(*words)
        except Exception as fault:
            tell("fault", order=" ".join(words), text=repr(fault))

    while line := await lines.readline():
        # An order that waits for an answer delays no other.
        order = asyncio.ensure_future(perform(line.decode().split()))
        orders.add(order)
        order.add_done_callback(orders.discard)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
