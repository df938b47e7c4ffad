//! Texts and mail of documents: a phone that gets the text, a relay that takes the mail.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};

use sip::transport::Transport;
use sip::wire::Header;
use xmpp::ns;

use super::app::App;
use super::caller::Caller;
use super::nothing_left;
use crate::phone::{DOMAIN, text};
use crate::place::Place;
use crate::xmpp::client::Client;
use crate::{PATIENCE, until};

const TEXT: &str = "<Response><Sms to='alice' from='1234' action='/sent' statusCallback='/status'>Grüße, \
    and good bye</Sms></Response>";
const OVER: (&str, &str) = ("/sent", "<Response><Hangup/></Response>");

/// The call until it is hung up.
#[track_caller]
fn call(place: &Place) {
    let mut caller = Caller::new(place);
    caller.call();
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
}

fn of_record(place: &Place, sid: &str) -> serde_json::Value {
    until("the row is there", || {
        let record = rusqlite::Connection::open(place.database()).unwrap();
        let row: Option<String> =
            record.query_row("SELECT body FROM rest WHERE sid = ?1", [sid], |row| row.get(0)).ok();
        let row: serde_json::Value = serde_json::from_str(&row?).unwrap();
        (row["status"] != "sending").then_some(row)
    })
}

#[test]
fn a_text_reaches_an_account_without_a_phone_in_chat() {
    let app = App::new(&[("/", TEXT), OVER]);
    let place = Place::new(&app.voice("/", "")).with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Transport::Tls, "alice", "desk");
    alice.say("<presence xmlns='jabber:client'/>");
    call(&place);
    let message = std::iter::repeat_with(|| alice.hear()).find(|stanza| stanza.name() == "message").unwrap();
    let words = message.content_of("body", ns::CLIENT).unwrap().into_owned();
    assert_eq!(words, "Grüße, and good bye");
    assert_eq!(app.asked_for("/sent").unwrap()["SmsStatus"], "sent");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_text_reaches_a_phone() {
    let app = App::new(&[("/", TEXT), OVER]);
    let place = Place::new(&app.voice("/", "")).with_accounts(&["alice"]);
    let mut node = place.start();
    let mut alice = place.phone("alice", Transport::Tcp);
    alice.register();
    let mut caller = Caller::new(&place);
    caller.call();
    let message = alice.expect_request("MESSAGE");
    assert_eq!(message.body(), "Grüße, and good bye".as_bytes());
    assert_eq!(text(message.header(Header::ContentType)), "text/plain;charset=UTF-8");
    assert_eq!(text(message.from().map(|from| from.uri)), format!("sip:1234@{DOMAIN}"));
    assert_eq!(text(message.header(Header::To)), format!("<sip:alice@{DOMAIN}>"));
    assert_eq!(app.asked_for("/sent"), None, "no phone has taken it yet");
    alice.reply(&message, "200 OK", "a", "");
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    let sent = app.asked_for("/sent").unwrap();
    assert_eq!(sent["SmsStatus"], "sent");
    let status = until("the callback", || app.asked_for("/status"));
    for (name, value) in [
        ("MessageSid", &*sent["SmsSid"]),
        ("SmsSid", &sent["SmsSid"]),
        ("MessageStatus", "sent"),
        ("To", "alice"),
        ("From", "1234"),
    ] {
        assert_eq!(status[name], value, "{name}");
    }
    assert!(sent["SmsSid"].starts_with("SM"));
    let row = of_record(&place, &sent["SmsSid"]);
    assert_eq!((&row["status"], &row["direction"]), (&"sent".into(), &"outbound-call".into()));
    nothing_left(&node, 1);
    node.stop();
}

/// RFC 3966 §5.1.1: separators in a number mean nothing.
#[test]
fn a_text_to_a_number_with_separators_reaches_it() {
    let app =
        App::new(&[("/", "<Response><Sms to='(49) 30.901-820' action='/sent'>x</Sms></Response>"), OVER]);
    let place = Place::new(&app.voice("/", "")).with_accounts(&["4930901820"]);
    let mut node = place.start();
    let mut phone = place.phone("4930901820", Transport::Tcp);
    phone.register();
    let mut caller = Caller::new(&place);
    caller.call();
    let message = phone.expect_request("MESSAGE");
    phone.reply(&message, "200 OK", "a", "");
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    let sent = app.asked_for("/sent").unwrap();
    assert_eq!((&*sent["SmsStatus"], &*sent["MessageStatus"]), ("sent", "sent"));
    assert_eq!(sent["MessageSid"], sent["SmsSid"]);
    assert_eq!(of_record(&place, &sent["SmsSid"])["to"], "4930901820");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_text_with_a_sender_that_is_not_the_accounts_is_not_sent() {
    let app = App::new(&[
        ("/", "<Response><Sms to='alice' from='+4930901820' action='/sent'>x</Sms></Response>"),
        OVER,
    ]);
    let place = Place::new(&app.voice("/", "")).with_accounts(&["alice"]);
    let mut node = place.start();
    call(&place);
    assert_eq!(app.asked_for("/sent").unwrap()["SmsStatus"], "failed");
    let mut alice = place.phone("alice", Transport::Tcp);
    alice.register();
    assert!(alice.hears_nothing(std::time::Duration::from_millis(200), |_| false), "no message was kept");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_refused_text_and_one_for_an_unknown_account_have_failed() {
    let app = App::new(&[
        ("/", TEXT),
        ("/sent", "<Response><Sms to='nobody' action='/next'>x</Sms></Response>"),
        ("/next", "<Response><Hangup/></Response>"),
    ]);
    let place = Place::new(&app.voice("/", "")).with_accounts(&["alice"]);
    let mut node = place.start();
    let mut alice = place.phone("alice", Transport::Tcp);
    alice.register();
    let mut caller = Caller::new(&place);
    caller.call();
    let message = alice.expect_request("MESSAGE");
    alice.reply(&message, "415 Unsupported Media Type", "a", "");
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    assert_eq!(app.asked_for("/sent").unwrap()["SmsStatus"], "failed");
    assert_eq!(app.asked_for("/next").unwrap()["SmsStatus"], "failed");
    let status = until("the callback", || app.asked_for("/status"));
    assert_eq!((&*status["MessageStatus"], &*status["ErrorCode"]), ("failed", "14100"));
    let row = of_record(&place, &status["MessageSid"]);
    assert_eq!(row["error_message"], "the message to alice was refused with 415");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_text_for_an_account_that_is_away_waits_for_it() {
    let app = App::new(&[("/", TEXT), OVER]);
    let place = Place::new(&app.voice("/", "")).with_accounts(&["alice"]);
    let mut node = place.start();
    call(&place);
    assert_eq!(app.asked_for("/sent").unwrap()["SmsStatus"], "sent");
    let mut alice = place.phone("alice", Transport::Tcp);
    alice.register();
    let message = alice.expect_request("MESSAGE");
    assert_eq!(message.body(), "Grüße, and good bye".as_bytes());
    assert_eq!(text(message.from().map(|from| from.uri)), format!("sip:1234@{DOMAIN}"));
    alice.reply(&message, "200 OK", "a", "");
    nothing_left(&node, 1);
    node.stop();
}

/// A mail relay that accepts every recipient but `nobody`, and the lines of each connection.
struct Relay {
    address: SocketAddr,
    told: Receiver<Vec<String>>,
}

impl Relay {
    fn new() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, told) = sync_channel(8);
        // Ends with the process: it owns nothing but its socket.
        std::thread::Builder::new()
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = sender.send(smtp(&stream));
                }
            })
            .unwrap();
        Relay { address, told }
    }

    fn keys(&self) -> String {
        format!(
            "mail_relay = \"{}\"\nmail_security = \"none\"\nmail_sender = \"bounces@belfry.test\"\n",
            self.address
        )
    }

    #[track_caller]
    fn told(&self) -> Vec<String> {
        self.told.recv_timeout(PATIENCE).expect("a mail")
    }
}

/// RFC 5321 §4.1, as much as a client without extensions needs.
fn smtp(stream: &TcpStream) -> Vec<String> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = Vec::new();
    let mut is_text = false;
    let mut answers = stream;
    let mut say = |text: &str| answers.write_all(format!("{text}\r\n").as_bytes()).is_ok();
    say("220 relay.test ESMTP");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let answer = match line.split([' ', ':']).next().unwrap_or_default() {
            "." if is_text => {
                is_text = false;
                Some("250 taken")
            }
            _ if is_text => None,
            "DATA" => {
                is_text = true;
                Some("354 go on")
            }
            "QUIT" => Some("221 bye"),
            "RCPT" if line.contains("nobody@") => Some("550 5.1.1 no such user"),
            _ => Some("250 ok"),
        };
        let is_over = line == "QUIT" && !is_text;
        lines.push(line);
        if answer.is_some_and(|answer| !say(answer)) || is_over {
            break;
        }
    }
    lines
}

#[test]
fn a_mail_goes_through_the_relay() {
    let relay = Relay::new();
    let app = App::new(&[(
        "/",
        "<Response><Email from='ivr@belfry.test' to='a@b.test, Anna &lt;c@d.test&gt;' cc='e@f.test' bcc='g@h.test' \
         subject='one&#13;&#10;Bcc: evil@x.test'>first line\n.\nQUIT</Email><Pause length='1'/></Response>",
    )]);
    let place = Place::new(&app.voice("/", &relay.keys()));
    let mut node = place.start();
    call(&place);
    let told = relay.told();
    let of = |word: &str| -> Vec<&str> {
        told.iter().filter(|line| line.starts_with(word)).map(String::as_str).collect()
    };
    assert!(of("MAIL")[0].starts_with("MAIL FROM:<bounces@belfry.test>"), "{told:?}");
    let recipients = ["a@b.test", "c@d.test", "e@f.test", "g@h.test"].map(|to| format!("RCPT TO:<{to}>"));
    assert_eq!(of("RCPT"), recipients);
    let start = told.iter().position(|line| line == "DATA").unwrap() + 1;
    let blank = told[start..].iter().position(String::is_empty).unwrap() + start;
    let (head, body) = (&told[start..blank], &told[blank + 1..]);
    let header = |name: &str| head.iter().filter(|line| line.starts_with(&format!("{name}: "))).count();
    assert_eq!((header("From"), header("To"), header("Cc"), header("Subject")), (1, 1, 1, 1), "{head:?}");
    assert_eq!(header("Bcc"), 0, "{head:?}");
    assert!(!head.iter().any(|line| line.contains("g@h.test")), "{head:?}");
    // A line of one dot is doubled (RFC 5321 §4.5.2).
    assert_eq!(body[..4], ["first line", "..", "QUIT", "."]);
    nothing_left(&node, 1);
    node.stop();
}
