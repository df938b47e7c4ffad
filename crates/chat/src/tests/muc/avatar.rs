//! XEP-0486: the vCard of a room and its avatar.

use super::*;
use crate::limits;

/// A picture of three bytes; `PICTURE_HASH` is its SHA-1.
const PICTURE: &str = "AQID";
const PICTURE_HASH: &str = "7037807198c22a7d2b0807371d763779a84fdfcf";

fn vcard(inside: &str) -> String {
    format!("<vCard xmlns='vcard-temp'>{inside}</vCard>")
}

fn with_picture(data: &str) -> String {
    vcard(&format!("<FN>The coven</FN><PHOTO><TYPE>image/png</TYPE><BINVAL>{data}</BINVAL></PHOTO>"))
}

/// The hash that the room has in its disco#info.
fn hash_in_disco(hall: &mut Hall) -> Option<String> {
    let info = hall.iq(WICCA, "get", &format!("<query xmlns='{}'/>", ns::DISCO_INFO));
    let query = info.first().unwrap();
    assert!(query.elements().any(|child| child.attr("var") == Some(ns::VCARD)), "{query}");
    let form = query.get("x", ns::DATA).unwrap();
    let field = form.elements().find(|field| field.attr("var") == Some("muc#roominfo_avatarhash"))?;
    assert_eq!(field.attr("type"), Some("text-multi"));
    field.content_of("value", ns::DATA).map(std::borrow::Cow::into_owned)
}

/// The content of `<photo/>` in presence of the room itself.
fn hashes_in_presence(heard: &[Element]) -> Vec<String> {
    let ours = heard.iter().filter(|it| it.name() == "presence" && it.attr("from") == Some(ROOM));
    let photo =
        |it: &Element| it.get("x", ns::VCARD_UPDATE)?.content_of("photo", ns::VCARD_UPDATE).map(Into::into);
    ours.filter_map(photo).collect()
}

#[test]
fn an_owner_sets_the_picture_and_all_learn_of_it() {
    let mut hall = Hall::coven(&[]);
    hall.enter(WICCA, "wicca");
    assert_eq!(hash_in_disco(&mut hall), None);
    let card = hall.iq(WICCA, "get", &vcard(""));
    assert!(card.get("vCard", ns::VCARD).is_some_and(|card| card.elements().next().is_none()), "{card:?}");
    hall.forget();

    assert_eq!(outcome(&hall.iq(CRONE, "set", &with_picture(PICTURE))), "result");
    let heard = hall.hear(WICCA);
    let changed = heard.iter().filter_map(|it| it.get("x", ns::MUC_USER).filter(|_| it.name() == "message"));
    assert_eq!(changed.flat_map(codes).collect::<Vec<_>>(), [104]);
    assert_eq!(hashes_in_presence(&heard), [PICTURE_HASH]);
    assert_eq!(hash_in_disco(&mut hall).as_deref(), Some(PICTURE_HASH));

    let card = hall.iq(HAG, "get", &vcard(""));
    let photo = card.get("vCard", ns::VCARD).unwrap().get("PHOTO", ns::VCARD).unwrap();
    assert_eq!(photo.content_of("BINVAL", ns::VCARD).unwrap(), PICTURE);

    hall.enter(HAG, "hag");
    let heard = hall.hear(HAG);
    assert_eq!(hashes_in_presence(&heard), [PICTURE_HASH], "a later occupant learns of it");
}

#[test]
fn a_picture_is_removed_by_an_empty_vcard() {
    let mut hall = Hall::coven(&[]);
    hall.iq(CRONE, "set", &with_picture(PICTURE));
    hall.enter(WICCA, "wicca");
    hall.forget();
    assert_eq!(outcome(&hall.iq(CRONE, "set", &vcard(""))), "result");
    assert_eq!(hashes_in_presence(&hall.hear(WICCA)), [""]);
    assert_eq!(hash_in_disco(&mut hall), None);
    let card = hall.iq(WICCA, "get", &vcard(""));
    assert!(card.get("vCard", ns::VCARD).is_some_and(|card| card.elements().next().is_none()), "{card:?}");
    hall.enter(HAG, "hag");
    assert_eq!(hashes_in_presence(&hall.hear(HAG)), [""; 0]);
}

#[test]
fn pictures_that_cannot_be_are_refused_and_change_nothing() {
    let mut hall = Hall::coven(&[]);
    hall.iq(CRONE, "set", &with_picture(PICTURE));
    hall.enter(WICCA, "wicca");
    assert_eq!(outcome(&hall.iq(WICCA, "set", &with_picture("BBBB"))), "forbidden");
    assert_eq!(outcome(&hall.iq(HAG, "set", &with_picture("BBBB"))), "forbidden");
    assert_eq!(outcome(&hall.iq(CRONE, "set", &with_picture("not base64"))), "bad-request");
    let large = "A".repeat(limits::ROOM_VCARD);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &with_picture(&large))), "not-acceptable");
    assert_eq!(hash_in_disco(&mut hall).as_deref(), Some(PICTURE_HASH));
}

#[test]
fn a_room_for_members_shows_its_picture_to_them_only() {
    let mut hall = Hall::coven(&[("membersonly", "1")]);
    hall.iq(CRONE, "set", &with_picture(PICTURE));
    assert_eq!(outcome(&hall.iq(HAG, "get", &vcard(""))), "forbidden");
    hall.admin(CRONE, "<item affiliation='member' jid='hag66@shakespeare.lit'/>");
    assert_eq!(outcome(&hall.iq(HAG, "get", &vcard(""))), "result");
}

#[test]
fn a_picture_outlives_the_process() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    assert_eq!(outcome(&hall.iq(CRONE, "set", &with_picture(PICTURE))), "result");
    let mut hall = stored::restart(hall);
    assert_eq!(hash_in_disco(&mut hall).as_deref(), Some(PICTURE_HASH));
    assert_eq!(outcome(&hall.iq(WICCA, "get", &vcard(""))), "result");
}

#[test]
fn a_picture_that_cannot_be_stored_is_not_shown() {
    let mut hall = Hall::coven(&[("persistentroom", "1")]);
    hall.is_broken = true;
    assert_ne!(outcome(&hall.iq(CRONE, "set", &with_picture(PICTURE))), "result");
    hall.is_broken = false;
    assert_eq!(hash_in_disco(&mut hall), None);
}
