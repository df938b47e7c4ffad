// The configuration of this node: checked, shown without its secrets, and taken over.

import { get, post } from "./api.js";
import { el, field, notice, table } from "./dom.js";
import { t } from "./text.js";

/** The buttons of an admin, and what they show. */
export function configuration() {
    const findings = el("div", { role: "status", "aria-live": "polite" });
    const view = el("div", {});
    const withDefaults = field("defaults", t("configuration.defaults"), { type: "checkbox" });
    withDefaults.hidden = true;
    withDefaults.addEventListener("change", draw);
    let shown;

    /** A button that works once at a time. */
    function button(text, work) {
        const one = el("button", { type: "button", onclick: press }, text);
        async function press() {
            one.disabled = true;
            try {
                await work();
            } catch (failure) {
                notice(failure.message, true);
            }
            one.disabled = false;
        }
        return one;
    }

    async function check() {
        const { file, mistakes, warnings, needs_restart } = await post("/configuration/check");
        const list = (all) => el("ul", {}, all.map((text) => el("li", {}, text)));
        const parts = mistakes.length
            ? [el("p", { class: "bad-text" }, t("configuration.mistakes", { count: mistakes.length })), list(mistakes)]
            : [el("p", { class: "good" }, t("configuration.good", { file: file || t("configuration.no_file") }))];
        if (warnings.length) parts.push(el("p", {}, t("configuration.warnings")), list(warnings));
        if (needs_restart.length) parts.push(el("p", {}, t("configuration.restart", { keys: needs_restart.join(", ") })));
        findings.replaceChildren(...parts);
    }

    async function takeOver() {
        const { needs_restart } = await post("/reload");
        notice(needs_restart.length ? t("farm.restart", { keys: needs_restart.join(", ") }) : t("farm.reloaded"));
    }

    async function show() {
        shown = await get("/configuration");
        withDefaults.hidden = false;
        draw();
    }

    function draw() {
        const all = withDefaults.querySelector("input").checked;
        const rows = shown.keys.filter((key) => all || key.value !== null);
        view.replaceChildren(table(t("configuration.caption", { file: shown.file || t("configuration.no_file") }), [
            { title: t("configuration.section"), of: (key) => key.section },
            { title: t("configuration.key"), of: (key) => key.name },
            { title: t("configuration.value"), breaks: true, of: (key) => key.value ?? el("span", { class: "faint" }, key.default ?? "–") },
        ], rows));
    }

    return el("div", {},
        el("p", { class: "bar" }, button(t("configuration.check"), check), button(t("configuration.show"), show), button(t("farm.reload"), takeOver)),
        findings, withDefaults, view);
}
