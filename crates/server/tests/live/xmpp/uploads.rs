//! Files of users (XEP-0363): slots, their content, and downloads.

use sip::transport::Transport::{Tls, Ws, Wss};
use xmpp::ns;

use super::client::Client;
use super::http::{Answer, Http};
use crate::place::Place;
use crate::until;
use crate::voice::sum;

pub(super) struct Slot {
    /// Without the address of the server.
    pub(super) path: String,
    pub(super) token: String,
}

fn ask(client: &mut Client, name: &str, size: usize, kind: &str) -> xmpp::Element {
    client.say(&format!(
        "<iq xmlns='jabber:client' type='get' id='up' to='example.test'><request xmlns='urn:xmpp:http:upload:0' \
         filename='{name}' size='{size}' content-type='{kind}'/></iq>"
    ));
    client.hear()
}

pub(super) fn slot(place: &Place, client: &mut Client, name: &str, size: usize, kind: &str) -> Slot {
    let answer = ask(client, name, size, kind);
    let slot = answer.get("slot", ns::UPLOAD).unwrap_or_else(|| panic!("{answer}"));
    let put = slot.get("put", ns::UPLOAD).unwrap();
    let url = put.attr("url").unwrap();
    assert_eq!(slot.get("get", ns::UPLOAD).unwrap().attr("url"), Some(url));
    let base = format!("https://{}", place.xmpp_at(Wss));
    let path = url.strip_prefix(&base).unwrap_or_else(|| panic!("{url}")).to_owned();
    let header = put.get("header", ns::UPLOAD).unwrap();
    assert_eq!(header.attr("name"), Some("Authorization"));
    Slot { path, token: header.content().into_owned() }
}

impl Slot {
    fn put(&self, place: &Place, kind: &str, content: &[u8]) -> Answer {
        let headers = format!("Authorization: {}\r\nContent-Type: {kind}\r\n", self.token);
        Http::connect(place, Wss).ask("PUT", &self.path, &headers, content)
    }
}

#[test]
fn a_file_is_uploaded_once_and_served_to_clients_with_its_url() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    // More than one chunk.
    let content: Vec<u8> = (0..600_000_u32).map(|number| (number % 251) as u8).collect();
    let slot = slot(&place, &mut alice, "très jolie.png", content.len(), "image/png");
    assert!(slot.path.ends_with("/tr%C3%A8s%20jolie.png"), "{}", slot.path);
    let mut http = Http::connect(&place, Ws);
    assert_eq!(http.ask("GET", &slot.path, "", b"").status, 404, "nothing is there yet");
    assert_eq!(slot.put(&place, "image/png", &content).status, 201);
    assert_eq!(slot.put(&place, "image/png", &content).status, 409, "once");
    let answer = http.ask("GET", &slot.path, "Origin: https://any.test\r\n", b"");
    assert!(answer.status == 200 && answer.body == content);
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-disposition", "inline; filename*=utf-8''tr%c3%a8s%20jolie.png"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
        ("x-content-type-options", "nosniff"),
        ("accept-ranges", "bytes"),
        ("access-control-allow-origin", "*"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
    let part = http.ask("GET", &slot.path, "Range: bytes=300000-300009\r\n", b"");
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 300000-300009/600000")));
    assert_eq!(part.body, content[300_000..300_010]);
    let beyond = http.ask("GET", &slot.path, "Range: bytes=600000-\r\n", b"");
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */600000")));
    let head = http.ask("HEAD", &slot.path, "", b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("600000")));
    until("it is counted", || (sum(&node, |shard| shard.xmpp.uploads) == 1).then_some(()));
    until("and its bytes", || (sum(&node, |shard| shard.xmpp.upload_bytes) > 600_000).then_some(()));
    // After a restart it is there, and nothing else is.
    node.stop();
    node = place.start();
    let mut http = Http::connect(&place, Wss);
    assert_eq!(http.ask("GET", &slot.path, "", b"").body, content);
    let (id, _) = slot.path.strip_prefix("/upload/").unwrap().split_once('/').unwrap();
    for path in [
        format!("/upload/{id}/other.png"),
        format!("/upload/{id}"),
        format!("/upload/{}/tr%C3%A8s%20jolie.png", "0".repeat(32)),
        format!("/upload/{}/x", id.to_uppercase()),
        "/upload/../../belfry.toml/x".to_owned(),
        "/upload/..%2F..%2Fbelfry.toml/x".to_owned(),
        format!("/upload/coming/{id}"),
        "/upload/".to_owned(),
        "/upload/%zz/%".to_owned(),
    ] {
        assert_eq!(http.ask("GET", &path, "", b"").status, 404, "{path}");
    }
    node.stop();
}

#[test]
fn an_upload_that_differs_from_its_slot_is_refused() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let one = slot(&place, &mut alice, "one.html", 5, "text/html");
    let two = slot(&place, &mut alice, "two.html", 5, "text/html");
    let put = |path: &str, headers: &str, content: &[u8]| {
        Http::connect(&place, Wss).ask("PUT", path, headers, content).status
    };
    let token = format!("Authorization: {}\r\n", one.token);
    let full = format!("{token}Content-Type: text/html\r\n");
    assert_eq!(put(&one.path, "Content-Type: text/html\r\n", b"hello"), 401);
    assert_eq!(put(&one.path, "Authorization: Bearer x.y\r\n", b"hello"), 403);
    assert_eq!(put(&two.path, &full, b"hello"), 403, "another's slot");
    assert_eq!(put("/upload/x/y", &full, b"hello"), 404);
    assert_eq!(put(&one.path, &full, b"hell"), 400);
    assert_eq!(put(&one.path, &full, b"hello!"), 413);
    assert_eq!(put(&one.path, &format!("{token}Content-Type: image/png\r\n"), b"hello"), 415);
    let chunked = format!("{full}Transfer-Encoding: chunked\r\n");
    let mut http = Http::connect(&place, Wss);
    http.say_raw(
        format!("PUT {} HTTP/1.1\r\nHost: x\r\n{chunked}\r\n5\r\nhello\r\n0\r\n\r\n", one.path).as_bytes(),
    );
    assert_eq!(http.hear(true).status, 411);
    // One that breaks off leaves nothing, and the slot can be used.
    let mut broken = Http::connect(&place, Wss);
    broken.say_raw(
        format!("PUT {} HTTP/1.1\r\nHost: x\r\n{full}Content-Length: 5\r\n\r\nhe", one.path).as_bytes(),
    );
    until("it is begun", || std::fs::read_dir(place.path("data/uploads/coming")).unwrap().next().map(drop));
    assert_eq!(put(&one.path, &full, b"hello"), 409, "an upload is under way");
    drop(broken);
    until("nothing is left of it", || {
        std::fs::read_dir(place.path("data/uploads/coming")).unwrap().next().is_none().then_some(())
    });
    assert_eq!(put(&one.path, &full, b"hello"), 201);
    let answer = Http::connect(&place, Wss).ask("GET", &one.path, "", b"");
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename*=utf-8''one.html"));
    node.stop();
}

#[test]
fn uploads_of_a_user_and_of_the_server_are_bounded() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp(
        "[xmpp.uploads]\nmax_size = \"10KiB\"\nper_day = \"20KiB\"\ntotal = \"25KiB\"\nfolder = \"files\"\n",
    );
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let mut bob = Client::sign_in(&place, Tls, "bob", "b");
    let answer = ask(&mut alice, "a", 10_241, "text/plain").to_string();
    assert!(answer.contains("<file-too-large") && answer.contains("<max-file-size>10240<"), "{answer}");
    for _ in 0..2 {
        let slot = slot(&place, &mut alice, "a", 10_240, "text/plain");
        assert_eq!(slot.put(&place, "text/plain", &[b'a'; 10_240]).status, 201);
    }
    let answer = ask(&mut alice, "a", 1, "text/plain").to_string();
    assert!(answer.contains("<resource-constraint") && answer.contains("<retry"), "{answer}");
    assert!(place.path("files").is_dir());
    let answer = ask(&mut bob, "b", 10_000, "text/plain").to_string();
    assert!(answer.contains("<resource-constraint"), "all files together: {answer}");
    slot(&place, &mut bob, "b", 1_000, "text/plain");
    node.stop();
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("[xmpp.uploads]\nenabled = false\n");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    assert!(ask(&mut alice, "a", 1, "text/plain").to_string().contains("<service-unavailable"));
    assert_eq!(Http::connect(&place, Ws).ask("GET", "/upload/x/y", "", b"").status, 404);
    node.stop();
}
