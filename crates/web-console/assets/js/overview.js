// The state of the node, and graphs that go on each second.

import { query, watch } from "./api.js";
import { el, table } from "./dom.js";
import { graph } from "./graph.js";
import { bytes, elapsed, number, t, time } from "./text.js";

/** Points that are kept: as many as the node has. */
const KEPT = 600;

function graphs() {
    const whole = (value) => number(value);
    const rate = (value) => number(value, 1);
    const milliseconds = (value) => (value === null || value === undefined ? "–" : `${number(value, value < 100 ? 2 : 0)} ms`);
    const latency = (name) => graph(t(`graph.${name}_latency`), [{ name: `${name}_p99_ms`, label: "p99" }, { name: `${name}_p50_ms`, label: "p50" }], milliseconds);
    return [
        graph(t("graph.calls"), [{ name: "calls_up", label: t("graph.up") }, { name: "calls_ringing", label: t("graph.ringing") }], whole),
        graph(t("graph.call_rate"), [{ name: "calls_per_second", label: t("graph.started") }, { name: "failures_per_second", label: t("graph.failed") }], rate),
        graph(t("graph.contacts"), [{ name: "contacts" }], whole),
        graph(t("graph.registrations"), [{ name: "registrations_per_second" }], rate),
        graph(t("graph.sessions"), [{ name: "sessions" }], whole),
        graph(t("graph.stanzas"), [{ name: "stanzas_per_second" }], rate),
        graph(t("graph.messages"), [{ name: "messages_in_per_second", label: t("graph.in") }, { name: "messages_out_per_second", label: t("graph.out") }], rate),
        graph(t("graph.cpu"), [{ name: "cpu_percent" }], (value) => `${rate(value)} %`),
        graph(t("graph.memory"), [{ name: "memory_bytes" }], bytes),
        graph(t("graph.drops"), [{ name: "drops_per_second" }], rate),
        latency("invite"),
        latency("register"),
        latency("message"),
        latency("sign_in"),
        graph(t("graph.database"), [{ name: "database_read_ms" }], milliseconds),
        graph(t("graph.waiting"), [{ name: "writes_waiting" }], whole),
    ];
}

export function overview(place) {
    const warnings = el("div", { role: "alert" });
    const facts = el("dl", { class: "facts card" });
    const services = el("div", {});
    const all = graphs();
    place.append(warnings, el("div", { class: "cards" }, all.map((one) => one.element)), el("h2", {}, t("overview.node")), facts, services);
    let points = [];
    let newest = 0;
    let timer;
    let isLeft = false;
    let said = "";

    async function update() {
        try {
            // A page in the background asks nothing.
            if (document.visibilityState === "visible") {
                const answer = await watch(query("/overview", { since: newest }));
                if (isLeft) return;
                const { history, now } = answer;
                // The node was started again: its numbers are new.
                if (history.newest < newest) points = [];
                newest = history.newest;
                points = points.concat(history.points.map((values) =>
                    Object.fromEntries([["at", values[0]], ...history.names.map((name, index) => [name, values[index + 1]])]))).slice(-KEPT);
                all.forEach((one) => one.draw(points));
                describe(now);
            }
        } catch (failure) {
            if (!isLeft) warn([failure.message]);
        }
        if (!isLeft) timer = setTimeout(update, 1000);
    }

    function warn(texts) {
        const text = texts.join("\n");
        if (text === said) return;
        said = text;
        warnings.replaceChildren(...texts.map((one) => el("p", { class: "warning" }, one)));
    }

    function describe(now) {
        const problems = [];
        if (now.draining) problems.push(t("overview.draining"));
        if (now.store.unwritable) problems.push(t("overview.unwritable", { reason: now.store.unwritable }));
        if (now.council_away) problems.push(t("overview.council_away", { reason: now.council_away }));
        if (now.targets_down) problems.push(t("overview.targets_down", { count: now.targets_down }));
        if (now.panics) problems.push(t("overview.panics", { count: now.panics }));
        if (now.certificate?.trouble) problems.push(certificateProblem(now.certificate));
        warn(problems);
        const rows = [
            [t("overview.version"), `${now.version}, ${t("overview.shards", { count: now.shards })}`],
            [t("overview.uptime"), elapsed(now.uptime_seconds)],
            [t("overview.domains"), now.domains.join(", ")],
            [t("overview.calls_since"), t("overview.calls_text", { total: number(now.calls_total), answered: number(now.calls_answered), failed: number(now.calls_failed) })],
            [t("overview.connections"), number(now.connections)],
            [t("overview.failures"), number(now.sign_in_failures.reduce((sum, one) => sum + one.count, 0))],
            ...(now.certificate ? [[t("overview.certificate"), certificateEnd(now.certificate)]] : []),
        ];
        facts.replaceChildren(...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
        services.replaceChildren(el("h2", {}, t("overview.listening")), table(t("overview.listening"), [
            { title: t("overview.service"), of: (one) => one.service },
            { title: t("overview.at"), of: (one) => one.at.join(" ") },
        ], now.services));
    }

    update();
    return () => {
        isLeft = true;
        clearTimeout(timer);
    };
}

function certificateEnd({ name, ends_at }) {
    return `${name}, ${ends_at === null ? t("certificate.unreadable") : t("overview.certificate_until", { end: time(ends_at * 1e6) })}`;
}

/** Why an operator has to look: the day of the end, and not the time left, so that the text does not change each second. */
function certificateProblem(certificate) {
    const { name, ends_at, ends_in_seconds, ends_soon, order_failure } = certificate;
    const failure = order_failure ? ` ${t("overview.order_failed", { reason: order_failure })}` : "";
    if (ends_in_seconds === 0) return t("overview.certificate_over", { name }) + failure;
    if (ends_soon) return t("overview.certificate_ends", { name, end: time(ends_at * 1e6) }) + failure;
    return t("overview.certificate_self_signed") + failure;
}
