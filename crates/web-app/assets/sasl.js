// Mechanisms besides SCRAM, for domains whose accounts are not the server's own: a token of an identity provider (RFC 7628), and the password itself
// for a server that has a directory check it (RFC 4616). Both need an encrypted connection.

import { Scram, choose as chooseScram } from "./scram.js";
import { t } from "./text.js";

/** RFC 5801 §4. */
const escaped = (name) => name.replace(/=/g, "=3D").replace(/,/g, "=2C");

class Bearer {
    constructor(account, token) {
        this.account = account;
        this.token = token;
    }

    first() {
        const named = this.account ? `a=${escaped(this.account)}` : "";
        return `n,${named},\u0001auth=Bearer ${this.token}\u0001\u0001`;
    }

    /** RFC 7628 §3.2.3: the one answer to a token that was refused. */
    async prove() {
        return "\u0001";
    }
}

class Plain {
    constructor(user, password) {
        this.message = `\u0000${user}\u0000${password}`;
    }

    first() {
        return this.message;
    }

    async prove() {
        throw new Error(t("sasl.more"));
    }
}

/** The exchange by the best mechanism of those offered; null: none is known. `account`: null where the token alone says whose it is. */
export function begin(offered, { account, secret, isToken, isEncrypted }) {
    const user = account?.split("@")[0];
    const scram = chooseScram(offered);
    if (scram && !isToken) return { mechanism: scram, exchange: new Scram(scram, user, secret) };
    // A domain of tokens takes nothing else: what was typed is one.
    if (offered.includes("OAUTHBEARER") && isEncrypted) return { mechanism: "OAUTHBEARER", exchange: new Bearer(account, secret) };
    if (offered.includes("PLAIN") && isEncrypted && !isToken) return { mechanism: "PLAIN", exchange: new Plain(user, secret) };
    return null;
}
