//! Rooms and addresses that a real-time block list has.

use super::super::rtbl::lists_of;
use super::*;

#[test]
fn an_address_of_a_list_is_refused_in_rooms_and_others_of_its_server_are_not() {
    let mut hall = Hall::coven(&[]);
    hall.host.rtbl.set_lists(lists_of(&["hag66@shakespeare.lit"]));
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    hall.enter("duncan@shakespeare.lit/1", "duncan");
    assert_eq!(all_seen(&hall.hear("duncan@shakespeare.lit/1")).len(), 2);
    let query = format!("<query xmlns='{}'/>", ns::DISCO_INFO);
    assert_eq!(outcome(&hall.iq(HAG, "get", &query)), "forbidden");
    assert_eq!(hall.host.rtbl.refused(), 2);
}

#[test]
fn a_domain_of_a_list_is_refused_but_for_our_own() {
    let mut hall = Hall::coven(&[]);
    hall.host.rtbl.set_lists(lists_of(&["shakespeare.lit", "example.org"]));
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    hall.enter(WICCA, "secondwitch");
    assert_eq!(all_seen(&hall.hear(WICCA)).len(), 2, "a list cannot lock out users of this server");
}

#[test]
fn an_occupant_that_comes_onto_a_list_says_nothing_more_and_may_leave() {
    let mut hall = Hall::coven(&[]);
    hall.enter(HAG, "hag");
    hall.forget();
    hall.host.rtbl.set_lists(lists_of(&["hag66@shakespeare.lit"]));
    hall.groupchat(HAG, "buy this");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
    assert!(hall.hear(CRONE).is_empty());
    hall.say(HAG, &format!("<presence type='unavailable' to='{ROOM}/hag'/>"));
    assert_eq!(all_seen(&hall.hear(CRONE)), ["hag unavailable none/none"]);
    hall.host.rtbl.set_lists(lists_of(&[]));
    hall.forget();
    hall.enter(HAG, "hag");
    assert_eq!(all_seen(&hall.hear(HAG)).len(), 2);
}
