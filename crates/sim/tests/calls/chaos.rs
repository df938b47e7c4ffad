//! Everything at once, by seed: forks, loss, callers that give up, phones that die. In every run all ends and
//! nothing stays.

use std::cell::Cell;

use sim::{Link, World, for_seeds};

use crate::phone::Phone;
use crate::{SERVER, Scene, address, targets};

const NAMES: [&str; 3] = ["bob", "carol", "dave"];

fn callees(world: &mut World) -> Vec<Phone> {
    let last = [200, 200, 486, 603, 503, 180, 302];
    (0..3u8)
        .map(|index| {
            let address = address(3 + index);
            let first = world.rng.below(2_000);
            let answer = last[usize::try_from(world.rng.below(last.len() as u64)).unwrap()];
            let answered = first + world.rng.below(20_000);
            Phone::new(NAMES[usize::from(index)], address, SERVER)
                .answering(&[(first, 180), (answered, answer)])
        })
        .collect()
}

fn all_ended(phone: &Phone) -> bool {
    phone.calls.iter().all(|call| call.ended || call.status == 0 && !call.is_caller)
}

#[test]
fn any_world_ends_with_nothing_left() {
    let seen = Cell::new([0; 7]);
    for_seeds(0..300, |seed| {
        let mut dice = World::new(seed);
        let phones = callees(&mut dice);
        let serial = dice.rng.chance(500);
        let mut scene = Scene::new(
            seed,
            move |_| {
                let uris = ["sip:bob@10.0.0.3", "sip:carol@10.0.0.4", "sip:dave@10.0.0.5"];
                if serial { targets(&[&uris[..1], &uris[1..]]) } else { targets(&[&uris]) }
            },
            phones,
        );
        scene.world.set_default_link(Link::rough(150));
        scene.call("sip:all@10.0.0.1");
        let patience = dice.rng.below(30_000);
        scene.run(patience);
        if dice.rng.chance(500) && scene.status() == 0 {
            scene.cancel();
        }
        let died = dice.rng.chance(100);
        if died {
            let dying = scene.callees[0];
            scene.world.stop(dying);
        }
        scene.run(300_000);
        let status = scene.status();
        // A 2xx that is lost is repeated by the callee alone: if that dies, the caller rings until it gives up.
        assert!(status != 0 || died, "the caller waits no longer");
        let mut counts = seen.get();
        counts[usize::from(status / 100)] += 1;
        seen.set(counts);
        if status == 200 {
            scene.hang_up();
        }
        scene.rest();
        assert!(status == 0 || all_ended(scene.alice()), "the caller");
    });
    let [.., successes, redirects, refusals, _, declines] = seen.get();
    assert!(successes > 50 && refusals > 50 && declines > 5 && redirects > 0, "{:?}", seen.get());
}
