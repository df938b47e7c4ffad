//! The page of users in real browsers: chat, history, calls with sound and picture, refusals, and a node that restarts.

use std::path::{Path, PathBuf};

use interop::{DOMAIN, Node, bundle_jssip, free_port, play_in_browsers};

/// A node of alice and bob with the page at that kind of address, `ws` or `wss`; and the URL of the page.
fn node(transport: &str) -> (Node, String) {
    let (chat, sip) = (free_port(), free_port());
    let listener = |port| format!("{transport}:127.0.0.1:{port}");
    let require_tls = transport == "wss";
    let node = Node::prepare()
        .with_sip_listener(&listener(sip))
        .with_sections(&format!(
            "[xmpp]\nlisten = [\"{}\"]\nrequire_tls = {require_tls}\n[xmpp.web]\napp = true\n",
            listener(chat)
        ))
        .with_account("alice", "secret-a")
        .with_account("bob", "secret-b")
        .started();
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

#[test]
fn jssip_is_what_its_pinned_packages_make() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/web-app/assets/jssip.js");
    assert!(
        bundle_jssip() == std::fs::read(kept).unwrap(),
        "crates/web-app/assets/jssip.js is another; crates/web-app/assets/README.md says how it is made"
    );
}
