//! Dial and its nouns.
//!
//! A Dial names parties, or one conference, or one queue. Mixtures are noted and cut down to one of these.

use roxmltree::Node;
use url::form_urlencoded;

use super::fields::Fields;
use super::lexicon::ElementEntry;
use super::read::{body, children, needed_body, tones};
use super::verb::{Address, Beep, BridgeRecording, Callback, Conference, Dial, DialTarget, Dialed};
use super::{Notes, code};
use crate::limits::DIAL_TARGETS;

/// Reads a `<Dial>`. `None`, with a note, if it names no party and no conference.
pub(super) fn dial(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<Dial> {
    let to = dialed(node, entry, notes)?;
    Some(Dial {
        action: fields.target("action", "method"),
        timeout: fields.seconds("timeout"),
        time_limit: fields.seconds("timeLimit"),
        caller_id: fields.filled("callerId"),
        record: recording(fields),
        hangup_on_star: fields.flag("hangupOnStar"),
        answer_on_bridge: fields.text("answerOnBridge").map(|_| fields.flag("answerOnBridge")),
        ring_tone: fields.filled("ringTone"),
        sequential: fields.flag("sequential"),
        refer: fields.target("referUrl", "referMethod"),
        to,
    })
}

/// The recording of `record`; Twilio's values and RestComm's `true` and `false`.
fn recording(fields: &Fields) -> Option<BridgeRecording> {
    let mode = fields.text("record").filter(|mode| !matches!(*mode, "false" | "do-not-record"))?;
    Some(BridgeRecording {
        from_ringing: mode.starts_with("record-from-ringing"),
        dual: mode.ends_with("-dual"),
        trim: fields.text("trim") == Some("trim-silence"),
        track: fields.filled("recordingTrack").unwrap_or_default(),
        status: fields.callback("recordingStatusCallback"),
    })
}

/// The nouns inside a Dial, or its text; at most [`DIAL_TARGETS`] parties.
fn dialed(node: Node<'_, '_>, entry: &'static ElementEntry, notes: &mut Notes<'_>) -> Option<Dialed> {
    let place = notes.place_at(node.range().start);
    let text = body(node);
    let mut parties: Vec<DialTarget> = Vec::new();
    let mut room = None;
    for (child, kind) in children(node, entry, notes) {
        let fields = Fields::read(child, kind, notes);
        if kind.name == "Conference" {
            room = room.or(conference(child, kind, &fields, notes));
        } else if let Some(party) = party(child, kind, &fields, notes) {
            parties.push(party);
        }
    }
    if parties.len() > DIAL_TARGETS {
        notes.error(place, code::INVALID, format!("<Dial>: only the first {DIAL_TARGETS} are called"));
        parties.truncate(DIAL_TARGETS);
    }
    let queues = parties.iter().filter(|party| matches!(party.address, Address::Queue { .. })).count();
    if queues > 0 && parties.len() > 1 {
        notes.error(place, code::INVALID, "<Dial>: a <Queue> stands alone; the others are called".to_owned());
        parties.retain(|party| !matches!(party.address, Address::Queue { .. }));
    }
    match (room, parties.is_empty()) {
        (Some(room), alone) => {
            if !alone {
                notes.error(
                    place,
                    code::INVALID,
                    "<Dial>: a <Conference> stands alone; the others are not called".to_owned(),
                );
            }
            Some(Dialed::Conference(Box::new(room)))
        }
        (None, false) => Some(Dialed::Parties(parties)),
        (None, true) if text.is_empty() => {
            notes.error(place, code::INVALID, "<Dial> without anyone to call: passed over".to_owned());
            None
        }
        (None, true) => {
            Some(Dialed::Parties(vec![DialTarget { address: address_of(&text), screen: None, status: None }]))
        }
    }
}

/// The text of a bare Dial.
fn address_of(text: &str) -> Address {
    if let Some(name) = text.strip_prefix("client:") {
        return Address::Client { name: name.to_owned() };
    }
    if text.starts_with("sip:") || text.starts_with("sips:") {
        return sip(text, None, None);
    }
    Address::Number { number: text.to_owned(), send_digits: Vec::new() }
}

impl Address {
    /// Parses an address given outside a document: `client:name`, a SIP URI, a number or a name. The
    /// credentials belong to a SIP URI.
    pub fn parse(text: &str, username: Option<String>, password: Option<String>) -> Address {
        if let Some(name) = text.strip_prefix("client:") {
            return Address::Client { name: name.to_owned() };
        }
        if text.starts_with("sip:") || text.starts_with("sips:") {
            return sip(text, username, password);
        }
        Address::Number { number: text.to_owned(), send_digits: Vec::new() }
    }
}

/// One noun other than a Conference.
fn party(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<DialTarget> {
    let address = match entry.name {
        "Number" => Address::Number {
            number: needed_body(node, entry, notes)?,
            send_digits: tones(&fields.filled("sendDigits").unwrap_or_default()),
        },
        "Client" => Address::Client { name: client(node, entry, notes)? },
        "Sip" => {
            without_effect(node, entry, notes);
            sip(&needed_body(node, entry, notes)?, fields.filled("username"), fields.filled("password"))
        }
        "Uri" => Address::Uri(needed_body(node, entry, notes)?),
        // The document is for a caller whom another script has answered: this Dial has no leg that it could be performed on.
        _ => {
            let name = needed_body(node, entry, notes)?;
            let address = Address::Queue { name, document: fields.target("url", "method") };
            return Some(DialTarget { address, screen: None, status: None });
        }
    };
    Some(DialTarget {
        address,
        screen: fields.target("url", "method"),
        status: fields.callback("statusCallback"),
    })
}

/// Children whose attributes are read only for notes.
fn without_effect<'a, 'input>(
    node: Node<'a, 'input>,
    entry: &'static ElementEntry,
    notes: &mut Notes<'_>,
) -> Vec<(Node<'a, 'input>, &'static ElementEntry)> {
    let inner = children(node, entry, notes);
    for (child, kind) in &inner {
        Fields::read(*child, kind, notes);
    }
    inner
}

/// The name of the account in a `<Client>`: its `<Identity>`, or its text.
fn client(node: Node<'_, '_>, entry: &'static ElementEntry, notes: &mut Notes<'_>) -> Option<String> {
    let identity = without_effect(node, entry, notes).into_iter().find(|(_, kind)| kind.name == "Identity");
    match identity.map(|(child, _)| body(child)).filter(|name| !name.is_empty()) {
        Some(name) => Some(name),
        None => needed_body(node, entry, notes),
    }
}

/// Headers are the URI's query (RFC 3261 §19.1.1). Both RestComm and Twilio pass on only those that begin
/// with `X-`, so a document cannot set a Route.
fn sip(text: &str, username: Option<String>, password: Option<String>) -> Address {
    let (uri, query) = text.split_once('?').unwrap_or((text, ""));
    let headers = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| {
            name.len() > 2 && name.is_char_boundary(2) && name[..2].eq_ignore_ascii_case("X-")
        })
        .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)))
        .map(|(name, value)| (name.into_owned(), value.chars().filter(|c| !c.is_control()).collect()))
        .collect();
    Address::Sip { uri: uri.to_owned(), headers, username, password }
}

/// Reads a `<Conference>`.
fn conference(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<Conference> {
    without_effect(node, entry, notes);
    // Given and empty is silence; not given is music.
    let wait = fields
        .given("waitUrl")
        .map(|url| crate::request::Target { url: url.to_owned(), method: fields.method("waitMethod") });
    let status = fields.callback("statusCallback").or_else(|| {
        let target = fields.target("eventCallbackUrl", "statusCallbackMethod")?;
        Some(Callback { target, events: fields.words("statusCallbackEvent") })
    });
    Some(Conference {
        name: needed_body(node, entry, notes)?,
        muted: fields.flag("muted"),
        beep: match fields.text("beep") {
            Some("false") => Beep::Never,
            Some("onEnter") => Beep::OnEnter,
            Some("onExit") => Beep::OnExit,
            _ => Beep::Both,
        },
        start_on_enter: fields.flag("startConferenceOnEnter"),
        end_on_exit: fields.flag("endConferenceOnExit"),
        wait,
        max_participants: fields.number("maxParticipants"),
        record: matches!(fields.text("record"), Some("record-from-start" | "true")),
        trim: fields.text("trim") == Some("trim-silence"),
        coach: fields.filled("coach"),
        label: fields.filled("participantLabel"),
        status,
        recording_status: fields.callback("recordingStatusCallback"),
    })
}
