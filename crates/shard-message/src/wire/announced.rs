//! A session that is announced, as a value in a message of chat.

use std::time::Duration;

use chat::AnnouncedSession;
use cluster::fields::{Corrupt, put_bytes, put_number};
use xmpp::xml::parse_stored;
use xmpp::{Element, Jid};

use super::values::{absent, fields, flag, put_flag, text};

// Numbers of the fields. A flag that is false is not written, so that one that a later version adds is false
// where it is not known.
const ADDRESS: u64 = 1;
const ID: u64 = 2;
/// Seconds, whole ones: an announced session has no others.
const RESUMABLE_FOR: u64 = 3;
const RECEIVED: u64 = 4;
const ACKNOWLEDGED: u64 = 5;
/// One of several.
const UNACKNOWLEDGED: u64 = 6;
const PRESENCE: u64 = 7;
/// One of several.
const DIRECTED: u64 = 8;
const IS_INTERESTED: u64 = 9;
const WANTS_BLOCKLIST: u64 = 10;
const HAS_CARBONS: u64 = 11;
const IS_INACTIVE: u64 = 12;
const TAKES_OFFLINE: u64 = 13;
const AGENT: u64 = 14;
/// One of several.
const LEFT_ROOM: u64 = 15;

/// Stanzas and addresses keep their order: the unacknowledged ones are sent again in it (XEP-0198 §5).
pub(super) fn put(out: &mut Vec<u8>, session: &AnnouncedSession) {
    put_bytes(out, ADDRESS, session.jid.as_str().as_bytes());
    put_bytes(out, ID, session.id.as_bytes());
    put_number(out, RESUMABLE_FOR, session.resumable_for.as_secs());
    put_number(out, RECEIVED, u64::from(session.received));
    put_number(out, ACKNOWLEDGED, u64::from(session.acknowledged));
    for stanza in &session.unacknowledged {
        put_bytes(out, UNACKNOWLEDGED, &stanza.to_bytes(""));
    }
    if let Some(presence) = &session.presence {
        put_bytes(out, PRESENCE, &presence.to_bytes(""));
    }
    for address in &session.directed {
        put_bytes(out, DIRECTED, address.as_str().as_bytes());
    }
    for address in &session.left_rooms {
        put_bytes(out, LEFT_ROOM, address.as_str().as_bytes());
    }
    put_flag(out, IS_INTERESTED, session.is_interested);
    put_flag(out, WANTS_BLOCKLIST, session.wants_blocklist);
    put_flag(out, HAS_CARBONS, session.has_carbons);
    put_flag(out, IS_INACTIVE, session.is_inactive);
    put_flag(out, TAKES_OFFLINE, session.takes_offline);
    if let Some(agent) = &session.agent {
        put_bytes(out, AGENT, agent.as_bytes());
    }
}

/// Any field that cannot be read fails the session, and with it the message.
pub(super) fn read(bytes: &[u8]) -> Result<AnnouncedSession, Corrupt> {
    // Two passes: a session is made with its address, which need not be the first field.
    let mut jid = None;
    let mut session = Vec::new();
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            ADDRESS => jid = Some(address(field.bytes)?),
            _ => session.push(field),
        }
    }
    let mut announced = AnnouncedSession::new(jid.ok_or(absent("an announced session has no address"))?);
    for field in session {
        match field.number {
            ID => announced.id = text(&field)?,
            RESUMABLE_FOR => announced.resumable_for = Duration::from_secs(field.value()?),
            RECEIVED => announced.received = field.value()?,
            ACKNOWLEDGED => announced.acknowledged = field.value()?,
            UNACKNOWLEDGED => announced.unacknowledged.push(element(field.bytes)?),
            PRESENCE => announced.presence = Some(element(field.bytes)?),
            DIRECTED => announced.directed.push(address(field.bytes)?),
            LEFT_ROOM => announced.left_rooms.push(address(field.bytes)?),
            IS_INTERESTED => announced.is_interested = flag(&field)?,
            WANTS_BLOCKLIST => announced.wants_blocklist = flag(&field)?,
            HAS_CARBONS => announced.has_carbons = flag(&field)?,
            IS_INACTIVE => announced.is_inactive = flag(&field)?,
            TAKES_OFFLINE => announced.takes_offline = flag(&field)?,
            AGENT => announced.agent = Some(text(&field)?),
            _ => {}
        }
    }
    Ok(announced)
}

fn element(bytes: &[u8]) -> Result<Element, Corrupt> {
    parse_stored(bytes).map_err(|_| absent("a stanza of an announced session is not XML"))
}

fn address(bytes: &[u8]) -> Result<Jid, Corrupt> {
    let text = std::str::from_utf8(bytes).ok();
    text.and_then(|text| Jid::parse(text).ok())
        .ok_or(absent("an address of an announced session is not valid"))
}

#[cfg(test)]
pub(super) fn example() -> AnnouncedSession {
    let address = |text: &str| Jid::parse(text).expect("an address");
    let stanza = |name: &'static str| Element::new(name, xmpp::ns::CLIENT);
    AnnouncedSession {
        id: "previd".into(),
        resumable_for: Duration::from_secs(300),
        received: u32::MAX,
        acknowledged: 7,
        unacknowledged: vec![stanza("message").with("id", "8"), stanza("iq").with("id", "9")],
        presence: Some(stanza("presence")),
        directed: vec![address("talk@conference.example.net/alice"), address("bob@example.net")],
        left_rooms: vec![address("talk@conference.example.net/alice")],
        is_interested: true,
        wants_blocklist: true,
        has_carbons: true,
        is_inactive: true,
        takes_offline: true,
        agent: Some("uuid".into()),
        ..AnnouncedSession::new(address("alice@example.net/desk"))
    }
}
