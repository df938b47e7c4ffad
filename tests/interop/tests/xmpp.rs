//! Chat clients and components that are not ours.

use interop::{
    Baresip, DOMAIN, Node, chat_with_profanity, chat_with_slixmpp, chat_with_strophe, chat_with_xmppjs,
    collect_with_slixmpp, free_port, renegotiate_a_stream, run_slixmpp_component, share_with_slixmpp,
    text_with_slixmpp, transfer_with_slixmpp,
};

/// A node where alice and bob have accounts, and the port where they connect by that way; `more` goes into `[xmpp]`.
fn node(way: &str, more: &str) -> (Node, u16) {
    let port = free_port();
    let node = Node::prepare()
        .with_sections(&format!("[xmpp]\nlisten = [\"{way}:127.0.0.1:{port}\"]\n{more}\n"))
        .with_account("alice", "secret")
        .with_account("bob", "secret")
        .started();
    (node, port)
}

#[test]
fn slixmpp_signs_in_meets_and_chats_after_starttls() {
    let (node, port) = node("tcp", "");
    chat_with_slixmpp("tcp", port, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn slixmpp_signs_in_meets_and_chats_over_direct_tls() {
    let (node, port) = node("tls", "");
    chat_with_slixmpp("tls", port, &node.certificate(), ["alice", "bob"], "secret");
}

/// RFC 6120 §5.3.5: there is no renegotiation, and no stream error tells of it.
#[test]
fn openssl_asks_for_a_renegotiation_in_vain() {
    let (node, port) = node("tls", "");
    let text = renegotiate_a_stream(port);
    assert!(text.contains("no renegotiation"), "OpenSSL was not told: {text}");
    assert!(!text.contains("stream:error"), "{text}");
    drop(node);
}

#[test]
fn profanity_signs_in_after_starttls_and_chats() {
    let (node, port) = node("tcp", "");
    chat_with_profanity(port, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn xmpp_js_signs_in_meets_and_chats_over_a_websocket() {
    // In the clear, as behind a proxy that does TLS: by SCRAM.
    let (node, port) = node("ws", "require_tls = false");
    let url = format!("ws://127.0.0.1:{port}/");
    chat_with_xmppjs(&url, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn xmpp_js_signs_in_meets_and_chats_over_a_secure_websocket() {
    let (node, port) = node("wss", "");
    let url = format!("wss://localhost:{port}/");
    chat_with_xmppjs(&url, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn slixmpp_is_a_component_that_echoes() {
    let (component_port, domain) = (free_port(), format!("echo.{DOMAIN}"));
    let more = format!(
        "component_listen = [\"tcp:127.0.0.1:{component_port}\"]\n\
         components = [{{ domain = \"{domain}\", secret = \"hush\" }}]"
    );
    let (node, port) = node("tcp", &more);
    let alice = ("alice", "secret");
    let component = (&*domain, "hush");
    run_slixmpp_component(
        "slixmpp/component.py",
        port,
        &node.certificate(),
        alice,
        component_port,
        component,
    );
}

/// XEP-0356: slixmpp's own plugin, as slidge uses it.
#[test]
fn slixmpp_is_a_gateway_that_acts_for_its_user() {
    let (component_port, domain) = (free_port(), format!("gate.{DOMAIN}"));
    let more = format!(
        "component_listen = [\"tcp:127.0.0.1:{component_port}\"]\n\
         components = [{{ domain = \"{domain}\", secret = \"hush\", roster = \"both\", messages = true, \
         presence = \"managed_entity\", requests = {{ \"http://jabber.org/protocol/pubsub\" = \"both\" }} }}]"
    );
    let (node, port) = node("tcp", &more);
    let alice = ("alice", "secret");
    let component = (&*domain, "hush");
    run_slixmpp_component(
        "slixmpp/privilege.py",
        port,
        &node.certificate(),
        alice,
        component_port,
        component,
    );
}

/// Alice is in chat, Bob has a phone: they exchange messages, and Alice sees Bob's presence.
#[test]
fn slixmpp_and_baresip_write_to_each_other() {
    let (node, port) = node("tcp", "");
    let mut phone = Baresip::writing("bob", "secret", node.port, "alice");
    phone.wait_until_registered();
    let certificate = node.certificate();
    std::thread::scope(|scope| {
        scope.spawn(|| text_with_slixmpp("tcp", port, &certificate, ["alice", "bob"], "secret"));
        phone.wait_for_text("alice", "hello phone");
        phone.write_text("hello chat");
    });
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
fn slixmpp_sends_a_file_through_the_proxy() {
    let (tcp, proxy) = (free_port(), free_port());
    let node = Node::prepare()
        .with_sections(&format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{tcp}\"]\n[xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:{proxy}\"]\n"
        ))
        .with_account("alice", "secret")
        .with_account("bob", "secret")
        .started();
    transfer_with_slixmpp(tcp, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn slixmpp_subscribes_to_a_collection() {
    let (node, port) = node("tcp", "");
    collect_with_slixmpp(port, &node.certificate(), ["alice", "bob"], "secret");
}

#[test]
fn strophe_signs_in_and_chats_over_bosh() {
    let (node, port) = node("wss", "");
    let url = format!("https://127.0.0.1:{port}/bosh");
    chat_with_strophe(&url, &node.certificate(), ["alice", "bob"], "secret");
}
