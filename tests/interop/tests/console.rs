//! The operators' console, in a real browser.

use std::process::Command;
use std::time::Duration;

use interop::{
    Account, DOMAIN, Farm, Nats, NatsRelease, Node, OpenIdProvider, Ports, Sipp, document_at,
    drive_console_in_chromium, new_postgres_database, wait_until,
};
use serde_json::{Value, json};

/// A name that would be an element, if a page made markup of it.
const MARKUP: &str = "<img src=x onerror=\"document.title='broken'\">";

#[test]
fn an_operator_sees_each_page_makes_permitted_changes_and_reaches_no_other_host() {
    let ports = Ports::reserve(3);
    let answerer = Sipp::answering("-uas", 4);
    let address = |user: &str| format!("{user}@{DOMAIN}");
    let node = Node::prepare()
        .with_sections(&format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n\
             [[xmpp.groups]]\nname = \"office\"\nlabel = \"The Office\"\nmembers = [\"alice@{DOMAIN}\", \"bob@{DOMAIN}\"]\n\
             [xmpp.registration]\ninvitations = \"administrators\"\n\
             [console]\nlisten = \"127.0.0.1:{}\"\nadmins = [\"{}\"]\nreaders = [\"{}\"]\n",
            ports.first() + 1,
            ports.first(),
            address("root"),
            address("eye")
        ))
        .with_account("root", "a long secret")
        .with_account("eye", "a long secret")
        .with_open_route("service", answerer.port);
    node.run(&["account", "add", &address("marked"), "--password", "another", "--name", MARKUP]);
    node.run(&["route", "add", "trunk", "prefix:+49", "sip:192.0.2.7:5060"]);
    let node = node.started();
    Sipp::calling("-uac", node.port, "service", 3, 10).succeeds();
    // One call that is up while the browser looks, and ends with the test; and a phone.
    let _held = Sipp::holding(node.port, "service", Duration::from_secs(600));
    let phone = Account::new("marked", "another");
    Sipp::for_accounts("register-log.xml", node.port, &[phone], ports.first() + 2, 10).succeeds();
    drive_console_in_chromium(
        &format!("http://127.0.0.1:{}/", ports.first()),
        &json!({
            "admin": address("root"),
            "reader": address("eye"),
            "password": "a long secret",
            "domain": DOMAIN,
            "markup": MARKUP,
            "sip": node.port,
        }),
    );
}

const SID: &str = "ACae6e420f425248d6a26948c17a9e2acf";
const TOKEN: &str = "a token of the test";

#[test]
fn an_admin_binds_a_number_tests_its_documents_and_plays_a_recording_in_two_languages() {
    let ports = Ports::reserve(1);
    // A voice for as long as the call lasts, so that a recording of it is not silent.
    let application = document_at("<Response><Say loop='0'>hello</Say></Response>");
    let address = |user: &str| format!("{user}@{DOMAIN}");
    let node = Node::prepare()
        .with_sections(&format!(
            "[voice]\nmedia = \"127.0.0.1\"\nmedia_ports = \"32000-32099\"\nopen = true\nallow_private = true\n\
             auth_token = \"{TOKEN}\"\nnumbers = [{{ number = \"1234\", url = \"http://{application}/\" }}]\n\
             [console]\nlisten = \"127.0.0.1:{}\"\nadmins = [\"{}\"]\nreaders = [\"{}\"]\n",
            ports.first(),
            address("root"),
            address("eye")
        ))
        .with_account("root", "a long secret")
        .with_account("eye", "a long secret")
        .started();
    let caller = Sipp::holding(node.port, "1234", Duration::from_secs(60));
    let call = until_found(&node, "the call is up", "/Calls.json?Status=in-progress", "calls");
    ask(&node, &format!("/Calls/{call}/Recordings.json"), &["--data", "RecordingTrack=both"]);
    let recording = until_found(&node, "the recording is under way", "/Recordings.json", "recordings");
    // The sound of some seconds; the file that is open says how much there is of it.
    let wave = node.data().join("recordings").join(format!("{recording}.wav.part"));
    wait_until(
        "the recording has a second of sound",
        Duration::from_secs(30),
        || std::fs::metadata(&wave).is_ok_and(|file| file.len() > 20_000),
        || node.tail(),
    );
    ask(&node, &format!("/Calls/{call}.json"), &["--data", "Status=completed"]);
    wait_until(
        "the recording is complete",
        Duration::from_secs(30),
        || ask(&node, &format!("/Recordings/{recording}.json"), &[])["status"] == "completed",
        || node.tail(),
    );
    drop(caller);
    drive_console_in_chromium(
        &format!("http://127.0.0.1:{}/", ports.first()),
        &json!({
            "admin": address("root"),
            "reader": address("eye"),
            "password": "a long secret",
            "domain": DOMAIN,
            "application": format!("http://{application}/menu"),
            "recording": recording,
        }),
    );
}

#[test]
fn an_operator_sees_rooms_and_queues_puts_a_call_out_and_ends_a_conference() {
    let ports = Ports::reserve(2);
    let address = |user: &str| format!("{user}@{DOMAIN}");
    let number = |number: &str, document: &'static str| {
        let url = document_at(document);
        format!("{{ number = \"{number}\", url = \"http://{url}/\" }}")
    };
    let numbers = [
        number("2000", "<Response><Dial><Conference>standup</Conference></Dial></Response>"),
        number("2001", "<Response><Dial><Conference muted='true'>standup</Conference></Dial></Response>"),
        number("3000", "<Response><Enqueue>sales</Enqueue></Response>"),
        number("lobby", "<Response><Pause length='600'/></Response>"),
    ];
    let node = Node::prepare()
        .with_sections(&format!(
            "[voice]\nmedia = \"127.0.0.1\"\nmedia_ports = \"32100-32199\"\nopen = true\nallow_private = true\n\
             media_timeout = \"0s\"\nauth_token = \"{TOKEN}\"\nnumbers = [{}]\n\
             [xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n\
             [console]\nlisten = \"127.0.0.1:{}\"\nadmins = [\"{}\"]\nreaders = [\"{}\"]\n",
            numbers.join(", "),
            ports.first() + 1,
            ports.first(),
            address("root"),
            address("eye")
        ))
        .with_account("root", "a long secret")
        .with_account("eye", "a long secret")
        .started();
    node.run(&["xmpp", "room", "create", "tea", "--name", "Tea", "--owner", &address("root")]);
    let numbers = ["2000", "2001", "3000", "lobby"];
    let _calls = numbers.map(|to| Sipp::holding(node.port, to, Duration::from_secs(600)));
    drive_console_in_chromium(
        &format!("http://127.0.0.1:{}/", ports.first()),
        &json!({
            "admin": address("root"),
            "reader": address("eye"),
            "password": "a long secret",
            "room": format!("tea@conference.{DOMAIN}"),
            "conference": "standup",
            "queue": "sales",
            "live": "lobby",
        }),
    );
}

#[test]
fn an_admin_sees_a_farm_of_two_nodes_with_its_map_and_drains_one() {
    let ports = Ports::reserve(4);
    let nats = Nats::start(NatsRelease::Current);
    let sections = |number: u16| {
        format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n\
             [console]\nlisten = \"127.0.0.1:{}\"\nadmins = [\"user0@{DOMAIN}\"]\nreaders = [\"user1@{DOMAIN}\"]\n",
            ports.first() + 2 + number,
            ports.first() + number,
        )
    };
    let mut farm = Farm::with_chat_sections(&nats, &new_postgres_database(), 2, &[sections(0), sections(1)]);
    farm.wait_for_owners(2);
    drive_console_in_chromium(
        &format!("http://127.0.0.1:{}/", ports.first()),
        &json!({
            "admin": format!("user0@{DOMAIN}"),
            "reader": format!("user1@{DOMAIN}"),
            "password": "secret",
            "farm": "test",
        }),
    );
    assert_eq!(farm.nodes[1].ended(Duration::from_secs(60)), Some(0), "its process has ended by itself");
}

#[test]
fn an_operator_signs_in_at_an_openid_provider_and_a_stranger_reads_the_refusal() {
    let ports = Ports::reserve(1);
    let provider = OpenIdProvider::start(Value::Null);
    provider.ask_users(vec![json!({ "sub": "olga", "groups": ["desk"] }), json!({ "sub": "stan" })]);
    // By its name the console is another site than the provider, which is at an address.
    let origin = format!("http://localhost:{}", ports.first());
    let node = Node::prepare()
        .with_sections(&format!(
            "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"jwt\"\nkeys_url = \"{}\"\nissuer = \"{}\"\n\
             audience = \"chat\"\nroles = {{ operators = [\"desk\"] }}\n\
             provider = {{ client_id = \"console\", label = \"Example\" }}\n\
             [xmpp]\n[console]\nlisten = \"127.0.0.1:{}\"\norigin = \"{origin}\"\n",
            provider.keys_url(),
            provider.issuer(),
            ports.first(),
        ))
        .started();
    let doctor = node.run(&["doctor", "--json"]);
    let good = format!("{} answers, and is the issuer", provider.issuer());
    assert!(doctor.contains(&good) && doctor.contains("1 usable key"), "{doctor}");
    drive_console_in_chromium(
        &format!("{origin}/"),
        &json!({
            "provider": provider.issuer(),
            "operator": "olga",
            "stranger": "stan",
            "domain": DOMAIN,
        }),
    );
    drop(node);
}

/// The answer of the REST interface; null if it is none.
fn ask(node: &Node, path: &str, more: &[&str]) -> Value {
    let url = format!("http://127.0.0.1:{}/2010-04-01/Accounts/{SID}{path}", node.http);
    let user = format!("{SID}:{TOKEN}");
    let output = Command::new("curl").args(["--silent", "--user", &user]).args(more).arg(&url).output();
    serde_json::from_slice(&output.expect("curl").stdout).unwrap_or(Value::Null)
}

/// The SID of the first row of a list, as soon as there is one.
fn until_found(node: &Node, what: &str, path: &str, key: &str) -> String {
    let mut found = String::new();
    wait_until(
        what,
        Duration::from_secs(30),
        || {
            found = ask(node, path, &[])[key][0]["sid"].as_str().unwrap_or_default().to_owned();
            !found.is_empty()
        },
        || node.tail(),
    );
    found
}
