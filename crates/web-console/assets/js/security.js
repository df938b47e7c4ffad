// Addresses and accounts whose sign-ins are slowed down.

import { get, post } from "./api.js";
import { ask, el, notice, table } from "./dom.js";
import { elapsed, number, t, time } from "./text.js";

export function security(place, around) {
    const result = el("div", {});
    place.append(el("p", { class: "faint" }, t("security.what")), el("p", {}, el("button", { type: "button", onclick: () => load() }, t("button.refresh"))), result);

    async function load() {
        try {
            const answer = await get("/blocks");
            const columns = [
                { title: t("security.service"), of: (block) => block.service },
                { title: t("security.source"), of: (block) => block.source || t("security.any_source") },
                { title: t("security.account"), of: (block) => block.account || t("security.any_account") },
                { title: t("security.failures"), number: true, of: (block) => number(block.failures) },
                { title: t("security.last"), of: (block) => time(block.failed_at) },
                { title: t("security.refused_until"), of: (block) => (block.refused_until > answer.now ? el("span", { class: "bad-text" }, time(block.refused_until)) : t("security.not_refused")) },
                { title: t("security.forgiven"), number: true, of: (block) => elapsed((block.forgiven_at - answer.now) / 1e6) },
            ];
            if (around.may("operator")) {
                columns.push({ title: t("table.actions"), actions: true, of: (block) => lifts(block) });
            }
            result.replaceChildren(table(t("security.caption", { count: number(answer.total) }), columns, answer.blocks));
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function lifts(block) {
        return [block.source, block.account].filter(Boolean).map((subject) => el("button", { type: "button", onclick: () => lift(subject) }, t("security.lift", { subject })));
    }

    function lift(subject) {
        ask(t("security.lift", { subject }), el("p", {}, t("security.lift_text")), t("security.lift_button"), async () => {
            const { rows } = await post("/blocks/lift", { subject });
            notice(t("security.lifted", { count: number(rows), subject }));
            await load();
        });
    }

    load();
}
