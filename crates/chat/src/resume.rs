//! Resumption of sessions (XEP-0198 §5). `<resumed/>` tells the client how many of its stanzas are handled, and the client forgets
//! these; so a client whose messages are on their way to the store waits for its answer until they are written.
//!
//! `connection` passes requests on to [`ResumeRequests`]. One that waits is looked at again after each answer of the store,
//! each report of a handled message and at its deadline (`ResumeRequests::take_due`); `resume` answers it, and the host sends what follows
//! (`Host::answer_resumes`).

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::Bound;
use xmpp::{ConnectionId, Jid};

use super::Outbox;
use super::account_memory::AccountMemory;
use super::effect::{Effect, StreamFault};
use super::session::Session;
use super::sm::EndedSessions;
use crate::limits;

/// A client's request to resume a session.
pub(super) struct ResumeRequest {
    /// The client's new connection.
    pub(super) edge: ConnectionId,
    /// The account that has signed in on it.
    pub(super) user: Jid,
    /// The identifier of the session.
    pub(super) id: Box<str>,
    /// The number of stanzas that the client has received.
    pub(super) seen: u32,
}

/// A request whose session has messages on their way.
struct WaitingRequest {
    /// The time at which it is answered in any case (`limits::SM_RESUME_PATIENCE`).
    until: Instant,
    key: Key,
    request: ResumeRequest,
}

/// The requests of one host that wait.
#[derive(Default)]
pub(super) struct ResumeRequests(Vec<WaitingRequest>);

impl ResumeRequests {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.iter().map(|waiting| waiting.until).min()
    }

    /// A connection is gone, and waits no longer.
    pub(super) fn remove(&mut self, edge: ConnectionId) {
        self.0.retain(|waiting| waiting.request.edge != edge);
    }

    /// The connections that wait.
    pub(super) fn edges(&self) -> impl Iterator<Item = ConnectionId> {
        self.0.iter().map(|waiting| waiting.request.edge)
    }

    /// A client comes back. Its request is returned if it gets its answer now; else it waits until its messages are handled.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        accounts: &AccountMemory,
        request: ResumeRequest,
    ) -> Option<ResumeRequest> {
        match find(accounts, &request) {
            Some(key) if has_unhandled(accounts, key) && self.0.len() < limits::SM_RESUMES => {
                let until = now + limits::SM_RESUME_PATIENCE;
                self.0.push(WaitingRequest { until, key, request });
                None
            }
            _ => Some(request),
        }
    }

    /// Takes the requests whose messages are handled, or that have waited long enough: they get their answer.
    pub(super) fn take_due(&mut self, now: Instant, accounts: &AccountMemory) -> Vec<ResumeRequest> {
        let is_due =
            |waiting: &mut WaitingRequest| waiting.until <= now || !has_unhandled(accounts, waiting.key);
        self.0.extract_if(.., is_due).map(|waiting| waiting.request).collect()
    }
}

/// Among the account's own sessions only: another account's id is as unknown as one that never was.
fn find(accounts: &AccountMemory, request: &ResumeRequest) -> Option<Key> {
    let is_it = |session: &Session| session.sm.as_ref().is_some_and(|sm| sm.is_resumed_by(&request.id));
    accounts.keys_of(&request.user.bare(), is_it).first().copied()
}

fn has_unhandled(accounts: &AccountMemory, key: Key) -> bool {
    let session = accounts.sessions.get(key);
    session.and_then(|session| session.sm.as_ref()).is_some_and(|sm| sm.has_unhandled())
}

/// Joins the session to the new connection, and answers the request. Returns the session if it is resumed: unacknowledged stanzas and those
/// that waited follow the answer.
pub(super) fn resume(
    (accounts, remembered): (&mut AccountMemory, &EndedSessions),
    request: &ResumeRequest,
    out: &mut Outbox,
) -> Option<Key> {
    let ResumeRequest { edge, user, id, seen } = request;
    let edge = *edge;
    let found = find(accounts, request);
    let Some((key, session)) = found.and_then(|key| Some((key, accounts.sessions.get_mut(key)?))) else {
        let failed = remembered.refuse(&user.bare(), id);
        out.push(Effect::Bound { edge, bound: Bound::NotResumed { failed } });
        return None;
    };
    let (old, resumed) = match session.resume(edge, (id, *seen)) {
        Ok(resumed) => resumed,
        // XEP-0198 §6: the new stream ends. The session waits for a client that knows what it has had.
        Err(fault) => {
            out.push(fault.close(edge));
            return None;
        }
    };
    session.restart_flow();
    let jid = session.jid.clone();
    // The client knows better whether its old connection is dead.
    if let Some(old) = old {
        accounts.by_edge.remove(&old);
        out.push(StreamFault::from("conflict").close(old));
    }
    out.push(Effect::Bound { edge, bound: Bound::Resumed { jid, resumed } });
    accounts.by_edge.insert(edge, key);
    Some(key)
}
