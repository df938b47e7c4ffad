// The messages of an account as they come, as a ladder.

import { post, query, remove, watch } from "./api.js";
import { el, field, notice, values } from "./dom.js";
import { ladder } from "./ladder.js";
import { t, time } from "./text.js";

/** A button of operators that leads to the trace of an account, from now on: what has been sent is not kept. */
export function traceButton(around, address) {
    // The SID of an account of the REST interface is no address.
    if (!address || !address.includes("@")) return null;
    const [account] = address.split("/");
    const label = t("trace.of_account", { account });
    return el("button", { type: "button", "aria-label": label, title: label, onclick: () => around.go("trace", account) }, t("trace.button"));
}

export function trace(place, around, argument) {
    const [account = "", ...rest] = argument.split(" ");
    if (!around.may("operator")) {
        place.append(el("p", {}, t("trace.forbidden")));
        return undefined;
    }
    const state = el("p", { class: "faint", role: "status" });
    const result = el("div", {});
    const end = el("button", { type: "button", class: "bad", hidden: true, onclick: stop }, t("trace.end"));
    const form = el("form", { class: "bar" },
        field("account", t("calls.account"), { value: account, required: true, autocapitalize: "none" }),
        field("call_id", t("trace.call_id"), { value: rest.join(" ") }),
        field("seconds", t("trace.seconds"), { type: "number", min: 1, max: 600, value: 300 }),
        field("full", t("trace.full"), { type: "checkbox" }),
        field("any", t("trace.any"), { type: "checkbox" }),
        el("button", { class: "main", type: "submit" }, t("trace.begin")), end);
    form.addEventListener("submit", begin);
    place.append(el("p", { class: "faint" }, t("trace.what")), form, state, result);
    let current = null;
    let lines = [];
    let next = 0;
    let timer;

    async function begin(event) {
        event.preventDefault();
        try {
            // One trace a page: the one before ends.
            if (current) await stop();
            const begun = await post("/traces", values(form));
            current = begun.trace;
            [lines, next] = [[], 0];
            end.hidden = false;
            await update(current);
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    async function update(mine) {
        clearTimeout(timer);
        try {
            const answer = await watch(query(`/traces/${mine}`, { since: next }));
            if (mine !== current) return;
            next = answer.next;
            lines = lines.concat(answer.lines);
            show(answer);
            if (answer.ended && !answer.has_more) {
                current = null;
                end.hidden = true;
                return;
            }
            timer = setTimeout(() => update(mine), answer.has_more ? 0 : 1000);
        } catch (failure) {
            if (mine === current) state.replaceChildren(failure.message);
        }
    }

    function show(answer) {
        const words = [answer.ended ? t(`trace.ended_${answer.ended}`) : t("trace.on", { account: answer.account, until: time(answer.ends_at) })];
        if (answer.missed) words.push(t("trace.missed", { count: answer.missed }));
        if (answer.missing_nodes.length) words.push(t("trace.missing_nodes", { nodes: answer.missing_nodes.join(", ") }));
        const text = words.join(" ");
        if (state.textContent !== text) state.replaceChildren(text);
        // A row that has the focus, and a message that is open, are not replaced under the user's hands.
        const isBusy = result.contains(document.activeElement) || result.querySelector("details[open]");
        if (answer.ended || !isBusy) result.replaceChildren(ladder(lines));
    }

    async function stop() {
        const mine = current;
        if (!mine) return;
        try {
            await remove(`/traces/${mine}`);
        } catch (failure) {
            notice(failure.message, true);
        }
        await update(mine);
    }

    return () => {
        clearTimeout(timer);
        const mine = current;
        current = null;
        // A page that is left needs no more messages; the trace ends by itself otherwise.
        if (mine) remove(`/traces/${mine}`).catch(() => {});
    };
}
