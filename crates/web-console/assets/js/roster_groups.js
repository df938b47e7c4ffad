// Shared roster groups, where the configuration has any: labels, sources of members, and the groups that see them.

import { get, query } from "./api.js";
import { el, table } from "./dom.js";
import { number, t } from "./text.js";

/** The sources of the members of a group, a line each. */
function sources(row) {
    const named = row.named ? [t("groups.named", { count: number(row.named) })] : [];
    const everyone = row.everyone.map((domain) => t("groups.everyone", { domain }));
    const directory = row.directory ? [t("groups.directory", row.directory)] : [];
    return [...named, ...everyone, ...directory].map((text) => el("div", {}, text));
}

export function rosterGroups(place) {
    const result = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => load() }, t("button.more"));
    place.append(result, el("p", {}, more));
    let all = [];

    async function load() {
        try {
            const after = all.length ? all[all.length - 1].name : undefined;
            const answer = await get(query("/roster-groups", { after }));
            all = all.concat(answer.groups);
            more.hidden = !answer.has_more;
            show(answer.total);
        } catch (failure) {
            result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }

    function show(total) {
        if (!all.length) return;
        const columns = [
            { title: t("groups.name"), of: (row) => row.name },
            { title: t("groups.label"), of: (row) => row.label },
            { title: t("groups.members"), number: true, of: (row) => number(row.members) },
            { title: t("groups.sources"), breaks: true, of: (row) => el("div", {}, sources(row)) },
            { title: t("groups.shown_to"), breaks: true, of: (row) => row.shown_to.join(", ") || "–" },
        ];
        result.replaceChildren(el("h2", {}, t("groups.title")),
            table(t("groups.caption", { shown: number(all.length), total: number(total) }), columns, all));
    }

    load();
}
