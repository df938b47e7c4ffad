//! The restricted XML of documents: no DTD, so no entities but XML's five, no processing instructions, bounded.

use std::borrow::Cow;

use roxmltree::{Error, ParsingOptions};

use crate::limits::{DOCUMENT_DEPTH, DOCUMENT_NODES};

/// Bytes to text. UTF-8, or the ISO-8859-1 or US-ASCII that Content-Type or declaration names.
pub(super) fn decode<'a>(bytes: &'a [u8], charset: Option<&str>) -> Result<Cow<'a, str>, String> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let named = charset.map(str::to_owned).or_else(|| declared(bytes)).unwrap_or_default();
    match named.trim().to_ascii_lowercase().as_str() {
        "" | "utf-8" | "utf8" => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => Err(format!("byte {} is not UTF-8", error.valid_up_to())),
        },
        // Each byte is the character of its number.
        "iso-8859-1" | "latin1" | "us-ascii" => Ok(bytes.iter().map(|&byte| char::from(byte)).collect()),
        other => Err(format!("encoding {other}: expected UTF-8 or ISO-8859-1")),
    }
}

/// The encoding of the XML declaration.
fn declared(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().take(200).position(|&byte| byte == b'>')?;
    let declaration = std::str::from_utf8(&bytes[..end]).ok()?.trim_start().strip_prefix("<?xml")?;
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    value[1..].split_once(quote).map(|(name, _)| name.to_owned())
}

/// The prefixes of namespaces that a document may lack.
const PREFIXES: usize = 8;

/// The text with declarations of the prefixes that it uses and does not declare, in its root element. Elements and attributes with
/// them are notes to the reader. COMPAT(Twilio): `<amazon:effect>` stands in a Say, and no document declares `amazon`.
pub(super) fn with_declared_prefixes(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..PREFIXES {
        let bare = text.trim_start();
        let options = ParsingOptions { nodes_limit: DOCUMENT_NODES, ..ParsingOptions::default() };
        let prefix = match too_deep(bare) {
            None => match roxmltree::Document::parse_with_options(bare, options) {
                Err(Error::UnknownNamespace(prefix, _)) => prefix,
                _ => break,
            },
            Some(_) => break,
        };
        let Some(name) = root_name_end(&text) else { break };
        let (before, after) = text.split_at(name);
        text = Cow::Owned(format!("{before} xmlns:{prefix}=\"undeclared:{prefix}\"{after}"));
    }
    text
}

/// The end of the root element's name: the first tag that is neither a declaration nor a comment.
fn root_name_end(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('<')?;
        let rest = &text[at..];
        let end = if rest.starts_with("<!--") {
            rest.find("-->")?
        } else if rest.starts_with("<?") || rest.starts_with("<!") {
            rest.find('>')?
        } else {
            return Some(at + rest.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>'))?);
        };
        at += end;
    }
}

/// The error is a line with a column, and the fault there.
pub(super) fn read(text: &str) -> Result<roxmltree::Document<'_>, ((u32, u32), String)> {
    // PHP applications often print a newline before the declaration; RestComm's parser forgave it.
    let bare = text.trim_start();
    too_deep(bare).map_or(Ok(()), |line| {
        Err(((line + skipped(text, bare), 1), format!("elements more than {DOCUMENT_DEPTH} deep")))
    })?;
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: DOCUMENT_NODES, ..ParsingOptions::default() };
    let tree = roxmltree::Document::parse_with_options(bare, options).map_err(|error| {
        let (line, column) = match error {
            Error::NodesLimitReached => (1, 1),
            _ => (error.pos().row, error.pos().col),
        };
        ((line + skipped(text, bare), column), format!("not a document: {error}"))
    })?;
    match tree.descendants().find(roxmltree::Node::is_pi) {
        Some(node) => {
            let place = tree.text_pos_at(node.range().start);
            Err((
                (place.row + skipped(text, bare), place.col),
                "not a document: processing instructions have no meaning here".to_owned(),
            ))
        }
        None => Ok(tree),
    }
}

/// Lines before the first character that counts.
fn skipped(text: &str, bare: &str) -> u32 {
    let head = &text[..text.len() - bare.len()];
    u32::try_from(head.matches('\n').count()).unwrap_or(u32::MAX)
}

/// The line of an element that is too deep, found before the parser walks that deep. Comments and CDATA are
/// skipped; malformed XML is left for the parser to explain.
fn too_deep(text: &str) -> Option<u32> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = text[at..].find('<') {
        at += found;
        let rest = &text[at..];
        let skip = if rest.starts_with("<!--") {
            rest.find("-->")
        } else if rest.starts_with("<![CDATA[") {
            rest.find("]]>")
        } else {
            let end = tag_end(rest);
            if rest.starts_with("</") {
                depth = depth.saturating_sub(1);
            } else if !rest.starts_with("<!") && !rest.starts_with("<?") && !rest[..end?].ends_with('/') {
                depth += 1;
            }
            if depth > DOCUMENT_DEPTH {
                return u32::try_from(text[..at].matches('\n').count() + 1).ok();
            }
            end
        };
        at += skip?;
    }
    None
}

/// Where the tag's `>` is: one inside quotes does not count.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    tag.bytes().position(|byte| match (quote, byte) {
        (None, b'"' | b'\'') => {
            quote = Some(byte);
            false
        }
        (Some(open), _) => {
            if byte == open {
                quote = None;
            }
            false
        }
        (None, _) => byte == b'>',
    })
}
