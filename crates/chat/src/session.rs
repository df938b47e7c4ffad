//! One client that is signed in.

use stdx::Instant;
use xmpp::xml::Packed;
use xmpp::{ConnectionId, Element, Jid};

use super::csi::ClientState;
use super::flow::Flow;
use super::sm::Sm;

/// A session of an account: a bound resource with its presence and stream management.
pub struct Session {
    pub jid: Jid,
    pub(super) began: Instant,
    /// `None`: the connection is lost, and the session waits to be resumed.
    pub(super) edge: Option<ConnectionId>,
    pub(super) sleeps_until: Option<Instant>,
    /// The last presence that it broadcast; `None`: it is not available.
    pub(super) presence: Option<Packed>,
    pub(super) priority: i8,
    /// It asked for the roster and is told of changes.
    pub(super) is_interested: bool,
    pub(super) wants_blocklist: bool,
    pub(super) has_carbons: bool,
    /// XEP-0352.
    pub(super) client_state: ClientState,
    /// Addresses that got directed presence (RFC 6121 §4.6).
    pub(super) directed: Vec<Jid>,
    pub(super) sm: Option<Box<Sm>>,
    pub(super) flow: Flow,
    pub(super) is_anonymous: bool,
    /// Its registration for notifications (XEP-0357).
    pub(super) push: Option<Box<str>>,
    /// The client's own id (XEP-0388 §2.3.1).
    pub(super) agent: Option<Box<str>>,
    /// Stanzas that came before the client knows its address (XEP-0386).
    pub(super) waits: Option<Vec<Element>>,
    /// It chooses among the messages that waited (XEP-0013).
    pub(super) takes_offline: bool,
}

impl Session {
    pub(super) fn new(now: Instant, jid: Jid, edge: ConnectionId, is_anonymous: bool) -> Session {
        Session {
            jid,
            began: now,
            edge: Some(edge),
            sleeps_until: None,
            presence: None,
            priority: 0,
            is_interested: false,
            wants_blocklist: false,
            has_carbons: false,
            client_state: ClientState::default(),
            directed: Vec::new(),
            sm: None,
            flow: Flow::default(),
            is_anonymous,
            push: None,
            agent: None,
            waits: None,
            takes_offline: false,
        }
    }

    /// Its last broadcast presence.
    pub(super) fn presence(&self) -> Option<Element> {
        self.presence.as_ref()?.unpack()
    }

    /// True if the session is available (RFC 6121 §4.2).
    pub fn is_available(&self) -> bool {
        self.presence.is_some()
    }
}
