//! Stanzas of a file, sent as they stand there.
//!
//! Read and checked when the load is set up: a stanza that would disturb the accounting of the load is refused. Placeholders are filled in when it is sent.

use lab_sip::stats::Count;
use stdx::time::Instant;
use xmpp::limits::STANZA;
use xmpp::xml::{Frame, Framer, Prefixes, parse};
use xmpp::{Element, ns};

use super::actions::UserActions;
use super::mix::UserAction;
use super::model::TimerName;
use super::user::PendingRequest;
use super::user_pool::PoolContext;

/// One of them, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StanzaTemplate {
    /// Text and placeholders in turn.
    parts: Vec<TemplatePart>,
    /// An iq of type get or set, which has an answer.
    is_question: bool,
}

/// A part of a stanza.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    /// Text as it stands.
    Text(Box<str>),
    /// A placeholder, filled in for each stanza.
    Place(Placeholder),
}

/// A placeholder in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    /// The name of the account.
    User,
    /// The users' domain.
    Domain,
    /// The user's bare address.
    Jid,
    /// The bare address of a contact that is signed in.
    Contact,
    /// A new id, by which an answer is known.
    Id,
    /// The number of the user, as in patterns.
    Number,
}

/// Other text in braces stays as it is.
const PLACES: [(&str, Placeholder); 6] = [
    ("{user}", Placeholder::User),
    ("{domain}", Placeholder::Domain),
    ("{jid}", Placeholder::Jid),
    ("{contact}", Placeholder::Contact),
    ("{id}", Placeholder::Id),
    ("{n}", Placeholder::Number),
];

/// Types of presence after which a contact hears no more of the user.
const ENDS: [&str; 3] = ["unavailable", "unsubscribe", "unsubscribed"];

/// The stream header that precedes the stanzas of a file for the parser.
const STREAM: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";

impl StanzaTemplate {
    /// All of a file: one, or several after each other.
    ///
    /// # Errors
    /// The fault, with file and line.
    pub fn parse_all(text: &str, file: &str) -> Result<Vec<StanzaTemplate>, String> {
        let at = |line: usize, what: String| format!("{file}:{line}: {what}");
        let mut framer = Framer::new();
        framer.put(STREAM.as_bytes());
        framer.next(STANZA).map_err(|error| error.to_string())?;
        let mut stanzas = Vec::new();
        let mut began = 1;
        for (line, bytes) in (1..).zip(text.trim_start_matches('\u{feff}').split_inclusive('\n')) {
            if framer.is_empty() {
                began = line;
            }
            framer.put(bytes.as_bytes());
            loop {
                match framer.next(STANZA).map_err(|error| at(line, error.to_string()))? {
                    None => break,
                    Some(Frame::Whitespace | Frame::Header(_)) => {}
                    Some(Frame::Close) => return Err(at(line, "a closing tag too many".to_owned())),
                    Some(Frame::Stanza(range)) => {
                        let element = parse(framer.bytes(range), &Prefixes::usual());
                        let element = element.map_err(|error| at(began, error.to_string()))?;
                        stanzas.push(StanzaTemplate::of(element).map_err(|what| at(began, what))?);
                        began = line;
                    }
                }
            }
        }
        if !framer.is_empty() {
            return Err(at(began, "the stanza that begins here has no end".to_owned()));
        }
        if stanzas.is_empty() {
            return Err(format!("{file}: expected a stanza: message, presence or iq"));
        }
        Ok(stanzas)
    }

    /// One stanza, checked by its kind.
    fn of(mut element: Element) -> Result<StanzaTemplate, String> {
        let kind = element.attr("type").unwrap_or_default().to_owned();
        let mut is_question = false;
        match (element.name(), element.ns()) {
            ("iq", ns::CLIENT) => match &*kind {
                "get" | "set" => {
                    // By it the answer is known.
                    element.set("id", "{id}");
                    is_question = true;
                }
                "result" | "error" => {}
                _ => return Err(format!("an iq of type {kind:?}: expected get, set, result or error")),
            },
            ("message", ns::CLIENT) => {
                // RFC 6120 §8.2.3: what comes back has the id of what was sent.
                let rest = element.attr("id").and_then(|id| id.strip_prefix('m'));
                if rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '{')) {
                    return Err("an id of m and a number, as the load's own messages have: expected another"
                        .to_owned());
                }
            }
            ("presence", ns::CLIENT) => accept_presence(&element, &kind)?,
            (name, ns) => return Err(format!("<{name}> of {ns:?}: expected message, presence or iq")),
        }
        let bytes = element.to_bytes(ns::CLIENT);
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        Ok(StanzaTemplate { parts: parts(&text), is_question })
    }

    fn has(&self, place: Placeholder) -> bool {
        self.parts.contains(&TemplatePart::Place(place))
    }
}

/// A user that is no longer visible would count as forgotten by the server.
fn accept_presence(presence: &Element, kind: &str) -> Result<(), String> {
    let to = presence.attr("to");
    let is_of_load = to.is_none_or(|to| to.contains("{contact}"));
    if is_of_load && ENDS.contains(&kind) {
        return Err(format!(
            "a presence of type {kind:?} to contacts: expected one after which they still see the user (the action logout signs out)"
        ));
    }
    let priority = presence.content_of("priority", ns::CLIENT);
    if to.is_none() && priority.is_some_and(|priority| priority.trim().starts_with('-')) {
        return Err("a negative priority: expected one with which messages still come".to_owned());
    }
    Ok(())
}

/// Cuts a text at its placeholders.
fn parts(text: &str) -> Vec<TemplatePart> {
    let mut parts = Vec::new();
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(next) = rest.chars().next() {
        match PLACES.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, place)) => {
                if !plain.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut plain).into()));
                }
                parts.push(TemplatePart::Place(*place));
                rest = &rest[name.len()..];
            }
            None => {
                plain.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    if !plain.is_empty() {
        parts.push(TemplatePart::Text(plain.into()));
    }
    parts
}

impl UserActions<'_> {
    /// Sends a random template. Messages and presences among them are not accounted for.
    pub(super) fn send_template(&mut self, due: Instant, ctx: &mut PoolContext<'_>) {
        let load = self.load;
        let drawn = usize::try_from(self.rng.below((load.stanzas.len() as u64).max(1))).unwrap_or_default();
        let Some(stanza) = load.stanzas.get(drawn) else { return ctx.stats.count(Count::Blocked) };
        let waits = stanza.is_question && self.user.asked.is_some();
        let contact = match stanza.has(Placeholder::Contact) {
            true => self.draw_contact(UserAction::MessageOnline, ctx),
            false => Some(0),
        };
        let Some(contact) = contact.filter(|_| !waits) else { return ctx.stats.count(Count::Blocked) };
        let user = &mut *self.user;
        let (number, id) = (user.number, user.next_id());
        let people = &load.people;
        let fill = |place| match place {
            Placeholder::User => people.name(number),
            Placeholder::Domain => people.domain().to_owned(),
            Placeholder::Jid => people.address(number),
            Placeholder::Contact => people.address(people.contact(number, contact)),
            Placeholder::Id => format!("i{id}"),
            Placeholder::Number => people.shown(number).to_string(),
        };
        ctx.write(self.slot, |out| {
            for part in &stanza.parts {
                match part {
                    TemplatePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                    TemplatePart::Place(place) => out.extend_from_slice(fill(*place).as_bytes()),
                }
            }
        });
        ctx.stats.count(Count::OutgoingCall);
        ctx.stats.count(Count::MessagesSent);
        if stanza.is_question {
            user.asked = Some(PendingRequest { id, timed: TimerName::Raw, due, sent: ctx.now, then: None });
            self.set_response_deadline(ctx.now + load.patience);
        } else {
            ctx.stats.count(Count::SuccessfulCall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<StanzaTemplate>, String> {
        StanzaTemplate::parse_all(text, "s.xml")
    }

    /// With each placeholder in brackets.
    fn shown(stanza: &StanzaTemplate) -> String {
        let shown = stanza.parts.iter().map(|part| match part {
            TemplatePart::Text(text) => text.to_string(),
            TemplatePart::Place(place) => format!("[{place:?}]"),
        });
        shown.collect()
    }

    #[test]
    fn a_file_has_one_stanza_or_several() {
        let text = "<message to='{contact}'>\n <body>{\"a\": {n}} &amp; {user}</body></message><presence/>\n\
            <iq type='get' id='mine' to='{domain}' xmlns='jabber:client'><ping xmlns='urn:xmpp:ping'/></iq>\n";
        let stanzas = parsed(text).unwrap();
        assert_eq!(stanzas.iter().map(|stanza| stanza.is_question).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(
            stanzas.iter().map(shown).collect::<Vec<_>>(),
            [
                "<message to='[Contact]'>\n <body>{\"a\": [Number]} &amp; [User]</body></message>",
                "<presence/>",
                "<iq type='get' id='[Id]' to='[Domain]'><ping xmlns='urn:xmpp:ping'/></iq>",
            ]
        );
    }

    #[test]
    fn mistakes_name_file_and_line() {
        for (text, says) in [
            ("", "s.xml: expected a stanza"),
            (
                "<presence/>\n\n<hello/>",
                "s.xml:3: <hello> of \"jabber:client\": expected message, presence or iq",
            ),
            ("<presence/>\n<message>\n<body></message>\n", "s.xml:2: "),
            ("\n<message>\n<body>\n", "s.xml:2: the stanza that begins here has no end"),
            ("<presence/>\nhello", "s.xml:2: text between stanzas"),
            ("<presence/>\n</presence>", "s.xml:2: a closing tag too many"),
            ("<!-- a -->", "s.xml:1: "),
            ("<iq/>", "s.xml:1: an iq of type \"\": expected get, set, result or error"),
            ("<message id='m7'/>", "expected another"),
            ("<message id='m{n}'/>", "expected another"),
            ("<presence type='unavailable'/>", "the action logout"),
            ("<presence type='unsubscribed' to='{contact}'/>", "expected one after which they still see"),
            ("<presence><priority>-1</priority></presence>", "with which messages still come"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        for text in ["<message id='mine'/>", "<presence to='room@c.d/n' type='unavailable'/>"] {
            assert!(parsed(text).is_ok(), "{text}");
        }
    }
}
