// XML that is written from values, and read into a tree. Nothing here becomes HTML.

import { t } from "./text.js";

/** Characters that XML 1.0 does not have. */
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };

function escape(text) {
    const whole = String(text).replace(FORBIDDEN, "");
    return (whole.toWellFormed?.() ?? whole).replace(/[&<>"']/g, (one) => ENTITIES[one]);
}

/** An element to be sent. Children are elements, text, or nothing. */
export class Xml {
    constructor(name, attributes, children) {
        Object.assign(this, { name, attributes, children });
    }

    toString() {
        const given = Object.entries(this.attributes).filter(([, value]) => value !== undefined && value !== null);
        const attributes = given.map(([name, value]) => ` ${name}="${escape(value)}"`).join("");
        const inner = this.children.map((child) => (child instanceof Xml ? child.toString() : escape(child))).join("");
        return inner ? `<${this.name}${attributes}>${inner}</${this.name}>` : `<${this.name}${attributes}/>`;
    }
}

/** @returns {Xml} */
export function xml(name, attributes = {}, ...children) {
    return new Xml(name, attributes, children.flat().filter((child) => child !== undefined && child !== null && child !== false));
}

// The only text that this page parses is XML of the server, and it stays a tree of its own.
const policy = globalThis.trustedTypes?.createPolicy("xml", { createHTML: (text) => text });
const parser = new DOMParser();

/** The root element of a document; throws unless it is well-formed. */
export function parse(text) {
    const read = parser.parseFromString(policy ? policy.createHTML(text) : text, "text/xml");
    if (read.getElementsByTagName("parsererror").length > 0) throw new Error(t("xml.unsound"));
    return read.documentElement;
}

/** The first child of that name and namespace. */
export function child(element, name, namespace) {
    if (!element) return null;
    for (const one of element.children) {
        if (one.localName === name && (namespace === undefined || one.namespaceURI === namespace)) return one;
    }
    return null;
}

export function children(element, name, namespace) {
    if (!element) return [];
    return [...element.children].filter(
        (one) => one.localName === name && (namespace === undefined || one.namespaceURI === namespace),
    );
}

/** The text of a child; null without it. */
export function textOf(element, name, namespace) {
    return child(element, name, namespace)?.textContent ?? null;
}
