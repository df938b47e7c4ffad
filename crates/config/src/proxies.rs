//! Reverse proxies before the WebSocket listeners of `[sip]`, and the headers in which proxies name their clients.
//!
//! The same header names are used by `[http]`; chat (`[xmpp.web]`) knows `X-Forwarded-For` only. A header
//! counts only on a connection from one of the proxies, as any client can write one (`net::proxies`).

use net::{ForwardedHeader, Proxies};

use super::reader::Section;
use super::value::Value;

/// A PROXY protocol is not read: proxies state the client in the HTTP request that opens the WebSocket.
pub(super) fn read(section: &mut Section<'_, '_>) -> Proxies {
    let proxies = section.list(
        "websocket_proxies",
        Vec::new(),
        "Reverse proxies before the `ws:` and `wss:` addresses. The client of a connection that one of them passes on is the one that the proxy names in the header of `websocket_forwarded_header`, to limits per source, `trusted` and routes; their own connections are not counted per source. No proxy is believed when empty.",
    );
    let header = section.key(
        "websocket_forwarded_header",
        ForwardedHeader::XForwardedFor,
        "The header in which these proxies say for which client they speak: `x-forwarded-for`, or `forwarded` (RFC 7239). The other one is not looked at, because a client may have written it.",
    );
    Proxies::new(proxies, header)
}

impl Value for ForwardedHeader {
    const EXPECTED: &'static str = "\"x-forwarded-for\" or \"forwarded\"";

    fn read(value: &toml::de::DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "x-forwarded-for" => Some(ForwardedHeader::XForwardedFor),
            "forwarded" => Some(ForwardedHeader::Forwarded),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            ForwardedHeader::XForwardedFor => "\"x-forwarded-for\"".into(),
            ForwardedHeader::Forwarded => "\"forwarded\"".into(),
        }
    }
}
