// Sessions of chat, registrations of phones, and shared roster groups.

import { get, query, remove } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { registrations } from "./registrations.js";
import { rosterGroups } from "./roster_groups.js";
import { number, t, time } from "./text.js";
import { traceButton } from "./trace.js";

export function sessionTable(rows, around, changed) {
    const columns = [
        { title: t("sessions.address"), of: (row) => row.address },
        { title: t("sessions.client"), of: (row) => row.client || "–" },
        { title: t("sessions.from"), of: (row) => (row.from ? `${row.from} ${row.transport}` : t("sessions.away")) },
        { title: t("sessions.presence"), of: (row) => (row.priority === null ? t("sessions.unavailable") : row.show || t("sessions.available")) },
        { title: t("sessions.since"), of: (row) => time(row.since * 1e6) },
    ];
    if (around.may("operator")) {
        columns.push({ title: t("table.actions"), actions: true, of: (row) => [traceButton(around, row.address), el("button", { type: "button", class: "bad", "aria-label": t("sessions.end", { address: row.address }), onclick: () => ask(t("sessions.end", { address: row.address }), [], t("button.end"), async () => {
            await remove(`/sessions/${encodeURIComponent(row.address)}`);
            notice(t("sessions.ended", { address: row.address }));
            await changed();
        }, true) }, t("button.end"))] });
    }
    return table(t("sessions.title"), columns, rows);
}

export function sessions(place, around) {
    const result = el("div", {});
    const form = el("form", { class: "bar", role: "search" },
        field("address", t("sessions.of"), { autocapitalize: "none" }),
        el("button", { class: "main", type: "submit" }, t("button.search")));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load();
    });
    const phones = el("section", {});
    const groups = el("section", {});
    place.append(form, result, phones, groups);
    registrations(phones, around);
    rosterGroups(groups);

    async function load() {
        try {
            const answer = await get(query("/sessions", values(form)));
            result.replaceChildren(
                el("p", { class: "faint" }, t("sessions.total", { shown: number(answer.sessions.length), total: number(answer.total) })),
                sessionTable(answer.sessions, around, load));
        } catch (failure) {
            result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }

    load();
}
