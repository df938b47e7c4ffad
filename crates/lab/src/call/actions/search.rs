//! `<ereg>`: what is searched, and where the matches go.

use super::{After, checked, value};
use crate::call::message::Incoming;
use crate::call::{Call, Ctx, Value};
use crate::scenario::action::{Check, Ereg, SearchIn};
use crate::stats::Count;

pub(super) fn ereg(call: &mut Call, ctx: &mut Ctx<'_>, ereg: &Ereg, message: Option<&Incoming<'_>>) -> After {
    let kept;
    let subject: &[u8] = match &ereg.search_in {
        SearchIn::Variable(variable) => {
            kept = value::with(call, ctx, *variable, |value| value.as_text().to_vec());
            &kept
        }
        SearchIn::Message => message.map_or(&[], |message| message.bytes),
        SearchIn::Body => message.map_or(&[], Incoming::body),
        SearchIn::Header { name, occurrence, case_independent, start_line } => {
            let bytes = message.map_or(&[][..], |message| message.bytes);
            match header(bytes, name.as_bytes(), *occurrence, *case_independent, *start_line) {
                Some(content) => content,
                None if ereg.check == Check::MustMatch => return After::Fail(Count::FailedRegexpHdrNotFound),
                None => return After::Continue,
            }
        }
    };
    let groups = ereg.regex.captures(subject);
    if let Some(groups) = &groups {
        for (to, group) in ereg.assign_to.iter().zip(groups) {
            let text = group.map_or(&[][..], |(start, end)| &subject[start..end]);
            value::set(call, ctx, *to, Value::Text(text.into()));
        }
    }
    checked(ereg.check, groups.is_some(), Count::FailedRegexpDoesntMatch, Count::FailedRegexpShouldntMatch)
}

/// What follows `name` up to the end of its line. `name` is as the scenario has it, colon included.
/// With `start_line` it must begin a line; without, it may stand anywhere.
fn header<'a>(
    bytes: &'a [u8],
    name: &[u8],
    occurrence: u32,
    case_independent: bool,
    start_line: bool,
) -> Option<&'a [u8]> {
    if name.is_empty() {
        return None;
    }
    let mut left = occurrence.max(1);
    for at in 0..bytes.len().saturating_sub(name.len() - 1) {
        let candidate = &bytes[at..at + name.len()];
        let same = if case_independent { candidate.eq_ignore_ascii_case(name) } else { candidate == name };
        if !same || (start_line && at > 0 && bytes[at - 1] != b'\n') {
            continue;
        }
        left -= 1;
        if left == 0 {
            let content = &bytes[at + name.len()..];
            let end = memchr::memchr2(b'\r', b'\n', content).unwrap_or(content.len());
            let content = &content[..end];
            let blank = content.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            return Some(&content[blank..]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"SIP/2.0 200 OK\r\nVia: a\r\nvia: b\r\nX-Via: c\r\nVia: d\r\n\r\n";

    #[test]
    fn occurrences_are_counted_from_one() {
        assert_eq!(header(MESSAGE, b"Via:", 1, false, true), Some(&b"a"[..]));
        assert_eq!(header(MESSAGE, b"Via:", 2, false, true), Some(&b"d"[..]));
        assert_eq!(header(MESSAGE, b"Via:", 3, false, true), None);
    }

    #[test]
    fn case_and_the_start_of_the_line_are_asked_for() {
        assert_eq!(header(MESSAGE, b"Via:", 2, true, true), Some(&b"b"[..]));
        assert_eq!(header(MESSAGE, b"Via:", 2, false, false), Some(&b"c"[..]));
    }

    #[test]
    fn short_messages_have_no_header() {
        assert_eq!(header(b"Vi", b"Via:", 1, true, false), None);
        assert_eq!(header(b"", b"Via:", 1, true, false), None);
        assert_eq!(header(b"x", b"", 1, true, false), None);
    }
}
