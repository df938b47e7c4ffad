//! `-cid_str`: the shape of the Call-IDs of calls that we start.

use std::fmt::Write as _;
use std::net::IpAddr;

/// `%u` is the call's number, `%s` our address, `%p` the process, `%%` a per cent sign. Anything else after
/// `%` is dropped with it, as SIPp drops it.
pub fn call_id(format: &str, number: u64, ip: IpAddr, pid: u32) -> Box<[u8]> {
    let mut id = String::with_capacity(format.len() + 32);
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            id.push(character);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match rest.next() {
            Some('u') => write!(id, "{number}"),
            Some('p') => write!(id, "{pid}"),
            Some('s') => write!(id, "{ip}"),
            Some('%') => id.write_char('%'),
            _ => Ok(()),
        };
    }
    id.into_bytes().into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_followed() {
        let id = |format| String::from_utf8(call_id(format, 7, [127, 0, 0, 1].into(), 42).into()).unwrap();
        assert_eq!(id("%u-%p@%s"), "7-42@127.0.0.1");
        assert_eq!(id("100%%-%u"), "100%-7");
        assert_eq!(id("a%xb%"), "ab");
        assert_eq!(id(""), "");
    }
}
