// Rooms of chat, and conferences of calls.

import { get, query, remove } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { nodesWarning } from "./live.js";
import { members, repeat, warning } from "./queues.js";
import { number, t, time } from "./text.js";

const yesNo = (flag) => t(flag ? "word.yes" : "word.no");

export function rooms(place, around) {
    const chat = el("section", {});
    const voice = el("section", {});
    place.append(chat, voice);
    chatRooms(chat);
    return conferences(voice, around);
}

function chatRooms(place) {
    const result = el("div", {});
    const details = el("div", {});
    const form = el("form", { class: "bar", role: "search" },
        field("domain", t("rooms.domain"), { autocapitalize: "none" }),
        el("button", { class: "main", type: "submit" }, t("button.search")));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load();
    });
    place.append(el("h2", {}, t("rooms.chat")), form, result, details);

    async function load() {
        details.replaceChildren();
        try {
            const { rooms, total, nodes } = await get(query("/chat-rooms", values(form)));
            const columns = [
                { title: t("rooms.address"), breaks: true, of: (room) => room.address },
                { title: t("rooms.name"), of: (room) => room.name || "–" },
                { title: t("rooms.occupants"), number: true, of: (room) => number(room.occupants) },
                { title: t("rooms.persistent"), of: (room) => yesNo(room.persistent) },
                { title: t("rooms.listed"), of: (room) => yesNo(room.listed) },
                { title: t("table.actions"), actions: true, of: (room) => el("button", { type: "button", "aria-label": t("rooms.show", { name: room.address }), onclick: () => show(room.address) }, t("rooms.show_button")) },
            ];
            result.replaceChildren(nodesWarning(nodes), table(t("rooms.caption", { shown: number(rooms.length), total: number(total) }), columns, rooms));
        } catch (failure) {
            result.replaceChildren(warning(failure));
        }
    }

    async function show(address) {
        try {
            const { room } = await get(`/chat-rooms/${encodeURIComponent(address)}`);
            const occupants = [
                { title: t("rooms.nick"), of: (one) => one.nick },
                { title: t("sessions.address"), breaks: true, of: (one) => one.address },
                { title: t("farm.role"), of: (one) => one.role },
            ];
            const affiliations = [
                { title: t("calls.account"), breaks: true, of: (one) => one.user },
                { title: t("rooms.affiliation"), of: (one) => one.affiliation },
            ];
            details.replaceChildren(
                table(t("rooms.occupants_of", { name: address }), occupants, room.occupants),
                table(t("rooms.affiliations_of", { name: address }), affiliations, room.affiliations));
        } catch (failure) {
            details.replaceChildren(warning(failure));
        }
    }

    load();
}

function conferences(place, around) {
    const result = el("div", {});
    const details = el("div", {});
    place.append(el("h2", {}, t("rooms.voice")), result, details);
    let shown = null;

    async function update(by) {
        const { conferences, total } = await by("/conferences");
        const columns = [
            { title: t("rooms.name"), breaks: true, of: (row) => row.name },
            { title: t("live.state"), of: (row) => t(row.status === "init" ? "rooms.waits" : "rooms.on") },
            { title: t("sessions.since"), of: (row) => time(row.since) },
            { title: t("rooms.members"), number: true, of: (row) => number(row.members) },
            { title: t("rooms.muted"), number: true, of: (row) => number(row.muted) },
            { title: t("numbers.sid"), breaks: true, of: (row) => row.sid },
            { title: t("table.actions"), actions: true, of: buttons },
        ];
        const caption = t("rooms.conferences", { shown: number(conferences.length), total: number(total) });
        return () => {
            result.replaceChildren(table(caption, columns, conferences));
        };
    }

    function buttons(row) {
        return [
            el("button", { type: "button", "aria-label": t("rooms.show", row), onclick: () => { shown = row; refresh(); } }, t("rooms.show_button")),
            around.may("operator") ? el("button", { type: "button", class: "bad", "aria-label": t("rooms.end", row), onclick: () => end(row) }, t("button.end")) : null,
        ];
    }

    async function updateMembers(by) {
        if (!shown) return () => details.replaceChildren();
        const of = shown;
        const answer = await by(`/conferences/${encodeURIComponent(of.sid)}`);
        const kick = around.may("operator") ? { label: "rooms.kick", button: "rooms.kick_button", act: (call) => putOut(of, call) } : null;
        return () => details.replaceChildren(members(t("rooms.members_of", { name: of.name }), answer.members, true, kick));
    }

    function end(row) {
        ask(t("rooms.end", row), el("p", {}, t("rooms.end_text")), t("button.end"), async () => {
            await remove(`/conferences/${encodeURIComponent(row.sid)}`);
            notice(t("rooms.ended", row));
            shown = null;
            refresh();
        }, true);
    }

    function putOut(of, call) {
        ask(t("rooms.kick", { call }), el("p", {}, t("rooms.kick_text")), t("rooms.kick_button"), async () => {
            await remove(`/conferences/${encodeURIComponent(of.sid)}/members/${encodeURIComponent(call)}`);
            notice(t("rooms.kicked", { call }));
            refresh();
        }, true);
    }

    const { refresh, leave } = repeat([[result, update], [details, updateMembers]]);
    return leave;
}
