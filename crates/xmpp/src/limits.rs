//! Limits of streams and stanzas, with their reasons and what happens at them.

/// Bytes of one stanza (RFC 6120 §13.12 asks for at least 10,000). Beyond: `policy-violation`, and the stream ends.
pub const STANZA: usize = 256 << 10;

/// Bytes of a stanza before the client has signed in.
pub const STANZA_BEFORE_AUTH: usize = 16 << 10;

/// Bytes of a language tag in a stream's header (RFC 5646 §4.4.1 asks for at least 35): it is added to each stanza that has
/// none. Beyond: as if the header had none.
pub const LANG: usize = 64;

/// Elements inside each other. Beyond: `policy-violation`.
pub const DEPTH: usize = 64;

/// So many fewer elements, levels and attributes a client's stanza may have: what is around it and in it when it gets to another
/// server as a copy, from an archive or of a room.
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
pub const MEMORY_PER_STANZA: usize = 64 << 10;

/// The same of an element whose sender is not authenticated yet, and the elements in it. Beyond: `policy-violation`. What
/// signs clients and servers in is a few elements.
pub const MEMORY_PER_BYTE_BEFORE_AUTH: usize = 8;
pub const MEMORY_PER_ELEMENT_BEFORE_AUTH: usize = 16 << 10;
pub const ELEMENTS_BEFORE_AUTH: usize = 256;

/// Elements that a client may send before it is authenticated. Beyond: `policy-violation`. Five tries, an account that is made, and
/// much to spare.
pub const HEARD_BEFORE_AUTH: u16 = 100;

/// Bytes that a stanza may take when it is written again, where namespaces are declared without prefixes: so many for each
/// of its bytes, and so many besides. Beyond: `policy-violation`.
pub const WRITTEN_PER_BYTE: usize = 4;
pub const WRITTEN_PER_STANZA: usize = 16 << 10;

/// The same two of an element of the store, which was accepted once, perhaps when the limits of streams were wider. They only
/// bound the stack and the time that reading takes.
pub const STORED_DEPTH: usize = 1_024;
pub const STORED_ATTRIBUTES: usize = 1_024;

/// Bytes of each part of an address (RFC 7622 §3). Beyond: `jid-malformed`.
pub const JID_PART: usize = 1_023;

/// Rooms that one host has in memory: 100,000 empty ones are some 100 MB. Beyond: `resource-constraint`, and a room that
/// is left makes place.
pub const ROOMS: usize = 100_000;

/// Occupants of one room, however its owner configures it: each more costs every message a copy. Beyond:
/// `service-unavailable`, but not for owners and administrators.
pub const OCCUPANTS: usize = 5_000;

/// Sessions that share one nickname: more than anybody has devices. Beyond: `resource-constraint`.
pub const SESSIONS_OF_OCCUPANT: usize = 20;

/// Bytes of a nickname: it is in every message. Beyond: `not-acceptable`.
pub const NICK: usize = 128;

/// Users with an affiliation or a reserved nickname in one room: all are one entry of the record. Beyond:
/// `resource-constraint`.
pub const AFFILIATIONS: usize = 5_000;

/// Bytes of a room's name, password, language or other short text. Beyond: `not-acceptable`.
pub const ROOM_TEXT: usize = 1_024;

/// Contacts that a room names (`muc#roomconfig_contactjid`): they are in each answer to disco#info. Beyond: `not-acceptable`.
pub const ROOM_CONTACTS: usize = 10;

/// Bytes of a room's description. Beyond: `not-acceptable`.
pub const ROOM_DESCRIPTION: usize = 8_192;

/// Bytes of a room's subject: it is text (XEP-0045 §8.1), is stored with the room and sent to each occupant who enters.
/// Beyond: `not-acceptable`.
pub const ROOM_SUBJECT: usize = 4_096;

/// Messages that a room keeps in memory for whoever enters, and their bytes. Beyond: the oldest go.
pub const HISTORY: usize = 100;
pub const HISTORY_BYTES: usize = 128 << 10;

/// Messages that who enters gets unless he asks for another number: a screen or two.
pub const HISTORY_UNASKED: usize = 20;

/// Stanzas that wait while a room is read or written: some seconds of a busy one. Beyond: `resource-constraint`.
pub const ROOM_WAITING: usize = 1_000;

/// Rooms in a host's memory that it tells of when all are listed. Beyond: what the record has of a room is listed, and
/// temporary ones are not.
pub const ROOMS_LISTED: usize = 10_000;

/// How long an empty room stays in memory, so that who comes back soon need not wait for the record.
pub const ROOM_IDLE: std::time::Duration = std::time::Duration::from_secs(600);

/// How long the list of a service's stored rooms answers questions before it is read again: reading it costs the same however
/// many ask.
pub const DIRECTORY_FOR: std::time::Duration = std::time::Duration::from_secs(5);

/// Entries of one page of a service's list of rooms, whatever is asked for (XEP-0059 §2.1). The rest is on the next page.
pub const ROOMS_PAGE: usize = 200;
/// Contacts of one account, those that only asked among them. Beyond: `policy-violation`, and strangers' requests are
/// refused with `resource-constraint`. More than any person has; each is loaded when the account signs in.
pub const CONTACTS: usize = 5_000;

/// Of these, strangers that wait for an answer. Beyond: `resource-constraint`. Else anybody could fill a roster.
pub const CONTACTS_ASKING: usize = 500;

/// Bytes of a request that are kept until it is answered (RFC 6121 §3.1.3). Longer: only who asks, and his words cut.
pub const ASKED: usize = 4 << 10;

/// Bytes of a contact's name and of a group's (RFC 6121 §2.3.3). Beyond: `not-acceptable`.
pub const CONTACT_NAME: usize = 1_023;

/// Groups of one contact. Beyond: `not-acceptable`.
pub const CONTACT_GROUPS: usize = 64;

/// Blocked addresses of one account. Beyond: `policy-violation`. Every stanza is compared with all.
pub const BLOCKED: usize = 1_000;

/// Changes of one account, and what depends on them, that wait for the one before. Beyond: `resource-constraint`.
pub const CHANGES: usize = 64;

/// Stanzas and jobs that wait while one account is read, which takes milliseconds. Beyond: `resource-constraint`.
pub const USER_WAITING: usize = 1_000;

/// Accounts without a session whose records stay in memory, the contacts of all of them (some 200 bytes each), and how
/// long. Beyond: the one used least recently is read again when it is needed.
pub const RESTING: usize = 4_096;
pub const RESTING_CONTACTS: usize = 100_000;
pub const RESTING_FOR: std::time::Duration = std::time::Duration::from_secs(600);

/// Bytes of the rosters of who is signed in, in one host, estimated: some 600,000 contacts. Beyond: rosters that nobody needed
/// lately are let go of, and read again for who needs them.
pub const ROSTERS: usize = 128 << 20;

/// Sessions that are looked at at a time for rosters that may go: some 100 µs.
pub const ROSTERS_LOOKED_AT: usize = 1_000;

/// Bytes of a session's presence, which is kept and copied for every contact. Beyond: `policy-violation`. Clients send a
/// few hundred.
pub const PRESENCE: usize = 16 << 10;

/// Addresses that one session has sent directed presence. Beyond: `resource-constraint`, and it is not sent.
pub const DIRECTED: usize = 1_000;

/// Kinds of clients whose abilities are remembered (XEP-0115). Beyond: the one that was used least recently is forgotten.
pub const CAPS: usize = 5_000;

/// Abilities of one kind of client. Beyond: they are not remembered, as if forged.
pub const CAPS_FEATURES: usize = 500;

/// Accounts of whose clients is known what kind they are. Beyond: the least recently heard of is forgotten.
pub const CAPS_ACCOUNTS: usize = 100_000;

/// Clients of one of them. Beyond: another one gets no events that clients ask for by their abilities.
pub const CAPS_RESOURCES: usize = 32;

/// Questions for abilities without an answer. Beyond: nothing is asked until some are answered or too old.
pub const CAPS_QUESTIONS: usize = 1_000;

/// Other clients that may be asked when the first gives a wrong answer. Beyond: a later presence has to.
pub const CAPS_OTHERS: usize = 8;

/// Stanzas that a session was sent and has not acknowledged (XEP-0198), and those that wait while it is asleep. Beyond: nothing
/// more is sent until some are, and stanzas wait as for a client that does not read.
pub const SM_QUEUE: usize = 2_000;

/// Bytes of them, about. Beyond: the same.
pub const SM_QUEUE_BYTES: usize = 4 << 20;

/// How long a client may acknowledge nothing while as much as may be waits for that. Longer: `resource-constraint`, and its
/// messages go to the other sessions or are kept.
pub const SM_PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Bytes, about, that a connection is given before it has to have written them; it is given so many again meanwhile. The rest
/// waits with the session. Two of them take a client at 1 MB/s an eighth of a second.
pub const WINDOW: u32 = 64 << 10;

/// Stanzas that wait for a client which does not read them as fast as they come, and their bytes, about: what entering a room of
/// `OCCUPANTS` is told. Beyond: presence is dropped, messages are stored as if the client were away, occupants are removed
/// from their rooms, questions are answered `resource-constraint`.
pub const BACKLOG: usize = 10_000;
pub const BACKLOG_BYTES: usize = 8 << 20;

/// Stanzas of them from which on they are searched for presence that a later one has made untrue.
pub const BACKLOG_COMPACTED: usize = 256;

/// Questions of one session for pages of archives that wait for the page before. Beyond: `resource-constraint`.
pub const PAGES_ASKED: usize = 16;

/// Stanzas without a message among them after which we ask for an acknowledgement. A message is worth a question itself.
pub const SM_ASK_AFTER: u32 = 20;

/// Messages of one session that wait for the record. Beyond: `resource-constraint`.
pub const SM_UNHANDLED: usize = 2_000;

/// Ended sessions of a host whose count of handled stanzas is remembered. Beyond: the oldest is forgotten, and its client
/// learns only that it cannot be resumed.
pub const SM_REMEMBERED: usize = 4_096;

/// Stanzas kept back from an inactive client (XEP-0352). Beyond: it gets all of them.
pub const CSI_HELD: usize = 200;

/// Bytes, about, of one of them. A larger one goes out with all that was kept back.
pub const CSI_HELD_EACH: usize = 8 << 10;

/// Messages that wait for one account (XEP-0160); the record has the same limit. Beyond: `service-unavailable`.
pub const OFFLINE: u32 = 1_000;

/// Bytes, about, of messages that waited and are delivered at once. The rest follows when the client has acknowledged
/// them, so that they do not fill its queue.
pub const OFFLINE_BYTES: usize = 1 << 20;

/// Bytes, about, of one page of an archive. Beyond: the page is shorter than was asked for, and says that it is not the
/// last.
pub const ARCHIVE_PAGE_BYTES: usize = 1 << 20;

/// Messages of one page of an archive (XEP-0313), when the client names no number, and at most.
pub const ARCHIVE_PAGE: u32 = 50;
pub const ARCHIVE_PAGE_MAX: u32 = 250;

/// Messages that one question asks for by their ids. Beyond: `policy-violation`.
pub const ARCHIVE_IDS: usize = 100;

/// Messages with a contact among which one that is taken back is looked for (XEP-0424). Older: it stays in the archive
/// beside its retraction.
pub const RETRACT_AMONG: u32 = 100;

/// Addresses in an account's preferences of archiving, each list. Beyond: `policy-violation`.
pub const ARCHIVE_PREFERENCES: usize = 500;

/// Clients of one account that are told by push (XEP-0357). Beyond: the oldest is forgotten.
pub const PUSH_CLIENTS: u32 = 16;

/// Bytes of what a client wants told with its notifications. Beyond: `policy-violation`.
pub const PUSH_OPTIONS: usize = 4 << 10;

/// Notifications whose answer is awaited. Beyond: the oldest is forgotten, and its error would change nothing.
pub const PUSH_ASKED: usize = 4_096;
/// Nodes of one account. Beyond: `resource-constraint`. All their configurations are in memory while one is used.
pub const NODES: usize = 200;

/// Nodes of a service, of all who have some; of one of them as of an account. Beyond: `resource-constraint`. All are in
/// memory while one is used.
pub const SERVICE_NODES: usize = 2_000;

/// Items that a service's node keeps unless its owner says otherwise: a page of news.
pub const SERVICE_ITEMS: u32 = 20;

/// Nodes that a service lists in one answer. Beyond: they are there for who knows them. An answer has to fit a stanza.
pub const SERVICE_LISTED: usize = 1_000;

/// Bytes of a node's name, an item's id, a title. Beyond: `not-acceptable`.
pub const NODE_NAME: usize = 1_023;

/// Items of one node: what `max` means for `pubsub#max_items`. Beyond: the oldest is forgotten. A long list of bookmarks.
pub const NODE_ITEMS: u32 = 1_000;

/// Bytes of an item. Beyond: `not-acceptable`. It has to fit a stanza with what a notification adds; an avatar does.
pub const ITEM: usize = 192 << 10;

/// Bytes of items in one answer. Beyond: the rest is for another page (XEP-0060 §6.5.4), of which the answer tells.
pub const ITEMS_ANSWER: usize = 224 << 10;

/// Bytes of a node's items that are read at once where all are needed: of bookmarks, a thousand with long names. Beyond:
/// `resource-constraint`, until the client takes some back.
pub const ITEMS_WHOLE: usize = 1 << 20;

/// Reads of the store that one address has under way, each of as many bytes as a page may have. Further ones wait.
pub const READS_UNDER_WAY: usize = 8;

/// Reads of one address that wait: a client that signs in asks for the vCard of every contact at once. Beyond:
/// `resource-constraint`.
pub const READS_WAITING: usize = 1_000;

/// Subscriptions of one node, and its affiliations. Beyond: `policy-violation`. Each publication goes through all.
pub const NODE_SUBSCRIPTIONS: usize = 500;

/// Subscriptions of one account to one node, a resource each. Beyond: `policy-violation`. Else one account fills the node.
pub const SUBSCRIPTIONS_OF_USER: usize = 20;

/// Accounts whose nodes are in memory. Beyond: those used least recently are read again when they are needed.
pub const NODE_OWNERS: usize = 10_000;

/// Questions for the nodes of one account that wait for a change. Beyond: `resource-constraint`.
pub const NODE_QUESTIONS: usize = 64;

/// Clients that were told the newest items, so that they are told but once. Beyond: one is told again.
pub const NODE_TOLD: usize = 200_000;

/// Kinds of clients whose abilities are not known yet, and clients of each, that are told once they are. Beyond: they
/// are told with their next presence.
pub const NODE_CURIOUS: usize = 1_000;
pub const NODE_CURIOUS_CLIENTS: usize = 64;

/// Accounts whose avatar's hash is remembered. Beyond: it is read again when somebody signs in.
pub const AVATARS: usize = 100_000;

/// Kinds of private data of one namespace and account (XEP-0049). Beyond: the oldest is forgotten.
pub const PRIVATE_NAMES: u32 = 16;

/// Bytes of the name of an uploaded file, and of its content type. Beyond: `bad-request`. What file systems take.
pub const FILE_NAME: usize = 255;

/// Bytes that a slot costs at least of what a user may upload in a day, so that slots have a number too.
pub const FILE_COST: u64 = 4 << 10;

/// Users whose uploads of today are counted in memory. Beyond: the record is asked again for the one counted least
/// recently.
pub const UPLOADERS: usize = 100_000;

/// Commands whose form is being filled in. Beyond: the oldest has to be started again.
pub const COMMANDS: usize = 100;

/// Sessions that a command lists. Beyond: the rest is only counted. An answer has to fit a stanza.
pub const ONLINE_LIST: u32 = 1_000;

/// Bytes that a component may send before it has proved to be one: its header and the handshake. Beyond:
/// `policy-violation`.
pub const COMPONENT_HANDSHAKE: usize = 4 << 10;

/// Connections of one component (XEP-0114), over which its stanzas are balanced: more instances than gateways are run
/// with. Beyond: `conflict`.
pub const COMPONENT_CONNECTIONS: usize = 16;

/// Accounts whose phones a host keeps in mind: those that have one, and those that are away and seen by somebody. Beyond: the
/// phones of others are shown to nobody.
pub const PHONES: usize = 200_000;

/// Characters of a status that go to phones and come from them. Beyond: they are cut off. A NOTIFY has to fit a datagram.
pub const PHONE_STATUS: usize = 200;

/// Bytes of one message for a phone. RFC 3428 §8 allows 1,300 with all headers, which take up to 400.
pub const TEXT_BYTES: usize = 900;

/// Messages that one body becomes for a phone. Beyond: it waits for a client.
pub const TEXT_PARTS: usize = 8;

/// When a phone that did not answer is tried again, while it is registered.
pub const TEXT_AGAIN: std::time::Duration = std::time::Duration::from_mins(5);

/// Accounts whose phones are tried again. Beyond: the phone gets what waits when it comes anew.
pub const TEXTS_AGAIN: usize = 10_000;

/// Copies for phones on their way. Beyond: there is no copy; chat has the message.
pub const TEXT_COPIES: usize = 1_000;

/// Messages of phones whose outcome is not known yet. Beyond: their senders are told to try later.
pub const HEARD: usize = 16_384;

/// Bytes of a SIP address that is written out as the address in chat of a caller from outside: what people can read. Beyond:
/// its hash stands for it.
pub const STRANGER: usize = 200;
/// Longest time that a request of BOSH waits for its answer: what proxies on the way bear. A client that asks for more gets
/// this.
pub const BOSH_WAIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Requests of one session that wait at the same time. Who asks for more gets this.
pub const BOSH_HOLD: u32 = 2;

/// Time without a request after which a session of BOSH ends: a round trip over a bad network. Its client is as one whose
/// connection broke.
pub const BOSH_INACTIVITY: std::time::Duration = std::time::Duration::from_secs(30);

/// The same of a client that polls, which has to be more than `BOSH_POLLING` (XEP-0124 §12).
pub const BOSH_INACTIVITY_OF_POLLING: std::time::Duration = std::time::Duration::from_secs(60);

/// Empty requests come no faster than this. Beyond: `policy-violation`, and the session ends.
pub const BOSH_POLLING: std::time::Duration = std::time::Duration::from_secs(2);

/// Longest pause that a client of BOSH may ask for, as to get to another page. A longer one is not granted.
pub const BOSH_MAX_PAUSE: std::time::Duration = std::time::Duration::from_secs(120);

/// Bytes around the stanzas of a body of BOSH, at most. Beyond: `bad-request`.
pub const BOSH_WRAPPER: usize = 4 << 10;

/// Bytes of stanzas in one answer of BOSH, about. The rest is in the next one.
pub const BOSH_ANSWER: usize = 256 << 10;
/// Accounts that one command changes. Beyond: `policy-violation`. Each is a write of its own.
pub const ACCOUNTS_AT_ONCE: usize = 100;
/// Bytes of what a client says of itself, each part (XEP-0388 §2.3.1). Longer: as if it had not said it. A UUID has 36.
pub const USER_AGENT: usize = 128;
/// Stanzas of one pair of domains that wait for a connection between servers, and their bytes, about. Beyond:
/// `resource-constraint`. Some seconds of a busy pair.
pub const S2S_QUEUE: usize = 1_000;
pub const S2S_QUEUE_BYTES: usize = 1 << 20;

/// The smallest largest stanza of another server that is believed (XEP-0478, RFC 6120 §13.12).
pub const SMALLEST_MAX_BYTES: usize = 10_000;

/// Bytes given to a connection to another server and not taken by its system. Beyond: `resource-constraint` for each
/// stanza until it has read some.
pub const S2S_UNSENT: usize = 2 << 20;

/// The same with what it is answered to its own questions, which no bound of stanzas stops. Beyond: `resource-constraint`, and
/// the stream ends.
pub const S2S_UNREAD: usize = 4 << 20;

/// Pairs of domains for which one shard has a way or stanzas that wait. Beyond: `resource-constraint`.
pub const S2S_PAIRS: usize = 50_000;

/// Other servers of which one shard remembers that they failed. Beyond: the one that failed first is tried at once.
pub const S2S_FAILED: usize = 10_000;

/// Pairs of domains on one stream that another server opened (XEP-0220 §2.6), and of these, those that wait for the
/// answer of the authoritative server. Beyond: `resource-constraint` for the next.
pub const S2S_PAIRS_OF_STREAM: usize = 100;
pub const S2S_ASKED_OF_STREAM: usize = 10;

/// Domains that one stream failed to prove. Beyond: `policy-violation`, and the stream ends: each costs a connection to
/// somebody else.
pub const S2S_REFUSED_OF_STREAM: u8 = 20;

/// Questions about keys that wait for one other server. Beyond: `resource-constraint`.
pub const S2S_VERIFIES: usize = 200;

/// Addresses of one other server that are tried. Beyond: not.
pub const S2S_TARGETS: usize = 10;

/// How long nothing is tried after an attempt failed: the first, doubled with each further one, and the longest.
pub const S2S_BACKOFF: std::time::Duration = std::time::Duration::from_secs(2);
pub const S2S_BACKOFF_MAX: std::time::Duration = std::time::Duration::from_secs(300);

/// Bytes and elements of one user in a file of XEP-0227: an account with all that it may have here, and an archive of some ten
/// thousand messages. Beyond: the user is passed over, and told.
pub const PIE_USER: usize = 32 << 20;
pub const PIE_ELEMENTS: usize = 500_000;

/// Bytes that a file of XEP-0227 is read by.
pub const PIE_READ: usize = 256 << 10;

/// Rounds of SCRAM (RFC 5802 §5.1, RFC 7677 §4): what a sign-in costs each client, and a guess at a stolen record. An account
/// that is not there seems to have so many, too.
pub const SCRAM_ITERATIONS: u32 = 4_096;

/// Rounds of imported keys of SCRAM: each sign-in makes the client's device do so many. Beyond: the user is passed over.
pub const PIE_ITERATIONS: u32 = 1_000_000;
