//! The presence that a phone publishes: RFC 3863, with the activities of RFC 4480.
//!
//! In: the body of a PUBLISH, from a phone of the account. Out: availability and a text as contacts in chat
//! see them. A document describes the user in several tuples and persons; one availability is made of all.
//! Text is cleaned and cut, as it goes to every contact.

use xmpp::Element;
use xmpp::xml::{Prefixes, parse};

use super::{Show, body};
use crate::limits;

// Namespaces: the document (RFC 3863 §4.1), persons (RFC 4479), activities (RFC 4480).
const PIDF: &str = "urn:ietf:params:xml:ns:pidf";
const DATA_MODEL: &str = "urn:ietf:params:xml:ns:pidf:data-model";
const RPID: &str = "urn:ietf:params:xml:ns:pidf:rpid";

/// The parts of a document that contacts in chat see.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PublishedPresence {
    /// It says that its user cannot be reached, in all of its tuples.
    pub(super) is_closed: bool,
    /// The time of the first known activity.
    pub(super) show: Show,
    /// A text of the user; empty without one. At most `limits::PHONE_STATUS` characters.
    pub(super) note: Box<str>,
}

/// Activities that matter to a caller, by the names of RFC 4480 §3.2; others are ignored. `Dnd`: a call would
/// disturb; `Away`: back soon; `Xa`: away for long.
const ACTIVITIES: &[(&str, Show)] = &[
    ("on-the-phone", Show::Dnd),
    ("busy", Show::Dnd),
    ("meeting", Show::Dnd),
    ("presentation", Show::Dnd),
    ("performance", Show::Dnd),
    ("worship", Show::Dnd),
    ("steering", Show::Dnd),
    ("appointment", Show::Away),
    ("away", Show::Away),
    ("breakfast", Show::Away),
    ("dinner", Show::Away),
    ("in-transit", Show::Away),
    ("lunch", Show::Away),
    ("meal", Show::Away),
    ("travel", Show::Away),
    ("holiday", Show::Xa),
    ("permanent-absence", Show::Xa),
    ("sleeping", Show::Xa),
    ("vacation", Show::Xa),
];

/// Reads a document; `None`: it is not well-formed, or no PIDF.
pub(super) fn read(document: &[u8]) -> Option<PublishedPresence> {
    let document = without_declaration(document);
    let presence = parse(document, &Prefixes::default()).ok().filter(|root| root.is("presence", PIDF))?;
    let tuples = || presence.elements().filter(|child| child.is("tuple", PIDF));
    let is_open = |tuple: &Element| {
        let basic = tuple.get("status", PIDF).and_then(|status| status.content_of("basic", PIDF));
        // RFC 3863 §4.1.4: a document without `<basic/>` is not closed.
        basic.is_none_or(|basic| basic.trim() != "closed")
    };
    let persons = || presence.elements().filter(|child| child.is("person", DATA_MODEL));
    let activities = persons().chain(tuples()).filter_map(|place| place.get("activities", RPID));
    let known = |activity: &Element| {
        let known = ACTIVITIES.iter().find(|(name, _)| activity.is(name, RPID));
        known.map(|(_, show)| *show)
    };
    // The user's own note before that of the document and of a device.
    let notes = [persons().find_map(|person| person.content_of("note", DATA_MODEL))]
        .into_iter()
        .chain([presence.content_of("note", PIDF)])
        .chain(tuples().map(|tuple| tuple.content_of("note", PIDF)));
    let note = notes.flatten().find(|note| !note.trim().is_empty()).unwrap_or_default();
    Some(PublishedPresence {
        // A document without a tuple says nothing of being reached, and one open tuple is enough.
        is_closed: tuples().next().is_some() && !tuples().any(is_open),
        show: activities.flat_map(Element::elements).find_map(known).unwrap_or_default(),
        note: body::clean(note.trim()).chars().take(limits::PHONE_STATUS).collect(),
    })
}

/// The document without byte order mark and XML declaration: the parser is that of streams, whose stanzas have none.
pub(super) fn without_declaration(document: &[u8]) -> &[u8] {
    let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document).trim_ascii();
    if !document.starts_with(b"<?xml ") {
        return document;
    }
    let end = document.windows(2).position(|two| two == b"?>").map_or(document.len(), |at| at + 2);
    document[end..].trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(inner: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<presence xmlns=\"{PIDF}\" xmlns:dm=\"{DATA_MODEL}\" \
             xmlns:rp=\"{RPID}\" entity=\"sip:bob@a\">{inner}</presence>\r\n"
        )
    }

    #[test]
    fn presence_is_read_from_the_document_of_a_phone() {
        let tuple = |basic| format!("<tuple id='t'><status><basic>{basic}</basic></status></tuple>");
        let person = |inner: &str| format!("<dm:person id='p'>{inner}</dm:person>");
        let activity = |name: &str| person(&format!("<rp:activities><rp:{name}/></rp:activities>"));
        for (inner, is_closed, show, note) in [
            (tuple("open"), false, Show::Available, ""),
            (tuple("closed"), true, Show::Available, ""),
            (tuple("closed") + &tuple("open"), false, Show::Available, ""),
            ("<tuple id='t'><status/></tuple>".into(), false, Show::Available, ""),
            (tuple("open") + "<note> in the tower </note>", false, Show::Available, "in the tower"),
            (tuple("open") + &person("<dm:note>out</dm:note>"), false, Show::Available, "out"),
            (tuple("open") + &activity("on-the-phone"), false, Show::Dnd, ""),
            (tuple("open") + &activity("lunch"), false, Show::Away, ""),
            (tuple("open") + &activity("vacation"), false, Show::Xa, ""),
            (tuple("open") + &activity("unknown"), false, Show::Available, ""),
        ] {
            let read = read(document(&inner).as_bytes());
            assert_eq!(read, Some(PublishedPresence { is_closed, show, note: note.into() }), "{inner}");
        }
    }

    #[test]
    fn invalid_documents_are_not_read() {
        for bad in [
            &b""[..],
            b"open",
            b"<presence/>",
            b"<?xml version='1.0'",
            b"<!DOCTYPE presence [<!ENTITY a 'b'>]><presence xmlns='urn:ietf:params:xml:ns:pidf'/>",
            b"<presence xmlns='urn:ietf:params:xml:ns:pidf'>\xff</presence>",
            b"<presence xmlns='jabber:client'/>",
        ] {
            assert_eq!(read(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_long_note_is_cut() {
        let note = "é".repeat(10_000);
        let read = read(document(&format!("<note>{note}</note>")).as_bytes()).unwrap();
        assert_eq!(read.note.chars().count(), limits::PHONE_STATUS);
    }
}
