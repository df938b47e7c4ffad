//! Documents of the operator's own folder, by `file:NAME`: what the caller did chooses the file, and
//! `{{Name}}` in it is what a request to an application would have carried. `docs/applications.md` is for who
//! writes them.
//!
//! So a menu works without a web server. The answer looks like that of an application, so scripts need not
//! know the difference. Caller's words become parts of file names and of XML: names are checked to be plain,
//! files are opened only within the folder (`folder`), values are escaped.

use std::path::Path;

use ivr::document::code;
use ivr::request::Wire;
use ivr::script::{EffectFailure, FetchResponse};
use reqwest::Url;

use super::{folder, limits};

/// The first of these that a request carries chooses among files.
const CHOICES: [&str; 3] = ["Digits", "DialCallStatus", "QueueResult"];

/// True for the URL of such a document.
pub(super) fn is_one(url: &str) -> bool {
    url.starts_with("file:")
}

/// The file that the caller's choice names, or the document itself, filled in. Blocks on the disk.
pub(super) fn read(folder: Option<&Path>, wire: &Wire) -> Result<FetchResponse, EffectFailure> {
    let failed = |code: u32, text: &str| EffectFailure { code, text: format!("{}: {text}", wire.url) };
    let Some(folder) = folder else {
        return Err(failed(code::URL, "`voice.documents` names no folder"));
    };
    let url = Url::parse(&wire.url).map_err(|error| failed(code::URL, &error.to_string()))?;
    if url.has_host() {
        return Err(failed(code::URL, "files of other hosts are not read"));
    }
    let form = form_of(&url, wire.body.as_deref().unwrap_or_default());
    let name = name_of(url.path()).ok_or_else(|| failed(code::URL, "no name of a file in the folder"))?;
    for name in chosen(&name, &form).into_iter().chain([name]) {
        let file = folder::read(folder, &name, ivr::limits::DOCUMENT_BYTES)
            .map_err(|text| failed(code::UNREACHABLE, &text))?;
        if let Some(file) = file {
            let text =
                String::from_utf8(file).map_err(|_| failed(code::NOT_A_DOCUMENT, "the file is not UTF-8"))?;
            let body =
                fill(&text, &form).ok_or_else(|| failed(code::TOO_LARGE, "too long when filled in"))?;
            let content_type = Some("text/xml; charset=utf-8".to_owned());
            let body = body.into_bytes();
            // Relative URLs in the document are resolved against its own file.
            return Ok(FetchResponse { status: 200, content_type, body, url: Some(url_of(&name)) });
        }
    }
    Err(failed(code::STATUS, "no such file in the folder of documents"))
}

/// The name of the file that a path names, `%xx` undone once (RFC 3986 §2.1). `None`: it is not UTF-8, or an escape stands for a
/// byte that separates or ends names. `folder::read` looks at the name, so what the escapes stand for cannot lead out either.
fn name_of(path: &str) -> Option<String> {
    let path = path.trim_start_matches('/');
    let mut name = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match stdx::hex::decode([bytes.next()?, bytes.next()?])?.first()? {
            b'/' | b'\\' | 0 => return None,
            byte => name.push(*byte),
        }
    }
    String::from_utf8(name).ok()
}

/// The URL of the file with this name: `Url` escapes the rest of what a path may not have (RFC 3986 §3.3).
fn url_of(name: &str) -> String {
    let name = name.replace('%', "%25");
    let mut url = Url::parse("file:///").expect("a URL");
    url.set_path(&name);
    url.into()
}

/// The parameters of the query and the body; of two with one name, `value` takes the last.
fn form_of(url: &Url, body: &str) -> Vec<(String, String)> {
    // Both are in one encoding, and only `Url` reads it here.
    let mut both = url.clone();
    both.set_query(Some(&format!("{}&{body}", url.query().unwrap_or_default())));
    both.query_pairs().into_owned().collect()
}

/// The value of a parameter.
fn value<'f>(form: &'f [(String, String)], name: &str) -> Option<&'f str> {
    form.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// `menu.xml` after the key 1: `menu.1.xml`. `None`: the caller chose nothing, or something that no file has
/// in its name.
fn chosen(name: &str, form: &[(String, String)]) -> Option<String> {
    let choice = CHOICES.iter().find_map(|choice| value(form, choice))?;
    let choice = choice.replace('*', "star").replace('#', "pound");
    let is_plain = choice.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if choice.is_empty() || choice.len() > limits::CHOICE || !is_plain {
        return None;
    }
    let (stem, ending) = name.rsplit_once('.')?;
    Some(format!("{stem}.{choice}.{ending}"))
}

/// `{{Name}}` is the parameter, or nothing. One pass: braces in a value are not filled in again. `None`: too
/// long.
fn fill(text: &str, form: &[(String, String)]) -> Option<String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        match after.split_once("}}").filter(|(name, _)| is_name(name)) {
            Some((name, after)) => {
                escape(value(form, name).unwrap_or_default(), &mut filled);
                rest = after;
            }
            None => {
                filled.push_str("{{");
                rest = after;
            }
        }
        if filled.len() > ivr::limits::DOCUMENT_BYTES {
            return None;
        }
    }
    filled.push_str(rest);
    Some(filled)
}

/// A name of a parameter.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Escapes text for XML. Characters that XML cannot represent are left out (XML 1.0 §2.2).
fn escape(value: &str, to: &mut String) {
    for char in value.chars() {
        match char {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&apos;"),
            '\t' | '\n' | '\r' => to.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            _ if char.is_control() => {}
            _ => to.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 8] = [
        ("my menu.1.xml", "<Response><Say>one</Say></Response>"),
        ("grüße.xml", "<Response><Say>hello</Say></Response>"),
        ("100%25 #?.xml", "<Response><Say>all</Say></Response>"),
        ("menu.xml", "<Response><Say>menu</Say></Response>"),
        ("menu.1.xml", "<Response><Say>one of {{From}}</Say></Response>"),
        ("menu.star.xml", "<Response><Say>{{Missing}}{{no name}} {{</Say></Response>"),
        ("dialed.no-answer.xml", "<Response><Say>nobody</Say></Response>"),
        ("sub/deep.xml", "<Response/>"),
    ];

    fn ask(url: &str, body: &str) -> Result<(String, String), EffectFailure> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("documents");
        std::fs::create_dir_all(place.join("sub")).unwrap();
        for (name, text) in FILES {
            std::fs::write(place.join(name), text).unwrap();
        }
        std::fs::write(folder.path().join("secret.xml"), "<Response/>").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret.xml"), place.join("link.xml")).unwrap();
        std::fs::write(place.join("large.xml"), vec![b' '; ivr::limits::DOCUMENT_BYTES + 1]).unwrap();
        std::fs::write(place.join("latin.xml"), b"<Response>\xe9</Response>").unwrap();
        let most = "{{From}}".repeat(ivr::limits::DOCUMENT_BYTES / 8);
        std::fs::write(place.join("grows.xml"), most).unwrap();
        let wire = Wire {
            url: url.to_owned(),
            body: Some(body.to_owned()),
            signature: String::new(),
            call_id: None,
        };
        let answer = read(Some(&place), &wire)?;
        Ok((answer.url.unwrap(), String::from_utf8(answer.body).unwrap()))
    }

    #[test]
    fn the_input_of_the_caller_chooses_the_file() {
        for (url, body, file) in [
            ("file:///menu.xml", "", "file:///menu.xml"),
            ("file:///menu.xml", "Digits=1", "file:///menu.1.xml"),
            ("file:///menu.xml?Digits=1", "", "file:///menu.1.xml"),
            ("file:///menu.xml?Digits=1", "Digits=7", "file:///menu.xml"),
            ("file:///menu.xml", "Digits=*", "file:///menu.star.xml"),
            ("file:///menu.xml", "Digits=%2F..%2Fx", "file:///menu.xml"),
            ("file:///dialed.xml", "DialCallStatus=no-answer", "file:///dialed.no-answer.xml"),
            ("file:///sub/deep.xml", "Digits=1", "file:///sub/deep.xml"),
            ("file:///my%20menu.xml", "Digits=1", "file:///my%20menu.1.xml"),
            ("file:///my menu.xml", "Digits=1", "file:///my%20menu.1.xml"),
            ("file:///grüße.xml", "", "file:///gr%C3%BC%C3%9Fe.xml"),
            ("file:///gr%c3%bc%c3%9fe.xml", "", "file:///gr%C3%BC%C3%9Fe.xml"),
            ("file:///100%2525%20%23%3f.xml", "", "file:///100%2525%20%23%3F.xml"),
        ] {
            assert_eq!(ask(url, body).unwrap().0, file, "{url} {body}");
        }
    }

    #[test]
    fn parameters_are_filled_in_as_text() {
        let (_, text) = ask("file:///menu.xml", "Digits=1&From=%3CSay%3E%26%00").unwrap();
        assert_eq!(text, "<Response><Say>one of &lt;Say&gt;&amp;</Say></Response>");
        let (_, text) = ask("file:///menu.xml", "Digits=*").unwrap();
        assert_eq!(text, "<Response><Say>{{no name}} {{</Say></Response>");
    }

    #[test]
    fn nothing_leads_out_of_the_folder_and_nothing_is_too_large() {
        for url in [
            "file:///../secret.xml",
            "file:///..%2fsecret.xml",
            "file:///%2e%2e/secret.xml",
            "file:///%2e%2e%2fsecret.xml",
            "file:///sub/%2e%2e/%2E%2e/secret.xml",
            "file:///sub%2Fdeep.xml",
            "file:///sub%5cdeep.xml",
            "file:///%252e%252e/secret.xml",
            "file:///menu.xml%00",
            "file:///%00",
            "file:///%ff.xml",
            "file:///%zz.xml",
            "file:///menu.xml%2",
            "file:///link.xml",
            "file:///sub",
            "file:///",
            "file://host/menu.xml",
            "file:///none.xml",
            "file:///large.xml",
            "file:///latin.xml",
        ] {
            let told = ask(url, "").unwrap_err();
            assert!(told.text.starts_with(url), "{}", told.text);
        }
        let told = ask("file:///grows.xml", &format!("From={}", "1".repeat(20))).unwrap_err();
        assert_eq!(told.code, code::TOO_LARGE);
        let wire =
            Wire { url: "file:///menu.xml".to_owned(), body: None, signature: String::new(), call_id: None };
        assert!(read(None, &wire).unwrap_err().text.ends_with("`voice.documents` names no folder"));
    }
}
