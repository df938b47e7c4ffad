//! The occupants of a room, by the order they came, by nickname, session and user. The indexes save a walk over thousands of
//! occupants for each stanza; all changes go through the methods here, so that no index names an occupant that is gone.
//!
//! An occupant has at least one session. With its last session it is removed, and nothing here says so to the others: `users`
//! does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xmpp::{Bare, Element, Jid};

use super::rules::Role;

/// An occupant: one nickname with one client or several.
#[derive(Clone)]
pub(super) struct Occupant {
    pub(super) nick: Box<str>,
    pub(super) user: Bare,
    pub(super) role: Role,
    /// The occupant id (XEP-0421), by which messages are recognised as the same user's after a change of the nickname.
    pub(super) id: Box<str>,
    /// The latest is the last.
    pub(super) sessions: Vec<Jid>,
    /// Its last presence, as the others see it.
    pub(super) presence: Arc<Element>,
}

/// The occupants of a room.
#[derive(Clone, Default)]
pub(super) struct Occupants {
    /// By the order they came.
    all: BTreeMap<u64, Occupant>,
    by_nick: HashMap<Box<str>, u64>,
    /// A session is in one occupant at most.
    by_session: HashMap<Jid, u64>,
    /// A user may have several nicknames, one for each of its clients.
    by_user: HashMap<Bare, Vec<u64>>,
    /// The key of the newest occupant; keys are not used again, so a key of one that left finds nothing.
    last: u64,
}

impl Occupants {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of sessions of all occupants.
    pub(super) fn sessions(&self) -> usize {
        self.by_session.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Occupant)> {
        self.all.iter().map(|(key, occupant)| (*key, occupant))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Occupant> {
        self.all.values()
    }

    pub(super) fn get(&self, key: u64) -> Option<&Occupant> {
        self.all.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut Occupant> {
        self.all.get_mut(&key)
    }

    pub(super) fn key_of_session(&self, session: &Jid) -> Option<u64> {
        self.by_session.get(session).copied()
    }

    pub(super) fn of_session(&self, session: &Jid) -> Option<&Occupant> {
        self.get(self.key_of_session(session)?)
    }

    pub(super) fn key_of_nick(&self, nick: &str) -> Option<u64> {
        self.by_nick.get(nick).copied()
    }

    pub(super) fn of_nick(&self, nick: &str) -> Option<&Occupant> {
        self.get(self.key_of_nick(nick)?)
    }

    pub(super) fn keys_of_user(&self, user: &Bare) -> &[u64] {
        self.by_user.get(user).map(|keys| &keys[..]).unwrap_or_default()
    }

    /// The occupants of a user, which may have several nicknames.
    pub(super) fn of_user(&self, user: &Bare) -> impl Iterator<Item = &Occupant> {
        self.keys_of_user(user).iter().filter_map(|key| self.all.get(key))
    }

    /// Adds an occupant with its first session, and returns its key.
    pub(super) fn add(&mut self, occupant: Occupant, session: &Jid) -> u64 {
        self.last += 1;
        let key = self.last;
        self.by_nick.insert(occupant.nick.clone(), key);
        self.by_user.entry(occupant.user.clone()).or_default().push(key);
        self.all.insert(key, occupant);
        self.add_session(key, session);
        key
    }

    /// Adds one more client of the occupant. The session is in no other occupant: `users` has seen to it.
    pub(super) fn add_session(&mut self, key: u64, session: &Jid) {
        if let Some(occupant) = self.all.get_mut(&key) {
            occupant.sessions.push(session.clone());
            self.by_session.insert(session.clone(), key);
        }
    }

    pub(super) fn rename(&mut self, key: u64, nick: &str) {
        let Some(occupant) = self.all.get_mut(&key) else { return };
        let old = std::mem::replace(&mut occupant.nick, nick.into());
        self.by_nick.remove(&old);
        self.by_nick.insert(nick.into(), key);
    }

    /// Removes a session, and the occupant with its last one. True: the occupant is gone.
    pub(super) fn remove_session(&mut self, session: &Jid) -> bool {
        let Some(key) = self.by_session.remove(session) else { return false };
        let Some(occupant) = self.all.get_mut(&key) else { return false };
        occupant.sessions.retain(|known| known != session);
        let is_gone = occupant.sessions.is_empty();
        if is_gone {
            self.remove(key);
        }
        is_gone
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<Occupant> {
        let occupant = self.all.remove(&key)?;
        self.by_nick.remove(&occupant.nick);
        for session in &occupant.sessions {
            self.by_session.remove(session);
        }
        if let Some(keys) = self.by_user.get_mut(&occupant.user) {
            keys.retain(|known| *known != key);
            if keys.is_empty() {
                self.by_user.remove(&occupant.user);
            }
        }
        Some(occupant)
    }

    /// Removes all occupants.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.by_nick.clear();
        self.by_session.clear();
        self.by_user.clear();
    }

    /// Checks that the indexes agree with the occupants.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (key, occupant) in &self.all {
            assert_eq!(self.by_nick.get(&occupant.nick), Some(key));
            assert!(self.by_user[&occupant.user].contains(key));
            assert!(!occupant.sessions.is_empty(), "a ghost");
            for session in &occupant.sessions {
                assert_eq!(self.by_session.get(session), Some(key));
                assert_eq!(session.bare(), occupant.user);
            }
        }
        let sessions = self.all.values().map(|occupant| occupant.sessions.len()).sum::<usize>();
        assert_eq!((self.by_nick.len(), self.by_session.len()), (self.all.len(), sessions));
        assert_eq!(self.by_user.values().map(Vec::len).sum::<usize>(), self.all.len());
        assert!(self.by_user.values().all(|keys| !keys.is_empty()));
    }
}
