//! The page of users: its files, the headers that bound it, and where it connects.

use sip::transport::Transport::{Ws, Wss};

use super::http::{Answer, Http};
use crate::place::Place;

fn policy(answer: &Answer) -> &str {
    answer.header("content-security-policy").unwrap_or_else(|| panic!("no policy: {}", answer.head))
}

#[test]
fn the_page_of_users_is_served_with_a_policy_that_names_its_two_ways() {
    let place = Place::new("").with_xmpp("[xmpp.web]\napp = true\nsip_url = \"wss://calls.test/sip\"\n");
    let mut node = place.start();
    for (transport, scheme) in [(Ws, "ws"), (Wss, "wss")] {
        let mut http = Http::connect(&place, transport);
        let page = http.ask("GET", "/app/", "", b"");
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(page.text().starts_with("<!doctype html>") || page.text().starts_with("<!DOCTYPE html>"));
        let at = place.xmpp_at(transport);
        let expected = format!("connect-src 'self' {scheme}://{at} wss://calls.test;");
        assert!(policy(&page).contains(&expected), "{}", page.head);
        assert!(policy(&page).starts_with("default-src 'none'; script-src 'self';"), "{}", page.head);
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        let settings = http.ask("GET", "/app/settings.json", "", b"");
        let read: serde_json::Value = serde_json::from_slice(&settings.body).unwrap();
        let ways = serde_json::json!({
            "domain": "example.test", "xmpp": format!("{scheme}://{at}/ws"), "sip": "wss://calls.test/sip",
            "tokens": false, "provider": null,
        });
        assert_eq!(read, ways);
        assert!(policy(&settings).contains("default-src 'none'"));
        // A header's value that is no host is not believed.
        let evil = http.ask("GET", "/app/settings.json", "Host: a;b\r\n", b"");
        assert!(!evil.text().contains(";b") && !evil.head.contains(";b"), "{} {}", evil.head, evil.text());
    }
    node.stop();
}

#[test]
fn files_of_the_page_are_sent_once_and_nothing_beside_them_is() {
    let place = Place::new("").with_xmpp("[xmpp.web]\napp = true\n");
    let mut node = place.start();
    let mut http = Http::connect(&place, Ws);
    let library = http.ask("GET", "/app/jssip.js", "", b"");
    assert_eq!(
        (library.status, library.header("content-type")),
        (200, Some("text/javascript; charset=utf-8"))
    );
    assert_eq!(library.body, web_app::find("jssip.js").unwrap().content);
    let tag = library.header("etag").unwrap().to_owned();
    let again = http.ask("GET", "/app/jssip.js", &format!("If-None-Match: \"x\", {tag}\r\n"), b"");
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(&*tag)));
    let head = http.ask("HEAD", "/app/app.js", "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for path in ["/", "/app"] {
        let answer = http.ask("GET", path, "", b"");
        assert_eq!((answer.status, answer.header("location")), (302, Some("app/")), "{path}");
    }
    for path in ["/app/index.html", "/app/../app/", "/app/README.md", "/app/%61pp.js", "/app//"] {
        assert_eq!(http.ask("GET", path, "", b"").status, 404, "{path}");
    }
    assert_eq!(http.ask("POST", "/app/", "", b"x").status, 405);
    node.stop();
    let place = Place::new("").with_xmpp("");
    let mut node = place.start();
    assert_eq!(
        Http::connect(&place, Ws).ask("GET", "/app/", "", b"").status,
        404,
        "off unless it is asked for"
    );
    node.stop();
}
