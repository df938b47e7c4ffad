// The voicemail of the account: recordings of callers, which the server keeps for all its devices.

import { t } from "./text.js";
import { child, children, textOf, xml } from "./xml.js";

export const VOICEMAIL = "urn:belfry:voicemail:0";
const RSM = "http://jabber.org/protocol/rsm";

/** Messages of one page. */
const PAGE = 20;
/** Bytes of a message that is played here: half an hour. */
const LONGEST = 32 << 20;
/** Milliseconds between two looks, however often the page comes to the front. */
const LOOK_AFTER = 5_000;

function messageOf(element) {
    const of = (name) => element.getAttribute(name) ?? "";
    return { id: of("id"), from: of("from"), time: Date.parse(of("time")) || 0, seconds: Number(of("seconds")) || 0, isHeard: of("heard") === "true" };
}

/** Event: `voicemail`. */
export class Voicemail extends EventTarget {
    constructor(stream) {
        super();
        Object.assign(this, { stream, messages: [], next: null, unheard: 0, lookedAt: 0 });
        /** The server has answered: it has voicemail. */
        this.isThere = false;
    }

    tell() {
        this.dispatchEvent(new CustomEvent("voicemail"));
    }

    /** Reads the newest page, unless that was just done, or later ones are shown: a notice may have been lost. */
    async look() {
        if (Date.now() - this.lookedAt < LOOK_AFTER || this.messages.length > PAGE) return;
        await this.refresh();
    }

    /** Reads the newest page. Later pages are read again by a button. */
    async refresh() {
        this.lookedAt = Date.now();
        try {
            Object.assign(this, await this.fetch(), { isThere: true });
        } catch (error) {
            // The messages that are known stay.
            console.debug(error.message);
        }
        this.tell();
    }

    async more() {
        if (!this.next) return;
        const page = await this.fetch(this.next);
        const known = new Set(this.messages.map(({ id }) => id));
        Object.assign(this, page, { messages: [...this.messages, ...page.messages.filter(({ id }) => !known.has(id))] });
        this.tell();
    }

    async fetch(after) {
        const set = xml("set", { xmlns: RSM }, xml("max", {}, PAGE), after && xml("after", {}, after));
        const answer = child(await this.stream.iq("get", undefined, xml("voicemail", { xmlns: VOICEMAIL }, set)), "voicemail", VOICEMAIL);
        return {
            messages: children(answer, "message", VOICEMAIL).map(messageOf),
            next: textOf(child(answer, "set", RSM), "last"),
            unheard: Number(answer?.getAttribute("unheard")) || 0,
        };
    }

    /** The sound of a message, piece by piece. */
    async sound({ id }) {
        const pieces = [];
        let offset = 0;
        for (let size = 1; offset < size; ) {
            const query = xml("sound", { xmlns: VOICEMAIL, id, offset });
            const answer = child(await this.stream.iq("get", undefined, query), "sound", VOICEMAIL);
            const piece = Uint8Array.from(atob(answer?.textContent ?? ""), (one) => one.charCodeAt(0));
            size = Number(answer?.getAttribute("size")) || 0;
            offset += piece.length;
            // A server that gives nothing would be asked for ever.
            if (piece.length === 0 || size > LONGEST) throw new Error(t("voicemail.no_sound"));
            pieces.push(piece);
        }
        return new Blob(pieces, { type: "audio/wav" });
    }

    async markHeard(message) {
        if (message.isHeard) return;
        await this.stream.iq("set", undefined, xml("heard", { xmlns: VOICEMAIL, id: message.id }));
        this.forget(message);
        message.isHeard = true;
        this.tell();
    }

    async remove(message) {
        await this.stream.iq("set", undefined, xml("delete", { xmlns: VOICEMAIL, id: message.id }));
        const now = this.messages.find(({ id }) => id === message.id);
        if (now) this.forget(now);
        this.messages = this.messages.filter((one) => one !== now);
        this.tell();
    }

    /** The message counts as unheard no more. */
    forget({ isHeard }) {
        if (!isHeard) this.unheard = Math.max(0, this.unheard - 1);
    }
}
