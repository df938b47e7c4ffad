//! Limits of streams and stanzas, with their reasons and what happens at them.

/// Bytes of one stanza (RFC 6120 §13.12 asks for at least 10,000). Beyond: `policy-violation`, and the stream ends.
pub const STANZA: usize = 256 << 10;

/// Bytes of a stanza before the client has signed in.
pub const STANZA_BEFORE_AUTH: usize = 16 << 10;

/// Elements inside each other. Beyond: `policy-violation`.
pub const DEPTH: usize = 64;

/// Attributes of one element. Beyond: `policy-violation`.
pub const ATTRIBUTES: usize = 64;

/// Elements of one stanza. Beyond: `policy-violation`.
pub const ELEMENTS: usize = 8_192;

/// Bytes of each part of an address (RFC 7622 §3). Beyond: `jid-malformed`.
pub const JID_PART: usize = 1_023;

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
