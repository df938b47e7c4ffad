//! One caller, one callee.

use insta::assert_snapshot;
use sim::{Link, for_seeds};

use crate::phone::Phone;
use crate::{Scene, bob, to_bob};

#[test]
fn a_plain_call() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    scene.call("sip:bob@10.0.0.1:5060");
    scene.run(2_000);
    scene.hang_up();
    scene.rest();
    assert_snapshot!(scene.world.ladder(), @r"
        0ms  alice  ──INVITE──────▶ server
       10ms  server ──INVITE──────▶ bob
       20ms  server ◀──180 INVITE── bob
       30ms  alice  ◀──180 INVITE── server
    1_020ms  server ◀──200 INVITE── bob
    1_030ms  alice  ◀──200 INVITE── server
    1_040ms  alice  ──ACK─────────▶ server
    1_050ms  server ──ACK─────────▶ bob
    2_000ms  alice  ──BYE─────────▶ server
    2_010ms  server ──BYE─────────▶ bob
    2_020ms  server ◀──200 BYE───── bob
    2_030ms  alice  ◀──200 BYE───── server
    ");
    assert!(scene.callee(0).calls[0].acknowledged);
    assert_eq!(scene.callee(0).requests.len(), 3);
}

/// However bad the network, both sides end, and the server keeps nothing.
#[test]
fn a_call_with_loss_always_ends() {
    let mut answered = 0;
    let counted = std::cell::Cell::new(0);
    for_seeds(0..200, |seed| {
        let mut scene = Scene::new(seed, to_bob, vec![bob()]);
        scene.world.set_default_link(Link::rough(300));
        scene.call("sip:bob@10.0.0.1:5060");
        scene.run(40_000);
        let (alice, bob) = (scene.alice, scene.callees[0]);
        assert_ne!(scene.status(), 0, "the caller waits no longer");
        if scene.status() == 200 {
            counted.set(counted.get() + 1);
            scene.world.act(alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
        }
        scene.rest();
        let ended = |phone: &Phone| phone.calls.iter().all(|call| call.ended);
        assert!(ended(scene.world.node(alice)), "the caller");
        assert!(ended(scene.world.node(bob)), "the callee");
    });
    answered += counted.get();
    assert!(answered > 190, "only {answered} of 200 answered");
}
