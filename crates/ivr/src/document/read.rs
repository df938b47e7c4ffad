//! Elements to typed verbs. Elements that cannot be performed are ignored with a note.
//!
//! Each verb has one function that makes its struct of the element's [`Fields`], its text and its children. A new verb needs a row in `lexicon`, a
//! function here, and an arm in `verb`.

use std::time::Duration;

use roxmltree::Node;

use super::fields::{Fields, harmless, nearest, required, shorten};
use super::lexicon::{ELSEWHERE, ElementEntry, VERBS, find};
use super::speech::{plain, spoken};
use super::verb::{
    Email, Enqueue, Gather, Item, Piece, Record, Refer, Sms, Stream, Track, Transcribe, Verb, Voice,
};
use super::voices::named;
use super::{Document, Note, Notes, Place, Severity, code, dial};
use crate::limits;
use crate::request::Target;

/// Reads `<Response>` and its verbs. Verbs that cannot be performed are noted and left out; the others are kept.
pub(super) fn document(tree: &roxmltree::Document<'_>) -> Result<Document, Note> {
    let mut notes = Notes::new(tree.input_text());
    let root = tree.root_element();
    if root.tag_name().name() != "Response" {
        let place = notes.place_at(root.range().start);
        let text = format!("<{}>: a document begins with <Response>", shorten(root.tag_name().name()));
        return Err(notes.note(place, Severity::Error, code::NOT_A_DOCUMENT, text));
    }
    let mut verbs = Vec::new();
    stray_text(root, "Response", &mut notes);
    for node in root.children().filter(Node::is_element) {
        let Some(entry) = known(node, "Response", VERBS.iter().map(|entry| entry.name), &mut notes) else {
            continue;
        };
        if verbs.len() == limits::DOCUMENT_VERBS {
            let text = format!("only the first {} verbs are performed", limits::DOCUMENT_VERBS);
            notes.error(notes.place_at(node.range().start), code::INVALID, text);
            break;
        }
        verbs.extend(verb(node, entry, &mut notes));
    }
    let mut notes = notes.list;
    notes.sort_by_key(|note| note.line);
    Ok(Document { verbs, notes })
}

/// The elements in an element that belong there; the others are noted.
pub(super) fn children<'a, 'input>(
    node: Node<'a, 'input>,
    entry: &'static ElementEntry,
    notes: &mut Notes<'_>,
) -> Vec<(Node<'a, 'input>, &'static ElementEntry)> {
    let elements = node.children().filter(Node::is_element);
    elements
        .filter_map(|child| Some((child, known(child, entry.name, entry.children.iter().copied(), notes)?)))
        .collect()
}

/// The table of an element that `allowed` names. Others are noted, with a suggestion where a name is close.
fn known(
    node: Node<'_, '_>,
    parent: &str,
    allowed: impl Iterator<Item = &'static str> + Clone,
    notes: &mut Notes<'_>,
) -> Option<&'static ElementEntry> {
    let name = node.tag_name().name();
    if allowed.clone().any(|known| known == name) {
        return find(name);
    }
    if notes.is_full() {
        return None;
    }
    let place = notes.place_at(node.range().start);
    match ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == name) {
        Some((_, reason)) => notes.error(place, code::INVALID, format!("<{name}> {reason}: passed over")),
        None => {
            let hint = nearest(name, allowed);
            let text = format!("<{}> means nothing in <{parent}> and is passed over{hint}", shorten(name));
            notes.error(place, code::INVALID, text);
        }
    }
    None
}

/// Text where elements belong.
fn stray_text(node: Node<'_, '_>, name: &str, notes: &mut Notes<'_>) {
    let stray =
        node.children().find(|child| child.is_text() && !child.text().unwrap_or_default().trim().is_empty());
    if let Some(stray) = stray {
        let text = stray.text().unwrap_or_default();
        let blank = text.len() - text.trim_start().len();
        let place = notes.place_at(stray.range().start + blank);
        notes.warn(place, format!("text in <{name}> is ignored: {}", shorten(text.trim())));
    }
}

/// The one-line text of an element that holds nothing else.
pub(super) fn body(node: Node<'_, '_>) -> String {
    harmless(&lines(node))
}

/// As [`body`], with its line ends.
fn lines(node: Node<'_, '_>) -> String {
    let text: String = node.children().filter(Node::is_text).filter_map(|child| child.text()).collect();
    text.trim().to_owned()
}

/// As [`body`], or an error that passes the verb over.
pub(super) fn needed_body(node: Node<'_, '_>, entry: &ElementEntry, notes: &mut Notes<'_>) -> Option<String> {
    let text = body(node);
    needed(node, entry, text, notes)
}

/// A text without which the verb means nothing: an empty one is noted and the verb passed over.
fn needed(node: Node<'_, '_>, entry: &ElementEntry, text: String, notes: &mut Notes<'_>) -> Option<String> {
    if text.is_empty() {
        let place = notes.place_at(node.range().start);
        notes.error(place, code::INVALID, format!("<{}> without {}: passed over", entry.name, entry.body));
        return None;
    }
    Some(text)
}

/// Reads one verb. `None` if it is passed over.
fn verb(node: Node<'_, '_>, entry: &'static ElementEntry, notes: &mut Notes<'_>) -> Option<Verb> {
    let fields = Fields::read(node, entry, notes);
    let place = notes.place_at(node.range().start);
    if entry.body.is_empty() {
        stray_text(node, entry.name, notes);
    }
    // Elements with children note unknown ones as they read them; all children of the others are unknown.
    if entry.children.is_empty() {
        children(node, entry, notes);
    }
    match entry.name {
        "Say" => say(node, entry, &fields, notes).map(Verb::Say),
        "Play" => play(node, entry, &fields, notes).map(Verb::Play),
        "Pause" => Some(Verb::Pause(fields.seconds("length"))),
        "Gather" => Some(Verb::Gather(Box::new(gather(node, entry, &fields, notes)))),
        "Record" => Some(Verb::Record(Box::new(record(&fields)))),
        "Dial" => dial::dial(node, entry, &fields, notes).map(|dial| Verb::Dial(Box::new(dial))),
        "Enqueue" => enqueue(node, entry, &fields, notes).map(Verb::Enqueue),
        "Leave" => Some(Verb::Leave),
        "Redirect" => Some(Verb::Redirect(Target { url: body(node), method: fields.method("method") })),
        "Reject" => Some(Verb::Reject { busy: fields.text("reason") == Some("busy") }),
        "Hangup" => Some(Verb::Hangup),
        "Sms" | "Message" => sms(node, entry, &fields, notes).map(Verb::Sms),
        "Email" => email(node, entry, &fields, place, notes).map(Verb::Email),
        "Refer" => refer(node, entry, &fields, notes).map(Verb::Refer),
        "Echo" => Some(Verb::Echo),
        "Start" => stream(node, entry, notes).and_then(|(stream, _)| stream).map(Verb::StartStream),
        "Stop" => stream(node, entry, notes).map(|(_, name)| Verb::StopStream { name }),
        "Connect" => {
            let stream = stream(node, entry, notes)?.0?;
            Some(Verb::ConnectStream { stream, action: fields.target("action", "method") })
        }
        other => unreachable!("<{other}> stands among the verbs and is read nowhere"),
    }
}

/// The text of a Say, with its SSML.
fn say(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<Piece> {
    let named = fields.text("voice").and_then(named);
    let voice = named.map_or(Voice::Man, |named| named.voice);
    // As at Twilio, a voice of one language says which that is.
    let of_voice = named.and_then(|named| named.language).filter(|_| fields.given("language").is_none());
    let language = of_voice.map(str::to_owned).or_else(|| fields.filled("language"));
    let items = spoken(node, entry, voice, language.as_deref().unwrap_or("en"), notes);
    if items.is_empty() {
        notes.warn(notes.place_at(node.range().start), "<Say> without a text: passed over".to_owned());
        return None;
    }
    Some(Piece { items, loops: fields.number("loop") })
}

/// The URL or the `digits` of a Play.
fn play(node: Node<'_, '_>, entry: &ElementEntry, fields: &Fields, notes: &mut Notes<'_>) -> Option<Piece> {
    let items = match fields.filled("digits") {
        Some(digits) => tones(&digits),
        None => vec![Item::Audio { url: needed_body(node, entry, notes)? }],
    };
    Some(Piece { items, loops: fields.number("loop") })
}

/// `1w2`: keys, and half seconds of silence.
pub fn tones(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for c in text.chars() {
        let pause = match c {
            'w' => Duration::from_millis(500),
            'W' => Duration::from_secs(1),
            key => {
                match items.last_mut() {
                    Some(Item::Digits(keys)) => keys.push(key),
                    _ => items.push(Item::Digits(key.to_string())),
                }
                continue;
            }
        };
        match items.last_mut() {
            Some(Item::Silence(so_far)) => *so_far += pause,
            _ => items.push(Item::Silence(pause)),
        }
    }
    items
}

/// A Gather with its nested prompts.
fn gather(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Gather {
    let mut prompt = Vec::new();
    for (index, (child, kind)) in children(node, entry, notes).into_iter().enumerate() {
        if index == limits::GATHER_CHILDREN {
            let text = format!("<Gather>: only the first {} children are played", limits::GATHER_CHILDREN);
            notes.error(notes.place_at(child.range().start), code::INVALID, text);
            break;
        }
        let nested = Fields::read(child, kind, notes);
        prompt.extend(match kind.name {
            "Say" => say(child, kind, &nested, notes),
            "Play" => play(child, kind, &nested, notes),
            _ => Some(Piece { items: vec![Item::Silence(nested.seconds("length"))], loops: 1 }),
        });
    }
    let input = fields.words("input");
    let hints = fields.filled("hints").unwrap_or_default();
    Gather {
        action: fields.filled("action"),
        method: fields.method("method"),
        // Twilio's `auto` ends an input after its own five seconds.
        timeout: Duration::from_secs(u64::from(fields.whole("timeout").unwrap_or(5))),
        speech_timeout: fields.whole("speechTimeout").map(|seconds| Duration::from_secs(u64::from(seconds))),
        max_speech: fields.seconds("maxSpeechTime"),
        finish_on_key: fields.keys("finishOnKey"),
        num_digits: fields.whole("numDigits"),
        start_input_key: fields.keys("startInputKey"),
        dtmf: input.contains(&"dtmf"),
        speech: input.contains(&"speech"),
        partial: fields.target("partialResultCallback", "partialResultCallbackMethod"),
        language: fields.filled("language").unwrap_or_default(),
        hints: hints.split(',').map(str::trim).filter(|hint| !hint.is_empty()).map(str::to_owned).collect(),
        barge_in: fields.flag("bargeIn"),
        action_on_empty_result: fields.flag("actionOnEmptyResult"),
        prompt,
    }
}

/// A Record. A `transcribeCallback` implies `transcribe`.
fn record(fields: &Fields) -> Record {
    let callback = fields.filled("transcribeCallback").map(|url| Target { url, method: Default::default() });
    let is_transcribed = fields.flag("transcribe") || callback.is_some();
    Record {
        action: fields.filled("action"),
        method: fields.method("method"),
        timeout: fields.seconds("timeout"),
        finish_on_key: fields.keys("finishOnKey"),
        max_length: fields.seconds("maxLength"),
        play_beep: fields.flag("playBeep"),
        trim: fields.text("trim") == Some("trim-silence"),
        transcribe: is_transcribed.then_some(Transcribe { callback }),
        mailbox: fields.filled("mailbox"),
        status: fields.callback("recordingStatusCallback"),
    }
}

/// An Enqueue; the text is the name of the queue.
fn enqueue(
    node: Node<'_, '_>,
    entry: &ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<Enqueue> {
    Some(Enqueue {
        name: needed_body(node, entry, notes)?,
        action: fields.target("action", "method"),
        wait: fields.target("waitUrl", "waitUrlMethod"),
        max_size: fields.whole("maxQueueSize"),
    })
}

/// An Sms; the text, or a nested `<Body>`, is the message.
fn sms(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<Sms> {
    let inner = children(node, entry, notes).into_iter().find(|(_, kind)| kind.name == "Body");
    let text = inner.map(|(child, _)| plain(child).trim().to_owned()).filter(|text| !text.is_empty());
    Some(Sms {
        body: match text {
            Some(text) => text,
            None => needed(node, entry, lines(node), notes)?,
        },
        to: fields.filled("to"),
        from: fields.filled("from"),
        action: fields.target("action", "method"),
        status: fields.filled("statusCallback"),
    })
}

/// An Email. One without `to`, `from` or a text is passed over.
fn email(
    node: Node<'_, '_>,
    entry: &ElementEntry,
    fields: &Fields,
    place: Place,
    notes: &mut Notes<'_>,
) -> Option<Email> {
    let addresses = |text: Option<String>| -> Vec<String> {
        let text = text.unwrap_or_default();
        text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect()
    };
    // All that lacks is told at once.
    let (to, from) = (required(fields, "to", place, notes), required(fields, "from", place, notes));
    let body = needed(node, entry, lines(node), notes);
    Some(Email {
        to: addresses(Some(to?)),
        from: from?,
        cc: addresses(fields.filled("cc")),
        bcc: addresses(fields.filled("bcc")),
        subject: fields.filled("subject").unwrap_or_default(),
        body: body?,
    })
}

/// A Refer; the nested `<Sip>` is the URI.
fn refer(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    fields: &Fields,
    notes: &mut Notes<'_>,
) -> Option<Refer> {
    let action = fields.target("action", "method");
    let Some((child, kind)) = children(node, entry, notes).into_iter().next() else {
        let place = notes.place_at(node.range().start);
        notes.error(place, code::INVALID, "<Refer> without <Sip>: passed over".to_owned());
        return None;
    };
    Fields::read(child, kind, notes);
    Some(Refer { uri: needed_body(child, kind, notes)?, action })
}

/// The stream, when it can be begun, and its name. Nothing without a `<Stream>`.
fn stream(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    notes: &mut Notes<'_>,
) -> Option<(Option<Stream>, Option<String>)> {
    let place = notes.place_at(node.range().start);
    let Some((child, kind)) = children(node, entry, notes).into_iter().next() else {
        notes.error(place, code::INVALID, format!("<{}> without <Stream>: passed over", entry.name));
        return None;
    };
    let fields = Fields::read(child, kind, notes);
    let parameters = children(child, kind, notes)
        .into_iter()
        .filter_map(|(parameter, kind)| {
            let fields = Fields::read(parameter, kind, notes);
            Some((fields.filled("name")?, fields.filled("value").unwrap_or_default()))
        })
        .collect();
    let name = fields.filled("name");
    if entry.name == "Stop" {
        return Some((None, name));
    }
    let url = fields.filled("url").filter(|url| url.starts_with("ws:") || url.starts_with("wss:"));
    if url.is_none() {
        notes.error(
            place,
            code::INVALID,
            format!("<Stream> without a ws: or wss: url: <{}> passed over", entry.name),
        );
    }
    let track = match fields.text("track") {
        Some("outbound_track") => Track::Outbound,
        Some("both_tracks") => Track::Both,
        _ => Track::Inbound,
    };
    let status = fields.target("statusCallback", "statusCallbackMethod");
    Some((url.map(|url| Stream { name: name.clone(), url, track, status, parameters }), name))
}
