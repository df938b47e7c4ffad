//! Limits of streams and stanzas, with their reasons and effects.

/// Bytes of one stanza (RFC 6120 §13.12 asks for at least 10,000). Beyond: `policy-violation`, and the stream ends.
pub const STANZA: usize = 256 << 10;

/// Bytes of a stanza before the client has signed in.
pub const STANZA_BEFORE_AUTH: usize = 16 << 10;

/// Bytes of a language tag in a stream's header (RFC 5646 §4.4.1 asks for at least 35): it is added to each stanza that has
/// none. Beyond: as if the header had none.
pub const LANG: usize = 64;

/// Elements inside each other. Beyond: `policy-violation`.
pub const DEPTH: usize = 64;

/// So many fewer elements, levels and attributes a client's stanza may have: room for the elements added when
/// it goes to another server as a copy, from an archive or of a room.
pub const ADDED: usize = 16;

/// Attributes of one element. Beyond: `policy-violation`.
pub const ATTRIBUTES: usize = 64;

/// Elements of one stanza. Beyond: `policy-violation`.
pub const ELEMENTS: usize = 8_192;

/// Namespaces that are declared at one place of a stanza, by the elements around it too. Beyond: `policy-violation`. Every
/// name with a prefix is compared with all of them.
pub const DECLARATIONS: usize = 64;

/// Bytes of a namespace. Beyond: `policy-violation`. The longest of those that are registered have less than 100.
pub const NAMESPACE: usize = 512;

/// Bytes of memory that a stanza may take when it is read: so many for each of its bytes, and so many besides. Beyond:
/// `policy-violation`. Forms of many small fields take some 20 for each; only what is made for it takes more.
pub const MEMORY_PER_BYTE: usize = 32;
/// Bytes of memory that a stanza may take besides [`MEMORY_PER_BYTE`] for each of its bytes.
pub const MEMORY_PER_STANZA: usize = 64 << 10;

/// The same of an element whose sender is not authenticated yet, and the elements in it. Beyond:
/// `policy-violation`. Authentication takes a few elements.
pub const MEMORY_PER_BYTE_BEFORE_AUTH: usize = 8;
/// As [`MEMORY_PER_STANZA`], before authentication.
pub const MEMORY_PER_ELEMENT_BEFORE_AUTH: usize = 16 << 10;
/// Elements inside one element before authentication. Beyond: `policy-violation`.
pub const ELEMENTS_BEFORE_AUTH: usize = 256;

/// Elements that a client may send before it is authenticated. Beyond: `policy-violation`. Five tries, an account that is made, and
/// much to spare.
pub const ELEMENTS_SENT_BEFORE_AUTH: u16 = 100;

/// Bytes that a stanza may take when it is written again, where namespaces are declared without prefixes: so many for each
/// of its bytes, and so many besides. Beyond: `policy-violation`.
pub const WRITTEN_PER_BYTE: usize = 4;
/// Bytes that a stanza may take when it is written again, besides [`WRITTEN_PER_BYTE`] for each of its bytes.
pub const WRITTEN_PER_STANZA: usize = 16 << 10;

/// The same two of an element of the store, which was accepted once, perhaps when the limits of streams were wider. They only
/// bound the stack and the time that reading takes.
pub const STORED_DEPTH: usize = 1_024;
/// Attributes of a stored element, as [`STORED_DEPTH`].
pub const STORED_ATTRIBUTES: usize = 1_024;

/// Bytes of each part of an address (RFC 7622 §3). Beyond: `jid-malformed`.
pub const JID_PART: usize = 1_023;

/// Bytes that a component may send before it has proved to be one: its header and the handshake. Beyond:
/// `policy-violation`.
pub const COMPONENT_HANDSHAKE: usize = 4 << 10;

/// Connections of one component (XEP-0114), over which its stanzas are balanced: more instances than gateways are run
/// with. Beyond: `conflict`.
pub const COMPONENT_CONNECTIONS: usize = 16;

/// Longest time that a request of BOSH waits for its answer: the time that proxies on the way tolerate. A
/// client that asks for more gets this.
pub const BOSH_WAIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Requests of one session that wait at the same time. A client that asks for more gets this.
pub const BOSH_HOLD: u32 = 2;

/// Time without a request after which a session of BOSH ends: a round trip over a bad network. Its client
/// counts as one whose connection broke.
pub const BOSH_INACTIVITY: std::time::Duration = std::time::Duration::from_secs(30);

/// The same of a client that polls, which has to be more than `BOSH_POLLING` (XEP-0124 §12).
pub const BOSH_INACTIVITY_OF_POLLING: std::time::Duration = std::time::Duration::from_secs(60);

/// Empty requests come no faster than this. Beyond: `policy-violation`, and the session ends.
pub const BOSH_POLLING: std::time::Duration = std::time::Duration::from_secs(2);

/// Time that a request of BOSH waits for an earlier one at least, which may come by another connection: some retransmissions on a bad network.
pub const BOSH_GAP: std::time::Duration = std::time::Duration::from_secs(10);

/// Longest pause that a client of BOSH may ask for, as to get to another page. A longer one is not granted.
pub const BOSH_MAX_PAUSE: std::time::Duration = std::time::Duration::from_secs(120);

/// Bytes around the stanzas of a body of BOSH, at most. Beyond: `bad-request`.
pub const BOSH_WRAPPER: usize = 4 << 10;

/// Bytes of stanzas in one answer of BOSH, about. The rest is in the next one.
pub const BOSH_ANSWER: usize = 256 << 10;

/// Bytes of each part of a client's `<user-agent/>` (XEP-0388 §2.3.1). Longer: as if it had not said it. A
/// UUID has 36.
pub const USER_AGENT: usize = 128;

/// Stanzas of one pair of domains that wait for a connection between servers, and their bytes, about. Beyond:
/// `resource-constraint`. Some seconds of a busy pair.
pub const S2S_QUEUE: usize = 1_000;
/// Bytes, about, of the stanzas of one pair of domains that wait. Beyond: `resource-constraint`.
pub const S2S_QUEUE_BYTES: usize = 1 << 20;

/// The smallest largest stanza of another server that is believed (XEP-0478, RFC 6120 §13.12).
pub const SMALLEST_MAX_BYTES: usize = 10_000;

/// Bytes given to a connection to another server and not taken by its system. Beyond: `resource-constraint` for each
/// stanza until it has read some.
pub const S2S_UNSENT: usize = 2 << 20;

/// The same including the answers to its own requests, which no bound of stanzas stops. Beyond:
/// `resource-constraint`, and the stream ends.
pub const S2S_UNREAD: usize = 4 << 20;

/// Pairs of domains for which one shard has a way or stanzas that wait. Beyond: `resource-constraint`.
pub const S2S_PAIRS: usize = 50_000;

/// Other servers of which one shard remembers that they failed. Beyond: the one that failed first is tried at once.
pub const S2S_FAILED: usize = 10_000;

/// Pairs of domains on one stream that another server opened (XEP-0220 §2.6), and of these, those that wait for the
/// answer of the authoritative server. Beyond: `resource-constraint` for the next.
pub const S2S_PAIRS_OF_STREAM: usize = 100;
/// Pairs of domains on one stream that wait for the authoritative server. Beyond: `resource-constraint`.
pub const S2S_ASKED_OF_STREAM: usize = 10;

/// Domains that one stream failed to prove. Beyond: `policy-violation`, and the stream ends: each costs a
/// connection to a third server.
pub const S2S_REFUSED_OF_STREAM: u8 = 20;

/// Questions about keys that wait for one other server. Beyond: `resource-constraint`.
pub const S2S_VERIFIES: usize = 200;

/// Addresses of one other server that are tried. Beyond: not.
pub const S2S_TARGETS: usize = 10;

/// Certificates in one POSH document (RFC 7711 §3.1). Beyond: it proves nothing. A domain has one for each of its servers, and
/// a second while it changes.
pub const POSH_CERTIFICATES: usize = 32;

/// Bytes of the address in a reference (RFC 7711 §3.2). Beyond: it leads nowhere.
pub const POSH_URL: usize = 2_048;

/// The longest time that a POSH document is remembered, whatever its `expires` says: a stolen certificate that was taken out
/// of it counts for a day at most.
pub const POSH_LONGEST: std::time::Duration = std::time::Duration::from_secs(86_400);

/// The time for which a failed lookup is remembered, and the age from which a document without the certificate that a
/// peer shows is fetched again.
pub const POSH_FAILED: std::time::Duration = std::time::Duration::from_secs(300);

/// Bytes of a POSH document: many times what `POSH_CERTIFICATES` take. Beyond: it proves nothing.
pub const POSH_DOCUMENT: usize = 16 << 10;

/// The time for all fetches of one lookup. Longer: the domain vouches for no certificate.
pub const POSH_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// The time that a stream waits for a lookup where the certificate is not demanded. It goes on then, as dialback does without.
pub const POSH_HOLD: std::time::Duration = std::time::Duration::from_millis(500);

/// Domains of which one shard remembers a POSH document or its absence, of 2 KiB each at most. Beyond: the one that ends first
/// is forgotten.
pub const POSH_DOMAINS: usize = 2_000;

/// POSH documents that one shard fetches at once. Beyond: the domain vouches for no certificate now.
pub const POSH_FETCHES: usize = 32;
/// The part of these for streams that others opened: strangers do not take the place of streams that users wait for.
pub const POSH_FETCHES_OF_CALLERS: usize = 24;

/// Domains of one stream that are looked up by POSH. Beyond: they have no other proof than their key.
pub const POSH_OF_STREAM: usize = 4;

/// The pause after a failed attempt: the first, doubled with each further one.
pub const S2S_BACKOFF: std::time::Duration = std::time::Duration::from_secs(2);
/// The longest pause after failed attempts.
pub const S2S_BACKOFF_MAX: std::time::Duration = std::time::Duration::from_secs(300);

/// Rounds of SCRAM (RFC 5802 §5.1, RFC 7677 §4): the cost of a sign-in for each client, and of a guess at
/// stolen keys. An account that is not there seems to have so many, too.
pub const SCRAM_ITERATIONS: u32 = 4_096;
