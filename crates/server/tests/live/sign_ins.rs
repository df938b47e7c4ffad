//! Failed sign-ins: seen in the log and by `belfry blocks`, slow for the addresses that guess and for no others.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use sip::transport::Transport::Tls;
use xmpp::ns;

use crate::digest::{self, Hash};
use crate::phone::{DOMAIN, PASSWORD, Phone};
use crate::place::{Place, Process};
use crate::until;
use crate::xmpp::client::{Client, scram_response};

/// Registers with that password; the status of the answer.
fn register(phone: &mut Phone, to: &str, password: &str) -> u16 {
    let mut ask = phone.registration("Expires: 600\r\n");
    ask.to = format!("<sip:{to}@{DOMAIN}>");
    let message = phone.write(&ask);
    phone.send(message.as_bytes());
    let challenge = phone.final_of(&ask);
    let lines = challenge.header_lines(sip::wire::Header::WwwAuthenticate);
    let proof = digest::answer(Hash::Sha256, lines, (&phone.user, password), (ask.method, ask.uri));
    ask.more.push_str(&format!("Authorization: {proof}\r\n"));
    ask.cseq = phone.next_cseq();
    let message = phone.write(&ask);
    phone.send(message.as_bytes());
    phone.final_of(&ask).status()
}

/// A request to the REST interface with that name and token; the head of the answer.
fn ask_rest(place: &Place, name: &str, token: &str) -> String {
    let key = STANDARD.encode(format!("{name}:{token}"));
    let mut socket = TcpStream::connect(place.http()).unwrap();
    let path = "/restcomm/2012-04-24/Accounts.json";
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic {key}\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn guess_by_chat(place: &Place, user: &str, password: &str) -> String {
    let mut client = Client::connect(place, Tls);
    client.open();
    client.plain(user, password).first().unwrap().name().to_owned()
}

/// The expressions of the sample filter, as fail2ban completes them.
fn filter() -> Vec<Regex> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fail2ban/filter.d/belfry.conf");
    let text = std::fs::read_to_string(file).unwrap();
    let value = |name: &str| {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{name} = ")));
        let first = lines.next().unwrap().split_once(" = ").unwrap().1.to_owned();
        // Further lines of a value are indented.
        let more = lines.take_while(|line| line.starts_with(' ')).map(|line| line.trim().to_owned());
        std::iter::once(first).chain(more).collect::<Vec<_>>()
    };
    let prefix = value("_prefix").concat();
    let complete = |line: String| {
        let host = r"(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F:]+)";
        Regex::new(&line.replace("%(_prefix)s", &prefix).replace("<ADDR>", host)).unwrap()
    };
    value("failregex").into_iter().map(complete).collect()
}

/// Address and account of each line that the filter takes.
fn found(log: &str) -> Vec<(String, String)> {
    let filter = filter();
    let take = |line: &str| {
        let found = filter.iter().find_map(|regex| regex.captures(line))?;
        let account = line.rsplit_once("account").unwrap().1;
        Some((found["host"].to_owned(), account.trim_matches(['=', ':', '}']).to_owned()))
    };
    log.lines().filter_map(take).collect()
}

fn with_rest(more: &str) -> Place {
    let voice = "[voice]\nmedia = \"127.0.0.78\"\nmedia_ports = \"20000-29999\"\n";
    Place::new(&format!("{voice}{more}")).with_accounts(&["alice", "bob"]).with_xmpp("")
}

#[test]
fn a_failed_sign_in_with_any_name_is_one_line_that_the_filter_takes() {
    for format in ["text", "json"] {
        let place = with_rest(&format!("[log]\nformat = \"{format}\"\n"));
        let node = place.spawn();
        let mut alice = place.udp("alice");
        assert_eq!(register(&mut alice, "alice", "guess"), 401);
        let forged = "x\" address=203.0.113.66\n2026-11-21T09:00:00Z  WARN belfry::sign_in: sign-in failed address=203.0.113.66 service=sip transport=udp cause=wrong-password account=\"y\"";
        // SIP itself refuses a line break in a user.
        let escaped: String = forged.replace('\n', " ").bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(register(&mut alice, &escaped, "guess"), 401);
        assert_eq!(guess_by_chat(&place, "alice", "guess"), "not-authorized");
        assert!(ask_rest(&place, forged, "guess").starts_with("HTTP/1.1 401"));
        let lines =
            until("all four are written", || Some(found(&node.log())).filter(|found| found.len() >= 4));
        assert_eq!(lines.len(), 4, "{}", node.log());
        assert!(lines.iter().all(|(host, _)| host == "127.0.0.1"), "{lines:?}");
        assert!(lines[0].1.contains("\"alice@example.test\""), "{lines:?}");
        let log = node.log();
        // Before the name, in which the client may have written the same.
        let heads = log.lines().filter_map(|line| line.split("account").next());
        let heads: Vec<_> = heads.filter(|head| head.contains("sign-in failed")).collect();
        let of = |cause: &str| heads.iter().filter(|head| head.contains(cause)).count();
        assert_eq!((of("wrong-password"), of("unknown-")), (2, 2), "{log}");
        assert!(!log.contains("guess"), "no secrets in logs");
    }
}

#[test]
fn log_lines_of_failed_sign_ins_are_bounded_and_the_rest_is_counted() {
    let place = with_rest("");
    let node = place.spawn();
    let tries = 60;
    for number in 0..tries {
        ask_rest(&place, &format!("AC{number:032}"), "guess");
    }
    let logged = |log: &str| -> usize {
        let counts =
            log.lines().filter_map(|line| line.split_once("suppressed=")?.1.trim().parse::<usize>().ok());
        counts.sum()
    };
    // The rest is reported within ten seconds.
    let (written, logged) = until("all are accounted for", || {
        let log = node.log();
        let counts = (found(&log).len(), logged(&log));
        (counts.0 + counts.1 == tries).then_some(counts)
    });
    assert!(written >= 20 && logged > 0, "{written} written, {logged} told");
}

/// The standard output of a command that speaks to the node.
fn belfry(place: &Place, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    let output = command.current_dir(place.path(".")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Rows of `belfry blocks --json`: service, source and account.
fn blocks(place: &Place) -> Vec<(String, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("all").to_owned();
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        (text(&row["service"]), text(&row["source"]), text(&row["account"]))
    };
    let mut rows: Vec<_> = belfry(place, &["blocks", "--json"]).lines().map(row).collect();
    rows.sort();
    rows
}

fn guess_everywhere(place: &Place) {
    let mut alice = place.udp("alice");
    until("SIP refuses", || (register(&mut alice, "alice", "guess") == 503).then_some(()));
    until("chat refuses", || {
        (guess_by_chat(place, "alice", "guess") == "temporary-auth-failure").then_some(())
    });
    until("REST refuses", || ask_rest(place, "ACnobody", "guess").starts_with("HTTP/1.1 429").then_some(()));
}

#[test]
fn blocks_are_listed_and_lifted_by_address_and_by_account() {
    let place = with_rest("");
    let node: Process = place.spawn();
    assert_eq!(belfry(&place, &["blocks"]), "nothing is blocked\n");
    guess_everywhere(&place);
    let row = |service: &str, account: &str| (service.to_owned(), "127.0.0.1".to_owned(), account.to_owned());
    let expected =
        [row("rest", "ACnobody"), row("sip", "alice@example.test"), row("xmpp", "alice@example.test")];
    assert_eq!(blocks(&place), expected);
    let table = belfry(&place, &["blocks"]);
    assert!(table.contains("127.0.0.1  alice@example.test") && table.contains("failed sign-ins"), "{table}");
    let status = belfry(&place, &["status"]);
    let line = status.lines().find(|line| line.starts_with("sign-ins ")).unwrap();
    assert!(line.contains("of them not looked at (sip ") && line.contains(", rest "), "{line}");
    assert_eq!(belfry(&place, &["blocks", "lift", "alice"]), "lifted 2\n");
    assert_eq!(blocks(&place), [row("rest", "ACnobody")]);
    assert_eq!(belfry(&place, &["blocks", "lift", "127.0.0.1"]), "lifted 1\n");
    assert_eq!(blocks(&place), []);
    drop(node);
}

#[test]
fn guesses_from_an_address_do_not_slow_its_other_clients() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let guesses = 80;
    let mut refused = 0;
    let mut client = Client::connect(&place, Tls);
    client.open();
    for number in 0..guesses {
        let answer = client.plain("alice", "guess");
        refused += u32::from(answer.get("temporary-auth-failure", ns::SASL).is_some());
        let is_over = number % 4 == 3;
        if is_over {
            client = Client::connect(&place, Tls);
            client.open();
        }
    }
    assert!(refused > guesses / 2, "the one that guesses is slow: {refused} of {guesses}");
    drop(Client::sign_in(&place, Tls, "bob", "desk"));
    // And the account itself gets in, by the right password, as soon as its pace allows.
    until("alice is in", || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        client.plain("alice", PASSWORD).is("success", ns::SASL).then_some(())
    });
    node.stop();
}

#[test]
fn challenges_that_are_taken_at_once_are_answered_one_after_another() {
    let place = with_rest("");
    let node: Process = place.spawn();
    let prepare = |number: usize| {
        let mut client = Client::connect(&place, Tls);
        client.open();
        let challenge = client.auth("SCRAM-SHA-256", b"n,,n=alice,r=client");
        // The last one is right.
        let password = if number == 11 { PASSWORD } else { "guess" };
        let response = scram_response(("alice", password), ("n,,", &[]), &challenge);
        (client, response)
    };
    let clients: Vec<_> = (0..12).map(prepare).collect();
    let answers: Vec<String> = clients
        .into_iter()
        .map(|(mut client, response)| {
            client.say(&response);
            client.hear().first().unwrap().name().to_owned()
        })
        .collect();
    // Five are free, and the sixth begins the pause.
    let expected = [["not-authorized"; 6], ["temporary-auth-failure"; 6]].concat();
    assert_eq!(answers, expected);
    drop(node);
}
