// The test of a document: what a call would hear and do, without a call.

import { get, post, query } from "./api.js";
import { el, field, table, values } from "./dom.js";
import { number, t } from "./text.js";

const SOURCES = ["document", "url", "number"];
const EXAMPLE = '<?xml version="1.0" encoding="UTF-8"?>\n<Response>\n  <Gather numDigits="1" action="https://example.net/menu">\n    <Say>Press one for sales.</Say>\n  </Gather>\n  <Say>Goodbye.</Say>\n</Response>\n';

export function documents(place, around, argument) {
    const result = el("div", { role: "status", "aria-live": "polite" });
    const source = el("select", { name: "source" }, SOURCES.map((one) => el("option", { value: one }, t(`documents.${one}`))));
    const text = el("textarea", { name: "document", rows: 12, spellcheck: "false", class: "code" });
    text.value = EXAMPLE;
    const choose = el("select", { name: "number" });
    const inputs = el("textarea", { name: "inputs", rows: 3, "data-list": "" });
    const dial = el("select", { name: "dial" }, ["completed", "busy", "no-answer", "failed"].map((one) => el("option", { value: one }, t(`dial.${one.replace("-", "_")}`))));
    const parts = {
        document: [el("label", {}, t("documents.text"), text)],
        url: [field("url", t("documents.url"), { inputmode: "url", autocapitalize: "none", placeholder: "https://example.net/voice" }),
            el("label", {}, t("numbers.method"), el("select", { name: "method" }, el("option", {}, "POST"), el("option", {}, "GET")))],
        number: [el("label", {}, t("documents.number"), choose)],
    };
    const form = el("form", { class: "stack card" },
        el("label", {}, t("documents.source"), source), ...Object.values(parts).flat(),
        el("label", {}, t("documents.inputs"), inputs),
        el("label", {}, t("documents.dial"), dial),
        field("from", t("documents.from"), { placeholder: "+15550100" }),
        field("follow", t("documents.follow"), { type: "checkbox" }),
        el("p", {}, el("button", { class: "main", type: "submit" }, t("documents.test"))));
    source.addEventListener("change", show);
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        await test();
    });
    place.append(el("p", { class: "faint" }, t("documents.what")), form, result);
    if (argument) source.value = "number";
    show();
    loadNumbers();

    function show() {
        for (const [name, labels] of Object.entries(parts)) for (const label of labels) label.hidden = name !== source.value;
    }

    async function loadNumbers() {
        try {
            const { rows } = await get(query("/numbers", { limit: 500 }));
            choose.replaceChildren(...rows.map((row) => el("option", { value: row.sid, selected: row.sid === argument }, row.phone_number)));
        } catch {
            // A node without applications tests documents that are given.
        }
    }

    async function test() {
        const all = values(form);
        const given = { inputs: inputs.value.split("\n").map((one) => one.trim()), dial: all.dial, from: all.from, follow: all.follow };
        // Empty lines at the end are no inputs; one in between is a caller that waits.
        while (given.inputs.length && !given.inputs[given.inputs.length - 1]) given.inputs.pop();
        given[source.value] = all[source.value] || "";
        if (source.value === "url") given.method = all.method;
        try {
            const answer = await post("/documents/test", given);
            result.replaceChildren(...steps(answer));
        } catch (failure) {
            result.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }
}

function steps({ steps: all, end }) {
    const rows = all.map((step, index) => ({ step, index }));
    const wrong = all.filter((step) => step.kind === "note" && step.severity === "error").length;
    return [
        el("h2", {}, t("documents.steps")),
        wrong ? el("p", { class: "warning" }, t("documents.errors", { count: wrong })) : el("p", { class: "good" }, t("documents.good")),
        table(t("documents.caption", { count: all.length }), [
            { title: t("documents.nth"), number: true, of: ({ index }) => number(index + 1) },
            { title: t("documents.step"), of: ({ step }) => el("strong", { class: step.severity === "error" ? "bad-text" : undefined }, heading(step)) },
            { title: t("documents.details"), breaks: true, of: ({ step }) => details(step) },
        ], rows),
        el("p", { class: "faint" }, t(`documents.end_${end}`)),
    ];
}

function heading(step) {
    if (step.kind === "note") return t(`severity.${step.severity}`);
    return t(`step.${step.kind}`);
}

function details(step) {
    const lines = {
        request: () => asked(step),
        callback: () => asked(step),
        document: () => [`${step.url || t("documents.given")}, ${t("documents.bytes", { count: number(step.length) })}`],
        note: () => [step.line === null ? "" : t("documents.place", { line: step.line, column: step.column ?? 1 }), step.text, step.url || ""],
        refuse: () => [`SIP ${step.status}`],
        prompt: () => step.pieces.flatMap(piece),
        listen: () => [[step.keys ? t("documents.keys") : "", step.speech ? t("documents.speech") : ""].filter(Boolean).join(", ")],
        keys: () => [step.text],
        speech: () => [step.text],
        record: () => [t("documents.record", { seconds: number(step.seconds), silence: number(step.silence) })],
        dial: () => [step.to.join(", "), step.caller_id ? t("documents.caller_id", { number: step.caller_id }) : "", step.recorded ? t("documents.recorded") : ""],
        dial_outcome: () => [t(`dial.${step.status.replace("-", "_")}`)],
        screen: () => [step.url],
        conference: () => [step.name],
        queue: () => [step.name],
        message: () => [`${step.from} → ${step.to}`, step.text],
        mail: () => [step.to, step.text],
        refer: () => [step.to],
        stream: () => [step.url],
        ended: () => [step.status],
    }[step.kind];
    return el("div", {}, (lines ? lines() : []).filter(Boolean).map((line) => (line instanceof Node ? line : el("div", {}, line))));
}

function asked(step) {
    const form = step.form.map(({ name, value }) => `${name}=${value}`).join("\n");
    return [`${step.method} ${step.url}`, form ? el("details", {}, el("summary", {}, t("documents.form", { count: step.form.length })), el("pre", {}, form)) : ""];
}

function piece({ items, loops }) {
    const said = items.map((item) => {
        if (item.kind === "silence") return t("documents.silence", { seconds: number(item.seconds, 1) });
        if (item.kind === "speech") return `${item.text} (${item.language})`;
        return item.text;
    });
    if (loops !== 1) said.push(loops ? t("documents.loops", { count: loops }) : t("documents.for_ever"));
    return said;
}
