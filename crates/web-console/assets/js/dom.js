// Elements, made of text nodes only: names, subjects and addresses come from strangers.

import { t } from "./text.js";

/** el("a", { href: "#", class: "b", onclick: f }, "text", element, …). */
export function el(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false) continue;
        if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
        else element.setAttribute(key, value === true ? "" : String(value));
    }
    add(element, children);
    return element;
}

/** Elements of SVG, in the same way. */
export function svg(name, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    add(element, children);
    return element;
}

function add(element, children) {
    for (const child of children.flat()) {
        if (child === undefined || child === null || child === false) continue;
        element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
}

/**
 * A table. Columns: { title, of: row => text or node, number: true, breaks: true }; `breaks`: long words are broken. What a screen reader says first is the caption.
 */
export function table(caption, columns, rows) {
    const head = columns.map((column) =>
        el("th", { scope: "col", class: column.number ? "number" : undefined }, column.title || el("span", { class: "faint" }, "")));
    const body = rows.map((row) => el("tr", {}, columns.map((column) =>
        el("td", { class: column.actions ? "actions" : column.number ? "number" : column.breaks ? "breaks" : undefined }, column.of(row)))));
    if (rows.length === 0) {
        body.push(el("tr", {}, el("td", { colspan: columns.length, class: "faint" }, t("table.empty"))));
    }
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

/** A field with its label. */
export function field(name, label, attributes = {}) {
    if (attributes.type === "checkbox") {
        return el("label", { class: "check" }, el("input", { name, ...attributes }), label);
    }
    return el("label", {}, label, el("input", { name, ...attributes }));
}

/** The values of a form: texts that are not empty, numbers, and whether boxes are checked. */
export function values(form) {
    const all = {};
    for (const input of form.elements) {
        if (!input.name) continue;
        if (input.type === "checkbox") all[input.name] = input.checked;
        else if (input.value === "") continue;
        else if (input.type === "number") all[input.name] = Number(input.value);
        else if (input.dataset.list !== undefined) all[input.name] = input.value.split("\n").map((one) => one.trim()).filter(Boolean);
        else all[input.name] = input.value;
    }
    return all;
}

let fading;

/** Says a word about what was done: shown, and read out by screen readers. */
export function notice(text, isBad = false) {
    const place = document.getElementById("status");
    clearTimeout(fading);
    place.replaceChildren(el("div", { class: isBad ? "notice bad" : "notice" }, text));
    fading = setTimeout(() => place.replaceChildren(), isBad ? 12000 : 5000);
}

/**
 * A dialog with a form. `submit` gets the values, and throws an error that is shown; the dialog closes when it is done.
 */
export function ask(title, fields, label, submit, isBad = false) {
    const before = document.activeElement;
    const error = el("p", { class: "error", role: "alert" });
    const form = el("form", { method: "dialog" },
        el("h2", { id: "dialog-title" }, title), fields, error,
        el("div", { class: "buttons" },
            el("button", { type: "button", onclick: () => dialog.close() }, t("button.cancel")),
            el("button", { type: "submit", class: isBad ? "bad" : "main" }, label)));
    const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        error.replaceChildren();
        const button = form.querySelector("button[type=submit]");
        button.disabled = true;
        try {
            await submit(values(form));
            dialog.close();
        } catch (failure) {
            error.replaceChildren(document.createTextNode(failure.message));
        }
        button.disabled = false;
    });
    dialog.addEventListener("close", () => {
        dialog.remove();
        if (before && before.isConnected) before.focus();
    });
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}
