// The ladder of a trace: one line down for each party, one arrow for each message. The picture is for the eyes; the table below it
// has the same for screen readers and for searching.

import { el, svg, table } from "./dom.js";
import { number, t } from "./text.js";

/** Widths and heights of the picture, in its units. */
const COLUMN = 230;
const ROW = 30;
const HEAD = 40;
/** Messages in the picture, the newest ones: a longer picture is too long to read. The table has all. */
const DRAWN = 300;

export function ladder(lines) {
    const drawn = lines.slice(-DRAWN);
    const parties = [...new Set(drawn.flatMap((line) => [line.from, line.to]))];
    const first = lines.length ? lines[0].at_micros : 0;
    return el("div", {}, picture(drawn, parties), messages(lines, first));
}

function picture(lines, parties) {
    const width = Math.max(1, parties.length) * COLUMN;
    const height = HEAD + lines.length * ROW + 10;
    const x = (party) => parties.indexOf(party) * COLUMN + COLUMN / 2;
    const heads = parties.flatMap((party) => [
        svg("text", { x: x(party), y: 20, class: "party" }, party.length > 30 ? `${party.slice(0, 29)}…` : party),
        svg("line", { x1: x(party), x2: x(party), y1: HEAD - 8, y2: height, class: "axis" }),
    ]);
    const arrows = lines.map((line, index) => arrow(line, x(line.from), x(line.to), HEAD + (index + 0.7) * ROW));
    const label = t("trace.picture", { messages: number(lines.length), parties: number(parties.length) });
    return el("div", { class: "scroll ladder", tabindex: "0", role: "region", "aria-label": t("trace.ladder") },
        svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, heads, arrows));
}

function arrow(line, from, to, y) {
    // A message to itself is a short arrow.
    const end = from === to ? from + 60 : to;
    const tip = end > from ? -8 : 8;
    return svg("g", { class: failed(line) ? "arrow bad" : "arrow" },
        svg("line", { x1: from, x2: end, y1: y, y2: y }),
        svg("polygon", { points: `${end},${y} ${end + tip},${y - 4} ${end + tip},${y + 4}` }),
        svg("text", { x: (from + end) / 2, y: y - 5 }, line.label));
}

/** A final answer that refuses, but for the question for credentials (RFC 3261 §22). */
function failed(line) {
    return /^[3-6]\d\d\b/.test(line.label) && !/^40[17]\b/.test(line.label) || line.label.includes("refused");
}

function messages(lines, first) {
    const columns = [
        { title: t("trace.after"), number: true, of: (line) => `${number((line.at_micros - first) / 1000)} ms` },
        { title: t("calls.from"), breaks: true, of: (line) => line.from },
        { title: t("calls.to"), breaks: true, of: (line) => line.to },
        { title: t("trace.message"), of: (line) => (line.message ? el("details", {}, el("summary", {}, line.label), el("pre", {}, line.message)) : line.label) },
        { title: t("trace.of"), breaks: true, of: (line) => line.session || line.call_id },
        { title: t("farm.node"), of: (line) => line.node || "–" },
    ];
    return table(t("trace.messages", { count: number(lines.length) }), columns, lines);
}
