//! Documents: their defaults, every attribute's good and bad values, every mistake's line, and any bytes.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::fields::nearest;
use super::lexicon::{ElementEntry, NOUNS, SPOKEN, VERBS, ValueKind, find};
use super::{Dialed, Document, Item, Severity, Verb, code, reference_page};
use crate::limits;

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes(), None).unwrap_or_else(|note| panic!("{note} in {text}"))
}

fn notes(text: &str) -> Vec<String> {
    parse(text).notes.iter().map(ToString::to_string).collect()
}

fn refused(bytes: &[u8]) -> (u32, u32, String) {
    let note = Document::parse(bytes, None).expect_err("it is refused");
    assert_eq!(note.severity, Severity::Error);
    (note.line, note.code, note.text)
}

#[test]
fn the_committed_reference_page_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rcml.md");
    let made = reference_page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &made).expect("the page is written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == made,
        "docs/rcml.md is not what the code makes; write it anew: BLESS=1 cargo test -p ivr"
    );
}

/// A document in which the element stands where it may, with these attributes.
fn around(entry: &ElementEntry, attributes: &str) -> String {
    let (name, in_dial) = (entry.name, |inner: String| format!("<Response><Dial>{inner}</Dial></Response>"));
    let body = if entry.body.is_empty() || entry.name == "Refer" { "" } else { "sip:a@b" };
    let element = match name {
        "Refer" => format!("<Refer {attributes}><Sip>sip:a@b</Sip></Refer>"),
        "Start" | "Stop" | "Connect" => format!("<{name} {attributes}><Stream url='ws://a/b'/></{name}>"),
        "Email" if attributes.starts_with("to=") => format!("<Email from='a@b' {attributes}>x</Email>"),
        "Email" if attributes.starts_with("from=") => format!("<Email to='a@b' {attributes}>x</Email>"),
        "Email" => format!("<Email to='a@b' from='c@d' {attributes}>x</Email>"),
        "Stream" if attributes.starts_with("url=") => format!("<Start><Stream {attributes}/></Start>"),
        "Stream" => format!("<Start><Stream url='ws://a/b' {attributes}/></Start>"),
        "Parameter" => format!("<Start><Stream url='ws://a/b'><Parameter {attributes}/></Stream></Start>"),
        _ => format!("<{name} {attributes}>{body}</{name}>"),
    };
    match name {
        _ if SPOKEN.iter().any(|spoken| spoken.name == name) => {
            format!("<Response><Say>a{element}</Say></Response>")
        }
        "Number" | "Client" | "Sip" | "Uri" | "Queue" | "Conference" => in_dial(element),
        "Identity" | "Video" => in_dial(format!("<Client>a{element}</Client>")),
        "Body" => format!("<Response><Message>{element}</Message></Response>"),
        _ => format!("<Response>{element}</Response>"),
    }
}

/// A good value that is not the default, and a bad one if there is any.
fn values(kind: ValueKind) -> (String, Option<&'static str>) {
    match kind {
        ValueKind::Text | ValueKind::Required | ValueKind::Passed => ("abc".into(), None),
        ValueKind::Url => ("/abc".into(), None),
        ValueKind::Method => ("get".into(), Some("PUT")),
        ValueKind::Bool => ("True".into(), Some("yes")),
        ValueKind::Whole { max, .. } => (max.to_string(), Some("4294967296")),
        ValueKind::WholeOrAuto { .. } => ("auto".into(), Some("-1")),
        ValueKind::OneOf(words) => (words[words.len() - 1].to_uppercase(), Some("other")),
        ValueKind::Voice => ("Polly.Hans-Neural".into(), Some("Polly.Nobody")),
        ValueKind::Words(words) => (words.join(" "), Some("other")),
        ValueKind::Keys => ("*1".into(), Some("x")),
        ValueKind::Tones => ("1w#W".into(), Some("1-2")),
    }
}

#[test]
fn every_attribute_is_read_and_its_bad_values_are_noted() {
    let mut read = 0;
    for entry in [VERBS, NOUNS, SPOKEN].into_iter().flatten() {
        let plain = around(entry, "");
        assert_eq!(notes(&plain), Vec::<String>::new(), "{plain}");
        for attribute in entry.attributes {
            let (good, bad) = values(attribute.kind);
            let good = match (entry.name, attribute.name) {
                ("Stream", "url") => "wss://c/d".to_owned(),
                ("break", "time") => "2s".to_owned(),
                _ => good,
            };
            let text = around(entry, &format!("{}='{good}'", attribute.name));
            let document = parse(&text);
            if matches!(attribute.kind, ValueKind::Passed) {
                assert!(matches!(&document.notes[..], [note] if note.severity == Severity::Info), "{text}");
            } else {
                assert_eq!(document.notes, [], "{text}");
            }
            if let Some(bad) = bad {
                let text = around(entry, &format!("{}='{bad}'", attribute.name));
                let document = parse(&text);
                assert_eq!(
                    (document.notes.len(), document.notes[0].severity),
                    (1, Severity::Warning),
                    "{text}"
                );
                // The default is taken: the same as without it.
                assert_eq!(document.verbs, parse(&plain).verbs, "{text}");
            }
            read += 1;
        }
    }
    assert!(read > 150, "only {read}");
}

/// Attributes whose effect no play shows change the parsed verb.
#[test]
fn attributes_change_the_parsed_verb() {
    for entry in [VERBS, NOUNS].into_iter().flatten() {
        for attribute in
            entry.attributes.iter().filter(|attribute| !matches!(attribute.kind, ValueKind::Passed))
        {
            // These mean something only beside the URL they belong to, or say the default.
            let beside = ["ethod", "Event", "trim", "recordingTrack", "media"]
                .iter()
                .any(|end| attribute.name.ends_with(end));
            let alone = (entry.name, attribute.name);
            let needs_parent_data = matches!(alone, ("Sip", "username" | "password") | ("Parameter", _));
            if beside
                || needs_parent_data
                || matches!(
                    alone,
                    ("Stop" | "Start", _)
                        | ("Dial", "recordingStatusCallback")
                        | ("Gather", "speechTimeout" | "timeout" | "bargeIn")
                )
            {
                continue;
            }
            let (good, _) = values(attribute.kind);
            let good = match alone {
                ("Stream", "url") => "wss://c/d".to_owned(),
                (_, "record") => "true".to_owned(),
                (_, "startConferenceOnEnter" | "bargeIn" | "playBeep") => "false".to_owned(),
                _ => good,
            };
            let text = around(entry, &format!("{}='{good}'", attribute.name));
            assert_ne!(parse(&text).verbs, parse(&around(entry, "")).verbs, "{text}");
        }
    }
}

#[test]
fn all_mistakes_at_once_with_their_lines() {
    let text = "<?xml version='1.0'?>\n<Response>\n <say>x</say>\n <Say voise='man'>a</Say>\n stray\n <Gather\n   numdigits='1'\n   timeout='soon'>\n  <Record/>\n </Gather>\n <Play/>\n <Dial/>\n <Email to='a'/>\n <Fax/>\n <Refer/>\n <Connect><Stream url='http://x'/></Connect>\n <Dial><Queue>q</Queue><Number>1</Number></Dial><Say> </Say><Enqueue/>\n</Response>";
    assert_eq!(
        notes(text),
        [
            "line 3: <say> means nothing in <Response> and is passed over; did you mean `Say`? (error 12200)",
            "line 4: `voise` means nothing on <Say> and is ignored (warning 12200)",
            "line 5: text in <Response> is ignored: stray (warning 12200)",
            "line 7: `numdigits` means nothing on <Gather> and is ignored; did you mean `numDigits`? (warning 12200)",
            "line 8: timeout=\"soon\" on <Gather>: expected a whole number from 0 to 3600, or auto; 5 is taken (warning 12200)",
            "line 9: <Record> means nothing in <Gather> and is passed over (error 12200)",
            "line 11: <Play> without the file's URL: WAV, MP3, FLAC, OGG: passed over (error 12200)",
            "line 12: <Dial> without anyone to call: passed over (error 12200)",
            "line 13: <Email> without from: passed over (error 12200)",
            "line 13: <Email> without its text: passed over (error 12200)",
            "line 14: <Fax> needs a fax provider: passed over (error 12200)",
            "line 15: <Refer> without <Sip>: passed over (error 12200)",
            "line 16: <Stream> without a ws: or wss: url: <Connect> passed over (error 12200)",
            "line 17: <Dial>: a <Queue> stands alone; the others are called (error 12200)",
            "line 17: <Say> without a text: passed over (warning 12200)",
            "line 17: <Enqueue> without the queue's name: passed over (error 12200)",
        ]
    );
    let verbs = parse(text).verbs;
    assert!(matches!(&verbs[..], [Verb::Say(_), Verb::Gather(_), Verb::Dial(_)]), "{verbs:?}");
}

/// Only these mistakes fail a document; all others are notes, and the rest is performed.
#[test]
fn bytes_that_are_no_document_are_refused_with_their_line() {
    for (bytes, line, says) in [
        (&b""[..], 1, "root node"),
        (b"\n\n hello", 3, "not a document"),
        (b"<Response>\n<Say>a</Response>", 2, "expected 'Say' tag"),
        (b"<!DOCTYPE r [<!ENTITY a 'b'>]><Response/>", 1, "DTD"),
        (b"<Response>\n&nbsp;</Response>", 2, "entity"),
        (b"<?php x ?><Response/>", 1, "processing instructions"),
        (b"<Response>\n<?php x ?></Response>", 2, "processing instructions"),
        (b"<html/>", 1, "begins with <Response>"),
        (b"<Response>\xff</Response>", 1, "byte 10 is not UTF-8"),
        (b"<?xml version='1.0' encoding='UTF-16'?><Response/>", 1, "expected UTF-8 or ISO-8859-1"),
        (b"<Response/><Response/>", 1, "not a document"),
        (b"<Response><Play>a?b&c</Play></Response>", 1, "not a document"),
    ] {
        let (at, number, text) = refused(bytes);
        assert_eq!((at, number), (line, code::NOT_A_DOCUMENT), "{text}");
        assert!(text.contains(says), "{text} does not say {says}");
    }
}

/// The limits of size, depth and nodes hold before the tree is built.
#[test]
fn documents_that_are_too_large_or_too_deep_are_refused() {
    assert_eq!(refused(&vec![b' '; limits::DOCUMENT_BYTES + 1]).1, code::TOO_LARGE);
    let deep =
        |levels: usize| format!("<Response>{}{}</Response>", "<a>\n".repeat(levels), "</a>".repeat(levels));
    assert_eq!(parse(&deep(limits::DOCUMENT_DEPTH - 1)).verbs, []);
    let (line, number, text) = refused(deep(limits::DOCUMENT_DEPTH).as_bytes());
    assert_eq!((line, number), (16, code::NOT_A_DOCUMENT), "{text}");
    refused("<a>".repeat(limits::DOCUMENT_BYTES / 3).as_bytes());
    refused(format!("<Response>{}</Response>", "<a/>".repeat(10_000)).as_bytes());
    // Neither text that looks like elements nor siblings are deep.
    let flat = format!("<Response><!-- {0} --><Say><![CDATA[{0}]]></Say></Response>", "<a>".repeat(50));
    assert_eq!(parse(&flat).verbs.len(), 1);
    let many = format!("<Response>{}</Response>", "<Hangup/>".repeat(limits::DOCUMENT_VERBS + 9));
    assert_eq!(parse(&many).verbs.len(), limits::DOCUMENT_VERBS);
    let wrong = format!("<Response>{}</Response>", "<x/>".repeat(200));
    assert_eq!(parse(&wrong).notes.len(), limits::DOCUMENT_NOTES);
    let long = parse(&format!("<Response><Say>{}</Say></Response>", "é".repeat(limits::SPEECH_CHARS + 1)));
    let Verb::Say(piece) = &long.verbs[0] else { panic!("no Say") };
    let Item::Speech { text, .. } = &piece.items[0] else { panic!("no speech") };
    assert_eq!((text.chars().count(), long.notes.len()), (limits::SPEECH_CHARS, 1));
    let crowd = parse(&format!("<Response><Dial>{}</Dial></Response>", "<Number>1</Number>".repeat(20)));
    let Verb::Dial(dial) = &crowd.verbs[0] else { panic!("no Dial") };
    assert!(matches!(&dial.to, Dialed::Parties(parties) if parties.len() == limits::DIAL_TARGETS));
}

/// The parser would need half a minute for the largest of these. Nothing before the element hides it from the limits.
#[test]
fn documents_with_too_many_attributes_or_namespaces_are_refused_at_once() {
    let attributes = |count: usize| (0..count).map(|at| format!(" a{at}=''")).collect::<String>();
    let declarations = |count: usize| (0..count).map(|at| format!(" xmlns:n{at}='u'")).collect::<String>();
    let within = format!("<Response{}/>", attributes(limits::DOCUMENT_ATTRIBUTES));
    assert_eq!(parse(&within).verbs, []);
    let within = format!("<Response{}><Hangup/></Response>", declarations(limits::DOCUMENT_NAMESPACES));
    assert_eq!(parse(&within).verbs.len(), 1);
    // What stands in a value or a text counts for nothing.
    let equal = "a=b xmlns ".repeat(100);
    assert_eq!(
        parse(&format!("<Response><Say voice='man' xml:space=\"{equal}\">{equal}</Say></Response>"))
            .verbs
            .len(),
        1
    );
    let beyond = [
        format!("<Response{}/>", attributes(limits::DOCUMENT_ATTRIBUTES + 1)),
        format!("<Response{}/>", attributes(25_000)),
        format!("<Response{}/>", declarations(limits::DOCUMENT_NAMESPACES + 1)),
        format!(
            "<Response{}>{}</Response>",
            declarations(20),
            "<Say xmlns:z='u'>a</Say>".repeat(limits::DOCUMENT_NAMESPACES - 19)
        ),
        // Tags without an end: the parser reads all their attributes before it misses it.
        format!("<Response{}", declarations(10_000)),
        format!("<Response><Say{}", attributes(20_000)),
    ];
    let before = [
        "",
        "<?x \" ?>",
        "<?x ' > ?>",
        "<?xml version='1.0' standalone='yes'?>",
        "<!-- ' -->",
        "<!--><x \"-->",
        "<!-- <![CDATA[ -->",
        "<!---->",
    ];
    for before in before {
        for document in &beyond {
            let (line, number, text) = refused(format!("\n{before}{document}").as_bytes());
            assert_eq!((line, number), (2, code::NOT_A_DOCUMENT), "{text} after {before}");
            assert!(text.starts_with("more than"), "{text} after {before}");
        }
    }
    for before in
        ["<![CDATA[\"]]>", "<![CDATA[<!--]]>", "<![CDATA[]]]]>", "<?y ' ?>", "<!--><a '-->", "<a b='>'/>"]
    {
        let text = format!("<Response>{before}<Say{}/></Response>", attributes(20_000));
        assert!(refused(text.as_bytes()).2.starts_with("more than"), "after {before}");
    }
    // The parser stops at a DTD.
    for dtd in ["<!DOCTYPE r [<!ENTITY a '\"'>]>", "<!DOCTYPE r SYSTEM \"a>b\">"] {
        let text = refused(format!("{dtd}{}", beyond[1]).as_bytes()).2;
        assert!(text.contains("DTD"), "{text}");
    }
}

/// All sounds of a Gather are requested at once, and each key takes time.
#[test]
fn children_of_a_gather_and_keys_beyond_their_limits_are_noted_and_passed_over() {
    let text =
        format!("<Response><Gather>{}</Gather></Response>", "<Pause length='3600'/>\n".repeat(8_000 / 2));
    let document = parse(&text);
    let Verb::Gather(gather) = &document.verbs[0] else { panic!("no Gather") };
    assert_eq!(gather.prompt.len(), limits::GATHER_CHILDREN);
    let note = &document.notes[0];
    assert_eq!((document.notes.len(), note.line, note.severity), (1, 65, Severity::Error), "{note}");
    assert_eq!(note.text, "<Gather>: only the first 64 children are played");
    let play = |keys: usize| parse(&format!("<Response><Play digits='{}'/></Response>", "W".repeat(keys)));
    assert_eq!((play(limits::TONES).verbs.len(), play(limits::TONES).notes.len()), (1, 0));
    let long = play(limits::TONES + 1);
    assert_eq!(long.verbs, []);
    assert!(long.notes[0].text.contains("expected at most 256 of the keys"), "{:?}", long.notes);
    let number = format!("<Number sendDigits='{}'>1</Number>", "1".repeat(limits::TONES + 1));
    let number = parse(&format!("<Response><Dial>{number}</Dial></Response>"));
    let plain = parse("<Response><Dial><Number>1</Number></Dial></Response>");
    assert_eq!((number.verbs, number.notes.len()), (plain.verbs, 1));
}

/// RFC 7303 §3.2: the charset of the Content-Type wins over the XML declaration.
#[test]
fn the_declared_encoding_is_used() {
    let spoken_text = |bytes: &[u8], charset: Option<&str>| match &Document::parse(bytes, charset)
        .expect("it is read")
        .verbs[..]
    {
        [Verb::Say(piece)] => match &piece.items[..] {
            [Item::Speech { text, .. }] => text.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(
        spoken_text(
            b"<?xml version='1.0' encoding=\"ISO-8859-1\"?><Response><Say>\xe9</Say></Response>",
            None
        ),
        "é"
    );
    assert_eq!(spoken_text(b"<Response><Say>\xe9</Say></Response>", Some("ISO-8859-1")), "é");
    assert_eq!(
        spoken_text("\u{feff}<Response><Say>é &amp; &#233;</Say></Response>".as_bytes(), Some("utf-8")),
        "é & é"
    );
    assert_eq!(
        spoken_text("\n <?xml version='1.0'?><Response><Say>a\n  b</Say></Response>".as_bytes(), None),
        "a b"
    );
}

#[test]
fn pauses_of_speech_have_limits() {
    let pause =
        |attributes: &str| match &parse(&format!("<Response><Say>a<break {attributes}/>b</Say></Response>"))
            .verbs[0]
        {
            Verb::Say(piece) => piece.items.iter().find_map(|item| match item {
                Item::Silence(pause) => Some(*pause),
                _ => None,
            }),
            other => panic!("{other:?}"),
        };
    assert_eq!(pause(""), Some(Duration::from_millis(400)));
    assert_eq!(pause("time='1.5s'"), Some(Duration::from_millis(1_500)));
    assert_eq!(pause("time='1e9s'"), Some(limits::SPEECH_BREAK));
    assert_eq!(pause("strength='none'"), None);
    for bad in ["-1s", "NaNs", "1", "s", "1e999s"] {
        assert_eq!(pause(&format!("time='{bad}'")), Some(Duration::from_millis(400)), "{bad}");
    }
}

/// No value begins a line of its own in a SIP request, a mail's head or a notification.
#[test]
fn line_ends_in_values_are_blanks() {
    let end = "&#13;&#10;";
    let text = format!(
        "<Response><Dial callerId='1{end}X: y'><Sip>sip:a@b{end}Route: c</Sip></Dial>\
         <Email to='a@b{end}Bcc: c' from='d' subject='e{end}f'>g{end}h</Email><Sms to='1{end}2'>i{end}j</Sms></Response>"
    );
    let document = parse(&text);
    let shown = format!("{:?}", document.verbs);
    assert_eq!((document.notes.len(), shown.matches("\\r\\n").count()), (0, 2), "{shown}");
    assert!(shown.contains("g\\r\\nh") && shown.contains("i\\r\\nj"), "{shown}");
    let note = &notes(&format!("<Response><Pause length='1{end}2'/></Response>"))[0];
    assert!(!note.contains('\n'), "{note}");
}

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    assert_eq!(nearest("num_digits", ["action", "numDigits"].into_iter()), "; did you mean `numDigits`?");
    assert_eq!(nearest("hint", ["hints"].into_iter()), "; did you mean `hints`?");
    assert_eq!(nearest("x", ["hints"].into_iter()), "");
}

#[test]
fn every_child_in_the_tables_is_an_element_of_the_tables() {
    for entry in [VERBS, NOUNS, SPOKEN].into_iter().flatten() {
        for child in entry.children {
            assert!(find(child).is_some(), "<{child}> in <{}>", entry.name);
        }
    }
}

/// Documents of names, values and texts that mean something, put together anyhow.
fn anyhow() -> impl Strategy<Value = String> {
    let names: Vec<&str> = [VERBS, NOUNS, SPOKEN].into_iter().flatten().map(|entry| entry.name).collect();
    let attributes: Vec<&str> = [VERBS, NOUNS, SPOKEN]
        .into_iter()
        .flatten()
        .flat_map(|entry| entry.attributes)
        .map(|a| a.name)
        .collect();
    let piece = (
        proptest::sample::select(names),
        proptest::sample::select(attributes),
        "[a-z0-9#:/? é]{0,8}",
        0..3_u8,
    );
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| {
        let (mut text, mut open) = (String::from("<Response>"), Vec::new());
        for (name, attribute, value, shape) in pieces {
            match shape {
                0 => text.push_str(&format!("<{name} {attribute}='{value}'/>")),
                1 => {
                    text.push_str(&format!("<{name} {attribute}='{value}'>{value}"));
                    open.push(name);
                }
                _ => text.extend(open.pop().map(|name| format!("{value}</{name}>"))),
            }
        }
        text.extend(open.into_iter().rev().map(|name| format!("</{name}>")));
        text + "</Response>"
    })
}

/// Every note points into the text.
fn lines_are_inside(bytes: &[u8], charset: Option<&str>) {
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let notes = match Document::parse(bytes, charset) {
        Ok(document) => document.notes,
        Err(note) => vec![note],
    };
    assert!(notes.iter().all(|note| (1..=lines).contains(&(note.line as usize))), "{notes:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        lines_are_inside(&bytes, None);
        lines_are_inside(&bytes, Some("iso-8859-1"));
    }

    #[test]
    fn text_like_a_document_is_read_or_refused(bytes in "[<>/&;'\"=!?\\[\\] \n\rSayR\u{e9}-]{0,60}", inside: bool) {
        let text = if inside { format!("<Response>{bytes}</Response>") } else { bytes };
        lines_are_inside(text.as_bytes(), None);
    }

    #[test]
    fn any_well_formed_document_is_read(text in anyhow()) {
        match Document::parse(text.as_bytes(), None) {
            Ok(document) => prop_assert!(document.notes.is_sorted_by_key(|note| note.line)),
            Err(note) => prop_assert!(note.text.contains("deep") || note.text.contains("namespace"), "{} in {}", note, text),
        }
    }

    #[test]
    fn half_a_document_is_refused(text in anyhow(), part in 0.0..1.0) {
        let cut = (text.len() as f64 * part) as usize;
        prop_assert!(Document::parse(&text.as_bytes()[..cut.min(text.len() - 1)], None).is_err());
    }
}
