// Accounts with all that belongs to one, further addresses, and domains.

import { get, post, put, query, remove } from "./api.js";
import { ask, el, field, notice, table, values } from "./dom.js";
import { qrCode } from "./qr.js";
import { elapsed, number, t, time } from "./text.js";
import { sessionTable } from "./sessions.js";

export function accounts(place, around, argument) {
    if (argument) return one(place, around, argument);
    const result = el("div", {});
    const domains = el("div", {});
    const more = el("button", { type: "button", hidden: true, onclick: () => load(true) }, t("button.more"));
    const form = el("form", { class: "bar", role: "search" },
        field("prefix", t("accounts.prefix"), { autocapitalize: "none" }),
        field("domain", t("accounts.domain")),
        el("button", { class: "main", type: "submit" }, t("button.search")),
        around.may("operator") ? el("button", { type: "button", onclick: add }, t("accounts.add")) : null,
        around.may("operator") ? el("button", { type: "button", onclick: invite }, t("invitation.make")) : null);
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        load(false);
    });
    const invitation = el("div", { role: "status", "aria-live": "polite" });
    place.append(form, invitation, result, el("p", {}, more), domains);
    let all = [];

    async function load(isNext) {
        try {
            const after = isNext && all.length ? all[all.length - 1].address : undefined;
            const answer = await get(query("/accounts", { ...values(form), after }));
            all = (isNext ? all : []).concat(answer.accounts);
            more.hidden = !answer.has_more;
            show();
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function show() {
        result.replaceChildren(table(t("accounts.caption"), [
            { title: t("accounts.address"), of: (account) => el("a", { href: `#/accounts/${encodeURIComponent(account.address)}` }, account.address) },
            { title: t("accounts.name"), of: (account) => account.display_name || "–" },
            { title: t("accounts.state"), of: (account) => state(account) },
            { title: t("accounts.role"), of: (account) => (account.role ? t(`role.${account.role}`) : "–") },
            { title: t("accounts.created"), of: (account) => time(account.created_at * 1e6) },
        ], all));
    }

    async function loadDomains() {
        try {
            const answer = await get("/domains");
            const columns = [
                { title: t("accounts.domain"), of: (domain) => domain.name },
                { title: t("accounts.count"), number: true, of: (domain) => number(domain.accounts) },
            ];
            if (around.may("admin")) {
                columns.push({ title: t("table.actions"), actions: true, of: (domain) => el("button", { type: "button", class: "bad", "aria-label": t("domains.remove", { name: domain.name }), onclick: () => removeDomain(domain) }, t("button.remove")) });
            }
            domains.replaceChildren(el("h2", {}, t("domains.title")), table(t("domains.title"), columns, answer.domains),
                around.may("admin") ? el("p", {}, el("button", { type: "button", onclick: addDomain }, t("domains.add"))) : "");
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function add() {
        ask(t("accounts.add"), [
            field("address", t("accounts.address"), { required: true, autocapitalize: "none", placeholder: "alice@example.net" }),
            field("display_name", t("accounts.name")),
            field("password", t("accounts.password"), { type: "password", required: true, autocomplete: "new-password" }),
        ], t("accounts.add"), async (given) => {
            await post("/accounts", given);
            notice(t("accounts.added", { address: given.address }));
            await load(false);
        });
    }

    function invite() {
        ask(t("invitation.make"), [
            field("account", t("invitation.account"), { required: true, autocapitalize: "none", placeholder: "alice@example.net" }),
            el("p", {}, t("invitation.what")),
        ], t("invitation.make"), async ({ account }) => {
            const { uri, page, expires_at } = await post("/invitations", { account });
            invitation.replaceChildren(el("figure", { class: "card invitation" },
                el("figcaption", {}, t("invitation.of", { account, until: time(expires_at) })),
                qrCode(uri, t("qr.code", { uri })) || el("p", {}, t("qr.too_long")),
                el("code", {}, uri),
                page ? el("p", {}, t("invitation.page"), " ", el("code", {}, page)) : null));
        });
    }

    function addDomain() {
        ask(t("domains.add"), field("name", t("accounts.domain"), { required: true }), t("domains.add"), async (given) => {
            await post("/domains", given);
            notice(t("domains.added", { name: given.name }));
            await loadDomains();
        });
    }

    function removeDomain(domain) {
        ask(t("domains.remove", { name: domain.name }), [], t("button.remove"), async () => {
            await remove(`/domains/${encodeURIComponent(domain.name)}`);
            await loadDomains();
        }, true);
    }

    load(false);
    loadDomains();
    return undefined;
}

function state(account) {
    return account.disabled
        ? el("span", { class: "bad-text" }, t("accounts.disabled"))
        : el("span", { class: "good" }, t("accounts.enabled"));
}

/** The account's addresses for phones and chat as pictures: to be scanned instead of typed. */
function qrCodes(address) {
    const at = address.lastIndexOf("@");
    const uri = (scheme) => `${scheme}:${encodeURIComponent(address.slice(0, at))}${address.slice(at)}`;
    const code = (scheme) => {
        const picture = qrCode(uri(scheme), t("qr.code", { uri: uri(scheme) }));
        return el("figure", { class: "card" }, el("figcaption", {}, t(`qr.${scheme}`)), picture || el("p", {}, t("qr.too_long")), el("code", {}, uri(scheme)));
    };
    return el("div", { class: "cards" }, code("sip"), code("xmpp"));
}

/** One account. */
function one(place, around, address) {
    const path = `/accounts/${encodeURIComponent(address)}`;
    const content = el("div", {});
    place.append(el("p", {}, el("a", { href: "#/accounts" }, t("accounts.all"))), content);

    async function load() {
        try {
            show(await get(path));
        } catch (failure) {
            content.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }

    function show({ account, aliases, registrations, sessions }) {
        const limits = account.limits;
        const limit = (value) => (value === null || value === undefined ? t("accounts.default") : number(value));
        const facts = [
            [t("accounts.name"), account.display_name || "–"],
            [t("accounts.state"), state(account)],
            [t("accounts.role"), account.role ? t(`role.${account.role}`) : "–"],
            [t("accounts.created"), time(account.created_at * 1e6)],
            [t("limits.max_contacts"), limit(limits.max_contacts)],
            [t("limits.max_calls"), limit(limits.max_calls)],
            [t("limits.max_rate"), limit(limits.max_rate)],
            [t("limits.deny"), limits.deny.join(", ") || "–"],
        ];
        const mayChange = around.may("admin") || (around.may("operator") && !account.role);
        content.replaceChildren(
            el("h2", {}, account.address),
            el("dl", { class: "facts card" }, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
            mayChange ? buttons(account) : "",
            el("h2", {}, t("aliases.title")),
            aliasTable(account, aliases, mayChange),
            el("h2", {}, t("registrations.title")),
            table(t("registrations.title"), [
                { title: t("registrations.contact"), of: (row) => row.contact },
                { title: t("registrations.agent"), of: (row) => row.user_agent || "–" },
                { title: t("registrations.from"), of: (row) => row.received || "–" },
                { title: t("registrations.expires"), number: true, of: (row) => elapsed(row.expires_in_seconds) },
            ], registrations),
            el("h2", {}, t("sessions.title")),
            sessionTable(sessions, around, load),
            el("h2", {}, t("qr.title")), el("p", { class: "faint" }, t("qr.what")), qrCodes(account.address),
            el("p", {}, el("a", { href: `#/calls/${encodeURIComponent(account.address)}` }, t("accounts.calls"))));
    }

    function buttons(account) {
        const change = (label, act, isBad) => el("button", { type: "button", class: isBad ? "bad" : undefined, onclick: act }, label);
        return el("p", { class: "bar" },
            change(t("accounts.set_name"), () => form(t("accounts.set_name"), field("display_name", t("accounts.name"), { value: account.display_name }), "name")),
            change(t("accounts.set_password"), () => form(t("accounts.set_password"), field("password", t("accounts.password"), { type: "password", required: true, autocomplete: "new-password" }), "password")),
            change(t("accounts.set_limits"), () => limitsForm(account)),
            change(account.disabled ? t("accounts.enable") : t("accounts.disable"), async () => {
                await act(() => put(`${path}/disabled`, { disabled: !account.disabled }), t("accounts.changed"));
            }),
            around.may("admin") ? change(t("button.remove"), () => ask(t("accounts.remove", { address: account.address }), el("p", {}, t("accounts.remove_text")), t("button.remove"), async () => {
                await remove(path);
                notice(t("accounts.removed", { address: account.address }));
                around.go("accounts");
            }, true), true) : null);
    }

    function form(title, fields, part) {
        ask(title, fields, t("button.save"), async (given) => {
            await put(`${path}/${part}`, given);
            notice(t("accounts.changed"));
            await load();
        });
    }

    function limitsForm({ limits }) {
        const given = (name) => field(name, t(`limits.${name}`), { type: "number", min: 0, value: limits[name] });
        const deny = el("textarea", { name: "deny", rows: 3, "data-list": "" });
        deny.value = limits.deny.join("\n");
        form(t("accounts.set_limits"), [given("max_contacts"), given("max_calls"), given("max_rate"), el("label", {}, t("limits.deny_lines"), deny)], "limits");
    }

    function aliasTable(account, aliases, mayChange) {
        const columns = [{ title: t("aliases.alias"), of: (alias) => alias }];
        if (mayChange) {
            columns.push({ title: t("table.actions"), actions: true, of: (alias) => el("button", { type: "button", class: "bad", "aria-label": t("aliases.remove", { alias }), onclick: () => act(() => remove(`/aliases/${encodeURIComponent(alias)}`), t("accounts.changed")) }, t("button.remove")) });
        }
        const add = el("button", { type: "button", onclick: () => ask(t("aliases.add"), field("alias", t("aliases.alias"), { required: true }), t("aliases.add"), async ({ alias }) => {
            await post("/aliases", { alias, account: account.address });
            await load();
        }) }, t("aliases.add"));
        return el("div", {}, table(t("aliases.title"), columns, aliases), mayChange ? el("p", {}, add) : "");
    }

    async function act(change, word) {
        try {
            await change();
            notice(word);
            await load();
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    load();
    return undefined;
}
