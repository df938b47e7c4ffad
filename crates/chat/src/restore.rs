//! Sessions whose host is dead, at the next host of their accounts: each is made again as the node of its connection has announced it
//! ([`AnnouncedSession`]), and its client notices nothing (`docs/decisions/0071-sessions-that-outlive-their-owner.md`).
//!
//! The order: the session is put beside its connection without presence (`handle_restore`), and what comes for it waits.
//! Once the account's data are in memory, the connection gets its answer and the stanzas that waited, contacts are asked
//! or told, rooms are entered again, and stored messages follow (`begin`).

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::Bound;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{ConnectionId, Element};

use super::announce::AnnouncedSession;
use super::connection::{end_session, send_backlog};
use super::effect::Effect;
use super::presence::PresenceEffect;
use super::session::Session;
use super::user::AccountState;
use super::{Host, Outbox, offline, ownership, presence};
use crate::{user, vcard};

/// The manner of a session's return.
#[derive(Clone, Copy, Debug)]
pub struct RestoreManner {
    /// Others may have asked for the account's presence before, and seen it unavailable: contacts are told and asked as for a session
    /// that begins.
    pub is_late: bool,
}

/// A session that the node of its connection announces; answered by [`Effect::Bound`], or by [`Effect::Close`] if it is announced only
/// to end. `is_lost`: the sessions of a contact with this bare address have lost their host, too, and may not all be announced.
pub fn handle_restore(
    host: &mut Host,
    now: Instant,
    (edge, mut announced): (ConnectionId, AnnouncedSession),
    manner: RestoreManner,
    is_lost: impl Fn(&str) -> bool + 'static,
    out: &mut Outbox,
) {
    if host.accounts.by_edge.contains_key(&edge) {
        // It was announced twice: the announcement has reached this host, and was sent again.
        return;
    }
    if let Some(error) = refusal(host, &announced) {
        return out.push(Effect::Bound { edge, bound: Bound::Refused(error) });
    }
    let (jid, presence, is_ending) =
        (announced.jid.clone(), announced.presence.take(), announced.is_ending());
    let bare = jid.bare();
    let mut session = Session::restore(now, edge, announced);
    // The connection takes nothing before the answer.
    session.begin_wait();
    let key = host.accounts.sessions.insert(session);
    host.accounts.by_edge.insert(edge, key);
    let user = host.user(now, &bare, out);
    user.sessions.push(key);
    if !matches!(user.state, AccountState::Loading(_)) {
        vcard::load_avatar(&mut host.store, (&host.avatars, &host.accounts), &bare, out);
    }
    let parts = (&mut host.accounts, &mut host.store);
    let job = user::when_loaded(parts, &bare, out, move |host, now, out| {
        if is_ending {
            // All that have seen its presence are told.
            if let Some(presence) = presence {
                presence::perform(host, now, PresenceEffect::Restored(key, presence), out);
            }
            return end_session(host, now, key, Some("reset".into()), out);
        }
        begin(host, now, (edge, key), presence, manner, is_lost, out);
    });
    if let Some(job) = job {
        job(host, now, out);
    }
}

/// The account is read: the session is there, before all else that waits for the account.
fn begin(
    host: &mut Host,
    now: Instant,
    (edge, key): (ConnectionId, Key),
    presence: Option<Element>,
    manner: RestoreManner,
    is_lost: impl Fn(&str) -> bool,
    out: &mut Outbox,
) {
    let Some(session) = host.accounts.sessions.get_mut(key) else { return };
    let (jid, waiting) = (session.jid.clone(), session.end_wait());
    if !host.accounts.users.get(&jid.bare()).is_some_and(|user| user.is_stored) {
        // It was removed since its client signed in.
        return end_session(host, now, key, Some("not-authorized".into()), out);
    }
    out.push(Effect::Bound { edge, bound: Bound::Session { jid, inline: Vec::new() } });
    for stanza in waiting {
        host.deliver(now, &[key], stanza, out);
    }
    match presence {
        Some(presence) if manner.is_late => {
            presence::perform(host, now, PresenceEffect::Available(key, presence), out);
        }
        Some(presence) => {
            presence::perform(host, now, PresenceEffect::Restored(key, presence), out);
            presence::probe_lost_contacts(&host.accounts, key, is_lost, out);
        }
        None => {}
    }
    // All of them: what a room has sent to the host that is dead may be lost.
    ownership::enter_rooms(&host.accounts, &host.settings, key, &|_| true, out);
    // Messages that came before are stored.
    let parts = (&mut host.accounts, &mut host.store, &mut host.offline);
    if let Some((user, effect)) = send_backlog(parts, now, key, out) {
        offline::perform(host, now, &user, effect, out);
    }
}

/// The reason for which an announced session cannot be made again. No session is ended for it, whatever the limit says of
/// clients that sign in.
fn refusal(host: &Host, announced: &AnnouncedSession) -> Option<StanzaError> {
    if host.accounts.session_of(&announced.jid).is_some() {
        let text = "another session has this address";
        return Some(StanzaError::new(Condition::Conflict, text));
    }
    let sessions = host.accounts.users.get(&announced.jid.bare()).map_or(0, |user| user.sessions.len());
    let is_full = sessions >= host.settings.sessions.most;
    is_full.then(|| StanzaError::new(Condition::ResourceConstraint, "too many sessions of this account"))
}

/// The session of a connection, as its node announces it to the next host if this one dies: for a client that has resumed it. Its
/// unacknowledged stanzas are sent again, and are not in it. None: the connection has none, or it cannot be resumed.
pub fn announced_session(host: &Host, edge: ConnectionId) -> Option<AnnouncedSession> {
    let key = host.accounts.by_edge.get(&edge)?;
    host.accounts.sessions.get(*key)?.announced()
}
