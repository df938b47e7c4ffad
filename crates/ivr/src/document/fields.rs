//! One element's attributes, held against its table entry; errors become notes.
//!
//! The functions of [`Fields`] return what is given and good, or else the default of the table. To ask for a name that the table does not have is a
//! defect of this crate: `attribute` panics.

use std::time::Duration;

use roxmltree::Node;

use super::lexicon::{Attribute, ElementEntry, ValueKind};
use super::verb::Callback;
use super::voices::named;
use super::{Notes, Place, code};
use crate::limits::TONES;
use crate::request::{Method, Target};

/// The namespace of `xml:lang` and `xml:space`, which every element may have.
const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

/// The attributes of one element, checked by its table. Values that the table refuses are noted and replaced by the
/// default.
pub(super) struct Fields {
    /// The table of the element.
    entry: &'static ElementEntry,
    /// Those that hold what their kind asks for.
    given: Vec<(&'static Attribute, String)>,
}

impl Fields {
    /// Reads the attributes of an element and notes those that the table does not have.
    pub(super) fn read(node: Node<'_, '_>, entry: &'static ElementEntry, notes: &mut Notes<'_>) -> Fields {
        let mut given = Vec::new();
        for attribute in node.attributes() {
            let name = match attribute.namespace() {
                None => attribute.name().to_owned(),
                Some(XML_NAMESPACE) => format!("xml:{}", attribute.name()),
                // Schema hints and the like: not ours to judge.
                Some(_) => continue,
            };
            let place = notes.place_at(attribute.range().start);
            let Some(known) = entry.attributes.iter().find(|known| known.name == name) else {
                if notes.is_full() {
                    continue;
                }
                let hint = nearest(&name, entry.attributes.iter().map(|known| known.name));
                notes.warn(place, format!("`{name}` means nothing on <{}> and is ignored{hint}", entry.name));
                continue;
            };
            match expectation(known.kind, attribute.value()) {
                None => given.push((known, canonical(known.kind, &harmless(attribute.value())))),
                Some(expected) if expected.is_empty() => {
                    notes.info(place, format!("`{name}` on <{}> has no effect here", entry.name));
                }
                Some(expected) => notes.warn(
                    place,
                    format!(
                        "{name}=\"{}\" on <{}>: expected {expected}; {} is taken",
                        shorten(attribute.value()),
                        entry.name,
                        if known.default.is_empty() { "none" } else { known.default },
                    ),
                ),
            }
        }
        Fields { entry, given }
    }

    /// The given value, else the default. None when there is neither.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let given = self.given.iter().find(|(known, _)| known.name == name).map(|(_, value)| value.as_str());
        given.or_else(|| Some(self.attribute(name).default).filter(|default| !default.is_empty()))
    }

    /// As [`Fields::text`], and an empty value is none.
    pub(super) fn filled(&self, name: &str) -> Option<String> {
        self.text(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// The value as written; `None` if the attribute is absent or was refused.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(known, _)| known.name == name).map(|(_, value)| value.as_str())
    }

    /// A whole number, the default included.
    pub(super) fn whole(&self, name: &str) -> Option<u32> {
        self.text(name).and_then(|value| value.parse().ok())
    }

    /// The value of an attribute that has a default.
    pub(super) fn number(&self, name: &str) -> u32 {
        self.whole(name).expect("the table gives it a default")
    }

    /// A whole number of seconds.
    pub(super) fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(u64::from(self.number(name)))
    }

    /// `true` or `false`, the default included.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// GET or POST, the default included.
    pub(super) fn method(&self, name: &str) -> Method {
        self.text(name).and_then(Method::parse).unwrap_or_default()
    }

    /// The URL of one attribute with the method of another; `None` without the URL.
    pub(super) fn target(&self, url: &str, method: &str) -> Option<Target> {
        Some(Target { url: self.filled(url)?, method: self.method(method) })
    }

    /// Keys of a telephone; `-1` means none, as an empty value does.
    pub(super) fn keys(&self, name: &str) -> String {
        self.text(name).filter(|value| *value != "-1").unwrap_or_default().to_owned()
    }

    /// `name`, `nameMethod`, `nameEvent`.
    pub(super) fn callback(&self, name: &str) -> Option<Callback> {
        let target = self.target(name, &format!("{name}Method"))?;
        Some(Callback { target, events: self.words(&format!("{name}Event")) })
    }

    /// The words of a list, as the table spells them.
    pub(super) fn words(&self, name: &str) -> Vec<&'static str> {
        let ValueKind::Words(known) = self.attribute(name).kind else { return Vec::new() };
        let text = self.text(name).unwrap_or_default();
        known
            .iter()
            .copied()
            .filter(|word| split(text).any(|written| written.eq_ignore_ascii_case(word)))
            .collect()
    }

    /// The table's row of an attribute. A name that the table does not have is a mistake of this crate.
    fn attribute(&self, name: &str) -> &'static Attribute {
        self.entry
            .attributes
            .iter()
            .find(|known| known.name == name)
            .expect("the reader asks for what the table has")
    }
}

/// Both blanks and commas: applications write either.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', '\t', '\n', '\r']).filter(|word| !word.is_empty())
}

/// The table's spelling of a word.
fn canonical(kind: ValueKind, value: &str) -> String {
    let ValueKind::OneOf(words) = kind else { return value.to_owned() };
    words.iter().find(|word| word.eq_ignore_ascii_case(value)).map_or(value, |word| *word).to_owned()
}

/// The text that a note gives as expected value: `None` if the value is good, empty if the attribute is
/// ignored.
fn expectation(kind: ValueKind, value: &str) -> Option<String> {
    let value = value.trim();
    let whole = |min: u32, max: u32| value.parse::<u32>().is_ok_and(|number| (min..=max).contains(&number));
    let key = |c: char| matches!(c, '0'..='9' | '*' | '#' | 'A'..='D');
    match kind {
        ValueKind::Text | ValueKind::Required | ValueKind::Url => None,
        ValueKind::Method => Method::parse(value).is_none().then(|| "GET or POST".to_owned()),
        ValueKind::Bool => (!value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false"))
            .then(|| "true or false".to_owned()),
        ValueKind::Whole { min, max } => {
            (!whole(min, max)).then(|| format!("a whole number from {min} to {max}"))
        }
        ValueKind::WholeOrAuto { min, max } => (!whole(min, max) && value != "auto")
            .then(|| format!("a whole number from {min} to {max}, or auto")),
        ValueKind::OneOf(words) => (!words.iter().any(|word| word.eq_ignore_ascii_case(value)))
            .then(|| format!("one of {}", words.join(", "))),
        ValueKind::Voice => named(value)
            .is_none()
            .then(|| "man, woman, alice, or a voice as Polly.Joanna or Google.en-US-Wavenet-C".to_owned()),
        ValueKind::Words(words) => {
            let good = |word: &str| words.iter().any(|known| known.eq_ignore_ascii_case(word));
            (split(value).next().is_none() || !split(value).all(good))
                .then(|| format!("some of {}", words.join(", ")))
        }
        ValueKind::Keys => {
            (value != "-1" && !value.chars().all(key)).then(|| "keys 0-9, *, #, or -1".to_owned())
        }
        ValueKind::Tones => {
            let good = |c: char| key(c) || matches!(c, 'w' | 'W');
            let is_good = value.len() <= TONES && value.chars().all(good);
            (!is_good).then(|| format!("at most {TONES} of the keys 0-9, *, #, A-D, and of w and W"))
        }
        ValueKind::Passed => Some(String::new()),
    }
}

/// On one line and without control characters: `&#13;&#10;` in a value must not begin a header of a SIP request or mail.
pub(super) fn harmless(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Shortens a value for a note, so that a note never holds a page of text.
pub(super) fn shorten(text: &str) -> String {
    let text = harmless(text);
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// `; did you mean …?` when a name differs only in case, or by an ending.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let lower = name.to_ascii_lowercase();
    let near = |candidate: &&str| {
        let candidate = candidate.to_ascii_lowercase();
        let plain = |text: &str| text.replace(['-', '_'], "");
        candidate == lower
            || plain(&candidate) == plain(&lower)
            || candidate == format!("{lower}s")
            || format!("{candidate}s") == lower
    };
    known.into_iter().find(near).map(|found| format!("; did you mean `{found}`?")).unwrap_or_default()
}

/// A required attribute, or an error that passes the verb over.
pub(super) fn required(fields: &Fields, name: &str, place: Place, notes: &mut Notes<'_>) -> Option<String> {
    let value = fields.filled(name);
    if value.is_none() {
        notes.error(place, code::INVALID, format!("<{}> without {name}: passed over", fields.entry.name));
    }
    value
}
