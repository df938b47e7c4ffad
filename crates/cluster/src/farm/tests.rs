//! One node against a council and a database that the test plays. Farms of several nodes are in `crates/sim/tests/farm`.

use super::*;
use crate::member::tests::member;

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1_000)
}

fn bucket(number: u16) -> Bucket {
    Bucket::with_number(number).unwrap()
}

fn after(node: &mut FarmNode, input: impl FnOnce(&mut FarmNode, &mut Vec<FarmEffect>)) -> Vec<FarmEffect> {
    let mut out = Vec::new();
    input(node, &mut out);
    out
}

fn swapped(effects: &[FarmEffect]) -> Option<FarmMap> {
    effects.iter().find_map(|effect| match effect {
        FarmEffect::SwapMap { map, .. } => Some((**map).clone()),
        _ => None,
    })
}

/// A node alone in an empty council, up to its first map.
fn joined() -> (FarmNode, FarmMap) {
    let mut node = FarmNode::new(at(0), member(1), 4);
    let first = after(&mut node, |node, out| node.expire(at(0), out));
    assert!(matches!(first[..], [FarmEffect::ReadMembers, FarmEffect::Announce { .. }, FarmEffect::ReadMap]));
    after(&mut node, |node, out| node.handle_members_read(at(1), out));
    after(&mut node, |node, out| node.handle_map(at(1), Revision(0), None, out));
    let announced = after(&mut node, |node, out| node.handle_renewed(at(2), at(0), out));
    let [FarmEffect::Member(MembershipEffect::Joined(_)), FarmEffect::Announce { sent_at, member }] =
        &announced[..]
    else {
        panic!("{announced:?}");
    };
    assert_eq!(member.state, MemberState::Serving);
    let swap = after(&mut node, |node, out| node.handle_renewed(at(3), *sent_at, out));
    let map = swapped(&swap).expect("the only node plans");
    (node, map)
}

/// The same with all four buckets served under the epoch 1.
fn serving() -> FarmNode {
    let (mut node, _) = joined();
    let effects = after(&mut node, |node, out| node.handle_swapped(at(4), Some(Revision(1)), out));
    assert!(
        effects.iter().any(|effect| matches!(effect, FarmEffect::Take { claims, .. } if claims.len() == 4))
    );
    for number in 0..4 {
        let load = after(&mut node, |node, out| node.handle_taken(at(5), bucket(number), Epoch(1), out));
        let shard = 0;
        assert!(load.contains(&FarmEffect::Load { bucket: bucket(number), shard, epoch: Epoch(1) }));
        after(&mut node, |node, out| node.handle_loaded(at(6), bucket(number), Epoch(1), out));
        assert_eq!(node.serves(at(6), bucket(number)), Some(Epoch(1)));
    }
    node
}

#[test]
fn a_node_alone_takes_all_buckets() {
    let node = serving();
    assert!(node.map().owners().all(|(_, ownership)| ownership.owner == Some(ShardAddress::new(Life(1), 0))));
}

#[test]
fn nothing_is_served_after_the_authority_has_ended() {
    let mut node = serving();
    assert_eq!(node.serves(at(2_501), bucket(0)), Some(Epoch(1)));
    assert_eq!(node.serves(at(2_502), bucket(0)), None);
    let stopped = after(&mut node, |node, out| node.expire(at(2_502), out));
    assert_eq!(stopped.iter().filter(|effect| matches!(effect, FarmEffect::Stop { .. })).count(), 4);
    // The database has the same epoch, so nothing is read again.
    let claims = after(&mut node, |node, out| node.handle_renewed(at(2_600), at(2_502), out));
    assert!(
        claims.iter().any(|effect| matches!(effect, FarmEffect::Take { claims, .. } if claims.len() == 4))
    );
    let serve = after(&mut node, |node, out| node.handle_taken(at(2_700), bucket(0), Epoch(1), out));
    assert!(matches!(serve[0], FarmEffect::Serve { epoch: Epoch(1), .. }));
}

/// Answers of the database that come too late, and a map that gives the bucket again.
#[test]
fn no_input_without_authority_serves_or_claims() {
    let mut node = serving();
    after(&mut node, |node, out| node.expire(at(2_502), out));
    let mut effects = after(&mut node, |node, out| node.handle_taken(at(2_503), bucket(0), Epoch(1), out));
    effects
        .extend(after(&mut node, |node, out| node.handle_refused(at(2_504), bucket(1), None, Epoch(7), out)));
    let map = node.map().clone();
    effects.extend(after(&mut node, |node, out| node.handle_map(at(2_505), Revision(9), Some(map), out)));
    assert!(!effects.iter().any(|effect| matches!(effect, FarmEffect::Take { .. })), "{effects:?}");
    assert!((0..4).all(|number| node.serves(at(2_506), bucket(number)).is_none()));
    // What began all the same has ended again.
    let count = |is_meant: fn(&FarmEffect) -> bool| effects.iter().filter(|effect| is_meant(effect)).count();
    let served = count(|effect| matches!(effect, FarmEffect::Serve { .. }));
    assert_eq!(served, count(|effect| matches!(effect, FarmEffect::Stop { .. })));
    // With authority all four are asked for again.
    let claims = after(&mut node, |node, out| node.handle_renewed(at(2_600), at(2_510), out));
    assert!(
        claims.iter().any(|effect| matches!(effect, FarmEffect::Take { claims, .. } if claims.len() == 4))
    );
}

#[test]
fn a_fenced_node_ends() {
    let mut node = serving();
    let effects = after(&mut node, |node, out| node.handle_fenced(out));
    assert_eq!(effects.last(), Some(&FarmEffect::End(EndReason::Fenced)));
    assert_eq!(node.serves(at(7), bucket(0)), None);
    assert_eq!(after(&mut node, |node, out| node.expire(at(9_000), out)), []);
    assert_eq!(after(&mut node, |node, out| node.handle_taken(at(9_000), bucket(0), Epoch(2), out)), []);
}

#[test]
fn a_node_that_the_farm_counts_as_dead_ends() {
    let mut node = serving();
    let mut map = node.map().clone();
    map.insert_dead(Life(1));
    map.succeed(map.version());
    let effects = after(&mut node, |node, out| node.handle_map_written(at(7), Revision(9), map, out));
    assert_eq!(effects.last(), Some(&FarmEffect::End(EndReason::DeclaredDead)));
}

/// A node that takes many buckets does not write the map for each of them.
#[test]
fn epochs_that_follow_each_other_are_written_to_the_map_together() {
    let mut node = serving();
    assert!(swapped(&after(&mut node, |node, out| node.expire(at(99), out))).is_none());
    assert!(node.deadline() <= at(106));
    let map = swapped(&after(&mut node, |node, out| node.expire(at(106), out))).expect("it is time");
    assert!((0..4).all(|number| map.owner(bucket(number)).epoch == Epoch(1)));
}

#[test]
fn a_map_that_the_council_forgot_is_written_again() {
    let mut node = serving();
    after(&mut node, |node, out| node.handle_renewed(at(1_000), at(900), out));
    after(&mut node, |node, out| node.handle_swapped(at(1_000), Some(Revision(2)), out));
    let version = node.map().version();
    let effects = after(&mut node, |node, out| node.handle_map(at(1_001), Revision(0), None, out));
    assert!(swapped(&effects).expect("it is written again").version() > version);
}

#[test]
fn a_node_that_leaves_gives_its_buckets_back_first() {
    let mut node = serving();
    after(&mut node, |node, out| node.handle_swapped(at(8), Some(Revision(2)), out));
    let leaving = after(&mut node, |node, out| node.leave(at(9), out));
    assert!(matches!(&leaving[..], [FarmEffect::Announce { .. }, ..]));
    let mut effects = after(&mut node, |node, out| node.handle_renewed(at(10), at(9), out));
    if swapped(&effects).is_none() {
        effects.extend(after(&mut node, |node, out| node.handle_swapped(at(11), Some(Revision(3)), out)));
    }
    assert!(swapped(&effects).is_some(), "the map without owners: {effects:?}");
    let stops = after(&mut node, |node, out| node.handle_swapped(at(12), Some(Revision(4)), out));
    assert_eq!(stops.iter().filter(|effect| matches!(effect, FarmEffect::Stop { .. })).count(), 4);
    let mut last = Vec::new();
    for number in 0..4 {
        after(&mut node, |node, out| node.handle_drained(at(13), bucket(number), Epoch(1), out));
        last = after(&mut node, |node, out| node.handle_given(at(14), bucket(number), Epoch(1), out));
    }
    assert_eq!(last, [FarmEffect::Drained]);
    after(&mut node, |node, out| node.end(at(15), out));
    let ended = after(&mut node, |node, out| node.handle_renewed(at(16), at(15), out));
    assert_eq!(ended, [FarmEffect::End(EndReason::Left)]);
}

#[test]
fn a_farm_of_other_wire_versions_refuses_a_newcomer() {
    let mut node = FarmNode::new(at(0), Member { wire: (3, 4), ..member(2) }, 4);
    let effects = after(&mut node, |node, out| node.handle_announced(at(0), member(1), out));
    assert!(effects.contains(&FarmEffect::End(EndReason::Refused(Refusal::WireRange { least: 1, most: 1 }))));
}
