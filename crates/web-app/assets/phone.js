// Calls by SIP over WebSocket (RFC 7118), with JsSIP. The server passes signalling on; sound and picture go from browser to browser.

import JsSIP from "./jssip.js";
import { t } from "./text.js";
import { Tones } from "./tones.js";

/** Milliseconds that the search for own addresses may take after the first one was found. */
const GATHER_FOR = 1_500;
const REGISTER_FOR = 300;

/**
 * COMPAT(JsSIP 3.13): it reads the first challenge alone and knows MD5 only; a server may offer SHA-256 first (RFC 8760 §2.4).
 * Of several challenges only those by MD5 are passed on.
 */
export function withoutUnknownChallenges(message) {
    if (typeof message !== "string" || !/^SIP\/2\.0 40[17] /.test(message)) return message;
    const end = message.indexOf("\r\n\r\n");
    const lines = message.slice(0, end).split("\r\n");
    const isChallenge = (line) => /^(www|proxy)-authenticate\s*:/i.test(line);
    const isKnown = (line) => !/algorithm\s*=/i.test(line) || /algorithm\s*=\s*"?MD5"?\s*(,|$)/i.test(line);
    if (!lines.some((line) => isChallenge(line) && isKnown(line))) return message;
    return lines.filter((line) => !isChallenge(line) || isKnown(line)).join("\r\n") + message.slice(end);
}

class Socket extends JsSIP.WebSocketInterface {
    _onMessage(event) {
        super._onMessage({ data: withoutUnknownChallenges(event.data) });
    }
}

/** The end of a call that was never answered, in words. */
function reasonOf({ originator, cause, message }) {
    const status = message?.status_code;
    const { causes } = JsSIP.C;
    if (cause === causes.USER_DENIED_MEDIA_ACCESS) {
        return t("ended.no_microphone");
    }
    if (originator === "local" && cause === causes.CANCELED) return t("ended.cancelled");
    if (cause === causes.CANCELED) return t("ended.missed");
    if (cause === causes.NO_ANSWER || status === 408 || cause === causes.EXPIRES) return t("ended.no_answer");
    if (cause === causes.CONNECTION_ERROR || cause === causes.REQUEST_TIMEOUT) return t("ended.unreachable");
    if (cause === causes.WEBRTC_ERROR || cause === causes.BAD_MEDIA_DESCRIPTION) return t("ended.no_media");
    if (status === 486 || status === 600) return t("ended.busy");
    if (status === 603 || status === 403) return originator === "local" ? t("ended.declined") : status === 603 ? t("ended.declined") : t("ended.not_allowed");
    if (status === 404 || status === 604) return t("ended.unknown");
    if (status === 480) return t("ended.absent");
    if (status === 488 || status === 606 || status === 415) return t("ended.no_browsers");
    return t("ended.failed", { cause: status ? `${status} ${message.reason_phrase ?? ""}`.trim() : cause });
}

/** Events: `state`, `call` (anything about the call has changed), `over` (detail: what goes into the list of calls). */
export class Phone extends EventTarget {
    constructor({ url, user, domain, password, iceServers }) {
        super();
        this.domain = domain;
        this.iceServers = iceServers;
        this.state = "connecting";
        this.call = null;
        this.tones = new Tones();
        this.ua = new JsSIP.UA({
            sockets: [new Socket(url)],
            uri: `sip:${encodeURIComponent(user)}@${domain}`,
            authorization_user: user,
            password,
            register_expires: REGISTER_FOR,
            session_timers: false,
            user_agent: "Belfry web page",
            connection_recovery_min_interval: 1,
            connection_recovery_max_interval: 10,
        });
        this.ua.on("registered", () => this.become("ready"));
        this.ua.on("unregistered", () => this.become("connecting"));
        this.ua.on("disconnected", () => this.become("connecting"));
        this.ua.on("registrationFailed", ({ response }) => {
            const isRefused = response && [401, 403, 404, 407].includes(response.status_code);
            this.become(isRefused ? "refused" : "connecting");
        });
        /** The Call-IDs of calls, by which the server's records name them, too. */
        this.ids = new WeakMap();
        this.ua.on("newRTCSession", ({ originator, session, request }) => {
            this.ids.set(session, request.call_id);
            if (originator === "remote") this.ring(session, request);
        });
        this.ua.start();
    }

    become(state) {
        if (this.isStopped || this.state === state) return;
        this.state = state;
        this.dispatchEvent(new CustomEvent("state"));
    }

    stop() {
        this.hangUp();
        this.isStopped = true;
        this.tones.stop();
        this.ua.stop();
    }

    changed() {
        this.dispatchEvent(new CustomEvent("call"));
    }

    settings() {
        return { iceServers: this.iceServers() };
    }

    /** Someone calls. A second call meanwhile is answered "busy here". */
    ring(session, request) {
        if (this.call) {
            session.terminate({ status_code: 486, reason_phrase: "Busy Here" });
            return;
        }
        const { uri, display_name: name } = session.remote_identity;
        const hasVideo = /^m=video [1-9]/m.test(request.body ?? "");
        this.follow(session, { peer: `${decodeURIComponent(uri.user ?? "")}@${uri.host}`, name, isIncoming: true, hasVideo });
        this.tones.ring();
    }

    /** Calls an address. */
    dial(peer, hasVideo = false) {
        if (this.call || this.state !== "ready") return;
        const [user, domain] = peer.split("@");
        const session = this.ua.call(`sip:${encodeURIComponent(user)}@${domain}`, {
            mediaConstraints: { audio: true, video: hasVideo },
            pcConfig: this.settings(),
            eventHandlers: { peerconnection: ({ peerconnection }) => this.listen(peerconnection) },
        });
        this.follow(session, { peer, name: null, isIncoming: false, hasVideo });
    }

    answer(hasVideo = false) {
        if (!this.call?.isIncoming || this.call.state !== "ringing") return;
        this.tones.stop();
        this.call.hasVideo = hasVideo;
        this.call.state = "connecting";
        this.call.session.on("peerconnection", ({ peerconnection }) => this.listen(peerconnection));
        this.call.session.answer({ mediaConstraints: { audio: true, video: hasVideo }, pcConfig: this.settings() });
        this.changed();
    }

    decline() {
        this.call?.session.terminate({ status_code: 603, reason_phrase: "Decline" });
    }

    hangUp() {
        const session = this.call?.session;
        if (!session || session.isEnded()) return;
        session.terminate();
    }

    setMuted(isMuted) {
        const { call } = this;
        if (!call) return;
        if (isMuted) call.session.mute({ audio: true });
        else call.session.unmute({ audio: true });
        call.isMuted = isMuted;
        this.changed();
    }

    /** A digit, as RFC 4733 has it where the other side takes it, else by INFO. */
    press(digit) {
        const { call } = this;
        if (call?.state !== "talking") return;
        const sender = call.session.connection?.getSenders().find((one) => one.track?.kind === "audio");
        const transportType = sender?.dtmf?.canInsertDTMF ? "RFC2833" : "INFO";
        call.session.sendDTMF(digit, { transportType, duration: 120, interToneGap: 70 });
        call.digits += digit;
        this.tones.digit(digit);
        this.changed();
    }

    listen(connection) {
        connection.addEventListener("track", ({ track, streams }) => {
            const { call } = this;
            if (call?.session.connection !== connection) return;
            call.remote ??= streams[0] ?? new MediaStream();
            if (!call.remote.getTracks().includes(track)) call.remote.addTrack(track);
            this.changed();
        });
        // The server is no part of the media: when the other side is gone without a word, nothing else tells.
        connection.addEventListener("connectionstatechange", () => {
            if (connection.connectionState === "failed" && this.call?.session.connection === connection) this.hangUp();
        });
    }

    /** The life of a call. */
    follow(session, about) {
        const call = { session, ...about, state: about.isIncoming ? "ringing" : "calling", isMuted: false, digits: "", since: null, began: Date.now(), remote: null };
        this.call = call;
        let gathering;
        session.on("icecandidate", ({ ready }) => (gathering ??= setTimeout(ready, GATHER_FOR)));
        session.on("progress", () => {
            if (call.isIncoming || call.state !== "calling") return;
            call.state = "ringing";
            this.tones.ringBack();
            this.changed();
        });
        for (const name of ["accepted", "confirmed"]) {
            session.on(name, () => {
                if (call.state === "talking" || (name === "accepted" && call.isIncoming)) return;
                this.tones.stop();
                call.state = "talking";
                call.since = Date.now();
                call.local = hasLocalVideo(session) ? new MediaStream(session.connection.getSenders().map((one) => one.track).filter((one) => one?.kind === "video")) : null;
                this.changed();
            });
        }
        session.on("failed", (event) => this.end(call, reasonOf(event), gathering));
        session.on("ended", () => this.end(call, t("ended.ended"), gathering));
        this.changed();
    }

    end(call, reason, gathering) {
        clearTimeout(gathering);
        this.tones.stop();
        if (this.call === call) this.call = null;
        const seconds = call.since ? Math.round((Date.now() - call.since) / 1000) : null;
        const { peer, name, isIncoming, began } = call;
        this.dispatchEvent(new CustomEvent("over", { detail: { id: this.ids.get(call.session), peer, name, isIncoming, began, seconds, reason } }));
        this.changed();
    }
}

function hasLocalVideo(session) {
    return session.connection?.getSenders().some((one) => one.track?.kind === "video") ?? false;
}
