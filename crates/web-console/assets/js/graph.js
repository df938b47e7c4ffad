// Graphs of the last minutes, as SVG.

import { el, svg } from "./dom.js";
import { t } from "./text.js";

const WIDTH = 300;
const HEIGHT = 80;
/** Seconds that a graph shows. */
export const SPAN = 300;

/**
 * A graph with one or two lines. `series`: [{ name, label }]; `show` writes a value. draw(points) takes points as
 * { at: milliseconds, NAME: value }.
 */
export function graph(title, series, show) {
    const value = el("span", { class: "value" }, "–");
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    const [least, most] = [el("span", {}, t("graph.ago", { minutes: SPAN / 60 })), el("span", {}, "")];
    const figure = el("figure", { class: "card" },
        el("figcaption", {}, el("span", {}, title), value), picture, el("div", { class: "scale", "aria-hidden": "true" }, least, most));

    function draw(points) {
        if (points.length === 0) return;
        const end = points[points.length - 1].at;
        const shown = points.filter((point) => point.at > end - SPAN * 1000);
        const top = Math.max(1e-9, ...shown.flatMap((point) => series.map(({ name }) => point[name] ?? 0))) * 1.1;
        const x = (at) => (WIDTH * (at - end + SPAN * 1000)) / (SPAN * 1000);
        const y = (amount) => HEIGHT - 1 - ((HEIGHT - 2) * amount) / top;
        const lines = series.map(({ name }, index) => {
            const path = pathOf(shown, name, x, y);
            return [
                index === 0 && path ? svg("path", { class: "area", d: areaOf(shown, name, x, y) }) : null,
                svg("path", { class: index === 0 ? "line" : "line second", d: path || "M0 0" }),
            ];
        });
        const axis = svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 });
        picture.replaceChildren(axis, ...lines.flat().filter(Boolean));
        const last = points[points.length - 1];
        const words = series.map(({ name, label }) => (label ? `${label} ${show(last[name])}` : show(last[name]))).join(", ");
        value.textContent = words;
        most.textContent = t("graph.most", { value: show(top / 1.1) });
        picture.setAttribute("aria-label", `${title}: ${words}`);
    }
    return { element: figure, draw };
}

function pathOf(points, name, x, y) {
    let isOpen = false;
    const steps = [];
    for (const point of points) {
        const amount = point[name];
        if (amount === null || amount === undefined) {
            isOpen = false;
            continue;
        }
        steps.push(`${isOpen ? "L" : "M"}${x(point.at).toFixed(1)} ${y(amount).toFixed(1)}`);
        isOpen = true;
    }
    return steps.join("");
}

function areaOf(points, name, x, y) {
    const known = points.filter((point) => point[name] !== null && point[name] !== undefined);
    if (known.length === 0) return "M0 0";
    const top = known.map((point) => `L${x(point.at).toFixed(1)} ${y(point[name]).toFixed(1)}`).join("");
    return `M${x(known[0].at).toFixed(1)} ${HEIGHT}${top}L${x(known[known.length - 1].at).toFixed(1)} ${HEIGHT}Z`;
}
