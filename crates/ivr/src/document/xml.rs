//! The restricted XML of documents: no DTD, so no entities but XML's five, no processing instructions, bounded.

use std::borrow::Cow;

use roxmltree::{Error, ParsingOptions};

use crate::limits::{DOCUMENT_ATTRIBUTES, DOCUMENT_DEPTH, DOCUMENT_NAMESPACES, DOCUMENT_NODES};

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

/// The text with declarations of the prefixes that it uses and does not declare, in its root element; the text is within the limits
/// of [`check_limits`]. Elements and attributes with these prefixes are notes to the reader. COMPAT(Twilio): `<amazon:effect>` stands in
/// a Say, and no document declares `amazon`.
pub(super) fn with_declared_prefixes(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..PREFIXES {
        let bare = text.trim_start();
        let options = ParsingOptions { nodes_limit: DOCUMENT_NODES, ..ParsingOptions::default() };
        let Err(Error::UnknownNamespace(prefix, _)) = roxmltree::Document::parse_with_options(bare, options)
        else {
            break;
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
            end_of(rest, "<!--", "-->")?
        } else if rest.starts_with("<?") {
            end_of(rest, "<?", "?>")?
        } else if rest.starts_with("<!") {
            rest.find('>')?
        } else {
            return Some(at + rest.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>'))?);
        };
        at += end;
    }
}

/// Refuses a text that the parser would need much time or memory for: it looks for each attribute among all earlier ones of
/// the element, and copies the namespaces around an element to each that declares another. The error is a line with a column, and
/// the fault there.
pub(super) fn check_limits(text: &str) -> Result<(), ((u32, u32), String)> {
    let bare = text.trim_start();
    match beyond_limits(bare) {
        None => Ok(()),
        Some((line, fault)) => Err(((line + skipped(text, bare), 1), fault)),
    }
}

/// The tree of a text that is within the limits of [`check_limits`]. The error is a line with a column, and the fault there.
pub(super) fn read(text: &str) -> Result<roxmltree::Document<'_>, ((u32, u32), String)> {
    // PHP applications often print a newline before the declaration; RestComm's parser forgave it.
    let bare = text.trim_start();
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

/// The line of the first tag beyond a limit, and the fault, found before the parser comes there. Comments, CDATA and processing
/// instructions are skipped exactly as the parser skips them, so that none of them hides a tag from the limits; malformed XML, at
/// which the parser stops, is left for the parser to explain.
fn beyond_limits(text: &str) -> Option<(u32, String)> {
    let (mut depth, mut namespaces, mut at) = (0_usize, 0_usize, 0);
    while let Some(found) = text[at..].find('<') {
        at += found;
        let rest = &text[at..];
        let end = if rest.starts_with("<!--") {
            // XML 1.0 §2.5: `<!-->` begins a comment and does not end it.
            end_of(rest, "<!--", "-->")
        } else if rest.starts_with("<![CDATA[") {
            end_of(rest, "<![CDATA[", "]]>")
        } else if rest.starts_with("<?") {
            // XML 1.0 §2.6: only `?>` ends it; quotes mean nothing.
            end_of(rest, "<?", "?>")
        } else if rest.starts_with("<!") {
            // A DTD, which the parser refuses where it begins.
            None
        } else if rest.starts_with("</") {
            depth = depth.saturating_sub(1);
            rest.find('>')
        } else {
            let tag = StartTag::read(rest);
            namespaces += tag.namespaces;
            depth += usize::from(!tag.is_empty);
            let fault = if depth > DOCUMENT_DEPTH {
                Some(format!("elements more than {DOCUMENT_DEPTH} deep"))
            } else if tag.attributes > DOCUMENT_ATTRIBUTES {
                Some(format!("more than {DOCUMENT_ATTRIBUTES} attributes of one element"))
            } else if namespaces > DOCUMENT_NAMESPACES {
                Some(format!("more than {DOCUMENT_NAMESPACES} declarations of namespaces"))
            } else {
                None
            };
            if let Some(fault) = fault {
                let line = text[..at].matches('\n').count() + 1;
                return Some((u32::try_from(line).unwrap_or(u32::MAX), fault));
            }
            tag.end
        };
        at += end?;
    }
    None
}

/// The place where `close` begins, after `open` at the beginning of the text.
fn end_of(text: &str, open: &str, close: &str) -> Option<usize> {
    text[open.len()..].find(close).map(|end| open.len() + end)
}

/// The figures of one start tag. A tag without an end has them, too: the parser reads its attributes before it misses the end.
#[derive(Default)]
struct StartTag {
    /// The place of its `>`: one inside quotes does not count.
    end: Option<usize>,
    /// The tag of an empty element: `/>`.
    is_empty: bool,
    /// The `=` outside of quotes, one for each attribute.
    attributes: usize,
    /// The `xmlns` outside of quotes, one for each declaration.
    namespaces: usize,
}

impl StartTag {
    /// Reads the tag at the beginning of the text.
    fn read(text: &str) -> StartTag {
        let (mut tag, mut quote) = (StartTag::default(), None);
        let bytes = text.as_bytes();
        for (at, &byte) in bytes.iter().enumerate() {
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => tag.attributes += 1,
                (None, b'x') if bytes[at..].starts_with(b"xmlns") => tag.namespaces += 1,
                (None, b'>') => {
                    tag.end = Some(at);
                    tag.is_empty = bytes[at - 1] == b'/';
                    break;
                }
                (Some(open), _) if byte == open => quote = None,
                _ => {}
            }
        }
        tag
    }
}
