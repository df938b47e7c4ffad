// XMPP over WebSocket (RFC 7395): signs in (XEP-0388, XEP-0386), makes and answers requests, and comes back after a lost
// connection, with the old session where the server still has it (XEP-0198).

import { ProviderError } from "./provider.js";
import { begin } from "./sasl.js";
import { decodeText, encodeText } from "./scram.js";
import { t } from "./text.js";
import { Xml, child, children, parse, textOf, xml } from "./xml.js";

const FRAMING = "urn:ietf:params:xml:ns:xmpp-framing";
const SASL2 = "urn:xmpp:sasl:2";
const BIND2 = "urn:xmpp:bind:0";
const SM = "urn:xmpp:sm:3";
const CARBONS = "urn:xmpp:carbons:2";
const ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas";

/** Milliseconds until the first new try, and the most between two. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
/** Silence after which the server is asked for a sign of life, and after which it is given up. */
const ASK_AFTER = 25_000;
const GIVE_UP_AFTER = 60_000;
/** For one request. */
const ANSWER_WITHIN = 30_000;

const STANZAS = ["message", "presence", "iq"];

/** Conditions of refused sign-ins that have words of their own, and those that have other words for a token. */
const REFUSALS = ["not-authorized", "account-disabled", "credentials-expired", "temporary-auth-failure", "policy-violation"];
const TOKEN_REFUSALS = ["not-authorized", "temporary-auth-failure"];

/** Why signing in failed, in words for the user. */
export class SignInError extends Error {
    constructor(message, isTemporary = false) {
        super(message);
        this.isTemporary = isTemporary;
    }
}

/** An error that the server or another client answered. */
export class StanzaError extends Error {
    constructor(stanza) {
        const error = child(stanza, "error");
        super(textOf(error, "text", ERRORS) ?? "");
        this.condition = [...(error?.children ?? [])].find((one) => one.namespaceURI === ERRORS && one.localName !== "text")?.localName;
    }
}

let counter = 0;
/** For stanzas. */
export const newId = () => `${Date.now().toString(36)}-${(counter += 1)}-${Math.random().toString(36).slice(2, 8)}`;

/** Events: `online` (detail: `isResumed`), `offline`, `refused` (detail: a SignInError), `stanza` (detail), `handled` (detail: id). */
export class Stream extends EventTarget {
    /** `tokens`: those of a provider, which say who the user is; `user` and `password` are null then. */
    constructor({ url, user, domain, password, tokens, onRequest }) {
        super();
        Object.assign(this, { url, user, domain, password, tokens, onRequest });
        this.mechanism = null;
        this.jid = null;
        this.isOnline = false;
        this.isStopped = false;
        this.pause = FIRST_PAUSE;
        this.pending = new Map();
        this.session = null;
        this.lastHeard = 0;
        this.beat = setInterval(() => this.checkLife(), 5_000);
        this.ending = new AbortController();
        addEventListener("online", () => this.connectNow(), { signal: this.ending.signal });
        this.connect();
    }

    connect() {
        clearTimeout(this.timer);
        this.timer = null;
        if (this.isStopped) return;
        this.exchange = null;
        this.lastHeard = Date.now();
        const socket = new WebSocket(this.url, "xmpp");
        this.socket = socket;
        // Late messages of an old socket are passed over.
        const ifCurrent = (handle) => (event) => this.socket === socket && handle(event);
        // One after the other: signing in waits for the browser's cryptography.
        let turn = Promise.resolve();
        socket.onopen = ifCurrent(() => this.open());
        socket.onmessage = ifCurrent(({ data }) => {
            this.lastHeard = Date.now();
            turn = turn.then(() => this.socket === socket && this.hear(parse(data))).catch((error) => this.fail(error));
        });
        socket.onclose = ifCurrent(() => turn.then(() => this.socket === socket && this.lost()));
    }

    connectNow() {
        if (this.timer) this.connect();
        else this.checkLife(true);
    }

    open() {
        this.socket.send(xml("open", { xmlns: FRAMING, to: this.domain, version: "1.0" }).toString());
    }

    /** Ends this connection; a new one follows unless the sign-in was refused. */
    fail(error) {
        if (error instanceof SignInError && !error.isTemporary) {
            this.stop();
            this.tell("refused", error);
            return;
        }
        if (error instanceof SignInError) this.tell("waiting", error);
        this.socket?.close();
    }

    lost() {
        const was = this.isOnline;
        this.isOnline = false;
        this.socket = null;
        if (was) this.tell("offline");
        else this.tell("waiting", new SignInError(t("stream.unreachable"), true));
        if (this.isStopped || this.timer) return;
        this.timer = setTimeout(() => this.connect(), this.pause * (0.75 + Math.random() / 2));
        this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    }

    /** Signs out. */
    stop() {
        this.isStopped = true;
        clearTimeout(this.timer);
        clearInterval(this.beat);
        this.ending.abort();
        this.password = null;
        this.tokens = null;
        this.rejectPending();
        const socket = this.socket;
        this.socket = null;
        if (socket?.readyState === WebSocket.OPEN) {
            if (this.isOnline) socket.send(xml("presence", { xmlns: "jabber:client", type: "unavailable" }).toString());
            socket.send(xml("close", { xmlns: FRAMING }).toString());
        }
        socket?.close();
        this.isOnline = false;
    }

    checkLife(isUrgent = false) {
        if (!this.socket) return;
        const silence = Date.now() - this.lastHeard;
        if (silence > GIVE_UP_AFTER) {
            const old = this.socket;
            this.lost();
            old.close();
        } else if (this.isOnline && this.session && (isUrgent || silence > ASK_AFTER)) {
            this.write(xml("r", { xmlns: SM }));
        }
    }

    async hear(element) {
        const { localName: name, namespaceURI: namespace } = element;
        if (namespace === SASL2) return this.signIn(name, element);
        if (namespace === SM) return this.manage(name, element);
        if (name === "features" && !this.isOnline && !this.exchange) return this.begin(element);
        if (name === "close" && namespace === FRAMING) return this.socket.close();
        if (name === "error") return this.handleStreamError(element);
        if (STANZAS.includes(name)) this.handleStanza(element);
    }

    handleStreamError(element) {
        if (child(element, "conflict")) {
            throw new SignInError(t("stream.replaced"));
        }
        if (child(element, "host-unknown")) throw new SignInError(t("stream.unknown_domain", { domain: this.domain }));
        this.socket.close();
    }

    async begin(features) {
        const authentication = child(features, "authentication", SASL2);
        const offered = children(authentication, "mechanism", SASL2).map((one) => one.textContent);
        if (!authentication || offered.length === 0) {
            throw new SignInError(t("stream.no_tls"));
        }
        // The one of tokens says itself whose it is.
        const account = this.tokens || !this.user ? null : `${this.user}@${this.domain}`;
        const secret = this.tokens ? await this.currentToken() : this.password;
        const isEncrypted = this.url.startsWith("wss:");
        const begun = begin(offered, { account, secret, isToken: Boolean(this.tokens), isEncrypted });
        if (!begun) throw new SignInError(t("stream.no_mechanism"));
        this.mechanism = begun.mechanism;
        this.exchange = begun.exchange;
        const resume = this.session && xml("resume", { xmlns: SM, previd: this.session.id, h: this.session.heard });
        const bind = xml(
            "bind",
            { xmlns: BIND2 },
            xml("tag", {}, "web"),
            xml("enable", { xmlns: SM, resume: "true" }),
            xml("enable", { xmlns: CARBONS }),
        );
        this.write(
            xml(
                "authenticate",
                { xmlns: SASL2, mechanism: begun.mechanism },
                xml("initial-response", {}, encodeText(this.exchange.first())),
                xml("user-agent", {}, xml("software", {}, "Belfry web page")),
                resume,
                bind,
            ),
        );
    }

    async currentToken() {
        try {
            return await this.tokens.current();
        } catch (error) {
            if (!(error instanceof ProviderError)) throw new SignInError(t("stream.no_token"));
            throw new SignInError(error.message, error.isTemporary);
        }
    }

    /** Whether this account has no password here, which a phone would need. */
    get isByToken() {
        return this.mechanism === "OAUTHBEARER";
    }

    refusal(condition) {
        if (this.isByToken && TOKEN_REFUSALS.includes(condition)) return t(`refused_token.${condition}`);
        return REFUSALS.includes(condition) ? t(`refused.${condition}`) : t("refused", { condition: condition ?? t("no_reason") });
    }

    async signIn(name, element) {
        if (name === "challenge") {
            const proof = await this.exchange.prove(decodeText(element.textContent));
            return this.write(xml("response", { xmlns: SASL2 }, encodeText(proof)));
        }
        if (name === "failure") {
            const condition = element.firstElementChild?.localName;
            throw new SignInError(this.refusal(condition), condition === "temporary-auth-failure");
        }
        if (name !== "success") return;
        const last = textOf(element, "additional-data", SASL2);
        if (this.exchange.isMutual && (!last || !this.exchange.isProvedBy(decodeText(last)))) {
            throw new SignInError(t("stream.unproved"));
        }
        this.pause = FIRST_PAUSE;
        this.user ??= textOf(element, "authorization-identifier", SASL2)?.split("@")[0];
        const resumed = child(element, "resumed", SM);
        if (resumed) return this.resume(Number(resumed.getAttribute("h")));
        const bound = child(element, "bound", BIND2);
        if (!bound) throw new SignInError(t("stream.no_session"), true);
        this.jid = textOf(element, "authorization-identifier", SASL2);
        this.establish(child(bound, "enabled", SM));
    }

    /** A new session. Messages that the old one had not acknowledged are sent again, with their ids. */
    establish(enabled) {
        const unhandled = this.session?.sent ?? [];
        const id = enabled?.getAttribute("id");
        this.session = id ? { id, heard: 0, handled: 0, sent: [] } : null;
        this.rejectPending();
        this.isOnline = true;
        this.tell("online", { isResumed: false });
        for (const stanza of unhandled) if (stanza.name === "message") this.send(stanza);
    }

    resume(h) {
        this.acknowledge(h);
        this.isOnline = true;
        for (const stanza of this.session.sent) this.write(stanza);
        this.tell("online", { isResumed: true });
    }

    manage(name, element) {
        if (!this.session) return;
        if (name === "r") this.write(xml("a", { xmlns: SM, h: this.session.heard }));
        if (name === "a") this.acknowledge(Number(element.getAttribute("h")));
    }

    acknowledge(h) {
        const { session } = this;
        while (session.handled < h && session.sent.length > 0) {
            const stanza = session.sent.shift();
            session.handled += 1;
            if (stanza.attributes.id) this.tell("handled", stanza.attributes.id);
        }
    }

    handleStanza(stanza) {
        if (this.session) this.session.heard = (this.session.heard + 1) % 2 ** 32;
        if (stanza.localName !== "iq") return this.tell("stanza", stanza);
        const [type, id] = [stanza.getAttribute("type"), stanza.getAttribute("id")];
        if (type === "get" || type === "set") return this.answer(stanza);
        const waiting = this.pending.get(id);
        const from = stanza.getAttribute("from");
        // Only whom we have asked may answer; the server speaks for the account.
        const isTheirs = waiting && (from === waiting.to || (!waiting.to && this.isOwn(from)));
        if (!isTheirs) return;
        this.pending.delete(id);
        clearTimeout(waiting.timer);
        if (type === "result") waiting.resolve(stanza);
        else waiting.reject(new StanzaError(stanza));
    }

    /** Whether this is the account itself. */
    isOwn(from) {
        return !from || from === `${this.user}@${this.domain}` || from === this.jid || from === this.domain;
    }

    answer(stanza) {
        const [to, id] = [stanza.getAttribute("from"), stanza.getAttribute("id")];
        const result = this.onRequest(stanza);
        if (result === undefined) {
            const condition = xml("service-unavailable", { xmlns: ERRORS });
            this.send(xml("iq", { to, id, type: "error" }, xml("error", { type: "cancel" }, condition)));
        } else {
            this.send(xml("iq", { to, id, type: "result" }, result));
        }
    }

    /** Asks, and returns the answer. */
    iq(type, to, ...payload) {
        const id = newId();
        return new Promise((resolve, reject) => {
            if (!this.isOnline) return reject(new Error(t("stream.not_connected")));
            const late = () => this.pending.delete(id) && reject(new Error(t("stream.late")));
            this.pending.set(id, { to, resolve, reject, timer: setTimeout(late, ANSWER_WITHIN) });
            this.send(xml("iq", { type, to, id }, ...payload));
        });
    }

    rejectPending() {
        const all = [...this.pending.values()];
        this.pending.clear();
        for (const { reject, timer } of all) {
            clearTimeout(timer);
            reject(new Error(t("stream.lost")));
        }
    }

    /** Sends a stanza, now or with the next connection. */
    send(stanza) {
        this.session?.sent.push(stanza);
        if (!this.isOnline) return;
        this.write(stanza);
        if (stanza.name === "message" && this.session) this.write(xml("r", { xmlns: SM }));
    }

    /** Stanzas have their namespace outright (RFC 7395 §3.3.3). */
    write(element) {
        if (this.socket?.readyState !== WebSocket.OPEN) return;
        const isStanza = STANZAS.includes(element.name);
        const whole = isStanza ? new Xml(element.name, { xmlns: "jabber:client", ...element.attributes }, element.children) : element;
        this.socket.send(whole.toString());
    }

    tell(name, detail) {
        this.dispatchEvent(new CustomEvent(name, { detail }));
    }
}
