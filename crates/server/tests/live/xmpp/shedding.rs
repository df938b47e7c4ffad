//! Sign-ins that a shard refuses while it does not keep up with them (RFC 6120 §4.9.3.17, `docs/decisions/0112-sign-ins-are-shed-when-they-begin.md`).
//!
//! The shard is made to fall behind by its database: a client that waits for its session for more than a second shows that, on any machine.

use std::time::Duration;

use interop::{PostgresServer, SlowPostgres};
use sip::transport::Transport::Tcp;
use xmpp::ns;

use super::client::Client;
use crate::phone::PASSWORD;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

const PING: &str =
    "<iq xmlns='jabber:client' type='get' id='p' to='example.test'><ping xmlns='urn:xmpp:ping'/></iq>";

/// Late sign-ins, two for each attempt to be behind. Each of another account: one that has just been there is in memory.
const LATE: [[&str; 2]; 3] = [["late1", "late2"], ["late3", "late4"], ["late5", "late6"]];
const CROWD: [&str; 6] = ["user1", "user2", "user3", "user4", "user5", "user6"];
const RESOURCES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A client that has sent its header, and does not know yet whether it may go on.
fn begin(place: &Place) -> Client {
    let mut client = Client::connect(place, Tcp);
    client.begin();
    client
}

/// True if the stream goes on. A refused one is closed with the reason, before TLS and SASL.
fn is_admitted(client: &mut Client) -> bool {
    let Err(condition) = client.offered() else { return true };
    assert_eq!(condition, "resource-constraint");
    assert!(client.hear_or_end().is_none(), "it is closed");
    false
}

/// The rest of a sign-in that was admitted.
fn finish(mut client: Client, user: &str, resource: &str) -> Client {
    client.start_tls();
    client.open();
    let answer = client.plain(user, PASSWORD);
    assert!(answer.is("success", ns::SASL), "{answer}");
    client.open();
    client.bind(resource);
    client
}

fn is_served(client: &mut Client) -> bool {
    client.say(PING);
    client.hear().attr("type") == Some("result")
}

#[test]
fn sign_ins_are_refused_while_sessions_come_late_and_all_come_in_afterwards() {
    let server = PostgresServer::start(&["fsync=off"]);
    let proxy = SlowPostgres::start(&server.new_database(&[]));
    let accounts: Vec<&str> = ["alice"].into_iter().chain(LATE.concat()).chain(CROWD).collect();
    let place = Place::with_shards(1, "").with_xmpp("").with_postgres(&proxy.url).with_accounts(&accounts);
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tcp, "alice", "a");
    let mut outside: Vec<(&str, &str)> =
        CROWD.iter().flat_map(|user| RESOURCES.iter().map(move |resource| (*user, *resource))).collect();
    let (all, mut begun, mut refused) = (outside.len(), Vec::new(), 0_u64);

    // More than the second from which a session is late, and less than what makes a server one that is away.
    proxy.set_delay(Duration::from_millis(1_200));
    for users in LATE {
        for user in users {
            let mut client = begin(&place);
            match is_admitted(&mut client) {
                true => drop(finish(client, user, "late")),
                false => refused += 1,
            }
        }
        // All at once. Ten a second are always admitted, and eight may come together.
        let clients: Vec<(Client, (&str, &str))> =
            outside.drain(..).map(|who| (begin(&place), who)).collect();
        for (mut client, who) in clients {
            match is_admitted(&mut client) {
                true => begun.push((client, who)),
                false => outside.push(who),
            }
        }
        refused += outside.len() as u64;
        if refused > 0 {
            break;
        }
        outside.extend(begun.drain(..).map(|(_, who)| who));
    }
    assert!(refused > 0, "none was refused");
    assert!(is_served(&mut alice), "users that are signed in notice nothing");

    proxy.set_delay(Duration::ZERO);
    let mut inside: Vec<Client> =
        begun.into_iter().map(|(client, (user, resource))| finish(client, user, resource)).collect();
    for (user, resource) in outside {
        let client = until("the client is admitted", || {
            let mut client = begin(&place);
            let is_admitted = is_admitted(&mut client);
            refused += u64::from(!is_admitted);
            is_admitted.then_some(client)
        });
        inside.push(finish(client, user, resource));
    }
    assert_eq!(inside.len(), all);
    assert!(inside.iter_mut().chain([&mut alice]).all(is_served));
    // The figures are published twice a second.
    until("each refusal is counted", || (sum(&node, |shard| shard.xmpp.shed) == refused).then_some(()));
    assert_eq!(sum(&node, |shard| shard.xmpp.faults), 0, "it is no fault of theirs");
    node.stop();
}
