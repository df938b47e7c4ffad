//! Header fields of bytes that are not parsed: the shard of a message and its place in a capture are found by them.

/// The value of the first Call-ID line, long or compact.
pub fn raw_call_id(message: &[u8]) -> Option<&[u8]> {
    raw_header_value(message, b"call-id", b'i')
}

/// The value of the first line with this name, in lower case, or its compact form.
#[inline]
pub fn raw_header_value<'m>(message: &'m [u8], name: &[u8], compact: u8) -> Option<&'m [u8]> {
    for end in memchr::memchr_iter(b'\n', message) {
        let line = &message[end + 1..];
        let name_length = match line {
            [first, b':' | b' ' | b'\t', ..] if first.eq_ignore_ascii_case(&compact) => 1,
            [first, ..]
                if first.eq_ignore_ascii_case(&name[0])
                    && line.len() > name.len()
                    && line[..name.len()].eq_ignore_ascii_case(name) =>
            {
                name.len()
            }
            // The empty line: no header after it.
            [b'\r' | b'\n', ..] => return None,
            _ => continue,
        };
        let rest = &line[name_length..];
        let colon = rest.iter().position(|&byte| byte == b':')?;
        if !rest[..colon].iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            continue;
        }
        let value_end = memchr::memchr(b'\n', rest)?;
        return Some(rest[colon + 1..value_end].trim_ascii());
    }
    None
}
