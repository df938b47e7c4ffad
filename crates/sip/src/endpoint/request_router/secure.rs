//! Requests to a sips URI, which go by TLS alone: RFC 3261 §26.2.2, RFC 5630 §5.3. The router asks before it forks.

use stdx::slab::Key;

use crate::endpoint::environment::loops::first_address;
pub(super) use crate::endpoint::environment::loops::is_sips;
use crate::endpoint::lower::LowerView;
use crate::proxy::Destination;
use crate::transport::{Transport, uri_transport};
use crate::wire::{Reply, Scheme, Uri};

/// The destinations whose way is TLS, with the Request-URIs that they get.
pub(super) fn secure_targets(groups: Vec<Vec<Destination>>) -> Vec<Vec<Destination>> {
    let secured = |group: Vec<Destination>| group.into_iter().filter_map(secured).collect();
    groups.into_iter().map(secured).filter(|group: &Vec<Destination>| !group.is_empty()).collect()
}

/// 480 with the warning of RFC 5630 §5.3, whether or not the address has targets without TLS: a stranger learns nothing about them.
pub(super) fn refuse_sips(lower: &mut LowerView<'_>, key: Key) {
    let Some(context) = lower.contexts.get(key) else { return };
    let source = context.source;
    let listeners = &lower.env.listeners;
    let listener = listeners.listener_for(source.transport, source.remote, Some(source.local));
    // RFC 3261 §25.1: the agent of a warning is a host and port, or a pseudonym.
    let agent = listener.map_or("-", |index| &*listeners.all[index].advertised);
    let warning = format!("380 {agent} \"SIPS Not Allowed\"");
    let warn = |reply: &mut Reply| {
        reply.header("Warning", warning.as_bytes());
    };
    lower.finish_with(key, 480, "Temporarily Unavailable", warn);
}

/// The destination of a request to a sips URI. `None`: the way there is not TLS, or not TLS to its end.
fn secured(destination: Destination) -> Option<Destination> {
    let uri = Uri::parse(&destination.uri).ok()?;
    let is_by_tls = match (&destination.received, first_address(&destination.path)) {
        (Some(received), _) => matches!(received.transport, Transport::Tls | Transport::Wss),
        (None, Some(route)) => route.parsed_uri().is_ok_and(|uri| names_tls(&uri)),
        (None, None) => names_tls(&uri),
    };
    // What the proxies of a Path do is theirs to decide, and a sips URI tells them.
    let is_to_the_end = destination.path.is_empty() || uri.scheme == Scheme::Sips;
    if !is_by_tls || !is_to_the_end {
        return None;
    }
    // The system of a route may send the request on.
    let uri = if destination.trusted { sips_of(&uri).into() } else { destination.uri.clone() };
    Some(Destination { uri, ..destination })
}

fn names_tls(uri: &Uri<'_>) -> bool {
    let named = || uri.params.get("transport").and_then(|name| uri_transport(name, false));
    uri.scheme == Scheme::Sips || matches!(named(), Some(Transport::Tls | Transport::Wss))
}

/// The sips URI of the same resource. RFC 5630 §5.3: it must not have `transport=tls`; TLS over TCP is what `tcp` means in it.
fn sips_of(uri: &Uri<'_>) -> Vec<u8> {
    let Some(rest) = uri.raw.strip_prefix(b"sip:") else { return uri.raw.to_vec() };
    let part = |part: &[u8]| match part.eq_ignore_ascii_case(b"transport=tls") {
        true => b"transport=tcp".to_vec(),
        false => part.to_vec(),
    };
    let parts: Vec<Vec<u8>> = rest.split(|byte| *byte == b';').map(part).collect();
    [b"sips:", &*parts.join(&b';')].concat()
}

#[cfg(test)]
mod tests {
    use router::Received;

    use super::*;

    /// The Request-URI of a request to a sips URI that goes there.
    fn of(destination: Destination) -> Option<String> {
        secured(destination).map(|secured| String::from_utf8(secured.uri.into()).unwrap())
    }

    fn binding(uri: &str, path: &str, transport: Option<Transport>) -> Destination {
        let address = "192.0.2.7:5061".parse().unwrap();
        let received =
            transport.map(|transport| Received { transport, local: address, remote: address, flow: None });
        let destination = Destination::new(uri.as_bytes(), received);
        Destination { path: path.into(), is_binding: true, ..destination }
    }

    /// RFC 5630 §5.3.
    #[test]
    fn a_sips_request_goes_by_tls_to_the_end_or_not_at_all() {
        let (sip, sips) = ("sip:bob@192.0.2.7", "sips:bob@192.0.2.7");
        for (uri, path, transport, is_taken) in [
            (sip, "", Some(Transport::Udp), false),
            (sip, "", Some(Transport::Tcp), false),
            (sip, "", Some(Transport::Ws), false),
            (sip, "", Some(Transport::Tls), true),
            (sip, "", Some(Transport::Wss), true),
            // A Contact that says sips and came by UDP would be called by UDP.
            (sips, "", Some(Transport::Udp), false),
            (sips, "", None, true),
            (sip, "", None, false),
            ("sip:bob@192.0.2.7;transport=tcp", "", None, false),
            ("sip:bob@192.0.2.7;transport=TLS", "", None, true),
            (sips, "<sips:edge.example.test;lr>", None, true),
            (sips, "<sip:edge.example.test;lr>", None, false),
            (sip, "<sips:edge.example.test;lr>", None, false),
        ] {
            let expected = is_taken.then(|| uri.to_owned());
            assert_eq!(of(binding(uri, path, transport)), expected, "{uri} {path} {transport:?}");
        }
    }

    #[test]
    fn the_system_of_a_route_gets_a_sips_uri() {
        let route = |uri: &str| Destination { trusted: true, ..Destination::new(uri.as_bytes(), None) };
        for (uri, expected) in [
            ("sip:+49;x=y@t.example:5061;transport=tls", Some("sips:+49;x=y@t.example:5061;transport=tcp")),
            ("sip:t.example;transport=tls", Some("sips:t.example;transport=tcp")),
            ("sip:+49@t.example", None),
            ("sip:+49@t.example;transport=udp", None),
        ] {
            assert_eq!(of(route(uri)).as_deref(), expected, "{uri}");
        }
    }
}
