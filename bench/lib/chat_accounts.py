"""The accounts of chat users of a farm, written into its database before the nodes start: each with the keys of SCRAM, as an import
makes them, and a roster."""

import hashlib
import hmac
import json
import os
import time

from .procs import say
from .servers import DOMAIN, password

# RFC 7616, in the order of the store.
DIGESTS = ("md5", "sha256", "sha512_256")


def entry(kind, value):
    """A verifier as the store writes it: kind, length, value."""
    return bytes((kind, len(value))) + value


def digests(number):
    """What an account keeps of its password for digests."""
    text = f"user{number}:{DOMAIN}:{password(0)}".encode()
    return b"".join(entry(kind, hashlib.new(name, text).digest()) for kind, name in enumerate(DIGESTS, 1))


def scram_keys(iterations):
    """RFC 5802 §3, for all accounts alike."""
    keys, salt = b"", b"chat of the farm"
    for kind, name in enumerate(("sha1", "sha256", "sha512"), 4):
        salted = hashlib.pbkdf2_hmac(name, password(0).encode(), salt, iterations)
        stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
        server = hmac.digest(salted, b"Server Key", name)
        keys += entry(kind, iterations.to_bytes(4, "big") + bytes((len(salt),)) + salt + stored + server)
    return keys


def fill(database, users, iterations, contacts=0):
    """The accounts, and their contacts if they have any."""
    began = time.monotonic()
    ((domain, created),) = (row.split() for row in database.query("SELECT domain_id || ' ' || created_at FROM account"))
    rows, keys = f"{database.folder}/accounts.rows", scram_keys(iterations)
    with open(rows, "w") as file:
        file.writelines(f"{domain}\tuser{n}\t\\\\x{(digests(n) + keys).hex()}\t{created}\n" for n in range(users))
    database.query("DELETE FROM account")
    database.copy("account (domain_id, name, verifiers, created_at)", ["cat", rows])
    os.remove(rows)
    if contacts:
        befriend(database, users, contacts)
    database.query("ANALYZE")
    say(f"{users:,} accounts and {users * contacts:,} contacts are in the database after {time.monotonic() - began:,.0f} s\n")


def befriend(database, users, contacts):
    """The rosters of Ringer's ring: each user's neighbours, and the user opposite."""
    contact = "'user' || (n + d + u) % u || '@" + DOMAIN + "'"
    neighbours = ", ".join(f"({way})" for step in range(1, contacts // 2 + 1) for way in (step, -step))
    item = json.dumps(
        {"name": None, "subscription": "both", "ask": False, "approved": False, "asked": None, "is_listed": True, "groups": [], "version": 1}
    )
    opposite = f", ({users // 2})" if contacts % 2 else ""
    database.query(
        f"INSERT INTO xmpp_roster (owner, contact, item) SELECT 'user' || n || '@{DOMAIN}', {contact}, '{item}' "
        f"FROM generate_series(0, {users - 1}) n, (VALUES {neighbours}{opposite}) way (d), (VALUES ({users})) size (u)"
    )
    database.query(f"INSERT INTO xmpp_user (owner, roster_version) SELECT 'user' || n || '@{DOMAIN}', 1 FROM generate_series(0, {users - 1}) n")
