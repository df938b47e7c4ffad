// Records of calls: searched, page by page, and as a file.

import { get, post, query } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { elapsed, t, time } from "./text.js";

export function calls(place, { may }, argument) {
    const result = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => load(true) }, t("button.more"));
    const file = el("a", { class: "button", download: "calls.csv", href: "/v1/admin/calls.csv" }, t("calls.csv"));
    const form = el("form", { class: "bar", role: "search" },
        field("account", t("calls.account"), { value: argument, autocapitalize: "none" }),
        field("call_id", t("calls.call_id")),
        field("text", t("calls.text")),
        el("button", { class: "main", type: "submit" }, t("button.search")), file,
        may("operator") ? el("button", { type: "button", onclick: end }, t("calls.end")) : null);
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load(false);
    });
    form.elements.text.addEventListener("input", show);
    place.append(form, result, el("p", {}, more));
    let all = [];

    function filter() {
        const { account, call_id } = values(form);
        return { account, call_id };
    }

    async function load(isNext) {
        try {
            const until = isNext && all.length ? Math.min(...all.map((call) => call.ended_at)) : undefined;
            const answer = await get(query("/calls", { ...filter(), until }));
            const known = new Set((isNext ? all : []).map(key));
            const added = answer.calls.filter((call) => !known.has(key(call)));
            all = (isNext ? all : []).concat(added);
            more.hidden = !answer.has_more || added.length === 0;
            file.href = query("/v1/admin/calls.csv", filter());
            show();
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function show() {
        const wanted = form.elements.text.value.trim().toLowerCase();
        const shown = all.filter((call) => !wanted || [call.from, call.to, call.reason, call.account, call.callee].some((text) => (text || "").toLowerCase().includes(wanted)));
        result.replaceChildren(table(t("calls.caption", { count: shown.length }), [
            { title: t("calls.started"), of: (call) => time(call.started_at) },
            { title: t("calls.rang"), number: true, of: (call) => elapsed(((call.answered_at ?? call.ended_at) - call.started_at) / 1e6) },
            { title: t("calls.talked"), number: true, of: (call) => (call.answered_at === null ? "–" : elapsed((call.ended_at - call.answered_at) / 1e6)) },
            { title: t("calls.account"), of: (call) => call.account || "–" },
            { title: t("calls.from"), of: (call) => call.from },
            { title: t("calls.to"), of: (call) => call.to },
            { title: t("calls.outcome"), of: (call) => el("span", { class: call.answered_at === null ? "bad-text" : "good" }, `${call.code} ${call.reason}`) },
            { title: t("calls.call_id"), of: (call) => call.call_id },
        ], shown));
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
