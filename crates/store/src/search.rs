//! Searches for words in archives (XEP-0431), the same for each database.
//!
//! The database reads messages of the archive in their order, a chunk at a time, and each body is compared here: an index of words
//! would cost each message that is written, for a question that few clients ask. The cost of one search is bounded by
//! [`limits::SEARCHED_ROWS`] and [`limits::SEARCHED_BYTES`]; a longer search goes on with the next page. The words never become a part of
//! a statement, so no character of them has a meaning.

use crate::limits;
use crate::xmpp::{ArchivePage, ArchiveQuery, read_budget};

/// The page of a query that may have words. `read` gives the page of a query without regard to its words.
pub(crate) fn page<E>(
    query: &ArchiveQuery,
    mut read: impl FnMut(&ArchiveQuery) -> Result<ArchivePage, E>,
) -> Result<ArchivePage, E> {
    let Some(text) = &query.text else { return read(query) };
    let mut search = Search::new(query, text);
    let mut chunk = ArchiveQuery { max: limits::SEARCHED_CHUNK, bytes: 0, ..query.clone() };
    loop {
        let mut part = read(&chunk)?;
        if part.is_unknown {
            // One that was named by the client, or the last one of the chunk before, which was deleted meanwhile.
            return Ok(part);
        }
        if query.from_end {
            part.stanzas.reverse();
        }
        let is_last = part.is_complete;
        let is_over = !part.stanzas.into_iter().all(|row| search.look_at(row));
        if is_over || is_last {
            return Ok(search.into_page(query.from_end, is_last && !is_over));
        }
        let place = if query.from_end { &mut chunk.before } else { &mut chunk.after };
        place.clone_from(&search.last);
    }
}

/// A search under way: its finds, and the work that it may still do.
struct Search {
    words: Vec<String>,
    found: ArchivePage,
    max: usize,
    /// Bytes that the page may still have.
    page_bytes: usize,
    rows: usize,
    bytes: usize,
    /// The id of the last message that was looked at.
    last: Option<Box<str>>,
}

impl Search {
    fn new(query: &ArchiveQuery, text: &str) -> Search {
        Search {
            words: text.split_whitespace().map(str::to_lowercase).collect(),
            found: ArchivePage::default(),
            max: query.max.min(limits::MAX_PAGE) as usize,
            page_bytes: read_budget(query.bytes),
            rows: limits::SEARCHED_ROWS,
            bytes: limits::SEARCHED_BYTES,
            last: None,
        }
    }

    /// Takes a message into the page if it fits. False: the search ends before this message.
    fn look_at(&mut self, row: (Box<str>, stdx::Instant, Box<str>)) -> bool {
        let length = row.2.len();
        // The first message is looked at whatever it has, so that each page goes on.
        let is_beyond = self.rows == 0 || (length > self.bytes && self.last.is_some());
        if is_beyond || self.found.stanzas.len() >= self.max {
            return false;
        }
        let body = body(&row.2).to_lowercase();
        if self.words.iter().all(|word| body.contains(word)) {
            if length > self.page_bytes && !self.found.stanzas.is_empty() {
                return false;
            }
            self.page_bytes = self.page_bytes.saturating_sub(length);
            self.last = Some(row.0.clone());
            self.found.stanzas.push(row);
        } else {
            self.last = Some(row.0);
        }
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(length);
        true
    }

    fn into_page(self, from_end: bool, is_complete: bool) -> ArchivePage {
        let mut page = self.found;
        if from_end {
            page.stanzas.reverse();
        }
        page.is_complete = is_complete;
        page.searched_to = self.last.filter(|_| !is_complete);
        page
    }
}

/// The text of the bodies of a message, in the form in which this server writes XML: no comments, no sections of characters. A body with
/// a namespace of its own is XHTML (XEP-0071), and repeats what the body says.
fn body(stanza: &str) -> String {
    let mut text = String::new();
    let mut rest = stanza;
    while let Some((_, after)) = rest.split_once("<body") {
        rest = after;
        let Some((attributes, after)) = after.split_once('>') else { break };
        let is_tag = attributes.is_empty() || attributes.starts_with(' ');
        if !is_tag || attributes.ends_with('/') || attributes.contains(" xmlns=") {
            continue;
        }
        let Some((content, after)) = after.split_once("</body>") else { break };
        unescape(content, &mut text);
        // The words of two languages are not one word.
        text.push('\n');
        rest = after;
    }
    text
}

fn unescape(content: &str, text: &mut String) {
    let mut rest = content;
    while let Some((before, after)) = rest.split_once('&') {
        text.push_str(before);
        // A reference without an end: no text follows that could be trusted.
        let Some((entity, after)) = after.split_once(';') else { return };
        text.push(match entity {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            // A carriage return, and what only attributes have.
            _ => ' ',
        });
        rest = after;
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn only_the_text_of_a_body_is_searched() {
        let message = "<message xmlns='jabber:client' from='body@x'><subject>no</subject><bodyguard>no</bodyguard><body/>\
            <body xml:lang='de'>a &lt;b&gt; &amp;amp; c&#13;</body><html xmlns='http://jabber.org/protocol/xhtml-im'>\
            <body xmlns='http://www.w3.org/1999/xhtml'><p>no</p></body></html><body>d]]&gt;</body></message>";
        assert_eq!(body(message), "a <b> &amp; c \nd]]>\n");
    }

    #[test]
    fn damaged_text_is_searched_as_far_as_it_goes() {
        for (stanza, expected) in [
            ("", ""),
            ("<body", ""),
            ("<body>x", ""),
            ("<body>a&b</body>", "a\n"),
            ("<body>é&;</body>", "é \n"),
        ] {
            assert_eq!(body(stanza), expected, "{stanza}");
        }
    }
}
