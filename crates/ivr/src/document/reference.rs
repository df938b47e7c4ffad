//! The reference page of the language, made of the tables that documents are read with.

use std::fmt::Write;

use super::lexicon::{Attribute, ELSEWHERE, ElementEntry, NOUNS, SPOKEN, VERBS, ValueKind};
use crate::limits;

/// The beginning of the page.
const INTRODUCTION: &str = "\
# Documents: RCML and TwiML

This page is made by the code that reads documents; `BLESS=1 cargo test -p ivr` writes it anew.

A call to a bound number asks the application's URL for a document and performs its verbs from top to bottom. RestComm's RCML and
Twilio's TwiML are one language: a document is XML in UTF-8 or ISO-8859-1 with `<Response>` outermost; without DTD, own entities
and processing instructions. An answer of type `audio/…` is played, one of type `text/plain` is spoken; other types than XML
and `text/html` (which is read as XML) are refused.

What is not known, or does not hold what it should, never stops a call: it is passed over, or the default is taken, and the call's
notifications say so with the line. A verb that lacks what it needs is passed over. A text that is no XML at all is answered
by asking the fallback URL, and without one by a spoken apology, or a refusal when the call is not answered yet.

Names are written as here. URLs may be relative to the document's own; in `<Play>`, `file:NAME` is a sound of the server's folder
`voice.prompts`. Documents may be files of the server's own, too: [applications.md](applications.md). A *bool* is `true` or `false`.

The call ends with its document. A BYE that follows a word at once cuts off what the phone has received and not played yet,
so a call stays up for `[voice] end_pause` (0.5 s) after the last sound that was played to its end. `<Hangup>` and a late `<Reject>`
wait in the same way: documents whose last verb is `<Hangup>` sound like those without it. Time that passes after the sound, in a
`<Pause>` or a `<Gather>`, counts. Hanging up by REST, the call's time limit and the node's own end do not wait.
";

/// Markdown.
pub fn reference_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (heading, entries) in [("Verbs", VERBS), ("Inside verbs", NOUNS), ("Inside `<Say>`", SPOKEN)] {
        let _ = writeln!(page, "\n## {heading}");
        for entry in entries {
            section(&mut page, entry);
        }
    }
    page.push_str("\n## Passed over\n\nThese verbs are known and need what this server has not; a note says so and the next verb follows.\n\n");
    page.push_str("| Verb | Why |\n|---|---|\n");
    for (name, reason) in ELSEWHERE {
        let _ = writeln!(page, "| `<{name}>` | {} |", reason.replace('<', "\\<"));
    }
    limits(&mut page);
    page
}

/// The section of one element: its attributes as a table.
fn section(page: &mut String, entry: &ElementEntry) {
    let _ = write!(page, "\n### `<{}>`\n\n{}", entry.name, entry.about);
    if !entry.body.is_empty() {
        let _ = write!(page, " Holds {}.", entry.body);
    }
    if !entry.children.is_empty() {
        let names: Vec<String> = entry.children.iter().map(|name| format!("`<{name}>`")).collect();
        let _ = write!(page, " May hold {}.", names.join(", "));
    }
    page.push('\n');
    if entry.attributes.is_empty() {
        return;
    }
    page.push_str("\n| Attribute | Value | Default | Meaning |\n|---|---|---|---|\n");
    for attribute in entry.attributes {
        let default = match attribute.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let Attribute { name, kind, about, .. } = attribute;
        let _ = writeln!(page, "| `{name}` | {} | {default} | {about} |", value(*kind));
    }
}

/// The values of an attribute, in words.
fn value(kind: ValueKind) -> String {
    let ticked = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match kind {
        ValueKind::Text | ValueKind::Passed => "text".to_owned(),
        ValueKind::Required => "text, needed".to_owned(),
        ValueKind::Url => "URL".to_owned(),
        ValueKind::Method => "`GET`, `POST`".to_owned(),
        ValueKind::Bool => "bool".to_owned(),
        ValueKind::Whole { min, max } => format!("{min} to {max}"),
        ValueKind::WholeOrAuto { min, max } => format!("{min} to {max}, `auto`"),
        ValueKind::OneOf(words) => ticked(words),
        ValueKind::Voice => {
            format!(
                "{}, `Polly.Joanna`, `Google.en-US-Wavenet-C` and the like",
                ticked(&["man", "woman", "alice"])
            )
        }
        ValueKind::Words(words) => format!("some of {}", ticked(words)),
        ValueKind::Keys => "keys `0`-`9`, `*`, `#`".to_owned(),
        ValueKind::Tones => "keys, `w`, `W`".to_owned(),
    }
}

/// The section about limits, from [`crate::limits`].
fn limits(page: &mut String) {
    page.push_str("\n## Limits\n\n| What | At most |\n|---|---|\n");
    for (what, most) in [
        ("bytes of a document", limits::DOCUMENT_BYTES.to_string()),
        ("elements inside elements", limits::DOCUMENT_DEPTH.to_string()),
        ("elements, texts and comments", limits::DOCUMENT_NODES.to_string()),
        ("attributes of one element", limits::DOCUMENT_ATTRIBUTES.to_string()),
        ("`xmlns` declarations of a document", limits::DOCUMENT_NAMESPACES.to_string()),
        ("verbs of a document", limits::DOCUMENT_VERBS.to_string()),
        ("characters of one `<Say>`", limits::SPEECH_CHARS.to_string()),
        ("children of one `<Gather>`", limits::GATHER_CHILDREN.to_string()),
        ("characters of `digits` and `sendDigits`", limits::TONES.to_string()),
        ("children of one `<Dial>`", limits::DIAL_TARGETS.to_string()),
        ("bytes of a URL", limits::URL_BYTES.to_string()),
        ("documents of a call", limits::DOCUMENTS_PER_CALL.to_string()),
        ("documents in a row that take no time", limits::DOCUMENTS_WITHOUT_PAUSE.to_string()),
        ("seconds of a call", limits::CALL_DURATION.as_secs().to_string()),
    ] {
        let _ = writeln!(page, "| {what} | {most} |");
    }
}
