//! Bind 2 (XEP-0386) on the host's side: the further results of binding. The stream's side is `c2s::sasl2`.
//!
//! `connection` calls `begin` when it has made the session, and `answer`. The answer names the ends of the archive
//! (`archive::read_ends`), so the store is read first, and stanzas that come meanwhile wait in `Session::waits`.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::Bound;
use xmpp::{Bare, Element};

use super::account_memory::AccountMemory;
use super::store_requests::StoreRequests;
use super::{Effect, Host, Outbox};
use crate::{archive, offline};

/// The session is there; it is told so once is known what its archive has. Until then nothing else is sent to it. False if it
/// has ended meanwhile.
pub(super) fn begin(accounts: &mut AccountMemory, key: Key, agent: Option<&str>) -> bool {
    let Some(session) = accounts.sessions.get_mut(key) else { return false };
    session.agent = agent.map(Box::from);
    session.begin_wait();
    true
}

/// The job that forgets the offline messages of an account that are in its archive, which a client of Bind 2 reads (XEP-0386 §4.2). Those
/// that it has not go on waiting.
pub(super) fn forget_archived(owner: Bare) -> impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static {
    move |host, now, out| {
        if let Some(effect) = host.offline.forget_archived(&host.accounts, &owner) {
            offline::perform(host, now, &owner, effect, out);
        }
    }
}

/// Reads the ends of the account's archive, and tells the session that it is there.
pub(super) fn answer(
    store: &mut StoreRequests,
    (key, user): (Key, &Bare),
    inline: Vec<Element>,
    out: &mut Outbox,
) {
    archive::read_ends(store, user, out, move |host, now, metadata, out| {
        for stanza in finish(&mut host.accounts, key, inline, metadata.ok(), out) {
            host.deliver(now, &[key], stanza, out);
        }
    });
}

/// Tells the session that it is there. Returns the stanzas that have waited for this, in their order.
pub(super) fn finish(
    accounts: &mut AccountMemory,
    key: Key,
    mut inline: Vec<Element>,
    metadata: Option<Element>,
    out: &mut Outbox,
) -> Vec<Element> {
    // It may have gone meanwhile.
    let Some(session) = accounts.sessions.get_mut(key) else { return Vec::new() };
    let waiting = session.end_wait();
    let Some(edge) = session.edge else { return Vec::new() };
    inline.extend(metadata);
    let bound = Bound::Session { jid: session.jid.clone(), inline };
    out.push(Effect::Bound { edge, bound });
    waiting
}
