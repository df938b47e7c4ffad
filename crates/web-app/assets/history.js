// The calls of the account that have ended: those of all its devices, of which the server has records, and those of this browser that it has none of.

import { t } from "./text.js";
import { child, children, textOf, xml } from "./xml.js";

const CALLS = "urn:belfry:calls:0";
const RSM = "http://jabber.org/protocol/rsm";

/** Calls of one page. */
const PAGE = 20;
/** Milliseconds after which the record of a call that has ended is in the database. */
const RECORDED_AFTER = 1_000;
/** Milliseconds between two looks, however often the page comes to the front. */
const LOOK_AFTER = 5_000;

const ENDS = {
    busy: "ended.busy",
    cancelled: "ended.cancelled",
    declined: "ended.declined",
    missed: "ended.missed",
    "no-answer": "ended.no_answer",
    unknown: "ended.unknown",
};

/** The address in a URI of SIP, as it is typed; parameters and the port are no part of it. */
export function addressOf(uri) {
    const plain = uri.replace(/^(sips?|tel):/i, "").split(/[;?]/)[0].replace(/:\d+$/, "");
    try {
        return decodeURIComponent(plain);
    } catch {
        return plain;
    }
}

/** A call of the server's answer, as the list of calls has it. */
function callOf(element) {
    const of = (name) => element.getAttribute(name) ?? "";
    const [outcome, seconds] = [of("outcome"), element.getAttribute("seconds")];
    return {
        id: of("id"),
        peer: addressOf(of("with")),
        name: null,
        isIncoming: of("direction") === "incoming",
        began: Date.parse(of("start")) || 0,
        seconds: seconds === null ? null : Number(seconds),
        reason: ENDS[outcome] ? t(ENDS[outcome]) : t("ended.failed", { cause: of("code") }),
    };
}

const sameCall = (call) => `${call.id} ${call.isIncoming} ${call.peer} ${call.began}`;

/** Event: `calls`. */
export class CallHistory extends EventTarget {
    /** `stream` asks the server; `local` gives the calls that this browser has kept. */
    constructor(stream, local) {
        super();
        Object.assign(this, { stream, local });
        /** Calls of the server, the newest first; null: it has not answered. */
        this.records = null;
        /** The place of the next page; null: there is none. */
        this.next = null;
        this.isPartial = false;
        this.lookedAt = 0;
    }

    /** All calls that are known, the newest first. */
    get calls() {
        if (!this.records) return this.local();
        const known = new Set(this.records.map(({ id }) => id));
        // Those of pages that are not here yet come with them.
        const since = this.next ? (this.records.at(-1)?.began ?? 0) : 0;
        const own = this.local().filter(({ id, began }) => id && !known.has(id) && began >= since);
        return [...own, ...this.records].sort((one, other) => other.began - one.began);
    }

    /** Reads the newest page, unless that was just done. */
    async look() {
        if (Date.now() - this.lookedAt < LOOK_AFTER) return;
        await this.refresh();
    }

    /** A call of this browser has ended. */
    handleEnd() {
        setTimeout(() => this.refresh(), RECORDED_AFTER);
    }

    async refresh() {
        this.lookedAt = Date.now();
        try {
            const page = await this.fetch();
            const known = new Set(page.calls.map(sameCall));
            const rest = (this.records ?? []).filter((call) => !known.has(sameCall(call)));
            // Without a call of both, others may be between them: the later pages are read again.
            const joins = this.records !== null && rest.length < this.records.length;
            if (!joins) this.next = page.next;
            this.records = joins ? [...page.calls, ...rest] : page.calls;
            this.isPartial = page.isPartial;
        } catch (error) {
            // The calls that are known stay.
            console.debug(error.message);
        }
        this.dispatchEvent(new CustomEvent("calls"));
    }

    async more() {
        if (!this.next) return;
        const page = await this.fetch(this.next);
        const known = new Set(this.records.map(sameCall));
        this.records = [...this.records, ...page.calls.filter((call) => !known.has(sameCall(call)))];
        this.next = page.next;
        this.isPartial ||= page.isPartial;
        this.dispatchEvent(new CustomEvent("calls"));
    }

    async fetch(after) {
        const set = xml("set", { xmlns: RSM }, xml("max", {}, PAGE), after && xml("after", {}, after));
        const answer = child(await this.stream.iq("get", undefined, xml("calls", { xmlns: CALLS }, set)), "calls", CALLS);
        return {
            calls: children(answer, "call", CALLS).map(callOf),
            next: textOf(child(answer, "set", RSM), "last"),
            isPartial: answer?.getAttribute("partial") === "true",
        };
    }
}
