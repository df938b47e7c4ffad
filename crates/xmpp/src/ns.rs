//! Namespaces, by the names that the texts give them.

/// Declares constants and the table that the parser interns by.
macro_rules! namespaces {
    ($($name:ident = $uri:literal;)*) => {
        $(
            #[doc = concat!("The namespace or name `", $uri, "`.")]
            pub const $name: &str = $uri;
        )*
        /// Sorted, for [`intern`].
        static KNOWN: std::sync::LazyLock<Vec<&'static str>> = std::sync::LazyLock::new(|| {
            let mut known = vec![$($uri),*];
            known.sort_unstable();
            known
        });
    };
}

namespaces! {
    AMP = "http://jabber.org/protocol/amp";
    STREAM = "http://etherx.jabber.org/streams";
    CLIENT = "jabber:client";
    SERVER = "jabber:server";
    COMPONENT = "jabber:component:accept";
    XML = "http://www.w3.org/XML/1998/namespace";
    TLS = "urn:ietf:params:xml:ns:xmpp-tls";
    SASL = "urn:ietf:params:xml:ns:xmpp-sasl";
    BIND = "urn:ietf:params:xml:ns:xmpp-bind";
    SESSION = "urn:ietf:params:xml:ns:xmpp-session";
    STREAM_ERRORS = "urn:ietf:params:xml:ns:xmpp-streams";
    STANZA_ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas";
    FRAMING = "urn:ietf:params:xml:ns:xmpp-framing";
    BOSH = "http://jabber.org/protocol/httpbind";
    XBOSH = "urn:xmpp:xbosh";
    ROSTER = "jabber:iq:roster";
    ROSTER_VERSIONS = "urn:xmpp:features:rosterver";
    PRE_APPROVAL = "urn:xmpp:features:pre-approval";
    SM = "urn:xmpp:sm:3";
    CSI = "urn:xmpp:csi:0";
    SASL2 = "urn:xmpp:sasl:2";
    BIND2 = "urn:xmpp:bind:0";
    FAST = "urn:xmpp:fast:0";
    CHANNEL_BINDINGS = "urn:xmpp:sasl-cb:0";
    STREAM_LIMITS = "urn:xmpp:stream-limits:0";
    DISCO_INFO = "http://jabber.org/protocol/disco#info";
    DISCO_ITEMS = "http://jabber.org/protocol/disco#items";
    CAPS = "http://jabber.org/protocol/caps";
    VALIDATE = "http://jabber.org/protocol/xdata-validate";
    VCARD = "vcard-temp";
    VCARD_UPDATE = "vcard-temp:x:update";
    PRIVATE = "jabber:iq:private";
    PING = "urn:xmpp:ping";
    VERSION = "jabber:iq:version";
    TIME = "urn:xmpp:time";
    LAST = "jabber:iq:last";
    DELAY = "urn:xmpp:delay";
    CARBONS = "urn:xmpp:carbons:2";
    FORWARD = "urn:xmpp:forward:0";
    HINTS = "urn:xmpp:hints";
    BLOCKING = "urn:xmpp:blocking";
    BLOCKING_ERRORS = "urn:xmpp:blocking:errors";
    REPORTING = "urn:xmpp:reporting:1";
    REPORTING_REASON = "urn:xmpp:reporting";
    MAM = "urn:xmpp:mam:2";
    SID = "urn:xmpp:sid:0";
    RSM = "http://jabber.org/protocol/rsm";
    DATA = "jabber:x:data";
    MUC = "http://jabber.org/protocol/muc";
    MUC_USER = "http://jabber.org/protocol/muc#user";
    MUC_OWNER = "http://jabber.org/protocol/muc#owner";
    MUC_ADMIN = "http://jabber.org/protocol/muc#admin";
    CONFERENCE = "jabber:x:conference";
    OCCUPANT_ID = "urn:xmpp:occupant-id:0";
    MODERATE = "urn:xmpp:message-moderate:1";
    RETRACT = "urn:xmpp:message-retract:1";
    RETRACT_TOMBSTONE = "urn:xmpp:message-retract:1#tombstone";
    CHANNEL_SEARCH = "urn:xmpp:channel-search:0:search";
    CHANNEL_SEARCH_ERRORS = "urn:xmpp:channel-search:0:error";
    PUBSUB = "http://jabber.org/protocol/pubsub";
    PUBSUB_EVENT = "http://jabber.org/protocol/pubsub#event";
    PUBSUB_OWNER = "http://jabber.org/protocol/pubsub#owner";
    PUBSUB_ERRORS = "http://jabber.org/protocol/pubsub#errors";
    SHIM = "http://jabber.org/protocol/shim";
    VCARD4 = "urn:ietf:params:xml:ns:vcard-4.0";
    VCARD4_NODE = "urn:xmpp:vcard4";
    AVATAR_DATA = "urn:xmpp:avatar:data";
    AVATAR_METADATA = "urn:xmpp:avatar:metadata";
    VCARD_CONVERSION = "urn:xmpp:pep-vcard-conversion:0";
    BOOKMARKS = "urn:xmpp:bookmarks:1";
    BOOKMARKS_COMPAT = "urn:xmpp:bookmarks:1#compat";
    BOOKMARKS_COMPAT_PEP = "urn:xmpp:bookmarks:1#compat-pep";
    OLD_BOOKMARKS = "storage:bookmarks";
    UPLOAD = "urn:xmpp:http:upload:0";
    BYTESTREAMS = "http://jabber.org/protocol/bytestreams";
    EXTDISCO = "urn:xmpp:extdisco:2";
    ADMIN = "http://jabber.org/protocol/admin";
    COMMANDS = "http://jabber.org/protocol/commands";
    REGISTER = "jabber:iq:register";
    DIALBACK = "jabber:server:dialback";
    DIALBACK_FEATURE = "urn:xmpp:features:dialback";
    BIDI = "urn:xmpp:bidi";
    BIDI_FEATURE = "urn:xmpp:features:bidi";
    CHATSTATES = "http://jabber.org/protocol/chatstates";
    RECEIPTS = "urn:xmpp:receipts";
    MARKERS = "urn:xmpp:chat-markers:0";
    REACTIONS = "urn:xmpp:reactions:0";
    OMEMO = "urn:xmpp:omemo:2";
    OMEMO_OLD = "eu.siacs.conversations.axolotl";
    ENCRYPTION = "urn:xmpp:eme:0";
    JINGLE_MESSAGE = "urn:xmpp:jingle-message:0";
    OFFLINE = "http://jabber.org/protocol/offline";
    PUSH = "urn:xmpp:push:0";
    PUSH_SUMMARY = "urn:xmpp:push:summary";
    MAM_EXTENDED = "urn:xmpp:mam:2#extended";
    FULL_TEXT = "urn:xmpp:fulltext:0";
    HATS = "urn:xmpp:hats:0";
    PARS = "urn:xmpp:pars:0";
    IBR_TOKEN = "urn:xmpp:ibr-token:0";
    INVITE = "urn:xmpp:invite#invite";
    INVITE_ACCOUNT = "urn:xmpp:invite#create-account";
    INVITATION = "urn:xmpp:invite#invitation";
    CARBON_RULES = "urn:xmpp:carbons:rules:0";
    PRIVACY = "jabber:iq:privacy";
    DELEGATION = "urn:xmpp:delegation:2";
    PRIVILEGE = "urn:xmpp:privilege:2";
    CALLS = "urn:belfry:calls:0";
    VOICEMAIL = "urn:belfry:voicemail:0";
    PIE = "urn:xmpp:pie:0";
    PIE_SCRAM = "urn:xmpp:pie:0#scram";
    PIE_MAM = "urn:xmpp:pie:0#mam";
    PIE_OLD = "http://www.xmpp.org/extensions/xep-0227.html#ns";
    XINCLUDE = "http://www.w3.org/2001/XInclude";
}

/// The constant that is equal, so that comparing is cheap and nothing is allocated.
pub fn intern(uri: &str) -> Option<&'static str> {
    KNOWN.binary_search(&uri).ok().map(|at| KNOWN[at])
}
