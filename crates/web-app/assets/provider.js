// Sign-in at the OpenID provider of the domain: the authorization code flow of a public client (RFC 6749 §4.1, with PKCE, RFC 7636). The provider sends the
// browser back to this page, which gets an access token for the code. Tokens stay in the page's memory; while the browser is at the provider, the
// verifier and the state are in the tab's session storage.

import { encode } from "./scram.js";
import { t } from "./text.js";

const KEPT = "belfry sign-in";
/** Milliseconds for the user at the provider. */
const IN_TIME = 10 * 60_000;
/** Milliseconds for one answer of the provider. */
const ANSWER_WITHIN = 15_000;
/** Milliseconds before its end at which a token is renewed. */
const MARGIN = 5_000;

/** Why there is no token, in words for the user. */
export class ProviderError extends Error {
    constructor(message, isTemporary = false) {
        super(message);
        this.isTemporary = isTemporary;
    }
}

const away = () => new ProviderError(t("provider.away"), true);
const words = (bytes) => encode(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const random = () => words(crypto.getRandomValues(new Uint8Array(32)));
/** The address of this page, as it is registered at the provider. */
const here = () => location.origin + location.pathname;

async function json(url, options = {}) {
    let answer;
    try {
        answer = await fetch(url, { credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(ANSWER_WITHIN), ...options });
    } catch {
        throw away();
    }
    const content = await answer.json().catch(() => null);
    if (answer.ok && content) return content;
    // RFC 6749 §5.2: the code or the refresh token is over.
    if (content?.error === "invalid_grant") throw new ProviderError(t("provider.over"));
    if (answer.status >= 500 || !content) throw away();
    throw new ProviderError(t("provider.refuses"));
}

/** OpenID Connect Discovery 1.0 §4.3: the issuer is the one that was asked for. */
async function configuration({ issuer }) {
    const found = await json(`${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`);
    const isSound = found.issuer === issuer && [found.authorization_endpoint, found.token_endpoint].every((url) => /^https?:[/][/]/.test(url));
    if (!isSound) throw new ProviderError(t("provider.other"));
    return found;
}

/** Sends the browser to the provider. */
export async function leaveFor(provider) {
    const { authorization_endpoint: page } = await configuration(provider);
    const kept = { state: random(), verifier: random(), began: Date.now() };
    try {
        sessionStorage.setItem(KEPT, JSON.stringify(kept));
    } catch {
        throw new ProviderError(t("provider.no_storage"));
    }
    const challenge = words(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(kept.verifier)));
    const url = new URL(page);
    const values = {
        response_type: "code",
        client_id: provider.client_id,
        redirect_uri: here(),
        scope: provider.scope,
        state: kept.state,
        code_challenge: challenge,
        code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
    location.assign(url);
}

/** The tokens of a browser that has come back from the provider; null: it has not. */
export async function comeBack(provider) {
    const given = new URLSearchParams(location.search);
    if (!given.has("state") || !(given.has("code") || given.has("error"))) return null;
    // No copy of the address, and no way back to it, has the code.
    history.replaceState(null, "", location.pathname);
    let kept = null;
    try {
        kept = JSON.parse(sessionStorage.getItem(KEPT));
        sessionStorage.removeItem(KEPT);
    } catch {
        // As if there were none.
    }
    // RFC 6749 §10.12: the answer belongs to a request of this tab.
    const isOurs = kept && kept.state === given.get("state") && Date.now() - kept.began < IN_TIME;
    if (!isOurs) throw new ProviderError(t("provider.late"));
    if (given.has("error")) throw new ProviderError(t("provider.denied"));
    const found = await configuration(provider);
    // RFC 9207 §2.4.
    if (found.authorization_response_iss_parameter_supported && given.get("iss") !== provider.issuer) {
        throw new ProviderError(t("provider.not_theirs"));
    }
    const tokens = new Tokens(provider, found.token_endpoint);
    await tokens.ask({ grant_type: "authorization_code", code: given.get("code"), redirect_uri: here(), code_verifier: kept.verifier });
    return tokens;
}

/** An access token, and the way to the next one. */
class Tokens {
    constructor(provider, url) {
        Object.assign(this, { provider, url });
    }

    async ask(values) {
        const body = new URLSearchParams({ client_id: this.provider.client_id, ...values });
        const answer = await json(this.url, { method: "POST", body });
        if (typeof answer.access_token !== "string") throw new ProviderError(t("provider.no_token"));
        this.access = answer.access_token;
        this.refresh = answer.refresh_token ?? this.refresh;
        this.endsAt = answer.expires_in ? Date.now() + answer.expires_in * 1000 : null;
    }

    /** A token that is good now, as far as the page knows. */
    async current() {
        const isOver = this.endsAt !== null && Date.now() > this.endsAt - MARGIN;
        if (isOver && this.refresh) await this.ask({ grant_type: "refresh_token", refresh_token: this.refresh });
        return this.access;
    }
}
