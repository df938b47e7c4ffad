//! The page of users in real browsers: chat, history, calls with sound and picture, refusals, and a node that restarts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use interop::{
    Baresip, DOMAIN, Node, OpenIdFault, OpenIdProvider, Slapd, bundle_jssip, free_port, play_in_browsers,
    wait_until,
};
use serde_json::json;

/// A node of alice and bob with the page at that kind of address, `ws` or `wss`; and the URL of the page.
fn node(transport: &str) -> (Node, String) {
    let (node, url) = node_of(transport, "");
    (node.with_account("alice", "secret-a").with_account("bob", "secret-b").started(), url)
}

/// The same without accounts, not started.
fn node_of(transport: &str, source: &str) -> (Node, String) {
    let (chat, sip) = (free_port(), free_port());
    let listener = |port| format!("{transport}:127.0.0.1:{port}");
    let require_tls = transport == "wss";
    let node =
        Node::prepare().with_sip_listener(&listener(sip)).with_sections(source).with_sections(&format!(
            "[xmpp]\nlisten = [\"{}\"]\nrequire_tls = {require_tls}\n[xmpp.web]\napp = true\n",
            listener(chat)
        ));
    let scheme = transport.replace("ws", "http");
    (node, format!("{scheme}://127.0.0.1:{chat}/app/"))
}

/// The pictures of `docs/webphone.md`: `BLESS=1` makes them.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("BLESS")?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/webphone"))
}

#[test]
fn two_users_chat_and_call_each_other_in_their_browsers() {
    let (node, url) = node("ws");
    play_in_browsers(&url, "all", pictures().as_deref(), |line| panic!("the play asks for {line}"));
    assert!(node.run(&["calls"]).contains(&format!("alice@{DOMAIN}")), "calls of browsers have records");
}

/// A file of a minute of sound, mono at 8 kHz.
fn sound(folder: &Path) -> PathBuf {
    let samples: Vec<u8> = (0..60 * 8_000)
        .flat_map(|at| (if at / 10 % 2 == 0 { 4_000_i16 } else { -4_000 }).to_le_bytes())
        .collect();
    let mut file = Vec::new();
    let number = |file: &mut Vec<u8>, number: usize| {
        file.extend(u32::try_from(number).expect("a short file").to_le_bytes());
    };
    file.extend(b"RIFF");
    number(&mut file, 36 + samples.len());
    file.extend(b"WAVEfmt ");
    number(&mut file, 16);
    // PCM, one channel; bytes a second; two bytes a frame of 16 bits.
    file.extend([1, 0, 1, 0]);
    number(&mut file, 8_000);
    number(&mut file, 16_000);
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    number(&mut file, samples.len());
    file.extend(samples);
    let path = folder.join("says.wav");
    std::fs::write(&path, file).expect("the test's folder is writable");
    path
}

/// A phone without an account calls alice, who declines in her browser, and leaves a message.
#[test]
fn a_user_hears_and_deletes_a_message_that_a_phone_has_left() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ivr/documents");
    let (node, url) = node_of(
        "ws",
        &format!(
            "[voice]\nmedia = \"127.0.0.1\"\nmedia_ports = \"32200-32299\"\nopen = true\ndocuments = {documents:?}\n\
             numbers = [{{ number = \"1241\", url = \"file:alice.xml\" }}]\n"
        ),
    );
    let node = node.with_account("alice", "secret-a").with_account("bob", "secret-b").started();
    let folder = tempfile::tempdir().unwrap();
    let says = sound(folder.path());
    let recordings = || {
        let entries = std::fs::read_dir(node.data().join("recordings")).into_iter().flatten().flatten();
        entries.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).collect::<Vec<u64>>()
    };
    play_in_browsers(&url, "voicemail", pictures().as_deref(), |line| match line {
        "message" => {
            let mut phone = Baresip::with_files("dora", node.port, "PCMA/8000/1", &says);
            phone.command("dial", &format!("sip:1241@{DOMAIN}"));
            phone.expect("CALL_ESTABLISHED");
            // Two pieces of the answer to a client.
            let is_said = || recordings().iter().any(|bytes| *bytes > 60_000);
            wait_until("four seconds of the message", Duration::from_secs(60), is_said, || node.tail());
            phone.command("hangup", "");
            phone.expect("CALL_CLOSED");
        }
        "gone" => wait_until(
            "the end of the recording's file",
            Duration::from_secs(20),
            || recordings().is_empty(),
            || node.tail(),
        ),
        other => panic!("the play asks for {other}"),
    });
}

#[test]
fn a_user_chooses_the_language_of_the_page() {
    let (_node, url) = node("ws");
    play_in_browsers(&url, "language", None, |line| panic!("the play asks for {line}"));
}

/// With TLS by the node's own certificate, and the challenges of a node that is not told otherwise: SHA-256 first.
#[test]
fn pages_come_back_after_their_node_was_killed() {
    let (mut node, url) = node("wss");
    play_in_browsers(&url, "restart", None, |line| match line {
        "kill" => node.kill(),
        "start" => node.start(),
        other => panic!("the play asks for {other}"),
    });
}

/// Their passwords are in a directory, which no phone can ask: the digests that the sign-in of chat leaves are the phone's.
#[test]
fn users_of_a_directory_chat_and_call_in_their_browsers() {
    let slapd = Slapd::start(&[("alice", "secret-a"), ("bob", "secret-b")]);
    let (node, url) = node_of(
        "wss",
        &format!(
            "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"ldap\"\nurl = \"ldap://localhost:{}\"\n\
             starttls = true\nca = {:?}\nbind_dn = \"{}\"\nbind_password_file = {:?}\nbase = \"{}\"\n\
             filter = \"(uid={{user}})\"\nkeep_digests = \"30d\"\n",
            slapd.port,
            slapd.authorities(),
            Slapd::SEARCHER,
            slapd.password_file(),
            Slapd::BASE,
        ),
    );
    let _node = node.started();
    play_in_browsers(&url, "directory", None, |line| panic!("the play asks for {line}"));
}

#[test]
fn users_sign_in_at_an_openid_provider_chat_and_read_that_there_are_no_calls() {
    let provider = OpenIdProvider::start(json!(null));
    provider.give_access_to("chat");
    let users =
        [json!({ "sub": "alice" }), json!({ "sub": "bob" }), json!({ "sub": "stan", "aud": "another" })];
    provider.ask_users(users.to_vec());
    let (node, url) = node_of(
        "wss",
        &format!(
            "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"jwt\"\nkeys_url = \"{}\"\nissuer = \"{}\"\n\
             audience = \"chat\"\n\
             provider = {{ client_id = \"console\", app_client_id = \"page\", label = \"Example\" }}\n",
            provider.keys_url(),
            provider.issuer(),
        ),
    );
    let mut node = node.started();
    play_in_browsers(&url, "provider", pictures().as_deref(), |line| match line {
        "kill" => node.kill(),
        "start" => node.start(),
        "break" => provider.set_fault(OpenIdFault::Broken),
        "mend" => provider.set_fault(OpenIdFault::None),
        other => panic!("the play asks for {other}"),
    });
}

#[test]
fn the_committed_jssip_matches_its_pinned_packages() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/web-app/assets/jssip.js");
    assert!(
        bundle_jssip() == std::fs::read(kept).unwrap(),
        "crates/web-app/assets/jssip.js is another; crates/web-app/assets/README.md says how it is made"
    );
}
