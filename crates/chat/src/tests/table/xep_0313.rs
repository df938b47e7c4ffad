//! XEP-0313: archives of accounts. Those of rooms are in `muc/table` and `muc/keep.rs`.

use super::exchange::{Row, check, row, test};
use super::*;

/// From Carol, who is an account of another server. Each comes a second after the one before.
fn words(resource: &str, body: &str) -> String {
    format!(
        "<message type='chat' from='carol@x.org/{resource}' to='alice@example.org'>\
         <body>{body}</body></message>"
    )
}

/// Five messages, `#1` to `#5`: two of Carol's, one to her, one of Bob's and one of Carol's from another
/// resource. The first comes in the third second.
fn five(row: Row) -> Row {
    row.after("x", words("1", "a"))
        .after("x", words("1", "b"))
        .after("desk", "<message type='chat' to='carol@x.org/1'><body>c</body></message>")
        .after("bob", "<message type='chat' to='alice@example.org'><body>d</body></message>")
        .after("x", words("2", "e"))
}

fn query(inside: &str) -> String {
    format!("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2' queryid='f'>{inside}</query></iq>")
}

fn form(fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    let fields: String = fields.iter().map(field).collect();
    let form_type = "<field var='FORM_TYPE' type='hidden'><value>urn:xmpp:mam:2</value></field>";
    format!("<x xmlns='jabber:x:data' type='submit'>{form_type}{fields}</x>")
}

fn page(inside: &str) -> String {
    format!("<set xmlns='http://jabber.org/protocol/rsm'>{inside}</set>")
}

fn get(payload: &str) -> String {
    format!("<iq type='get' id='q'><{payload} xmlns='urn:xmpp:mam:2'/></iq>")
}

#[test]
fn archiving() {
    check(&[
        row("3.5", "a message that is archived has its id when it is delivered")
            .when("x", words("1", "a"))
            .comes(&["desk: chat carol@x.org/1 > alice [body a, #1 at alice]"]),
        row("3.5", "one that is sent has none: its receiver has no right to the archive")
            .when("desk", "<message type='chat' to='carol@x.org/1'><body>c</body></message>")
            .comes(&["x: chat alice/desk > carol@x.org/1 [body c]"]),
        row("3.5", "each archive has an id of its own, and the receiver sees its own")
            .after("bob", "<presence/>")
            .when("desk", "<message type='chat' to='bob@example.org/home'><body>c</body></message>")
            .comes(&["bob: chat alice/desk > bob/home [body c, #1 at bob]"]),
        test(
            "3.5",
            "a carbon has it",
            "chat/src/tests/archive.rs::other_sessions_learn_the_archive_id_of_a_sent_message",
        ),
        test(
            "3.5",
            "an id that a sender claims is removed",
            "chat/src/tests/archive.rs::forged_ids_are_removed_and_others_stay",
        ),
        row("6.1.1", "a copy for each resource is one message in the archive")
            .after("phone", "<presence/>")
            .when("x", words("1", "a"))
            .when("desk", query(""))
            .comes(&[
                "desk: chat carol@x.org/1 > alice [body a, #1 at alice]",
                "desk: message alice > alice/desk [result f #1 [4s, chat carol@x.org/1 > alice [body a]]]",
                "desk: result > alice/desk [fin complete=true [set [first #1, last #1, count 1]]]",
                "phone: chat carol@x.org/1 > alice [body a, #1 at alice]",
            ]),
        test(
            "6.1.1",
            "messages of type normal and chat with a body; no headlines, groupchat, or chat states",
            "chat/src/tests/archive.rs::messages_without_content_or_with_no_store_are_not_archived",
        ),
        row("6.1", "a message that is refused is not archived")
            .after("x", words("1", "a").replace("chat", "normal").replace("org'>", "org/gone'>"))
            .when("desk", query(""))
            .comes(&["desk: result > alice/desk [fin complete=true [set [count 0]]]"]),
        test(
            "3.2",
            "a message that is removed keeps its place",
            "chat/src/tests/archive.rs::an_archived_message_is_replaced_in_its_place",
        ),
        test(
            "3.1",
            "a query finds what was delivered before it",
            "chat/src/tests/archive.rs::a_query_finds_the_messages_that_came_before_it",
        ),
        test(
            "8.1",
            "the archive of another account is forbidden",
            "chat/src/tests/archive.rs::the_archive_of_another_account_is_forbidden",
        ),
    ]);
}

#[test]
fn querying() {
    check(&[
        five(row("4", "all messages in their order, then the result with the first and last id"))
            .when("desk", query(""))
            .comes(&[
                "desk: message alice > alice/desk [result f #1 [3s, chat carol@x.org/1 > alice [body a]]]",
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: message alice > alice/desk [result f #3 [5s, chat alice/desk > carol@x.org/1 [body c]]]",
                "desk: message alice > alice/desk [result f #4 [6s, chat bob/home > alice [body d]]]",
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin complete=true [set [first #1, last #5, count 5]]]",
            ]),
        row("4", "an archive without messages").when("desk", query("")).comes(&[
            "desk: result > alice/desk [fin complete=true [set [count 0]]]",
        ]),
        row("4.2", "without a query id the results have none")
            .after("x", words("1", "a"))
            .when("desk", query("").replace(" queryid='f'", ""))
            .comes(&[
                "desk: message alice > alice/desk [result none #1 [3s, chat carol@x.org/1 > alice [body a]]]",
                "desk: result > alice/desk [fin complete=true [set [first #1, last #1, count 1]]]",
            ]),
        row("3.3.1", "the archive is at the account's bare address")
            .after("x", words("1", "a"))
            .when("desk", query("").replace("id='q'", "id='q' to='alice@example.org'"))
            .comes(&[
                "desk: message alice > alice/desk [result f #1 [3s, chat carol@x.org/1 > alice [body a]]]",
                "desk: result alice > alice/desk [fin complete=true [set [first #1, last #1, count 1]]]",
            ]),
        row("4.2", "the original message whole, with the time at which it came")
            .after(
                "x",
                "<message type='chat' id='m' from='carol@x.org/1' to='alice@example.org'>\
                 <body>a</body><x xmlns='urn:x'/></message>",
            )
            .when("desk", query(""))
            .comes(&[
                "desk: message alice > alice/desk [result f #1 [3s, chat carol@x.org/1 > alice [body a, x]]]",
                "desk: result > alice/desk [fin complete=true [set [first #1, last #1, count 1]]]",
            ]),
    ]);
}

#[test]
fn filters() {
    check(&[
        five(row("4.1.1", "`with` a bare address: whatever the resource, sent and received"))
            .when("desk", query(&form(&[("with", "carol@x.org")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #1 [3s, chat carol@x.org/1 > alice [body a]]]",
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: message alice > alice/desk [result f #3 [5s, chat alice/desk > carol@x.org/1 [body c]]]",
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin complete=true [set [first #1, last #5, count 4]]]",
            ]),
        five(row("4.1.1", "a full address: that resource only"))
            .when("desk", query(&form(&[("with", "carol@x.org/2")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin complete=true [set [first #5, last #5, count 1]]]",
            ]),
        five(row("4.1.1", "the account's own address: messages to oneself only"))
            .after("desk", "<message type='chat' to='alice@example.org'><body>note</body></message>")
            .when("desk", query(&form(&[("with", "alice@example.org")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #6 [8s, chat alice/desk > alice [body note]]]",
                "desk: result > alice/desk [fin complete=true [set [first #6, last #6, count 1]]]",
            ]),
        five(row("4.1.2", "`start`: of that time or later"))
            .when("desk", query(&form(&[("start", "2027-01-15T08:00:06Z")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #4 [6s, chat bob/home > alice [body d]]]",
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin complete=true [set [first #4, last #5, count 2]]]",
            ]),
        five(row("4.1.2", "`end`: of that time or earlier"))
            .when("desk", query(&form(&[("end", "2027-01-15T08:00:04Z")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #1 [3s, chat carol@x.org/1 > alice [body a]]]",
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: result > alice/desk [fin complete=true [set [first #1, last #2, count 2]]]",
            ]),
        five(row("4.1.2", "both"))
            .when("desk", query(&form(&[("start", "2027-01-15T08:00:04Z"), ("end", "2027-01-15T08:00:04Z")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: result > alice/desk [fin complete=true [set [first #2, last #2, count 1]]]",
            ]),
    ]);
}

#[test]
fn filters_by_id() {
    check(&[
        five(row("4.1.3", "`after-id` and `before-id`: between them; no count"))
            .when("desk", query(&form(&[("after-id", "#1"), ("before-id", "#4")])))
            .comes(&[
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: message alice > alice/desk [result f #3 [5s, chat alice/desk > carol@x.org/1 [body c]]]",
                "desk: result > alice/desk [fin complete=true [set [first #2, last #3]]]",
            ]),
        five(row("4.1.3", "`ids`: these")).when("desk", query(&form(&[("ids", "#4")]))).comes(&[
            "desk: message alice > alice/desk [result f #4 [6s, chat bob/home > alice [body d]]]",
            "desk: result > alice/desk [fin complete=true [set [first #4, last #4, count 1]]]",
        ]),
        five(row("4.1.3", "`item-not-found` when one of `ids` is not there"))
            .when("desk", query(&form(&[("ids", "#4</value><value>none")])))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
        five(row("4.1.3", "an `after-id` that is not there"))
            .when("desk", query(&form(&[("after-id", "none")])))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
        five(row("4.1.3", "a `before-id` that is not there"))
            .when("desk", query(&form(&[("before-id", "none")])))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
    ]);
}

#[test]
fn the_form() {
    check(&[
        row("4.1.5", "the form has all fields, none is required, `ids` takes any value")
            .when("desk", get("query"))
            .comes(&[
                "desk: result > alice/desk [query [x type=form [field var=FORM_TYPE type=hidden [value urn:xmpp:mam:2], field var=with type=jid-single, field var=start type=text-single, field var=end type=text-single, field var=before-id type=text-single, field var=after-id type=text-single, field var={urn:xmpp:fulltext:0}fulltext type=text-single, field var=ids type=list-multi [validate datatype=xs:string [open]]]]]",
            ]),
        five(row("4.1.5", "a field that the server does not know: `feature-not-implemented`"))
            .when("desk", query(&form(&[("{urn:x}words", "a")])))
            .comes(&["desk: iq error > alice/desk feature-not-implemented"]),
        five(row("4.1.4", "`include-groupchat` is not announced, so it is such a field"))
            .when("desk", query(&form(&[("include-groupchat", "true")])))
            .comes(&["desk: iq error > alice/desk feature-not-implemented"]),
        five(row("4.1.2", "a time that is none: `bad-request`"))
            .when("desk", query(&form(&[("start", "yesterday")])))
            .comes(&["desk: iq error > alice/desk bad-request"]),
    ]);
}

#[test]
fn pages() {
    check(&[
        five(row("4.3.1", "no more than asked for; not `complete`"))
            .when("desk", query(&page("<max>2</max>")))
            .comes(&[
                "desk: message alice > alice/desk [result f #1 [3s, chat carol@x.org/1 > alice [body a]]]",
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: result > alice/desk [fin [set [first #1, last #2, count 5]]]",
            ]),
        five(row("4.3.2", "`after`: the next page"))
            .when("desk", query(&page("<max>2</max><after>#2</after>")))
            .comes(&[
                "desk: message alice > alice/desk [result f #3 [5s, chat alice/desk > carol@x.org/1 [body c]]]",
                "desk: message alice > alice/desk [result f #4 [6s, chat bob/home > alice [body d]]]",
                "desk: result > alice/desk [fin [set [first #3, last #4, count 5]]]",
            ]),
        five(row("4.3.2", "the last one is `complete`"))
            .when("desk", query(&page("<max>2</max><after>#4</after>")))
            .comes(&[
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin complete=true [set [first #5, last #5, count 5]]]",
            ]),
        five(row("4.3.2", "after the last message there is an empty page, which is complete"))
            .when("desk", query(&page("<after>#5</after>")))
            .comes(&["desk: result > alice/desk [fin complete=true [set [count 5]]]"]),
        five(row("4.3.2", "`before`: the page before"))
            .when("desk", query(&page("<max>2</max><before>#4</before>")))
            .comes(&[
                "desk: message alice > alice/desk [result f #2 [4s, chat carol@x.org/1 > alice [body b]]]",
                "desk: message alice > alice/desk [result f #3 [5s, chat alice/desk > carol@x.org/1 [body c]]]",
                "desk: result > alice/desk [fin [set [first #2, last #3, count 5]]]",
            ]),
        five(row("4.3.2", "`item-not-found` for an `after` that is not there"))
            .when("desk", query(&page("<after>none</after>")))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
        five(row("4.3.2", "no result changes later: none says `stable='false'`"))
            .when("desk", query(&page("<max>0</max>")))
            .comes(&["desk: result > alice/desk [fin [set [count 5]]]"]),
        five(row("4.3.2", "and a `before`"))
            .when("desk", query(&page("<before>none</before>")))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
        five(row("4.3.2", "pages within a filter"))
            .when(
                "desk",
                query(&format!(
                    "{}{}",
                    form(&[("with", "carol@x.org")]),
                    page("<max>1</max><after>#3</after>")
                )),
            )
            .comes(&[
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin complete=true [set [first #5, last #5, count 4]]]",
            ]),
    ]);
}

#[test]
fn the_last_page() {
    check(&[
        five(row("4.3.3", "an empty `before`: the last page, in chronological order"))
            .when("desk", query(&page("<max>2</max><before/>")))
            .comes(&[
                "desk: message alice > alice/desk [result f #4 [6s, chat bob/home > alice [body d]]]",
                "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
                "desk: result > alice/desk [fin [set [first #4, last #5, count 5]]]",
            ]),
        five(row(
            "4.3.4",
            "a flipped page has the same messages, the last first; `first` and `last` as before",
        ))
        .when("desk", query(&format!("{}<flip-page/>", page("<max>2</max><before/>"))))
        .comes(&[
            "desk: message alice > alice/desk [result f #5 [7s, chat carol@x.org/2 > alice [body e]]]",
            "desk: message alice > alice/desk [result f #4 [6s, chat bob/home > alice [body d]]]",
            "desk: result > alice/desk [fin [set [first #4, last #5, count 5]]]",
        ]),
        five(row("4.3.1", "a page of none: the count"))
            .when("desk", query(&page("<max>0</max>")))
            .comes(&["desk: result > alice/desk [fin [set [count 5]]]"]),
        test(
            "4.3.1",
            "the server has a limit of its own, and says so by the page that it gives",
            "chat/src/tests/archive.rs::a_page_is_no_larger_than_can_be_told_at_once",
        ),
    ]);
}

#[test]
fn rooms() {
    check(&[
        test(
            "6.1.2",
            "the archive is for those that may enter the room",
            "chat/src/tests/muc/keep.rs::the_archive_is_only_for_users_that_may_enter_the_room",
        ),
        test(
            "6.1.2",
            "messages with a body are archived",
            "muc/src/message.rs::messages_about_the_moment_are_not_archived",
        ),
        test(
            "6.1.2",
            "a message has no `to`; what its sender claims in `muc#user` is removed (§8.4)",
            "chat/src/tests/muc/keep.rs::an_archived_message_has_no_addressee_and_no_claims_of_its_sender",
        ),
        test(
            "6.1.2",
            "it has the sender's address where all may know it",
            "muc/src/tests.rs::the_archive_has_addresses_only_where_they_are_no_secret",
        ),
        test(
            "3.2",
            "messages that a limit deletes are the oldest",
            "store/tests/contract/xmpp.rs::the_oldest_messages_of_an_archive_are_deleted_first",
        ),
        test(
            "6.1.2",
            "a change of the subject is archived",
            "chat/src/tests/muc/keep.rs::a_change_of_the_subject_is_archived_and_is_no_history",
        ),
        test(
            "3.2",
            "a message that is removed from the middle leaves a placeholder",
            "chat/src/tests/muc/talk.rs::a_retracted_message_is_a_tombstone_in_the_archive",
        ),
    ]);
}

#[test]
fn metadata() {
    check(&[
        five(row("5", "the first and the last message with id and time"))
            .when("desk", get("metadata"))
            .comes(&[
                "desk: result > alice/desk [metadata [start id=#1 timestamp=3s, end id=#5 timestamp=7s]]",
            ]),
        row("5", "an archive without messages has neither")
            .when("desk", get("metadata"))
            .comes(&["desk: result > alice/desk [metadata]"]),
    ]);
}

#[test]
fn support() {
    let info = "<iq type='get' id='q' to='alice@example.org'>\
         <query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    play(&[super::row("7", "an account with an archive MUST announce it, and the extended fields")
        .when("alice", info)
        .told(&[
            "<feature var='urn:xmpp:mam:2'/>",
            "<feature var='urn:xmpp:mam:2#extended'/>",
            "!#groupchat",
        ])]);
}

/// The ids of a hundred messages that come at one time, to a host with that seed.
fn ids_of_a_hundred(seed: u8) -> Vec<String> {
    let mut world = HostWorld::new(&[ALICE]);
    world.host = Host::new(Arc::new(settings()), ShardAddress::default(), [seed; 32]);
    let desk = world.sign_in("alice@example.org/desk");
    world.say(desk, "<presence/>");
    for number in 0..100 {
        world.arrive(&words("1", &number.to_string()));
    }
    world.store.messages.archive.iter().map(|(_, (id, ..))| id.to_string()).collect()
}

/// §3: ids "MUST be unpredictable"; §3.2: none is used again. The first 14 characters are the time, the others are random.
#[test]
fn ids_cannot_be_predicted_and_are_not_used_again() {
    let (one, other) = (ids_of_a_hundred(1), ids_of_a_hundred(2));
    assert_eq!((one.len(), other.len()), (100, 100));
    assert!(one.is_sorted_by(|a, b| a < b), "{one:?}");
    let random = |id: &String| u32::from_str_radix(&id[14..], 16).unwrap();
    for (a, b) in one.iter().zip(&other) {
        assert!(a[..14] == b[..14] && random(a) != random(b), "{a} {b}");
    }
    // Neither the numbers nor the steps between them repeat.
    let steps = one.windows(2).map(|pair| random(&pair[1]).wrapping_sub(random(&pair[0])));
    let steps: std::collections::BTreeSet<u32> = steps.collect();
    let numbers: std::collections::BTreeSet<u32> = one.iter().map(random).collect();
    assert_eq!((numbers.len(), steps.len()), (100, 99));
}

/// §4.1.1: `with` is the address of an occupant. A real address finds nothing, not even one's own: else a query would tell
/// the real address of an occupant.
#[test]
fn the_archive_of_a_room_is_searched_by_occupant() {
    const ROOM: &str = "hall@conference.example.org";
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, &format!("<presence to='{ROOM}/nick'><x xmlns='{}'/></presence>", ns::MUC));
    let field = "<field var='muc#roomconfig_persistentroom'><value>1</value></field>";
    let configured = format!(
        "<query xmlns='{}'><x xmlns='jabber:x:data' type='submit'>{field}</x></query>",
        ns::MUC_OWNER
    );
    world.say(alice, &iq("set", ROOM, &configured));
    world.say(alice, &format!("<message type='groupchat' to='{ROOM}'><body>hi</body></message>"));
    for (with, found) in [("hall@conference.example.org/nick", 1), (ALICE, 0), ("alice@example.org/desk", 0)]
    {
        world.hear(alice);
        world.say(alice, &query(&form(&[("with", with)])).replace("id='q'", &format!("id='q' to='{ROOM}'")));
        let heard = world.hear(alice);
        let results = heard.iter().filter(|stanza| stanza.contains("<result ")).count();
        assert!(results == found && heard.last().unwrap().contains("<fin "), "{with}: {heard:?}");
    }
}
