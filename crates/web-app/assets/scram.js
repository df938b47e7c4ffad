// SCRAM (RFC 5802, RFC 7677): the password never leaves the page, and the server proves that it knows its keys.

import { t } from "./text.js";

const HASHES = { "SCRAM-SHA-256": "SHA-256", "SCRAM-SHA-512": "SHA-512", "SCRAM-SHA-1": "SHA-1" };

/** A server that asks for more would keep the page busy. */
const MOST_ITERATIONS = 1_000_000;
/** RFC 7677 §4. */
const LEAST_ITERATIONS = 4096;

const bytesOf = (text) => new TextEncoder().encode(text);
export const encode = (bytes) => btoa(Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join(""));
const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
export const encodeText = (text) => encode(bytesOf(text));
export const decodeText = (text) => new TextDecoder().decode(decode(text));

/** The mechanism of those offered that this page prefers; null: none is known. */
export function choose(offered) {
    return Object.keys(HASHES).find((name) => offered.includes(name)) ?? null;
}

async function hmac(hash, key, data) {
    const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash }, false, ["sign"]);
    return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

async function salted(hash, password, salt, iterations) {
    const key = await crypto.subtle.importKey("raw", bytesOf(password.normalize("NFKC")), "PBKDF2", false, ["deriveBits"]);
    const length = { "SHA-1": 160, "SHA-256": 256, "SHA-512": 512 }[hash];
    return new Uint8Array(await crypto.subtle.deriveBits({ name: "PBKDF2", hash, salt, iterations }, key, length));
}

/** One exchange. */
export class Scram {
    constructor(mechanism, user, password) {
        this.hash = HASHES[mechanism];
        this.password = password;
        this.nonce = encode(crypto.getRandomValues(new Uint8Array(24)));
        const name = user.normalize("NFKC").replace(/=/g, "=3D").replace(/,/g, "=2C");
        this.bare = `n=${name},r=${this.nonce}`;
    }

    first() {
        return `n,,${this.bare}`;
    }

    /** Whether the server has to prove itself, too. */
    get isMutual() {
        return true;
    }

    /** The answer to the server's challenge. */
    async prove(challenge) {
        const values = Object.fromEntries(challenge.split(",").map((part) => [part[0], part.slice(2)]));
        const iterations = Number(values.i);
        const isSound =
            !("m" in values) &&
            values.r?.startsWith(this.nonce) &&
            values.r.length > this.nonce.length &&
            values.s &&
            iterations >= LEAST_ITERATIONS &&
            iterations <= MOST_ITERATIONS;
        if (!isSound) throw new Error(t("sasl.unsound"));
        const key = await salted(this.hash, this.password, decode(values.s), iterations);
        const without = `c=${encodeText("n,,")},r=${values.r}`;
        const message = bytesOf(`${this.bare},${challenge},${without}`);
        const client = await hmac(this.hash, key, bytesOf("Client Key"));
        const stored = new Uint8Array(await crypto.subtle.digest(this.hash, client));
        const signature = await hmac(this.hash, stored, message);
        const proof = client.map((byte, index) => byte ^ signature[index]);
        this.expected = encode(await hmac(this.hash, await hmac(this.hash, key, bytesOf("Server Key")), message));
        return `${without},p=${encode(proof)}`;
    }

    /** Whether the server's last words prove that it knows the account's keys. */
    isProvedBy(last) {
        return this.expected !== undefined && last === `v=${this.expected}`;
    }
}
