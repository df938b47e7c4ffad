//! Limits of accounts, rooms and services, with their reasons and effects.

// Limits of rooms that their service and its users keep too.
pub use ::muc::limits::{
    AFFILIATIONS, BANS_RESERVED, HAT_TITLE, HAT_URI, HATS_OF_USER, HISTORY, HISTORY_BYTES, HISTORY_UNASKED,
    NICK, OCCUPANTS, REGISTRATIONS, REGISTRATIONS_BYTES, REGISTRATIONS_OF_DOMAIN, ROOM_CONTACTS,
    ROOM_DESCRIPTION, ROOM_HATS, ROOM_SUBJECT, ROOM_TEXT, ROOM_VCARD, SESSIONS_OF_OCCUPANT,
};
// Limits of nodes and items that other features keep too.
pub use ::pubsub::limits::{
    CONTACT_GROUPS, CONTACT_NAME, ITEM, ITEMS_ANSWER, NODE_ITEMS, NODE_NAME, NODE_QUESTIONS,
    NODE_SUBSCRIPTIONS, NODES, SUBSCRIPTIONS_OF_USER,
};
// Limits of stanzas that features keep too.
pub use xmpp::limits::{DEPTH, JID_PART, STANZA};

/// Rooms that one host has in memory: 100,000 empty ones are some 100 MB. Beyond: `resource-constraint`, and a room that
/// is left makes place.
pub const ROOMS: usize = 100_000;

/// Stanzas that wait while a room is read or written: some seconds of a busy one. Beyond: `resource-constraint`.
pub const ROOM_WAITING: usize = 1_000;

/// Rooms in a host's memory that it tells of when all are listed. Beyond: a room is listed as the store has
/// it, and temporary ones are not.
pub const ROOMS_LISTED: usize = 10_000;

/// The time for which an empty room stays in memory, so that users who return soon need not wait for the
/// store.
pub const ROOM_IDLE: std::time::Duration = std::time::Duration::from_secs(600);

/// The time for which the list of a service's stored rooms answers queries before it is read again: reading
/// it costs the same however many ask.
pub const DIRECTORY_FOR: std::time::Duration = std::time::Duration::from_secs(5);

/// Entries of one page of a service's list of rooms, whatever is asked for (XEP-0059 §2.1). The rest is on the next page.
pub const ROOMS_PAGE: usize = 200;

/// Contacts of one account, those that only asked among them. Beyond: `policy-violation`, and strangers' requests are
/// refused with `resource-constraint`. More than any person has; each is loaded when the account signs in.
pub const CONTACTS: usize = 5_000;

/// Contacts of these that wait for an answer. Beyond: `resource-constraint`. Without this limit strangers
/// could fill a roster.
pub const CONTACTS_ASKING: usize = 500;

/// Bytes of a request that are kept until it is answered (RFC 6121 §3.1.3). Longer: only the sender's address
/// and a shortened status.
pub const SUBSCRIPTION_REQUEST: usize = 4 << 10;

/// Blocked addresses of one account. Beyond: `policy-violation`. Every stanza is compared with all.
pub const BLOCKED: usize = 1_000;

/// Reports of spam that one request to block may have: each is a message to each administrator. Beyond: not passed on; the addresses
/// are blocked all the same.
pub const REPORTS_OF_REQUEST: usize = 10;

/// Bytes of the reason of a report, and of the ids in it. Beyond: the reason is cut, the id left out.
pub const REPORT_REASON: usize = 128;

/// Bytes of what a user writes to a report. Beyond: cut.
pub const REPORT_TEXT: usize = 1_024;

/// Messages that a report names. Beyond: left out.
pub const REPORT_MESSAGES: usize = 10;

/// Changes of one account, and the work that depends on them, that wait for the one before. Beyond:
/// `resource-constraint`.
pub const CHANGES: usize = 64;

/// Stanzas and jobs that wait while one account is read, which takes milliseconds. Beyond: `resource-constraint`.
pub const USER_WAITING: usize = 1_000;

/// Accounts without a session whose records stay in memory, the contacts of all of them (some 200 bytes each), and how
/// long. Beyond: the one used least recently is read again when it is needed.
pub const IDLE_ACCOUNTS: usize = 4_096;
/// Contacts of all idle accounts that are kept.
pub const IDLE_ACCOUNT_CONTACTS: usize = 100_000;
/// The time for which an idle account is kept.
pub const IDLE_ACCOUNT_FOR: std::time::Duration = std::time::Duration::from_secs(600);

/// Bytes of the rosters of signed-in accounts in one host, estimated: some 600,000 contacts. Beyond: the
/// rosters unused for longest are dropped, and read again when they are needed.
pub const ROSTERS: usize = 128 << 20;

/// Sessions that are looked at at a time for rosters that may go: some 100 µs.
pub const ROSTERS_LOOKED_AT: usize = 1_000;

/// Bytes of a session's presence, which is kept and copied for every contact. Beyond: `policy-violation`. Clients send a
/// few hundred.
pub const PRESENCE: usize = 16 << 10;

/// Addresses that one session has sent directed presence. Beyond: `resource-constraint`, and it is not sent.
pub const DIRECTED: usize = 1_000;

/// Kinds of clients whose features are remembered (XEP-0115). Beyond: the one that was used least recently is
/// forgotten.
pub const CAPS: usize = 5_000;

/// Features of one kind of client. Beyond: they are not remembered, as if forged.
pub const CAPS_FEATURES: usize = 500;

/// Accounts the kinds of whose clients are remembered. Beyond: the least recently heard of is forgotten.
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

/// The time for which a client may acknowledge nothing while its queue is full. Longer:
/// `resource-constraint`, and its messages go to the other sessions or are kept.
pub const SM_PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Bytes, about, that a connection is given before it has to have written them; it is given so many again meanwhile. The rest
/// waits with the session. Two of them take a client at 1 MB/s an eighth of a second.
pub const WINDOW: u32 = 64 << 10;

/// Stanzas that wait for a client which does not read them as fast as they come, and their bytes, about: the
/// presence of a room with `OCCUPANTS`. Beyond: presence is dropped, messages are stored as if the client
/// were away, occupants are removed from their rooms, questions are answered `resource-constraint`.
pub const BACKLOG: usize = 10_000;
/// Bytes of the stanzas that wait for a session to read.
pub const BACKLOG_BYTES: usize = 8 << 20;

/// Stanzas of them from which on they are searched for presence that a later one has made untrue.
pub const BACKLOG_COMPACTED: usize = 256;

/// Questions of one session for pages of archives that wait for the page before. Beyond: `resource-constraint`.
pub const PAGES_ASKED: usize = 16;

/// Stanzas without a message among them after which we ask for an acknowledgement. A message is worth a question itself.
pub const SM_ASK_AFTER: u32 = 20;

/// Messages of one session that wait for the store. Beyond: `resource-constraint`.
pub const SM_UNHANDLED: usize = 2_000;

/// The time for which a client that resumes its session waits for the writes of its messages. Clients wait for some ten seconds at least.
pub const SM_RESUME_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Clients of one host that wait so; each write looks at them. More: their sessions are resumed at once.
pub const SM_RESUMES: usize = 1_000;

/// Unacknowledged stanzas of each direction that a node keeps of a client whose session is at another node. More: if that node dies before
/// the other side has acknowledged all of them, the client's stream is closed and the client signs in again.
pub const FOLLOWED: usize = 500;

/// Bytes of these stanzas, and of the addresses that have the client's presence. With them the announcement of the session fits a message between nodes, of 256 KiB. More: the same.
pub const FOLLOWED_BYTES: usize = 96 << 10;

/// Bytes of the nicknames that one shard keeps of rooms at other nodes in which its clients are: those of 50 rooms of 5,000 occupants.
/// More: an occupant whose leaving is lost with its room's host may stay visible.
pub const SEEN_BYTES: usize = 24 << 20;

/// The time for which an occupant that has left is kept there: longer than a dead node goes unnoticed.
pub const SEEN_GONE: std::time::Duration = std::time::Duration::from_secs(60);

/// The time after which a room whose host has died tells its occupants of those that have not come back: as long as a bucket waits for
/// announcements of sessions, and as long again for their accounts to be read. Longer: an occupant that comes back later is seen to leave and to enter.
pub const ROOM_RESTORE: std::time::Duration = std::time::Duration::from_secs(10);

/// Stanzas that a room sends of occupants that have not come back, before others have their turn: some milliseconds.
pub const ROOM_MISSING_COPIES: usize = 10_000;

/// The pause until its next such stanzas, and between two looks at a room that is being read or written.
pub const ROOM_MISSING_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Ended sessions of a host whose count of handled stanzas is remembered. Beyond: the oldest is forgotten, and its client
/// learns only that it cannot be resumed.
pub const SM_REMEMBERED: usize = 4_096;

/// Stanzas kept back from an inactive client (XEP-0352). Beyond: it gets all of them.
pub const CSI_HELD: usize = 200;

/// Bytes, about, of one of them. A larger one goes out with all that was kept back.
pub const CSI_HELD_EACH: usize = 8 << 10;

/// Writes of messages of one host that the store has not answered: those of seconds of a busy node, and at most an eighth of what the store
/// keeps while its database is away. Beyond: new messages are refused with `resource-constraint`.
pub const MESSAGE_WRITES: usize = 8_192;

/// Bytes of these messages, about. Beyond: the same.
pub const MESSAGE_WRITES_BYTES: usize = 12 << 20;

/// The time that the oldest of these writes may wait: longer than a restart or a failover of a database, and shorter than the half
/// minute after which clients give up a stream that acknowledges nothing. Longer: new messages are refused with
/// `resource-constraint`.
pub const MESSAGE_WRITE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Messages that wait for one account (XEP-0160); the store has the same limit. Beyond: `service-unavailable`.
pub const OFFLINE: u32 = 1_000;

/// Bytes, about, of messages that waited and are delivered at once. The rest follows when the client has acknowledged
/// them, so that they do not fill its queue.
pub const OFFLINE_BYTES: usize = 1 << 20;

/// Bytes, about, of one page of an archive. Beyond: the page is shorter than was asked for, and says that it is not the
/// last.
pub const ARCHIVE_PAGE_BYTES: usize = 1 << 20;
/// The time by which an id of an archive may be ahead of the clock, for later ones to be greater: a clock that was a time zone or a day wrong. Beyond: it is
/// passed over, as nothing else would bring ids back to the time.
pub const ARCHIVE_AHEAD: std::time::Duration = std::time::Duration::from_hours(24);

/// Messages of one page of an archive (XEP-0313), when the client names no number, and at most.
pub const ARCHIVE_PAGE: u32 = 50;
/// Messages of one page of an archive, at most, whatever number the client names.
pub const ARCHIVE_PAGE_MAX: u32 = 250;

/// Bytes of the words of one search in an archive (XEP-0431): more than are typed. Beyond: `policy-violation`.
pub const SEARCH_BYTES: usize = 256;
/// Words of one search: each is looked for in each body. Beyond: `policy-violation`.
pub const SEARCH_WORDS: usize = 16;

/// Messages that one question asks for by their ids. Beyond: `policy-violation`.
pub const ARCHIVE_IDS: usize = 100;

/// Messages with a contact among which one that is taken back is looked for (XEP-0424). Older: it stays in the archive
/// beside its retraction.
pub const RETRACT_AMONG: u32 = 100;

/// Addresses in an account's preferences of archiving, each list. Beyond: `policy-violation`.
pub const ARCHIVE_PREFERENCES: usize = 500;

/// Clients of one account that are told by push (XEP-0357). Beyond: the oldest is forgotten.
pub const PUSH_CLIENTS: u32 = 16;

/// Bytes of the options that a client wants sent with its notifications. Beyond: `policy-violation`.
pub const PUSH_OPTIONS: usize = 4 << 10;

/// Notifications whose answer is awaited. Beyond: the oldest is forgotten, and its error would change nothing.
pub const PUSH_ASKED: usize = 4_096;

/// Calls of one page of an account's history, unless its client asks for another number.
pub const CALLS_PAGE: u32 = 50;

/// Calls of one page at most, whatever is asked for: some 25 KB. The rest is on the next page.
pub const CALLS_PAGE_MAX: u32 = 100;

/// Bytes of such a page at most, reckoned for the longest addresses: below what a client has to take as one stanza. Beyond: the page is
/// shorter than was asked for.
pub const CALLS_PAGE_BYTES: usize = 128 << 10;

/// Messages of one page of an account's voicemail, unless its client asks for another number.
pub const VOICEMAIL_PAGE: u32 = 50;

/// Messages of one page at most, whatever is asked for. The rest is on the next page.
pub const VOICEMAIL_PAGE_MAX: u32 = 100;

/// Bytes of the sound of a message in one answer, three seconds: 64 KiB in base64, and a quarter of a stanza. The client asks for the next.
pub const VOICEMAIL_PIECE: usize = 48 << 10;

/// Bytes of the name of a message: a SID has 34. A longer one is no message's.
pub const VOICEMAIL_ID: usize = 64;

/// Reads of the store that one address has under way, each of as many bytes as a page may have. Further ones wait.
pub const READS_UNDER_WAY: usize = 8;

/// Reads of one address that wait: a client that signs in asks for the vCard of every contact at once. Beyond:
/// `resource-constraint`.
pub const READS_WAITING: usize = 1_000;

/// Accounts whose avatar's hash is remembered. Beyond: it is read again at the next sign-in.
pub const AVATARS: usize = 100_000;

/// Kinds of private data of one namespace and account (XEP-0049). Beyond: the oldest is forgotten.
pub const PRIVATE_NAMES: u32 = 16;

/// Bytes of a bytestream's id (XEP-0065). Beyond: `bad-request`. Clients draw some twenty characters.
pub const SID: usize = 1_023;

/// Bytes of the name of an uploaded file, and of its content type. Beyond: `bad-request`. The limit of common
/// file systems.
pub const FILE_NAME: usize = 255;

/// Bytes that a slot costs at least of a user's daily upload quota, so that slots have a number too.
pub const FILE_COST: u64 = 4 << 10;

/// Users whose uploads of today are counted in memory. Beyond: the store is asked again for the one counted least
/// recently.
pub const UPLOADERS: usize = 100_000;

/// Commands whose form is being filled in. Beyond: the oldest has to be started again.
pub const COMMANDS: usize = 100;

/// Sessions that a command lists. Beyond: the rest is only counted. An answer has to fit a stanza.
pub const ONLINE_LIST: u32 = 1_000;

/// Accounts whose phones a host tracks: those that have one, and those that are away and have watchers.
/// Beyond: the phones of others are not shown.
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
pub const PHONE_MESSAGES: usize = 16_384;

/// Bytes of a SIP address that is written out as the address in chat of a caller from outside: the length
/// that people can read. Beyond: its hash stands for it.
pub const STRANGER: usize = 200;

/// Accounts that one command changes. Beyond: `policy-violation`. Each is a write of its own.
pub const ACCOUNTS_AT_ONCE: usize = 100;

/// Bytes and elements of one user in a file of XEP-0227: an account with all that it may have here, and an archive of some ten
/// thousand messages. Beyond: the user is passed over, and told.
pub const PIE_USER: usize = 32 << 20;
/// Elements of one user in a file of XEP-0227. Beyond: the user is passed over, and told.
pub const PIE_ELEMENTS: usize = 500_000;

/// Bytes that a file of XEP-0227 is read by.
pub const PIE_READ: usize = 256 << 10;

/// Rounds of imported keys of SCRAM: each sign-in makes the client's device do so many. Beyond: the user is passed over.
pub const PIE_ITERATIONS: u32 = 1_000_000;

/// Entries of one real-time block list: those of public lists are some thousands; 48 bytes each in memory. Beyond: further ones have no
/// effect, and the log says so.
pub const RTBL_ENTRIES: usize = 100_000;

/// Items that are asked for at once: with their reports of some 200 bytes they fit a stanza (`xmpp::limits::STANZA`).
pub const RTBL_PAGE: usize = 500;

/// The pause between two reads of a whole list. Changes come at once by notifications; a service that has forgotten the subscription, or was
/// away, is found out by this.
pub const RTBL_REFRESH: std::time::Duration = std::time::Duration::from_hours(1);

/// The pause after the first failure; each further one doubles it, up to `RTBL_REFRESH`.
pub const RTBL_RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// The time that a list's service has for an answer: as long as a stream to another server may take to begin.
pub const RTBL_ANSWER: std::time::Duration = std::time::Duration::from_secs(60);

/// The least time between two contents for the hosts: each goes to all hosts, and copies the parts of a list that have changed.
pub const RTBL_PUBLISH: std::time::Duration = std::time::Duration::from_secs(1);

/// Sessions whose presence a privileged component that has connected gets at a time (XEP-0356 §8). The rest follows 20 ms later: a component's
/// queue is bounded, and what it cannot take is lost.
pub const COMPONENT_PRESENCES: usize = 200;

/// Contacts by shared groups whose changes one client is told of. Beyond: it gets all of them at its next roster get, when it connects anew.
pub const GROUP_CHANGES: usize = 1_000;

/// Effects of a change of shared groups after which the next accounts wait 20 ms: stanzas of one client, a contact or three of them each.
pub const GROUP_CHANGE_EFFECTS: usize = 2_000;

/// Members of one shared group. Each that signs in tells all others, so the stanzas of a morning are the square of this. Beyond: a mistake of
/// the configuration; members that a directory has beyond are left out, and the log says so.
pub const GROUP_MEMBERS: usize = 20_000;

/// Shared groups. Beyond: a mistake of the configuration.
pub const GROUPS: usize = 1_000;
