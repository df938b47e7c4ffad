//! Checks of a request before it is looked at: the host that it names, the origin of a change, the session's cookie.
//!
//! A page of another site cannot read answers of the console (it has another origin) and cannot cause a change: the cookie is
//! `SameSite=Strict`, the `Origin` is compared, and the token of changes is in a header. A name that leads to this address
//! (DNS rebinding) is no host of the console.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use stdx::hex;

use crate::sessions::Token;

/// The name of the session's cookie.
pub(crate) const COOKIE_NAME: &str = "belfry_console";

/// The header with the token of changes.
pub(crate) const CSRF: &str = "x-csrf-token";

/// The header of requests that the page makes by itself.
pub(crate) const AUTOMATIC: &str = "x-console-automatic";

/// The hosts that the console answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    listen: IpAddr,
    /// Scheme, host and port of the public address.
    origin: Option<Box<str>>,
}

impl Hosts {
    pub(crate) fn new(listen: SocketAddr, origin: Option<&str>) -> Hosts {
        let origin = origin.map(|origin| origin.to_ascii_lowercase().into());
        Hosts { listen: listen.ip(), origin }
    }

    /// True if the `Host` of a request (RFC 9110 §7.2) is one of the console's. The port is not compared: a tunnel has another one, and
    /// an attacker's name is no better with it.
    pub(crate) fn allow(&self, headers: &HeaderMap) -> bool {
        let Some(host) = text(headers, HOST.as_str()) else { return false };
        let host = host.to_ascii_lowercase();
        if self.public_host() == Some(&*host) {
            return true;
        }
        let name = without_port(&host);
        if name == "localhost" {
            return true;
        }
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // Any address of ours where the console listens at all of them: a literal address cannot be rebound.
        address.is_ok_and(|ip| ip.is_loopback() || ip == self.listen || self.listen.is_unspecified())
    }

    /// True if the browser reaches the console by TLS, so that the cookie may ask for it.
    pub(crate) fn is_encrypted(&self, headers: &HeaderMap) -> bool {
        let is_https = self.origin.as_deref().is_some_and(|origin| origin.starts_with("https://"));
        let host = text(headers, HOST.as_str()).map(str::to_ascii_lowercase);
        is_https && host.is_some() && host.as_deref() == self.public_host()
    }

    /// True unless the request says that a page of another origin made it (RFC 6454 §7, Fetch Metadata).
    pub(crate) fn is_same_origin(&self, headers: &HeaderMap) -> bool {
        if text(headers, "sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return false;
        }
        let Some(origin) = headers.get(ORIGIN) else { return true };
        let Some(host) = text(headers, HOST.as_str()) else { return false };
        let authority =
            origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }

    fn public_host(&self) -> Option<&str> {
        self.origin.as_deref()?.split_once("://").map(|(_, host)| host)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A bare IPv6 address has colons and no port; one with a port has brackets.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':') => name,
        Some((name, port)) if name.ends_with(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The value of a header field that stands once.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

/// The session's token in the cookies of a request (RFC 6265 §4.2).
pub(crate) fn cookie(headers: &HeaderMap) -> Option<Token> {
    hex::decode_array(cookie_value(headers, COOKIE_NAME)?)
}

/// The value of the first cookie of a name.
pub(crate) fn cookie_value<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// The token in the `Authorization` of a request (RFC 6750 §2.1). Other schemes are not looked at.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    admin::bearer(text(headers, AUTHORIZATION.as_str())?)
}

/// The cookie of a session that begins.
pub(crate) fn set_cookie(token: &Token, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict{secure}", hex::encode(token))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        fields.iter().map(field).collect()
    }

    fn hosts(listen: &str, origin: Option<&str>) -> Hosts {
        Hosts::new(listen.parse().unwrap(), origin)
    }

    #[test]
    fn a_name_that_was_rebound_to_this_address_is_no_host_of_the_console() {
        let local = hosts("127.0.0.1:5380", Some("https://Console.example.net"));
        for (host, is_allowed) in [
            ("127.0.0.1:5380", true),
            ("localhost:15380", true),
            ("LOCALHOST", true),
            ("[::1]:5380", true),
            ("console.example.net", true),
            ("evil.test", false),
            ("evil.test:5380", false),
            ("localhost.evil.test", false),
            ("192.0.2.1:5380", false),
            ("", false),
        ] {
            assert_eq!(local.allow(&headers(&[("host", host)])), is_allowed, "{host}");
        }
        assert!(
            !local.allow(&headers(&[]))
                && !local.allow(&headers(&[("host", "localhost"), ("host", "localhost")]))
        );
        assert!(hosts("0.0.0.0:5380", None).allow(&headers(&[("host", "192.0.2.1:5380")])));
        assert!(!hosts("0.0.0.0:5380", None).allow(&headers(&[("host", "evil.test:5380")])));
    }

    #[test]
    fn a_change_that_a_page_of_another_origin_asks_for_is_seen() {
        let local = hosts("127.0.0.1:5380", None);
        let is_same = |fields: &[(&str, &str)]| {
            local.is_same_origin(&headers(&[&[("host", "127.0.0.1:5380")], fields].concat()))
        };
        assert!(is_same(&[]) && is_same(&[("origin", "http://127.0.0.1:5380")]));
        assert!(is_same(&[("sec-fetch-site", "same-origin")]));
        for origin in ["http://evil.test", "http://127.0.0.1:8080", "null", "http://127.0.0.1"] {
            assert!(!is_same(&[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(!is_same(&[("sec-fetch-site", site)]), "{site}");
        }
    }

    #[test]
    fn a_token_is_in_a_field_that_stands_once_and_other_schemes_are_passed_over() {
        let of = |value| headers(&[("authorization", value)]);
        assert_eq!(bearer(&of("Bearer a.b.c")), Some("a.b.c"));
        assert_eq!(bearer(&of("bearer  a.b.c ")), Some("a.b.c"));
        for other in ["", "Bearer", "Bearer ", "Basic YTpi", "a.b.c", "Bearers a.b.c"] {
            assert_eq!(bearer(&of(other)), None, "{other}");
        }
        let twice = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]);
        assert_eq!((bearer(&twice), bearer(&headers(&[]))), (None, None));
    }

    #[test]
    fn the_cookie_is_secure_where_the_browser_has_tls_and_is_read_among_others() {
        let public = hosts("127.0.0.1:5380", Some("https://console.example.net"));
        assert!(public.is_encrypted(&headers(&[("host", "console.example.net")])));
        assert!(!public.is_encrypted(&headers(&[("host", "localhost:5380")])), "a tunnel to the listener");
        let set = set_cookie(&[7; 32], true);
        assert!(set.contains("HttpOnly; SameSite=Strict; Secure"), "{set}");
        let value = set.split(';').next().unwrap();
        assert_eq!(cookie(&headers(&[("cookie", &format!("a=b; {value}; c=d"))])), Some([7; 32]));
        for wrong in ["", "belfry_console=00", "xbelfry_console=00", "belfry_console=zz"] {
            assert_eq!(cookie(&headers(&[("cookie", wrong)])), None, "{wrong}");
        }
    }
}
