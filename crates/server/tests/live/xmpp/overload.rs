//! A node that does not keep up: sign-ins are refused as they begin, and clients that are there go on.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use sip::transport::Transport::Tcp;
use xmpp::ns;

use super::client::Client;
use crate::faults::get;
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::{Place, Process};
use crate::{PATIENCE, until};

/// Clients that sign in again and again at once.
const CLIENTS: usize = 64;

/// A process that gets no more than a sixth of each processor: it is stopped for 100 ms of each 120.
struct Slowed {
    node: String,
    governor: Child,
}

impl Slowed {
    fn begin(node: &Process) -> Slowed {
        let node = node.id().to_string();
        let lines = "while kill -STOP $0 && sleep 0.1 && kill -CONT $0; do sleep 0.02; done";
        let governor = Command::new("sh").args(["-c", lines, &node]).spawn().unwrap();
        Slowed { node, governor }
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        let _ = self.governor.kill();
        let _ = self.governor.wait();
        let _ = Command::new("kill").args(["-CONT", &self.node]).status();
    }
}

/// The storm: it goes on until this is dropped, also by a test that fails.
struct Storm<'a> {
    is_over: &'a AtomicBool,
}

impl Drop for Storm<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// Signs in with STARTTLS. `None`: refused before it, as the node does not keep up.
fn try_sign_in(place: &Place, resource: &str) -> Option<Client> {
    let (mut client, _) = Client::try_open(DOMAIN, place, Tcp)?;
    client.start_tls();
    client.open();
    assert!(client.plain("alice", PASSWORD).is("success", ns::SASL));
    client.open();
    client.bind(resource);
    Some(client)
}

#[test]
fn sign_ins_are_refused_while_the_node_is_behind_and_clients_that_are_there_go_on() {
    let place = Place::new("").with_accounts(&["alice", "bob", "carol"]).with_xmpp("sign_in = \"300s\"");
    let node = place.spawn();
    let mut bob = Client::sign_in(&place, Tcp, "bob", "desk");
    let mut carol = Client::sign_in(&place, Tcp, "carol", "desk");
    let (admitted, refused, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let _storm = Storm { is_over: &is_over };
        let _slowed = Slowed::begin(&node);
        for number in 0..CLIENTS {
            let (place, admitted, refused, is_over) = (&place, &admitted, &refused, &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    let counter =
                        if try_sign_in(place, &format!("r{number}")).is_some() { admitted } else { refused };
                    counter.fetch_add(1, Relaxed);
                }
            });
        }
        // Only when all work of half a second was late, which comes sooner or later.
        let one_more =
            || Client::try_open(DOMAIN, &place, Tcp).is_none().then(|| refused.fetch_add(1, Relaxed));
        wait::until("a sign-in is refused", PATIENCE * 4, one_more, || node.log());
        bob.message(&carol.jid, "still here");
        let message = carol.hear();
        assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some("still here"), "{message}");
    });
    until("the node keeps up again", || try_sign_in(&place, "late"));
    let (admitted, refused) = (admitted.load(Relaxed), refused.load(Relaxed));
    assert!(admitted > 0, "{refused} were refused, and not one was admitted");
    assert!(node.log().contains("sign-ins of chat clients were refused"), "{}", node.log());
    until("the refusals are counted", || {
        let (_, metrics) = get(&place, "/metrics");
        let lines = metrics.lines().filter(|line| line.starts_with("belfry_xmpp_shed_total"));
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        (counts.sum::<usize>() >= refused).then_some(())
    });
}
