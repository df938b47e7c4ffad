//! Addresses that get another host: in a farm whose nodes share a database, accounts, rooms and services move between the shards of its
//! nodes. This host ends what it has of addresses that are no longer its own, and follows the moves of others that its sessions know.
//!
//! The driver of the host calls the public functions when the table of owners changes; `presence` calls `note_room_answer`, and `restore`
//! calls `enter_rooms`.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Bare, ConnectionId, Element, Jid, ShardAddress, ns};

use super::account_memory::AccountMemory;
use super::announce::room_answer;
use super::connection::{end_session, perform_deliveries};
use super::session::Session;
use super::{Host, HostSettings, Outbox, muc, presence};
use crate::effect::{Effect, Subscription};

/// Addresses of this host get another one if it dies, which reads what the store has of them.
pub fn share_addresses(host: &mut Host) {
    host.rooms.set_shared();
    host.pending_acks.set_shared();
}

/// The connections of these shards are gone: their process has ended. Their sessions may be resumed on others (XEP-0198 §5).
pub fn handle_shards_gone(
    host: &mut Host,
    now: Instant,
    is_gone: impl Fn(ShardAddress) -> bool,
    out: &mut Outbox,
) {
    let edges = host.accounts.by_edge.keys().copied().chain(host.resumes.edges());
    let gone: Vec<ConnectionId> = edges.filter(|edge| is_gone(edge.shard)).collect();
    for edge in gone {
        host.handle_gone(now, edge, false, out);
    }
}

/// These addresses have another host from now on: their sessions end with this condition, messages that were not acknowledged are stored,
/// and occupants of their rooms are told.
pub fn end_addresses(
    host: &mut Host,
    now: Instant,
    is_meant: impl Fn(&str) -> bool,
    condition: &'static str,
    out: &mut Outbox,
) {
    let users = host.accounts.users.iter().filter(|(user, _)| is_meant(user.as_str()));
    let keys: Vec<Key> = users.flat_map(|(_, user)| user.sessions.iter().copied()).collect();
    for key in keys {
        end_session(host, now, key, Some(condition.into()), out);
    }
    muc::release_rooms((&mut host.rooms, &mut host.store), &is_meant, out);
    forget_unused(host);
}

/// Forgets what is in memory only because it may be needed again, of all addresses: the store may have something newer.
pub fn forget_unused(host: &mut Host) {
    host.forget_accounts(None);
    host.pubsub.forget_nodes();
    host.avatars.forget_all();
}

/// These addresses have other hosts than before. Sessions of this host ask for the presence of contacts among them again. Rooms among
/// them have no occupants: sessions enter those of which `is_lost` is true again, and are told that they have left the others.
pub fn handle_owners_changed(
    host: &mut Host,
    now: Instant,
    has_moved: impl Fn(&str) -> bool,
    is_lost: impl Fn(&str) -> bool,
    out: &mut Outbox,
) {
    let signed_in = host.accounts.users.iter().filter(|(_, user)| !user.sessions.is_empty());
    let users: Vec<Bare> = signed_in.map(|(user, _)| user.clone()).collect();
    for user in users {
        let moved = |(contact, subscription): &(&Bare, Subscription)| {
            subscription.has_to() && has_moved(contact.as_str())
        };
        for (contact, _) in host.accounts.contacts(&user).filter(moved) {
            // The new host answers for a contact without a session that it is unavailable (RFC 6121 §4.3.2).
            presence::send_probes(&host.accounts, &user, contact.as_str(), out);
        }
        for key in host.accounts.keys_of(&user, |session: &Session| !session.directed.is_empty()) {
            enter_rooms(&host.accounts, &host.settings, key, &is_lost, out);
            let is_left = |room: &str| has_moved(room) && !is_lost(room);
            leave_rooms((&mut host.accounts, &host.settings), now, key, is_left, out);
            perform_deliveries(host, now, out);
        }
    }
}

/// A session enters the rooms with these addresses again, as the occupant that it was. Its client has seen the history.
pub(super) fn enter_rooms(
    accounts: &AccountMemory,
    settings: &HostSettings,
    key: Key,
    is_meant: &impl Fn(&str) -> bool,
    out: &mut Outbox,
) {
    let Some(session) = accounts.sessions.get(key) else { return };
    let presence = session.presence().unwrap_or_else(|| Element::new("presence", ns::CLIENT));
    for to in session.directed.iter() {
        let is_room = to.resource().is_some() && settings.rooms_of(to.domain()).is_some();
        if is_room && is_meant(to.bare_str()) && !session.left_rooms.contains(to) {
            let mut presence = presence.copy_to(to.as_str()).with("from", session.jid.as_str());
            presence.set("id", ENTER_AGAIN);
            out.push(Effect::Route(Box::new(presence.child(::muc::again()))));
        }
    }
}

/// The id of the presence with which a session enters a room again; the answer has it, too. One from a client does no harm: it changes only
/// the form of a refusal to this client.
const ENTER_AGAIN: &str = "belfry-enter-again";

/// Notes what a room answers a session that is, was or wants to be its occupant. Returns the presence for the client: one that has
/// not asked for entry itself is not refused, but has left the room.
pub(super) fn note_room_answer(
    (accounts, settings): (&mut AccountMemory, &HostSettings),
    key: Key,
    from: &Jid,
    presence: Element,
) -> Element {
    let Some(is_there) = room_answer(&presence) else { return presence };
    if settings.rooms_of(from.domain()).is_none() {
        return presence;
    }
    let Some(session) = accounts.sessions.get_mut(key) else { return presence };
    if !session.directed.contains(from) {
        return presence;
    }
    // The address stays among those with directed presence: if this is the late answer to an earlier request, the room has an
    // occupant, and must learn that it goes.
    session.left_rooms.retain(|known| known != from);
    if !is_there {
        session.left_rooms.push(from.clone());
    }
    let is_own = presence.attr("type") == Some("error") && presence.attr("id") == Some(ENTER_AGAIN);
    if is_own { left_room(from, &session.jid) } else { presence }
}

/// Tells a session that it has left the rooms with these addresses (XEP-0045 §17.3, status 332).
fn leave_rooms(
    (accounts, settings): (&mut AccountMemory, &HostSettings),
    now: Instant,
    key: Key,
    has_moved: impl Fn(&str) -> bool,
    out: &mut Outbox,
) {
    let Some(session) = accounts.sessions.get_mut(key) else { return };
    let is_left = |to: &Jid| settings.rooms_of(to.domain()).is_some() && has_moved(to.bare_str());
    let left: Vec<Jid> =
        session.directed.change(|directed| directed.extract_if(.., |to| is_left(to)).collect());
    session.left_rooms.retain(|room| !left.contains(room));
    let to = session.jid.clone();
    for occupant in left {
        accounts.deliver(now, key, left_room(&occupant, &to), out);
    }
}

/// The presence by which a client learns that it has left a room because the service has ended there.
fn left_room(occupant: &Jid, to: &Jid) -> Element {
    let item = Element::new("item", ns::MUC_USER).with("affiliation", "none").with("role", "none");
    let status = |code: &'static str| Element::new("status", ns::MUC_USER).with("code", code);
    // 110: the client's own occupant.
    let user = Element::new("x", ns::MUC_USER).child(item).child(status("110")).child(status("332"));
    presence::gone(occupant).with("to", to.as_str()).child(user)
}
