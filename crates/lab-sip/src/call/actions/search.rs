//! `<ereg>`: what is searched, and where the matches go.
//!
//! The subject is found first, then the expression is tried, then its groups are assigned, and last the check is made: variables are set even
//! when the check fails the call.

use super::{ActionError, checked, value};
use crate::call::message::Incoming;
use crate::call::{Call, CallContext, VariableValue};
use crate::scenario::action::{ActionCheck, Ereg, SearchIn};
use crate::stats::Count;

/// `message` is the one of the step; a step without one searches empty text.
pub(super) fn ereg(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    ereg: &Ereg,
    message: Option<&Incoming<'_>>,
) -> Result<(), ActionError> {
    let kept;
    let subject: Option<&[u8]> = match &ereg.search_in {
        SearchIn::Variable(variable) => {
            kept = value::with(call, ctx, *variable, |value| value.as_text().to_vec());
            Some(&kept)
        }
        SearchIn::Message => message.map(|message| message.bytes),
        SearchIn::Body => message.map(Incoming::body),
        SearchIn::Header { name, occurrence, case_independent } => message
            .and_then(|message| header(message.bytes, name.as_bytes(), *occurrence, *case_independent))
            .filter(|content| !content.is_empty()),
    };
    let subject = match (subject, ereg.check, &ereg.search_in) {
        (Some(subject), ..) => subject,
        // An empty header counts as none.
        (None, ActionCheck::MustMatch, SearchIn::Header { name, .. }) => {
            return Err(ActionError::Failed(
                Count::FailedRegexpHdrNotFound,
                format!("ereg: no header {name}"),
            ));
        }
        // A missing part is searched as empty text, which an expression may match.
        (None, ..) => &[],
    };
    let groups = ereg.regex.captures(subject);
    if let Some(groups) = &groups {
        for (to, group) in ereg.assign_to.iter().zip(groups) {
            // A sub-expression that took no part leaves its variable alone.
            if let Some((start, end)) = *group {
                value::set(call, ctx, *to, VariableValue::Text(subject[start..end].into()));
            }
        }
    }
    let (missed, unwanted) = (Count::FailedRegexpDoesntMatch, Count::FailedRegexpShouldntMatch);
    checked(ereg.check, groups.is_some(), missed, unwanted, || {
        let (found, regex) = (String::from_utf8_lossy(subject), ereg.regex.as_str());
        let verb = if groups.is_some() { "matches" } else { "does not match" };
        format!("ereg: '{regex}' {verb} '{found}'")
    })
}

/// The text that follows `name` up to the end of its line, blanks included. `name` is as the scenario has it, colon
/// included; it begins a line, of the headers or of the body.
fn header<'a>(bytes: &'a [u8], name: &[u8], occurrence: u32, case_independent: bool) -> Option<&'a [u8]> {
    let first = *name.first()?;
    let other = if case_independent { swap_case(first) } else { first };
    let mut candidates = memchr::memchr2_iter(first, other, bytes).filter(|&at| {
        let same = bytes.get(at..at + name.len()).is_some_and(|candidate| {
            if case_independent { candidate.eq_ignore_ascii_case(name) } else { candidate == name }
        });
        same && (at == 0 || bytes[at - 1] == b'\n')
    });
    // `occurrence` counts from 1, and 0 means the first too.
    let at = candidates.nth(occurrence.max(1) as usize - 1)?;
    let content = &bytes[at + name.len()..];
    let end = memchr::memchr2(b'\r', b'\n', content).unwrap_or(content.len());
    Some(&content[..end])
}

/// The other case of a letter: bit 5 tells upper from lower case in ASCII.
fn swap_case(letter: u8) -> u8 {
    if letter.is_ascii_alphabetic() { letter ^ 0x20 } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"SIP/2.0 200 OK\r\nVia: a\r\nvia: b\r\nX-Via: c\r\nVia: d\r\n\r\n";

    #[test]
    fn occurrences_are_counted_from_one() {
        assert_eq!(header(MESSAGE, b"Via:", 1, false), Some(&b" a"[..]));
        assert_eq!(header(MESSAGE, b"Via:", 2, false), Some(&b" d"[..]));
        assert_eq!(header(MESSAGE, b"Via:", 3, false), None);
    }

    #[test]
    fn a_name_begins_its_line_and_its_case_counts_unless_said() {
        assert_eq!(header(MESSAGE, b"Via:", 2, true), Some(&b" b"[..]));
        assert_eq!(header(MESSAGE, b"Via:", 2, false), Some(&b" d"[..]), "not that of X-Via");
        assert_eq!(header(MESSAGE, b"ia:", 1, false), None);
    }

    #[test]
    fn short_messages_have_no_header() {
        assert_eq!(header(b"Vi", b"Via:", 1, true), None);
        assert_eq!(header(b"", b"Via:", 1, true), None);
        assert_eq!(header(b"x", b"", 1, true), None);
    }
}
