// Numbers that applications answer, and the applications.

import { get, post, put, query, remove } from "./api.js";
import { ask, el, field, notice, table } from "./dom.js";
import { t, time } from "./text.js";

/** What a table of one kind of resource shows, and the form of one. */
const KINDS = {
    numbers: { title: "numbers.title", add: "numbers.add", fields: numberFields, name: (row) => row.phone_number },
    applications: { title: "applications.title", add: "applications.add", fields: applicationFields, name: (row) => row.friendly_name },
};

export function numbers(place, around) {
    const accounts = el("select", { name: "account" });
    const filter = el("form", { class: "bar", role: "search" }, el("label", {}, t("numbers.account"), accounts));
    accounts.addEventListener("change", () => lists.forEach((list) => list.load(false)));
    place.append(el("p", { class: "faint" }, t("numbers.what")), filter);
    /** All that a form may choose among. */
    const known = { accounts: [], applications: [] };
    const lists = Object.keys(KINDS).map((kind) => list(kind, { place, around, accounts, known }));
    loadAccounts();

    async function loadAccounts() {
        try {
            const { rows } = await get(query("/application-accounts", { limit: 500 }));
            known.accounts = rows;
            accounts.replaceChildren(el("option", { value: "" }, t("numbers.all_accounts")),
                ...rows.map((row) => el("option", { value: row.sid }, row.friendly_name || row.sid)));
            known.applications = (await get(query("/applications", { limit: 500 }))).rows;
            lists.forEach((one) => one.load(false));
        } catch (failure) {
            place.replaceChildren(el("p", { class: "warning", role: "alert" }, failure.message));
        }
    }
}

/** One table with its buttons. */
function list(kind, { place, around, accounts, known }) {
    const { title, add, fields, name } = KINDS[kind];
    const result = el("div", { "data-list-of": kind });
    const more = el("button", { type: "button", hidden: true, onclick: () => load(true) }, t("button.more"));
    const mayChange = around.may("admin");
    place.append(el("h2", {}, t(title)), result,
        el("p", { class: "bar" }, mayChange ? el("button", { type: "button", onclick: () => change(null) }, t(add)) : null, more));
    let all = [];
    let page = 0;

    async function load(isNext) {
        try {
            page = isNext ? page + 1 : 0;
            const answer = await get(query(`/${kind}`, { account: accounts.value, page }));
            all = (isNext ? all : []).concat(answer.rows);
            more.hidden = !answer.has_more;
            if (kind === "applications" && !accounts.value) known.applications = all;
            result.replaceChildren(table(t(title), columns(), all));
        } catch (failure) {
            notice(failure.message, true);
        }
    }

    function columns() {
        const shared = [
            { title: t("numbers.voice_url"), breaks: true, of: (row) => (row.voice_url ? `${row.voice_method} ${row.voice_url}` : "–") },
            { title: t("numbers.account"), of: (row) => accountName(known, row.account_sid) },
            { title: t("numbers.changed"), of: (row) => time(Date.parse(row.date_updated) * 1000) },
            { title: t("table.actions"), actions: true, of: buttons },
        ];
        if (kind === "applications") {
            return [{ title: t("applications.name"), of: (row) => row.friendly_name || "–" }, { title: t("numbers.sid"), breaks: true, of: (row) => row.sid }, ...shared];
        }
        return [
            { title: t("numbers.number"), of: (row) => row.phone_number },
            { title: t("applications.name"), of: (row) => row.friendly_name || "–" },
            { title: t("numbers.application"), of: (row) => applicationName(known, row.voice_application_sid) },
            ...shared,
        ];
    }

    function buttons(row) {
        const of = { name: name(row) };
        const test = kind === "numbers"
            ? el("button", { type: "button", "aria-label": t("numbers.test", of), onclick: () => around.go("documents", row.sid) }, t("numbers.test_button"))
            : null;
        if (!mayChange) return el("div", {}, test);
        return el("div", {}, test,
            el("button", { type: "button", "aria-label": t("numbers.change", of), onclick: () => change(row) }, t("button.change")),
            el("button", { type: "button", class: "bad", "aria-label": t("numbers.remove", of), onclick: () => drop(row) }, t("button.remove")));
    }

    /** The form of a new resource, or of one that is there. */
    function change(row) {
        const label = row ? t("numbers.change", { name: name(row) }) : t(add);
        ask(label, fields(row || {}, known, !row), row ? t("button.save") : t(add), async (given) => {
            if (row) await put(`/${kind}/${encodeURIComponent(row.sid)}`, given);
            else await post(`/${kind}`, given);
            notice(t("numbers.saved", { name: given.number || given.name }));
            await load(false);
        });
    }

    function drop(row) {
        const text = kind === "numbers" ? t("numbers.remove_text") : t("applications.remove_text");
        ask(t("numbers.remove", { name: name(row) }), el("p", {}, text), t("button.remove"), async () => {
            await remove(`/${kind}/${encodeURIComponent(row.sid)}`);
            notice(t("numbers.removed", { name: name(row) }));
            await load(false);
        }, true);
    }

    return { load };
}

function accountName(known, sid) {
    const found = known.accounts.find((row) => row.sid === sid);
    return (found && found.friendly_name) || sid || "–";
}

function applicationName(known, sid) {
    if (!sid) return "–";
    const found = known.applications.find((row) => row.sid === sid);
    return (found && found.friendly_name) || sid;
}

function choice(name, label, options, chosen) {
    const one = ([value, text]) => el("option", { value, selected: value === (chosen || "") }, text);
    return el("label", {}, label, el("select", { name }, options.map(one)));
}

function numberFields(row, known, isNew) {
    const applications = known.applications.map((one) => [one.sid, one.friendly_name || one.sid]);
    if (row.voice_application_sid && !applications.some(([sid]) => sid === row.voice_application_sid)) {
        applications.push([row.voice_application_sid, row.voice_application_sid]);
    }
    return [
        field("number", t("numbers.number_hint"), { required: true, value: row.phone_number, placeholder: "+4930123456" }),
        field("name", t("applications.name"), { value: row.friendly_name }),
        choice("voice_application", t("numbers.application"), [["", t("numbers.no_application")], ...applications], row.voice_application_sid),
        ...urlFields(row),
        ...accountField(row, known, isNew),
    ];
}

function applicationFields(row, known, isNew) {
    return [
        field("name", t("applications.name"), { required: true, value: row.friendly_name }),
        ...urlFields(row),
        // An application stays with its account.
        ...(isNew ? accountField(row, known, isNew) : []),
    ];
}

function urlFields(row) {
    const url = (name, label, value) => field(name, label, { value, inputmode: "url", autocapitalize: "none", spellcheck: "false" });
    return [
        url("voice_url", t("numbers.voice_url_hint"), row.voice_url),
        choice("voice_method", t("numbers.method"), [["POST", "POST"], ["GET", "GET"]], row.voice_method || "POST"),
        url("voice_fallback_url", t("numbers.fallback"), row.voice_fallback_url),
        url("status_callback", t("numbers.callback"), row.status_callback),
    ];
}

function accountField(row, known, isNew) {
    if (known.accounts.length < 2) return [];
    const accounts = known.accounts.map((one) => [one.sid, one.friendly_name || one.sid]);
    return [choice("account", t("numbers.account"), accounts, isNew ? known.accounts[0].sid : row.account_sid)];
}
