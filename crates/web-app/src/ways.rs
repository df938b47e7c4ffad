//! The addresses that the page connects to: its own address for chat, a listener of SIP for calls.

use std::net::IpAddr;

use serde_json::json;

/// A listener of SIP over WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipListener {
    /// `None`: the host by which the browser found the page.
    pub address: Option<IpAddr>,
    /// The TCP port.
    pub port: u16,
}

/// The ways to SIP over WebSocket of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SipWays {
    /// Configured, as `wss://phone.example.net/sip`: the others do not count.
    pub url: Option<Box<str>>,
    /// In the clear: for a page that came in the clear.
    pub plain: Option<SipListener>,
    /// With TLS.
    pub secure: Option<SipListener>,
}

/// The OpenID provider to which the page sends users, as a public client (RFC 6749 §2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageProvider {
    /// Its issuer: a URL, by which the page finds its addresses (OpenID Connect Discovery 1.0 §4).
    pub issuer: Box<str>,
    /// The name of the page at the provider.
    pub client_id: Box<str>,
    /// The scopes that are asked for.
    pub scopes: Vec<Box<str>>,
    /// The provider's name for people.
    pub label: Box<str>,
}

/// A domain whose users prove themselves by tokens, not by passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenDomain {
    /// The domain.
    pub domain: Box<str>,
    /// `None`: users bring a token along.
    pub provider: Option<PageProvider>,
}

/// The settings of the page of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSettings {
    /// The ways of its phone.
    pub sip: SipWays,
    /// The domains of tokens.
    pub token_domains: Vec<TokenDomain>,
}

/// The ways of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The domain of addresses that are typed without one.
    domain: String,
    /// The URL of XMPP over WebSocket (RFC 7395).
    xmpp: String,
    /// The URL of SIP over WebSocket (RFC 7118); `None`: the page has no phone.
    sip: Option<String>,
    /// The domain is one of tokens.
    tokens: Option<TokenDomain>,
}

impl Ways {
    /// `base`: the URL of the page without `/app/`, as `https://chat.example.net`.
    pub fn new(domain: &str, base: &str, page: &PageSettings) -> Ways {
        let xmpp = format!("{}/ws", base.replacen("http", "ws", 1));
        let tokens = page.token_domains.iter().find(|one| one.domain.eq_ignore_ascii_case(domain)).cloned();
        Ways { domain: domain.to_owned(), xmpp, sip: sip_url(base, &page.sip), tokens }
    }

    /// The same as [`new`](Self::new), for a request. `public_url` is the configured one, which counts before the header `Host`; without
    /// either, `fallback`. `domains`: those served; a page that was found by the name of one is for that one.
    pub fn of_request(
        (host, is_secure): (Option<&str>, bool),
        (public_url, fallback): (Option<&str>, &str),
        domains: &[Box<str>],
        page: &PageSettings,
    ) -> Ways {
        let asked = host.and_then(|host| base_of(host, is_secure));
        let base = public_url.map(str::to_owned).or(asked).unwrap_or_else(|| fallback.to_owned());
        let name = base.split_once("://").map_or("", |(_, rest)| host_of(rest));
        let own = domains.iter().find(|domain| domain.eq_ignore_ascii_case(name));
        let domain = own.or(domains.first()).map_or(name, |domain| domain);
        Ways::new(domain, &base, page)
    }

    /// The content of `settings.json`, which the page reads first.
    pub fn settings(&self) -> String {
        let provider = self.provider().map(|provider| {
            json!({
                "issuer": provider.issuer,
                "client_id": provider.client_id,
                "scope": provider.scopes.join(" "),
                "label": provider.label,
            })
        });
        json!({
            "domain": self.domain,
            "xmpp": self.xmpp,
            "sip": self.sip,
            "tokens": self.tokens.is_some(),
            "provider": provider,
        })
        .to_string()
    }

    fn provider(&self) -> Option<&PageProvider> {
        self.tokens.as_ref()?.provider.as_ref()
    }

    /// The value of `Content-Security-Policy`: files of this site, sound that the page has read itself, connections to these two addresses and the provider, nothing else. Strings
    /// become XML by the page's one policy of trusted types, and never HTML or code.
    pub fn content_security_policy(&self) -> String {
        let further = [self.sip.as_deref(), self.provider().map(|provider| &*provider.issuer)];
        let further: String =
            further.into_iter().flatten().map(|url| format!(" {}", origin_of(url))).collect();
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src blob:; \
             connect-src 'self' {}{further}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types xml",
            origin_of(&self.xmpp)
        )
    }
}

fn sip_url(base: &str, sip: &SipWays) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let is_secure = scheme == "https";
    if let Some(url) = &sip.url {
        // A browser refuses connections in the clear of a page that came with TLS.
        return (url.starts_with("wss:") || !is_secure).then(|| url.to_string());
    }
    let plain = sip.plain.as_ref().filter(|_| !is_secure).map(|listener| ("ws", listener));
    let (scheme, listener) = plain.or(sip.secure.as_ref().map(|listener| ("wss", listener)))?;
    let host = match listener.address {
        Some(IpAddr::V6(ip)) => format!("[{ip}]"),
        Some(ip) => ip.to_string(),
        None => host_of(rest).to_owned(),
    };
    Some(format!("{scheme}://{host}:{}/", listener.port))
}

/// The host of `host:port/path`.
fn host_of(rest: &str) -> &str {
    let authority = rest.split('/').next().unwrap_or_default();
    let end = authority.find(']').map_or_else(|| authority.find(':'), |end| Some(end + 1));
    end.map_or(authority, |end| &authority[..end])
}

/// Scheme and authority of a URL.
fn origin_of(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |at| at + 3);
    url[begin..].find('/').map_or(url, |end| &url[..begin + end])
}

/// The URL by which a browser found the node, of the header `Host` (RFC 9110 §7.2). `None`: it is no host and port.
fn base_of(host: &str, is_secure: bool) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let is_host = !host.is_empty() && host.len() <= MAX_HOST && host.chars().all(is_plain);
    is_host.then(|| format!("{}://{host}", if is_secure { "https" } else { "http" }))
}

/// Bytes of a name in DNS (RFC 1035 §2.3.4), and a port.
const MAX_HOST: usize = 255 + 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings of a page with this phone, and no domain of tokens.
    fn page_of(sip: &SipWays) -> PageSettings {
        PageSettings { sip: sip.clone(), token_domains: Vec::new() }
    }

    fn ways() -> SipWays {
        let at = |port| Some(SipListener { address: None, port });
        SipWays { url: None, plain: at(5080), secure: at(5443) }
    }

    fn of(host: &str, is_secure: bool, public: Option<&str>, sip: &SipWays) -> Ways {
        let domains = ["example.test".into(), "example.net".into()];
        Ways::of_request(
            (Some(host), is_secure),
            (public, "https://example.test:5281"),
            &domains,
            &page_of(sip),
        )
    }

    #[test]
    fn the_page_connects_to_where_it_came_from() {
        let page = of("127.0.0.1:5280", false, None, &ways());
        assert_eq!(page.xmpp, "ws://127.0.0.1:5280/ws");
        assert_eq!(page.sip.as_deref(), Some("ws://127.0.0.1:5080/"));
        assert_eq!(page.domain, "example.test");
        let page = of("Example.Net:5281", true, None, &ways());
        assert_eq!(
            (&*page.domain, &*page.xmpp, page.sip.as_deref()),
            ("example.net", "wss://Example.Net:5281/ws", Some("wss://Example.Net:5443/"))
        );
        let page = of("[::1]:5281", true, None, &ways());
        assert_eq!(page.sip.as_deref(), Some("wss://[::1]:5443/"));
        let elsewhere = SipListener { address: Some([192, 0, 2, 7].into()), port: 5443 };
        let page = of("example.net", true, None, &SipWays { secure: Some(elsewhere), ..ways() });
        assert_eq!(page.sip.as_deref(), Some("wss://192.0.2.7:5443/"));
    }

    #[test]
    fn a_configured_url_goes_before_the_url_of_a_header() {
        let sip = SipWays { url: Some("wss://chat.example.net/sip".into()), ..ways() };
        let page = of("127.0.0.1:5280", false, Some("https://chat.example.net/x"), &sip);
        assert_eq!(page.xmpp, "wss://chat.example.net/x/ws");
        assert_eq!(page.sip.as_deref(), Some("wss://chat.example.net/sip"));
        assert!(
            page.content_security_policy()
                .contains("connect-src 'self' wss://chat.example.net wss://chat.example.net;")
        );
    }

    #[test]
    fn the_page_of_a_domain_of_tokens_may_reach_its_provider_and_no_other_page_may() {
        let provider = PageProvider {
            issuer: "https://id.example.org/realms/a".into(),
            client_id: "page".into(),
            scopes: vec!["openid".into(), "profile".into()],
            label: "Example".into(),
        };
        let tokens = TokenDomain { domain: "example.test".into(), provider: Some(provider) };
        let settings = PageSettings { sip: ways(), token_domains: vec![tokens] };
        let page = Ways::new("example.test", "https://example.test", &settings);
        assert!(page.settings().contains("\"scope\":\"openid profile\""), "{}", page.settings());
        assert!(page.settings().contains("\"tokens\":true"), "{}", page.settings());
        let policy = page.content_security_policy();
        assert!(policy.contains(" wss://example.test:5443 https://id.example.org; base-uri"), "{policy}");
        let other = Ways::new("example.net", "https://example.net", &settings);
        assert!(
            other.settings().contains("\"tokens\":false") && other.settings().contains("\"provider\":null")
        );
        assert!(!other.content_security_policy().contains("id.example.org"));
    }

    #[test]
    fn a_page_with_tls_has_no_way_without() {
        let sip = SipWays { secure: None, ..ways() };
        assert_eq!(of("example.net", true, None, &sip).sip, None);
        let sip = SipWays { url: Some("ws://example.net:5080/".into()), ..ways() };
        assert_eq!(of("example.net", true, None, &sip).sip, None);
        assert!(of("example.net", true, None, &sip).settings().contains("\"sip\":null"));
    }

    #[test]
    fn a_host_that_is_none_writes_nothing_into_policy_or_settings() {
        for host in ["", "a b", "a;script-src *", "a'", "a\"", "a/b", "a,b", "ä.test", &"a".repeat(300)] {
            let page = of(host, true, None, &ways());
            assert_eq!(page, of("example.test:5281", true, None, &ways()), "{host}");
        }
        let policy = of("a.test:1", false, None, &ways()).content_security_policy();
        assert!(policy.contains("connect-src 'self' ws://a.test:1 ws://a.test:5080;"), "{policy}");
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    }
}
