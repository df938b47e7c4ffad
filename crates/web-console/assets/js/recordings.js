// Recordings of calls and conferences: a list, a player, and their removal.

import { get, query, remove } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { elapsed, t, time } from "./text.js";

export function recordings(place, around) {
    const result = el("div", {});
    const player = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => load(true) }, t("button.more"));
    const form = el("form", { class: "bar", role: "search" },
        field("account", t("recordings.of_account"), { autocapitalize: "none" }),
        field("call", t("recordings.of_call"), { autocapitalize: "none" }),
        el("button", { class: "main", type: "submit" }, t("button.search")));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load(false);
    });
    place.append(form, player, result, el("p", {}, more));
    let all = [];
    let page = 0;
    const accounts = new Map();

    async function load(isNext) {
        try {
            page = isNext ? page + 1 : 0;
            const answer = await get(query("/recordings", { ...values(form), page }));
            all = (isNext ? all : []).concat(answer.rows);
            more.hidden = !answer.has_more;
            if (accounts.size === 0) {
                const { rows } = await get(query("/application-accounts", { limit: 500 }));
                for (const row of rows) accounts.set(row.sid, row.friendly_name || row.sid);
            }
            show(answer.total);
        } catch (failure) {
            result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }

    function show(total) {
        const columns = [
            { title: t("recordings.date"), of: (row) => time(Date.parse(row.start_time || row.date_created) * 1000) },
            { title: t("recordings.length"), number: true, of: (row) => (row.duration === null ? "–" : elapsed(Number(row.duration))) },
            { title: t("numbers.account"), of: (row) => accounts.get(row.account_sid) || row.account_sid },
            { title: t("recordings.call"), breaks: true, of: (row) => row.call_sid || row.conference_sid || "–" },
            { title: t("recordings.state"), of: (row) => t(`recording.${row.status.replace("-", "_")}`) },
        ];
        if (around.may("operator")) columns.push({ title: t("table.actions"), actions: true, of: buttons });
        result.replaceChildren(table(t("recordings.caption", { shown: all.length, total }), columns, all));
    }

    function buttons(row) {
        if (row.status !== "completed") return el("div", {});
        const of = { sid: row.sid };
        return el("div", {},
            el("button", { type: "button", "aria-label": t("recordings.play", of), onclick: () => play(row) }, t("recordings.play_button")),
            el("a", { class: "button", href: sound(row), download: `${row.sid}.wav`, "aria-label": t("recordings.download", of) }, t("recordings.download_button")),
            around.may("admin") ? el("button", { type: "button", class: "bad", "aria-label": t("recordings.remove", of), onclick: () => drop(row) }, t("button.remove")) : null);
    }

    function play(row) {
        const audio = el("audio", { controls: true, src: sound(row), "aria-label": t("recordings.player", { sid: row.sid }) });
        player.replaceChildren(el("figure", { class: "card player" }, el("figcaption", {}, row.sid), audio));
        audio.focus();
        // A browser may want a key press of its own: the controls are there.
        audio.play().catch(() => {});
    }

    function drop(row) {
        ask(t("recordings.remove", { sid: row.sid }), el("p", {}, t("recordings.remove_text")), t("button.remove"), async () => {
            player.replaceChildren();
            await remove(`/recordings/${encodeURIComponent(row.sid)}`);
            notice(t("recordings.removed", { sid: row.sid }));
            await load(false);
        }, true);
    }

    load(false);
}

const sound = (row) => `/v1/admin/recordings/${encodeURIComponent(row.sid)}/sound.wav`;
