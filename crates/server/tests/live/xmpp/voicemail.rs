//! The voicemail of an account: a caller leaves a message, and the account's own chat clients list it, hear it and delete it. No other account does.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use interop::new_postgres_database;
use sip::transport::Transport::Tcp;
use stdx::Instant;
use store::rest::types::{Common, Notification, Recording};
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite, Row};
use store::{Address, Loaded, Read, Write};
use xmpp::{Element, ns};

use super::client::Client;
use super::registration::operate;
use crate::phone::PASSWORD;
use crate::place::Place;
use crate::until;
use crate::voice::app::App;
use crate::voice::talker::Talker;
use crate::voice::{nothing_left, sum};

/// The first recording is alice's, the second of an account that is not there.
fn app() -> App {
    App::new(&[
        (
            "/",
            "<Response><Record mailbox='alice' action='/second' playBeep='false' finishOnKey='#'/></Response>",
        ),
        (
            "/second",
            "<Response><Record mailbox='nobody@example.test' action='/end' playBeep='false' finishOnKey='#'/></Response>",
        ),
        ("/end", "<Response><Hangup/></Response>"),
    ])
}

fn place(app: &App) -> Place {
    Place::new(&app.voice("/", "")).with_xmpp("").with_accounts(&["alice", "bob"])
}

fn ask(client: &mut Client, kind: &str, payload: &str) -> Element {
    client.say(&format!("<iq xmlns='jabber:client' type='{kind}' id='v'>{payload}</iq>"));
    loop {
        let stanza = client.hear();
        if stanza.attr("id") == Some("v") {
            return stanza;
        }
    }
}

fn query(name: &str, attributes: &str) -> String {
    format!("<{name} xmlns='urn:belfry:voicemail:0'{attributes}/>")
}

/// Caller, length and whether it was heard, of each message; and how many are not.
fn list(client: &mut Client) -> (Vec<[String; 4]>, String) {
    let answer = ask(client, "get", &query("voicemail", ""));
    let page = answer.get("voicemail", ns::VOICEMAIL).unwrap_or_else(|| panic!("{answer}"));
    let of = |message: &Element| {
        ["id", "from", "seconds", "heard"].map(|name| message.attr(name).unwrap_or_default().to_owned())
    };
    let messages = page.elements().filter(|child| child.is("message", ns::VOICEMAIL));
    (messages.map(of).collect(), page.attr("unheard").unwrap_or_default().to_owned())
}

/// The bytes of a message from there on, and the size of the whole.
fn sound(client: &mut Client, id: &str, offset: usize) -> (Vec<u8>, usize) {
    let answer = ask(client, "get", &query("sound", &format!(" id='{id}' offset='{offset}'")));
    let sound = answer.get("sound", ns::VOICEMAIL).unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(sound.attr("type"), Some("audio/wav"));
    (
        BASE64_STANDARD.decode(sound.content().as_bytes()).unwrap(),
        sound.attr("size").unwrap().parse().unwrap(),
    )
}

#[track_caller]
fn refused(client: &mut Client, kind: &str, payload: &str, condition: &str) {
    let answer = ask(client, kind, payload);
    assert!(
        answer.attr("type") == Some("error") && answer.to_string().contains(condition),
        "{payload}: {answer}"
    );
}

/// The notice that a message has come; its name.
fn notice(client: &mut Client) -> String {
    loop {
        let stanza = client.hear();
        if let Some(voicemail) = stanza.get("voicemail", ns::VOICEMAIL) {
            assert_eq!(
                (stanza.attr("type"), stanza.attr("from")),
                (Some("headline"), Some("alice@example.test"))
            );
            return voicemail.first().and_then(|message| message.attr("id")).unwrap().to_owned();
        }
    }
}

fn rows_of(place: &Place, kind: Kind) -> Vec<Row> {
    match place.admin().read(&Read::Rest(RestRead::List(RestFilter::all(kind)))).unwrap() {
        Loaded::Rest(RestLoaded::Page { rows, .. }) => rows,
        other => panic!("{other:?}"),
    }
}

fn rows<R: Resource>(place: &Place) -> Vec<R> {
    rows_of(place, R::KIND).iter().map(|row| R::from_row(row).unwrap()).collect()
}

fn a_message_is_its_users_alone(app: &App, place: &Place) {
    let mut node = place.start();
    let [mut alice, mut bob] = ["alice", "bob"].map(|user| Client::sign_in(place, Tcp, user, "one"));
    alice.say("<presence xmlns='jabber:client'/>");
    let mut caller = Talker::call(place, "1234", 0, 440);
    let mut record = || {
        until("it is recorded", || (sum(&node, |shard| shard.voice.recordings) == 1).then_some(()));
        let packets = || sum(&node, |shard| shard.voice.packets_in);
        let before = packets();
        until("more than a second is said", || (packets() >= before + 60).then_some(()));
        caller.press('#');
    };
    record();
    let form = until("the first is kept", || app.asked_for("/second"));
    let id = notice(&mut alice);
    assert_eq!(id, form["RecordingSid"]);
    record();
    until("the second is kept", || app.asked_for("/end"));
    caller.is_hung_up();
    nothing_left(&node, 1);

    let message =
        |heard: &str| [id.as_str(), "sipp", form["RecordingDuration"].as_str(), heard].map(String::from);
    assert_eq!(list(&mut alice), (vec![message("false")], "1".to_owned()));
    let file = place.path("data/recordings").join(format!("{id}.wav"));
    let whole = std::fs::read(&file).unwrap();
    assert_eq!(sound(&mut alice, &id, 0), (whole.clone(), whole.len()));
    assert_eq!(sound(&mut alice, &id, 100), (whole[100..].to_vec(), whole.len()));
    assert_eq!(sound(&mut alice, &id, whole.len()), (Vec::new(), whole.len()));

    // Neither by its name nor by that of the recording without a mailbox.
    let other = rows::<Recording>(place).into_iter().find(|recording| recording.to.is_empty()).unwrap();
    assert_eq!(list(&mut bob), (vec![], "0".to_owned()));
    for id in [&id, &other.common.sid, "RE1"] {
        let id = format!(" id='{id}'");
        refused(&mut bob, "get", &query("sound", &id), "item-not-found");
        refused(&mut bob, "set", &query("heard", &id), "item-not-found");
        refused(&mut bob, "set", &query("delete", &id), "item-not-found");
    }
    refused(&mut alice, "set", &query("delete", &format!(" id='{}'", other.common.sid)), "item-not-found");
    let notes = rows::<Notification>(place);
    assert!(notes.len() == 1 && notes[0].message_text.contains("is no account"), "{notes:?}");

    let named = format!(" id='{id}'");
    assert_eq!(ask(&mut alice, "set", &query("heard", &named)).attr("type"), Some("result"));
    assert_eq!(list(&mut alice), (vec![message("true")], "0".to_owned()));
    assert!(file.exists());
    assert_eq!(ask(&mut alice, "set", &query("delete", &named)).attr("type"), Some("result"));
    assert!(!file.exists() && rows::<Recording>(place).len() == 1);
    assert_eq!(list(&mut alice), (vec![], "0".to_owned()));
    refused(&mut alice, "set", &query("delete", &named), "item-not-found");
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn a_message_in_a_file_is_its_users_alone() {
    let app = app();
    a_message_is_its_users_alone(&app, &place(&app));
}

#[test]
fn a_message_in_postgresql_is_its_users_alone() {
    let app = app();
    let place = Place::new(&app.voice("/", "")).with_xmpp("").with_postgres(&new_postgres_database());
    a_message_is_its_users_alone(&app, &place.with_accounts(&["alice", "bob"]));
}

/// Writes the row and the sound of a message; the path of the sound.
fn put(place: &Place, digit: char, to: &str) -> std::path::PathBuf {
    let at = Instant::from_unix_seconds(1_700_000_000);
    let sid = format!("RE{}", digit.to_string().repeat(32));
    let file = place.path("data/recordings").join(format!("{sid}.wav"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, b"sound").unwrap();
    let common = Common { sid, account: "AC1".into(), created_at: at, updated_at: at };
    let row = Recording { common, to: to.into(), ..Recording::default() }.row().unwrap();
    place.admin().write(&Write::Rest(RestWrite::Insert(Box::new(row)))).unwrap();
    file
}

fn an_account_takes_its_messages_with_it(place: &Place) {
    let of_alice = [put(place, '1', "alice@example.test"), put(place, '2', "alice@example.test")];
    let others = [put(place, '3', "bob@example.test"), put(place, '4', "")];
    let node = place.spawn();
    assert_eq!(list(&mut Client::sign_in(place, Tcp, "alice", "one")).0.len(), 2);
    operate(place, &["account", "remove", "alice"]);
    operate(place, &["account", "add", "alice", "--password", PASSWORD]);
    // At once, wherever the sound is.
    assert_eq!(list(&mut Client::sign_in(place, Tcp, "alice", "two")), (vec![], "0".to_owned()));
    assert_eq!(list(&mut Client::sign_in(place, Tcp, "bob", "one")).0.len(), 1);
    node.kill();
    // The rest is made up for by the next start at the latest.
    let node = place.spawn();
    until("the sound is deleted", || of_alice.iter().all(|file| !file.exists()).then_some(()));
    until("and the rows", || rows_of(place, Kind::RemovedVoicemail).is_empty().then_some(()));
    assert!(others.iter().all(|file| file.exists()));
    assert_eq!(rows::<Recording>(place).len(), 2);
    node.kill();
}

#[test]
fn an_account_takes_its_messages_in_a_file_with_it() {
    let app = app();
    an_account_takes_its_messages_with_it(&place(&app));
}

#[test]
fn an_account_takes_its_messages_in_postgresql_with_it() {
    let app = app();
    let place = Place::new(&app.voice("/", "")).with_xmpp("").with_postgres(&new_postgres_database());
    an_account_takes_its_messages_with_it(&place.with_accounts(&["alice", "bob"]));
}

#[test]
fn a_message_for_an_account_that_is_removed_meanwhile_is_in_no_mailbox() {
    let app = app();
    let place = place(&app);
    let mut node = place.start();
    let mut caller = Talker::call(&place, "1234", 0, 440);
    until("it is recorded", || (sum(&node, |shard| shard.voice.recordings) == 1).then_some(()));
    let packets = || sum(&node, |shard| shard.voice.packets_in);
    let before = packets();
    until("more than a second is said", || (packets() >= before + 60).then_some(()));
    place.admin().remove_account(Address::new("alice", "example.test").unwrap()).unwrap();
    caller.press('#');
    let form = until("the message is kept", || app.asked_for("/second"));
    until("it is in no mailbox", || {
        let recordings = rows::<Recording>(&place);
        let of_alice = |recording: &&Recording| recording.common.sid == form["RecordingSid"];
        recordings.iter().find(of_alice).filter(|recording| recording.to.is_empty()).map(drop)
    });
    node.stop();
}
