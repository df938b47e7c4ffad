// Contacts with their presence, and conversations with their history.

import { Device } from "./device.js";
import { CallHistory } from "./history.js";
import { Stream, newId } from "./stream.js";
import { t } from "./text.js";
import { VOICEMAIL, Voicemail } from "./voicemail.js";
import { child, children, textOf, xml } from "./xml.js";

const ROSTER = "jabber:iq:roster";
const MAM = "urn:xmpp:mam:2";
const RSM = "http://jabber.org/protocol/rsm";
const FORWARD = "urn:xmpp:forward:0";
const DELAY = "urn:xmpp:delay";
const CARBONS = "urn:xmpp:carbons:2";
const RECEIPTS = "urn:xmpp:receipts";
const MARKERS = "urn:xmpp:chat-markers:0";
const STANZA_IDS = "urn:xmpp:sid:0";
const EXTERNAL = "urn:xmpp:extdisco:2";
const DISCO = "http://jabber.org/protocol/disco#info";

/** Messages of all conversations that are fetched after signing in, and of one at a time. */
const LATEST = 100;
const PAGE = 50;
/** Messages of one conversation that are kept on the page; older ones are fetched again. */
const KEPT = 1000;

const STATES = ["waiting", "sent", "delivered", "read"];

/** Conditions of errors that have words of their own. */
const FAILURES = [
    "service-unavailable",
    "item-not-found",
    "remote-server-not-found",
    "remote-server-timeout",
    "not-acceptable",
    "forbidden",
];

export const bare = (jid) => (jid ?? "").split("/")[0].toLowerCase();

/** An address as typed, in its usual form; null: it is none. */
export function address(text, domain) {
    const plain = text.trim().replace(/^(sip|sips|xmpp|tel):/i, "").toLowerCase();
    const typed = /^\+?[\d\s()./-]+$/.test(plain) ? plain.replace(/[^+\d]/g, "") : plain;
    const whole = typed.includes("@") ? typed : `${typed}@${domain}`;
    const [user, host, ...more] = whole.split("@");
    const isSound = user && host && more.length === 0 && !/[\s"&'/:<>]/.test(user) && /^[^\s"&'/:<>@]+$/.test(host);
    return isSound ? whole : null;
}

class Conversation {
    constructor(jid) {
        this.jid = jid;
        this.messages = [];
        this.isLoaded = false;
        /** The archive's id of the earliest message; and whether there is nothing before it. */
        this.earliest = null;
        this.isWhole = false;
    }

    get unread() {
        return this.messages.filter((message) => message.isUnread).length;
    }

    get latest() {
        return this.messages.at(-1);
    }

    /** Adds a message in the order of time; returns the one that is kept, which may have been there. */
    add(message) {
        const same = this.messages.find((known) => known.id === message.id && known.isOwn === message.isOwn);
        if (same) {
            if (message.archived) same.archived = message.archived;
            if (same.state === "waiting" && message.archived) same.state = "sent";
            return same;
        }
        let at = this.messages.length;
        while (at > 0 && this.messages[at - 1].time > message.time) at -= 1;
        this.messages.splice(at, 0, message);
        return message;
    }

    trim() {
        if (this.messages.length <= KEPT) return;
        this.messages.splice(0, this.messages.length - KEPT);
        this.earliest = this.messages.find((message) => message.archived)?.archived ?? null;
        this.isWhole = false;
    }
}

/** Events: `state`, `contacts`, `calls`, `voicemail`, `conversation` (detail: address), `arrived` (detail: message), `refused` (detail: error). */
export class Chat extends EventTarget {
    /** `tokens` in place of user and password: the server says whose they are, and there is no account until then. */
    constructor({ url, user, domain, password, tokens }) {
        super();
        this.account = null;
        this.device = null;
        if (user) this.belongTo(`${user}@${domain}`);
        this.contacts = new Map();
        this.conversations = new Map();
        this.requests = new Set();
        this.show = "";
        this.archiveQueries = new Map();
        this.iceServers = [];
        this.stream = new Stream({ url, user, domain, password, tokens, onRequest: (stanza) => this.answer(stanza) });
        this.history = new CallHistory(this.stream, () => this.device?.calls ?? []);
        this.history.addEventListener("calls", () => this.tell("calls"));
        this.voicemail = new Voicemail(this.stream);
        this.voicemail.addEventListener("voicemail", () => this.tell("voicemail"));
        this.stream.addEventListener("online", ({ detail }) => this.begin(detail.isResumed));
        this.stream.addEventListener("offline", () => this.tell("state"));
        for (const name of ["refused", "waiting"]) {
            this.stream.addEventListener(name, ({ detail }) => this.tell(name, detail));
        }
        this.stream.addEventListener("stanza", ({ detail }) => this.handle(detail));
        this.stream.addEventListener("handled", ({ detail }) => this.progress(detail, "sent"));
    }

    get isOnline() {
        return this.stream.isOnline;
    }

    tell(name, detail) {
        this.dispatchEvent(new CustomEvent(name, { detail }));
    }

    belongTo(account) {
        this.account = account;
        this.device = new Device(account);
    }

    async begin(isResumed) {
        if (!this.account) this.belongTo(bare(this.stream.jid));
        this.tell("state");
        if (isResumed) return;
        for (const contact of this.contacts.values()) contact.presence.clear();
        try {
            await this.fetchContacts();
            this.sendPresence();
            // What is missing between the newest page and the one that is shown is fetched when a conversation is opened.
            for (const conversation of this.conversations.values()) conversation.isLoaded = false;
            await this.fetchArchive({ max: LATEST });
            this.tell("contacts");
            for (const jid of this.conversations.keys()) this.tell("conversation", jid);
            await this.fetchRelays();
            await this.history.refresh();
            await this.voicemail.refresh();
        } catch (error) {
            // The connection was lost meanwhile: the next one begins again.
            console.debug(error.message);
        }
        this.tell("ready");
    }

    stop() {
        this.stream.stop();
    }

    // Contacts.

    async fetchContacts() {
        const answer = await this.stream.iq("get", undefined, xml("query", { xmlns: ROSTER }));
        const presences = new Map([...this.contacts].map(([jid, contact]) => [jid, contact.presence]));
        this.contacts.clear();
        for (const item of children(child(answer, "query", ROSTER), "item")) this.put(item, presences);
        this.tell("contacts");
    }

    put(item, presences = new Map()) {
        const jid = bare(item.getAttribute("jid"));
        const subscription = item.getAttribute("subscription");
        const presence = this.contacts.get(jid)?.presence ?? presences.get(jid) ?? new Map();
        if (subscription === "remove") this.contacts.delete(jid);
        else this.contacts.set(jid, { jid, name: item.getAttribute("name") || null, subscription, isAsked: item.hasAttribute("ask"), presence });
    }

    nameOf(jid) {
        return this.contacts.get(jid)?.name ?? jid.split("@")[0];
    }

    /** In words: `available`, `away`, `on the phone`, `offline` … */
    presenceOf(jid) {
        const contact = this.contacts.get(jid);
        if (!contact) return "";
        if (contact.presence.size === 0) return t(contact.isAsked ? "presence.asked" : "presence.offline");
        const all = [...contact.presence.values()];
        const best = all.find(({ show }) => show === "") ?? all.find(({ show }) => show === "chat") ?? all[0];
        const word = t(`presence.${{ away: "away", xa: "away", dnd: "dnd" }[best.show] ?? "available"}`);
        const status = all.find((one) => one.status)?.status;
        return status ? `${word}, ${status}` : word;
    }

    async addContact(jid, name) {
        const item = xml("item", { jid, name: name || undefined });
        await this.stream.iq("set", undefined, xml("query", { xmlns: ROSTER }, item));
        this.stream.send(xml("presence", { to: jid, type: "subscribe", id: newId() }));
    }

    async removeContact(jid) {
        const item = xml("item", { jid, subscription: "remove" });
        await this.stream.iq("set", undefined, xml("query", { xmlns: ROSTER }, item));
    }

    /** Answers one who wants to see this account's presence. Yes is also a wish for theirs. */
    async answerRequest(jid, isYes) {
        this.requests.delete(jid);
        this.stream.send(xml("presence", { to: jid, type: isYes ? "subscribed" : "unsubscribed", id: newId() }));
        this.tell("contacts");
        const known = this.contacts.get(jid)?.subscription;
        if (isYes && known !== "to" && known !== "both") await this.addContact(jid, this.contacts.get(jid)?.name);
    }

    setShow(show) {
        this.show = show;
        this.sendPresence();
    }

    sendPresence() {
        this.stream.send(xml("presence", { id: newId() }, this.show && xml("show", {}, this.show)));
    }

    handlePresence(stanza) {
        const [from, type] = [stanza.getAttribute("from") ?? "", stanza.getAttribute("type")];
        const jid = bare(from);
        if (type === "subscribe") {
            // One that was asked is answered without a question (RFC 6121 §3.1.3 leaves it to the client).
            if (this.contacts.get(jid)?.isAsked || this.contacts.get(jid)?.subscription === "to") this.answerRequest(jid, true).catch(() => {});
            else this.requests.add(jid);
        }
        const contact = this.contacts.get(jid);
        const resource = from.slice(jid.length + 1);
        if (contact && !type) contact.presence.set(resource, { show: textOf(stanza, "show") ?? "", status: textOf(stanza, "status") ?? "" });
        if (contact && type === "unavailable") contact.presence.delete(resource);
        this.tell("contacts");
    }

    answer(stanza) {
        const query = stanza.firstElementChild;
        const is = (name, namespace) => query?.localName === name && query.namespaceURI === namespace;
        const isSet = stanza.getAttribute("type") === "set";
        if (isSet && is("query", ROSTER) && this.stream.isOwn(stanza.getAttribute("from"))) {
            children(query, "item").forEach((item) => this.put(item));
            this.tell("contacts");
            return null;
        }
        if (!isSet && is("ping", "urn:xmpp:ping")) return null;
        if (!isSet && is("query", DISCO)) {
            const features = [DISCO, "urn:xmpp:ping", RECEIPTS, MARKERS].map((name) => xml("feature", { var: name }));
            const identity = xml("identity", { category: "client", type: "web", name: "Belfry web page" });
            return xml("query", { xmlns: DISCO, node: query.getAttribute("node") }, identity, features);
        }
        return undefined;
    }

    // Conversations.

    conversation(jid) {
        if (!this.conversations.has(jid)) this.conversations.set(jid, new Conversation(jid));
        return this.conversations.get(jid);
    }

    handle(stanza) {
        if (stanza.localName === "presence") return this.handlePresence(stanza);
        const isOurs = this.stream.isOwn(stanza.getAttribute("from"));
        // Only the own account says that a message has come.
        if (child(stanza, "voicemail", VOICEMAIL)) return isOurs && this.voicemail.refresh();
        const result = child(stanza, "result", MAM);
        if (result) return isOurs && this.archiveQueries.get(result.getAttribute("queryid"))?.push(result);
        for (const name of ["sent", "received"]) {
            const copy = child(stanza, name, CARBONS);
            // XEP-0280 §11: only the account's own server may say what it has copied.
            if (copy) return isOurs && this.handleMessage(child(child(copy, "forwarded", FORWARD), "message"), { isCopy: true });
        }
        this.handleMessage(stanza, {});
    }

    /** @param {{isCopy?: boolean, archived?: string, time?: number}} how */
    handleMessage(stanza, { isCopy, archived, time }) {
        if (!stanza || stanza.getAttribute("type") === "groupchat") return;
        const from = bare(stanza.getAttribute("from")) || this.account;
        const isOwn = from === this.account;
        const jid = isOwn ? bare(stanza.getAttribute("to")) : from;
        if (!jid || (jid === this.account && isOwn && !archived && !isCopy)) return;
        if (stanza.getAttribute("type") === "error") return this.handleFailure(stanza, jid);
        this.handleMarks(stanza, jid, isOwn);
        const body = textOf(stanza, "body");
        if (body === null || body === "") return;
        const delay = child(stanza, "delay", DELAY)?.getAttribute("stamp");
        const own = children(stanza, "stanza-id", STANZA_IDS).find((one) => bare(one.getAttribute("by")) === this.account);
        const archiveId = archived ?? own?.getAttribute("id") ?? null;
        const at = time ?? (delay ? Date.parse(delay) || Date.now() : Date.now());
        const isLive = !archived;
        const message = {
            id: stanza.getAttribute("id") ?? archiveId ?? newId(),
            archived: archiveId,
            jid,
            isOwn,
            text: body,
            time: at,
            state: isOwn ? "sent" : null,
            isUnread: !isOwn && (isLive || at > this.device.readUntil(jid)),
            wantsMarker: Boolean(child(stanza, "markable", MARKERS)),
        };
        const kept = this.conversation(jid).add(message);
        if (!isLive || kept !== message) return;
        if (isOwn) this.markRead(jid, { isSilent: true });
        else this.acknowledge(stanza, jid, isCopy);
        this.conversation(jid).trim();
        this.tell("conversation", jid);
        this.tell("contacts");
        if (!isOwn) this.tell("arrived", message);
    }

    /** XEP-0184 §5.5: only contacts that may see this account's presence learn that it is here. */
    acknowledge(stanza, jid, isCopy) {
        const may = ["from", "both"].includes(this.contacts.get(jid)?.subscription);
        const id = stanza.getAttribute("id");
        if (isCopy || !may || !id || !child(stanza, "request", RECEIPTS)) return;
        const received = xml("received", { xmlns: RECEIPTS, id });
        this.stream.send(xml("message", { to: stanza.getAttribute("from"), type: "chat", id: newId() }, received));
    }

    handleMarks(stanza, jid, isOwn) {
        const received = child(stanza, "received", RECEIPTS);
        const displayed = child(stanza, "displayed", MARKERS);
        if (isOwn) {
            // Another client of this account has shown them.
            if (displayed) this.markRead(jid, { isSilent: true, id: displayed.getAttribute("id") });
            return;
        }
        if (received) this.progress(received.getAttribute("id"), "delivered", jid);
        if (displayed) this.progress(displayed.getAttribute("id"), "read", jid);
    }

    /** A message of ours has come so far; one that was read, and all before it. */
    progress(id, state, jid) {
        const among = jid ? [this.conversation(jid)] : [...this.conversations.values()];
        for (const conversation of among) {
            const index = conversation.messages.findIndex((message) => message.isOwn && message.id === id);
            if (index < 0) continue;
            const reached = state === "read" ? conversation.messages.slice(0, index + 1) : [conversation.messages[index]];
            for (const message of reached) {
                const isAhead = STATES.indexOf(state) > STATES.indexOf(message.state);
                if (message.isOwn && message.state !== "failed" && isAhead) message.state = state;
            }
            this.tell("conversation", conversation.jid);
        }
    }

    handleFailure(stanza, jid) {
        const found = this.conversations.get(jid)?.messages.find((message) => message.isOwn && message.id === stanza.getAttribute("id"));
        if (!found) return;
        const error = child(stanza, "error");
        const condition = error?.firstElementChild?.localName;
        found.state = "failed";
        found.error = FAILURES.includes(condition) ? t(`undelivered.${condition}`) : t("undelivered", { condition: condition ?? t("no_reason") });
        this.tell("conversation", jid);
    }

    sendMessage(jid, text) {
        const id = newId();
        this.conversation(jid).add({ id, jid, isOwn: true, text, time: Date.now(), state: "waiting", isUnread: false, archived: null });
        this.markRead(jid);
        this.stream.send(
            xml(
                "message",
                { to: jid, type: "chat", id },
                xml("body", {}, text),
                xml("request", { xmlns: RECEIPTS }),
                xml("markable", { xmlns: MARKERS }),
                xml("origin-id", { xmlns: STANZA_IDS, id }),
            ),
        );
        this.tell("conversation", jid);
        this.tell("contacts");
    }

    /** The user has seen what is there. `isSilent`: the contact is not told. */
    markRead(jid, { isSilent = false, id } = {}) {
        const conversation = this.conversation(jid);
        const end = id ? conversation.messages.findIndex((message) => message.id === id) : conversation.messages.length - 1;
        const seen = conversation.messages.slice(0, end + 1).filter((message) => message.isUnread);
        if (seen.length === 0) return;
        for (const message of seen) message.isUnread = false;
        const last = seen.at(-1);
        this.device.read(jid, last.time);
        const may = ["from", "both"].includes(this.contacts.get(jid)?.subscription);
        if (!isSilent && may && last.wantsMarker) {
            this.stream.send(xml("message", { to: jid, type: "chat", id: newId() }, xml("displayed", { xmlns: MARKERS, id: last.id })));
        }
        this.tell("contacts");
    }

    /** The history of a conversation that is shown. */
    async load(jid) {
        const conversation = this.conversation(jid);
        if (conversation.isLoaded || !this.isOnline) return;
        conversation.isLoaded = true;
        try {
            await this.fetchArchive({ jid, max: PAGE });
        } catch {
            conversation.isLoaded = false;
        }
        this.tell("conversation", jid);
    }

    /** An earlier page of it. */
    async loadEarlier(jid) {
        const before = this.conversation(jid).earliest ?? "";
        await this.fetchArchive({ jid, max: PAGE, before });
        this.tell("conversation", jid);
    }

    async fetchArchive({ jid, max, before = "" }) {
        const queryid = newId();
        const results = [];
        this.archiveQueries.set(queryid, results);
        const field = (name, value, type) => xml("field", { var: name, type }, xml("value", {}, value));
        const form = jid && xml("x", { xmlns: "jabber:x:data", type: "submit" }, field("FORM_TYPE", MAM, "hidden"), field("with", jid));
        const set = xml("set", { xmlns: RSM }, xml("max", {}, max), xml("before", {}, before));
        let fin;
        try {
            fin = child(await this.stream.iq("set", undefined, xml("query", { xmlns: MAM, queryid }, form, set)), "fin", MAM);
        } finally {
            this.archiveQueries.delete(queryid);
        }
        for (const result of results) {
            const forwarded = child(result, "forwarded", FORWARD);
            const stamp = child(forwarded, "delay", DELAY)?.getAttribute("stamp");
            this.handleMessage(child(forwarded, "message"), { archived: result.getAttribute("id"), time: Date.parse(stamp) || Date.now() });
        }
        if (!jid) return;
        const conversation = this.conversation(jid);
        conversation.earliest = textOf(child(fin, "set", RSM), "first") ?? conversation.earliest;
        conversation.isWhole = fin?.getAttribute("complete") === "true";
    }

    /** STUN and TURN, where the operator has named some (XEP-0215). */
    async fetchRelays() {
        try {
            const answer = await this.stream.iq("get", this.account.split("@")[1], xml("services", { xmlns: EXTERNAL }));
            const services = children(child(answer, "services", EXTERNAL), "service");
            const known = services.filter((one) => ["stun", "stuns", "turn", "turns"].includes(one.getAttribute("type")));
            this.iceServers = known.map((one) => {
                const [type, host, port, transport] = ["type", "host", "port", "transport"].map((name) => one.getAttribute(name));
                const way = transport && type.startsWith("turn") ? `?transport=${transport}` : "";
                const server = { urls: `${type}:${host.includes(":") ? `[${host}]` : host}${port ? `:${port}` : ""}${way}` };
                if (one.hasAttribute("username")) Object.assign(server, { username: one.getAttribute("username"), credential: one.getAttribute("password") });
                return server;
            });
        } catch {
            this.iceServers = [];
        }
    }
}
