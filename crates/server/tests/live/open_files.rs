//! A node without a free file descriptor: new connections are refused at once, those that are open go on, and the operator sees why.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use sip::transport::Transport::Tcp;

use crate::faults::get;
use crate::place::{Place, Process};
use crate::until;
use crate::xmpp::client::Client;

/// Lets the process open files up to that number.
fn limit(node: &Process, files: &str) {
    let (pid, limit) = (node.id().to_string(), format!("--nofile={files}:"));
    let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(set.success(), "prlimit (util-linux) is needed");
}

/// Connects until the node resets a connection: files that it had open only for a moment leave places for some.
fn refuses(at: SocketAddr) {
    let mut open = Vec::new();
    until("a connection is reset", || {
        let client = TcpStream::connect(at).unwrap();
        client.set_nonblocking(true).unwrap();
        open.push(client);
        let is_reset = |client: &mut TcpStream| {
            client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
        };
        open.iter_mut().any(is_reset).then_some(())
    });
}

fn status(place: &Place) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    let output = command.arg("status").current_dir(place.path(".")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn connections_beyond_the_last_free_file_descriptor_are_refused_at_once() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let node = place.spawn();
    let mut alice = Client::sign_in(&place, Tcp, "alice", "desk");
    // Its other listeners may come after the one that has answered.
    until("all listeners are there", || node.log().contains("belfry is up").then_some(()));
    let files = std::fs::read_dir(format!("/proc/{}/fd", node.id())).unwrap().count();
    limit(&node, &files.to_string());
    [place.at(Tcp), place.xmpp_at(Tcp), place.http()].into_iter().for_each(refuses);
    alice.say("<iq type='get' id='up'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert_eq!(alice.hear().attr("type"), Some("result"));
    let status = status(&place);
    assert!(status.lines().any(|line| line.starts_with("not accepted   ")), "{status}");
    assert!(node.log().contains("the process has no file descriptor left"), "{}", node.log());
    limit(&node, "1024");
    until("connections are accepted again", || {
        let mut client = TcpStream::connect(place.xmpp_at(Tcp)).unwrap();
        client.set_nonblocking(true).unwrap();
        // Nothing comes on a connection that is open.
        client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock).then_some(())
    });
    drop(Client::sign_in(&place, Tcp, "alice", "phone"));
    let (_, metrics) = get(&place, "/metrics");
    for service in ["sip", "xmpp", "http"] {
        let counter = format!("\nbelfry_connections_unaccepted_total{{service=\"{service}\"}} ");
        let count: u64 = metrics.split_once(&counter).unwrap().1.lines().next().unwrap().parse().unwrap();
        assert!(count > 0, "{service}: {metrics}");
    }
}
