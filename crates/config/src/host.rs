//! Hosts, as the configuration has them and as URIs do.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

/// A host as it stands before a port (RFC 3261 §25.1): an IPv6 address has brackets.
pub fn host_in_uri(host: &str) -> Cow<'_, str> {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]").into(),
        Err(_) => host.into(),
    }
}

/// A host without the brackets that an IPv6 address has in a URI.
pub(super) fn without_brackets(host: Box<str>) -> Box<str> {
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inside.filter(|inside| inside.parse::<Ipv6Addr>().is_ok()).map(Into::into).unwrap_or(host)
}

/// True for an address, and for a host name (RFC 3261 §25.1), which has no port.
pub(super) fn is_host(host: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label = |label: &str| !label.is_empty() && !label.starts_with('-') && label.chars().all(is_plain);
    let is_like_address = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    host.parse::<IpAddr>().is_ok() || !is_like_address && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port_and_brackets_only_in_a_uri() {
        let hosts =
            ["sip.example.net", "localhost", "192.0.2.7", "2001:db8::1", "a_b.example", "3com.example"];
        for host in hosts {
            assert!(is_host(host), "{host}");
        }
        let others = [
            "sip.example.net:5062",
            "127.0.0.1:99999",
            "[::1]:5070",
            "-5s",
            "x..y",
            "1.2.3",
            "",
            "a b",
            "[::1",
        ];
        for other in others {
            assert!(!is_host(&without_brackets(other.into())), "{other}");
        }
        assert_eq!(&*without_brackets("[2001:db8::1]".into()), "2001:db8::1");
        assert_eq!((host_in_uri("2001:db8::1"), host_in_uri("a.b")), ("[2001:db8::1]".into(), "a.b".into()));
    }
}
