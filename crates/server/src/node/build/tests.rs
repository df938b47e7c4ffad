//! Parts of a node from a configuration and a database.

use std::path::Path;

use super::*;

fn config(text: &str) -> Config {
    Config::parse(text, Path::new("belfry.toml")).unwrap()
}

fn route(name: &str, pattern: store::Pattern, target: &str) -> store::Route {
    let target = store::types::RouteTarget { uri: target.into(), weight: 1, priority: 1 };
    store::Route {
        id: 0,
        name: name.into(),
        pattern,
        targets: vec![target],
        open: true,
        probe: true,
        strip: 0,
        prefix: "".into(),
        policy: store::types::RoutePolicy::default(),
        created_at: Instant::default(),
    }
}

#[test]
fn a_route_that_cannot_be_does_not_take_the_others_down() {
    let config = config("[sip]\ndomains = [\"example.test\"]\n");
    let routes = [
        route("broken pattern", store::Pattern::Regex("(".into()), "sip:127.0.0.1:1"),
        route("broken target", store::Pattern::User("a".into()), "not a uri"),
        route("sound", store::Pattern::User("b".into()), "sip:127.0.0.1:2"),
    ];
    let plan = compile(&config, &["example.test".into()], &routes, false).unwrap();
    let peers: Vec<String> = plan.probed().iter().map(ToString::to_string).collect();
    assert_eq!(peers.len(), 1, "{peers:?}");
    assert!(peers[0].contains("127.0.0.1:2"), "{peers:?}");
}

#[test]
fn a_wildcard_is_every_address_of_its_family() {
    let config = config("[sip]\nlisten = [\"udp:0.0.0.0:5070\", \"tcp:127.0.0.1:5071\"]\n");
    let all = addresses(&config);
    assert!(all.iter().all(|listener| !listener.address.ip().is_unspecified()));
    assert!(all.iter().all(|listener| listener.address.is_ipv4()));
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    assert!(all.iter().any(|listener| listener.address == loopback(5070)));
    assert!(all.iter().any(|listener| listener.address == loopback(5071)));
}

#[test]
fn a_certificate_of_our_own_has_the_names_that_clients_may_reach_the_node_by() {
    let config = config(
        "[sip]\ndomains = [\"bücher.example\"]\nadvertise = \"sip.example.net\"\n\
         listen = [\"udp:0.0.0.0:5060\", \"tls:192.0.2.7:5061\"]\n\
         [xmpp]\nlisten = [\"tcp:192.0.2.7:5222\", \"tcp:[2001:db8::7]:5222\"]\n",
    );
    let expected = [
        "xn--bcher-kva.example",
        "localhost",
        "127.0.0.1",
        "::1",
        "sip.example.net",
        "192.0.2.7",
        "2001:db8::7",
    ];
    assert_eq!(own_names(&config), expected.map(Box::from));
}
