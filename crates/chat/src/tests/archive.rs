//! Archives (XEP-0313), their ids (XEP-0359) and the preferences (XEP-0441).

use super::effect::RosterItem;
use super::*;

const MAM: &str = "urn:xmpp:mam:2";

fn world() -> (HostWorld, u64) {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.hear(alice);
    (world, alice)
}

fn arrive(world: &mut HostWorld, from: &str, body: &str) {
    world.now = world.now + Duration::from_secs(1);
    world.arrive(&format!(
        "<message type='chat' from='{from}' to='alice@example.org'><body>{body}</body></message>"
    ));
}

/// The bodies that were found, and the answer.
fn ask(world: &mut HostWorld, client: u64, inner: &str) -> (Vec<String>, String) {
    world.hear(client);
    world
        .say(client, &format!("<iq type='set' id='q'><query xmlns='{MAM}' queryid='f'>{inner}</query></iq>"));
    let mut heard = world.hear(client);
    let fin = heard.pop().unwrap();
    let body = |xml: &String| {
        let (_, rest) = xml.split_once("<body>").unwrap_or_else(|| panic!("{xml}"));
        rest.split_once('<').unwrap().0.to_owned()
    };
    (heard.iter().map(body).collect(), fin)
}

fn form(fields: &[(&str, &str)]) -> String {
    let fields =
        fields.iter().map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>"));
    let fields: String = fields.collect();
    format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MAM}</value></field>{fields}</x>"
    )
}

fn page(inner: &str) -> String {
    format!("<set xmlns='http://jabber.org/protocol/rsm'>{inner}</set>")
}

fn text<'a>(xml: &'a str, name: &str) -> &'a str {
    let (_, rest) = xml.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("no {name} in {xml}"));
    rest.split_once('<').unwrap().0
}

/// Ten messages of Eve's, a second each; their ids.
fn ten(world: &mut HostWorld) -> Vec<String> {
    (0..10).for_each(|number| arrive(world, "eve@x.org/1", &number.to_string()));
    world.store.messages.archive.iter().map(|(_, (id, ..))| id.to_string()).collect()
}

#[test]
fn sent_and_received_messages_are_found_in_the_archive() {
    let (mut world, alice) = world();
    arrive(&mut world, "eve@x.org/1", "hi");
    let got = world.hear(alice).pop().unwrap();
    world.say(alice, "<message type='chat' to='eve@x.org/1'><body>ho</body></message>");
    assert!(!world.sent_abroad()[0].contains("stanza-id"));
    world.say(alice, &format!("<iq type='set' id='q'><query xmlns='{MAM}' queryid='f'/></iq>"));
    let heard = world.hear(alice);
    let id = &world.store.messages.archive[0].1.0;
    assert!(
        got.contains(&format!("<stanza-id xmlns='urn:xmpp:sid:0' by='alice@example.org' id='{id}'/>")),
        "{got}"
    );
    assert!(heard[0].starts_with(&format!("<message from='alice@example.org' to='alice@example.org/desk'><result xmlns='{MAM}' queryid='f' id='{id}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='2027-01-15T08:00:01.000Z'/><message xmlns='jabber:client' type='chat' from='eve@x.org/1'")), "{heard:?}");
    assert!(
        heard[1].contains("<body>ho</body>") && heard[1].contains("from='alice@example.org/desk'"),
        "{heard:?}"
    );
    assert!(heard[2].contains("<fin xmlns='urn:xmpp:mam:2' complete='true'>"), "{heard:?}");
    assert!(world.store.messages.archive.iter().all(|(owner, _)| owner.as_str() == "alice@example.org"));
}

/// The clock of the process before was ahead, or this one's was set back. A client pages by the last id that it has.
#[test]
fn ids_of_a_host_that_starts_sort_behind_those_that_the_archive_has() {
    // An id that is far ahead is no sign of a clock.
    for (hours, is_behind) in [(1, true), (23, true), (48, false)] {
        let mut world = HostWorld::new(&["alice@example.org"]);
        let ahead = world.now + Duration::from_secs(hours * 3_600);
        let last = format!("{:014x}{:08x}", ahead.as_micros(), 7);
        let alice = Bare::parse("alice@example.org").unwrap();
        world.store.users.get_mut(&alice).unwrap().last_archived = Some(last.clone().into());
        world.sign_in("alice@example.org/desk");
        arrive(&mut world, "eve@x.org/1", "hi");
        arrive(&mut world, "eve@x.org/1", "ho");
        let ids: Vec<&str> = world.store.messages.archive.iter().map(|(_, (id, ..))| &**id).collect();
        assert!(ids.len() == 2 && ids.is_sorted(), "{ids:?}");
        assert_eq!(ids[0] > &*last, is_behind, "{hours} hours: {ids:?} {last}");
    }
}

#[test]
fn a_page_is_followed_by_the_next_from_either_end() {
    let (mut world, alice) = world();
    let ids = ten(&mut world);
    assert!(ids.is_sorted());
    let (found, fin) = ask(&mut world, alice, &page("<max>4</max>"));
    assert_eq!(found, ["0", "1", "2", "3"]);
    assert!(!fin.contains("complete") && text(&fin, "count") == "10", "{fin}");
    assert_eq!((text(&fin, "first"), text(&fin, "last")), (&*ids[0], &*ids[3]));
    let (found, fin) = ask(&mut world, alice, &page(&format!("<max>6</max><after>{}</after>", ids[3])));
    assert_eq!(found, ["4", "5", "6", "7", "8", "9"]);
    assert!(fin.contains("complete='true'"), "{fin}");
    let (found, _) = ask(&mut world, alice, &page("<max>2</max><before/>"));
    assert_eq!(found, ["8", "9"]);
    let (found, fin) = ask(&mut world, alice, &page(&format!("<max>2</max><before>{}</before>", ids[8])));
    assert_eq!(found, ["6", "7"]);
    assert_eq!(text(&fin, "first"), ids[6]);
    let flipped = format!("{}<flip-page/>", page("<max>2</max><before/>"));
    let (found, fin) = ask(&mut world, alice, &flipped);
    assert_eq!(found, ["9", "8"]);
    assert_eq!((text(&fin, "first"), text(&fin, "last")), (&*ids[8], &*ids[9]));
    let (found, fin) = ask(&mut world, alice, &page("<max>0</max>"));
    assert!(found.is_empty() && text(&fin, "count") == "10", "{fin}");
}

#[test]
fn a_query_returns_only_matching_messages() {
    let (mut world, alice) = world();
    let ids = ten(&mut world);
    arrive(&mut world, "bob@example.org/x", "bob");
    world.say(alice, "<message type='chat' to='eve@x.org/2'><body>two</body></message>");
    for (fields, expected) in [
        (&[("with", "bob@example.org")][..], &["bob"][..]),
        (&[("with", "eve@x.org/2")], &["two"]),
        (&[("start", "2027-01-15T08:00:09Z"), ("with", "eve@x.org/1")], &["8", "9"]),
        (&[("end", "2027-01-15T08:00:02Z")], &["0", "1"]),
        (&[("after-id", &ids[3]), ("before-id", &ids[6])], &["4", "5"]),
        (&[("ids", &ids[5])], &["5"]),
    ] {
        assert_eq!(ask(&mut world, alice, &form(fields)).0, expected, "{fields:?}");
    }
    // The narrower of two bounds holds.
    for (one, other) in [(2, 6), (6, 2)] {
        for (field, element, expected) in [("after-id", "after", "7"), ("before-id", "before", "1")] {
            let rsm = page(&format!("<max>1</max><{element}>{}</{element}>", ids[other]));
            let both = format!("{}{rsm}", form(&[(field, &ids[one])]));
            assert_eq!(ask(&mut world, alice, &both).0, [expected], "{field} {one}");
        }
    }
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let (mut world, alice) = world();
    ten(&mut world);
    let many: Vec<(&str, &str)> = vec![("ids", "x"); 1];
    for (inner, condition) in [
        (form(&[("start", "yesterday")]), "bad-request"),
        (form(&[("with", "@")]), "jid-malformed"),
        (form(&[("colour", "blue")]), "feature-not-implemented"),
        (form(&[("FORM_TYPE", "urn:x")]), "bad-request"),
        (form(&many), "item-not-found"),
        (form(&[("after-id", "x")]), "item-not-found"),
        (page("<max>many</max>"), "bad-request"),
        (page("<index>3</index>"), "feature-not-implemented"),
        (page("<after>x</after>"), "item-not-found"),
        (
            format!(
                "<x xmlns='jabber:x:data'><field var='ids'>{}</field></x>",
                "<value>x</value>".repeat(crate::limits::ARCHIVE_IDS + 1)
            ),
            "policy-violation",
        ),
    ] {
        let (found, answer) = ask(&mut world, alice, &inner);
        assert!(found.is_empty() && answer.contains(condition), "{inner}: {answer}");
    }
    world.store.is_broken = true;
    assert!(ask(&mut world, alice, "").1.contains("resource-constraint"));
    world.say(alice, &format!("<iq type='get' id='q'><metadata xmlns='{MAM}'/></iq>"));
    assert!(world.hear(alice)[0].contains("resource-constraint"));
}

const FULL_TEXT: &str = "{urn:xmpp:fulltext:0}fulltext";

/// XEP-0431 §2.1 and §2.2.
#[test]
fn messages_are_found_by_their_words() {
    let (mut world, alice) = world();
    world.say(alice, "<iq type='get' id='d' to='alice@example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>");
    assert!(world.hear(alice)[0].contains("<feature var='urn:xmpp:fulltext:0'/>"));
    for body in ["The river", "a tree", "River and tree", "stone"] {
        arrive(&mut world, "eve@x.org/1", body);
    }
    arrive(&mut world, "bob@example.org/x", "river");
    for (fields, expected) in [
        (&[(FULL_TEXT, "river")][..], &["The river", "River and tree", "river"][..]),
        (&[(FULL_TEXT, "tree RIVER")], &["River and tree"]),
        (&[(FULL_TEXT, "river"), ("with", "bob@example.org")], &["river"]),
        (&[(FULL_TEXT, "sand")], &[]),
        // "if non-empty".
        (&[(FULL_TEXT, " "), ("with", "bob@example.org")], &["river"]),
    ] {
        assert_eq!(ask(&mut world, alice, &form(fields)).0, expected, "{fields:?}");
    }
    let last = format!("{}{}", form(&[(FULL_TEXT, "river")]), page("<max>1</max><before/>"));
    let (found, fin) = ask(&mut world, alice, &last);
    assert_eq!(found, ["river"]);
    assert!(!fin.contains("count") && !fin.contains("complete"), "{fin}");
}

/// A search that has ended before the archive says where it goes on, though it has found nothing.
#[test]
fn a_search_that_finds_nothing_yet_goes_on() {
    let (mut world, alice) = world();
    let ids = ten(&mut world);
    world.store.messages.searched = Some(4);
    let search = |place: &str| format!("{}{}", form(&[(FULL_TEXT, "9")]), page(place));
    let (found, fin) = ask(&mut world, alice, &search(""));
    assert!(found.is_empty() && !fin.contains("complete"), "{fin}");
    assert_eq!((text(&fin, "first"), text(&fin, "last")), (&*ids[3], &*ids[3]));
    let (_, fin) = ask(&mut world, alice, &search(&format!("<after>{}</after>", text(&fin, "last"))));
    assert_eq!(text(&fin, "last"), ids[7]);
    let (found, fin) = ask(&mut world, alice, &search(&format!("<after>{}</after>", text(&fin, "last"))));
    assert_eq!(found, ["9"]);
    assert!(fin.contains("complete='true'"), "{fin}");
    let (found, fin) = ask(&mut world, alice, &search("<before/>"));
    assert_eq!((&*found, text(&fin, "first"), text(&fin, "last")), (&["9".into()][..], &*ids[6], &*ids[9]));
}

#[test]
fn too_many_words_are_refused() {
    let (mut world, alice) = world();
    for words in ["x ".repeat(crate::limits::SEARCH_WORDS + 1), "x".repeat(crate::limits::SEARCH_BYTES + 1)] {
        let (_, answer) = ask(&mut world, alice, &form(&[(FULL_TEXT, &words)]));
        assert!(answer.contains("policy-violation"), "{answer}");
    }
}

const INNERS: [&str; 3] = ["query", "metadata", "prefs"];

#[test]
fn the_archive_of_another_account_is_forbidden() {
    let (mut world, _) = world();
    ten(&mut world);
    let bob = world.sign_in("bob@example.org/x");
    // XEP-0313 §8.1: `forbidden`. An address without an account answers the same.
    for (account, inner) in
        ["alice", "ghost"].into_iter().flat_map(|account| INNERS.map(|inner| (account, inner)))
    {
        for kind in ["get", "set"] {
            let query = format!("<{inner} xmlns='{MAM}'/>");
            world.say(bob, &format!("<iq type='{kind}' id='q' to='{account}@example.org'>{query}</iq>"));
            let heard = world.hear(bob);
            assert!(heard.len() == 1 && heard[0].contains("forbidden"), "{account}: {heard:?}");
        }
    }
    let (found, _) = ask(&mut world, bob, "");
    assert!(found.is_empty());
}

#[test]
fn the_form_and_the_ends_are_told() {
    let (mut world, alice) = world();
    let ask = |world: &mut HostWorld, inner: &str| {
        world.say(alice, &format!("<iq type='get' id='q'><{inner} xmlns='{MAM}'/></iq>"));
        world.hear(alice).pop().unwrap()
    };
    assert!(ask(&mut world, "metadata").contains("<metadata xmlns='urn:xmpp:mam:2'/>"));
    let ids = ten(&mut world);
    world.hear(alice);
    let told = ask(&mut world, "metadata");
    assert!(
        told.contains(&format!("<start id='{}' timestamp='2027-01-15T08:00:01.000Z'/>", ids[0])),
        "{told}"
    );
    assert!(told.contains(&format!("<end id='{}' timestamp='2027-01-15T08:00:10.000Z'/>", ids[9])), "{told}");
    let form = ask(&mut world, "query");
    for var in ["with", "start", "end", "before-id", "after-id", "ids", FULL_TEXT] {
        assert!(form.contains(&format!("<field var='{var}'")), "{form}");
    }
}

#[test]
fn messages_without_content_or_with_no_store_are_not_archived() {
    let (mut world, alice) = world();
    for (message, is_archived) in [
        ("type='chat'><body>hi</body>", true),
        ("><body>hi</body>", true),
        ("><retract xmlns='urn:xmpp:message-retract:1' id='1'/>", true),
        ("><x xmlns='urn:x'/><store xmlns='urn:xmpp:hints'/>", true),
        ("type='chat'><composing xmlns='http://jabber.org/protocol/chatstates'/>", false),
        ("type='headline'><body>hi</body>", false),
        ("type='groupchat'><body>hi</body>", false),
        ("type='error'><body>hi</body>", false),
        ("><body>hi</body><no-store xmlns='urn:xmpp:hints'/>", false),
        ("><body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/>", false),
    ] {
        for way in ["got", "sent"] {
            world.store.messages.archive.clear();
            if way == "got" {
                world.arrive(&format!(
                    "<message from='eve@x.org/1' to='alice@example.org/desk' {message}</message>"
                ));
            } else {
                world.say(alice, &format!("<message to='eve@x.org/1' {message}</message>"));
            }
            assert_eq!(world.store.messages.archive.len(), usize::from(is_archived), "{way}: {message}");
        }
    }
    // To oneself: once.
    world.store.messages.archive.clear();
    world.say(alice, "<message to='alice@example.org'><body>hi</body></message>");
    assert_eq!(world.store.messages.archive.len(), 1);
    let guest = world.sign_in_as("guest@example.org/x", true);
    world.say(guest, "<message to='eve@x.org/1'><body>hi</body></message>");
    world.arrive("<message from='eve@x.org/1' to='guest@example.org/x'><body>hi</body></message>");
    assert_eq!(world.store.messages.archive.len(), 1);
}

#[test]
fn forged_ids_are_removed_and_others_stay() {
    let (mut world, alice) = world();
    world.arrive(
        "<message from='eve@x.org/1' to='alice@example.org/desk' type='headline'><body>hi</body>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='Alice@Example.org' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='room@x.org' id='of-room'/>\
         <origin-id xmlns='urn:xmpp:sid:0' id='of-client'/></message>",
    );
    let heard = world.hear(alice).pop().unwrap();
    assert!(!heard.contains("forged") && heard.contains("of-room") && heard.contains("of-client"), "{heard}");
}

#[test]
fn other_sessions_learn_the_archive_id_of_a_sent_message() {
    let (mut world, alice) = world();
    let phone =
        world.sign_in_with("alice@example.org/phone", false, vec![Element::new("enable", ns::CARBONS)]);
    world.say(alice, "<message to='eve@x.org/1' type='chat'><body>hi</body></message>");
    let id = world.store.messages.archive[0].1.0.clone();
    assert!(world.hear(phone)[0].contains(&format!("by='alice@example.org' id='{id}'")));
}

#[test]
fn each_user_sets_archive_preferences_and_they_persist() {
    let (mut world, alice) = world();
    let item = RosterItem { is_listed: true, ..Default::default() };
    let store = world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap();
    store.roster.push((Bare::parse("friend@x.org").unwrap(), item));
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    let prefs = |world: &mut HostWorld, default: &str| {
        let alice = world.sign_in("alice@example.org/desk");
        world.say(alice, &format!("<iq type='set' id='p'><prefs xmlns='{MAM}' default='{default}'><always><jid>ann@x.org</jid></always><never><jid>eve@x.org/1</jid><jid>mal@x.org</jid></never></prefs></iq>"));
        let answer = world.hear(alice).pop().unwrap();
        assert!(answer.contains(&format!("default='{default}'")), "{answer}");
        // They are read again.
        world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
        world.host.forget_accounts(Some(&Bare::parse("alice@example.org").unwrap()));
        let alice = world.sign_in("alice@example.org/desk");
        world.say(alice, &format!("<iq type='get' id='p'><prefs xmlns='{MAM}'/></iq>"));
        let told = world.hear(alice).pop().unwrap();
        assert!(
            told.contains(&format!("default='{default}'")) && told.contains("<never><jid>eve@x.org/1</jid>"),
            "{told}"
        );
        alice
    };
    for (default, archived) in [
        ("always", &["ann@x.org/1", "eve@x.org/2", "friend@x.org/1"][..]),
        ("never", &["ann@x.org/1"]),
        ("roster", &["ann@x.org/1", "friend@x.org/1"]),
    ] {
        let alice = prefs(&mut world, default);
        world.store.messages.archive.clear();
        for from in ["ann@x.org/1", "eve@x.org/1", "eve@x.org/2", "friend@x.org/1", "mal@x.org/1"] {
            arrive(&mut world, from, "hi");
        }
        let with: Vec<&str> =
            world.store.messages.archive.iter().map(|(_, (_, with, ..))| with.as_str()).collect();
        assert_eq!(with, archived, "{default}");
        world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    }
}

#[test]
fn a_user_without_preferences_has_those_of_the_node() {
    use super::super::archive::ArchiveDefault;
    for (archive, kept) in
        [(ArchiveDefault::Always, 2), (ArchiveDefault::Roster, 1), (ArchiveDefault::Never, 0)]
    {
        let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
        let item = RosterItem { is_listed: true, ..Default::default() };
        let store = world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap();
        store.roster.push((Bare::parse("eve@x.org").unwrap(), item));
        world.host.reload(Arc::new(HostSettings { archive, ..settings() }));
        let alice = world.sign_in("alice@example.org/desk");
        arrive(&mut world, "eve@x.org/1", "from a contact");
        arrive(&mut world, "mallory@x.org/1", "from a stranger");
        world.hear(alice);
        world.say(alice, &format!("<iq type='get' id='p'><prefs xmlns='{MAM}'/></iq>"));
        let answer = world.hear(alice).join("");
        assert!(answer.contains(&format!("default='{}'", archive.name())), "{answer}");
        assert_eq!(ask(&mut world, alice, "").0.len(), kept, "{archive:?}");
    }
}

#[test]
fn wrong_preferences_are_refused() {
    let (mut world, alice) = world();
    let many = "<jid>a@x.org</jid>".repeat(crate::limits::ARCHIVE_PREFERENCES + 1);
    for (prefs, condition) in [
        (format!("<prefs xmlns='{MAM}' default='perhaps'/>"), "bad-request"),
        (format!("<prefs xmlns='{MAM}'/>"), "bad-request"),
        (
            format!("<prefs xmlns='{MAM}' default='never'><always><jid>@</jid></always></prefs>"),
            "jid-malformed",
        ),
        (format!("<prefs xmlns='{MAM}' default='never'><never>{many}</never></prefs>"), "policy-violation"),
    ] {
        world.say(alice, &format!("<iq type='set' id='p'>{prefs}</iq>"));
        assert!(world.hear(alice)[0].contains(condition), "{prefs}");
    }
    world.store.is_broken = true;
    world.say(alice, &format!("<iq type='set' id='p'><prefs xmlns='{MAM}' default='never'/></iq>"));
    assert!(world.hear(alice)[0].contains("resource-constraint"));
    world.store.is_broken = false;
    arrive(&mut world, "eve@x.org/1", "hi");
    assert_eq!(world.store.messages.archive.len(), 1);
}

#[test]
fn an_archived_message_is_replaced_in_its_place() {
    let (mut world, alice) = world();
    let ids = ten(&mut world);
    let owner = Bare::parse("alice@example.org").unwrap();
    let stone = |_: &Element| {
        Some(Element::new("message", ns::CLIENT).child(Element::new("body", ns::CLIENT).text("gone")))
    };
    let replace = |world: &mut HostWorld, id: &str| {
        let (told, heard) = std::sync::mpsc::sync_channel(1);
        world.tell(|host, _, out| {
            crate::archive::replace(&mut host.store, &owner, id, out, stone, move |_, _, done, _| {
                told.send(done).unwrap();
            });
        });
        heard.try_recv().unwrap()
    };
    assert_eq!(replace(&mut world, &ids[3]), Ok(()));
    assert_eq!(replace(&mut world, "x"), Err(StoreFailure::NotFound));
    let (found, _) = ask(&mut world, alice, &form(&[("with", "eve@x.org")]));
    assert_eq!(found[2..5], ["2", "gone", "4"]);
    world.store.is_broken = true;
    assert_eq!(replace(&mut world, &ids[3]), Err(StoreFailure::Unavailable));
}

#[test]
fn a_page_is_no_larger_than_can_be_told_at_once() {
    let (mut world, alice) = world();
    let long = "x".repeat(200 << 10);
    (0..8).for_each(|_| arrive(&mut world, "eve@x.org/1", &long));
    let ids: Vec<Box<str>> = world.store.messages.archive.iter().map(|(_, (id, ..))| id.clone()).collect();
    let (found, fin) = ask(&mut world, alice, "");
    assert!(found.len() == 5 && !fin.contains("complete") && text(&fin, "last") == &*ids[4], "{fin}");
    let (found, fin) = ask(&mut world, alice, &page(&format!("<after>{}</after>", ids[4])));
    assert!(found.len() == 3 && fin.contains("complete"), "{fin}");
    let (found, fin) = ask(&mut world, alice, &page("<before/>"));
    assert!(found.len() == 5 && text(&fin, "first") == &*ids[3] && text(&fin, "last") == &*ids[7], "{fin}");
    // Nothing at all is a page too.
    assert!(ask(&mut world, alice, &form(&[("with", "nobody@x.org")])).1.contains("complete"));
}

/// XEP-0313 §3: an archive has what was delivered. A client that has a message and asks at once finds it.
#[test]
fn a_query_finds_the_messages_that_came_before_it() {
    let (mut world, alice) = world();
    world.is_slow = true;
    arrive(&mut world, "eve@x.org/1", "before");
    assert!(world.hear(alice).concat().contains("before"), "it is delivered at once");
    let question = format!("<iq type='set' id='q'><query xmlns='{MAM}'/></iq>");
    world.say(alice, &question);
    // It waits for nothing that comes later, nor for the archives of others.
    arrive(&mut world, "eve@x.org/1", "after");
    world.arrive("<message type='chat' from='eve@x.org/1' to='bob@example.org'><body>x</body></message>");
    world.hear(alice);
    world.write();
    let heard = world.hear(alice);
    assert!(heard.iter().any(|answer| answer.contains("<body>before</body>")), "{heard:?}");
    assert!(heard.iter().any(|answer| answer.contains("<fin ")), "{heard:?}");
    world.say(alice, "<iq type='get' id='m'><metadata xmlns='urn:xmpp:mam:2'/></iq>");
    assert!(world.hear(alice).is_empty(), "the last message is on its way");
    while !world.unwritten.is_empty() {
        world.write();
    }
    let newest = world.store.messages.archive.iter().filter(|(of, _)| of.as_str() == "alice@example.org");
    let newest = newest.max_by_key(|(_, (id, ..))| id.clone()).unwrap().1.0.clone();
    let metadata = world.hear(alice).concat();
    assert!(metadata.contains(&format!("<end id='{newest}'")), "{metadata}");
    world.say(alice, &question);
    assert!(world.hear(alice).concat().contains("<body>after</body>"));
}

/// A write that fails holds up no read.
#[test]
fn a_query_after_a_write_that_failed_is_answered() {
    let (mut world, alice) = world();
    world.is_slow = true;
    arrive(&mut world, "eve@x.org/1", "lost");
    world.hear(alice);
    world.say(alice, &format!("<iq type='set' id='q'><query xmlns='{MAM}'/></iq>"));
    let (ticket, _) = world.unwritten.pop_front().unwrap();
    assert!(world.hear(alice).is_empty());
    world.tell(|host, now, out| {
        host.handle_store_reply(now, ticket, Err(StoreFailure::Unavailable), out);
    });
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("<fin "), "{heard:?}");
}
