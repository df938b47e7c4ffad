//! A user's stream in the bodies of HTTP requests (XEP-0124, XEP-0206), from the client's side.
//!
//! A [`BoshSession`] is given the documents of a WebSocket, `<open/>` and `<close/>` among them, and makes bodies
//! of them for two connections: one request waits at the server for stanzas, the other is free for the client's
//! own. It knows no HTTP. Requests are sent once: a session whose connection is lost with a request under way has
//! failed (§14.3 would let the client send it again).

use lab_sip::stats::Count;
use xmpp::xml::{Prefixes, escape, parse};
use xmpp::{Element, ns};

use super::failure::FailureCause;
use super::user_pool::{PoolContext, UserPool};

/// Connections of a session.
pub const CONNECTIONS: usize = 2;

/// Seconds that a request may wait at the server.
const WAIT: u32 = 60;

/// The kind of the next body; all but `Payload` go before the waiting documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextBody {
    /// Waiting documents, or an empty body that the server may hold.
    Payload,
    /// The first request, which has no session id yet.
    Creation,
    /// The stream begins anew after authentication (XEP-0206).
    Restart,
    /// The user signs out.
    Termination,
    /// It has been terminated.
    Nothing,
}

/// The client's side of one BOSH session.
#[derive(Debug)]
pub struct BoshSession {
    /// The session id that the server gave; `None` before its first answer.
    sid: Option<Box<str>>,
    /// The id of the next request.
    rid: u64,
    next: NextBody,
    /// Documents for the next body.
    waiting: Vec<u8>,
    /// By connection, the request that has no answer yet.
    under_way: [Option<u64>; CONNECTIONS],
    /// The one that was used last: they take turns, so that neither is idle for long.
    last: usize,
    /// An answer that came before the one to the request before, and on which connection.
    early: Option<(usize, Element)>,
}

/// The payload of one or two responses, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReceivedPayload {
    /// The children of the responses' `<body/>`: stanzas, stream features and SASL elements, in the order
    /// sent.
    pub elements: Vec<Element>,
    /// The end of the session, when a response ended it.
    pub end: Option<BoshEnd>,
}

/// The session is over.
#[derive(Debug, PartialEq, Eq)]
pub enum BoshEnd {
    /// As the user asked, or for no reason that was said.
    Closed,
    /// XEP-0124 §17.2.
    Condition(Box<str>),
    /// HTTP status of a response that has no BOSH condition.
    Status(u16),
    /// The server holds no request until there is something to hear (§12).
    NotHeld,
    /// No answer of BOSH, and what it was.
    Nonsense(&'static str),
}

impl BoshSession {
    /// `rid`: of the first request, at random and well below 2^53 (§14.1).
    pub fn new(rid: u64) -> BoshSession {
        BoshSession {
            sid: None,
            rid,
            next: NextBody::Payload,
            waiting: Vec::new(),
            under_way: [None; CONNECTIONS],
            last: 1,
            early: None,
        }
    }

    /// One document that the user writes.
    pub fn put(&mut self, document: &[u8]) {
        if self.next == NextBody::Nothing {
            return;
        }
        if document.starts_with(b"<open ") {
            self.next = if self.sid.is_none() { NextBody::Creation } else { NextBody::Restart };
        } else if document.starts_with(b"<close ") {
            self.next = NextBody::Termination;
        } else {
            self.waiting.extend_from_slice(document);
        }
    }

    /// The connection has a request without a response.
    pub fn waits_at(&self, connection: usize) -> bool {
        let is_here = self.early.as_ref().is_some_and(|(early, _)| *early == connection);
        self.under_way[connection].is_some() && !is_here
    }

    /// The user has ended it, and the server has not been told.
    pub fn is_ending(&self) -> bool {
        self.next == NextBody::Termination
    }

    /// The next request and its connection; the caller repeats this until it returns `None`.
    pub fn request(&mut self, domain: &str) -> Option<(usize, Vec<u8>)> {
        // The connection that was not used last, if it is free.
        let other = CONNECTIONS - 1 - self.last;
        let connection = [other, self.last].into_iter().find(|free| self.under_way[*free].is_none())?;
        let is_idle = self.under_way.iter().all(Option::is_none);
        let is_wanted = match self.next {
            NextBody::Creation => true,
            NextBody::Restart | NextBody::Termination => self.sid.is_some(),
            // An empty request is made only when none is under way: the server shall always hold one.
            NextBody::Payload => self.sid.is_some() && (is_idle || !self.waiting.is_empty()),
            NextBody::Nothing => false,
        };
        if !is_wanted {
            return None;
        }
        let body = self.body(domain);
        self.under_way[connection] = Some(self.rid);
        self.rid += 1;
        self.last = connection;
        self.next = if self.next == NextBody::Termination { NextBody::Nothing } else { NextBody::Payload };
        Some((connection, body))
    }

    /// The next body; it takes the waiting documents.
    fn body(&mut self, domain: &str) -> Vec<u8> {
        let sid = self.sid.as_deref().map_or_else(String::new, |sid| format!(" sid='{}'", escape(sid)));
        let mut body = format!("<body rid='{}'{sid} xmlns='{}'", self.rid, ns::BOSH);
        match self.next {
            NextBody::Creation => {
                body += &format!(
                    " to='{domain}' ver='1.11' wait='{WAIT}' hold='1' content='text/xml; charset=utf-8' xml:lang='en' \
                     xmpp:version='1.0' xmlns:xmpp='{}'/>",
                    ns::XBOSH
                );
                return body.into_bytes();
            }
            NextBody::Restart => {
                body +=
                    &format!(" to='{domain}' xml:lang='en' xmpp:restart='true' xmlns:xmpp='{}'/>", ns::XBOSH);
                return body.into_bytes();
            }
            NextBody::Termination => body += " type='terminate'",
            NextBody::Payload | NextBody::Nothing => {}
        }
        let mut body = body.into_bytes();
        body.push(b'>');
        body.append(&mut self.waiting);
        body.extend_from_slice(b"</body>");
        body
    }

    /// The answer to the connection's request. One that overtook that to the request before waits for it.
    pub fn answer(&mut self, connection: usize, status: u16, bytes: &[u8]) -> ReceivedPayload {
        let body =
            parse(bytes.trim_ascii(), &Prefixes::default()).ok().filter(|body| body.is("body", ns::BOSH));
        let body = match (status, body) {
            (_, Some(body)) => body,
            (200, None) => return ReceivedPayload::nonsense("no body of BOSH"),
            (status, None) => {
                return ReceivedPayload { elements: Vec::new(), end: Some(BoshEnd::of_status(status)) };
            }
        };
        // Requests are answered in their order, but the two connections may deliver the answers in the other.
        let is_early = self.under_way.iter().flatten().any(|rid| self.under_way[connection] > Some(*rid));
        if is_early {
            self.early = Some((connection, body));
            return ReceivedPayload::default();
        }
        let mut said = ReceivedPayload::default();
        self.take(connection, body, &mut said);
        if let Some((connection, body)) = self.early.take() {
            self.take(connection, body, &mut said);
        }
        said
    }

    /// One body in its order: the session id with the first, the end, and the stanzas.
    fn take(&mut self, connection: usize, mut body: Element, said: &mut ReceivedPayload) {
        self.under_way[connection] = None;
        if said.end.is_some() {
            return;
        }
        let is_begun = self.sid.is_none();
        if let Some(sid) = body.attr("sid").filter(|_| is_begun) {
            self.sid = Some(sid.into());
        }
        // COMPAT(old servers): XEP-0206 §2: stanzas that name no namespace of their own are of `jabber:client`.
        body.elements_mut().for_each(|element| element.adopt(ns::BOSH, ns::CLIENT));
        let is_over = self.next == NextBody::Nothing && self.under_way.iter().all(Option::is_none);
        said.end = match body.attr("type") {
            Some("terminate") => {
                Some(body.attr("condition").map_or(BoshEnd::Closed, |name| BoshEnd::Condition(name.into())))
            }
            // §16.
            Some("error") => Some(BoshEnd::Condition("error".into())),
            _ if self.sid.is_none() => Some(BoshEnd::Nonsense("a session without sid")),
            _ if is_begun && holds_nothing(&body) => Some(BoshEnd::NotHeld),
            _ => is_over.then_some(BoshEnd::Closed),
        };
        // The child of `see-other-uri` (§17.2), which is not followed.
        said.elements.extend(body.elements().filter(|element| element.name() != "uri").cloned());
    }
}

/// Its attributes at the session's begin (§7.2).
fn holds_nothing(body: &Element) -> bool {
    ["hold", "wait", "requests"]
        .into_iter()
        .zip(["0", "0", "1"])
        .any(|(name, least)| body.attr(name) == Some(least))
}

impl ReceivedPayload {
    /// The response is not a BOSH response; `what` says why.
    pub fn nonsense(what: &'static str) -> ReceivedPayload {
        ReceivedPayload { elements: Vec::new(), end: Some(BoshEnd::Nonsense(what)) }
    }
}

impl BoshEnd {
    /// §17.1: of servers from before conditions.
    fn of_status(status: u16) -> BoshEnd {
        match status {
            400 => BoshEnd::Condition("bad-request".into()),
            403 => BoshEnd::Condition("policy-violation".into()),
            404 => BoshEnd::Condition("item-not-found".into()),
            other => BoshEnd::Status(other),
        }
    }

    /// The cause that the failure of the user counts under.
    fn cause(&self) -> FailureCause {
        match self {
            BoshEnd::Closed => FailureCause::Closed,
            BoshEnd::Condition(name) => match &**name {
                "policy-violation" => FailureCause::Throttled,
                "see-other-uri" => FailureCause::SeeOtherHost,
                _ => FailureCause::StreamError,
            },
            // RFC 9110 §15.6.4, RFC 6585 §4.
            BoshEnd::Status(429 | 503) => FailureCause::Throttled,
            BoshEnd::Status(_) => FailureCause::StreamError,
            BoshEnd::NotHeld => FailureCause::NotOffered,
            BoshEnd::Nonsense(_) => FailureCause::Nonsense,
        }
    }
}

impl UserPool {
    /// The payload of one BOSH response, or of two that belong together.
    pub fn handle_payload(&mut self, slot: u32, said: &ReceivedPayload, ctx: &mut PoolContext<'_>) {
        for element in &said.elements {
            // Payload of a session that is over belongs neither to that session nor to the one that follows it.
            if !self.sessions.users[slot as usize].has_stream() {
                return;
            }
            self.handle_element(slot, element, ctx);
        }
        let Some(end) = said.end.as_ref().filter(|_| self.sessions.users[slot as usize].has_stream()) else {
            return;
        };
        let name = self.sessions.chat.people.name(self.sessions.users[slot as usize].number);
        match end {
            BoshEnd::Condition(condition) => {
                ctx.out.errors.push(format!("{name}'s session ends, {condition}"));
            }
            BoshEnd::Status(status) => ctx.out.errors.push(format!("{name} is answered HTTP {status}")),
            BoshEnd::NotHeld => {
                ctx.out.errors.push(format!("{name} may only poll: the server holds no request"));
            }
            BoshEnd::Nonsense(what) => {
                ctx.stats.count(Count::Malformed);
                ctx.out.errors.push(format!("{name} is answered {what}"));
            }
            BoshEnd::Closed => {}
        }
        self.sessions.fail(slot, end.cause(), ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &[u8] = b"<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='d' version='1.0'/>";
    const CLOSE: &[u8] = b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";

    fn body(attributes: &str, inside: &str) -> Vec<u8> {
        let ns = ns::BOSH;
        format!("<body xmlns='{ns}' xmlns:stream='{}' {attributes}>{inside}</body>", ns::STREAM).into_bytes()
    }

    /// The next request: its connection, its element.
    fn request(session: &mut BoshSession) -> Option<(usize, Element)> {
        let (connection, bytes) = session.request("d")?;
        Some((connection, parse(&bytes, &Prefixes::default()).expect("a body")))
    }

    fn names(said: &ReceivedPayload) -> Vec<&str> {
        said.elements.iter().map(Element::name).collect()
    }

    /// A session that has begun, with nothing under way.
    fn begun() -> BoshSession {
        let mut session = BoshSession::new(7);
        session.put(OPEN);
        let (connection, creation) = request(&mut session).unwrap();
        assert_eq!((connection, creation.attr("rid"), creation.attr("hold")), (0, Some("7"), Some("1")));
        assert_eq!(
            (creation.attr("to"), creation.attr("wait"), creation.attr("sid")),
            (Some("d"), Some("60"), None)
        );
        assert!(request(&mut session).is_none(), "nothing without a session");
        let said = session.answer(0, 200, &body("sid='s' requests='2'", "<stream:features/>"));
        assert!(said.elements[0].is("features", ns::STREAM) && said.end.is_none());
        session
    }

    #[test]
    fn one_request_waits_and_the_other_sends_the_stanzas() {
        let mut session = begun();
        let (connection, poll) = request(&mut session).unwrap();
        assert_eq!((connection, poll.attr("sid"), poll.attr("rid")), (1, Some("s"), Some("8")));
        assert!(poll.first().is_none() && request(&mut session).is_none(), "one poll");
        session.put(b"<presence xmlns='jabber:client'/>");
        session.put(b"<message xmlns='jabber:client'/>");
        let (connection, both) = request(&mut session).unwrap();
        assert_eq!((connection, both.attr("rid"), both.elements().count()), (0, Some("9"), 2));
        session.put(b"<iq xmlns='jabber:client'/>");
        assert!(request(&mut session).is_none(), "no third connection");
        assert_eq!(session.answer(1, 200, &body("", "")), ReceivedPayload::default());
        let (connection, third) = request(&mut session).unwrap();
        assert_eq!((connection, third.attr("rid"), third.elements().count()), (1, Some("10"), 1));
        session.put(OPEN);
        session.answer(0, 200, &body("", ""));
        let (connection, restart) = request(&mut session).unwrap();
        assert_eq!((connection, restart.attr_ns("restart", ns::XBOSH)), (0, Some("true")));
    }

    #[test]
    fn answers_are_heard_in_the_order_of_their_requests() {
        let mut session = begun();
        request(&mut session).unwrap();
        session.put(b"<presence xmlns='jabber:client'/>");
        request(&mut session).unwrap();
        let early = session.answer(0, 200, &body("", "<iq xmlns='jabber:client'/>"));
        assert_eq!(early, ReceivedPayload::default(), "that to the poll before is not here");
        assert!(request(&mut session).is_none() && !session.waits_at(0));
        let said = session.answer(1, 200, &body("", "<message/>"));
        assert_eq!(names(&said), ["message", "iq"]);
        assert!(said.elements.iter().all(|element| element.ns() == ns::CLIENT));
        assert!(request(&mut session).is_some_and(|(_, poll)| poll.first().is_none()));
    }

    #[test]
    fn a_session_that_ends_sends_the_earlier_stanzas() {
        let mut session = begun();
        request(&mut session).unwrap();
        session.put(b"<presence xmlns='jabber:client' type='unavailable'/>");
        session.put(CLOSE);
        let (_, last) = request(&mut session).unwrap();
        assert_eq!((last.attr("type"), last.elements().count()), (Some("terminate"), 1));
        let said = session.answer(1, 200, &body("", "<message/>"));
        assert!(names(&said) == ["message"] && said.end.is_none());
        assert!(request(&mut session).is_none(), "no more polls");
        assert_eq!(session.answer(0, 200, &body("", "")).end, Some(BoshEnd::Closed));
    }

    #[test]
    fn each_end_has_its_cause() {
        for (status, answer, end, cause) in [
            (200, body("type='terminate'", ""), BoshEnd::Closed, FailureCause::Closed),
            (
                200,
                body("type='terminate' condition='item-not-found'", ""),
                BoshEnd::Condition("item-not-found".into()),
                FailureCause::StreamError,
            ),
            (
                403,
                body("type='terminate' condition='policy-violation'", ""),
                BoshEnd::Condition("policy-violation".into()),
                FailureCause::Throttled,
            ),
            (
                200,
                body("type='terminate' condition='see-other-uri'", "<uri>https://other/</uri>"),
                BoshEnd::Condition("see-other-uri".into()),
                FailureCause::SeeOtherHost,
            ),
            (
                404,
                b"not here".to_vec(),
                BoshEnd::Condition("item-not-found".into()),
                FailureCause::StreamError,
            ),
            (503, Vec::new(), BoshEnd::Status(503), FailureCause::Throttled),
            (200, b"<html/>".to_vec(), BoshEnd::Nonsense("no body of BOSH"), FailureCause::Nonsense),
        ] {
            let mut session = begun();
            request(&mut session).unwrap();
            let said = session.answer(1, status, &answer);
            assert_eq!(said.end.as_ref().map(BoshEnd::cause), Some(cause));
            assert_eq!(said, ReceivedPayload { elements: Vec::new(), end: Some(end) });
        }
    }

    #[test]
    fn a_session_that_cannot_be_is_told() {
        for (attributes, end) in [
            ("", BoshEnd::Nonsense("a session without sid")),
            ("sid='s' hold='0' requests='1'", BoshEnd::NotHeld),
            ("sid='s' wait='0'", BoshEnd::NotHeld),
        ] {
            let mut session = BoshSession::new(7);
            session.put(OPEN);
            request(&mut session).unwrap();
            assert_eq!(session.answer(0, 200, &body(attributes, "")).end, Some(end), "{attributes}");
        }
    }

    #[test]
    fn a_stream_error_comes_before_the_end() {
        let mut session = begun();
        request(&mut session).unwrap();
        let error = "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>";
        let said = session.answer(1, 200, &body("type='terminate' condition='remote-stream-error'", error));
        assert!(said.elements[0].is("error", ns::STREAM));
        assert_eq!(said.end, Some(BoshEnd::Condition("remote-stream-error".into())));
    }
}
