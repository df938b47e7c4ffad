//! Shared roster groups with a chat client that is not ours.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use interop::{DOMAIN, Node, free_port, python};

#[test]
fn slixmpp_sees_the_members_of_its_group_and_of_another_after_a_reload() {
    let port = free_port();
    let group = |second: &str| {
        let members = format!("[\"alice@{DOMAIN}\", \"{second}@{DOMAIN}\"]");
        format!("[[xmpp.groups]]\nname = \"office\"\nlabel = \"The Office\"\nmembers = {members}\n")
    };
    let sections = format!("[xmpp]\nlisten = [\"tls:127.0.0.1:{port}\"]\n{}", group("bob"));
    let mut node = Node::prepare().with_sections(&sections);
    for user in ["alice", "bob", "carol"] {
        node = node.with_account(user, "secret");
    }
    let node = node.started();
    let mut client = Command::new(python("slixmpp"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/slixmpp/groups.py"))
        .arg(port.to_string())
        .arg(node.certificate())
        .args(["alice", "bob", "carol"].map(|user| format!("{user}@{DOMAIN}")))
        .arg("secret")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the interpreter can be run");
    let mut line = String::new();
    let said = client.stdout.take().expect("it is piped");
    BufReader::new(said).read_line(&mut line).expect("it can be read");
    assert_eq!(line, "they see each other\n", "{}", node.tail());
    node.change_config(&group("bob"), &group("carol"));
    node.run(&["reload"]);
    client.stdin.take().expect("it is piped").write_all(b"changed\n").expect("it reads");
    assert!(client.wait().expect("it ends").success(), "{}", node.tail());
}
