// Queues of calls, with what waits in them.

import { get, query, remove, watch } from "./api.js";
import { ask, el, notice, table } from "./dom.js";
import { elapsed, number, t, time } from "./text.js";

export function warning(failure) {
    return el("p", { class: "warning", role: "alert" }, failure.message);
}

/**
 * Shows parts of a page now and again and again. Parts: [place, update]; `update` gets the way to ask, and returns a function that shows
 * what it has got. A place with a button that has the focus is not replaced under the user's hands by itself.
 */
export function repeat(parts) {
    let timer;
    let isLeft = false;
    let turn = 0;

    async function load(by) {
        clearTimeout(timer);
        turn += 1;
        const own = turn;
        for (const [place, update] of parts) {
            let show;
            try {
                show = await update(by);
            } catch (failure) {
                show = () => place.replaceChildren(warning(failure));
            }
            // Another turn has begun meanwhile, and asks for what is wanted now.
            if (isLeft || own !== turn) return;
            if (by === get || !place.contains(document.activeElement)) show();
        }
        timer = setTimeout(() => load(watch), 5000);
    }

    load(get);
    return {
        refresh: () => load(get),
        leave: () => {
            isLeft = true;
            clearTimeout(timer);
        },
    };
}

/** Calls in a conference or a queue. `action`: { label, button, act }, or null without one. */
export function members(caption, rows, isConference, action) {
    const columns = [
        { title: t("calls.from"), breaks: true, of: (row) => row.from || "–" },
        { title: t("calls.to"), breaks: true, of: (row) => row.to || "–" },
        { title: t("sessions.since"), of: (row) => time(row.since) },
        { title: t("numbers.sid"), breaks: true, of: (row) => row.call },
    ];
    if (isConference) {
        const state = (row) => [row.hold && t("rooms.hold"), row.muted && t("rooms.is_muted")].filter(Boolean).join(", ") || t("rooms.heard");
        columns.splice(2, 0, { title: t("rooms.label"), of: (row) => row.label || "–" }, { title: t("live.state"), of: state });
    }
    if (action) {
        columns.push({ title: t("table.actions"), actions: true, of: ({ call }) => el("button", { type: "button", class: "bad", "aria-label": t(action.label, { call }), onclick: () => action.act(call) }, t(action.button)) });
    }
    return table(caption, columns, rows);
}

export function queues(place, around) {
    const result = el("div", {});
    const details = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => { pages += 1; refresh(); } }, t("button.more"));
    place.append(el("p", { class: "faint" }, t("queues.what")), result, el("p", {}, more), details);
    let pages = 1;
    let shown = null;

    async function update(by) {
        const all = [];
        let answer;
        for (let page = 0; page < pages; page += 1) {
            answer = await by(query("/queues", { page: page || undefined }));
            all.push(...answer.queues);
        }
        const columns = [
            { title: t("queues.name"), breaks: true, of: (row) => row.name },
            { title: t("queues.waiting"), number: true, of: (row) => number(row.waiting) },
            { title: t("queues.longest"), number: true, of: (row) => elapsed(row.longest_wait) },
            { title: t("queues.most"), number: true, of: (row) => number(row.max_size) },
            { title: t("numbers.sid"), breaks: true, of: (row) => row.sid },
            { title: t("table.actions"), actions: true, of: (row) => el("button", { type: "button", "aria-label": t("rooms.show", row), onclick: () => { shown = row; refresh(); } }, t("rooms.show_button")) },
        ];
        const caption = t("queues.caption", { shown: number(all.length), total: number(answer.total) });
        return () => {
            more.hidden = !answer.has_more;
            result.replaceChildren(table(caption, columns, all));
        };
    }

    async function updateMembers(by) {
        if (!shown) return () => details.replaceChildren();
        const of = shown;
        const answer = await by(`/queues/${encodeURIComponent(of.sid)}`);
        const action = around.may("operator") ? { label: "queues.remove", button: "button.remove", act: (call) => takeOut(of, call) } : null;
        return () => details.replaceChildren(members(t("queues.members_of", { name: of.name }), answer.members, false, action));
    }

    function takeOut(of, call) {
        ask(t("queues.remove", { call }), el("p", {}, t("queues.remove_text")), t("button.remove"), async () => {
            await remove(`/queues/${encodeURIComponent(of.sid)}/members/${encodeURIComponent(call)}`);
            notice(t("queues.removed", { call }));
            refresh();
        }, true);
    }

    const { refresh, leave } = repeat([[result, update], [details, updateMembers]]);
    return leave;
}
