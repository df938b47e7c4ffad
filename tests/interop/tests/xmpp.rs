//! Chat clients that are not ours.

use interop::{Node, chat_with_slixmpp, chat_with_strophe, free_port, share_with_slixmpp};

/// A node where alice and bob have accounts, and the port where they connect by that way.
fn node(way: &str) -> (Node, u16) {
    let port = free_port();
    let node = Node::prepare()
        .with_sections(&format!("[xmpp]\nlisten = [\"{way}:127.0.0.1:{port}\"]\n"))
        .with_account("alice", "secret")
        .with_account("bob", "secret")
        .started();
    (node, port)
}

#[test]
fn slixmpp_signs_in_meets_and_chats_after_starttls() {
    let (node, port) = node("tcp");
    chat_with_slixmpp("tcp", port, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn slixmpp_signs_in_meets_and_chats_over_direct_tls() {
    let (node, port) = node("tls");
    chat_with_slixmpp("tls", port, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn slixmpp_uploads_a_file_and_another_fetches_it() {
    let (tls, wss) = (free_port(), free_port());
    let node = Node::prepare()
        .with_sections(&format!("[xmpp]\nlisten = [\"tls:127.0.0.1:{tls}\", \"wss:127.0.0.1:{wss}\"]\n"))
        .with_account("alice", "secret")
        .with_account("bob", "secret")
        .started();
    share_with_slixmpp(tls, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn strophe_signs_in_and_chats_over_bosh() {
    let (node, port) = node("wss");
    let url = format!("https://127.0.0.1:{port}/bosh");
    chat_with_strophe(&url, &node.certificate(), ["alice", "bob"], "secret");
}
