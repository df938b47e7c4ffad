//! XML text that we make.

/// Appends `text` so that it stands as itself in content and in attributes. Characters that XML 1.0 §2.2
/// excludes, control characters above all, become U+FFFD.
pub(super) fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_cannot_end_its_xml_element() {
        assert_eq!(escaped("a\"b'<c>&d"), "a&quot;b&apos;&lt;c&gt;&amp;d");
        assert_eq!(escaped("a\nb\u{1}c\u{ffff}é"), "a b\u{fffd}c\u{fffd}é");
    }
}
