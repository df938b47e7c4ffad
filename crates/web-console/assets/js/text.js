// Texts of the pages, which are data: one file for each language in lang.

/** The languages, by their own names; the console's server has the same list. */
export const LANGUAGES = { en: "English", de: "Deutsch" };
const CHOICE = "belfry.language";

let texts = {};
let language = "en";

/** The language that the user has chosen here; empty: as the browser says. */
export function chosen() {
    try {
        const choice = localStorage.getItem(CHOICE) || "";
        return choice in LANGUAGES ? choice : "";
    } catch {
        // The browser keeps nothing.
        return "";
    }
}

/** Keeps the user's choice for this browser. */
export function choose(choice) {
    try {
        if (choice in LANGUAGES) localStorage.setItem(CHOICE, choice);
        else localStorage.removeItem(CHOICE);
    } catch {
        // The language is that of the browser, then.
    }
}

/** Without a choice the server decides by the browser's Accept-Language. */
export async function load() {
    const answer = await fetch(`/lang/${chosen() || "auto"}.json`, { credentials: "same-origin" });
    language = answer.headers.get("content-language") || "en";
    texts = await answer.json();
    document.documentElement.lang = language;
}

/** The text of a key, with {names} replaced. */
export function t(key, replacements = {}) {
    const text = texts[key] ?? key;
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in replacements ? String(replacements[name]) : whole));
}

export function number(value, digits = 0) {
    if (value === null || value === undefined) return "–";
    return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);
}

export function bytes(value) {
    if (value === null || value === undefined) return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) {
        value /= 1024;
        unit += 1;
    }
    return `${number(value, unit ? 1 : 0)} ${units[unit]}`;
}

/** A time in microseconds since 1970. */
export function time(micros) {
    if (micros === null || micros === undefined) return "–";
    return new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" }).format(new Date(micros / 1000));
}

/** A duration in seconds. */
export function elapsed(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    const whole = Math.max(0, Math.round(seconds));
    const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
    const two = (part) => String(part).padStart(2, "0");
    const clock = hours || days ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
    return days ? `${days} d ${clock}` : clock;
}
