//! Every limit of the SIP core, with its reason and the answer a peer gets.

use std::time::Duration;

use stdx::attempts::Paces;
use stdx::rate::{Policy, Rate};

pub use sip_wire::limits::{MAX_STREAM_BODY, MAX_STREAM_HEAD, MESSAGE_BYTES};

/// Nonces of one shard whose last `nc` is remembered, about 40 bytes each. Beyond it the oldest are forgotten
/// and their next use is answered `stale=true`, one more round trip.
pub const NONCES_IN_USE: usize = 262_144;

// Registrar front (`registrar`).

/// Contacts in one REGISTER, removals included; an account's own limit is lower. Over it: 403.
pub const CONTACTS_PER_REGISTER: usize = 32;

/// Bytes of one contact URI, of `+sip.instance` and of all Path values of a request. They are kept in memory
/// and in the record for every binding; real ones have under 200. Over it: 400.
pub const CONTACT_BYTES: usize = 512;

/// Bytes of User-Agent kept with a binding; the rest is cut off.
pub const USER_AGENT_BYTES: usize = 64;

/// Contacts that one request may ring at once. RFC 5393 asks for a bound on fan-out; the rest are not rung.
pub const FORK_BRANCHES: usize = 32;

/// Branches that one request may have at once over all proxies, when no proxy before us set it (RFC 5393 §5.3.3).
/// The rest are not rung, and where not even one is left it is answered 440.
pub const MAX_BREADTH: usize = 60;

/// Max-Forwards put into a request that has none (RFC 3261 §16.6 step 3).
pub const MAX_FORWARDS: u8 = 70;

/// Requests of one shard that wait for their final response, about 4 KB each. Over it: 503 with Retry-After.
pub const CONTEXTS: usize = 200_000;

/// Transactions of one shard, those that wait for their last timer included; 300 bytes each. Over it: 503
/// with Retry-After.
pub const TRANSACTIONS: usize = 2_000_000;

/// Seconds that the owner of an address has, in a farm: then the router says that there is none, and the client is told to try again.
const OWNER_PATIENCE: u64 = router::limits::QUESTION_PATIENCE.as_secs();

/// The time that store, plan and router may take to route a request: that of the owner after a slow read of an account; or that of a
/// read (6 s) and a write (11 s) which a server of the database leaves without an answer. Then 503 with Retry-After; the answer, when it comes at last, is
/// ignored. Well under the 32 s after which the client stops waiting.
pub const CONTEXT_PATIENCE: Duration = Duration::from_secs(OWNER_PATIENCE + 10);

// Sources over UDP that have proved nothing (`endpoint::transactions::proof`).

/// Bytes that an unproved source is sent for each that arrived: the factor of RFC 9000 §8.1. Messages beyond
/// it are not sent and count as withheld.
pub const UNPROVED_FACTOR: u32 = 3;

/// Final responses of an application to an unproved source since its INVITE last arrived: one and two repetitions.
pub const UNPROVED_FINALS: u8 = 3;

/// Addresses of one shard remembered as proved, about 80 bytes each: the phones of a shard that serves 200,000. Beyond it
/// the longest unused prove themselves again with their next request.
pub const PROVED_SOURCES: usize = 262_144;

/// The lifetime of a proof. A NAT may give the address to another host later; calls and refreshes renew it.
pub const PROOF_LIFETIME: Duration = Duration::from_secs(600);

/// Dialogs of one shard whose tag went to an unproved source, about 50 bytes each. Beyond it the oldest are forgotten;
/// their sources prove themselves by another call or a nonce.
pub const SHOWN_TAGS: usize = 65_536;

/// The time to wait for a tag: an answer is acknowledged within 64*T1 (RFC 3261 §13.3.1.4), ringing takes
/// longer.
pub const SHOWN_TAG_LIFETIME: Duration = Duration::from_secs(240);

/// New requests of one unproved network (an IPv4 address, an IPv6 /64) are paced at a rate that is configured; over it
/// they are dropped, and the client's retransmission finds the network paced or proved. Networks remembered at once.
pub const NEW_REQUESTS: Policy = Policy {
    capacity: 65_536,
    rate: Rate::NEVER,
    free_failures: 0,
    first_penalty: Duration::ZERO,
    longest_penalty: Duration::ZERO,
    forgive_after: Duration::ZERO,
};

/// Calls to applications of one unproved network at a time. Further ones wait for the first acknowledgement.
pub const UNPROVED_CALLS_OF_NETWORK: u8 = 2;

/// Calls of one shard from unproved networks, each with a session and an application's resources for the 32 s of 64*T1:
/// a tenth of `SESSIONS`, so that forged sources leave room for those that are proved. Over it they wait.
pub const UNPROVED_CALLS: usize = 10_000;

/// Calls that wait, of one network and of one shard, and how long. Then 503 with Retry-After.
pub const WAITING_CALLS_OF_NETWORK: usize = 64;
/// Calls of one shard that wait. Then 503 with Retry-After.
pub const WAITING_CALLS: usize = 10_000;
/// The longest time that a call waits. Then 503 with Retry-After.
pub const WAITING_CALL_PATIENCE: Duration = Duration::from_secs(15);

/// Loopback and private networks may make so many times more: load generators, and gateways of the same house.
pub const LOCAL_REQUESTS_FACTOR: u32 = 100;

// Resolution (`resolve`).

/// Resolutions of one shard at a time. A DNS server that hangs must not fill memory; over it a request is
/// answered 503.
pub const RESOLUTIONS: usize = 4_096;

/// Answers kept per shard, some hundred bytes each. A trunking server sees some hundred names; beyond it what
/// was not used for long is asked again.
pub const DNS_CACHE: usize = 8_192;

/// Records looked at in one answer; the rest are ignored. An answer over TCP could hold thousands.
pub const DNS_RECORDS: usize = 64;

/// Services followed from one NAPTR answer: more than there are transports is of no use.
pub const SRV_SERVICES: usize = 5;

/// SRV targets whose addresses are asked for: each costs two questions.
pub const SRV_TARGETS: usize = 8;

/// Addresses one resolution yields. Timer B of 32 s for each bounds what a caller would wait for anyway.
pub const HOPS: usize = 16;

/// The shortest time that an answer is kept, whatever its TTL: one burst of calls asks once.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(1);

/// And at most: a wrong record does not outlive the hour.
pub const DNS_TTL_MAX: Duration = Duration::from_secs(3_600);

/// The time that "no such record" is kept. The SOA's own figure (RFC 2308 §5) does not get here; short is
/// safe.
pub const DNS_TTL_NEGATIVE: Duration = Duration::from_secs(10);

/// The time that a failure to answer is kept: at least one second (RFC 9520 §3.2), and not longer, because
/// calls fail meanwhile.
pub const DNS_TTL_FAILURE: Duration = Duration::from_secs(1);

/// The time for which a failed hop is tried last: 64*T1, the time in which one request finds out (RFC 3263
/// §4.3).
pub const PENALTY: Duration = Duration::from_secs(32);

/// Hops remembered as failed, and as many that want no requests, per shard. Beyond it the oldest are tried like any other.
pub const PENALTIES: usize = 1_024;

/// The longest time for which a hop's Retry-After keeps requests from it (RFC 3261 §21.5.4). A hop that asks for more, by mistake or to
/// harm, is asked again after five minutes.
pub const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Bytes of ACKs, probes and NOTIFYs that wait for DNS, per shard. A caller may send ACKs as fast as it likes while a name
/// is asked for; beyond it an ACK is dropped, and comes again with the next 2xx (RFC 3261 §13.3.1.4).
pub const WAITING_BYTES: usize = 4 * 1_024 * 1_024;

/// A longer request goes by TCP first where the operator wants it (RFC 3261 §18.1.1: the path MTU is not known).
pub const UDP_REQUEST_BYTES: usize = 1_300;

/// A longer request goes by TCP first in any case: a UDP datagram has 65,507 bytes at most.
pub const DATAGRAM_BYTES: usize = 65_507;

/// Bytes that our Via, Record-Route and Max-Forwards add to a request, at most.
pub const FORWARDING_BYTES: usize = 300;

/// The time for which TCP is not tried for large requests to a peer that refused it. A firewall or a phone
/// without TCP stays as it is; each try may cost the time of a connection attempt before the phone rings.
pub const TCP_REFUSAL: Duration = Duration::from_secs(3_600);

/// Peers remembered as refusing TCP, per shard, some forty bytes each. Beyond it the one that was not used for longest
/// is tried again.
pub const TCP_REFUSALS: usize = 16_384;

// Ladders of calls (`endpoint::ladders`).

/// Calls of one shard whose messages are remembered in short, about half a kilobyte each with a dozen messages. Beyond it those are
/// forgotten that had no message for longest.
pub const LADDERS: usize = 4_000;

/// Ladders that begin in a second, at one shard: a busy node has those of a sample of its calls, for some minutes each. The messages of the
/// other calls are not remembered.
pub const LADDERS_PER_SECOND: u32 = 10;

/// Messages remembered of a call: a call of two phones with a challenge, early media and a transfer has under thirty. The others
/// are counted.
pub const LADDER_MESSAGES: usize = 40;

/// Addresses in the ladder of a call, as a call that rings at many phones has. Messages from and to the others are counted.
pub const LADDER_PEERS: usize = 16;

// Event notification (`events`).

/// Subscriptions of one shard, about 1 KB each. Over it SUBSCRIBE is answered 503 with Retry-After.
pub const SUBSCRIPTIONS: usize = 200_000;

/// Subscriptions one watcher may have to one address: each of its devices has a few packages, and those of
/// its devices' earlier lives linger until they expire. Over it SUBSCRIBE is answered 403.
pub const SUBSCRIPTIONS_PER_WATCHER: usize = 32;

/// PUBLISHes and MESSAGEs of one shard that wait for a router. Over it they are answered 503 with Retry-After.
pub const ASKED: usize = 16_384;

/// The time that a router may take: more than the owner has, whose absence is answered with 503 and Retry-After. Then 504, or a last
/// NOTIFY that asks to subscribe again later; well under the 32 s after which the client stops waiting (RFC 3261 §17.1.2.2).
pub const ASK_PATIENCE: Duration = Duration::from_secs(OWNER_PATIENCE + 1);

/// Seconds after which a request may be tried again that found no owner of its address in time: another node has taken over by then.
pub const UNAVAILABLE_RETRY_AFTER: u32 = 5;

/// Seconds after which a refused subscriber may try again.
pub const EVENTS_RETRY_AFTER: u32 = 30;

/// The shortest time between two NOTIFYs of a subscription, the first after a SUBSCRIBE and the last excepted.
/// RFC 4235 §3.10 asks for one second, RFC 3856 §6.10 for five; changes in between are merged.
pub const NOTIFY_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of a document in a PUBLISH, as the router holds them. Over it 413.
pub const PUBLISHED_BYTES: usize = 16 * 1_024;

/// Bytes of a MESSAGE's body that is kept, as the router keeps them. Over it 413.
pub const KEPT_MESSAGE_BYTES: usize = 16 * 1_024;

/// MESSAGEs of one stranger's network for one account that no phone takes: five, and then one an hour. Over it 480.
pub const MESSAGES_OF_STRANGER: Policy = Policy {
    capacity: 10_000,
    rate: Rate::NEVER,
    free_failures: 4,
    first_penalty: Duration::from_secs(3_600),
    longest_penalty: Duration::from_secs(3_600),
    forgive_after: Duration::from_secs(86_400),
};

/// Kept messages of one shard on their way out. Over it they wait for the next REGISTER.
pub const DELIVERIES: usize = 16_384;

/// Contacts one kept message is sent to, the best liked first.
pub const DELIVERY_CONTACTS: usize = 8;

/// Characters of a tag or Call-ID we make: five bits each, 80 bits.
pub const TAG_CHARS: usize = 16;

// Wrong passwords of SIP and XMPP (`stdx::attempts`). Each pace is two seconds at most: the right password gets in within
// that.

/// Wrong passwords for one account from one network: people and phones mistype, one that goes on is answered 503 unread, or
/// `temporary-auth-failure`. That leaves 1,800 guesses an hour.
pub const WRONG_BY_PAIR: Policy = Policy {
    capacity: 65_536,
    rate: Rate::NEVER,
    free_failures: 5,
    first_penalty: Duration::from_secs(1),
    longest_penalty: Duration::from_secs(2),
    forgive_after: Duration::from_secs(900),
};

/// Wrong passwords of one network over all accounts that have not signed in from there, an office's worth of mistakes;
/// then four a second.
pub const WRONG_BY_SOURCE: Policy = Policy {
    capacity: 65_536,
    free_failures: 100,
    first_penalty: Duration::from_millis(250),
    longest_penalty: Duration::from_millis(250),
    ..WRONG_BY_PAIR
};

/// Wrong passwords for one account from all networks where it has not signed in; then four a second.
pub const WRONG_BY_ACCOUNT: Policy = WRONG_BY_SOURCE;

/// Networks and devices from which accounts have signed in, about 40 bytes each, and for how long they are
/// spared: a day's worth of registrations. Beyond it the longest unused count as new.
pub const KNOWN_DEVICES: usize = 262_144;
/// The time for which a known device is spared: a day's worth of registrations.
pub const KNOWN_DEVICE_LIFETIME: Duration = Duration::from_secs(86_400);

/// Blocks whose names are remembered for the operator, about 200 bytes each. Beyond it the longest unused are in force
/// without being listed.
pub const NAMED_BLOCKS: usize = 1_024;

/// All of these: of one shard for SIP, of the node for XMPP.
pub const WRONG_PASSWORDS: Paces = Paces {
    pair: WRONG_BY_PAIR,
    source: WRONG_BY_SOURCE,
    account: WRONG_BY_ACCOUNT,
    known: KNOWN_DEVICES,
    known_lifetime: KNOWN_DEVICE_LIFETIME,
    named: NAMED_BLOCKS,
};

// Sessions of applications (`session`).

/// MESSAGEs of applications of one shard that wait for their final response. Over it none is sent.
pub const SESSION_TEXTS: usize = 10_000;

/// Sessions of one shard, about 2 KB each. Over it an INVITE is answered 503 with Retry-After, and none is placed.
pub const SESSIONS: usize = 100_000;

/// Requests of one shard within sessions that wait for their final response. Over it an application's INFO or
/// MESSAGE is not sent.
pub const SESSION_REQUESTS: usize = 200_000;

/// REFERs that one session follows at once. Over it 486.
pub const REFERS: usize = 4;

/// The time that an application may take to answer an offer. Then 500; well under the 32 s of timer B.
pub const OFFER_PATIENCE: Duration = Duration::from_secs(10);

/// The time that a call of ours may go without an answer when its application names none, and an application without a
/// response to its caller: Timer C (RFC 3261 §16.6 step 11), after which a proxy gives up as well. Then CANCEL, or 480. A
/// caller over UDP that has proved nothing is rung no longer than this, either.
pub const RING_PATIENCE: Duration = Duration::from_secs(181);

/// The time after which a provisional response is sent again: the minute of RFC 3261 §13.3.1.1, as each of them begins
/// the Timer C of proxies anew.
pub const RING_RENEWAL: Duration = Duration::from_secs(60);

/// MESSAGEs of one shard that were offered to chat clients and may come back, and for how long: while they are under way
/// (RFC 3261 §17.1.2.2, Timer F). Beyond, the oldest is forgotten: a loop that long is seen twice.
pub const OFFERED: usize = 4_096;
/// The time for which an offered MESSAGE is remembered: while it is under way.
pub const OFFERED_FOR: Duration = Duration::from_secs(64);

/// Requests of one shard that we answer as a user agent and that are compared with later ones (RFC 3261 §8.2.2.2), 40
/// bytes each. Copies of one request arrive within a second; 3,000 REGISTERs a second fill this in 20. Beyond, those not
/// looked at for long are forgotten: a copy that is late is answered like a request of its own.
pub const MERGING: usize = 65_536;

/// Branches of INVITEs of one shard whose callers have a final response from another node (`endpoint::shared_response`), about 40 bytes
/// each. They are noted for 32 s after the responses to what a dead node has forwarded; beyond it those not looked at for long are
/// forgotten, and an INVITE that is repeated after its response gets a 408 that its caller drops.
pub const SETTLED_BRANCHES: usize = 65_536;

/// Certificates of a Request-URI that are looked at: ours, and those of other nodes that the Contact passed. More are
/// not, because each costs a keyed hash over the whole URI; the request is then judged without our Route.
pub const CERTIFICATES: usize = 4;

/// Answered calls of one shard that are known to be up, 40 bytes each. While a shard is overloaded or leaving, requests of
/// user agents that keep no Route pass by this alone. Beyond, those not heard of for long are forgotten and get 503 then.
pub const ANSWERED_CALLS: usize = 131_072;
