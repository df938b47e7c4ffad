// The REST interface of the console: /v1/admin. The session is in a cookie that no script reads.

import { t } from "./text.js";

let csrf = "";
let onSignedOut = () => {};

export function setSession(session) {
    csrf = session ? session.csrf : "";
}

export function whenSignedOut(act) {
    onSignedOut = act;
}

export class Refusal extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

async function request(method, path, body, automatic) {
    const headers = {};
    if (method !== "GET") headers["x-csrf-token"] = csrf;
    if (body !== undefined) headers["content-type"] = "application/json";
    if (automatic) headers["x-console-automatic"] = "1";
    let answer;
    try {
        answer = await fetch(`/v1/admin${path}`, {
            method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
        });
    } catch {
        throw new Refusal(0, t("error.away"));
    }
    const content = await answer.json().catch(() => ({}));
    if (answer.ok) return content;
    if (answer.status === 401 && path !== "/session") onSignedOut();
    throw new Refusal(answer.status, content.error || t("error.status", { status: answer.status }));
}

/** /path?name=value of those that have a value. */
export function query(path, values) {
    const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
    const text = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
    return text ? `${path}?${text}` : path;
}

export const get = (path) => request("GET", path);
/** A request that the page makes by itself: it keeps no session alive. */
export const watch = (path) => request("GET", path, undefined, true);
export const post = (path, body = {}) => request("POST", path, body);
export const put = (path, body = {}) => request("PUT", path, body);
export const remove = (path) => request("DELETE", path);
