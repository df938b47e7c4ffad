// The console in a real browser: console.cjs MODULES URL FACTS PROFILE [PICTURES]. Fails with a stack trace.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { createRequire } = require("node:module");

const [modules, url, given, profile, pictures] = process.argv.slice(2);
const puppeteer = createRequire(modules + "/")("puppeteer-core");
const facts = JSON.parse(given);
const origin = new URL(url).origin;
const PATIENCE = 60_000;
/** Bytes of a picture at most. */
const PICTURE = 150 * 1024;

const foreign = [];
const errors = [];

async function main() {
    const browser = await puppeteer.launch({
        executablePath: "/usr/bin/chromium",
        headless: true,
        userDataDir: profile,
        args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"],
        protocolTimeout: 2 * PATIENCE,
    });
    try {
        const page = await browser.newPage();
        page.setDefaultTimeout(PATIENCE);
        await page.setViewport({ width: 1100, height: 720 });
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
        page.on("request", (request) => {
            const isKnown = [`${origin}/`, "data:", facts.provider && `${new URL(facts.provider).origin}/`].some((known) => known && request.url().startsWith(known));
            if (!isKnown) foreign.push(request.url());
        });
        page.on("pageerror", (error) => errors.push(String(error)));
        page.on("console", (message) => {
            // Refusals that the script provokes are no errors of the page.
            const isRefusal = /status of 40[13]/.test(message.text());
            if (message.type() === "error" && !isRefusal) errors.push(message.text());
        });
        await run(page);
    } finally {
        await browser.close();
    }
    assert.deepEqual(foreign, [], "requests to other hosts");
    assert.deepEqual(errors, [], "errors of the pages");
}

async function run(page) {
    await page.goto(url);
    await page.waitForSelector("form.sign-in");
    if (facts.application) {
        await runApplications(page);
        return;
    }
    if (facts.conference) {
        await runRooms(page);
        return;
    }
    if (facts.farm) {
        await runFarm(page);
        return;
    }
    if (facts.provider) {
        await signInByProvider(page);
        return;
    }
    await refuseWrongPassword(page);
    await picture(page, "sign-in");
    await signInByKeyboard(page, facts.admin);
    await seeOverview(page);
    await seeLiveCall(page);
    const traced = await traceAccount(page);
    await searchCalls(page, traced);
    await makeAccount(page);
    await invite(page);
    await seeSessions(page);
    await endRegistration(page);
    await testRoutes(page);
    await liftBlock(page);
    await seeFarm(page);
    await signOut(page);
    await readOnly(page);
}

/** Waits until the page shows the text. A page that is being loaded has no body, and a condition that throws is not asked again. */
function shows(page, text) {
    return page.waitForFunction((wanted) => document.body?.innerText.includes(wanted), {}, text);
}

async function open(page, name) {
    await page.evaluate((hash) => {
        location.hash = hash;
    }, `#/${name}`);
    await page.waitForSelector(`div[data-page="${name.split("/")[0]}"]`);
}

/** Clicks the button of that name, as soon as it is there. */
async function press(page, name, within = "body") {
    const find = (wanted, place) => [...document.querySelectorAll(`${place} button`)].find((one) => (one.getAttribute("aria-label") || one.textContent) === wanted && !one.hidden && !one.disabled);
    const handle = await page.waitForFunction(find, {}, name, within);
    await handle.asElement().click();
}

async function fill(page, selector, text) {
    await page.waitForSelector(selector);
    await page.$eval(selector, (input) => {
        input.value = "";
    });
    await page.type(selector, text);
}

async function dialogIsClosed(page) {
    await page.waitForFunction(() => !document.querySelector("dialog"));
}

async function picture(page, name, language = "en") {
    await checkNames(page, name, language);
    if (!pictures) return;
    fs.mkdirSync(pictures, { recursive: true });
    const bytes = await page.screenshot({ type: "png" });
    assert.ok(bytes.length < PICTURE, `${name}: ${bytes.length} bytes`);
    fs.writeFileSync(path.join(pictures, `${name}.png`), bytes);
}

/** Whatever can be used has a name that a screen reader says; each page has one heading and its language. */
async function checkNames(page, name, language = "en") {
    const nameless = await page.evaluate(() => {
        const all = [...document.querySelectorAll("input, select, textarea, button, a, svg[role=img]")];
        const hasName = (one) => one.getAttribute("aria-label") || (one.labels && one.labels.length > 0 && one.labels[0].textContent.trim()) || (["BUTTON", "A"].includes(one.tagName) && one.textContent.trim());
        const tables = [...document.querySelectorAll("table")].filter((table) => !table.caption || table.querySelector("th:not([scope])"));
        return all.concat(tables).filter((one) => one.tagName === "TABLE" || !hasName(one)).map((one) => one.outerHTML.slice(0, 200));
    });
    assert.deepEqual(nameless, [], name);
    assert.equal(await page.$$eval("h1", (all) => all.length), 1, name);
    assert.equal(await page.$eval("html", (html) => html.lang), language);
}

async function refuseWrongPassword(page) {
    await page.type("input[name=account]", facts.admin);
    await page.type("input[name=password]", "wrong");
    await press(page, "Sign in");
    await shows(page, "the account or the password is wrong");
    await page.reload();
    await page.waitForSelector("form.sign-in");
}

/** Without a mouse: the first field has the focus. */
async function signInByKeyboard(page, account) {
    await page.waitForFunction(() => document.activeElement && document.activeElement.name === "account");
    await page.keyboard.type(account);
    await page.keyboard.press("Tab");
    await page.keyboard.type(facts.password);
    await page.keyboard.press("Enter");
    await page.waitForSelector("nav a[aria-current=page]");
    const cookies = await page.cookies();
    assert.equal(cookies.length, 1);
    assert.ok(cookies[0].httpOnly && cookies[0].sameSite === "Strict", JSON.stringify(cookies));
    assert.equal(await page.evaluate(() => document.cookie), "", "no script reads the cookie");
}

async function seeOverview(page) {
    await open(page, "overview");
    // Graphs are of seconds: some points are there, and the figures are those of the node.
    await page.waitForFunction(() => {
        const line = document.querySelector("figure path.line");
        return line && (line.getAttribute("d") || "").split("L").length > 3;
    });
    // The latencies of the last ten seconds, which may have had none.
    for (const title of ["First response to an INVITE", "Response to a REGISTER", "Chat message delivered or stored", "Sign-in of a chat client"]) {
        await page.waitForFunction((wanted) => {
            const caption = [...document.querySelectorAll("figcaption")].find((one) => one.innerText.includes(wanted));
            return /p99 (–|[\d.,]+ ms), p50 (–|[\d.,]+ ms)/.test(caption?.innerText ?? "");
        }, {}, title);
    }
    await shows(page, "of these 4 answered");
    await shows(page, facts.domain);
    await warnOfCertificate(page);
    await picture(page, "overview");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await picture(page, "overview-dark");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
    const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.notEqual(dark, light);
}

/** The node's certificate lasts; the page gets an answer of its last days. */
async function warnOfCertificate(page) {
    await page.waitForFunction(() => document.querySelector("dl.facts")?.innerText.includes("Certificate"));
    const problem = "The certificate of old.test ends at ";
    assert.equal(await page.evaluate((text) => document.body.innerText.includes(text), problem), false);
    await page.evaluate(() => {
        window.askNode = window.fetch;
        window.fetch = async (...all) => {
            const answer = await (await window.askNode(...all)).json();
            if (answer.now) answer.now.certificate = { ...answer.now.certificate, name: "old.test", ends_soon: true, trouble: "soon", order_failure: "no route" };
            return new Response(JSON.stringify(answer));
        };
    });
    await shows(page, problem);
    await shows(page, "The latest order failed: no route");
    await page.evaluate(() => {
        window.fetch = window.askNode;
    });
    await page.waitForFunction((text) => !document.body.innerText.includes(text), {}, problem);
}

async function seeLiveCall(page) {
    await open(page, "live");
    await shows(page, "Open calls: 1 of 1");
    await shows(page, "answered");
    await picture(page, "live");
    // A call between phones has no end here, and no account to trace.
    assert.deepEqual(await page.$$eval("main td button", (all) => all.length), 0);
    await fill(page, "input[name=account]", facts.admin);
    await press(page, "Search");
    await shows(page, "Open calls: 0 of 0");
}

/** Sends a request as a phone of the account, which is asked for credentials. */
function register(user) {
    const socket = require("node:dgram").createSocket("udp4");
    socket.on("message", () => socket.close());
    socket.bind(0, "127.0.0.1", () => {
        const at = `127.0.0.1:${socket.address().port}`;
        const lines = [
            `REGISTER sip:${facts.domain} SIP/2.0`, `Via: SIP/2.0/UDP ${at};branch=z9hG4bK${Date.now()}`,
            `From: <sip:${user}>;tag=1`, `To: <sip:${user}>`, `Call-ID: traced-${at}`, "CSeq: 1 REGISTER",
            `Contact: <sip:${at}>`, "Max-Forwards: 70", "Content-Length: 0", "", "",
        ];
        socket.send(lines.join("\r\n"), facts.sip, "127.0.0.1");
    });
}

async function traceAccount(page) {
    await open(page, `trace/${encodeURIComponent(facts.admin)}`);
    assert.equal(await page.$eval("input[name=account]", (input) => input.value), facts.admin);
    await page.click("input[name=full]");
    await press(page, "Begin the trace");
    await shows(page, `Tracing ${facts.admin} until`);
    register(facts.admin);
    await page.waitForFunction(() => {
        const rows = [...document.querySelectorAll("main tbody tr")].map((row) => row.innerText);
        return rows.length === 2 && rows[0].includes("REGISTER") && rows[1].includes("401 (REGISTER)");
    });
    // The picture has an arrow for each, and says what it is.
    assert.equal(await page.$$eval(".ladder .arrow", (all) => all.length), 2);
    assert.equal(await page.$$eval(".ladder text.party", (all) => all[1].textContent), "belfry");
    assert.equal(await page.$eval(".ladder svg", (svg) => svg.getAttribute("aria-label")), "2 messages between 2 parties, as the table below has them");
    await page.click("main details summary");
    await shows(page, "CSeq: 1 REGISTER");
    await page.click("main details summary");
    await picture(page, "trace");
    await press(page, "End the trace");
    await shows(page, "The trace is ended.");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await picture(page, "trace-dark");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
    return page.$eval("main tbody tr td:nth-child(5)", (cell) => cell.textContent);
}

/** Each call of late has a ladder; of one that is not remembered the page says so, and of one that was traced it has the messages. */
async function seeLadders(page, id, traced) {
    await press(page, `Ladder of the call ${id}`);
    await page.waitForFunction(() => document.querySelectorAll("main section .ladder .arrow").length > 1);
    await shows(page, "INVITE");
    // As if the row were of another Call-ID: a REGISTER has no record.
    const ask = (call) => page.evaluate((call) => {
        window.askNode ??= window.fetch;
        window.fetch = (url, ...rest) => window.askNode(String(url).replace(/ladder\?call_id=.*/, `ladder?call_id=${encodeURIComponent(call)}`), ...rest);
    }, call);
    await ask("none@example.test");
    await press(page, `Ladder of the call ${id}`);
    await shows(page, "No messages of this call are remembered.");
    await ask(traced);
    await press(page, `Ladder of the call ${id}`);
    await page.waitForFunction(() => document.querySelectorAll("main section .ladder .arrow").length === 2);
    await shows(page, "401 (REGISTER)");
    await page.evaluate(() => {
        window.fetch = window.askNode;
    });
}

async function searchCalls(page, traced) {
    await open(page, "calls");
    const rows = () => page.waitForFunction(() => document.querySelectorAll("main tbody tr").length === 3);
    await rows();
    await shows(page, "service");
    await picture(page, "calls");
    const id = await page.$eval("main tbody tr:last-child td:nth-child(8)", (cell) => cell.textContent);
    await seeLadders(page, id, traced);
    await page.$eval("main section", (section) => section.remove());
    await fill(page, "input[name=call_id]", id);
    await press(page, "Search");
    await page.waitForFunction((wanted) => {
        const cells = [...document.querySelectorAll("main tbody tr td:nth-child(8)")];
        return cells.length === 1 && cells[0].textContent === wanted;
    }, {}, id);
    const file = await page.evaluate(async () => {
        const answer = await fetch(document.querySelector("a[download]").href);
        return [answer.headers.get("content-type"), await answer.text()];
    });
    assert.equal(file[0], "text/csv; charset=utf-8");
    assert.equal(file[1].trim().split("\r\n").length, 2, file[1]);
    assert.ok(file[1].includes(id));
    // The database searches, and the file has what it finds.
    const caption = (count) => shows(page, `Calls that are over: ${count} shown`);
    await fill(page, "input[name=call_id]", "");
    await fill(page, "input[name=text]", "SERVICE@");
    await fill(page, "input[name=code]", "200");
    await page.$eval("input[name=from]", (input) => {
        input.value = "2020-01-01T00:00";
    });
    await press(page, "Search");
    await caption(3);
    const rows200 = await page.evaluate(async () => (await (await fetch(document.querySelector("a[download]").href)).text()).trim().split("\r\n").length);
    assert.equal(rows200, 4);
    await page.$eval("input[name=until]", (input) => {
        input.value = "2020-01-02T00:00";
    });
    await press(page, "Search");
    await caption(0);
    await page.$eval("input[name=until]", (input) => {
        input.value = "";
    });
    await fill(page, "input[name=code]", "486");
    await press(page, "Search");
    await caption(0);
}

async function makeAccount(page) {
    await open(page, "accounts");
    await shows(page, facts.admin);
    // A name of a stranger is a text, whatever it looks like.
    await shows(page, facts.markup);
    assert.equal(await page.$("img"), null);
    assert.notEqual(await page.title(), "broken");
    await press(page, "Add an account");
    await fill(page, "dialog input[name=address]", `new@${facts.domain}`);
    await fill(page, "dialog input[name=display_name]", "New");
    await fill(page, "dialog input[name=password]", "a password");
    await picture(page, "account-add");
    await press(page, "Add an account", "dialog");
    await dialogIsClosed(page);
    await page.waitForSelector(`a[href="#/accounts/${encodeURIComponent(`new@${facts.domain}`)}"]`);
    await picture(page, "accounts");
    // Once more: the dialog says why not, and stays.
    await press(page, "Add an account");
    await fill(page, "dialog input[name=address]", `new@${facts.domain}`);
    await fill(page, "dialog input[name=password]", "a password");
    errors.length = 0;
    await press(page, "Add an account", "dialog");
    await page.waitForFunction(() => document.querySelector("dialog [role=alert]")?.textContent.length > 5);
    errors.length = 0;
    await page.keyboard.press("Escape");
    await dialogIsClosed(page);
    await open(page, `accounts/${encodeURIComponent(`new@${facts.domain}`)}`);
    await press(page, "Disable");
    await shows(page, "disabled");
    await press(page, "Add an address");
    await fill(page, "dialog input[name=alias]", "4711");
    await press(page, "Add an address", "dialog");
    await dialogIsClosed(page);
    await shows(page, `4711@${facts.domain}`);
    await seeQrCodes(page, `new@${facts.domain}`);
    await picture(page, "account");
    await press(page, "Remove");
    await press(page, "Remove", "dialog");
    await dialogIsClosed(page);
    await page.waitForFunction((gone) => location.hash === "#/accounts" && document.querySelector("main table") && ![...document.querySelectorAll("main td")].some((cell) => cell.textContent === gone), {}, `new@${facts.domain}`);
}

/** The modules of this text's code, as the Python package qrcode makes them with the same mask. */
const QR_TEXT = "xmpp:alice@example.net";
const QR_SHA256 = "f26e954b790b18f3f26034b359ff6538d5d5e70ac734b8af5eae800af42ea4f7";

async function seeQrCodes(page, address) {
    const names = await page.$$eval("svg.qr", (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(names, [`QR code of sip:${address}`, `QR code of xmpp:${address}`]);
    const rows = await page.evaluate(async (text) => {
        const { modules } = await import("/js/qr.js");
        return modules(text).map((row) => row.map(Number).join(""));
    }, QR_TEXT);
    const digest = require("node:crypto").createHash("sha256").update(rows.join("\n")).digest("hex");
    assert.equal(digest, QR_SHA256);
    assert.equal(await page.evaluate(async () => (await import("/js/qr.js")).modules("x".repeat(214))), null);
}

/** The code is of the link that permits to make this account, as the command has it. */
async function invite(page) {
    await open(page, "accounts");
    await press(page, "Invite to make an account");
    await fill(page, "dialog input[name=account]", `guest@${facts.domain}`);
    await press(page, "Invite to make an account", "dialog");
    await dialogIsClosed(page);
    await shows(page, `Invitation for guest@${facts.domain}, good once`);
    const link = await page.$eval(".invitation code", (code) => code.textContent);
    assert.match(link, /^xmpp:guest@[a-z.]+\?register;preauth=[0-9a-f]{32}$/);
    assert.equal(await page.$eval(".invitation svg.qr", (svg) => svg.getAttribute("aria-label")), `QR code of ${link}`);
    // A picture of it is a picture of a token, which is another one each time.
    await checkNames(page, "invitation");
}

async function seeSessions(page) {
    await open(page, "sessions");
    await shows(page, "0 of 0 sessions");
    await shows(page, "Registered addresses: 1 of 1");
    await shows(page, "Groups: 1 of 1");
    await shows(page, "The Office");
    await shows(page, "2 named in the configuration");
    await picture(page, "sessions");
}

async function endRegistration(page) {
    const phone = `marked@${facts.domain}`;
    await shows(page, "Registered addresses: 1 of 1");
    await shows(page, "SIPp");
    await fill(page, "input[name=prefix]", "nothing");
    await press(page, "Search registrations");
    await shows(page, "Registered addresses: 0 of 0");
    await fill(page, "input[name=prefix]", "mark");
    await press(page, "Search registrations");
    const row = await page.waitForFunction((wanted) => [...document.querySelectorAll("main td")].find((cell) => cell.textContent === wanted), {}, phone);
    const name = await row.evaluate((cell) => cell.parentElement.querySelector("button.bad").getAttribute("aria-label"));
    assert.ok(name.startsWith(`End the registration of ${phone} at sip:`), name);
    await press(page, `Trace ${phone} from now on`);
    await page.waitForFunction((wanted) => document.querySelector("div[data-page=trace] input[name=account]")?.value === wanted, {}, phone);
    await open(page, "sessions");
    await shows(page, "Registered addresses: 1 of 1");
    await press(page, name);
    await press(page, "End", "dialog");
    await dialogIsClosed(page);
    await shows(page, "Registered addresses: 0 of 0");
    await open(page, `accounts/${encodeURIComponent(phone)}`);
    await shows(page, facts.markup);
    assert.ok(!(await page.$eval("main", (main) => main.innerText)).includes("SIPp"));
}

async function testRoutes(page) {
    await open(page, "routes");
    await shows(page, "trunk");
    await fill(page, "input[name=to]", "+4930123");
    await press(page, "Where would this call go?");
    await shows(page, "By the route trunk, as +4930123");
    await shows(page, "192.0.2.7:5060");
    await picture(page, "routes");
    await fill(page, "input[name=to]", "nobody");
    await press(page, "Where would this call go?");
    await shows(page, "There is no such account");
    await press(page, "Add a route");
    await fill(page, "dialog input[name=name]", "spare");
    await fill(page, "dialog input[name=pattern]", "prefix:+33");
    await fill(page, "dialog textarea", "sip:192.0.2.8:5060\nsip:192.0.2.9,priority=2");
    await fill(page, "dialog input[name=max_rate]", "5");
    await fill(page, "dialog textarea[name=deny]", "00*\n+882*");
    await page.click("dialog input[name=trusted]");
    await press(page, "Add a route", "dialog");
    await dialogIsClosed(page);
    await shows(page, "prefix:+33");
    for (const text of ["trusted", "at most 5 new calls a second", "not to 00*, +882*"]) await shows(page, text);
    await press(page, "Remove the route spare");
    await press(page, "Remove", "dialog");
    await dialogIsClosed(page);
    await page.waitForFunction(() => document.querySelector("main table")?.innerText.includes("prefix:+33") === false);
}

async function liftBlock(page) {
    const target = `mallory@${facts.domain}`;
    for (let tries = 0; tries < 11; tries += 1) {
        await fetch(`${url}v1/admin/session`, {
            method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ account: target, password: "guess" }),
        });
    }
    await open(page, "security");
    await shows(page, target);
    await page.waitForFunction((name) => {
        const row = [...document.querySelectorAll("main tbody tr")].find((one) => one.innerText.includes(name));
        return row && row.querySelector("td:nth-child(6)").innerText.length > 0;
    }, {}, target);
    await shows(page, "Refused until");
    await picture(page, "security");
    await press(page, `Lift ${target}`);
    await press(page, "Lift", "dialog");
    await dialogIsClosed(page);
    await page.waitForFunction((gone) => {
        const table = document.querySelector("main table");
        return table && !table.innerText.includes(gone);
    }, {}, target);
}

async function seeFarm(page) {
    await open(page, "farm");
    await shows(page, "This node is in no farm");
    // The node has made its certificate, which lasts.
    await page.waitForFunction(() => {
        const facts = document.querySelector("dl.facts");
        return facts && facts.innerText.includes("the node itself") && facts.querySelector(".good");
    });
    await press(page, "Check the file only");
    await shows(page, "belfry.toml is good.");
    await press(page, "Show the file");
    await page.waitForFunction((admin) => [...document.querySelectorAll("main tr")].some((row) => row.innerText.includes("admins") && row.innerText.includes(admin)), {}, facts.admin);
    await press(page, "Check and take over the configuration");
    await shows(page, "The configuration is taken over.");
    await picture(page, "farm");
}

async function signOut(page) {
    await press(page, "Sign out");
    await page.waitForSelector("form.sign-in");
    const status = await page.evaluate(async () => (await fetch("/v1/admin/overview")).status);
    assert.equal(status, 401);
}

/** It sees the pages, has no buttons that change, and is refused when it asks all the same. */
async function readOnly(page) {
    await signInByKeyboard(page, facts.reader);
    await open(page, "accounts");
    await shows(page, facts.admin);
    const names = await page.$$eval("main button", (all) => all.filter((one) => !one.hidden).map((one) => one.textContent));
    assert.deepEqual(names, ["Search"]);
    const links = await page.$$eval("nav a[data-page]", (all) => all.map((one) => one.dataset.page));
    assert.ok(links.includes("live") && links.includes("recordings"));
    for (const page of ["trace", "numbers", "documents"]) assert.ok(!links.includes(page), `readers do not see ${page}`);
    await open(page, "sessions");
    await shows(page, "Registered addresses: 0 of 0");
    const [status, error] = await page.evaluate(async (domain) => {
        const session = await (await fetch("/v1/admin/session")).json();
        const answer = await fetch("/v1/admin/accounts", {
            method: "POST", headers: { "content-type": "application/json", "x-csrf-token": session.csrf },
            body: JSON.stringify({ address: `evil@${domain}`, password: "a password" }),
        });
        return [answer.status, (await answer.json()).error];
    }, facts.domain);
    assert.equal(status, 403);
    assert.equal(error, "this needs the role operator; yours is read-only");
}

/** A browser goes to the provider of the domain, which is another site, and comes back signed in, or with the reason why not. */
async function signInByProvider(page) {
    await page.waitForSelector(".providers a");
    // A token may stand in place of a password where a provider makes them.
    await shows(page, "Password or token");
    await picture(page, "sign-in-provider");
    await goToProvider(page);
    await choose(page, "nobody");
    await shows(page, "You have not signed in at the provider.");
    await picture(page, "sign-in-refused");
    await goToProvider(page);
    await choose(page, facts.stranger);
    await shows(page, "This account has no role here. Ask the administrator.");
    assert.deepEqual((await page.cookies()).map((cookie) => cookie.name), [], "no session, and no sign-in under way");
    await goToProvider(page);
    await choose(page, facts.operator);
    await page.waitForSelector("nav a[aria-current=page]");
    await shows(page, `${facts.operator}@${facts.domain}`);
    assert.equal(await page.$eval(".who div:nth-child(2)", (role) => role.textContent), "Operator");
    assert.ok(await page.$('nav a[data-page="trace"]'), "operators see traces");
    // The address has neither code nor state, so a copy of it gives nothing away, and going back begins nothing again.
    assert.equal(await page.evaluate(() => location.pathname + location.search), "/");
    const cookies = await page.cookies();
    assert.deepEqual(cookies.map((cookie) => [cookie.httpOnly, cookie.sameSite]), [[true, "Strict"]]);
    await page.reload();
    await page.waitForSelector("nav a[aria-current=page]");
    await signOut(page);
    // The provider's answer of before is used up: its code with no sign-in under way.
    await page.goto(`${origin}/sign-in/callback?code=code-1&state=0`);
    await shows(page, "The sign-in took too long, or was begun in another browser. Begin again.");
}

async function goToProvider(page) {
    const link = await page.waitForSelector(".providers a");
    assert.equal(await link.evaluate((one) => one.textContent), "Sign in with Example");
    await Promise.all([page.waitForNavigation(), link.click()]);
    assert.ok(page.url().startsWith(facts.provider), page.url());
    assert.notEqual(new URL(page.url()).hostname, new URL(origin).hostname, "another site");
}

/** Chooses a user on the provider's page, and waits for the console's. */
async function choose(page, user) {
    const link = await page.waitForFunction((name) => [...document.querySelectorAll("a")].find((one) => one.textContent === name), {}, user);
    await Promise.all([page.waitForNavigation(), link.asElement().click()]);
    assert.ok(page.url().startsWith(`${origin}/`), page.url());
}

/** Numbers, applications, tests of documents, recordings and languages, at a node whose applications answer calls. */
async function runApplications(page) {
    await signInByKeyboard(page, facts.admin);
    await bindNumberByKeyboard(page);
    await seeWayOfNumber(page);
    await testDocuments(page);
    await playRecording(page);
    await switchLanguage(page);
    await unbindNumber(page);
    await signOut(page);
    await readRecordings(page);
}

/** Puts the focus on a button, as the Tab key does, and presses it by the keyboard. */
async function pressByKeyboard(page, name) {
    const find = (wanted) => [...document.querySelectorAll("button")].find((one) => (one.getAttribute("aria-label") || one.textContent) === wanted);
    const handle = await page.waitForFunction(find, {}, name);
    await handle.asElement().focus();
    await page.keyboard.press("Enter");
}

/** Waits until the field of that name has the focus. */
function hasFocus(page, name) {
    return page.waitForFunction((wanted) => document.activeElement && document.activeElement.name === wanted, {}, name);
}

async function bindNumberByKeyboard(page) {
    await open(page, "numbers");
    await pressByKeyboard(page, "Add an application");
    await hasFocus(page, "name");
    await page.keyboard.type("Menu");
    await page.keyboard.press("Tab");
    await hasFocus(page, "voice_url");
    await page.keyboard.type(facts.application);
    await page.keyboard.press("Enter");
    await dialogIsClosed(page);
    await shows(page, facts.application);
    await pressByKeyboard(page, "Add a number");
    await hasFocus(page, "number");
    await page.keyboard.type("4711");
    await page.keyboard.press("Tab");
    await page.keyboard.type("Front desk");
    await page.keyboard.press("Tab");
    await hasFocus(page, "voice_application");
    await page.keyboard.type("Menu");
    await page.keyboard.press("Tab");
    await hasFocus(page, "voice_url");
    await page.keyboard.press("Enter");
    await dialogIsClosed(page);
    await page.waitForFunction(() => {
        const row = document.querySelector("[data-list-of=numbers] tbody tr");
        return row && ["+4711", "Front desk", "Menu"].every((text) => row.innerText.includes(text));
    });
    await picture(page, "numbers");
    await press(page, "Change +4711");
    await fill(page, "dialog input[name=name]", "Reception");
    await fill(page, "dialog input[name=voice_url]", "ftp://no");
    await press(page, "Save", "dialog");
    await page.waitForFunction(() => document.querySelector("dialog [role=alert]")?.textContent.includes("http or https"));
    errors.length = 0;
    await fill(page, "dialog input[name=voice_url]", "");
    await press(page, "Save", "dialog");
    await dialogIsClosed(page);
    await shows(page, "Reception");
}

/** A number that an application answers leads there, and not to an account of that name. */
async function seeWayOfNumber(page) {
    const ask = async (to, ...texts) => {
        await fill(page, "input[name=to]", to);
        await press(page, "Where would this call go?");
        for (const text of texts) await shows(page, text);
    };
    await open(page, "routes");
    await ask("4711", `To an application: ${facts.application}`, "The number +4711 is bound to it");
    await ask("1234", "The number 1234 is of the configuration, in [voice] numbers");
    await ask("9999", "There is no such account: the call is answered 404.");
    await open(page, "numbers");
}

async function testDocuments(page) {
    await press(page, "Test the documents of +4711");
    await page.waitForFunction(() => {
        const chosen = document.querySelector("select[name=number]");
        return chosen && chosen.selectedOptions.length === 1 && chosen.selectedOptions[0].textContent === "+4711";
    });
    await press(page, "Test");
    await shows(page, "hello (en)");
    await shows(page, "again and again until the call ends");
    await shows(page, "The test ends with the call.");
    await page.select("select[name=source]", "document");
    await page.waitForFunction(() => document.querySelector("textarea[name=document]")?.closest("label").hidden === false);
    await page.$eval("textarea[name=document]", (text) => {
        text.value = "<Response>\n  <Gather numDigits='1' action='https://example.net/menu'>\n    <Say>Press one for sales.</Say>\n  </Gather>\n  <Sey>Goodbye</Sey>\n</Response>\n";
    });
    await fill(page, "textarea[name=inputs]", "1");
    await press(page, "Test");
    await shows(page, "Line 5, column 3");
    await shows(page, "Press one for sales. (en)");
    await shows(page, "The caller presses");
    await shows(page, "POST https://example.net/menu");
    await shows(page, "The test ends where the next document would be asked for.");
    const posted = await page.$$eval("main details pre", (all) => all.map((one) => one.textContent));
    assert.equal(posted.length, 1);
    assert.ok(posted[0].includes("Digits=1"), posted[0]);
    await page.$eval("h1", (heading) => heading.scrollIntoView());
    await picture(page, "documents");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await page.$eval("main table", (table) => table.scrollIntoView());
    await picture(page, "documents-dark");
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
    // An address of this machine that no call may fetch from would be refused in the same way: the client is that of calls.
    await page.select("select[name=source]", "url");
    await fill(page, "input[name=url]", "http://127.0.0.1:1/nothing");
    await press(page, "Test");
    await shows(page, "Errors: 1");
}

async function playRecording(page) {
    await open(page, "recordings");
    await shows(page, "Recordings: 1 of 1");
    await press(page, `Play ${facts.recording}`);
    // The metadata comes first, then the range of the place that the user goes to.
    await page.waitForFunction(() => {
        const audio = document.querySelector("audio");
        return audio && audio.readyState >= 2 && audio.duration > 0.5;
    });
    await page.evaluate(() => {
        const audio = document.querySelector("audio");
        audio.pause();
        audio.currentTime = audio.duration / 2;
    });
    await page.waitForFunction(() => {
        const audio = document.querySelector("audio");
        return !audio.seeking && audio.currentTime > 0.2 && audio.readyState >= 2;
    });
    await picture(page, "recordings");
    const part = await page.evaluate(async () => {
        const answer = await fetch(document.querySelector("main a[download]").href, { headers: { range: "bytes=0-3" } });
        return [answer.status, answer.headers.get("content-type"), await answer.text()];
    });
    assert.deepEqual(part, [206, "audio/x-wav", "RIFF"]);
}

async function switchLanguage(page) {
    await page.select("select[name=language]", "de");
    await shows(page, "Aufnahmen: 1 von 1");
    await checkNames(page, "recordings in German", "de");
    await open(page, "overview");
    await shows(page, "Dieser Knoten");
    await picture(page, "overview-german", "de");
    await page.select("select[name=language]", "en");
    await shows(page, "This node");
    // Without a choice it is the language that the browser asks for.
    await page.setExtraHTTPHeaders({ "accept-language": "fr, de-AT;q=0.9, en;q=0.5" });
    await page.select("select[name=language]", "");
    await shows(page, "Dieser Knoten");
    await page.setExtraHTTPHeaders({});
    await page.select("select[name=language]", "en");
    await shows(page, "This node");
}

async function unbindNumber(page) {
    await open(page, "recordings");
    await press(page, `Remove ${facts.recording}`);
    await press(page, "Remove", "dialog");
    await dialogIsClosed(page);
    await shows(page, "Recordings: 0 of 0");
    await open(page, "numbers");
    await press(page, "Remove +4711");
    await press(page, "Remove", "dialog");
    await dialogIsClosed(page);
    await page.waitForFunction(() => document.querySelector("[data-list-of=numbers]")?.innerText.includes("+4711") === false);
    await press(page, "Remove Menu");
    await press(page, "Remove", "dialog");
    await dialogIsClosed(page);
    await page.waitForFunction(() => document.querySelector("[data-list-of=applications]")?.innerText.includes("Menu") === false);
}

/** A reader sees the list of recordings; the interface refuses the rest. */
async function readRecordings(page) {
    await signInByKeyboard(page, facts.reader);
    await open(page, "recordings");
    await shows(page, "Recordings: 0 of 0");
    const statuses = await page.evaluate(async (recording) => {
        const paths = ["numbers", "applications", `recordings/${recording}/sound.wav`];
        return Promise.all(paths.map(async (one) => (await fetch(`/v1/admin/${one}`)).status));
    }, facts.recording);
    assert.deepEqual(statuses, [403, 403, 403]);
}

/** Rooms of chat, a conference and a queue, at a node whose applications have put calls there. */
async function runRooms(page) {
    await signInByKeyboard(page, facts.admin);
    await seeRooms(page);
    await seeQueues(page);
    await putOut(page);
    await takeOut(page);
    await endLiveCall(page);
    await signOut(page);
    await readRooms(page);
}

/** Waits until the table whose caption begins so has that many rows. */
function hasRows(page, caption, count) {
    return page.waitForFunction((wanted, rows) => {
        const table = [...document.querySelectorAll("main table")].find((one) => one.caption.textContent.startsWith(wanted));
        return table && [...table.tBodies[0].rows].filter((row) => row.cells.length > 1).length === rows;
    }, {}, caption, count);
}

async function seeRooms(page) {
    await open(page, "rooms");
    await shows(page, "Rooms: 1 of 1");
    await shows(page, facts.room);
    await press(page, `Show ${facts.room}`);
    await hasRows(page, `Occupants of ${facts.room}`, 0);
    await hasRows(page, `Affiliations of ${facts.room}`, 1);
    await shows(page, "Conferences: 1 of 1");
    await press(page, `Show ${facts.conference}`);
    await hasRows(page, `Members of ${facts.conference}`, 2);
    const states = await page.$$eval("main table:last-of-type tbody tr", (all) => all.map((row) => row.innerText));
    assert.equal(states.filter((text) => text.includes("muted")).length, 1, states.join("\n"));
    // Without the details of the room the members of the conference are in the picture.
    await press(page, "Search");
    await page.waitForFunction(() => ![...document.querySelectorAll("main caption")].some((one) => one.textContent.startsWith("Occupants")));
    await picture(page, "rooms");
}

async function seeQueues(page) {
    await open(page, "queues");
    await shows(page, "Queues: 1 of 1");
    await press(page, `Show ${facts.queue}`);
    await hasRows(page, `Calls waiting in ${facts.queue}`, 1);
    // The longest wait grows by itself.
    const wait = () => page.$eval("main tbody tr td:nth-child(3)", (cell) => cell.textContent);
    const first = await wait();
    await page.waitForFunction((before) => document.querySelector("main tbody tr td:nth-child(3)").textContent !== before, {}, first);
    await picture(page, "queues");
}

/** The buttons of that word in the page. */
function named(page, word) {
    return page.$$eval("main button", (all, start) => all.map((one) => one.getAttribute("aria-label") || one.textContent).filter((name) => name.startsWith(start)), word);
}

async function putOut(page) {
    await open(page, "rooms");
    await press(page, `Show ${facts.conference}`);
    await hasRows(page, `Members of ${facts.conference}`, 2);
    const [button] = await named(page, "Put out the call CA");
    await press(page, button);
    await press(page, "Put out", "dialog");
    await dialogIsClosed(page);
    await hasRows(page, `Members of ${facts.conference}`, 1);
    await press(page, `End the conference ${facts.conference}`);
    await press(page, "End", "dialog");
    await dialogIsClosed(page);
    await shows(page, "Conferences: 0 of 0");
}

async function takeOut(page) {
    await open(page, "queues");
    await press(page, `Show ${facts.queue}`);
    await hasRows(page, `Calls waiting in ${facts.queue}`, 1);
    const [button] = await named(page, "Remove the call CA");
    await press(page, button);
    await press(page, "Remove", "dialog");
    await dialogIsClosed(page);
    await hasRows(page, `Calls waiting in ${facts.queue}`, 0);
}

/** The call of an application ends, and leaves the table without another click. */
async function endLiveCall(page) {
    await open(page, "live");
    const find = (called) => [...document.querySelectorAll("main tbody tr")].find((row) => row.cells[5]?.textContent.includes(called))?.querySelector("button.bad")?.getAttribute("aria-label");
    const button = await (await page.waitForFunction(find, {}, facts.live)).jsonValue();
    await press(page, button);
    await press(page, "End", "dialog");
    await dialogIsClosed(page);
    await page.waitForFunction((called) => {
        const table = document.querySelector("main table");
        return table && ![...table.tBodies[0].rows].some((row) => row.cells[5]?.textContent.includes(called));
    }, {}, facts.live);
}

async function readRooms(page) {
    await signInByKeyboard(page, facts.reader);
    await open(page, "queues");
    await shows(page, "Queues: 1 of 1");
    await open(page, "rooms");
    await shows(page, "Rooms: 1 of 1");
    const names = await named(page, "");
    assert.ok(names.length > 0 && names.every((name) => name === "Search" || name.startsWith("Show")), names.join());
}

/** A farm of two nodes: its table, its map, and the drain of the other node. */
async function runFarm(page) {
    await signInByKeyboard(page, facts.reader);
    await open(page, "farm");
    await hasRows(page, "Farm ", 2);
    assert.deepEqual(await named(page, ""), ["Show the map"]);
    await signOut(page);
    await signInByKeyboard(page, facts.admin);
    await open(page, "farm");
    await hasRows(page, "Farm ", 2);
    // Both have buckets, and the node of this console is marked.
    await page.waitForFunction(() => {
        const rows = [...document.querySelector("main table").tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
        return rows.length === 2 && rows[0][0] === "n0 (this)" && rows[1][0] === "n1" && rows.every((row) => Number(row[3].replace(/\D/g, "")) > 0 && Number(row[4].replace(/\D/g, "")) > 0);
    });
    await seeMap(page);
    await page.$eval("h1", (heading) => heading.scrollIntoView());
    await picture(page, "farm-nodes");
    await drainOther(page);
}

/** Every bucket has a holder, and both nodes hold some. */
async function seeMap(page) {
    await press(page, "Show the map");
    await page.waitForFunction(() => [...document.querySelectorAll("main caption")].some((one) => one.textContent.startsWith("Buckets of accounts, map ")));
    const ranges = await page.evaluate(() => {
        const table = [...document.querySelectorAll("main table")].find((one) => one.caption.textContent.startsWith("Buckets of accounts"));
        return [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    });
    const count = ranges.reduce((sum, row) => sum + Number(row[1].replace(/\D/g, "")), 0);
    assert.equal(count, 4096, JSON.stringify(ranges).slice(0, 500));
    assert.deepEqual([...new Set(ranges.map((row) => row[2]))].sort(), ["n0", "n1"]);
    await shows(page, "Call slots, map ");
}

async function drainOther(page) {
    await press(page, "Drain the node n1");
    await page.waitForFunction(() => document.querySelector("dialog")?.innerText.includes("The node gives its calls and accounts to the others, and its process ends."));
    await checkNames(page, "the question before a drain");
    await press(page, "Cancel", "dialog");
    await dialogIsClosed(page);
    await press(page, "Drain the node n1");
    await press(page, "Drain", "dialog");
    await dialogIsClosed(page);
    await shows(page, "n1 drains.");
    // The table goes on by itself, without another click, until the node has nothing more or is gone.
    await page.waitForFunction(() => {
        const rows = [...document.querySelector("main table").tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
        const [own, other] = ["n0", "n1"].map((name) => rows.find((row) => row[0].startsWith(name)));
        return own && Number(own[4].replace(/\D/g, "")) === 4096 && (!other || (other[3] === "0" && other[4] === "0"));
    });
}

main().catch((error) => {
    console.error(error.stack);
    console.error("errors of the pages:", errors, "requests to other hosts:", foreign);
    process.exitCode = 1;
});
