// Records of calls: searched, page by page, and as a file.

import { get, post, query } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { nodesWarning } from "./live.js";
import { ladder } from "./ladder.js";
import { elapsed, number, t, time } from "./text.js";
import { traceButton } from "./trace.js";

export function calls(place, around, argument) {
    const result = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => load(true) }, t("button.more"));
    const file = el("a", { class: "button", download: "calls.csv", href: "/v1/admin/calls.csv" }, t("calls.csv"));
    const form = el("form", { class: "bar", role: "search" },
        field("account", t("calls.account"), { value: argument, autocapitalize: "none" }),
        field("call_id", t("calls.call_id")),
        field("text", t("calls.text"), { autocapitalize: "none" }),
        field("code", t("calls.code"), { type: "number", min: 100, max: 699 }),
        field("from", t("calls.ended_from"), { type: "datetime-local" }),
        field("until", t("calls.ended_until"), { type: "datetime-local" }),
        el("button", { class: "main", type: "submit" }, t("button.search")), file,
        around.may("operator") ? el("button", { type: "button", onclick: end }, t("calls.end")) : null);
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load(false);
    });
    const looked = el("p", { class: "faint", role: "status" });
    const messages = el("section", { hidden: true, tabindex: "-1" });
    place.append(form, result, looked, el("p", {}, more), messages, el("p", { class: "faint" }, t("calls.csv_limit", { count: number(200000) })));
    let all = [];
    let next;

    function filter() {
        const { from, until, ...given } = values(form);
        return { ...given, from: micros(from), until: micros(until) };
    }

    async function load(isNext) {
        try {
            const wanted = filter();
            const answer = await get(query("/calls", isNext ? { ...wanted, until: next } : wanted));
            next = answer.next;
            const known = new Set((isNext ? all : []).map(key));
            const added = answer.calls.filter((call) => !known.has(key(call)));
            all = (isNext ? all : []).concat(added);
            more.hidden = !answer.has_more;
            // A search that looks at many records stops on its way, also without a row.
            looked.replaceChildren(next ? t("calls.looked_until", { time: time(next) }) : "");
            file.href = query("/v1/admin/calls.csv", wanted);
            show(answer.nodes);
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function show(nodes) {
        const columns = [
            { title: t("calls.started"), of: (call) => time(call.started_at) },
            { title: t("calls.rang"), number: true, of: (call) => elapsed(((call.answered_at ?? call.ended_at) - call.started_at) / 1e6) },
            { title: t("calls.talked"), number: true, of: (call) => (call.answered_at === null ? "–" : elapsed((call.ended_at - call.answered_at) / 1e6)) },
            { title: t("calls.account"), of: (call) => call.account || "–" },
            { title: t("calls.from"), of: (call) => call.from },
            { title: t("calls.to"), of: (call) => call.to },
            { title: t("calls.outcome"), of: (call) => el("span", { class: call.answered_at === null ? "bad-text" : "good" }, `${call.code} ${call.reason}`) },
            { title: t("calls.call_id"), of: (call) => call.call_id },
        ];
        if (around.may("operator")) {
            columns.push({ title: t("table.actions"), actions: true, of: (call) => [ladderButton(call), ...[call.account, call.callee].map((address) => traceButton(around, address)).filter(Boolean).slice(0, 1)] });
        }
        result.replaceChildren(nodesWarning(nodes), table(t("calls.caption", { count: all.length }), columns, all));
    }

    function ladderButton({ call_id }) {
        const label = t("calls.ladder_of", { call_id });
        return el("button", { type: "button", "aria-label": label, title: label, onclick: () => showLadder(call_id) }, t("trace.ladder"));
    }

    /** The messages of a call, as the nodes remember them or a trace of this account has seen them. */
    async function showLadder(call_id) {
        try {
            const { lines, missed, has_more, remembered, nodes } = await get(query("/ladder", { call_id }));
            const parts = [nodesWarning(nodes), lines.length ? ladder(lines) : el("p", {}, whyNone(remembered))];
            if (missed) parts.unshift(el("p", { class: "faint" }, t("trace.missed", { count: missed })));
            if (has_more) parts.push(el("p", { class: "faint" }, t("calls.ladder_cut", { count: number(lines.length) })));
            messages.replaceChildren(el("h2", {}, t("calls.ladder_of", { call_id })), ...parts);
            messages.hidden = false;
            messages.focus();
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    /** The reasons why there may be no messages of a call. */
    function whyNone({ since, most_calls, most_per_second, not_begun, forgotten }) {
        return t("calls.no_ladder", { since: time(since), calls: number(most_calls), rate: number(most_per_second), not_begun: number(not_begun), forgotten: number(forgotten) });
    }

    function end() {
        ask(t("calls.end"), field("call", t("calls.sid"), { required: true }), t("calls.end"), async ({ call }) => {
            await post("/calls/end", { call });
            notice(t("calls.ended"));
        }, true);
    }

    load(false);
}

const key = (call) => `${call.call_id} ${call.started_at} ${call.ended_at}`;

/** The time of a field, in microseconds since 1970. */
const micros = (text) => (text ? new Date(text).getTime() * 1000 : undefined);
