//! One user.
//!
//! A plain record: `UserSessions`, `UserActions` and `UserPool` change it. It is kept small, as a load may have a million of them.

use std::sync::Arc;

use stdx::time::Instant;
use xmpp::sasl::ClientKeys;
use xmpp::xml::{Framer, Prefixes};

use super::login::Login;
use super::mix::UserAction;
use super::model::TimerName;
use super::redirect::RedirectTarget;
use super::user_directory::UserDirectory;

/// Where a user stands.
#[derive(Debug)]
pub(super) enum UserState {
    /// Signs in when due.
    Away,
    /// A connection was asked for.
    Connecting,
    /// The stream has begun.
    SigningIn(Box<Login>),
    /// Signed in.
    In,
    /// Signs out when due; no stanza is expected to be seen by this user any more.
    Leaving,
    /// Has signed out; the server has not closed yet.
    Parting,
    /// For good.
    Gone,
}

/// A question that has no answer yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    /// The number in the id of the request.
    pub(super) id: u32,
    /// The timer of the response.
    pub(super) timed: TimerName,
    /// When the action was due.
    pub(super) due: Instant,
    /// When the request was written.
    pub(super) sent: Instant,
    /// The action after the response, within the same time.
    pub(super) then: Option<UserAction>,
}

/// The state of one contact, at its place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contact {
    /// Messages sent to this contact.
    pub(super) sent: u32,
    /// The highest number received from this contact.
    pub(super) came: u32,
    /// Both have subscribed.
    pub(super) is_friend: bool,
    /// A subscription request was sent to this contact.
    pub(super) is_asked: bool,
}

/// Some 340 bytes with seven contacts; a roster of the server's is not kept.
#[derive(Debug)]
pub(super) struct User {
    /// Among all users of the load.
    pub(super) number: u32,
    pub(super) phase: UserState,
    /// Cuts the stream into elements.
    pub(super) framer: Framer,
    /// Prefixes of the server's stream; users of a shard share equal ones.
    pub(super) prefixes: Option<Arc<Prefixes>>,
    /// Keys of SCRAM from an earlier sign-in.
    pub(super) kept: Option<Box<ClientKeys>>,
    /// The due time of the next sign-in, action or sign-out.
    pub(super) due: Instant,
    /// When the sign-in in hand was due, and when it began.
    pub(super) sign_in: (Instant, Instant),
    /// Until then an answer must be here.
    pub(super) patience: Instant,
    /// One request at a time.
    pub(super) asked: Option<PendingRequest>,
    /// By place, as `UserDirectory` numbers them.
    pub(super) contacts: Box<[Contact]>,
    /// The highest number of each contact's presences, by place; empty when this user's are not accounted for.
    pub(super) seen: Box<[u32]>,
    /// Contacts that are mutual.
    pub(super) friends: u32,
    /// The last id of a request.
    pub(super) ids: u32,
    /// Presences sent so far: the number of the next one's mark.
    pub(super) presences: u32,
    /// The same of messages to the room.
    pub(super) room_messages: u32,
    /// The extra entry is in the roster.
    pub(super) has_extra: bool,
    /// The stranger is blocked.
    pub(super) has_blocked: bool,
    /// The first sign-in of this user has been counted.
    pub(super) has_been_in: bool,
    /// Failures in a row.
    pub(super) failures: u8,
    /// The number of redirects since the last connection to the target, and the next host.
    pub(super) hops: u8,
    pub(super) elsewhere: Option<Box<RedirectTarget>>,
    /// This user has been counted as one that has all its contacts.
    pub(super) is_befriended: bool,
    /// This user is sending subscription requests now.
    pub(super) is_asking: bool,
}

impl User {
    pub(super) fn new(number: u32, people: &UserDirectory, due: Instant) -> User {
        let contacts = people.contacts_of(number) as usize;
        let seen = if people.looks_for_presence(number) { contacts } else { 0 };
        User {
            number,
            phase: UserState::Away,
            framer: Framer::new(),
            prefixes: None,
            kept: None,
            due,
            sign_in: (due, due),
            patience: Instant::FAR_FUTURE,
            asked: None,
            contacts: vec![Contact::default(); contacts].into(),
            seen: vec![0; seen].into(),
            friends: 0,
            ids: 0,
            presences: 0,
            room_messages: 0,
            has_extra: false,
            has_blocked: false,
            has_been_in: false,
            failures: 0,
            hops: 0,
            elsewhere: None,
            is_befriended: false,
            is_asking: false,
        }
    }

    /// Signed in, signing out included.
    pub(super) fn is_in(&self) -> bool {
        matches!(self.phase, UserState::In | UserState::Leaving)
    }

    /// A connection is wanted or there.
    pub(super) fn has_connection(&self) -> bool {
        !matches!(self.phase, UserState::Away | UserState::Gone)
    }

    /// The connection is made: what arrives belongs to this session.
    pub(super) fn has_stream(&self) -> bool {
        self.has_connection() && !matches!(self.phase, UserState::Connecting)
    }

    /// The request to enter a room or for another nick, if one waits for its response.
    pub(super) fn take_join(&mut self) -> Option<PendingRequest> {
        let request = self.asked.take_if(|request| request.timed == TimerName::RoomJoin)?;
        self.patience = Instant::FAR_FUTURE;
        Some(request)
    }

    /// A new id for a request.
    pub(super) fn next_id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_small() {
        assert_eq!(size_of::<Contact>(), 12, "as the manual says");
        let contacts = 7 * (size_of::<Contact>() + size_of::<u32>());
        assert!(size_of::<User>() + contacts <= 344, "{} + {contacts}", size_of::<User>());
    }
}
