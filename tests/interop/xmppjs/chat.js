// Two accounts meet in a room and chat, with @xmpp/client: chat.js LIBRARIES URL DOMAIN USER USER PASSWORD. Fails with what
// came last. LIBRARIES is the folder that tools/setup made.

import { webcrypto } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [libraries, ...rest] = process.argv.slice(2);
const { resolve } = createRequire(`${libraries}/`);
const load = (name) => import(pathToFileURL(resolve(name)));

// Globals of browsers, which Node has from some version on.
globalThis.WebSocket ??= (await load("ws")).default;
globalThis.crypto ??= webcrypto;

const { client, xml } = await load("@xmpp/client");

const PATIENCE = 20_000;

class Peer {
  constructor(service, domain, username, password) {
    this.name = username;
    this.stanzas = [];
    this.mechanisms = [];
    this.wake = () => {};
    this.xmpp = client({ service, domain, username, password, resource: "browser" });
    this.xmpp.on("stanza", (stanza) => {
      this.stanzas.push(stanza);
      this.wake();
    });
    this.xmpp.on("send", (element) => this.mechanisms.push(element.attrs.mechanism));
    this.xmpp.on("error", (error) => fail(`${username}: ${error}`));
    this.xmpp.reconnect.stop();
  }

  async signIn() {
    this.jid = await within(this.xmpp.start(), `${this.name} signs in`);
    const mechanism = this.mechanisms.find((name) => name);
    if (!mechanism.startsWith("SCRAM-")) throw new Error(`signed in by ${mechanism}`);
  }

  /** The first stanza of which that is true; the others are dropped. */
  async hear(what, isIt) {
    const seen = [];
    const wait = async () => {
      for (;;) {
        while (this.stanzas.length > 0) {
          const stanza = this.stanzas.shift();
          if (isIt(stanza)) return stanza;
          seen.push(String(stanza));
        }
        await new Promise((resolve) => (this.wake = resolve));
      }
    };
    return within(wait(), `${this.name} hears ${what}`, seen);
  }
}

function fail(text) {
  console.error(text);
  process.exit(1);
}

async function within(promise, what, seen = []) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`in vain: ${what}; came instead: ${seen.join("\n")}`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const body = (text) => (stanza) => stanza.is("message") && stanza.getChildText("body") === text;

/** Presence and messages between the two, to full and bare addresses. */
async function chat(alice, bob) {
  for (const peer of [alice, bob]) {
    await peer.xmpp.send(xml("presence"));
    await peer.hear("its own presence", (stanza) => stanza.is("presence") && stanza.attrs.from === String(peer.jid));
  }
  const text = "Grüße & <Kisses> 🐦";
  await alice.xmpp.send(xml("message", { type: "chat", to: bob.jid.bare() }, xml("body", {}, text)));
  const heard = await bob.hear("alice", body(text));
  await bob.xmpp.send(xml("message", { type: "chat", to: heard.attrs.from }, xml("body", {}, "Thank you")));
  await alice.hear("bob", body("Thank you"));
}

/** XEP-0045, as web clients do it. */
async function meet(alice, bob, room) {
  const muc = "http://jabber.org/protocol/muc";
  for (const peer of [alice, bob]) {
    await peer.xmpp.send(xml("presence", { to: `${room}/${peer.name}` }, xml("x", muc)));
    const isSelf = (stanza) =>
      stanza.is("presence") &&
      stanza.attrs.from === `${room}/${peer.name}` &&
      stanza.getChild("x", `${muc}#user`)?.getChildren("status").some((status) => status.attrs.code === "110");
    await peer.hear("that it is in the room", isSelf);
    if (peer === alice) {
      // A new room is locked until its owner takes the usual configuration.
      const form = xml("x", { xmlns: "jabber:x:data", type: "submit" });
      const query = xml("query", { xmlns: `${muc}#owner` }, form);
      await within(peer.xmpp.iqCaller.request(xml("iq", { type: "set", to: room }, query)), "the room is made");
    }
  }
  await alice.hear("that bob came", (stanza) => stanza.is("presence") && stanza.attrs.from === `${room}/${bob.name}`);
  await bob.xmpp.send(xml("message", { type: "groupchat", to: room }, xml("body", {}, "hello, room")));
  for (const peer of [alice, bob]) {
    const heard = await peer.hear("what bob said in the room", body("hello, room"));
    if (heard.attrs.from !== `${room}/${bob.name}`) throw new Error(String(heard));
  }
}

async function main([service, domain, one, two, password]) {
  const alice = new Peer(service, domain, one, password);
  const bob = new Peer(service, domain, two, password);
  for (const peer of [alice, bob]) {
    await peer.signIn();
    const pong = await within(
      peer.xmpp.iqCaller.request(xml("iq", { type: "get", to: domain }, xml("ping", "urn:xmpp:ping"))),
      "the server answers a ping",
    );
    if (pong.attrs.type !== "result") throw new Error(String(pong));
  }
  await chat(alice, bob);
  await meet(alice, bob, `tea@conference.${domain}`);
  for (const peer of [alice, bob]) await within(peer.xmpp.stop(), `${peer.name} leaves`);
}

main(rest).then(() => process.exit(0), (error) => fail(error.stack));
