//! The content of Say: SSML (W3C SSML 1.1) reduced to plain text in one voice and language, and pauses.
//!
//! Engines of speech differ in the SSML that they know, so only what all of them can do is left: text, pauses, language. `walk` goes through the tree
//! in the order of the text.

use std::time::Duration;

use roxmltree::Node;

use super::fields::Fields;
use super::lexicon::ElementEntry;
use super::read::children;
use super::verb::{Item, Voice};
use super::{Notes, Place};
use crate::limits::{SPEECH_BREAK, SPEECH_CHARS};

/// Amazon's engine, which most SSML is written for, pauses so long after them.
const AFTER_PARAGRAPH: Duration = Duration::from_millis(700);
const AFTER_SENTENCE: Duration = Duration::from_millis(400);

/// The items of a Say: texts and the pauses between them.
pub(super) fn spoken(
    node: Node<'_, '_>,
    entry: &'static ElementEntry,
    voice: Voice,
    language: &str,
    notes: &mut Notes<'_>,
) -> Vec<Item> {
    let mut out = Spoken {
        items: Vec::new(),
        text: String::new(),
        voice,
        language: language.to_owned(),
        left: SPEECH_CHARS,
    };
    out.walk(node, entry, notes);
    out.flush();
    if out.left == 0 {
        let place = notes.place_at(node.range().start);
        notes.warn(place, format!("only the first {SPEECH_CHARS} characters are spoken"));
    }
    // Pauses after the last word are dropped.
    while out.items.len() > 1
        && matches!(out.items.last(), Some(Item::Silence(pause)) if *pause <= AFTER_PARAGRAPH)
    {
        out.items.pop();
    }
    out.items
}

/// The items so far, and the text that is not yet one.
struct Spoken {
    /// Finished texts and pauses.
    items: Vec<Item>,
    /// Text since the last item, with single blanks.
    text: String,
    /// The voice of the whole Say.
    voice: Voice,
    /// The `language` of the Say, or of the innermost `<lang>`.
    language: String,
    /// Characters that may still come.
    left: usize,
}

impl Spoken {
    /// Texts and elements in their order.
    fn walk(&mut self, node: Node<'_, '_>, entry: &'static ElementEntry, notes: &mut Notes<'_>) {
        // A text alone is the common case.
        if node.first_element_child().is_none() {
            for child in node.children().filter(Node::is_text) {
                self.say(child.text().unwrap_or_default());
            }
            return;
        }
        // In the order of the document, as the nodes below.
        let mut known = children(node, entry, notes).into_iter().peekable();
        for child in node.children() {
            if child.is_text() {
                self.say(child.text().unwrap_or_default());
            } else if child.is_element() {
                match known.next_if(|(node, _)| *node == child) {
                    Some((node, entry)) => self.element(node, entry, notes),
                    // Not SSML's, noted already: its text is still meant to be heard.
                    None => self.say(&plain(child)),
                }
            }
        }
    }

    /// One element of SSML: a pause, another language, or only its text.
    fn element(&mut self, node: Node<'_, '_>, entry: &'static ElementEntry, notes: &mut Notes<'_>) {
        let fields = Fields::read(node, entry, notes);
        match entry.name {
            "break" => {
                let pause = pause(&fields, notes.place_at(node.range().start), notes);
                self.pause(pause);
            }
            "p" => {
                self.walk(node, entry, notes);
                self.pause(AFTER_PARAGRAPH);
            }
            "s" => {
                self.walk(node, entry, notes);
                self.pause(AFTER_SENTENCE);
            }
            "lang" => {
                let language = fields.filled("xml:lang").unwrap_or_else(|| self.language.clone());
                self.flush();
                let outer = std::mem::replace(&mut self.language, language);
                self.walk(node, entry, notes);
                self.flush();
                self.language = outer;
            }
            "sub" => {
                let text = fields.filled("alias").unwrap_or_else(|| plain(node));
                self.say(&text);
            }
            "say-as" => {
                let text = plain(node);
                match fields.text("interpret-as").unwrap_or_default() {
                    "characters" | "spell-out" | "digits" | "telephone" => self.say(&one_by_one(&text)),
                    _ => self.say(&text),
                }
            }
            _ => self.walk(node, entry, notes),
        }
    }

    /// Blanks and line ends are one blank.
    fn say(&mut self, text: &str) {
        for c in text.chars() {
            let blank = c.is_whitespace() || c.is_control();
            if blank && (self.text.is_empty() || self.text.ends_with(' ')) {
                continue;
            }
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.text.push(if blank { ' ' } else { c });
        }
    }

    /// The text so far becomes an item.
    fn flush(&mut self) {
        let text = self.text.trim_end();
        if !text.is_empty() {
            let (voice, language) = (self.voice, self.language.clone());
            self.items.push(Item::Speech { text: text.to_owned(), voice, language });
        }
        self.text.clear();
    }

    /// Two pauses in a row are the longer one, so that the last sentence of a paragraph adds nothing.
    fn pause(&mut self, pause: Duration) {
        self.flush();
        match self.items.last_mut() {
            Some(Item::Silence(last)) => *last = pause.max(*last),
            _ if pause.is_zero() => {}
            _ => self.items.push(Item::Silence(pause)),
        }
    }
}

/// All text inside.
pub(super) fn plain(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// "A1" is spoken "A 1".
fn one_by_one(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len() * 2);
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        if !spelled.is_empty() {
            spelled.push(' ');
        }
        spelled.push(c);
    }
    spelled
}

/// The length of a `<break>`, from `time` or `strength`, at most [`SPEECH_BREAK`].
fn pause(fields: &Fields, place: Place, notes: &mut Notes<'_>) -> Duration {
    if let Some(written) = fields.given("time") {
        match time(written) {
            Some(pause) => return pause.min(SPEECH_BREAK),
            None => notes
                .warn(place, "time on <break>: expected seconds or milliseconds, as 2s or 500ms".to_owned()),
        }
    }
    Duration::from_millis(match fields.text("strength").unwrap_or_default() {
        "none" | "x-weak" => 0,
        "weak" => 200,
        "strong" => 700,
        "x-strong" => 1_000,
        _ => 400,
    })
}

/// CSS2's times: `2s`, `1.5s`, `500ms`.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    // NaN, negative and infinite values are not durations.
    Duration::try_from_secs_f64(seconds).ok()
}
