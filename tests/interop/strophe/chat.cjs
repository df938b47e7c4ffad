// Two accounts chat over BOSH, with Strophe: chat.cjs MODULES URL USER USER PASSWORD. Fails with a stack trace.
"use strict";

const { createRequire } = require("node:module");
const http = require("node:http");
const https = require("node:https");

const [modules, url, one, two, password] = process.argv.slice(2);
const library = createRequire(modules + "/");
const { DOMParser } = library("@xmldom/xmldom");

/** As much of the browser's as Strophe needs. */
class XMLHttpRequest {
    readyState = 0;

    open(method, address) {
        Object.assign(this, { method, address, headers: {}, readyState: 1, status: 0, responseText: "" });
    }
    setRequestHeader(name, value) {
        this.headers[name] = value;
    }
    send(body) {
        const client = this.address.startsWith("https:") ? https : http;
        this.request = client.request(this.address, { method: this.method, headers: this.headers }, (answer) => {
            answer.setEncoding("utf8");
            answer.on("data", (text) => (this.responseText += text));
            answer.on("end", () => this.finish(answer.statusCode));
        });
        this.request.on("error", () => this.finish(0));
        this.request.end(body);
    }
    finish(status) {
        this.status = status;
        this.readyState = 4;
        this.onreadystatechange?.();
    }
    getAllResponseHeaders() {
        return "";
    }
    abort() {
        this.request?.destroy();
    }
    get responseXML() {
        return this.responseText ? new DOMParser().parseFromString(this.responseText, "text/xml") : null;
    }
}
globalThis.XMLHttpRequest = XMLHttpRequest;

const { Strophe, $iq, $msg, $pres } = library("strophe.js");
Strophe.setLogLevel(Strophe.LogLevel.FATAL);

/** What it is, once it is; fails when that is refused. */
function connected(connection, jid, secret) {
    return new Promise((resolve, reject) => {
        connection.connect(jid, secret, (status, reason) => {
            const { CONNECTED, CONNFAIL, AUTHFAIL } = Strophe.Status;
            if (status === CONNECTED) resolve(connection);
            if (status === CONNFAIL || status === AUTHFAIL) reject(new Error(`${jid}: ${reason}`));
        });
    });
}

function next(connection, name) {
    return new Promise((resolve) => connection.addHandler((stanza) => void resolve(stanza), null, name));
}

async function main() {
    const [alice, bob] = await Promise.all(
        [one, two].map((jid) => connected(new Strophe.Connection(url), jid, password)),
    );
    for (const connection of [alice, bob]) connection.send($pres());
    for (let turn = 0; turn < 5; turn++) {
        const heard = next(bob, "message");
        alice.send($msg({ to: bob.jid, type: "chat" }).c("body").t(`Grüße & <Kisses> ${turn}`));
        const message = await heard;
        const words = message.getElementsByTagName("body")[0].textContent;
        if (words !== `Grüße & <Kisses> ${turn}` || message.getAttribute("from") !== alice.jid) {
            throw new Error(Strophe.serialize(message));
        }
        await new Promise((resolve, reject) =>
            bob.sendIQ($iq({ type: "get", to: one.split("@")[1] }).c("ping", { xmlns: "urn:xmpp:ping" }), resolve, reject),
        );
    }
    const gone = next(bob, "presence");
    bob.send($pres({ to: alice.jid }));
    await next(alice, "presence");
    alice.send($pres({ to: bob.jid }));
    await gone;
    const ended = [alice, bob].map(
        (connection) =>
            new Promise((resolve) => {
                connection.connect_callback = (status) => status === Strophe.Status.DISCONNECTED && resolve();
                connection.disconnect();
            }),
    );
    await Promise.all(ended);
    const stranger = await connected(new Strophe.Connection(url), one, "wrong").catch((error) => error);
    if (!(stranger instanceof Error)) throw new Error("a wrong password signs in");
}

const patience = setTimeout(() => {
    console.error("nothing more came");
    process.exit(1);
}, 60_000);
main().then(
    () => clearTimeout(patience) || process.exit(0),
    (error) => {
        console.error(error);
        process.exit(1);
    },
);
