// Routes and the health of their targets, and the way that a call would take.

import { get, post, query, remove } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { number, t } from "./text.js";

export function routes(place, around) {
    const result = el("div", {});
    const way = el("div", { role: "status", "aria-live": "polite", class: "card", hidden: true });
    const form = el("form", { class: "bar" },
        field("to", t("routes.to"), { required: true, placeholder: "+4930123456", autocapitalize: "none" }),
        el("button", { class: "main", type: "submit" }, t("routes.test")),
        around.may("admin") ? el("button", { type: "button", onclick: add }, t("routes.add")) : null);
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        try {
            show(await get(query("/route-test", values(form))));
        } catch (failure) {
            way.hidden = false;
            way.replaceChildren(el("p", { class: "bad-text" }, failure.message));
        }
    });
    place.append(form, way, el("p", { class: "faint" }, t("routes.numbers")), result);

    function show(answer) {
        const lines = [];
        if (answer.kind === "account") {
            lines.push(el("p", {}, t("routes.to_account", { address: answer.address })));
            lines.push(answer.account
                ? el("p", {}, el("a", { href: `#/accounts/${encodeURIComponent(answer.account)}` }, answer.account))
                : el("p", { class: "bad-text" }, t("routes.no_account")));
        } else if (answer.kind === "application") {
            lines.push(el("p", {}, t(answer.url ? "routes.to_application" : "routes.to_some_application", answer)));
            lines.push(el("p", { class: "faint" }, t(answer.binding ? "routes.number_bound" : "routes.number_configured", answer)));
        } else if (answer.kind === "route") {
            lines.push(el("p", {}, t("routes.to_route", { route: answer.route, user: answer.user })));
            lines.push(el("ol", {}, answer.targets.map((target) => el("li", {}, target.target, " ",
                target.down ? el("span", { class: "bad-text" }, t("routes.down")) : ""))));
        } else {
            lines.push(el("p", { class: "bad-text" }, t("routes.refused", { code: answer.code, reason: answer.reason })));
        }
        way.hidden = false;
        way.replaceChildren(...lines);
    }

    async function load() {
        try {
            const answer = await get("/routes");
            const health = new Map(answer.targets.map((target) => [target.target, target.up]));
            const columns = [
                { title: t("routes.name"), of: (route) => route.name },
                { title: t("routes.pattern"), of: (route) => `${route.pattern.kind}:${route.pattern.value}` },
                { title: t("routes.targets"), of: (route) => el("div", {}, route.targets.map((target) => targetLine(target, health))) },
                { title: t("routes.rewriting"), of: (route) => (route.strip || route.prefix ? t("routes.rewrites", { strip: number(route.strip), prefix: route.prefix }) : "–") },
                { title: t("routes.policy"), of: (route) => policy(route.policy) },
                { title: t("routes.open"), of: (route) => (route.open ? t("word.yes") : t("word.no")) },
            ];
            if (around.may("admin")) {
                columns.push({ title: t("table.actions"), actions: true, of: (route) => el("button", { type: "button", class: "bad", "aria-label": t("routes.remove", { name: route.name }), onclick: () => drop(route) }, t("button.remove")) });
            }
            result.replaceChildren(table(t("routes.caption"), columns, answer.routes));
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function policy({ trusted, by_address, certificates, max_rate, deny }) {
        const lines = [
            trusted && t("routes.is_trusted"),
            by_address && t("routes.is_trusted_by_address"),
            certificates.length && t("routes.certificates", { names: certificates.join(", ") }),
            max_rate !== null && t("routes.rate", { count: number(max_rate) }),
            deny.length && t("routes.denies", { patterns: deny.join(", ") }),
        ].filter(Boolean);
        return lines.length ? el("div", {}, lines.map((line) => el("div", {}, line))) : "–";
    }

    function targetLine(target, health) {
        const isUp = health.get(target.uri.replace(/^sip:/, ""));
        const word = isUp === undefined ? null : el("span", { class: isUp ? "good" : "bad-text" }, isUp ? t("routes.up") : t("routes.down"));
        return el("div", {}, target.uri, " ", word);
    }

    function drop(route) {
        ask(t("routes.remove", { name: route.name }), [], t("button.remove"), async () => {
            await remove(`/routes/${encodeURIComponent(route.name)}`);
            notice(t("routes.removed", { name: route.name }));
            await load();
        }, true);
    }

    function add() {
        const targets = el("textarea", { name: "targets", rows: 3, required: true, "data-list": "", placeholder: "sip:192.0.2.7:5060" });
        ask(t("routes.add"), [
            field("name", t("routes.name"), { required: true }),
            field("pattern", t("routes.pattern_hint"), { required: true, placeholder: "prefix:+49" }),
            el("label", {}, t("routes.targets_hint"), targets),
            field("strip", t("routes.strip"), { type: "number", min: 0, max: 255 }),
            field("prefix", t("routes.prefix")),
            field("max_rate", t("limits.max_rate"), { type: "number", min: 1 }),
            el("label", {}, t("limits.deny_lines"), el("textarea", { name: "deny", rows: 2, "data-list": "" })),
            field("trusted", t("routes.trusted"), { type: "checkbox" }),
            field("trust_udp_address", t("routes.trust_udp_address"), { type: "checkbox" }),
            field("probe", t("routes.probe"), { type: "checkbox" }),
            field("open", t("routes.open_hint"), { type: "checkbox" }),
        ], t("routes.add"), async (given) => {
            await post("/routes", given);
            notice(t("routes.added", { name: given.name }));
            await load();
        });
    }

    load();
}
