//! The members of a farm as one node sees them, by times in milliseconds.

use super::*;
use crate::member::tests::member;

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1_000)
}

/// The announcement of a life at a time.
fn renewed(life: u32, millis: u64) -> Member {
    Member { renewal: millis + 1, ..member(life) }
}

fn after(
    members: &mut Members,
    input: impl FnOnce(&mut Members, &mut Vec<MembershipEffect>),
) -> Vec<MembershipEffect> {
    let mut out = Vec::new();
    input(members, &mut out);
    out
}

/// The lives 1 and 2 announced at 0; `expire` is called as often as it asks.
fn two() -> Members {
    let mut members = Members::new("farm", (1, 1), at(0));
    members.set_council_away(at(0), false);
    for life in [1, 2] {
        let news = after(&mut members, |m, out| m.handle_announced(at(0), member(life), out));
        assert_eq!(news, [MembershipEffect::Joined(Life(life))]);
    }
    members
}

/// Expires every 100 ms up to `until`; life 1 renews.
fn pass(members: &mut Members, from: u64, until: u64) -> Vec<MembershipEffect> {
    let mut out = Vec::new();
    for now in (from..=until).step_by(100) {
        members.handle_announced(at(now), renewed(1, now), &mut out);
        members.expire(at(now), &mut out);
    }
    out
}

#[test]
fn silence_makes_a_suspect_and_the_council_decides_after_the_time() {
    let mut members = two();
    assert_eq!(pass(&mut members, 0, 2_100), []);
    assert_eq!(pass(&mut members, 2_200, 4_400), [MembershipEffect::Suspected(Life(2))]);
    // An absence before the time is over proves nothing.
    assert_eq!(after(&mut members, |m, out| m.handle_read(at(4_450), Life(2), at(4_400), None, out)), []);
    assert_eq!(pass(&mut members, 4_500, 4_500), [MembershipEffect::Ask(Life(2))]);
    let died = after(&mut members, |m, out| m.handle_read(at(4_550), Life(2), at(4_500), None, out));
    assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
    assert_eq!(members.live().count(), 1);
    // The map makes it a death.
    let agreed = after(&mut members, |m, out| m.handle_dead(at(4_600), Life(2), out));
    assert_eq!(agreed, [MembershipEffect::Died(Life(2))]);
    assert_eq!(members.check(&member(2)), Err(Refusal::Dead));
}

#[test]
fn a_renewal_recovers_a_suspect() {
    let mut members = two();
    pass(&mut members, 0, 3_000);
    let news = after(&mut members, |m, out| m.handle_announced(at(3_000), renewed(2, 3_000), out));
    assert_eq!(news, [MembershipEffect::Recovered(Life(2))]);
    assert_eq!(pass(&mut members, 3_100, 5_000), []);
}

#[test]
fn a_key_that_the_council_forgot_is_a_hint() {
    let mut members = two();
    pass(&mut members, 0, 500);
    let news = after(&mut members, |m, out| m.handle_key_gone(at(500), Life(2), out));
    assert_eq!(news, [MembershipEffect::Suspected(Life(2)), MembershipEffect::Ask(Life(2))]);
    assert_eq!(after(&mut members, |m, out| m.handle_read(at(510), Life(2), at(500), None, out)), []);
    assert!(members.get(Life(2)).is_some());
}

#[test]
fn a_key_that_was_not_renewed_is_no_sign_of_life() {
    let mut members = two();
    pass(&mut members, 0, 500);
    after(&mut members, |m, out| m.handle_connection_refused(at(500), Life(2), out));
    // The council still has the key, as it was written before.
    let old = Some(renewed(2, 0));
    assert_eq!(after(&mut members, |m, out| m.handle_read(at(510), Life(2), at(500), old.clone(), out)), []);
    assert_eq!(pass(&mut members, 600, 2_000), [MembershipEffect::Ask(Life(2))]);
    let died = after(&mut members, |m, out| m.handle_read(at(2_010), Life(2), at(2_000), old, out));
    assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
}

#[test]
fn a_missing_member_that_the_farm_does_not_count_as_dead_comes_back() {
    let mut members = two();
    pass(&mut members, 0, 4_500);
    let announced = |members: &Members| members.announced().map(|member| member.life).collect::<Vec<_>>();
    let before = announced(&members);
    after(&mut members, |m, out| m.handle_read(at(4_550), Life(2), at(4_500), None, out));
    assert_eq!(members.missing().collect::<Vec<_>>(), [Life(2)]);
    assert!(members.is_suspect(Life(2)) && !members.live().any(|member| member.life == Life(2)));
    assert_eq!(announced(&members), before, "it keeps its links and sessions until it is dead for all");
    let news = after(&mut members, |m, out| m.handle_announced(at(4_600), renewed(2, 4_600), out));
    assert_eq!(news, [MembershipEffect::Recovered(Life(2))]);
    assert_eq!(members.missing().count(), 0);
    after(&mut members, |m, out| m.handle_dead(at(4_700), Life(2), out));
    assert!(!announced(&members).contains(&Life(2)));
}

#[test]
fn a_key_that_was_renewed_ends_the_suspicion() {
    let mut members = two();
    pass(&mut members, 0, 4_500);
    let new = Some(renewed(2, 4_000));
    let news = after(&mut members, |m, out| m.handle_read(at(4_510), Life(2), at(4_500), new, out));
    assert_eq!(news, [MembershipEffect::Recovered(Life(2))]);
}

#[test]
fn a_host_that_refuses_connections_shortens_the_wait() {
    let mut members = two();
    pass(&mut members, 0, 500);
    after(&mut members, |m, out| m.handle_connection_refused(at(500), Life(2), out));
    assert_eq!(pass(&mut members, 600, 1_400), []);
    assert_eq!(pass(&mut members, 1_500, 2_000), [MembershipEffect::Ask(Life(2))]);
    let died = after(&mut members, |m, out| m.handle_read(at(2_010), Life(2), at(2_000), None, out));
    assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
}

#[test]
fn no_node_dies_while_the_council_is_away() {
    let mut members = two();
    pass(&mut members, 0, 1_000);
    members.set_council_away(at(1_000), true);
    assert_eq!(pass(&mut members, 1_100, 20_000), []);
    members.set_council_away(at(20_000), false);
    assert_eq!(pass(&mut members, 20_000, 22_000), []);
}

#[test]
fn members_have_time_to_return_to_a_council_that_is_back_without_its_keys() {
    let mut members = two();
    pass(&mut members, 0, 1_000);
    members.handle_council_returned(at(1_000));
    let asked = pass(&mut members, 1_000, 9_900);
    assert_eq!(asked, [MembershipEffect::Suspected(Life(2))]);
    assert_eq!(after(&mut members, |m, out| m.handle_read(at(9_900), Life(2), at(9_900), None, out)), []);
    assert_eq!(pass(&mut members, 10_000, 10_000), [MembershipEffect::Ask(Life(2))]);
    let died = after(&mut members, |m, out| m.handle_read(at(10_010), Life(2), at(10_000), None, out));
    assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
}

#[test]
fn a_member_that_has_returned_is_missing_as_soon_as_ever() {
    let mut members = two();
    members.handle_council_returned(at(1_000));
    after(&mut members, |m, out| m.handle_announced(at(2_000), renewed(2, 2_000), out));
    let asked = pass(&mut members, 2_000, 6_500);
    assert_eq!(asked, [MembershipEffect::Suspected(Life(2)), MembershipEffect::Ask(Life(2))]);
}

#[test]
fn the_time_in_which_this_node_was_stopped_does_not_count() {
    let mut members = two();
    pass(&mut members, 0, 1_000);
    assert_eq!(after(&mut members, |m, out| m.expire(at(60_000), out)), []);
    assert_eq!(pass(&mut members, 60_100, 62_100), []);
}

#[test]
fn refusals_name_their_reason() {
    let members = two();
    let mut other = member(3);
    other.farm = "elsewhere".into();
    assert_eq!(members.check(&other), Err(Refusal::OtherFarm("elsewhere".into())));
    let mut newer = member(3);
    newer.wire = (2, 3);
    assert_eq!(members.check(&newer), Err(Refusal::WireRange { least: 2, most: 3 }));
    let mut namesake = member(3);
    namesake.name = member(1).name;
    assert_eq!(members.check(&namesake), Err(Refusal::NameInUse(Life(1))));
    let mut large = member(3);
    large.shards = 257;
    assert_eq!(members.check(&large), Err(Refusal::TooManyShards(257)));
    assert!(members.check(&member(3)).is_ok());
}

#[test]
fn a_member_that_leaves_is_gone_at_once() {
    let mut members = two();
    let mut left = renewed(2, 100);
    left.state = MemberState::Left;
    let news = after(&mut members, |m, out| m.handle_announced(at(100), left, out));
    assert_eq!(news, [MembershipEffect::Left(Life(2))]);
    assert_eq!(members.dead().collect::<Vec<_>>(), [Life(2)]);
}

#[test]
fn members_are_bounded_and_the_dead_make_room() {
    let mut members = Members::new("farm", (1, 1), at(0));
    for life in 1..=256 {
        after(&mut members, |m, out| m.handle_announced(at(0), member(life), out));
    }
    assert_eq!(members.check(&member(257)), Err(Refusal::TooManyMembers));
    after(&mut members, |m, out| m.handle_dead(at(0), Life(7), out));
    let news = after(&mut members, |m, out| m.handle_announced(at(0), member(257), out));
    assert_eq!(news, [MembershipEffect::Joined(Life(257))]);
}
