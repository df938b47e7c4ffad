// Registrations of phones: all of them, page by page, and the end of one.

import { get, post, query } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { elapsed, number, t } from "./text.js";
import { nodesWarning } from "./live.js";
import { traceButton } from "./trace.js";

/** The transport that the contact asks for (RFC 3261 §19.1.1, RFC 7118 §5). */
function transport(row) {
    const named = /;transport=([a-z]+)/i.exec(row.contact);
    return named ? named[1].toLowerCase() : row.contact.startsWith("sips:") ? "tls" : "udp";
}

export function registrations(place, around) {
    const result = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => load(true) }, t("button.more"));
    const form = el("form", { class: "bar", role: "search" },
        field("prefix", t("registrations.prefix"), { autocapitalize: "none" }),
        el("button", { class: "main", type: "submit" }, t("registrations.search")));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load(false);
    });
    place.append(el("h2", {}, t("registrations.title")), form, result, el("p", {}, more));
    let all = [];

    async function load(isNext) {
        try {
            const after = isNext && all.length ? all[all.length - 1].address : undefined;
            const answer = await get(query("/registrations", { ...values(form), after }));
            all = (isNext ? all : []).concat(answer.addresses);
            more.hidden = !answer.has_more;
            show(answer);
        } catch (failure) {
            result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }

    function show({ total, nodes }) {
        const rows = all.flatMap(({ address, contacts }) => contacts.map((contact) => ({ address, ...contact })));
        const columns = [
            { title: t("registrations.address"), breaks: true, of: (row) => el("a", { href: `#/accounts/${encodeURIComponent(row.address)}` }, row.address) },
            { title: t("registrations.contact"), breaks: true, of: (row) => row.contact },
            { title: t("registrations.transport"), of: (row) => (row.received ? row.received.replace(":", " ") : transport(row)) },
            { title: t("registrations.agent"), of: (row) => row.user_agent || "–" },
            { title: t("registrations.expires"), number: true, of: (row) => elapsed(row.expires_in_seconds) },
        ];
        if (around.may("operator")) {
            columns.push({ title: t("table.actions"), actions: true, of: (row) => [
                traceButton(around, row.address),
                el("button", { type: "button", class: "bad", "aria-label": t("registrations.end", row), onclick: () => end(row) }, t("button.end")),
            ] });
        }
        result.replaceChildren(nodesWarning(nodes),
            table(t("registrations.caption", { shown: number(all.length), total: number(total) }), columns, rows));
    }

    function end(row) {
        ask(t("registrations.end", row), el("p", {}, t("registrations.end_text")), t("button.end"), async () => {
            await post("/registrations/end", { address: row.address, contact: row.contact });
            notice(t("registrations.ended", row));
            await load(false);
        }, true);
    }

    load(false);
}
