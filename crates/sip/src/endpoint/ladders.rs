//! The messages of recent calls in short: who sent which method or status when. An operator sees the ladder of a call that nothing has
//! traced.
//!
//! The ladder of a call begins when its INVITE is forwarded, given to an application, refused, or sent by an application; the INVITE that came is
//! its first message. [`Transactions`](super::transactions::Transactions) and receivers of messages note the others. A transaction of such a call
//! is marked in its table, so that messages of other calls cost a look at that mark; messages without a transaction are looked up by
//! their Call-IDs. At most so many ladders begin a second and are kept (`limits`): a busy node has those of a sample of its calls.

use std::net::SocketAddr;

use stdx::Instant;
use stdx::cache::Cache;
use stdx::hash::{HashedKeys, Keyed};
use stdx::rate::{Rate, TokenBucket};
use stdx::slab::Key;

use super::Endpoint;
use super::lower::LowerView;
use crate::limits;
use crate::wire::{Message, Method, raw_call_id, raw_header_value};

/// The ladders that an endpoint remembers. Off until [`begin_at`](Self::begin_at).
pub(crate) struct CallLadders {
    /// By the keyed hash of the Call-ID.
    calls: Cache<u64, CompactLadder, HashedKeys>,
    keyed: Keyed,
    pace: TokenBucket,
    counts: LadderCounts,
    is_on: bool,
    /// The request under way is of a call that has a ladder.
    has_request: bool,
}

/// The numbers of calls that a shard remembers, and of those that it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LadderCounts {
    /// The time from which on calls are remembered.
    pub since: Instant,
    /// Calls whose messages are remembered now.
    pub kept: u64,
    /// Calls that were not remembered, because they came beyond the rate.
    pub not_begun: u64,
    /// Calls that were forgotten for newer ones.
    pub forgotten: u64,
}

/// The messages of one call at one shard, in the order in which they passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLadder {
    /// The first messages.
    pub messages: Vec<LadderMessage>,
    /// Messages beyond those that are kept of a call.
    pub left_out: u64,
}

/// One message of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderMessage {
    /// The time at which it passed, to 100 µs from the first message of its call.
    pub at: Instant,
    /// The sender of a message that was received; the receiver of another.
    pub peer: SocketAddr,
    /// The way that it took.
    pub passage: Passage,
    /// The method of the request; of a response that in its CSeq.
    pub method: Method,
    /// The status of a response; `None` of a request.
    pub status: Option<u16>,
}

/// The way of a message past this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It came from the peer.
    Received,
    /// It went to the peer.
    Sent,
    /// The transport could not send it to the peer.
    Refused,
}

/// A ladder as it is kept: 12 bytes a message.
struct CompactLadder {
    start: Instant,
    peers: Vec<SocketAddr>,
    messages: Vec<CompactMessage>,
    left_out: u32,
}

struct CompactMessage {
    /// Units of 100 µs since the start: five days.
    offset: u32,
    /// 0: a request.
    status: u16,
    method: Method,
    passage: Passage,
    /// The place among the ladder's peers.
    peer: u8,
}

/// The unit of a kept message's time, in microseconds.
const UNIT: u64 = 100;

impl CallLadders {
    /// Nothing is remembered before `begin_at`. The key is a secret: peers must not choose Call-IDs that collide.
    pub(crate) fn new(keyed: Keyed) -> CallLadders {
        CallLadders {
            calls: Cache::of_hashes(limits::LADDERS),
            keyed,
            pace: TokenBucket::new(Rate::per_second(limits::LADDERS_PER_SECOND, limits::LADDERS_PER_SECOND)),
            counts: LadderCounts::default(),
            is_on: false,
            has_request: false,
        }
    }

    /// Ladders of new calls are kept from now on.
    pub(crate) fn begin_at(&mut self, now: Instant) {
        (self.is_on, self.counts.since) = (true, now);
    }

    /// False: no message needs a look.
    pub(crate) fn is_any(&self) -> bool {
        !self.calls.is_empty()
    }

    /// True if the request under way, which found no transaction, is of a call that has a ladder.
    pub(crate) fn has_request(&self) -> bool {
        self.has_request
    }

    /// True if the call of this message has a ladder.
    pub(crate) fn has_call_of(&self, message: &[u8]) -> bool {
        self.is_any() && raw_call_id(message).is_some_and(|id| self.calls.get(&self.keyed.hash(id)).is_some())
    }

    /// A request that has found no transaction.
    pub(crate) fn handle_request(&mut self, now: Instant, from: SocketAddr, request: &Message) {
        let may_be_known = self.is_any() && request.method() != Method::Register;
        self.has_request = may_be_known && self.note_received(now, from, request);
    }

    /// A message of a call has come. False: the call has no ladder.
    pub(crate) fn note_received(&mut self, now: Instant, from: SocketAddr, message: &Message) -> bool {
        let status = if message.is_request() { 0 } else { message.status() };
        let what = (message.method(), status, Passage::Received);
        let ladder = message.call_id().and_then(|id| self.calls.get_mut(&self.keyed.hash(id)));
        let is_known = ladder.is_some();
        if let Some(ladder) = ladder {
            ladder.push(now, from, what);
        }
        is_known
    }

    /// A message, as on the wire, goes to a peer, or was refused by its transport.
    pub(crate) fn note_sent(&mut self, now: Instant, to: SocketAddr, message: &[u8], passage: Passage) {
        let Some(call_id) = raw_call_id(message) else { return };
        let Some(ladder) = self.calls.get_mut(&self.keyed.hash(call_id)) else { return };
        let (method, status) = match message.strip_prefix(b"SIP/2.0 ") {
            Some(rest) => {
                let digits = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
                let cseq = raw_header_value(message, b"cseq", 0).unwrap_or_default();
                let method = cseq.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
                (method, digits.and_then(|digits| digits.parse().ok()).unwrap_or_default())
            }
            None => (message.split(|byte| *byte == b' ').next().unwrap_or_default(), 0),
        };
        ladder.push(now, to, (Method::from_bytes(method), status, passage));
    }

    /// Begins the ladder of a call. False: too many calls begin.
    fn begin(&mut self, now: Instant, call_id: &[u8], start: Instant) -> bool {
        if !self.is_on {
            return false;
        }
        if !self.pace.take(now).is_pass() {
            self.counts.not_begun += 1;
            return false;
        }
        let (before, is_full) = (self.calls.len(), self.calls.len() >= self.calls.capacity());
        let ladder = CompactLadder { start, peers: Vec::new(), messages: Vec::new(), left_out: 0 };
        let replaced = self.calls.insert(self.keyed.hash(call_id), ladder);
        self.counts.forgotten += u64::from(replaced.is_none() && is_full && self.calls.len() == before);
        true
    }

    /// The call of a session of ours, which sends its INVITE.
    pub(crate) fn begin_own(&mut self, now: Instant, call_id: &[u8]) {
        self.begin(now, call_id, now);
    }

    /// The messages of a call; `None`: they are not remembered.
    pub(crate) fn ladder_of(&self, call_id: &str) -> Option<CallLadder> {
        let kept = self.calls.get(&self.keyed.hash(call_id.as_bytes()))?;
        let message = |message: &CompactMessage| {
            let passed = kept.start.as_micros() + u64::from(message.offset) * UNIT;
            Some(LadderMessage {
                at: Instant::from_micros(passed),
                peer: *kept.peers.get(usize::from(message.peer))?,
                passage: message.passage,
                method: message.method,
                status: (message.status > 0).then_some(message.status),
            })
        };
        let messages = kept.messages.iter().filter_map(message).collect();
        Some(CallLadder { messages, left_out: kept.left_out.into() })
    }

    pub(crate) fn counts(&self) -> LadderCounts {
        LadderCounts { kept: self.calls.len() as u64, ..self.counts }
    }
}

impl CompactLadder {
    fn push(&mut self, now: Instant, peer: SocketAddr, (method, status, passage): (Method, u16, Passage)) {
        let place = self.peers.iter().position(|known| *known == peer).unwrap_or(self.peers.len());
        if self.messages.len() >= limits::LADDER_MESSAGES || place >= limits::LADDER_PEERS {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        if place == self.peers.len() {
            self.peers.push(peer);
        }
        let units = now.as_micros().saturating_sub(self.start.as_micros()) / UNIT;
        let offset = u32::try_from(units).unwrap_or(u32::MAX);
        // Below the limit of peers, which is far below 256.
        let peer = u8::try_from(place).unwrap_or(u8::MAX);
        self.messages.push(CompactMessage { offset, status, method, passage, peer });
    }
}

/// From now on the endpoint remembers the messages of new calls in short, of as many as [`limits::LADDERS`] allows.
pub fn remember_calls(endpoint: &mut Endpoint, now: Instant) {
    endpoint.lower.transactions.ladders.begin_at(now);
}

/// The messages of a call that the endpoint remembers, and what it remembers of all.
pub fn ladder_of(endpoint: &Endpoint, call_id: &str) -> (Option<CallLadder>, LadderCounts) {
    let ladders = &endpoint.lower.transactions.ladders;
    (ladders.ladder_of(call_id), ladders.counts())
}

/// The call of a request's context begins, or is refused: its ladder begins with the INVITE that came.
pub(crate) fn begin_ladder(lower: &mut LowerView<'_>, key: Key) {
    let Some(context) = lower.contexts.get(key) else { return };
    let transactions = &mut *lower.transactions;
    let (server, from, request) = (context.server, context.source.remote, &context.request);
    // The calls of a Call-ID share a ladder: an INVITE that came back to us, or is forwarded once more.
    if transactions.table.is_in_ladder(server) {
        return;
    }
    let arrived = context.unanswered_since.unwrap_or(lower.now);
    let call_id = request.call_id().unwrap_or_default();
    if transactions.ladders.begin(lower.now, call_id, arrived) {
        transactions.ladders.note_received(arrived, from, request);
        transactions.table.set_in_ladder(server);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_700_000_000);

    fn ladders() -> CallLadders {
        let mut ladders = CallLadders::new(Keyed::new([7; 16]));
        ladders.begin_at(START);
        ladders
    }

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn bye(call_id: &str) -> String {
        format!("BYE sip:bob@example.test SIP/2.0\r\nCall-ID: {call_id}\r\nCSeq: 2 BYE\r\n\r\n")
    }

    #[test]
    fn a_busy_shard_remembers_a_sample_of_its_calls() {
        let mut ladders = ladders();
        let per_second = u64::from(limits::LADDERS_PER_SECOND);
        for call in 0..20_000u64 {
            // 2,000 calls a second for ten seconds.
            let now = START + Duration::from_micros(call * 500);
            ladders.begin(now, format!("call-{call}").as_bytes(), now);
        }
        let counts = ladders.counts();
        assert!((10 * per_second..=11 * per_second).contains(&counts.kept), "{counts:?}");
        assert_eq!((counts.kept + counts.not_begun, counts.forgotten), (20_000, 0));
        assert_eq!(ladders.ladder_of("call-0"), Some(CallLadder::default()));
        assert_eq!(ladders.ladder_of("call-19"), None);
    }

    #[test]
    fn old_calls_are_forgotten_for_new_ones() {
        let mut ladders = ladders();
        let calls = limits::LADDERS as u64 + 5;
        for call in 0..calls {
            let now = START + Duration::from_secs(call);
            assert!(ladders.begin(now, format!("call-{call}").as_bytes(), now));
        }
        let counts = ladders.counts();
        assert_eq!((counts.kept, counts.forgotten, counts.not_begun), (limits::LADDERS as u64, 5, 0));
        assert_eq!(ladders.ladder_of("call-0"), None);
        assert!(ladders.ladder_of(&format!("call-{}", calls - 1)).is_some());
    }

    #[test]
    fn a_call_has_so_many_messages_and_peers() {
        let mut ladders = ladders();
        ladders.begin_own(START, b"long");
        for message in 0..limits::LADDER_MESSAGES + 3 {
            let now = START + Duration::from_micros(message as u64 * 250);
            ladders.note_sent(now, peer(5060), bye("long").as_bytes(), Passage::Sent);
        }
        let ladder = ladders.ladder_of("long").unwrap();
        assert_eq!((ladder.messages.len(), ladder.left_out), (limits::LADDER_MESSAGES, 3));
        assert_eq!(ladder.messages[3].at, START + Duration::from_micros(700), "to 100 µs");

        ladders.begin_own(START, b"wide");
        for port in 0..20 {
            ladders.note_sent(START, peer(port), bye("wide").as_bytes(), Passage::Refused);
        }
        let ladder = ladders.ladder_of("wide").unwrap();
        assert_eq!(
            (ladder.messages.len(), ladder.left_out),
            (limits::LADDER_PEERS, 20 - limits::LADDER_PEERS as u64)
        );
    }

    /// Bytes that are no SIP, and messages of other calls, change nothing.
    #[test]
    fn messages_are_labelled_by_their_readable_parts() {
        let mut ladders = ladders();
        ladders.begin_own(START, b"c");
        for message in [
            "SIP/2.0 180 Ringing\r\nCSeq: 1 INVITE\r\nCall-ID: c\r\n\r\n",
            "SIP/2.0 xyz\r\nCall-ID: c\r\n\r\n",
            "SIP/2.0 \r\nCall-ID: c\r\nCSeq:\r\n\r\n",
            "FOO sip:a SIP/2.0\r\ni: c\r\n\r\n",
            "BYE sip:a SIP/2.0\r\nCall-ID: d\r\n\r\n",
            "\r\n\r\n",
            "",
        ] {
            ladders.note_sent(START, peer(1), message.as_bytes(), Passage::Sent);
        }
        let messages = ladders.ladder_of("c").unwrap().messages;
        let labels: Vec<_> = messages.iter().map(|message| (message.method, message.status)).collect();
        let unread = (Method::Other, None);
        assert_eq!(labels, [(Method::Invite, Some(180)), unread, unread, unread]);
    }

    #[test]
    fn nothing_is_remembered_until_it_is_asked_for() {
        let mut ladders = CallLadders::new(Keyed::new([7; 16]));
        ladders.begin_own(START, b"c");
        assert!(!ladders.is_any() && ladders.ladder_of("c").is_none());
        assert_eq!(ladders.counts(), LadderCounts::default());
    }
}
