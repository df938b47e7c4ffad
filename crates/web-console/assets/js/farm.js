// The farm, and the configuration of this node.

import { get, post, watch } from "./api.js";
import { configuration } from "./configuration.js";
import { ask, el, notice, table } from "./dom.js";
import { elapsed, number, t, time } from "./text.js";

export function farm(place, around) {
    const result = el("div", {});
    const certificate = el("div", {});
    const map = el("div", {});
    const showMap = el("button", { type: "button", hidden: true, onclick: loadMap }, t("farm.map_button"));
    place.append(result, el("p", {}, showMap), map, el("h2", {}, t("certificate.title")), certificate, el("h2", {}, t("farm.configuration")), el("p", { class: "faint" }, t("farm.reload_text")),
        around.may("admin") ? configuration() : "");
    let timer;
    let isLeft = false;

    /** After a change of this page the table is replaced in any case: the focus would come back to its button, and keep it as it is. */
    async function update(isChanged = false) {
        clearTimeout(timer);
        try {
            const answer = await watch("/farm");
            if (isLeft) return;
            show(answer.farm, isChanged);
            showMap.hidden = !answer.farm;
            certificate.replaceChildren(certificateFacts(answer.certificate));
        } catch (failure) {
            if (!isLeft) result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
        clearTimeout(timer);
        if (!isLeft) timer = setTimeout(() => update(), 3000);
    }

    function show(farm, isChanged) {
        // A button that has the focus is not replaced under the user's hands.
        if (!isChanged && result.contains(document.activeElement) && document.activeElement.tagName === "BUTTON") return;
        if (!farm) {
            result.replaceChildren(el("p", {}, t("farm.alone")));
            return;
        }
        const columns = [
            { title: t("farm.node"), of: (node) => `${node.name}${node.life === farm.life ? ` (${t("farm.this")})` : ""}` },
            { title: t("farm.role"), of: (node) => node.role },
            { title: t("farm.state"), of: (node) => el("span", { class: node.suspected ? "bad-text" : "good" }, node.suspected ? t("farm.suspected") : node.state) },
            { title: t("farm.slots"), number: true, of: (node) => number(node.call_slots) },
            { title: t("farm.buckets"), number: true, of: (node) => number(node.buckets) },
            { title: t("graph.calls"), number: true, of: (node) => number(node.figures.calls) },
            { title: t("graph.contacts"), number: true, of: (node) => number(node.figures.bindings) },
            { title: t("graph.sessions"), number: true, of: (node) => number(node.figures.sessions) },
            { title: t("graph.cpu"), number: true, of: (node) => (node.figures.cpu_permille === null ? "–" : `${number(node.figures.cpu_permille / 10, 1)} %`) },
            { title: t("farm.delay"), number: true, of: (node) => (node.figures.link_delay_micros === null ? "–" : `${number(node.figures.link_delay_micros / 1000, 1)} ms`) },
            { title: t("overview.version"), of: (node) => node.version },
        ];
        if (around.may("admin")) {
            columns.push({ title: t("table.actions"), actions: true, of: (node) => el("button", { type: "button", class: "bad", "aria-label": t("farm.drain", { node: node.name }), onclick: () => drain(node) }, t("farm.drain_button")) });
        }
        const council = farm.council_away ? el("p", { class: "warning" }, t("overview.council_away", { reason: farm.council_away })) : "";
        result.replaceChildren(council, table(t("farm.caption", { farm: farm.farm, version: farm.map_version }), columns, farm.nodes));
    }

    async function loadMap() {
        try {
            const answer = await get("/farm/map");
            if (!isLeft) map.replaceChildren(...(answer.map ? mapTables(answer.map) : []));
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function drain(node) {
        ask(t("farm.drain", { node: node.name }), el("p", {}, t("farm.drain_text")), t("farm.drain_button"), async () => {
            await post("/farm/drain", { node: node.name });
            notice(t("farm.drains", { node: node.name }));
            await update(true);
        }, true);
    }

    update();
    return () => {
        isLeft = true;
        clearTimeout(timer);
    };
}

/** The certificate of the node's listeners, and how its orders go. */
function certificateFacts(certificate) {
    if (!certificate) return el("p", {}, t("certificate.none"));
    const left = certificate.ends_in_seconds;
    const ends = certificate.ends_at === null ? t("certificate.unreadable") : `${time(certificate.ends_at * 1e6)} (${left ? elapsed(left) : t("certificate.over")})`;
    const facts = [
        [t("certificate.name"), certificate.name],
        [t("certificate.source"), t(`certificate.${certificate.source}`)],
        [t("certificate.ends"), el("span", { class: certificate.ends_soon || left === 0 ? "bad-text" : "good" }, ends)],
        [t("certificate.order_failure"), certificate.order_failure],
        [t("certificate.next_order"), certificate.next_order_seconds === null ? null : elapsed(certificate.next_order_seconds)],
    ].filter(([, value]) => value !== null && value !== undefined);
    return el("dl", { class: "facts card" }, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** The map in two tables: neighbouring numbers of one shard are one row. */
function mapTables({ map_version, buckets, call_slots }) {
    const columns = [
        { title: t("farm.numbers"), of: (range) => (range.first === range.last ? String(range.first) : `${range.first} – ${range.last}`) },
        { title: t("farm.count"), number: true, of: (range) => number(range.last - range.first + 1) },
        { title: t("farm.node"), of: (range) => (range.life === null ? el("span", { class: "bad-text" }, t("farm.no_holder")) : range.node || t("farm.gone", { life: range.life })) },
        { title: t("farm.shard"), number: true, of: (range) => (range.shard === null ? "–" : String(range.shard)) },
    ];
    return [
        table(t("farm.map_buckets", { version: map_version }), columns, buckets),
        table(t("farm.map_slots", { version: map_version }), columns, call_slots),
    ];
}
