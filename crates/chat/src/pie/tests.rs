//! Files as the specification has them, as ejabberd 23.01 and Prosody 0.12 write them, and broken ones.

use std::collections::BTreeMap;
use std::io::Read;

use proptest::prelude::*;
use stdx::Instant;
use xmpp::sasl::{self, Hash};
use xmpp::{Bare, Element, ns, time};

use super::*;
use crate::Change;
use crate::effect::{RosterItem, Subscription};
use crate::limits;

const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    pieces_of(text.as_bytes())
}

fn pieces_of(input: impl Read) -> Result<Vec<Piece>, String> {
    let mut document = Document::new(input, None).with_domain("openfire.test".into());
    let mut all = Vec::new();
    loop {
        match document.next_piece() {
            Ok(Some(piece)) => all.push(piece),
            Ok(None) => return Ok(all),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn users(text: &str) -> Vec<Result<User, Fault>> {
    let pieces = pieces(text).unwrap();
    let users = pieces.into_iter().map(|piece| match piece {
        Piece::User { host, element, .. } => read_user(&element, &host, NOW),
        other => panic!("{other:?}"),
    });
    users.collect()
}

/// The only one, of `montague.net`.
fn user(inside: &str) -> User {
    let text = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='montague.net'>\
         <user name='romeo' password='iLuvJuLi3T'>{inside}</user></host></server-data>"
    );
    users(&text).remove(0).unwrap()
}

fn bare(text: &str) -> Bare {
    Bare::parse(text).unwrap()
}

fn contacts(user: &User) -> Vec<(&str, &RosterItem)> {
    let contact = |change| match change {
        &Change::Roster { ref contact, item: Some(ref item), .. } => Some((contact.as_str(), item)),
        _ => None,
    };
    user.changes.iter().filter_map(contact).collect()
}

/// Nodes with their items, in the order that they are written.
fn items(user: &User) -> Vec<(&str, &str, &Element)> {
    let item = |change| match change {
        &Change::Item { ref node, ref id, item: Some(ref item), .. } => Some((&**node, &**id, &**item)),
        _ => None,
    };
    user.changes.iter().filter_map(item).collect()
}

#[test]
fn the_specifications_own_example() {
    let users = users(
        "<?xml version='1.0' encoding='UTF-8'?>
        <server-data xmlns='urn:xmpp:pie:0'>
          <!-- two houses -->
          <host jid='capulet.com'>
            <user name='juliet' password='s3crEt'>
              <query xmlns='jabber:iq:roster'>
                <item jid='romeo@montague.net' name='Romeo' subscription='both'><group>Friends</group></item>
              </query>
              <offline-messages>
                <message xmlns='jabber:client' from='romeo@montague.net/orchard' to='juliet@capulet.com/balcony' type='chat'>
                  <body>Neither, fair saint, if either thee dislike.</body>
                  <delay xmlns='urn:xmpp:delay' from='capulet.com' stamp='1979-07-21T00:32:29Z'>Offline Storage</delay>
                </message>
              </offline-messages>
              <vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN></vCard>
              <query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'><defaultnick>Hamlet</defaultnick></exodus></query>
            </user>
          </host>
          <host jid='montague.net'><user name='Romeo' password='iLuvJuLi3T'/></host>
        </server-data>",
    );
    let juliet = users[0].as_ref().unwrap();
    assert_eq!(juliet.address, bare("juliet@capulet.com"));
    assert_eq!(juliet.credentials.password, Some(sasl::Secret("s3crEt".into())));
    let [(romeo, item)] = contacts(juliet)[..] else { panic!("{juliet:?}") };
    assert_eq!(
        (romeo, item.name.as_deref(), item.subscription),
        ("romeo@montague.net", Some("Romeo"), Subscription::Both)
    );
    assert_eq!((&item.groups[..], item.is_listed), (&["Friends".into()][..], true));
    let waits = juliet.changes.iter().find_map(|change| match change {
        Change::Offline { at, stanza, .. } => Some((*at, stanza.content_of("body", ns::CLIENT).unwrap())),
        _ => None,
    });
    let at = time::parse("1979-07-21T00:32:29Z").unwrap();
    assert_eq!(waits, Some((at, "Neither, fair saint, if either thee dislike.".into())));
    let nodes: Vec<_> = items(juliet).into_iter().map(|(node, id, _)| (node, id)).collect();
    assert_eq!(
        nodes,
        [(ns::VCARD, "current"), (ns::VCARD_UPDATE, "current"), ("private:exodus:prefs", "exodus")]
    );
    assert!(juliet.passed.is_empty(), "{:?}", juliet.passed);
    assert_eq!(users[1].as_ref().unwrap().address, bare("romeo@montague.net"), "prepared");
}

/// The id names an entry of the old server's archive. With it the message would be taken for an archived one, and removed unread.
#[test]
fn a_message_that_waited_loses_the_id_of_its_old_archive() {
    let users = users(
        "<host xmlns='urn:xmpp:pie:0' jid='capulet.com'><user name='juliet' password='s3crEt'><offline-messages>
           <message xmlns='jabber:client' from='romeo@montague.net/orchard' to='juliet@capulet.com' type='chat'>
             <body>hi</body>
             <stanza-id xmlns='urn:xmpp:sid:0' by='juliet@capulet.com' id='065a0e1e5d20801234abcd'/>
             <stanza-id xmlns='urn:xmpp:sid:0' by='montague.net' id='1'/>
           </message>
         </offline-messages></user></host>",
    );
    let juliet = users[0].as_ref().unwrap();
    let ids = juliet.changes.iter().find_map(|change| match change {
        Change::Offline { stanza, .. } => Some(
            stanza.elements().filter_map(|child| child.attr("by").map(str::to_owned)).collect::<Vec<_>>(),
        ),
        _ => None,
    });
    assert_eq!(ids, Some(vec!["montague.net".to_owned()]));
}

/// The output of `ejabberdctl export_piefxis` of 23.01 for a host whose accounts have keys of SCRAM.
#[test]
fn ejabberd_has_keys_in_base64_twice_and_blocked_addresses_as_a_privacy_list() {
    let keys = sasl::derive(Hash::Sha256, "secret", b"0123456789abcdef", 4_096);
    let twice = |bytes: &[u8]| sasl::encode(sasl::encode(bytes).as_bytes());
    let text = format!(
        "<?xml version='1.0' encoding='UTF-8'?>\
         <host xmlns='urn:xmpp:pie:0' xmlns:xi='http://www.w3.org/2001/XInclude' jid='montague.net'>\
         <user name='romeo'>\
         <scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-256'><iter-count>4096</iter-count>\
         <salt>{}</salt><server-key>{}</server-key><stored-key>{}</stored-key></scram-credentials>\
         <query xmlns='jabber:iq:privacy'><default name='Blocked contacts'/><list name='Blocked contacts'>\
         <item order='2' action='deny' type='jid' value='tybalt@capulet.com'/>\
         <item order='1' action='deny' type='jid' value='paris.lit'/></list>\
         <list name='other'><item order='1' action='deny' type='group' value='Foes'/></list></query>\
         <query xmlns='jabber:iq:roster'><item subscription='none' ask='subscribe' jid='juliet@capulet.com'/></query>\
         <presence to='romeo@montague.net' from='nurse@capulet.com' type='subscribe' xmlns='jabber:client'>\
         <status>Peace!</status></presence></user></host>",
        twice(&keys.salt),
        twice(&keys.server),
        twice(&keys.stored)
    );
    let romeo = users(&text).remove(0).unwrap();
    assert_eq!(romeo.credentials, Credentials { password: None, keys: vec![(Hash::Sha256, keys)] });
    let blocked = romeo.changes.iter().find_map(|change| match change {
        Change::Blocked { blocked, .. } => Some(blocked.iter().map(|jid| jid.as_str()).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(blocked.unwrap(), ["paris.lit", "tybalt@capulet.com"]);
    let [(juliet, asked), (nurse, asking)] = contacts(&romeo)[..] else { panic!("{romeo:?}") };
    assert_eq!((juliet, asked.ask, asked.is_listed), ("juliet@capulet.com", true, true));
    assert_eq!((nurse, asking.is_listed), ("nurse@capulet.com", false));
    let presence = asking.asked.as_deref().unwrap();
    assert_eq!(presence.content_of("status", ns::CLIENT).unwrap(), "Peace!");
    let passed: Vec<_> = romeo.passed.iter().map(|(what, count)| (&**what, *count)).collect();
    assert_eq!(passed, [("privacy lists", 1)]);
}

#[test]
fn keys_stand_in_the_password_of_older_files() {
    let keys = sasl::derive(Hash::Sha1, "secret", b"salt", 10_000);
    let [stored, server, salt] = [&keys.stored, &keys.server, &keys.salt].map(|bytes| sasl::encode(bytes));
    let text = |password: &str| {
        format!("<host xmlns='urn:xmpp:pie:0' jid='x.org'><user name='a' password='{password}'/></host>")
    };
    let read = users(&text(&format!("scram:{stored},{server},{salt},10000"))).remove(0).unwrap();
    assert_eq!(read.credentials.keys, [(Hash::Sha1, keys)]);
    for broken in ["scram:a,b", "scram:sha256,AAAA,AAAA,AAAA,1", &format!("scram:{stored},{server},{salt},0")]
    {
        let fault = users(&text(broken)).remove(0).unwrap_err();
        assert_eq!(&*fault.found, "keys of SCRAM that are none", "{broken}");
    }
    let fault = users(&text("")).remove(0).unwrap_err();
    assert_eq!(&*fault.found, "no password");
}

/// Its storage has one file a user; presence has no namespace of its own there.
#[test]
fn a_prosody_export_has_nodes_an_archive_and_subscription_requests() {
    let romeo = user(
        "<presence type='subscribe' from='nurse@capulet.com'/>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='urn:xmpp:omemo'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
         <value>http://jabber.org/protocol/pubsub#node_config</value></field>\
         <field var='pubsub#access_model'><value>open</value></field>\
         <field var='pubsub#max_items'><value>max</value></field></x></configure></pubsub>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:xmpp:omemo'>\
         <item id='1'><a xmlns='urn:a'/></item><item id='2'><b xmlns='urn:a'/></item></items>\
         <items node='nobody said how'><item id='x'><c xmlns='urn:a'/></item></items>\
         <items node='private:secret'><item id='x'><c xmlns='urn:a'/></item></items></pubsub>\
         <archive xmlns='urn:xmpp:pie:0#mam'><result xmlns='urn:xmpp:mam:2' id='abc'>\
         <forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='2020-01-01T00:00:00Z'/>\
         <message xmlns='jabber:client' to='romeo@montague.net' from='juliet@capulet.com/x'><body>O</body></message>\
         </forwarded></result><result xmlns='urn:xmpp:mam:2' id='def'/></archive>\
         <x xmlns='urn:unknown'/><blocklist xmlns='urn:xmpp:blocking'><item jid='tybalt@capulet.com'/><item jid='@'/>\
         </blocklist>",
    );
    assert_eq!(contacts(&romeo)[0].0, "nurse@capulet.com");
    let found: Vec<_> = items(&romeo).into_iter().map(|(node, id, _)| (node, id)).collect();
    assert_eq!(found, [("urn:xmpp:omemo", "1"), ("urn:xmpp:omemo", "2"), ("nobody said how", "x")]);
    let configs: Vec<_> = romeo
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Node { node, config: Some(config), .. } => Some((&**node, config.to_string())),
            _ => None,
        })
        .collect();
    let has = |at: usize, value: &str| configs[at].1.contains(&format!("<value>{value}</value>"));
    assert!(configs[0].0 == "nobody said how" && has(0, "whitelist"), "{configs:?}");
    assert!(configs[1].0 == "urn:xmpp:omemo" && has(1, "open") && has(1, &limits::NODE_ITEMS.to_string()));
    let archived: Vec<_> = romeo
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Archive { id, with, at, .. } => Some((&**id, with.as_str(), *at)),
            _ => None,
        })
        .collect();
    let [(id, with, at)] = archived[..] else { panic!("{archived:?}") };
    assert_eq!((with, at), ("juliet@capulet.com/x", time::parse("2020-01-01T00:00:00Z").unwrap()));
    assert!(id.starts_with(&format!("{:014x}", at.as_micros())), "ids sort by time: {id}");
    let passed: Vec<_> = romeo.passed.iter().map(|(what, count)| (&**what, *count)).collect();
    assert_eq!(
        passed,
        [
            ("<x xmlns='urn:unknown'>", 1),
            ("archived messages", 1),
            ("blocked addresses that are none", 1),
            ("nodes", 1)
        ]
    );
}

/// XEP-0402 §5: clients find bookmarks by either way.
#[test]
fn bookmarks_are_in_all_their_places() {
    let romeo = user(
        "<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'>\
         <conference jid='orchard@rooms.org' autojoin='true'><nick>R</nick></conference></storage></query>",
    );
    let found: Vec<_> = items(&romeo).into_iter().map(|(node, id, _)| (node, id)).collect();
    assert_eq!(
        found,
        [
            ("private:storage:bookmarks", "storage"),
            (ns::OLD_BOOKMARKS, "current"),
            (ns::BOOKMARKS, "orchard@rooms.org")
        ]
    );
    let native = items(&romeo)[2].2.first().unwrap();
    assert_eq!(
        (native.attr("autojoin"), native.content_of("nick", ns::BOOKMARKS).unwrap()),
        (Some("true"), "R".into())
    );
}

#[test]
fn a_photo_is_hashed_for_presence() {
    let romeo = user(
        "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/png</TYPE><BINVAL>aGVs\nbG8=</BINVAL></PHOTO></vCard>",
    );
    let (node, _, update) = items(&romeo)[1];
    let hash = update.content_of("photo", ns::VCARD_UPDATE).unwrap();
    assert_eq!((node, &*hash), (ns::VCARD_UPDATE, "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"));
    let none = user("<vCard xmlns='vcard-temp'><PHOTO><BINVAL>*</BINVAL></PHOTO></vCard>");
    assert_eq!((items(&none).len(), none.passed.len()), (0, 1));
}

#[test]
fn invalid_contacts_are_passed_over_and_an_unknown_subscription_is_a_fault() {
    let romeo = user(
        "<query xmlns='jabber:iq:roster'><item jid='@'/><item jid='romeo@montague.net'/><item jid='a@b/c'/></query>",
    );
    assert_eq!(contacts(&romeo).into_iter().map(|(contact, _)| contact).collect::<Vec<_>>(), ["a@b"]);
    assert_eq!(romeo.passed["contacts whose address is none"], 2);
    let text = "<host xmlns='urn:xmpp:pie:0' jid='x.org'><user name='a' password='b'>\
                <query xmlns='jabber:iq:roster'><item jid='a@b' subscription='mutual'/></query></user></host>";
    let fault = users(text).remove(0).unwrap_err();
    assert_eq!(
        (&*fault.found, &*fault.expected),
        ("a contact whose subscription is \"mutual\"", "none, to, from or both")
    );
}

#[test]
fn includes_are_told_with_the_host_they_stand_in() {
    let text = "<server-data xmlns='urn:xmpp:pie:0' xmlns:xi='http://www.w3.org/2001/XInclude'>\n\
                <xi:include href='capulet.com.xml'/>\n<host jid='montague.net'><xi:include href='r.xml'></xi:include>\
                </host></server-data>";
    let told: Vec<_> = pieces(text)
        .unwrap()
        .into_iter()
        .map(|piece| match piece {
            Piece::Include { line, host, href } => (line, host.unwrap_or_default(), href),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(2, "".into(), "capulet.com.xml".into()), (3, "montague.net".into(), "r.xml".into())]);
    // The file of a user: its host is that of the include.
    let mut document =
        Document::new(&b"<user xmlns='urn:xmpp:pie:0' name='juliet' password='x'/>"[..], Some("a.b".into()));
    let Ok(Some(Piece::User { host, .. })) = document.next_piece() else { panic!("no user") };
    assert_eq!((&*host, document.next_piece().unwrap().is_none()), ("a.b", true));
}

#[test]
fn prefixes_of_the_elements_around_hold_and_others_pass() {
    let text = "<p:server-data xmlns:p='urn:xmpp:pie:0' xmlns:r='jabber:iq:roster'><x xmlns='urn:x'><p:user/></x>\
                <p:host jid='x.org'><p:user name='a' password='b'><r:query><r:item jid='c@d'/></r:query></p:user>\
                </p:host></p:server-data>";
    let pieces = pieces(text).unwrap();
    let [Piece::Other(name), Piece::Unreadable { .. }, Piece::User { host, element, .. }] = &pieces[..]
    else {
        panic!("{pieces:?}")
    };
    assert_eq!(&**name, "<x xmlns='urn:x'>");
    assert_eq!(contacts(&read_user(element, host, NOW).unwrap())[0].0, "c@d");
    let old = "<host xmlns='http://www.xmpp.org/extensions/xep-0227.html#ns' jid='x.org'><user name='a' password='b'/></host>";
    assert!(users(old).remove(0).is_ok(), "the namespace that it had before");
}

#[test]
fn invalid_files_are_refused_with_the_place_and_the_expected_input() {
    let long = format!("<{}", "a".repeat(limits::PIE_USER + 1));
    for (text, says) in [
        ("", "line 1: the file ends before anything was in it; expected <server-data"),
        ("account,password", "line 1: text between elements"),
        (
            "<!DOCTYPE x [<!ENTITY a 'b'>]><server-data/>",
            "line 1: a document type or another declaration (<!)",
        ),
        (
            "\n<server-data/>",
            "line 2: <server-data> of namespace \"\"; expected <server-data xmlns='urn:xmpp:pie:0'>",
        ),
        ("<server-data xmlns='urn:xmpp:pie:1'/>", "of namespace \"urn:xmpp:pie:1\"; expected"),
        (
            "<server-data xmlns='urn:xmpp:pie:0'>\n<host jid='a.b'>\n",
            "line 3: the file ends within <host>; expected a whole",
        ),
        ("<server-data xmlns='urn:xmpp:pie:0'><host jid='a.b'><user name='", "the file ends within <host>"),
        ("<host xmlns='urn:xmpp:pie:0' jid='a.b'><user name='a'>", "the file ends within a user"),
        ("<server-data xmlns='urn:xmpp:pie:0'><host/></server-data>", "a <host> without jid"),
        ("<server-data xmlns='urn:xmpp:pie:0'></host>", "</host>; expected the end of what was opened last"),
        ("<server-data xmlns='urn:xmpp:pie:0'>text</server-data>", "text between elements"),
        (
            "<server-data xmlns='urn:xmpp:pie:0'/><server-data xmlns='urn:xmpp:pie:0'/>",
            "something after the end",
        ),
        (
            "<?xml version='1.0' encoding='ISO-8859-1'?>",
            "line 1: another encoding; expected a file saved as UTF-8",
        ),
        ("<server-data xmlns='urn:xmpp:pie:0' x:y='z'>", "a prefix that is not declared"),
        (&long, "a tag that does not end"),
    ] {
        let error = pieces(text).unwrap_err();
        assert!(error.contains(says), "{:?}: {error}", &text[..text.len().min(60)]);
    }
    let circle = "<host xmlns='urn:xmpp:pie:0' jid='a.b'><include xmlns='http://www.w3.org/2001/XInclude' \
                  href='x' parse='text'/></host>";
    assert!(pieces(circle).unwrap_err().contains("an include of another kind"));
}

/// As the plugin User Import Export writes it.
fn openfire(users: &str) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Openfire>{users}</Openfire>")
}

#[test]
fn openfire_has_its_own_names_and_codes_of_contacts() {
    let text = openfire(
        "<User><Username>mike</Username><Password>iamcool &amp; 1</Password><Email>mike@mike.test</Email>\
         <Name>Mike Jones</Name><CreationDate>1125442154664</CreationDate><ModifiedDate>1125442154664</ModifiedDate>\
         <Roster><Item jid=\"jane@openfire.test\" askstatus=\"-1\" recvstatus=\"-1\" substatus=\"3\" name=\"Jane\">\
         <Group>Friends</Group><Group>Work</Group></Item>\
         <Item jid=\"a@x.test\" askstatus=\"0\" recvstatus=\"-1\" substatus=\"0\" name=\"\"/>\
         <Item jid=\"b@x.test\" askstatus=\"-1\" recvstatus=\"1\" substatus=\"1\"/>\
         <Item jid=\"c@x.test\" askstatus=\"-1\" recvstatus=\"-1\" substatus=\"2\"/>\
         <Item jid=\"d@x.test\" askstatus=\"-1\" recvstatus=\"-1\" substatus=\"-1\"/></Roster></User>",
    );
    let [Ok(user)] = &users(&text)[..] else { panic!("{:?}", users(&text)) };
    assert_eq!((user.address.as_str(), &*user.display_name), ("mike@openfire.test", "Mike Jones"));
    assert_eq!(user.credentials.password.as_ref().unwrap().0, "iamcool & 1".into());
    let contacts = contacts(user);
    let of = |index: usize| {
        let (address, item) = contacts[index];
        (address, item.subscription, item.ask, item.asked.is_some(), item.groups.len())
    };
    assert_eq!(contacts.len(), 4, "{contacts:?}");
    assert_eq!(of(0), ("a@x.test", Subscription::None, true, false, 0));
    assert_eq!(of(1), ("b@x.test", Subscription::To, false, true, 0));
    assert_eq!(of(2), ("c@x.test", Subscription::From, false, false, 0));
    assert_eq!(of(3), ("jane@openfire.test", Subscription::Both, false, false, 2));
    assert_eq!(contacts[3].1.name.as_deref(), Some("Jane"));
    assert_eq!(user.passed, BTreeMap::from([("e-mail addresses".into(), 1)]));
}

#[test]
fn users_of_openfire_that_cannot_be_taken_do_not_stop_the_next() {
    let text = openfire(
        "<User><Username>ldap</Username><Password>ldap</Password></User><User><Password>x</Password></User>\
         <User><Username>code</Username><Password>x</Password><Roster><Item jid='a@b' substatus='9'/></Roster></User>\
         <User><Username>none</Username></User><Group/><User><Username>good</Username><Password>x</Password></User>",
    );
    let found = pieces(&text).unwrap();
    let unreadable: Vec<_> = found
        .iter()
        .filter_map(|piece| match piece {
            Piece::Unreadable { found, expected, .. } => Some((&**found, *expected)),
            _ => None,
        })
        .collect();
    assert_eq!(unreadable[0].0, "user ldap: a password that is the name of the user");
    assert!(unreadable[0].1.contains("import a dump of its tables ofUser and ofUserScram"), "{unreadable:?}");
    assert_eq!(unreadable[1].0, "a <User> without <Username>");
    let of_users: Vec<_> = found
        .iter()
        .filter_map(|piece| match piece {
            Piece::User { host, element, .. } => Some(read_user(element, host, NOW).map(|user| user.address)),
            _ => None,
        })
        .collect();
    let fault = |index: usize| of_users[index].as_ref().unwrap_err().found.to_string();
    assert_eq!(fault(0), "a contact whose subscription is \"9\"");
    assert_eq!(fault(1), "no password");
    assert_eq!(of_users[2], Ok(bare("good@openfire.test")));
    let alone = Document::new(text.as_bytes(), None).next_piece().unwrap_err().to_string();
    assert!(alone.contains("<Openfire> of namespace \"\""), "without a domain it is no such file: {alone}");
}

#[test]
fn a_bomb_in_openfires_form_is_refused_as_in_the_other() {
    let deep = format!("<User>{}</User>", "<a>".repeat(100_000) + &"</a>".repeat(100_000));
    let text = format!("<!DOCTYPE x [<!ENTITY a 'bb'>]>{}", openfire(""));
    assert!(pieces(&text).unwrap_err().contains("a document type"));
    let wide = format!("<User>{}</User>", "<a/>".repeat(limits::PIE_ELEMENTS + 1));
    for text in [openfire(&deep), openfire(&wide)] {
        let found = pieces(&text).unwrap();
        assert!(matches!(&found[..], [Piece::Unreadable { .. }]), "{}", found.len());
    }
    let long = openfire(&format!("<User>{}</User>", "x".repeat(limits::PIE_USER)));
    assert!(matches!(&pieces(&long).unwrap()[..], [Piece::Unreadable { .. }]));
    assert!(pieces("<Openfire><User>").unwrap_err().contains("the file ends within a user"));
}

#[test]
fn one_bad_user_does_not_stop_the_next() {
    let large = "x".repeat(limits::PIE_USER);
    let text = format!(
        "<host xmlns='urn:xmpp:pie:0' jid='a.b'>\n<user name='a'>&evil;</user>\n<user name='b'><x></y></user>\n\
         <user name='c'>{large}</user>\n<user name='d' password='x'><!-- said so --><?why?></user></host>"
    );
    let told: Vec<_> = pieces(&text)
        .unwrap()
        .into_iter()
        .map(|piece| match piece {
            Piece::Unreadable { line, found, .. } => (line, found),
            Piece::User { line, element, .. } => (line, element.attr("name").unwrap().to_owned()),
            other => panic!("{other:?}"),
        })
        .collect();
    let told: Vec<_> = told.iter().map(|(line, found)| (*line, found.as_str())).collect();
    assert_eq!(
        told,
        [
            (2, "an entity that is not XML's own"),
            (3, "a closing tag of another name"),
            (4, "a user of more than 32 MiB"),
            (5, "d")
        ]
    );
}

/// However it comes.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(self.0.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn many_users_are_read_one_by_one_and_every_byte_is_counted() {
    let mut text = String::from("<server-data xmlns='urn:xmpp:pie:0'><host jid='a.b'>\n");
    for number in 0..3_000 {
        let items = "<item jid='some.body@example.org' subscription='both'/>".repeat(3);
        text += &format!(
            "<user name='u{number}' password='x'><query xmlns='jabber:iq:roster'>{items}</query></user>\n"
        );
    }
    text += "</host></server-data>\n";
    for size in [1, 7, 70_000] {
        let mut document = Document::new(Drops(text.as_bytes(), size), None);
        let (mut count, mut last) = (0, 0);
        while let Some(piece) = document.next_piece().unwrap() {
            let Piece::User { line, .. } = piece else { panic!("{piece:?}") };
            count += 1;
            last = line;
        }
        assert_eq!((count, last, document.bytes()), (3_000, 3_001, text.len() as u64));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut text = b"<host xmlns='urn:xmpp:pie:0' jid='a.b'><user name='a' password='b'>".to_vec();
        text.extend(bytes);
        let _ = pieces_of(&text[..]);
    }
}

/// The account after it was written to a file and read from it.
fn again(kept: &ExportedAccount) -> ExportedAccount {
    let bytes = kept.element().to_bytes(ns::PIE);
    let text = String::from_utf8(bytes).unwrap();
    let text = format!("<host xmlns='urn:xmpp:pie:0' jid='{}'>{text}</host>", kept.address.domain());
    let user = users(&text).remove(0).unwrap();
    assert!(user.passed.is_empty(), "{:?}", user.passed);
    let mut kept = ExportedAccount {
        address: user.address,
        credentials: user.credentials,
        roster: Vec::new(),
        blocked: Vec::new(),
        messages: Vec::new(),
        nodes: Vec::new(),
        items: Vec::new(),
    };
    for change in user.changes {
        match change {
            Change::Roster { contact, item: Some(item), .. } => kept.roster.push((contact, item)),
            Change::Blocked { blocked, .. } => kept.blocked = blocked,
            Change::Offline { at, stanza, .. } => kept.messages.push((at, *stanza)),
            Change::Node { node, config: Some(config), .. } => kept.nodes.push((node, *config)),
            Change::Item { node, id, item: Some(item), .. } => kept.items.push((node, id, *item)),
            other => panic!("{other:?}"),
        }
    }
    kept
}

fn contact() -> impl Strategy<Value = (Bare, RosterItem)> {
    let groups = prop::collection::btree_set("[ -~]{1,9}", 0..3);
    let all = ("[a-z]{1,5}", 0..4_usize, any::<[bool; 4]>(), "[ -~]{0,9}", groups);
    all.prop_map(|(name, subscription, [ask, approved, asks, is_listed], label, groups)| {
        let contact = bare(&format!("{name}@example.org"));
        let presence = Element::new("presence", ns::CLIENT)
            .with("type", "subscribe")
            .with("from", contact.as_str())
            .with("to", "romeo@montague.net");
        let asked = (asks || !is_listed).then(|| Box::new(presence));
        if !is_listed {
            // A pending request has no other state.
            return (contact, RosterItem { asked, ..RosterItem::default() });
        }
        let subscriptions = [Subscription::None, Subscription::To, Subscription::From, Subscription::Both];
        let item = RosterItem {
            name: (!label.is_empty()).then(|| label.into()),
            subscription: subscriptions[subscription],
            ask,
            approved,
            asked,
            is_listed,
            groups: groups.into_iter().map(Box::from).collect(),
            version: 1,
        };
        (contact, item)
    })
}

fn message() -> impl Strategy<Value = (Instant, Element)> {
    "[ -~\u{a0}-\u{d7ff}]{1,9}".prop_map(|body| {
        let body = Element::new("body", ns::CLIENT).text(body);
        let delay =
            Element::new("delay", ns::DELAY).with("from", "montague.net").with("stamp", time::stamp(NOW));
        (NOW, Element::new("message", ns::CLIENT).with("from", "a@b/c").child(body).child(delay))
    })
}

fn private() -> impl Strategy<Value = (Box<str>, Box<str>, Element)> {
    ("[a-z]{1,5}", "[ -~]{0,9}").prop_map(|(name, text)| {
        let data = format!("<{name} xmlns='urn:private:{name}'/>");
        let data = xmpp::xml::parse(data.as_bytes(), &xmpp::xml::Prefixes::default()).unwrap();
        (format!("private:urn:private:{name}").into(), name.into(), data.text(text))
    })
}

fn published(id: &str) -> (Box<str>, Box<str>, Element) {
    let item = Element::new("item", ns::PUBSUB).with("id", id).child(Element::new("a", "urn:a"));
    ("urn:node".into(), id.into(), item)
}

/// A node as it is kept.
fn node() -> (Box<str>, Element) {
    let user = user("<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:node'/></pubsub>");
    match user.changes.into_iter().next() {
        Some(Change::Node { node, config: Some(config), .. }) => (node, *config),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn an_exported_account_is_read_back_unchanged(
        contacts in prop::collection::vec(contact(), 0..6),
        blocked in prop::collection::btree_set("[a-z]{1,5}", 0..4),
        private in prop::collection::vec(private(), 0..3),
        messages in prop::collection::vec(message(), 0..3),
        ids in prop::collection::btree_set("[a-z]{1,5}", 0..4),
    ) {
        let contacts: BTreeMap<_, _> = contacts.into_iter().collect();
        let keys = vec![(Hash::Sha1, sasl::derive(Hash::Sha1, "x", b"salt", 1))];
        let kept = ExportedAccount {
            address: bare("romeo@montague.net"),
            credentials: Credentials { password: None, keys },
            roster: contacts.into_iter().collect(),
            blocked: blocked.iter().map(|name| xmpp::Jid::parse(&format!("{name}.org")).unwrap()).collect(),
            messages,
            nodes: vec![node()],
            items: private.into_iter().chain(ids.iter().map(|id| published(id))).collect(),
        };
        prop_assert_eq!(again(&kept), kept);
    }
}
