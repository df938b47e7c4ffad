//! The body of a MESSAGE: plain text, text wrapped as CPIM (RFC 3862), or an indication of composing (RFC 3994).

use xmpp::xml::{Prefixes, parse};

use super::pidf::without_declaration;

const COMPOSING: &str = "urn:ietf:params:xml:ns:im-iscomposing";

/// A body, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody {
    /// A text.
    Text(Box<str>),
    /// True while the sender is composing.
    Typing(bool),
}

/// The error for a body that chat cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedBody;

/// Reads the body of a MESSAGE by its Content-Type.
///
/// # Errors
/// The body has another type, an encoding that is not known here, or does not fit its type.
pub fn read(content_type: &str, body: &[u8]) -> Result<MessageBody, UnsupportedBody> {
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    match kind.trim().to_ascii_lowercase().as_str() {
        "text/plain" => said(parameters, body),
        "message/cpim" => unwrap(body),
        "application/im-iscomposing+xml" => typing(body),
        _ => Err(UnsupportedBody),
    }
}

/// RFC 3261 §20.15: a text without a charset is UTF-8.
fn said(parameters: &str, body: &[u8]) -> Result<MessageBody, UnsupportedBody> {
    let charset = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    let text = match charset.as_deref().unwrap_or("utf-8") {
        "utf-8" | "utf8" | "us-ascii" => String::from_utf8(body.to_vec()).map_err(|_| UnsupportedBody)?,
        // Each byte is the character of its number.
        "iso-8859-1" | "latin1" => body.iter().copied().map(char::from).collect(),
        _ => return Err(UnsupportedBody),
    };
    let text = clean(&text);
    if text.trim().is_empty() { Err(UnsupportedBody) } else { Ok(MessageBody::Text(text)) }
}

/// RFC 3862 §2: headers of the message, an empty line, headers of its content, an empty line, the content.
/// Its From and To are ignored: those of the MESSAGE around it are proved.
fn unwrap(body: &[u8]) -> Result<MessageBody, UnsupportedBody> {
    let (_, inner) = split_headers(body).ok_or(UnsupportedBody)?;
    let (headers, content) = split_headers(inner).ok_or(UnsupportedBody)?;
    let headers = std::str::from_utf8(headers).map_err(|_| UnsupportedBody)?;
    let mut fields = headers.lines().filter_map(|line| line.split_once(':'));
    let content_type = fields.find(|(name, _)| name.trim().eq_ignore_ascii_case("content-type"));
    match content_type.map_or("text/plain", |(_, value)| value.trim()) {
        nested if nested.to_ascii_lowercase().starts_with("message/cpim") => Err(UnsupportedBody),
        content_type => read(content_type, content),
    }
}

/// The headers and the rest after the first empty line; a sender may end lines by LF alone.
fn split_headers(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"];
    let found = ends.into_iter().filter_map(|end| {
        let at = body.windows(end.len()).position(|window| window == end)?;
        Some((at, at + end.len()))
    });
    let (at, after) = found.min()?;
    Some((&body[..at], &body[after..]))
}

/// Reads an indication of composing (RFC 3994 §3).
fn typing(body: &[u8]) -> Result<MessageBody, UnsupportedBody> {
    let root = parse(without_declaration(body), &Prefixes::default()).map_err(|_| UnsupportedBody)?;
    let state = root.is("isComposing", COMPOSING).then(|| root.content_of("state", COMPOSING)).flatten();
    match state.as_deref().map(str::trim) {
        // §3.2: states that we do not know are "idle".
        Some(state) => Ok(MessageBody::Typing(state == "active")),
        None => Err(UnsupportedBody),
    }
}

/// Line ends are those of XML, and characters that XML 1.0 §2.2 excludes become U+FFFD.
pub(super) fn clean(text: &str) -> Box<str> {
    let is_char = |c: char| matches!(c, '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().map(|c| if is_char(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<MessageBody, UnsupportedBody> {
        Ok(MessageBody::Text(text.into()))
    }

    #[test]
    fn text_is_read_in_its_encoding_and_cleaned() {
        for (content_type, body, words) in [
            ("text/plain", &b"hello"[..], said("hello")),
            ("Text/Plain ; charset=\"UTF-8\"", "gr\u{fc}\u{df}e".as_bytes(), said("grüße")),
            ("text/plain;charset=ISO-8859-1", b"gr\xfc\xdfe", said("grüße")),
            ("text/plain;charset=utf-16", b"h\0", Err(UnsupportedBody)),
            ("text/plain", b"gr\xfc", Err(UnsupportedBody)),
            ("text/plain", b"", Err(UnsupportedBody)),
            ("text/plain", b" \r\n", Err(UnsupportedBody)),
            ("text/plain", b"a\0b\x1bc\x08", said("a\u{fffd}b\u{fffd}c\u{fffd}")),
            ("text/plain", "a\u{ffff}<&>".as_bytes(), said("a\u{fffd}<&>")),
            ("text/plain", b"a\r\nb\rc\td", said("a\nb\nc\td")),
            ("text/html", b"<b>", Err(UnsupportedBody)),
            ("", b"x", Err(UnsupportedBody)),
        ] {
            assert_eq!(read(content_type, body), words, "{content_type} {body:?}");
        }
    }

    #[test]
    fn cpim_is_unwrapped_and_its_sender_not_believed() {
        let body = "From: <im:boss@a>\r\nTo: <im:bob@a>\r\n\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nhi\r\n\r\nyou";
        assert_eq!(read("message/cpim", body.as_bytes()), said("hi\n\nyou"));
        assert_eq!(read("message/CPIM", b"From: x\n\nSubject: y\n\nhi"), said("hi"));
        for bad in [
            &b""[..],
            b"From: x\r\n\r\n",
            b"From: x\r\n\r\nContent-Type: image/png\r\n\r\nx",
            b"From: x\r\n\r\nContent-Type: message/cpim\r\n\r\nFrom: x\r\n\r\n\r\n\r\nx",
            b"From: x\r\n\r\nContent-Type: \xff\r\n\r\nx",
        ] {
            assert_eq!(read("message/cpim", bad), Err(UnsupportedBody), "{bad:?}");
        }
    }

    #[test]
    fn typing_and_stopped_states_are_told_apart() {
        let body = |state: &str| {
            format!(
                "<?xml version='1.0'?><isComposing xmlns='{COMPOSING}'><state>{state}</state></isComposing>"
            )
        };
        for (state, is_typing) in [("active", true), (" active ", true), ("idle", false), ("new", false)] {
            let read = read("application/im-iscomposing+xml", body(state).as_bytes());
            assert_eq!(read, Ok(MessageBody::Typing(is_typing)), "{state}");
        }
        for bad in [&b"active"[..], b"<isComposing/>", b"<!DOCTYPE a><a/>"] {
            assert_eq!(read("application/im-iscomposing+xml", bad), Err(UnsupportedBody));
        }
    }
}
