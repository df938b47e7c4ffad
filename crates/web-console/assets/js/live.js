// Calls that are open now, of all nodes.

import { get, post, query, watch } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { elapsed, number, t, time } from "./text.js";

/** Says which nodes have not answered: their rows are missing. */
export function nodesWarning(nodes) {
    if (!nodes || nodes.missing.length === 0) return "";
    const missing = nodes.missing.map((node) => (node.reason ? `${node.name}: ${node.reason}` : node.name)).join("; ");
    const count = nodes.answered.length;
    return el("p", { class: "warning", role: "alert" }, t("nodes.missing", { count, total: count + nodes.missing.length, missing }));
}

export function live(place, around, argument) {
    const result = el("div", {});
    const form = el("form", { class: "bar", role: "search" },
        field("account", t("calls.account"), { value: argument, autocapitalize: "none" }),
        el("button", { class: "main", type: "submit" }, t("button.search")));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load(get);
    });
    place.append(el("p", { class: "faint" }, t("live.what")), form, result);
    let timer;
    let isLeft = false;

    async function load(by) {
        clearTimeout(timer);
        try {
            const answer = await by(query("/calls/open", values(form)));
            if (isLeft) return;
            // A button that has the focus is not replaced under the user's hands.
            if (!result.contains(document.activeElement)) show(answer);
        } catch (failure) {
            if (!isLeft) result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
        if (!isLeft) timer = setTimeout(() => load(watch), 3000);
    }

    function show({ calls, total, now, nodes }) {
        const columns = [
            { title: t("calls.started"), of: (call) => time(call.started_at) },
            { title: t("live.state"), of: (call) => el("span", { class: call.state === "answered" ? "good" : undefined }, t(`live.${call.state}`)) },
            { title: t("live.lasts"), number: true, of: (call) => elapsed((now - (call.answered_at ?? call.started_at)) / 1e6) },
            { title: t("calls.account"), breaks: true, of: (call) => call.account || "–" },
            { title: t("calls.from"), breaks: true, of: (call) => call.from },
            { title: t("calls.to"), breaks: true, of: (call) => call.to },
            { title: t("farm.node"), of: (call) => call.node || "–" },
            { title: t("calls.call_id"), breaks: true, of: (call) => call.call_id },
        ];
        if (around.may("operator")) {
            columns.push({ title: t("table.actions"), actions: true, of: (call) => buttons(call) });
        }
        result.replaceChildren(nodesWarning(nodes),
            table(t("live.caption", { shown: number(calls.length), total: number(total) }), columns, calls));
    }

    function buttons(call) {
        const traced = call.account || call.callee;
        return [
            traced ? el("button", { type: "button", "aria-label": t("live.trace", { call: call.call_id }), onclick: () => around.go("trace", `${traced} ${call.call_id}`) }, t("trace.button")) : null,
            call.sid ? el("button", { type: "button", class: "bad", "aria-label": t("live.end", { call: call.call_id }), onclick: () => end(call) }, t("button.end")) : null,
        ];
    }

    function end(call) {
        ask(t("live.end", { call: call.call_id }), el("p", {}, t("live.end_text", { from: call.from, to: call.to })), t("button.end"), async () => {
            await post("/calls/end", { call: call.sid });
            notice(t("calls.ended"));
            // The focus is in the dialog: the table is replaced, and its button does not get the focus back, which would keep it as it is.
            await load(get);
        }, true);
    }

    load(get);
    return () => {
        isLeft = true;
        clearTimeout(timer);
    };
}
