//! The comments of a source file: consecutive lines of one kind are one comment.

use crate::source::{Source, literal_or_comment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentKind {
    /// `//` and `/* */`.
    Plain,
    /// `///` and `/** */`: documents the item below.
    Item,
    /// `//!` and `/*! */`: documents the module.
    Module,
}

#[derive(Debug)]
pub(crate) struct Comment {
    pub(crate) kind: CommentKind,
    /// The number of the first line, from 1.
    pub(crate) line: usize,
    /// The lines without their marks.
    pub(crate) text: Vec<String>,
    /// Code stands before it on its line.
    pub(crate) is_trailing: bool,
}

impl Comment {
    pub(crate) fn is_doc(&self) -> bool {
        self.kind != CommentKind::Plain
    }

    /// The lines with their numbers, from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.iter().enumerate().map(|(index, text)| (self.line + index, text.as_str()))
    }
}

/// All comments of the file, in its order.
pub(crate) fn comments(source: &Source) -> Vec<Comment> {
    let bytes = source.text.as_bytes();
    let mut comments: Vec<Comment> = Vec::new();
    let (mut at, mut line, mut line_start) = (0, 1, 0);
    while at < bytes.len() {
        let length = literal_or_comment(bytes, at).max(1);
        let piece = &bytes[at..at + length];
        if piece.starts_with(b"//") || piece.starts_with(b"/*") {
            let is_trailing = bytes[line_start..at].iter().any(|byte| !byte.is_ascii_whitespace());
            push(&mut comments, new_comment(&String::from_utf8_lossy(piece), line, is_trailing));
        }
        for (index, _) in piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            line += 1;
            line_start = at + index + 1;
        }
        at += length;
    }
    comments
}

fn new_comment(piece: &str, line: usize, is_trailing: bool) -> Comment {
    let is_block = piece.starts_with("/*");
    let kind = match piece.as_bytes().get(2) {
        Some(b'!') => CommentKind::Module,
        Some(b'/') if piece.as_bytes().get(3) != Some(&b'/') => CommentKind::Item,
        Some(b'*') if is_block && piece.len() > 4 => CommentKind::Item,
        _ => CommentKind::Plain,
    };
    let marks: &[char] = &['/', '*', '!', ' '];
    let text =
        piece.lines().map(|text| text.trim().trim_start_matches(marks).trim_end_matches("*/").to_owned());
    Comment { kind, line, text: text.collect(), is_trailing }
}

/// Adds the comment, or its line to the comment that ends on the line above.
fn push(comments: &mut Vec<Comment>, comment: Comment) {
    if let Some(last) = comments.last_mut()
        && last.kind == comment.kind
        && !last.is_trailing
        && !comment.is_trailing
        && last.line + last.text.len() == comment.line
    {
        last.text.extend(comment.text);
    } else {
        comments.push(comment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_kind_are_one_comment() {
        let text = "//! One\n//! module.\n\n/// A doc\n/// of two lines.\nfn a() {} // why\n// and\n// more\nlet s = \"// no\";\n/* block\n * two */\n//// a rule\n";
        let found: Vec<_> = comments(&Source::new("x.rs", text))
            .into_iter()
            .map(|it| (it.kind, it.line, it.text.join("|"), it.is_trailing))
            .collect();
        let expected = [
            (CommentKind::Module, 1, "One|module.", false),
            (CommentKind::Item, 4, "A doc|of two lines.", false),
            (CommentKind::Plain, 6, "why", true),
            (CommentKind::Plain, 7, "and|more", false),
            (CommentKind::Plain, 10, "block|two |a rule", false),
        ];
        assert_eq!(
            found,
            expected.map(|(kind, line, text, trailing)| (kind, line, text.to_owned(), trailing))
        );
    }
}
