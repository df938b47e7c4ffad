//! Labels for the arrows of a ladder, read from the first line of a SIP message.

pub use stdx::ladder::{Ladder, MessageFate};

/// The method of a request, the status code of a response, `ping` and `pong` for the keep-alives of RFC 5626
/// §3.5, the count of bytes of anything else.
pub fn label(bytes: &[u8]) -> String {
    match bytes {
        b"\r\n\r\n" => "ping".into(),
        b"\r\n" => "pong".into(),
        _ => first_line(bytes).unwrap_or_else(|| format!("{} B", bytes.len())),
    }
}

/// As `label`, and responses name their method: `200 INVITE`.
pub fn label_with_method(bytes: &[u8]) -> String {
    let label = label(bytes);
    let is_status = label.bytes().all(|byte| byte.is_ascii_digit());
    match cseq_method(bytes).filter(|_| is_status) {
        Some(method) => format!("{label} {method}"),
        None => label,
    }
}

fn first_line(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|byte| *byte == b'\r' || *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (first, second, last) = (words.next()?, words.next()?, words.next()?);
    if first == "SIP/2.0" {
        return Some(second.to_owned());
    }
    (words.next().unwrap_or(last) == "SIP/2.0").then(|| first.to_owned())
}

fn cseq_method(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (_, value) = text
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim_end().eq_ignore_ascii_case("CSeq"))?;
    value.split_ascii_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"INVITE sip:bob@example.org SIP/2.0\r\nCSeq: 1 INVITE\r\n\r\n";
    const RESPONSE: &[u8] = b"SIP/2.0 180 Ringing\r\nTo: <sip:a@b>\r\ncseq : 1 INVITE\r\n\r\nCSeq: 2 BYE";

    #[test]
    fn the_first_line_names_an_arrow() {
        assert_eq!(label(REQUEST), "INVITE");
        assert_eq!(label(RESPONSE), "180");
        assert_eq!(label(b"SIP/2.0 200 \r\n\r\n"), "200");
        assert_eq!(label(b"\r\n\r\n"), "ping");
        assert_eq!(label(b"\r\n"), "pong");
        assert_eq!(label(b"\xff\xfe\x00"), "3 B");
        assert_eq!(label(b""), "0 B");
        assert_eq!(label(b"GET / HTTP/1.1\r\n"), "16 B");
    }

    #[test]
    fn responses_may_name_their_method() {
        assert_eq!(label_with_method(RESPONSE), "180 INVITE");
        assert_eq!(label_with_method(REQUEST), "INVITE");
        assert_eq!(label_with_method(b"SIP/2.0 200 OK\r\n\r\nCSeq: 2 BYE"), "200");
    }
}
