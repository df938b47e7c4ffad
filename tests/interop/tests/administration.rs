//! Operating chat from clients that are not ours.

use interop::{Node, administer_with_slixmpp, free_port};

#[test]
fn slixmpp_administers_the_server() {
    let port = free_port();
    let sections =
        format!("[xmpp]\nlisten = [\"tls:127.0.0.1:{port}\"]\nadmins = [\"alice@{}\"]\n", interop::DOMAIN);
    let node = Node::prepare()
        .with_sections(&sections)
        .with_account("alice", "secret")
        .with_account("bob", "secret")
        .started();
    administer_with_slixmpp(port, &node.certificate(), ["alice", "bob"], "secret");
}
