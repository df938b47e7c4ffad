// What this browser keeps of an account: when each conversation was last read, and the calls. Never a password or a message.

const CALLS = 50;

export class Device {
    constructor(account) {
        this.key = `belfry ${account}`;
        let kept = {};
        try {
            kept = JSON.parse(localStorage.getItem(this.key) ?? "{}");
        } catch {
            // Storage that is off or spoiled: the page works without it.
        }
        this.kept = { since: kept.since ?? Date.now(), read: kept.read ?? {}, calls: kept.calls ?? [] };
        this.save();
    }

    save() {
        try {
            localStorage.setItem(this.key, JSON.stringify(this.kept));
        } catch {
            // As above.
        }
    }

    /** Milliseconds: messages of that contact that are not later have been read. */
    readUntil(jid) {
        return this.kept.read[jid] ?? this.kept.since;
    }

    read(jid, time) {
        if (time <= this.readUntil(jid)) return;
        this.kept.read[jid] = time;
        this.save();
    }

    get calls() {
        return this.kept.calls;
    }

    addCall(call) {
        this.kept.calls = [call, ...this.kept.calls].slice(0, CALLS);
        this.save();
    }

    clearCalls() {
        this.kept.calls = [];
        this.save();
    }
}
