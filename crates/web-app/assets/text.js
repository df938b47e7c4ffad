// Texts of the page, which are data: one file for each language in lang.

/** The languages, by their own names; each has a file with all texts. */
export const LANGUAGES = { en: "English", de: "Deutsch" };
const CHOICE = "belfry.language";

let texts = {};
let language = "en";

/** The language that the user has chosen in this browser; empty: the browser's own. */
export function chosen() {
    try {
        const choice = localStorage.getItem(CHOICE) ?? "";
        return choice in LANGUAGES ? choice : "";
    } catch {
        // The browser keeps nothing.
        return "";
    }
}

export function choose(choice) {
    try {
        if (choice in LANGUAGES) localStorage.setItem(CHOICE, choice);
        else localStorage.removeItem(CHOICE);
    } catch {
        // The language is that of the browser, then.
    }
}

/** Of a range only the language itself counts: `de-AT` is German. */
function wanted() {
    const own = navigator.languages.map((one) => one.split("-")[0].toLowerCase());
    return chosen() || (own.find((one) => one in LANGUAGES) ?? "en");
}

/** Reads the texts, and puts those of the page itself in place. */
export async function load() {
    language = wanted();
    texts = await (await fetch(`lang/${language}.json`)).json();
    document.documentElement.lang = language;
    for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
    for (const attribute of ["placeholder", "title", "aria-label"]) {
        const name = `data-t-${attribute}`;
        for (const element of document.querySelectorAll(`[${name}]`)) element.setAttribute(attribute, t(element.getAttribute(name)));
    }
}

/** The text of a key, with {names} replaced. */
export function t(key, replacements = {}) {
    const text = texts[key] ?? key;
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in replacements ? String(replacements[name]) : whole));
}

export function timeFormat(options) {
    return new Intl.DateTimeFormat(language, options);
}
