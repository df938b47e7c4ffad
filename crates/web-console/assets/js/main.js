// The console: signs in, shows one page at a time by the fragment of the address.

import * as api from "./api.js";
import { el, notice, values } from "./dom.js";
import { LANGUAGES, choose, chosen, load, t } from "./text.js";
import { accounts } from "./accounts.js";
import { calls } from "./calls.js";
import { documents } from "./documents.js";
import { farm } from "./farm.js";
import { live } from "./live.js";
import { numbers } from "./numbers.js";
import { overview } from "./overview.js";
import { queues } from "./queues.js";
import { recordings } from "./recordings.js";
import { rooms } from "./rooms.js";
import { routes } from "./routes.js";
import { security } from "./security.js";
import { sessions } from "./sessions.js";
import { trace } from "./trace.js";

const PAGES = { overview, live, calls, trace, recordings, accounts, sessions, rooms, queues, numbers, documents, routes, security, farm };
/** Pages that show the contents of messages, and addresses that may have passwords in them: not for readers. */
const OF_OPERATORS = ["trace", "numbers", "documents"];
/** What may end a sign-in at a provider, as the server names it. */
const REASONS = ["denied", "expired", "no_role", "not_accepted", "too_many", "unavailable"];
const RANKS = ["read-only", "operator", "admin"];

const root = document.getElementById("root");
let session = null;
/** Ends what the page before does by itself. */
let leave = () => {};

/** What a page may use: the user's rank, and a way to other pages. */
function surroundings() {
    return {
        account: session.account,
        may: (role) => RANKS.indexOf(session.role) >= RANKS.indexOf(role),
        go: (page, rest = "") => {
            location.hash = `#/${page}${rest ? `/${encodeURIComponent(rest)}` : ""}`;
        },
    };
}

/** True if the user's role sees the page; the interface refuses what it shows in any case. */
function isPermitted(name) {
    return !OF_OPERATORS.includes(name) || surroundings().may("operator");
}

/** The switch of languages: what has been entered in a form is lost. */
function languages() {
    const one = ([value, name]) => el("option", { value, selected: value === chosen(), lang: value || undefined }, name);
    const select = el("select", { name: "language" }, Object.entries({ "": t("language.auto"), ...LANGUAGES }).map(one));
    select.addEventListener("change", () => {
        choose(select.value);
        location.reload();
    });
    return el("label", {}, t("language.label"), select);
}

function signIn(message) {
    leave();
    leave = () => {};
    session = null;
    api.setSession(null);
    const error = el("p", { class: "bad-text", role: "alert" }, message || "");
    const password = el("span", {}, t("sign_in.password"));
    const providers = el("div", { class: "providers" });
    const form = el("form", { class: "sign-in" },
        el("h1", {}, t("sign_in.title")),
        el("label", {}, t("sign_in.account"), el("input", { name: "account", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" })),
        el("label", {}, password, el("input", { name: "password", type: "password", autocomplete: "current-password", required: true })),
        error, el("button", { class: "main", type: "submit" }, t("sign_in.button")), providers);
    showWays(password, providers);
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        error.textContent = "";
        try {
            begin(await api.post("/session", values(form)));
        } catch (failure) {
            error.textContent = failure.message;
            form.elements.password.value = "";
            form.elements.password.focus();
        }
    });
    document.title = `${t("sign_in.title")} – Belfry`;
    root.replaceChildren(el("main", {}, form, el("div", { class: "sign-in-language" }, languages())));
    form.elements.account.focus();
}

/** The ways besides a password: a token in its place, and the providers that the browser is sent to. */
async function showWays(password, providers) {
    let ways;
    try {
        ways = await api.get("/sign-in");
    } catch {
        // The form is there in any case, and says what is wrong.
        return;
    }
    if (ways.tokens) password.textContent = t("sign_in.password_or_token");
    const link = ({ domain, label }) => el("a", { class: "button", href: api.query("/sign-in/begin", { domain }) }, t("sign_in.provider", { label }));
    providers.replaceChildren(...ways.providers.map(link));
}

/** The reason for which a sign-in at a provider has ended, which the address has, in words. */
function reasonOfProvider() {
    const reason = new URLSearchParams(location.search).get("sign_in");
    if (!reason) return "";
    history.replaceState(null, "", location.pathname + location.hash);
    return t(`sign_in.error.${REASONS.includes(reason) ? reason : "not_accepted"}`);
}

function begin(signedIn) {
    session = signedIn;
    api.setSession(signedIn);
    const names = Object.keys(PAGES).filter(isPermitted);
    const links = names.map((name) => el("li", {}, el("a", { href: `#/${name}`, "data-page": name }, t(`nav.${name}`))));
    const out = el("button", { type: "button", onclick: signOut }, t("button.sign_out"));
    const side = el("div", { class: "side" },
        el("div", { class: "brand" }, "Belfry"),
        el("nav", { "aria-label": t("nav.label") }, el("ul", {}, links), session.docs ? el("p", {}, el("a", { href: "/docs/" }, t("nav.docs"))) : null),
        el("div", { class: "who" }, el("div", {}, session.account), el("div", {}, t(`role.${session.role}`)), el("p", {}, languages()), el("p", {}, out)));
    const skip = el("a", { class: "skip", href: "#main" }, t("nav.skip"));
    skip.addEventListener("click", (event) => {
        event.preventDefault();
        document.querySelector("main h1").focus();
    });
    root.replaceChildren(skip, el("div", { class: "shell" }, side, el("main", { id: "main" })));
    show();
}

async function signOut() {
    try {
        await api.remove("/session");
        signIn(t("sign_in.out"));
    } catch (failure) {
        notice(failure.message, true);
    }
}

function show() {
    if (!session) return;
    leave();
    const [, name = "overview", rest = ""] = location.hash.split("/");
    const page = PAGES[name] && isPermitted(name) ? name : "overview";
    for (const link of document.querySelectorAll("nav a")) {
        if (link.dataset.page === page) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    const heading = el("h1", { tabindex: "-1" }, t(`nav.${page}`));
    const place = el("div", { "data-page": page });
    document.querySelector("main").replaceChildren(heading, place);
    document.title = `${t(`nav.${page}`)} – Belfry`;
    heading.focus();
    let argument = "";
    try {
        argument = decodeURIComponent(rest);
    } catch {
        // The user may have typed the fragment.
    }
    leave = PAGES[page](place, surroundings(), argument) || (() => {});
}

window.addEventListener("hashchange", show);
api.whenSignedOut(() => signIn(t("sign_in.over")));
await load();
const reason = reasonOfProvider();
try {
    begin(await api.get("/session"));
} catch {
    signIn(reason);
}
