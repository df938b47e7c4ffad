//! A file's bytes to tags and the text between them, which is not parsed.
//!
//! An export may be larger than memory, so it is read in pieces and cut into parts of a bounded size; the
//! parser of streams then reads each part. This lexer finds only where tags, comments and the like end. Other
//! tokens than text are whole or not there yet, so the places at which the reading stops do not matter.

/// The first piece of some bytes. A text may be a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Up to the next `<`, or to the end of the bytes.
    Text,
    /// `<a>`, with its attributes.
    Open,
    /// `<a/>`
    Empty,
    /// `</a>`
    Close,
    /// `<![CDATA[…]]>`
    Cdata,
    /// `<!--…-->`
    Comment,
    /// `<?…?>`
    Instruction,
}

/// `<!DOCTYPE` and whatever else begins so: it could declare entities, and one of a few bytes stand for gigabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declaration;

/// The first token of the bytes and its length. `None`: its end is not there yet.
pub(super) fn token(bytes: &[u8]) -> Result<Option<(Token, usize)>, Declaration> {
    // A token from the beginning of the bytes to the first `end` at or after `from`.
    let until = |from: usize, end: &[u8], token: Token| {
        let rest = bytes.get(from..)?;
        let at = rest.windows(end.len()).position(|window| window == end)?;
        Some((token, from + at + end.len()))
    };
    Ok(match bytes {
        [] | [b'<'] => None,
        // Which one it is may depend on bytes that are not there yet.
        [b'<', b'!', rest @ ..] => return marked(rest, until),
        [b'<', b'?', ..] => until(2, b"?>", Token::Instruction),
        [b'<', b'/', ..] => until(2, b">", Token::Close),
        [b'<', rest @ ..] => tag_end(rest).map(|(end, is_empty)| {
            let token = if is_empty { Token::Empty } else { Token::Open };
            (token, end + 1)
        }),
        _ => {
            let end = bytes.iter().position(|byte| *byte == b'<').unwrap_or(bytes.len());
            Some((Token::Text, end))
        }
    })
}

/// The token that begins with `<!`; `rest`: the bytes after that. The bytes so far may be the beginning of two of them.
fn marked(
    rest: &[u8],
    until: impl Fn(usize, &[u8], Token) -> Option<(Token, usize)>,
) -> Result<Option<(Token, usize)>, Declaration> {
    const CDATA: &[u8] = b"[CDATA[";
    let may_be = |start: &[u8]| start.starts_with(rest) || rest.starts_with(start);
    if may_be(b"--") {
        Ok(until(4, b"-->", Token::Comment))
    } else if may_be(CDATA) {
        Ok(until(2 + CDATA.len(), b"]]>", Token::Cdata))
    } else {
        Err(Declaration)
    }
}

/// The length of a tag after its `<`, and true for an empty element (`/>`). A `>` in quotes does not end it.
fn tag_end(bytes: &[u8]) -> Option<(usize, bool)> {
    let mut quote = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(open), _) if *byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'>') => return Some((at + 1, at > 0 && bytes[at - 1] == b'/')),
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(Token, &str)> {
        let mut rest = text;
        let mut found = Vec::new();
        while let Some((kind, length)) = token(rest.as_bytes()).unwrap() {
            found.push((kind, &rest[..length]));
            rest = &rest[length..];
        }
        found
    }

    #[test]
    fn a_text_is_cut_into_tags() {
        let text = "<?xml version='1.0'?>\n<a x='>' y=\"/>\"><b/>t<!-- <c> --><![CDATA[</a>]]></a>";
        assert_eq!(
            all(text),
            [
                (Token::Instruction, "<?xml version='1.0'?>"),
                (Token::Text, "\n"),
                (Token::Open, "<a x='>' y=\"/>\">"),
                (Token::Empty, "<b/>"),
                (Token::Text, "t"),
                (Token::Comment, "<!-- <c> -->"),
                (Token::Cdata, "<![CDATA[</a>]]>"),
                (Token::Close, "</a>"),
            ]
        );
    }

    #[test]
    fn an_incomplete_token_waits_and_a_document_type_is_refused_at_its_first_letter() {
        for text in
            ["", "<", "<!", "<!-", "<!--", "<!-- x --", "<![CDA", "<![CDATA[x]]", "<a x='>", "</a", "<?x ?"]
        {
            assert_eq!(token(text.as_bytes()), Ok(None), "{text}");
        }
        for text in ["<!D", "<!DOCTYPE x>", "<!ENTITY a 'b'>", "<!-x"] {
            assert_eq!(token(text.as_bytes()), Err(Declaration), "{text}");
        }
    }
}
