//! Many calls at once through more shards than there are cores: every one is counted up and down again.

use crate::call::Dialog;
use crate::place::Place;
use crate::until;

const CALLS: usize = 500;

#[test]
fn five_hundred_calls_at_once_through_four_shards_leave_nothing_behind() {
    let place = Place::with_shards(4, "").with_accounts(&["alice", "bob"]);
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    let mut dialogs: Vec<Dialog> = Vec::new();
    for _ in 0..CALLS {
        let invite = alice.invite("bob@example.test");
        bob.pick_up();
        dialogs.push(alice.answered(&invite));
        bob.expect_request("ACK");
    }
    let total = |read: &dyn Fn(&server::shard::ShardStatus) -> u64| {
        node.board().shards().iter().map(read).sum::<u64>()
    };
    let open = || total(&|shard| shard.calls.answered as u64);
    until("all calls are open", || (open() == CALLS as u64).then_some(()));
    let busy = node.board().shards().iter().filter(|shard| shard.calls.answered > 0).count();
    assert_eq!(busy, 4, "every shard carries some");
    for mut dialog in dialogs {
        crate::call::end(&mut alice, &mut dialog, &mut bob);
    }
    until("all calls are over", || (open() == 0).then_some(()));
    assert_eq!(total(&|shard| shard.sip.answered), CALLS as u64);
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
    drop(node);
    let records =
        place.admin().calls(store::types::CallFilter { limit: 1_000, ..Default::default() }).unwrap();
    let answered = records.iter().filter(|record| record.code == 200 && record.answered_at.is_some());
    assert_eq!(answered.count(), CALLS, "one record a call");
}

#[test]
fn a_draining_node_refuses_new_requests_and_ends_its_calls_well() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    let invite = alice.invite("bob@example.test");
    bob.pick_up();
    let mut dialog = alice.answered(&invite);
    bob.expect_request("ACK");
    node.drain();
    // Each shard drains in its own time; a refusal by one says nothing of the other.
    until("new requests are refused", || {
        let refused = (0..8).all(|_| {
            let ask = alice.ask("OPTIONS", "sip:nobody@example.test");
            let answer = alice.request(ask);
            answer.status() == 503 && answer.header(sip::wire::Header::RetryAfter).is_some()
        });
        refused.then_some(())
    });
    crate::call::end(&mut alice, &mut dialog, &mut bob);
    until("nothing waits for an answer", || node.is_idle().then_some(()));
    node.stop();
}
