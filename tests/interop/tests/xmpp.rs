//! Chat clients that are not ours.

use interop::{Baresip, Node, chat_with_slixmpp, free_port, text_with_slixmpp};

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

/// Alice is in chat, Bob has a phone: words both ways, and she sees that he is there.
#[test]
fn slixmpp_and_baresip_write_to_each_other() {
    let (node, port) = node("tcp");
    let mut phone = Baresip::writing("bob", "secret", node.port, "alice");
    phone.wait_until_registered();
    let certificate = node.certificate();
    std::thread::scope(|scope| {
        scope.spawn(|| text_with_slixmpp("tcp", port, &certificate, ["alice", "bob"], "secret"));
        phone.wait_for_text("alice", "hello phone");
        phone.write_text("hello chat");
    });
}
