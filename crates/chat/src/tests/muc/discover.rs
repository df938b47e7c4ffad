//! XEP-0045 §6, §7.10, §7.12, §17.4; XEP-0410.

use super::*;

const HOUSE: &str = "conference.example.org";

fn ask(hall: &mut Hall, to: &str, payload: &str) -> Element {
    hall.forget();
    hall.say(HAG, &format!("<iq id='q' type='get' to='{to}'>{payload}</iq>"));
    hall.only(HAG)
}

fn items(answer: &Element) -> Vec<String> {
    let query = answer.first().unwrap();
    let items = query.elements().filter(|child| child.name() == "item");
    items.map(|item| item.attr("jid").unwrap().to_owned()).collect()
}

const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
const ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";

#[test]
fn the_service_shows_its_identity_and_lists_public_rooms() {
    let mut hall = Hall::coven(&[("roomname", "A Dark Cave")]);
    let info = ask(&mut hall, HOUSE, INFO).to_string();
    assert!(info.contains("conference") && info.contains(ns::MUC) && info.contains(ns::RSM), "{info}");
    let answer = ask(&mut hall, HOUSE, ITEMS);
    assert_eq!(items(&answer), [ROOM]);
    assert_eq!(answer.first().unwrap().first().unwrap().attr("name"), Some("A Dark Cave"));
    hall.configure(&[("publicroom", "0")]);
    assert!(items(&ask(&mut hall, HOUSE, ITEMS)).is_empty());
    assert_eq!(outcome(&ask(&mut hall, HOUSE, "<ping xmlns='urn:xmpp:ping'/>")), "result");
    assert_eq!(outcome(&ask(&mut hall, HOUSE, "<x xmlns='urn:x'/>")), "service-unavailable");
    assert_eq!(outcome(&ask(&mut hall, HOUSE, &INFO.replace("/>", " node='x'/>"))), "item-not-found");
    hall.is_broken = true;
    // A list that was read a moment ago answers for a moment.
    assert_eq!(outcome(&ask(&mut hall, HOUSE, ITEMS)), "result");
    hall.now = hall.now + crate::limits::DIRECTORY_FOR;
    assert_eq!(outcome(&ask(&mut hall, HOUSE, ITEMS)), "resource-constraint");
}

#[test]
fn a_long_list_of_rooms_is_turned_page_by_page() {
    let mut hall = Hall::new();
    for number in 0..7 {
        let room = format!("r{number}@{HOUSE}");
        hall.say(CRONE, &format!("<presence to='{room}/x'><x xmlns='{}'/></presence>", ns::MUC));
        let form = "<x xmlns='jabber:x:data' type='submit'/>";
        hall.say(
            CRONE,
            &format!(
                "<iq id='c' type='set' to='{room}'><query xmlns='{}'>{form}</query></iq>",
                ns::MUC_OWNER
            ),
        );
    }
    let page = |hall: &mut Hall, set: &str| {
        let rsm = format!("<set xmlns='{}'>{set}</set>", ns::RSM);
        ask(hall, HOUSE, &ITEMS.replace("/>", &format!(">{rsm}</query>")))
    };
    let names =
        |numbers: &[u8]| numbers.iter().map(|number| format!("r{number}@{HOUSE}")).collect::<Vec<_>>();
    for (set, expected) in [
        ("<max>3</max>".to_owned(), &[0, 1, 2][..]),
        (format!("<max>3</max><after>r2@{HOUSE}</after>"), &[3, 4, 5]),
        (format!("<max>3</max><after>r5@{HOUSE}</after>"), &[6]),
        ("<max>2</max><before/>".to_owned(), &[5, 6]),
        (format!("<max>2</max><before>r5@{HOUSE}</before>"), &[3, 4]),
        ("<max>0</max>".to_owned(), &[]),
    ] {
        let answer = page(&mut hall, &set);
        assert_eq!(items(&answer), names(expected), "{set}");
        let set = answer.first().unwrap().get("set", ns::RSM).unwrap();
        assert_eq!(set.content_of("count", ns::RSM).unwrap(), "7");
        let last = set.content_of("last", ns::RSM).map(std::borrow::Cow::into_owned);
        assert_eq!(last, names(expected).pop());
    }
    assert_eq!(outcome(&page(&mut hall, "<after>ghost@x</after>")), "item-not-found");
    assert_eq!(outcome(&page(&mut hall, "<max>many</max>")), "bad-request");
}

#[test]
fn a_room_says_how_it_is_configured() {
    let mut hall = Hall::coven(&[("roomdesc", "The place"), ("membersonly", "1"), ("persistentroom", "1")]);
    let info = ask(&mut hall, ROOM, INFO).to_string();
    for var in [
        "muc#register'",
        "muc#roomconfig'",
        "muc#roominfo'",
        "muc#request'",
        "muc_membersonly",
        "muc_persistent",
        "muc_public",
        "muc_unsecured",
        "muc_semianonymous",
        "The place",
        ns::MAM,
        ns::MAM_EXTENDED,
        // XEP-0431 §2.1.
        ns::FULL_TEXT,
    ] {
        assert!(info.contains(var), "{var}: {info}");
    }
    hall.configure(&[
        ("membersonly", "0"),
        ("persistentroom", "0"),
        ("whois", "anyone"),
        ("roomsecret", "x"),
    ]);
    let info = ask(&mut hall, ROOM, INFO).to_string();
    for var in ["muc_open", "muc_temporary", "muc_passwordprotected", "muc_nonanonymous"] {
        assert!(info.contains(var), "{var}: {info}");
    }
    assert!(!info.contains(ns::MAM));
    assert_eq!(outcome(&ask(&mut hall, &format!("ghost@{HOUSE}"), INFO)), "item-not-found");
}

#[test]
fn only_occupants_learn_the_occupants_of_a_hidden_room() {
    let mut hall = Hall::coven(&[]);
    assert_eq!(items(&ask(&mut hall, ROOM, ITEMS)), [format!("{ROOM}/firstwitch")]);
    hall.configure(&[("publicroom", "0")]);
    assert!(items(&ask(&mut hall, ROOM, ITEMS)).is_empty());
    hall.enter(HAG, "hag");
    assert_eq!(items(&ask(&mut hall, ROOM, ITEMS)).len(), 2);
}

#[test]
fn a_nickname_is_reserved_shown_and_given_up() {
    let mut hall = Hall::coven(&[]);
    let own = "<query xmlns='http://jabber.org/protocol/disco#info' node='x-roomuser-item'/>";
    assert!(hall.iq(HAG, "get", own).first().unwrap().first().is_none());
    let register = |inside: &str| format!("<query xmlns='jabber:iq:register'>{inside}</query>");
    let form = |nick: &str| {
        register(&format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='muc#register_roomnick'><value>{nick}</value></field></x>"
        ))
    };
    assert!(hall.iq(HAG, "get", &register("")).to_string().contains("muc#register_roomnick"));
    assert_eq!(outcome(&hall.iq(HAG, "set", &form("firstwitch"))), "conflict");
    assert_eq!(outcome(&hall.iq(HAG, "set", &register(""))), "bad-request");
    assert_eq!(outcome(&hall.iq(HAG, "set", &form("thirdwitch"))), "result");
    let registered = hall.iq(HAG, "get", &register("")).to_string();
    assert!(registered.contains("registered") && registered.contains("thirdwitch"), "{registered}");
    let item = hall.iq(HAG, "get", own);
    assert_eq!(item.first().unwrap().first().unwrap().attr("name"), Some("thirdwitch"));
    assert_eq!(outcome(&hall.iq(WICCA, "set", &form("thirdwitch"))), "conflict");
    hall.iq(HAG, "set", &register("<remove/>"));
    assert_eq!(outcome(&hall.iq(WICCA, "set", &form("thirdwitch"))), "result");
    hall.configure(&[("membersonly", "1")]);
    assert_eq!(outcome(&hall.iq(HAG, "set", &form("hag"))), "not-allowed");
    hall.admin(CRONE, "<item affiliation='outcast' jid='hag66@shakespeare.lit'/>");
    assert_eq!(outcome(&hall.iq(HAG, "set", &form("hag"))), "forbidden");
}

#[test]
fn registration_is_no_way_to_a_voice() {
    let mut hall = Hall::coven(&[("moderatedroom", "1")]);
    hall.enter(HAG, "hag");
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#register_roomnick'><value>hag</value></field></x>";
    hall.iq(HAG, "set", &format!("<query xmlns='jabber:iq:register'>{form}</query>"));
    hall.groupchat(HAG, "cackle");
    assert_eq!(outcome(&hall.only(HAG)), "forbidden");
}

#[test]
fn a_ping_tells_an_occupant_that_it_is_in_the_room() {
    let mut hall = Hall::coven(&[]);
    let ping = "<ping xmlns='urn:xmpp:ping'/>";
    let own = format!("{ROOM}/hag");
    assert_eq!(outcome(&ask(&mut hall, &own, ping)), "not-acceptable");
    hall.enter(HAG, "hag");
    assert_eq!(outcome(&ask(&mut hall, &own, ping)), "result");
    assert_eq!(outcome(&ask(&mut hall, &format!("{ROOM}/ghost"), ping)), "item-not-found");
    assert_eq!(outcome(&ask(&mut hall, ROOM, ping)), "result");
    assert_eq!(outcome(&ask(&mut hall, ROOM, "<q xmlns='urn:x'/>")), "service-unavailable");
}

#[test]
fn questions_between_occupants_go_through_the_room() {
    let mut hall = Hall::coven(&[]);
    hall.say(HAG, &format!("<iq id='q' type='get' to='{ROOM}/firstwitch'>{INFO}</iq>"));
    assert_eq!(outcome(&hall.only(HAG)), "bad-request");
    let phone = "hag66@shakespeare.lit/phone";
    hall.enter(HAG, "hag");
    hall.enter(phone, "hag");
    hall.forget();
    for (payload, asked) in
        [("<query xmlns='jabber:iq:version'/>", CRONE), ("<vCard xmlns='vcard-temp'/>", "crone1@example.org")]
    {
        hall.say(HAG, &format!("<iq id='q' type='get' to='{ROOM}/firstwitch'>{payload}</iq>"));
        let question = hall.only(asked);
        assert_eq!(question.attr("from"), Some(&*format!("{ROOM}/hag")));
        let id = question.attr("id").unwrap().to_owned();
        // An answer from another session is ignored.
        hall.say(WICCA, &format!("<iq id='{id}' type='result' to='{ROOM}/hag'/>"));
        assert!(hall.mail.is_empty(), "{:?}", hall.mail);
        hall.say(asked, &format!("<iq id='{id}' type='result' to='{ROOM}/hag'/>"));
        let answer = hall.only(HAG);
        assert_eq!(
            (answer.attr("id"), answer.attr("from")),
            (Some("q"), Some(&*format!("{ROOM}/firstwitch")))
        );
        assert!(hall.mail.is_empty(), "the other client did not ask");
    }
    // The client that asked hears it, and from the nickname that was asked, however many there are.
    let other = "crone1@example.org/cellphone";
    hall.enter(other, "cronephone");
    hall.forget();
    for (asker, nick) in
        [(HAG, "firstwitch"), (phone, "firstwitch"), (HAG, "cronephone"), (phone, "cronephone")]
    {
        hall.say(
            asker,
            &format!("<iq id='q' type='get' to='{ROOM}/{nick}'><vCard xmlns='vcard-temp'/></iq>"),
        );
        let question = hall.only("crone1@example.org");
        let id = question.attr("id").unwrap();
        hall.say("crone1@example.org", &format!("<iq id='{id}' type='result' to='{ROOM}/hag'/>"));
        assert_eq!(hall.only(asker).attr("from"), Some(&*format!("{ROOM}/{nick}")));
        assert!(hall.mail.is_empty());
    }
    for id in ["", "x", &"ü".repeat(13)] {
        hall.say(CRONE, &format!("<iq id='{id}' type='result' to='{ROOM}/hag'/>"));
    }
    assert!(hall.mail.is_empty());
}

fn search(fields: &str, set: &str) -> String {
    let kind = "<field var='FORM_TYPE'><value>urn:xmpp:channel-search:0:search-params</value></field>";
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{kind}{fields}</x>");
    format!("<search xmlns='urn:xmpp:channel-search:0:search'>{set}{form}</search>")
}

fn field(var: &str, value: &str) -> String {
    format!("<field var='{var}'><value>{value}</value></field>")
}

/// `coven` with two occupants, and `garden`, which is empty.
fn two_rooms() -> Hall {
    let mut hall = Hall::coven(&[("roomname", "A Dark Cave"), ("roomdesc", "Brewing"), ("lang", "en")]);
    hall.enter(WICCA, "wicca");
    let config = [
        ("roomname", "Herbs"),
        ("roomdesc", "of the cave's garden"),
        ("persistentroom", "1"),
        ("membersonly", "1"),
        ("whois", "anyone"),
    ];
    let fields: String =
        config.iter().map(|(var, value)| field(&format!("muc#roomconfig_{var}"), value)).collect();
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
    let store = xmpp::xml::parse(form.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap();
    let store = Element::new("room", ns::MUC_OWNER).child(store);
    hall.rooms.insert(Bare::parse(&format!("garden@{HOUSE}")).unwrap(), store);
    hall
}

fn addresses(answer: &Element) -> Vec<String> {
    let found = answer.get("result", ns::CHANNEL_SEARCH).unwrap_or_else(|| panic!("{answer}"));
    let items = found.elements().filter(|child| child.name() == "item");
    items.map(|item| item.attr("address").unwrap().split('@').next().unwrap().to_owned()).collect()
}

#[test]
fn rooms_are_found_by_words() {
    let mut hall = two_rooms();
    let info = ask(&mut hall, HOUSE, INFO).to_string();
    assert!(info.contains("urn:xmpp:channel-search:0:search"), "{info}");
    let form = ask(&mut hall, HOUSE, "<search xmlns='urn:xmpp:channel-search:0:search'/>").to_string();
    for var in ["q", "all", "sinname", "sindescription", "sinaddress", "types", "key", "min_users"] {
        assert!(form.contains(&format!("var='{var}'")), "{var}: {form}");
    }
    let by_address = field("key", "{urn:xmpp:channel-search:0:order}address");
    for (fields, expected) in [
        (field("q", "CAVE"), &["coven", "garden"][..]),
        (field("q", "cave garden"), &["garden"]),
        (field("q", "cave") + &field("sindescription", "0"), &["coven"]),
        (field("q", "coven") + &field("sinaddress", "false"), &[]),
        (field("q", "nothing at all"), &[]),
        (field("all", "true"), &["coven", "garden"]),
        (field("all", "1") + &field("min_users", "1"), &["coven"]),
        (field("all", "1") + &by_address, &["coven", "garden"]),
        (field("all", "1") + &field("types", "xep-0369"), &[]),
        (field("q", "herbs") + &field("{urn:x}more", "1"), &["garden"]),
    ] {
        let answer = ask(&mut hall, HOUSE, &search(&fields, ""));
        assert_eq!(addresses(&answer), expected, "{fields}");
    }
    let told = ask(&mut hall, HOUSE, &search(&field("q", "brewing"), "")).to_string();
    for part in [
        "<name>A Dark Cave</name>",
        "<nusers>2</nusers>",
        "<language>en</language>",
        "<is-open>true</is-open>",
        "<anonymity-mode>muc_semianonymous</anonymity-mode>",
        "<service-type>xep-0045</service-type>",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = ask(&mut hall, HOUSE, &search(&field("q", "herbs"), "")).to_string();
    assert!(told.contains("<is-open>false</is-open>") && told.contains("anonymity}none"), "{told}");
    // Page by page.
    let set = |inside: &str| format!("<set xmlns='{}'>{inside}</set>", ns::RSM);
    let all = field("all", "1");
    let first = ask(&mut hall, HOUSE, &search(&all, &set("<max>1</max>")));
    assert!(addresses(&first) == ["coven"] && first.to_string().contains("<count>2</count>"), "{first}");
    let next = set(&format!("<max>1</max><after>{ROOM}</after>"));
    assert_eq!(addresses(&ask(&mut hall, HOUSE, &search(&all, &next))), ["garden"]);
}

#[test]
fn a_search_that_makes_no_sense_is_told_why() {
    let mut hall = two_rooms();
    for (fields, condition, detail) in [
        (String::new(), "bad-request", "no-search-conditions"),
        (field("q", "a b"), "bad-request", "invalid-search-terms"),
        (field("q", "cave") + &field("all", "1"), "bad-request", "conflicting-fields"),
        (field("q", "cave") + &field("key", "color"), "feature-not-implemented", "invalid-sort-key"),
        (field("q", "cave") + &field("sinname", "maybe"), "bad-request", ""),
        (field("q", "cave") + &field("min_users", "few"), "bad-request", ""),
        (field("q", "cave") + &field("FORM_TYPE", "x"), "", ""),
    ] {
        let answer = ask(&mut hall, HOUSE, &search(&fields, ""));
        let expected = if condition.is_empty() { "result" } else { condition };
        assert_eq!(outcome(&answer), expected, "{fields}");
        assert!(answer.to_string().contains(detail), "{detail}: {answer}");
    }
    let unknown = format!("<set xmlns='{}'><after>x@y</after></set>", ns::RSM);
    assert_eq!(outcome(&ask(&mut hall, HOUSE, &search(&field("all", "1"), &unknown))), "item-not-found");
    let wrong = search("", "").replace("search-params", "other");
    assert_eq!(outcome(&ask(&mut hall, HOUSE, &wrong)), "bad-request");
    hall.is_broken = true;
    hall.now = hall.now + crate::limits::DIRECTORY_FOR;
    assert_eq!(outcome(&ask(&mut hall, HOUSE, &search(&field("all", "1"), ""))), "resource-constraint");
}
