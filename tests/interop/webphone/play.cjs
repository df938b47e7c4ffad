// Two users of the page in Chromium: play.cjs MODULES PAGE DOMAIN PLAY [FOLDER]. PLAY is one of the last lines; FOLDER gets pictures.
// Fails with what was expected and what the pages showed. In `restart` and `provider` it writes a line for each thing that the node is to do, and
// reads a line when that is done.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { createRequire } = require("node:module");

const [modules, page, domain, play, folder] = process.argv.slice(2);
const puppeteer = createRequire(modules + "/")("puppeteer-core");

/** Milliseconds for one condition, and for all: a busy machine. */
const PATIENCE = 60_000;
const ALL = 280_000;
const PASSWORDS = { alice: process.env.ALICES_PASSWORD ?? "secret-a", bob: "secret-b" };
const SPITE = `<img src=x onerror="window.hurt=1"> & <script>window.hurt=1</script>`;

const program = process.env.PATH.split(":").map((one) => path.join(one, "chromium")).find((one) => fs.existsSync(one));

function fail(what) {
    throw new Error(what);
}

/** One browser of one user: nothing of another's is in it. */
class User {
    constructor(name, tab) {
        Object.assign(this, { name, tab, address: `${name}@${domain}`, faults: [], addresses: new Set(), isOffline: false });
    }

    static async open(browser, name) {
        const context = await browser.createBrowserContext();
        const user = new User(name, await context.newPage());
        await user.prepare();
        return user;
    }

    async prepare() {
        const { tab } = this;
        await tab.setViewport({ width: 1000, height: 640 });
        const session = await tab.createCDPSession();
        await session.send("Emulation.setFocusEmulationEnabled", { enabled: true });
        await session.send("Network.enable");
        session.on("Network.webSocketCreated", ({ url }) => this.addresses.add(new URL(url).origin));
        // The browser's own player has pictures in its address: they come from nowhere.
        tab.on("request", (request) => request.url().startsWith("data:") || this.addresses.add(new URL(request.url()).origin));
        tab.on("pageerror", (error) => this.faults.push(String(error)));
        tab.on("console", (message) => {
            // Chromium itself reports each try while the node is away.
            const isExpected = this.isOffline && /WebSocket connection to|status of 500/.test(message.text());
            if (["error", "warn"].includes(message.type()) && !isExpected) this.faults.push(message.text());
        });
        await tab.evaluateOnNewDocument(() => {
            window.connections = [];
            window.tones = "";
            const Original = window.RTCPeerConnection;
            window.RTCPeerConnection = class extends Original {
                constructor(...given) {
                    super(...given);
                    window.connections.push(this);
                }
            };
            const insert = RTCDTMFSender.prototype.insertDTMF;
            RTCDTMFSender.prototype.insertDTMF = function (...given) {
                this.ontonechange = ({ tone }) => (window.tones += tone);
                return insert.apply(this, given);
            };
        });
        await tab.goto(page);
    }

    /** Waits until it holds in the page. Puppeteer's own way to wait evaluates text, which the page's policy refuses. */
    async until(what, holds, ...given) {
        const wait = `(async (holds, given, end) => {
            for (;;) {
                const found = await holds(...given);
                if (found || Date.now() > end) return found;
                await new Promise((resolve) => setTimeout(resolve, 50));
            }
        })(${holds}, ${JSON.stringify(given)}, Date.now() + ${PATIENCE})`;
        const found = await this.tab.evaluate(wait).catch((error) => fail(`${this.name}: ${what}: ${error}`));
        if (!found) {
            const shown = await this.tab.evaluate(() => document.body.innerText.slice(0, 2000)).catch(() => "nothing");
            fail(`${this.name}: ${what} did not come; ${JSON.stringify(given)}; shown:\n${shown}\nfaults: ${this.faults.join("\n")}`);
        }
    }

    shows(selector, text) {
        const holds = (selector, text) => {
            const found = [...document.querySelectorAll(selector)];
            return found.some((one) => one.checkVisibility() && (one.innerText ?? "").includes(text));
        };
        return this.until(`${selector} with ${JSON.stringify(text)}`, holds, selector, text);
    }

    hides(selector) {
        return this.until(`no ${selector}`, (selector) => ![...document.querySelectorAll(selector)].some((one) => one.checkVisibility()), selector);
    }

    async click(selector) {
        await this.until(`a ready ${selector}`, (selector) => {
            const found = document.querySelector(selector);
            return found?.checkVisibility() && !found.disabled;
        }, selector);
        await this.tab.$eval(selector, (one) => one.click());
    }

    async type(selector, text) {
        await this.tab.focus(selector);
        await this.tab.$eval(selector, (one) => (one.value = ""));
        await this.tab.keyboard.sendCharacter(text);
    }

    async signIn(password = PASSWORDS[this.name]) {
        await this.until("the form", () => document.querySelector("#address").placeholder !== "");
        await this.type("#address", this.address);
        await this.type("#password", password);
        await this.tab.keyboard.press("Enter");
    }

    online() {
        return this.until("chat and phone", () => {
            const { chat, phone } = document.querySelector("#app").dataset;
            return chat === "online" && phone === "ready";
        });
    }

    person(other) {
        return `#people li[data-jid="${other.address}"]`;
    }

    openChat(other) {
        return this.click(`${this.person(other)} button`);
    }

    async say(text) {
        await this.type("#text", text);
        await this.tab.keyboard.press("Enter");
    }

    call(state) {
        return this.until(`a call that is ${state}`, (state) => document.querySelector("#call").dataset.state === state, state);
    }

    /** Sound is heard: bytes of the other's media come, and are not silence. */
    async hears() {
        const heard = async (before) => {
            const connection = window.connections.at(-1);
            const inbound = [...(await connection.getStats()).values()].find((one) => one.type === "inbound-rtp" && one.kind === "audio");
            if (before === null) return inbound ? { bytes: inbound.bytesReceived, energy: inbound.totalAudioEnergy } : null;
            return (inbound?.bytesReceived ?? 0) > before.bytes && inbound.totalAudioEnergy > before.energy;
        };
        await this.until("media", heard, null);
        const before = await this.tab.evaluate(heard, null);
        await this.until("sound", heard, before);
    }

    async picture(name, { isDark = false, isPhone = false } = {}) {
        if (!folder) return;
        const { tab } = this;
        await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: isDark ? "dark" : "light" }]);
        await tab.setViewport(isPhone ? { width: 390, height: 700 } : { width: 1000, height: 560 });
        await tab.screenshot({ path: path.join(folder, `${name}.png`) });
        await tab.setViewport({ width: 1000, height: 640 });
    }

    /** Everything that can be operated has a name, for those who do not see it. */
    async named() {
        const nameless = await this.tab.evaluate(() =>
            [...document.querySelectorAll("button, input, select, textarea")]
                .filter((one) => one.checkVisibility())
                .filter((one) => !(one.innerText?.trim() || one.getAttribute("aria-label") || one.labels?.length))
                .map((one) => one.outerHTML),
        );
        if (nameless.length > 0) fail(`without a name: ${nameless.join("\n")}`);
    }
}

async function meet(alice, bob) {
    await alice.type("#find", bob.address);
    await alice.click("#find-add");
    await bob.shows(".request", alice.address);
    await bob.click(".request .primary");
    for (const [one, other] of [[alice, bob], [bob, alice]]) await one.shows(`${one.person(other)} .about`, "available");
}

async function chatBothWays(alice, bob) {
    await alice.openChat(bob);
    await alice.say("Hello, Bob");
    await bob.shows(`${bob.person(alice)} .unread`, "1");
    await bob.openChat(alice);
    await bob.shows("#log .other .text", "Hello, Bob");
    await bob.hides(`${bob.person(alice)} .unread`);
    await alice.shows("#log .own .about", "read");
    await bob.say("Hello, Alice");
    await alice.shows("#log .other .text", "Hello, Alice");
    await bob.shows("#log .own .about", "read");
    await alice.picture("chat");
}

async function writeSpite(alice, bob) {
    await alice.say(SPITE);
    await bob.shows("#log .other .text", SPITE);
    await alice.until("word that it was read", () => [...document.querySelectorAll("#log .own")].at(-1).dataset.state === "read");
    for (const user of [alice, bob]) {
        const wrong = await user.tab.evaluate(() => window.hurt || document.querySelectorAll("#app img, #app script").length);
        if (wrong) fail(`${user.name}: a message became more than text`);
    }
}

async function findHistory(alice, bob) {
    await alice.tab.reload();
    await alice.signIn();
    await alice.online();
    await alice.openChat(bob);
    await alice.until("both messages in their order", () => {
        const texts = [...document.querySelectorAll("#log .text")].map((one) => one.innerText);
        return texts.length === 2 && texts[0].startsWith("Hello, Bob") && texts[1] === "Hello, Alice";
    });
}

async function callBothWays(alice, bob) {
    await alice.click("#chat-call");
    await bob.call("ringing");
    await bob.shows("#call-state", `alice (${alice.address}) calls`);
    await alice.shows("#call-state", "Ringing at bob");
    await bob.picture("ringing");
    await bob.named();
    await bob.click("#answer");
    await Promise.all([alice.call("talking"), bob.call("talking")]);
    await Promise.all([alice.hears(), bob.hears()]);
    await alice.picture("phone", { isDark: true, isPhone: true });
    await alice.click("#mute");
    await alice.until("a muted microphone", () => {
        const sender = window.connections.at(-1).getSenders().find((one) => one.track?.kind === "audio");
        return document.querySelector("#mute").ariaPressed === "true" && !sender.track.enabled;
    });
    await alice.click("#mute");
    await alice.click("#keypad");
    for (const digit of "5#") await alice.click(`#keys [data-digit="${digit}"]`);
    await alice.shows("#digits", "5#");
    await alice.until("the digits on their way (RFC 4733)", () => window.tones === "5#");
    await alice.picture("call");
    await bob.click("#hang-up");
    await Promise.all([alice.hides("#call"), bob.hides("#call")]);
    await alice.shows("#calls .about", "Outgoing");
    await bob.shows("#calls .about", "Incoming");
}

async function refuseCalls(alice, bob) {
    await bob.click("#chat-call");
    await alice.call("ringing");
    await alice.click("#decline");
    await bob.shows("#notice", "Declined");
    await bob.hides("#call");
    await alice.hides("#call");
    // The caller thinks better of it.
    await alice.click("#chat-call");
    await bob.call("ringing");
    await alice.click("#hang-up");
    await bob.shows("#calls .about", "Missed");
    await alice.type("#find", "4711");
    await alice.click("#find-call");
    await alice.shows("#notice", "There is no such address or number");
}

/** Another device has had none of these calls, and shows those that the server has records of. */
async function findCalls(browser, bob, alice) {
    const other = await User.open(browser, "bob");
    await other.signIn();
    await other.online();
    const shown = (expected) => {
        const rows = [...document.querySelectorAll("#calls button")].map((one) => one.innerText.replaceAll("\n", " "));
        const isLike = (row, words) => words.every((word) => new RegExp(word).test(row));
        return rows.length === expected.length && expected.every((words, index) => isLike(rows[index], words));
    };
    const calls = [
        ["alice", "Incoming", "Missed"],
        ["alice", "Outgoing", "Declined"],
        ["alice", "Incoming", "0:\\d\\d"],
    ];
    await other.until("the calls of another device", shown, calls);
    await other.picture("history");
    // The device that had them shows each once.
    await bob.until("calls that are there once", shown, calls);
    await other.click("#calls button");
    await alice.call("ringing");
    await alice.click("#decline");
    await other.hides("#call");
    await other.until("one more call", shown, [["alice", "Outgoing", "Declined"], ...calls]);
    // Nothing tells of it: the page looks when it comes to the front.
    const shownAtFront = `(expected) => (dispatchEvent(new Event("focus")), (${shown})(expected))`;
    await bob.until("a call of another device", shownAtFront, [["alice", "Outgoing", "Declined"], ...calls]);
    await leave([other]);
}

async function callWithPicture(alice, bob) {
    await alice.click("#chat-video");
    await bob.call("ringing");
    await bob.shows("#call-state", "with picture");
    await bob.click("#answer-video");
    await Promise.all([alice.call("talking"), bob.call("talking")]);
    for (const user of [alice, bob]) {
        await user.until("a picture", () => document.querySelector("#remote").checkVisibility() && document.querySelector("#remote").videoWidth > 0);
    }
    await bob.click("#hang-up");
    await Promise.all([alice.hides("#call"), bob.hides("#call")]);
}

/** Nothing is left of the account, and nothing came from or went to elsewhere. */
async function leave(users) {
    for (const user of users) {
        await user.named();
        await user.click("#sign-out");
        await user.shows("#sign-in-button", "Sign in");
        const kept = await user.tab.evaluate(() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie);
        if (kept.includes(PASSWORDS[user.name]) || kept.includes("Hello")) fail(`${user.name}: kept ${kept}`);
        const ours = new Set([new URL(page).origin, user.provider, ...(await sockets(user))]);
        const others = [...user.addresses].filter((one) => !ours.has(one));
        if (others.length > 0 || user.faults.length > 0) fail(`${user.name}: to ${others}; faults: ${user.faults.join("\n")}`);
    }
}

/** What the server names, no more than two. */
async function sockets(user) {
    const { xmpp, sip } = await user.tab.evaluate(async () => (await fetch("settings.json")).json());
    return [xmpp, sip].map((url) => new URL(url).origin);
}

/** What the page's modules compute, by the vectors of their specifications. */
async function computes(user) {
    const wrong = await user.tab.evaluate(`(async () => {
        const { Scram } = await import(new URL("scram.js", document.baseURI));
        const { address } = await import(new URL("chat.js", document.baseURI));
        const { CallHistory, addressOf } = await import(new URL("history.js", document.baseURI));
        const { parse } = await import(new URL("xml.js", document.baseURI));
        const { withoutUnknownChallenges } = await import(new URL("phone.js", document.baseURI));
        const found = [];
        const expect = (what, is, expected) => JSON.stringify(is) === JSON.stringify(expected) || found.push(what + ": " + JSON.stringify(is));
        // RFC 7677 §3.
        const scram = new Scram("SCRAM-SHA-256", "user", "pencil");
        scram.nonce = "rOprNGfwEbeRWgbNEkqO";
        scram.bare = "n=user,r=" + scram.nonce;
        const challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        const proof = (await scram.prove(challenge)).split("p=")[1];
        expect("proof", proof, "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        expect("server", scram.isProvedBy("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), true);
        expect("another server", scram.isProvedBy("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), false);
        for (const unsound of [challenge.replace("rOpr", "other"), challenge.replace("4096", "1"), "m=x," + challenge]) {
            expect(unsound, await new Scram("SCRAM-SHA-256", "user", "pencil").prove(unsound).catch(() => "refused"), "refused");
        }
        const typed = ["bob", "Bob@a.test", " sip:1234", "+49 (30) 12-3", "a b", "x@", "@x", "bob@a/b", '<img src="x">'];
        const expected = ["bob@d.test", "bob@a.test", "1234@d.test", "+4930123@d.test", null, null, null, null, null];
        expect("addresses", typed.map((text) => address(text, "d.test")), expected);
        const line = (algorithm) => "WWW-Authenticate: Digest realm=\\"a, b\\", algorithm=" + algorithm + ", nonce=\\"1\\"";
        const answer = (...algorithms) => ["SIP/2.0 401 Unauthorized", ...algorithms.map(line), "", ""].join("\\r\\n");
        expect("challenges", withoutUnknownChallenges(answer("SHA-256", "MD5", "SHA-512-256")), answer("MD5"));
        expect("no challenge that is known", withoutUnknownChallenges(answer("SHA-256")), answer("SHA-256"));
        const uris = ["sip:bob@a.test", "sips:b%20c@a.test;user=phone", "tel:+49301;ext=1", "sip:bob@a.test:5060?x=1", "sip:%@a"];
        expect("other ends", uris.map(addressOf), ["bob@a.test", "b c@a.test", "+49301", "bob@a.test", "%@a"]);
        // Two pages of the server, whose border one call is on, and calls of this browser: one is on the first page, one is older than it.
        const began = (day) => Date.parse("2026-01-0" + day);
        const call = (day) => '<call id="' + day + '" direction="incoming" with="sip:bob@a.test" start="2026-01-0' + day + '" outcome="missed" code="487"/>';
        const page = (days, next) => parse('<iq><calls xmlns="urn:belfry:calls:0">' + days.map(call).join("") + (next ? '<set xmlns="http://jabber.org/protocol/rsm"><last>' + next + "</last></set>" : "") + "</calls></iq>");
        const first = [page([5, 4], "p2"), page([6, 5], "p2"), page([9, 8], "p3")];
        const iq = async (type, to, query) => (/<after>p2</.test(query.toString()) ? page([4, 3]) : (first.shift() ?? Promise.reject(new Error("away"))));
        const own = ["7", "5", undefined, "2"].map((id) => ({ id, peer: "bob@a.test", isIncoming: false, began: began(id ?? 1), seconds: null, reason: "" }));
        const list = new CallHistory({ iq }, () => own);
        const ids = () => list.calls.map(({ id }) => id ?? "none").join(" ");
        expect("no answer yet", ids(), "7 5 none 2");
        await list.refresh();
        expect("a first page", ids() + " " + list.next, "7 5 4 p2");
        await list.more();
        expect("a second page", ids() + " " + list.next, "7 5 4 3 2 null");
        await list.refresh();
        expect("a newer call", ids() + " " + list.next, "7 6 5 4 3 2 null");
        await list.refresh();
        expect("many newer calls, which do not reach those that are known", ids() + " " + list.next, "9 8 p3");
        await list.refresh();
        expect("no answer any more", ids() + " " + list.next, "9 8 p3");
        return found;
    })()`);
    if (wrong.length > 0) fail(wrong.join("\n"));
}

/** Another language is chosen on the form, and holds for what the page and its modules say. */
async function language(alice, bob) {
    await alice.until("the languages", () => document.querySelectorAll("#language option").length === 3);
    await Promise.all([alice.tab.waitForNavigation(), alice.tab.select("#language", "de")]);
    await alice.shows("#sign-in-button", "Anmelden");
    await alice.signIn("wrong");
    await alice.shows("#sign-in-error", "Die Adresse oder das Passwort ist falsch.");
    await Promise.all([alice.signIn(), bob.signIn()]);
    await Promise.all([alice.online(), bob.online()]);
    await alice.until("German", () => document.documentElement.lang === "de");
    await alice.shows("#state", "Anrufe bereit");
    await bob.shows("#state", "calls ready");
    await alice.type("#find", "nobody");
    await alice.click("#find-call");
    await alice.shows("#notice", "Diese Adresse oder Nummer gibt es nicht");
    await alice.shows("#calls .about", "Ausgehend");
    await alice.click("#sign-out");
    await Promise.all([alice.tab.waitForNavigation(), alice.tab.select("#language", "")]);
    await leaveForm(alice);
    await leave([bob]);
}

/** The form in the browser's own language, and no fault before it. */
async function leaveForm(user) {
    await user.shows("#sign-in-button", "Sign in");
    await user.named();
    if (user.faults.length > 0) fail(`${user.name}: faults: ${user.faults.join("\n")}`);
}

async function all(alice, bob, browser) {
    await computes(alice);
    await alice.signIn("wrong");
    await alice.shows("#sign-in-error", "The address or the password is wrong.");
    await alice.picture("sign-in");
    await Promise.all([alice.signIn(), bob.signIn()]);
    await Promise.all([alice.online(), bob.online()]);
    await meet(alice, bob);
    await chatBothWays(alice, bob);
    await findHistory(alice, bob);
    await callBothWays(alice, bob);
    await refuseCalls(alice, bob);
    await findCalls(browser, bob, alice);
    await callWithPicture(alice, bob);
    await writeSpite(alice, bob);
    await leave([alice, bob]);
}

/** The first chat and the first call, of which the installation's time is taken. */
async function first(alice, bob) {
    await Promise.all([alice.signIn(), bob.signIn()]);
    await Promise.all([alice.online(), bob.online()]);
    await meet(alice, bob);
    await chatBothWays(alice, bob);
    await callBothWays(alice, bob);
    await leave([alice, bob]);
}

/** A phone whose call she declines leaves alice a message, which is there at once; she plays it by the keyboard, and deletes it. bob has none. */
async function voicemail(alice, bob) {
    await Promise.all([alice.signIn(), bob.signIn()]);
    await Promise.all([alice.online(), bob.online()]);
    for (const user of [alice, bob]) await user.shows("#no-messages", "No messages.");
    const declines = async () => {
        await alice.call("ringing");
        await alice.click("#decline");
    };
    await Promise.all([ask("message"), declines()]);
    await alice.shows("#voicemail-title", "Voicemail (1 new)");
    await alice.shows("#messages .name", "dora");
    await alice.named();
    await alice.tab.focus("#messages .person");
    await alice.tab.keyboard.press("Enter");
    await alice.until("the sound of the message", () => {
        const sound = document.querySelector("#sound");
        return sound.checkVisibility() && sound.duration > 2 && sound.currentTime > 0.2;
    });
    await alice.until("a message that is heard", () => document.querySelector("#voicemail-title").innerText === "Voicemail");
    await alice.picture("voicemail");
    // Another device of hers shows the same.
    await alice.tab.reload();
    await alice.signIn();
    await alice.online();
    await alice.shows("#messages .name", "dora");
    await alice.until("a message that was heard before", () => document.querySelector("#voicemail-title").innerText === "Voicemail");
    await bob.shows("#no-messages", "No messages.");
    await alice.click("#messages .remove");
    await alice.shows("#no-messages", "No messages.");
    await ask("gone");
    await leave([alice, bob]);
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(what) {
    console.log(what);
    if ((await lines.next()).done) fail(`${what}: no answer`);
}

/** Calls from the open chat, and the other answers. */
async function callFromChat(caller, callee) {
    await caller.click("#chat-call");
    await callee.call("ringing");
    await callee.click("#answer");
}

async function restart(alice, bob) {
    await Promise.all([alice.signIn(), bob.signIn()]);
    await Promise.all([alice.online(), bob.online()]);
    await meet(alice, bob);
    await alice.openChat(bob);
    await callFromChat(alice, bob);
    await Promise.all([alice.call("talking"), bob.call("talking")]);
    for (const user of [alice, bob]) user.isOffline = true;
    await ask("kill");
    for (const user of [alice, bob]) await user.until("word of the loss", () => document.querySelector("#app").dataset.chat === "offline");
    await alice.say("written while the node was away");
    await alice.shows("#log .own .about", "waiting for the connection");
    await ask("start");
    await Promise.all([alice.online(), bob.online()]);
    await bob.openChat(alice);
    await bob.shows("#log .other .text", "written while the node was away");
    await alice.shows("#log .own .about", "read");
    // The call has outlived the node.
    await Promise.all([alice.hears(), bob.hears()]);
    await bob.click("#hang-up");
    await Promise.all([alice.hides("#call"), bob.hides("#call")]);
    await callFromChat(alice, bob);
    await Promise.all([alice.hears(), bob.hears()]);
    await alice.click("#hang-up");
    await Promise.all([alice.hides("#call"), bob.hides("#call")]);
    await leave([alice, bob]);
}

/** The sign-in of a directory's user: chat by the password itself, the phone by what it has left. */
async function directory(alice, bob) {
    await alice.signIn("wrong");
    await alice.shows("#sign-in-error", "The address or the password is wrong.");
    await Promise.all([alice.signIn(), bob.signIn()]);
    await Promise.all([alice.online(), bob.online()]);
    await meet(alice, bob);
    await alice.openChat(bob);
    await callFromChat(alice, bob);
    await Promise.all([alice.call("talking"), bob.call("talking")]);
    await bob.click("#hang-up");
    await Promise.all([alice.hides("#call"), bob.hides("#call")]);
    await leave([alice, bob]);
}

/** Goes to the provider from the page, and comes back as that user. */
async function signInAt(user, name) {
    await Promise.all([user.tab.waitForNavigation(), user.click("#provider-button")]);
    user.provider = new URL(user.tab.url()).origin;
    await user.until("the provider's page", (name) => [...document.querySelectorAll("a")].some((one) => one.textContent === name), name);
    await Promise.all([
        user.tab.waitForNavigation(),
        user.tab.evaluate((name) => [...document.querySelectorAll("a")].find((one) => one.textContent === name).click(), name),
    ]);
    await user.until("a page without the provider's answer", () => location.pathname === "/app/" && location.search === "" && history.length > 1);
}

function chatOnly(user) {
    return user.until("chat without a phone", () => {
        const { chat, phone } = document.querySelector("#app").dataset;
        return chat === "online" && phone === "none";
    });
}

async function provider(alice, bob) {
    const tokens = [];
    const grants = [];
    alice.tab.on("response", async (response) => {
        if (!response.url().endsWith("/token")) return;
        grants.push(`${new URLSearchParams(response.request().postData()).get("grant_type")} ${response.status()}`);
        if (response.ok()) tokens.push((await response.json()).access_token);
    });
    await alice.shows("#provider-button", "Sign in with Example");
    await alice.picture("sign-in-provider");
    await signInAt(alice, "nobody");
    await alice.shows("#sign-in-error", "You have not signed in at the provider.");
    await signInAt(alice, "stan");
    await alice.shows("#sign-in-error", "The server did not accept this sign-in");
    await signInAt(alice, "alice");
    await chatOnly(alice);
    await alice.shows("#own", alice.address);
    await alice.shows("#state", "chat only: calls need a password, and this sign-in has none");
    // A token that was made elsewhere stands in place of a password.
    await bob.type("#address", alice.address);
    await bob.type("#password", "no token");
    await bob.tab.keyboard.press("Enter");
    await bob.shows("#sign-in-error", "The server did not accept this sign-in");
    await bob.type("#password", tokens.at(-1));
    await bob.tab.keyboard.press("Enter");
    await chatOnly(bob);
    await bob.click("#sign-out");
    await signInAt(bob, "bob");
    await chatOnly(bob);
    await meet(alice, bob);
    await alice.openChat(bob);
    await alice.say("Hello from elsewhere");
    await bob.openChat(alice);
    await bob.shows("#log .other .text", "Hello from elsewhere");
    await alice.shows("#log .own .about", "read");
    if ((await alice.tab.evaluate(() => sessionStorage.length)) > 0) fail("the tab keeps something of the sign-in");
    // The tokens are over meanwhile; the page renews them, as soon as the provider can.
    for (const user of [alice, bob]) user.isOffline = true;
    await ask("kill");
    for (const user of [alice, bob]) await user.until("word of the loss", () => document.querySelector("#app").dataset.chat === "offline");
    await ask("break");
    await ask("start");
    while (!grants.includes("refresh_token 500")) await new Promise((resolve) => setTimeout(resolve, 50));
    await alice.shows("#state", "Connecting again");
    await ask("mend");
    await Promise.all([chatOnly(alice), chatOnly(bob)]);
    if (grants.at(-1) !== "refresh_token 200") fail(`no token was renewed: ${grants}`);
    await leave([alice, bob]);
}

async function main() {
    const browser = await puppeteer.launch({
        executablePath: program ?? fail("no chromium: run tools/setup"),
        headless: true,
        acceptInsecureCerts: true,
        args: [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--use-fake-ui-for-media-stream",
            "--use-fake-device-for-media-stream",
            "--autoplay-policy=no-user-gesture-required",
            "--disable-features=WebRtcHideLocalIpsWithMdns",
            "--force-webrtc-ip-handling-policy=default",
            "--allow-loopback-in-peer-connection",
        ],
    });
    const patience = setTimeout(() => {
        console.error("it takes too long");
        browser.process()?.kill("SIGKILL");
        process.exit(1);
    }, ALL);
    try {
        const users = await Promise.all(["alice", "bob"].map((name) => User.open(browser, name)));
        await { all, first, language, restart, directory, provider, voicemail }[play](...users, browser);
    } finally {
        clearTimeout(patience);
        await browser.close();
    }
}

main().then(
    () => process.exit(0),
    (error) => {
        console.error(error);
        process.exit(1);
    },
);
