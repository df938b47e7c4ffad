// The page: signing in, and what is shown of people, conversations and the call. All state is in `Chat` and `Phone`.

import { Chat, address } from "./chat.js";
import { $, make, say, show } from "./dom.js";
import { Phone } from "./phone.js";
import { comeBack, leaveFor } from "./provider.js";
import { LANGUAGES, choose, chosen, load, t, timeFormat } from "./text.js";

/** Milliseconds that a word about what went wrong stays. */
const NOTICE_FOR = 10_000;
/** Milliseconds between two looks at the calls of other devices, while the page is in front. */
const LOOK_EVERY = 60_000;
const KEYS = "123456789*0#";

let settings = null;
let chat = null;
let phone = null;
let account = null;
let open = null;
let clock = null;

function timeWords(time) {
    const isToday = new Date(time).toDateString() === new Date().toDateString();
    return timeFormat(isToday ? { hour: "2-digit", minute: "2-digit" } : { dateStyle: "medium", timeStyle: "short" }).format(time);
}

function lengthWords(seconds) {
    const two = (number) => String(number).padStart(2, "0");
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

let noticeTimer;
function notice(text) {
    clearTimeout(noticeTimer);
    $("notice").textContent = text;
    noticeTimer = setTimeout(() => ($("notice").textContent = ""), NOTICE_FOR);
}

/** Says what went wrong, for what a button began. */
const careful = (what) => () => Promise.resolve(what()).catch((error) => notice(error.message ? t("failed.because", { reason: error.message }) : t("failed")));

// Signing in and out.

/** A language that is chosen counts from the next load of the page, which only the form begins: nothing is lost. */
function showLanguages() {
    const all = Object.entries({ "": t("language.auto"), ...LANGUAGES });
    $("language").append(...all.map(([value, name]) => make("option", { value, textContent: name, lang: value })));
    $("language").value = chosen();
    $("language").onchange = () => {
        choose($("language").value);
        location.reload();
    };
}

async function start() {
    $("sign-in").hidden = false;
    try {
        await load();
    } catch {
        // There are no texts in any language.
        say($("sign-in-error"), "The server does not answer. Load the page again in a moment.");
        $("sign-in-button").disabled = true;
        return;
    }
    showLanguages();
    if (!isSecureContext) {
        say($("sign-in-error"), t("sign_in.insecure"));
        $("sign-in-button").disabled = true;
        return;
    }
    try {
        settings = await (await fetch("settings.json")).json();
    } catch {
        say($("sign-in-error"), t("sign_in.no_answer"));
        $("sign-in-button").disabled = true;
        return;
    }
    $("address").placeholder = `name@${settings.domain}`;
    $("address").focus();
    if (settings.tokens) {
        say($("password-label"), t("sign_in.token"));
        say($("sign-in-hint"), t("sign_in.token_hint"));
    }
    if (settings.provider) await showProvider(settings.provider);
}

/** The provider knows the user; the form stays for a token that was made elsewhere. */
async function showProvider(provider) {
    const button = $("provider-button");
    say(button, t("sign_in.provider", { provider: provider.label }));
    button.hidden = false;
    button.onclick = () => withProvider(() => leaveFor(provider));
    $("sign-in-button").classList.remove("primary");
    button.focus();
    await withProvider(async () => {
        const tokens = await comeBack(provider);
        if (tokens && !chat) connect({ domain: settings.domain, tokens });
    });
}

async function withProvider(what) {
    say($("sign-in-error"), "");
    try {
        await what();
    } catch (error) {
        say($("sign-in-error"), error.message);
    }
}

function signIn(event) {
    event.preventDefault();
    if (!settings || chat) return;
    const whole = address($("address").value, settings.domain);
    if (!whole) return say($("sign-in-error"), t("sign_in.bad_address", { domain: settings.domain }));
    const [user, domain] = whole.split("@");
    const password = $("password").value;
    connect({ user, domain, password });
}

function connect({ user, domain, password, tokens }) {
    say($("sign-in-error"), "");
    $("sign-in-button").disabled = true;
    $("provider-button").disabled = true;
    chat = new Chat({ url: settings.xmpp, user, domain, password, tokens });
    chat.addEventListener("waiting", ({ detail }) => say($("sign-in-error"), detail.message));
    chat.addEventListener("refused", ({ detail }) => signOut(detail.message));
    chat.addEventListener("state", () => {
        if (chat?.isOnline && $("app").hidden) enter(chat.stream.isByToken ? null : password);
        showState();
    });
    chat.addEventListener("contacts", () => {
        showPeople();
        showHeader();
    });
    chat.addEventListener("calls", showCalls);
    chat.addEventListener("voicemail", showVoicemail);
    chat.addEventListener("conversation", ({ detail }) => detail === open && showLog());
    chat.addEventListener("arrived", ({ detail }) => arrived(detail));
}

/** The server has taken the password, or a token: null then, and there is no phone. */
function enter(password) {
    account = chat.account;
    const [user, domain] = account.split("@");
    $("password").value = "";
    say($("sign-in-error"), "");
    $("sign-in").hidden = true;
    $("app").hidden = false;
    say($("own"), account);
    $("notify").hidden = !("Notification" in globalThis) || Notification.permission !== "default";
    if (settings.sip && password !== null) {
        phone = new Phone({ url: settings.sip, user, domain, password, iceServers: () => chat?.iceServers ?? [] });
        phone.addEventListener("state", showState);
        phone.addEventListener("call", showCall);
        phone.addEventListener("over", ({ detail }) => {
            chat.device.addCall(detail);
            const [name, { reason, seconds }] = [chat.nameOf(detail.peer), detail];
            notice(seconds === null ? `${name}: ${reason}` : t("call.over_after", { name, reason, time: lengthWords(seconds) }));
            showCalls();
            chat.history.handleEnd();
        });
    }
    showPeople();
    showCalls();
    $("find").focus();
}

function signOut(why = "") {
    phone?.stop();
    chat?.stop();
    [chat, phone, open] = [null, null, null];
    stopSound();
    $("voicemail").hidden = true;
    for (const name of ["people", "log", "calls", "messages", "requests"]) $(name).replaceChildren();
    $("password").value = "";
    $("show").value = "";
    $("notice").textContent = "";
    $("chat-inner").hidden = true;
    $("no-chat").hidden = false;
    $("call").hidden = true;
    $("app").hidden = true;
    $("sign-in").hidden = false;
    $("sign-in-button").disabled = false;
    $("provider-button").disabled = false;
    $("columns").className = "";
    say($("sign-in-error"), why);
    (settings.provider ? $("provider-button") : why ? $("password") : $("address")).focus();
    showTitle();
}

// What is shown.

const noPhoneWords = () => t(chat.stream.isByToken ? "phone.by_token" : "phone.none");

function showState() {
    if (!chat) return;
    const words = [chat.isOnline ? "" : t("chat.connecting"), phone ? t(`phone.${phone.state}`) : noPhoneWords()];
    say($("state"), words.filter(Boolean).join(", "));
    $("app").dataset.chat = chat.isOnline ? "online" : "offline";
    $("app").dataset.phone = phone?.state ?? "none";
    const mayCall = phone?.state === "ready" && !phone.call;
    for (const name of ["chat-call", "chat-video", "find-call"]) $(name).disabled = !mayCall;
    for (const button of $("calls").querySelectorAll("button")) button.disabled = !mayCall;
}

function showTitle() {
    const unread = chat ? [...chat.conversations.values()].reduce((sum, { unread: count }) => sum + count, 0) : 0;
    const isRinging = phone?.call?.isIncoming && phone.call.state === "ringing";
    document.title = isRinging ? t("call.calls", { who: whoCalls(phone.call) }) : unread > 0 ? `(${unread}) Belfry` : "Belfry";
}

function showPeople() {
    if (!chat) return;
    const jids = new Set([...chat.contacts.keys(), ...chat.conversations.keys()]);
    const latest = (jid) => chat.conversations.get(jid)?.latest?.time ?? 0;
    const sorted = [...jids].sort((one, other) => latest(other) - latest(one) || chat.nameOf(one).localeCompare(chat.nameOf(other)));
    $("no-people").hidden = sorted.length > 0;
    show($("people"), sorted, (jid) => jid, makePerson, updatePerson);
    show($("requests"), [...chat.requests], (jid) => jid, makeRequest, () => {});
    showTitle();
}

function makePerson(jid) {
    const part = (name) => make("span", { className: name });
    const button = make("button", { className: "person", onclick: () => openChat(jid) }, part("name"), part("about"), part("unread"));
    return make("li", { "data-jid": jid }, button);
}

function updatePerson(item, jid) {
    const button = item.firstElementChild;
    const conversation = chat.conversations.get(jid);
    const unread = conversation?.unread ?? 0;
    say(button.querySelector(".name"), chat.nameOf(jid));
    const words = chat.presenceOf(jid) || jid;
    say(button.querySelector(".about"), words);
    say(button.querySelector(".unread"), unread ? String(unread) : "");
    button.setAttribute("aria-label", `${chat.nameOf(jid)}, ${words}${unread ? `, ${t("people.unread", { count: unread })}` : ""}`);
    button.setAttribute("aria-current", String(jid === open));
    button.title = jid;
}

function makeRequest(jid) {
    const answer = (isYes) => careful(() => chat.answerRequest(jid, isYes));
    return make(
        "li",
        { className: "request" },
        t("requests.wants", { who: jid }),
        make("div", {}, make("button", { textContent: t("requests.allow"), className: "primary", onclick: answer(true) }), make("button", { textContent: t("requests.refuse"), onclick: answer(false) })),
    );
}

function showCalls() {
    if (!chat?.device) return;
    const { calls, records, next, isPartial } = chat.history;
    $("no-calls").hidden = calls.length > 0;
    $("more-calls").hidden = !next;
    // The records of the server are the operator's: only the list of this browser can be emptied.
    $("clear-calls").hidden = calls.length === 0 || records?.length > 0;
    say($("missing-calls"), isPartial ? t("calls.partial") : "");
    show($("calls"), calls, (call) => `${call.id ?? call.began} ${call.isIncoming} ${call.peer}`, makeCall, () => {});
    showState();
}

function makeCall(call) {
    const outcome = call.seconds === null ? call.reason : lengthWords(call.seconds);
    const about = `${t(call.isIncoming ? "calls.incoming" : "calls.outgoing")}, ${timeWords(call.began)}, ${outcome}`;
    const name = call.name || chat.nameOf(call.peer);
    const title = t("calls.again", { who: call.peer });
    const parts = [make("span", { className: "name", textContent: name }), make("span", { className: "about", textContent: about })];
    const button = make("button", { className: "person", title, onclick: () => dial(call.peer, false) }, ...parts);
    button.setAttribute("aria-label", `${t(call.isIncoming ? "calls.from" : "calls.to", { name })}, ${about}. ${title}`);
    return make("li", {}, button);
}

/** The caller of a message, as a contact is named. A name that is no address is a claim of the caller. */
const callerOf = ({ from }) => (from.includes("@") ? chat.nameOf(from) : from);

function showVoicemail() {
    if (!chat || !account) return;
    const { messages, next, unheard, isThere } = chat.voicemail;
    $("voicemail").hidden = !isThere;
    $("no-messages").hidden = messages.length > 0;
    $("more-messages").hidden = !next;
    say($("voicemail-title"), unheard ? t("voicemail.title_unheard", { count: unheard }) : t("voicemail.title"));
    if (playing && !messages.some(({ id }) => id === playing.id)) stopSound();
    show($("messages"), messages, ({ id }) => id, makeVoicemail, updateVoicemail);
}

function makeVoicemail(message) {
    const play = make("button", { className: "person", onclick: careful(() => playMessage(message)) }, make("span", { className: "name" }), make("span", { className: "about" }));
    const remove = make("button", { className: "remove", textContent: t("voicemail.delete"), onclick: careful(() => removeMessage(message)) });
    return make("li", {}, play, remove);
}

function updateVoicemail(item, message) {
    const [play, remove] = item.children;
    const name = callerOf(message);
    const about = [timeWords(message.time), lengthWords(message.seconds), message.isHeard ? "" : t("voicemail.unheard")].filter(Boolean).join(", ");
    say(play.querySelector(".name"), name);
    say(play.querySelector(".about"), about);
    play.title = t("voicemail.play");
    play.setAttribute("aria-label", `${t("voicemail.from", { name })}, ${about}. ${t("voicemail.play")}`);
    remove.setAttribute("aria-label", `${t("voicemail.delete")}: ${t("voicemail.from", { name })}, ${about}`);
    item.classList.toggle("unheard", !message.isHeard);
}

/** The message whose sound is in the player, with the address of the sound. */
let playing = null;

function stopSound() {
    if (!playing) return;
    $("sound").pause();
    $("sound").removeAttribute("src");
    $("sound").hidden = true;
    URL.revokeObjectURL(playing.url);
    playing = null;
}

async function playMessage(message) {
    const own = chat;
    if (playing?.id !== message.id) {
        notice(t("voicemail.loading"));
        const sound = await own.voicemail.sound(message);
        // The user has signed out meanwhile.
        if (chat !== own) return;
        stopSound();
        playing = { id: message.id, url: URL.createObjectURL(sound) };
        $("sound").src = playing.url;
        $("sound").hidden = false;
        notice("");
    }
    await $("sound").play();
    const now = own.voicemail.messages.find(({ id }) => id === message.id);
    if (now) await own.voicemail.markHeard(now);
}

async function removeMessage(message) {
    const next = [...$("messages").children].find((item) => item.dataset.key === message.id)?.nextElementSibling;
    await chat.voicemail.remove(message);
    (next?.isConnected ? next.firstElementChild : $("find")).focus();
}

function openChat(jid) {
    open = jid;
    chat.conversation(jid);
    $("no-chat").hidden = true;
    $("chat-inner").hidden = false;
    $("columns").className = "is-chatting";
    $("log").replaceChildren();
    isAtEnd = true;
    showHeader();
    showLog();
    chat.load(jid);
    $("text").focus();
    showPeople();
}

function closeChat() {
    open = null;
    $("columns").className = "";
    $("chat-inner").hidden = true;
    $("no-chat").hidden = false;
    showPeople();
    $("find").focus();
}

function showHeader() {
    if (!open || !chat) return;
    const isContact = chat.contacts.has(open);
    say($("chat-name"), chat.nameOf(open));
    say($("chat-presence"), [open, chat.presenceOf(open)].filter(Boolean).join(" · "));
    say($("chat-contact"), t(isContact ? "contact.remove" : "contact.add"));
}

/** The newest message stays in sight, unless the user looks at earlier ones. */
let isAtEnd = true;
function keepAtEnd() {
    if (isAtEnd) $("log-frame").scrollTop = $("log-frame").scrollHeight;
}

function showLog() {
    if (!open || !chat) return;
    const conversation = chat.conversation(open);
    show($("log"), conversation.messages, (message) => `${message.isOwn} ${message.id}`, makeMessage, updateMessage);
    $("earlier").hidden = conversation.isWhole || !conversation.isLoaded || conversation.messages.length === 0;
    keepAtEnd();
    if (isLooking()) chat.markRead(open);
}

function makeMessage(message) {
    return make(
        "li",
        { className: message.isOwn ? "own" : "other" },
        make("span", { className: "unseen", textContent: message.isOwn ? t("chat.you") : `${chat.nameOf(message.jid)}: ` }),
        make("p", { className: "text", textContent: message.text }),
        make("span", { className: "about" }),
    );
}

function updateMessage(item, message) {
    const state = message.isOwn ? ` · ${message.error ?? t(`state.${message.state}`)}` : "";
    say(item.querySelector(".about"), timeWords(message.time) + state);
    item.classList.toggle("failed", message.state === "failed");
    item.dataset.state = message.state ?? "";
}

/** Nothing tells of calls that another device has had. */
function lookForCalls() {
    if (!chat?.isOnline || document.visibilityState !== "visible") return;
    chat.history.look();
    chat.voicemail.look();
}

const isLooking = () => document.visibilityState === "visible" && document.hasFocus();

function arrived(message) {
    if (message.jid === open && isLooking()) chat.markRead(open);
    else notifyOf(chat.nameOf(message.jid), message.text.slice(0, 200), () => openChat(message.jid));
    showPeople();
}

function notifyOf(title, body, then) {
    if (!("Notification" in globalThis) || Notification.permission !== "granted" || isLooking()) return null;
    const notification = new Notification(title, { body, icon: "icon.svg", tag: `belfry ${title}` });
    notification.onclick = () => {
        focus();
        notification.close();
        if (chat) then();
    };
    return notification;
}

// Calls.

const whoCalls = (call) => call.name || chat.nameOf(call.peer);

function callWords(call) {
    const who = whoCalls(call);
    if (call.state === "talking") return t("call.talking", { who });
    if (call.isIncoming && call.state === "ringing") return t(call.hasVideo ? "call.incoming_video" : "call.incoming", { who, address: call.peer });
    if (call.isIncoming) return t("call.answering", { who });
    return t(call.state === "ringing" ? "call.ringing" : "call.calling", { who });
}

let callNotification = null;

function showCall() {
    const call = phone?.call;
    showTitle();
    showState();
    $("call").hidden = !call;
    $("call").dataset.state = call?.state ?? "none";
    if (!call?.isIncoming || call.state !== "ringing") {
        callNotification?.close();
        callNotification = null;
    }
    if (!call) return endCallView();
    const isAsking = call.isIncoming && call.state === "ringing";
    if (isAsking) callNotification ??= notifyOf(t("call.calls", { who: whoCalls(call) }), call.peer, () => {});
    const isTalking = call.state === "talking";
    say($("call-state"), callWords(call));
    for (const [name, isThere] of [
        ["answer", isAsking],
        ["answer-video", isAsking && call.hasVideo],
        ["decline", isAsking],
        ["hang-up", !isAsking],
        ["mute", isTalking],
        ["keypad", isTalking],
    ]) {
        $(name).hidden = !isThere;
    }
    $("mute").setAttribute("aria-pressed", String(call.isMuted));
    say($("mute"), t(call.isMuted ? "call.unmute" : "call.mute"));
    say($("digits"), call.digits);
    const remote = $("remote");
    if (call.remote && remote.srcObject !== call.remote) remote.srcObject = call.remote;
    remote.hidden = !call.remote?.getVideoTracks().length;
    if (call.local && $("local").srcObject === null) $("local").srcObject = call.local;
    $("local").hidden = !call.local;
    if (isTalking) clock ??= setInterval(showTime, 500);
}

function showTime() {
    const since = phone?.call?.since;
    if (since) say($("call-time"), lengthWords(Math.floor((Date.now() - since) / 1000)));
}

function endCallView() {
    clearInterval(clock);
    clock = null;
    for (const name of ["remote", "local"]) {
        $(name).srcObject = null;
        $(name).hidden = true;
    }
    say($("call-state"), "");
    say($("call-time"), "");
    say($("digits"), "");
    $("keys").hidden = true;
    $("keypad").setAttribute("aria-expanded", "false");
}

function dial(text, hasVideo) {
    const peer = address(text, account.split("@")[1]);
    if (!peer) return notice(t("find.bad"));
    if (!phone) return notice(t(chat.stream.isByToken ? "call.by_token" : "call.none"));
    if (phone?.state !== "ready") return notice(t("call.not_ready"));
    phone.dial(peer, hasVideo);
}

// What the user does.

function found() {
    const jid = address($("find").value, account.split("@")[1]);
    if (!jid) notice(t("find.bad"));
    return jid;
}

$("sign-in-form").addEventListener("submit", signIn);
$("sign-out").onclick = () => signOut();
$("show").onchange = () => chat.setShow($("show").value);
$("notify").onclick = async () => {
    await Notification.requestPermission();
    $("notify").hidden = true;
};
$("find-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const jid = found();
    if (!jid) return;
    $("find").value = "";
    openChat(jid);
});
$("find-call").onclick = () => found() && dial($("find").value, false);
$("find-add").onclick = careful(async () => {
    const jid = found();
    if (!jid) return;
    await chat.addContact(jid);
    $("find").value = "";
    notice(t("contact.asked", { who: jid }));
});
$("more-calls").onclick = careful(() => chat.history.more());
$("more-messages").onclick = careful(() => chat.voicemail.more());
$("clear-calls").onclick = () => {
    chat.device.clearCalls();
    showCalls();
    $("find").focus();
};
$("back").onclick = closeChat;
$("chat-call").onclick = () => dial(open, false);
$("chat-video").onclick = () => dial(open, true);
$("chat-contact").onclick = careful(() => (chat.contacts.has(open) ? chat.removeContact(open) : chat.addContact(open)));
$("earlier").onclick = careful(async () => {
    const frame = $("log-frame");
    const fromEnd = frame.scrollHeight - frame.scrollTop;
    await chat.loadEarlier(open);
    frame.scrollTop = frame.scrollHeight - fromEnd;
});
function sendText() {
    const text = $("text").value.trim();
    if (!text || !open) return;
    chat.sendMessage(open, text);
    $("text").value = "";
    isAtEnd = true;
    keepAtEnd();
}
$("log-frame").addEventListener("scroll", ({ target }) => {
    isAtEnd = target.scrollHeight - target.scrollTop - target.clientHeight < 40;
});
new ResizeObserver(keepAtEnd).observe($("log-frame"));
$("write").addEventListener("submit", (event) => {
    event.preventDefault();
    sendText();
});
$("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    sendText();
});
$("chat").addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) closeChat();
});
$("answer").onclick = () => phone.answer(false);
$("answer-video").onclick = () => phone.answer(true);
$("decline").onclick = () => phone.decline();
$("hang-up").onclick = () => phone.hangUp();
$("mute").onclick = () => phone.setMuted(!phone.call.isMuted);
$("keypad").onclick = () => {
    $("keys").hidden = !$("keys").hidden;
    $("keypad").setAttribute("aria-expanded", String(!$("keys").hidden));
};
$("keys").append(...[...KEYS].map((key) => make("button", { textContent: key, "data-digit": key, onclick: () => phone.press(key) })));
for (const name of ["focus", "visibilitychange"]) {
    addEventListener(name, () => chat && open && isLooking() && chat.markRead(open));
    addEventListener(name, lookForCalls);
}
setInterval(lookForCalls, LOOK_EVERY);
addEventListener("pagehide", () => {
    phone?.stop();
    chat?.stop();
});
// A page that comes back from the browser's cache has ended its connections.
addEventListener("pageshow", (event) => event.persisted && location.reload());

start();
