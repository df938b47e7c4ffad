//! Sign-in by an HTTP service, and keys of tokens from one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;

use external_auth::{BodyForm, HttpSettings, SourceKind, Verdict};

use super::{accepted, ask, start};

/// A request as it came: its head and body.
struct Asked {
    head: String,
    body: String,
}

/// A service that answers each request with the next of these texts, and then ends.
fn service(answers: &'static [&'static str]) -> (SocketAddr, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = sync_channel(answers.len());
    let serve = move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let begin = head.len();
                reader.read_line(&mut head).unwrap();
                let line = head[begin..].trim_end().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            sender.send(Asked { head, body: String::from_utf8(body).unwrap() }).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    };
    Builder::new().spawn(serve).unwrap();
    (address, receiver)
}

fn settings(address: SocketAddr, form: BodyForm) -> HttpSettings {
    let url = format!("http://{address}/check").into();
    HttpSettings { url, form, token_file: None, authorities: None }
}

fn kind(settings: HttpSettings) -> SourceKind {
    SourceKind::Http(Box::new(settings))
}

#[test]
fn the_status_is_the_verdict() {
    let (address, _asked) = service(&[
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntrue",
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nfalse\n",
        "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 400\r\n\r\nbroken off",
        "no HTTP at all\r\n\r\n",
    ]);
    let authenticator = start(kind(settings(address, BodyForm::Form)));
    let asked = || ask(&authenticator, "alice", "secret");
    assert_eq!([asked(), asked()], [accepted("alice"), accepted("alice")], "200 and 204");
    assert_eq!(
        [asked(), asked(), asked(), asked()],
        [(); 4].map(|()| Verdict::Refused),
        "false, 401, 403, 404"
    );
    assert_eq!(asked(), Verdict::Unavailable, "500");
    assert_eq!(asked(), Verdict::Unavailable, "a redirect is not followed");
    assert_eq!(asked(), Verdict::Unavailable, "broken off");
    assert_eq!(asked(), Verdict::Unavailable, "no HTTP");
    assert_eq!(asked(), Verdict::Unavailable, "it is gone");
}

const YES: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

#[test]
fn the_request_has_user_domain_and_password_in_the_form_that_was_chosen() {
    let (address, asked) = service(&[YES]);
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "shared\n").unwrap();
    let settings_of_form = HttpSettings { token_file: Some(token_file), ..settings(address, BodyForm::Form) };
    let authenticator = start(kind(settings_of_form));
    assert_eq!(ask(&authenticator, "alice", "a&b=c d\u{e9}"), accepted("alice"));
    let Asked { head, body } = asked.recv().unwrap();
    let head = head.to_ascii_lowercase();
    assert!(
        head.starts_with("post /check http/1.1\r\n") && head.contains("authorization: bearer shared\r\n"),
        "{head}"
    );
    assert!(head.contains("content-type: application/x-www-form-urlencoded\r\n"), "{head}");
    assert_eq!(body, "user=alice&domain=example.test&password=a%26b%3Dc+d%C3%A9");
    let (address, asked) = service(&[YES]);
    let authenticator = start(kind(settings(address, BodyForm::Json)));
    assert_eq!(ask(&authenticator, "alice", "a\"b"), accepted("alice"));
    let Asked { head, body } = asked.recv().unwrap();
    assert!(head.to_ascii_lowercase().contains("content-type: application/json\r\n"), "{head}");
    assert_eq!(body, r#"{"domain":"example.test","password":"a\"b","user":"alice"}"#);
}
