//! Each field of each data form has the type that its registry has for it: clients read and fill in forms by that registry
//! (XEP-0068), and some take nothing else. A form that is sent to be filled in comes back as a client fills it in, by types
//! alone, and is taken.

use xmpp::c2s::{self, C2s, Framing, Security};

use super::*;
use crate::invite::InvitationSettings;
use crate::upload::UploadSettings;

/// A form type with its fields, from the registrar section of its specification.
struct Registry {
    form: &'static str,
    source: &'static str,
    fields: &'static [(&'static str, &'static [&'static str])],
}

const TEXT: &str = "text-single";
const TEXTS: &str = "text-multi";
const SECRET: &str = "text-private";
const BOOLEAN: &str = "boolean";
const CHOICE: &str = "list-single";
const CHOICES: &str = "list-multi";
const JID: &str = "jid-single";
const JIDS: &str = "jid-multi";

const REGISTRIES: &[Registry] = &[
    Registry {
        form: "http://jabber.org/protocol/muc#register",
        source: "XEP-0045 §15.5.1",
        fields: &[
            (BOOLEAN, &["muc#register_allow"]),
            (TEXT, &["muc#register_email", "muc#register_first", "muc#register_last"]),
            (TEXT, &["muc#register_roomnick", "muc#register_url"]),
            (TEXTS, &["muc#register_faqentry"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/muc#request",
        source: "XEP-0045 §15.5.2",
        fields: &[
            (CHOICE, &["muc#role"]),
            (JID, &["muc#jid"]),
            (TEXT, &["muc#roomnick"]),
            (BOOLEAN, &["muc#request_allow"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/muc#roomconfig",
        source: "XEP-0045 §15.5.3",
        fields: &[
            (TEXT, &["muc#maxhistoryfetch", "muc#roomconfig_lang", "muc#roomconfig_pubsub"]),
            (TEXT, &["muc#roomconfig_roomdesc", "muc#roomconfig_roomname"]),
            (SECRET, &["muc#roomconfig_roomsecret"]),
            (CHOICE, &["muc#roomconfig_allowpm", "muc#roomconfig_maxusers", "muc#roomconfig_whois"]),
            (CHOICES, &["muc#roomconfig_getmemberlist", "muc#roomconfig_presencebroadcast"]),
            (JIDS, &["muc#roomconfig_roomadmins", "muc#roomconfig_roomowners"]),
            (BOOLEAN, &["muc#roomconfig_allowinvites", "muc#roomconfig_changesubject"]),
            (BOOLEAN, &["muc#roomconfig_enablelogging", "muc#roomconfig_membersonly"]),
            (BOOLEAN, &["muc#roomconfig_moderatedroom", "muc#roomconfig_passwordprotectedroom"]),
            (BOOLEAN, &["muc#roomconfig_persistentroom", "muc#roomconfig_publicroom"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/muc#roominfo",
        source: "XEP-0045 §15.5.4",
        fields: &[
            (TEXT, &["muc#maxhistoryfetch", "muc#roominfo_description", "muc#roominfo_lang"]),
            (TEXT, &["muc#roominfo_ldapgroup", "muc#roominfo_logs", "muc#roominfo_occupants"]),
            (TEXT, &["muc#roominfo_subject", "muc#roominfo_pubsub"]),
            // XEP-0486 §5.
            (TEXTS, &["muc#roominfo_avatarhash"]),
            (JIDS, &["muc#roominfo_contactjid"]),
            (BOOLEAN, &["muc#roominfo_subjectmod"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/pubsub#subscribe_authorization",
        source: "XEP-0060 §16.4.1",
        fields: &[
            (BOOLEAN, &["pubsub#allow"]),
            (TEXT, &["pubsub#node", "pubsub#subid"]),
            (JID, &["pubsub#subscriber_jid"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/pubsub#subscribe_options",
        source: "XEP-0060 §16.4.2",
        fields: &[
            (BOOLEAN, &["pubsub#deliver", "pubsub#include_body"]),
            (TEXT, &["pubsub#expire"]),
            (CHOICES, &["pubsub#show-values"]),
            // XEP-0248 §13.2.
            (CHOICE, &["pubsub#subscription_type"]),
            (TEXT, &["pubsub#subscription_depth"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/pubsub#meta-data",
        source: "XEP-0060 §16.4.3",
        fields: &[
            (CHOICE, &["pubsub#access_model", "pubsub#publish_model"]),
            (TEXT, &["pubsub#max_items", "pubsub#title", "pubsub#type"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/pubsub#node_config",
        source: "XEP-0060 §16.4.4",
        fields: &[
            (CHOICE, &["pubsub#access_model", "pubsub#publish_model", "pubsub#send_last_published_item"]),
            (CHOICES, &["pubsub#roster_groups_allowed"]),
            (BOOLEAN, &["pubsub#deliver_notifications", "pubsub#deliver_payloads", "pubsub#persist_items"]),
            (BOOLEAN, &["pubsub#notify_config", "pubsub#notify_delete", "pubsub#notify_retract"]),
            (TEXT, &["pubsub#max_items", "pubsub#title", "pubsub#type"]),
            // XEP-0248 §13.2.
            (CHOICE, &["pubsub#node_type", "pubsub#children_association_policy"]),
            (TEXTS, &["pubsub#collection", "pubsub#children"]),
            (TEXT, &["pubsub#children_max"]),
            (JIDS, &["pubsub#children_association_whitelist"]),
        ],
    },
    Registry {
        form: "http://jabber.org/protocol/admin",
        source: "XEP-0133 §8.2",
        fields: &[
            (JID, &["accountjid"]),
            (JIDS, &["accountjids", "activeuserjids", "disableduserjids", "onlineuserjids"]),
            (JIDS, &["registereduserjids"]),
            (TEXT, &["activeusersnum", "disabledusersnum", "idleusersnum", "onlineusersnum"]),
            (TEXT, &["registeredusersnum", "rostersize", "lastlogin", "onlineresources"]),
            (TEXT, &["email", "given_name", "surname"]),
            (TEXTS, &["announcement", "motd"]),
            (CHOICE, &["max_items"]),
            (SECRET, &["password", "password-verify"]),
        ],
    },
    Registry {
        form: "http://jabber.org/network/serverinfo",
        source: "XEP-0157 §7.1",
        fields: &[
            (CHOICES, &["abuse-addresses", "admin-addresses", "feedback-addresses", "sales-addresses"]),
            (CHOICES, &["security-addresses", "status-addresses", "support-addresses"]),
        ],
    },
    Registry { form: ns::UPLOAD, source: "XEP-0363 §4", fields: &[(TEXT, &["max-file-size"])] },
    Registry {
        form: ns::MAM,
        source: "XEP-0313 §4.1",
        fields: &[
            (JID, &["with"]),
            (TEXT, &["start", "end", "before-id", "after-id"]),
            (CHOICES, &["ids"]),
            // XEP-0431 §3.1.
            (TEXT, &["{urn:xmpp:fulltext:0}fulltext"]),
        ],
    },
    Registry {
        form: ns::PUSH_SUMMARY,
        source: "XEP-0357 §12.3",
        fields: &[
            (TEXT, &["message-count", "pending-subscription-count", "last-message-body"]),
            (JID, &["last-message-sender"]),
        ],
    },
    Registry { form: ns::OFFLINE, source: "XEP-0013 §8.2", fields: &[(TEXT, &["number_of_messages"])] },
    Registry {
        form: ns::REGISTER,
        source: "XEP-0077 §14.3",
        fields: &[(TEXT, &["username"]), (SECRET, &["password"])],
    },
    Registry {
        form: "urn:xmpp:channel-search:0:search-params",
        source: "XEP-0433 §9",
        fields: &[
            (TEXT, &["q", "min_users"]),
            (BOOLEAN, &["all", "sinname", "sindescription", "sinaddress"]),
            (CHOICES, &["types"]),
            (CHOICE, &["key"]),
        ],
    },
    Registry {
        form: ns::INVITATION,
        source: "XEP-0401 §5",
        fields: &[(TEXT, &["uri", "landing-url", "expire"])],
    },
    // §4.2 shows it without a FORM_TYPE.
    Registry {
        form: "",
        source: "XEP-0401 §4.2",
        fields: &[(TEXT, &["username"]), (BOOLEAN, &["roster-subscription"])],
    },
];

/// Fields in no registry, and why they are there all the same. Those that are ours have a name that says so (XEP-0068 §3.3).
const UNREGISTERED: &[(&str, &str, &str)] = &[
    ("http://jabber.org/protocol/admin", "{urn:belfry:admin}subject", TEXT),
    ("http://jabber.org/protocol/admin", "{urn:belfry:admin}offlinemessages", TEXT),
    // The value of `muc#roominfo_contactjid` has to come from a configuration field.
    ("http://jabber.org/protocol/muc#roomconfig", "muc#roomconfig_contactjid", JIDS),
    // COMPAT: names that other servers have, which clients know.
    ("http://jabber.org/protocol/muc#roominfo", "muc#roominfo_changesubject", BOOLEAN),
    ("http://jabber.org/protocol/muc#roominfo", "muc#roomconfig_changesubject", BOOLEAN),
    (
        "http://jabber.org/protocol/muc#roominfo",
        "{http://prosody.im/protocol/muc}roomconfig_allowmemberinvites",
        BOOLEAN,
    ),
];

/// The source files that make forms: a new file has its forms asked for in [`all_forms`].
const SOURCES: &[&str] = &[
    "chat/src/archive/query.rs",
    "chat/src/commands.rs",
    "chat/src/disco.rs",
    "chat/src/invite.rs",
    "chat/src/muc/search.rs",
    "chat/src/offline/retrieval.rs",
    "chat/src/push.rs",
    "chat/src/upload.rs",
    "muc/src/form.rs",
    "pubsub/src/node.rs",
    "pubsub/src/options.rs",
    "pubsub/src/publish.rs",
    "pubsub/src/subscribe.rs",
    "xmpp/src/c2s/register.rs",
];

fn registered(form: &str, var: &str) -> Option<&'static str> {
    let own = UNREGISTERED.iter().find(|(of, known, _)| *of == form && *known == var);
    let registry = || REGISTRIES.iter().find(|registry| registry.form == form);
    own.map(|(_, _, kind)| *kind).or_else(|| {
        let known = |(_, vars): &&(&str, &'static [&'static str])| vars.contains(&var);
        registry()?.fields.iter().find(known).map(|(kind, _)| *kind)
    })
}

fn fields(form: &Element) -> impl Iterator<Item = &Element> {
    form.elements().filter(|child| child.is("field", ns::DATA))
}

fn values(field: &Element) -> Vec<String> {
    let values = field.elements().filter(|child| child.is("value", ns::DATA));
    values.map(|value| value.content().into_owned()).collect()
}

fn options(field: &Element) -> Vec<String> {
    let options = field.elements().filter(|child| child.is("option", ns::DATA));
    options.filter_map(|option| Some(option.content_of("value", ns::DATA)?.into_owned())).collect()
}

fn type_of(form: &Element) -> String {
    let hidden = fields(form).find(|field| field.attr("var") == Some("FORM_TYPE"));
    hidden.and_then(|field| values(field).into_iter().next()).unwrap_or_default()
}

/// The fields of a form that differ from its registry.
fn faults(form: &Element) -> Vec<String> {
    let (name, kind) = (type_of(form), form.attr("type").unwrap());
    let mut faults = Vec::new();
    let mut fault = |var: &str, text: String| faults.push(format!("{name} {var}: {text}"));
    for field in fields(form) {
        let (var, given) = (field.attr("var").unwrap(), field.attr("type"));
        if var == "FORM_TYPE" {
            // XEP-0068 §3.2: "If the FORM_TYPE field is not hidden ... it MUST be ignored".
            if given != Some("hidden") {
                fault(var, "is not hidden".to_owned());
            }
            continue;
        }
        let Some(expected) = registered(&name, var) else {
            fault(var, "is in no registry".to_owned());
            continue;
        };
        // XEP-0004 §3.2: types may be left out where nothing is to be filled in.
        if given.map_or(kind == "form", |given| given != expected) {
            fault(var, format!("is {given:?}, in the registry {expected}"));
        }
        // A `list-multi` that may have any value says so (XEP-0122 §3.2.1).
        let is_open = field.get("validate", ns::VALIDATE).is_some_and(|open| open.first().is_some());
        if kind == "form" && expected == CHOICE && options(field).is_empty() {
            fault(var, "has no options".to_owned());
        }
        let is_list = kind == "form" && matches!(expected, CHOICE | CHOICES) && !is_open;
        for value in values(field).into_iter().filter(|_| is_list) {
            if !options(field).contains(&value) {
                fault(var, format!("has a value that is no option: {value}"));
            }
        }
        if !expected.ends_with("-multi") && values(field).len() > 1 && given.is_some() {
            fault(var, "has several values".to_owned());
        }
    }
    faults
}

/// As a client fills it in that knows types only; `with` has what it knows besides.
fn filled(form: &Element, with: &[(&str, &str)]) -> String {
    let field = |field: &Element| {
        let (var, mut given) = (field.attr("var").unwrap(), values(field));
        if let Some((_, known)) = with.iter().find(|(known, _)| *known == var) {
            given = vec![(*known).to_owned()];
        }
        if given.is_empty() && field.get("required", ns::DATA).is_some() {
            given = vec![match field.attr("type").unwrap() {
                JID | JIDS => "bob@example.org".to_owned(),
                _ => "secret".to_owned(),
            }];
        }
        if given.is_empty() && field.attr("type") == Some(CHOICE) {
            given.extend(options(field).pop());
        }
        let given: String = given.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<field var='{var}'>{given}</field>")
    };
    let fields: String = fields(form).map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>")
}

fn forms_in(element: &Element, found: &mut Vec<Element>) {
    if element.is("x", ns::DATA) {
        return found.push(element.clone());
    }
    element.elements().for_each(|child| forms_in(child, found));
}

struct Play {
    world: HostWorld,
    found: Vec<Element>,
}

impl Play {
    /// The answer to a question. Its forms and those of all other stanzas that come of it are noted.
    fn say(&mut self, client: u64, xml: &str) -> Element {
        self.world.say(client, xml);
        let mut answer = None;
        for (number, stanzas) in self.world.got.drain() {
            stanzas.iter().for_each(|stanza| forms_in(stanza, &mut self.found));
            let mut answers = stanzas.into_iter().filter(|stanza| stanza.attr("id") == Some("f"));
            answer = if number == client { answers.next() } else { answer };
        }
        self.world.abroad.drain(..).for_each(|stanza| forms_in(&stanza, &mut self.found));
        answer.unwrap_or_else(|| Element::new("nothing", ns::CLIENT))
    }

    fn iq(&mut self, client: u64, kind: &str, to: &str, payload: &str) -> Element {
        self.say(client, &format!("<iq type='{kind}' id='f' to='{to}'>{payload}</iq>"))
    }

    /// It is asked for, filled in, and taken.
    fn fill(
        &mut self,
        client: u64,
        (get, to): (&str, &str),
        with: &[(&str, &str)],
        set: impl Fn(&str) -> String,
    ) {
        let answer = self.iq(client, "get", to, get);
        let mut forms = Vec::new();
        forms_in(&answer, &mut forms);
        let form = forms.pop().unwrap_or_else(|| panic!("no form in {answer}"));
        let done = self.iq(client, "set", to, &set(&filled(&form, with)));
        assert_eq!(done.attr("type"), Some("result"), "{done}");
    }
}

const ADMIN: &str = "admin@example.org";
const ROOM: &str = "cave@conference.example.org";

fn play() -> (Play, u64, u64) {
    let mut world = HostWorld::new(&[ADMIN, "bob@example.org"]);
    let mut settings = settings();
    settings.admins = vec![Bare::parse(ADMIN).unwrap()];
    settings.uploads = Some(UploadSettings { max_size: 10, per_day: 10 });
    let kinds = ["abuse", "admin", "feedback", "sales", "security", "status", "support"];
    settings.contacts =
        kinds.map(|kind| (format!("{kind}-addresses").into(), "mailto:a@example.org".into())).into();
    settings.invitations = InvitationSettings {
        by_users: true,
        by_admins: true,
        pages: Some("https://x".into()),
        ..InvitationSettings::default()
    };
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    let (admin, bob) = (world.sign_in("admin@example.org/desk"), world.sign_in("bob@example.org/phone"));
    let mut play = Play { world, found: Vec::new() };
    for client in [admin, bob] {
        play.say(client, "<presence/>");
    }
    (play, admin, bob)
}

fn rooms(play: &mut Play, admin: u64, bob: u64) {
    let enter = |nick: &str| format!("<presence to='{ROOM}/{nick}'><x xmlns='{}'/></presence>", ns::MUC);
    play.say(admin, &enter("a"));
    let owner = |inside: &str| format!("<query xmlns='{}'>{inside}</query>", ns::MUC_OWNER);
    let config = [
        ("muc#roomconfig_moderatedroom", "1"),
        ("muc#roomconfig_contactjid", "admin@example.org"),
        ("muc#roomconfig_lang", "en"),
        ("muc#roomconfig_pubsub", "xmpp:x"),
    ];
    play.fill(admin, (&owner(""), ROOM), &config, owner);
    // As it is, and as it is with a number that is not usual.
    play.fill(admin, (&owner(""), ROOM), &[], owner);
    play.fill(admin, (&owner(""), ROOM), &[("muc#roomconfig_maxusers", "33")], owner);
    play.fill(admin, (&owner(""), ROOM), &[], owner);
    play.say(admin, &format!("<message type='groupchat' to='{ROOM}'><subject>s</subject></message>"));
    play.say(bob, &enter("b"));
    play.iq(bob, "get", ROOM, &format!("<query xmlns='{}'/>", ns::DISCO_INFO));
    let register = |inside: &str| format!("<query xmlns='{}'>{inside}</query>", ns::REGISTER);
    play.fill(bob, (&register(""), ROOM), &[("muc#register_roomnick", "b")], register);
    let kind = "<field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#request</value></field>";
    let request = format!(
        "<x xmlns='jabber:x:data' type='submit'>{kind}<field var='muc#role'><value>participant</value></field></x>"
    );
    play.say(bob, &format!("<message to='{ROOM}'>{request}</message>"));
    let asked = play.found.iter().rev().find(|form| type_of(form).ends_with("muc#request")).unwrap();
    let granted = filled(asked, &[("muc#request_allow", "1")]);
    play.say(admin, &format!("<message to='{ROOM}'>{granted}</message>"));
    let list = format!("<query xmlns='{}'><item role='participant'/></query>", ns::MUC_ADMIN);
    assert!(play.iq(admin, "get", ROOM, &list).to_string().contains("nick='b'"), "voice is granted");
    let search = |form: &str| format!("<search xmlns='{}'>{form}</search>", ns::CHANNEL_SEARCH);
    let asked = play.iq(bob, "get", "conference.example.org", &search(""));
    let mut forms = Vec::new();
    forms_in(&asked, &mut forms);
    let found = search(&filled(&forms[0], &[("all", "true")]));
    let found = play.iq(bob, "get", "conference.example.org", &found);
    assert_eq!(found.attr("type"), Some("result"), "{found}");
}

fn nodes(play: &mut Play, admin: u64, bob: u64) {
    let service = "pubsub.example.org";
    let pubsub = |inside: &str| format!("<pubsub xmlns='{}'>{inside}</pubsub>", ns::PUBSUB);
    let of_owner = |inside: &str| format!("<pubsub xmlns='{}'>{inside}</pubsub>", ns::PUBSUB_OWNER);
    play.iq(admin, "set", service, &pubsub("<create node='n'/>"));
    play.iq(admin, "get", service, &of_owner("<default/>"));
    let configure = |form: &str| of_owner(&format!("<configure node='n'>{form}</configure>"));
    let config = [("pubsub#access_model", "authorize"), ("pubsub#notify_config", "1"), ("pubsub#title", "t")];
    play.fill(admin, (&configure(""), service), &config, configure);
    let atom = [("pubsub#type", "http://www.w3.org/2005/Atom")];
    play.fill(admin, (&configure(""), service), &atom, configure);
    play.fill(admin, (&configure(""), service), &[("pubsub#roster_groups_allowed", "g")], configure);
    play.fill(admin, (&configure(""), service), &[], configure);
    play.iq(bob, "get", service, &format!("<query xmlns='{}' node='n'/>", ns::DISCO_INFO));
    play.iq(bob, "set", service, &pubsub("<subscribe node='n' jid='bob@example.org'/>"));
    let asked = play.found.iter().rev().find(|form| type_of(form).ends_with("subscribe_authorization"));
    let granted = filled(asked.unwrap(), &[("pubsub#allow", "1")]);
    let told = play.say(admin, &format!("<message to='{service}'>{granted}</message>"));
    let subscriptions = play.iq(admin, "get", service, &of_owner("<subscriptions node='n'/>"));
    assert!(subscriptions.to_string().contains("subscription='subscribed'"), "{told} {subscriptions}");
    play.iq(bob, "get", service, &pubsub("<default/>"));
    let options = |form: &str| pubsub(&format!("<options node='n' jid='bob@example.org'>{form}</options>"));
    play.fill(bob, (&options(""), service), &[], options);
    play.fill(bob, (&options(""), service), &[("pubsub#expire", "2099-01-01T00:00:00Z")], options);
    // As it is, with an end.
    play.fill(bob, (&options(""), service), &[], options);
    // §8.2.5: subscribers are told of the configuration.
    play.fill(admin, (&configure(""), service), &[("pubsub#title", "u")], configure);
    collection(play, admin, bob);
}

fn collection(play: &mut Play, admin: u64, bob: u64) {
    let service = "pubsub.example.org";
    let pubsub = |inside: &str| format!("<pubsub xmlns='{}'>{inside}</pubsub>", ns::PUBSUB);
    let of_owner = |inside: &str| format!("<pubsub xmlns='{}'>{inside}</pubsub>", ns::PUBSUB_OWNER);
    let kind = "<x xmlns='jabber:x:data' type='submit'><field var='pubsub#node_type'><value>collection</value></field></x>";
    play.iq(admin, "set", service, &pubsub(&format!("<create node='c'/><configure>{kind}</configure>")));
    let configure = |form: &str| of_owner(&format!("<configure node='c'>{form}</configure>"));
    play.fill(admin, (&configure(""), service), &[("pubsub#children", "n")], configure);
    play.fill(admin, (&configure(""), service), &[], configure);
    play.iq(bob, "set", service, &pubsub("<subscribe node='c' jid='bob@example.org'/>"));
    let options = |form: &str| pubsub(&format!("<options node='c' jid='bob@example.org'>{form}</options>"));
    play.fill(bob, (&options(""), service), &[("pubsub#subscription_depth", "all")], options);
}

fn commands(play: &mut Play, admin: u64) {
    let items = format!("<query xmlns='{}' node='{}'/>", ns::DISCO_ITEMS, ns::COMMANDS);
    let list = play.iq(admin, "get", "example.org", &items);
    let nodes: Vec<String> =
        list.first().unwrap().elements().filter_map(|item| item.attr("node").map(str::to_owned)).collect();
    assert!(nodes.len() > 20, "{nodes:?}");
    for node in nodes {
        let command = |rest: &str, form: &str| {
            format!("<command xmlns='{}' node='{node}'{rest}>{form}</command>", ns::COMMANDS)
        };
        let mut answer = play.iq(admin, "set", "example.org", &command("", ""));
        let mut forms = Vec::new();
        forms_in(&answer, &mut forms);
        let executing = answer.first().filter(|command| command.attr("status") == Some("executing"));
        if let Some(session) = executing.and_then(|command| command.attr("sessionid")) {
            let new = if node.ends_with("add-user") { "carol@example.org" } else { "bob@example.org" };
            let form = filled(&forms[0], &[("accountjid", new), ("username", "dora")]);
            let rest = format!(" action='complete' sessionid='{session}'");
            answer = play.iq(admin, "set", "example.org", &command(&rest, &form));
        }
        let status = answer.first().and_then(|command| command.attr("status"));
        assert_eq!(status, Some("completed"), "{node}: {answer}");
    }
}

fn others(play: &mut Play, bob: u64) {
    play.iq(bob, "get", "example.org", &format!("<query xmlns='{}'/>", ns::DISCO_INFO));
    let query = |form: &str| format!("<query xmlns='{}'>{form}</query>", ns::MAM);
    let with =
        [("with", "bob@example.org"), ("start", "2020-01-01T00:00:00Z"), ("end", "2020-01-01T00:00:00Z")];
    let asked = play.iq(bob, "get", "bob@example.org", &query(""));
    let mut forms = Vec::new();
    forms_in(&asked, &mut forms);
    let form = filled(&forms[0], &with);
    // A field without a value needs no answer.
    let form = form.replace("<field var='ids'></field>", "");
    let done = play.iq(bob, "set", "bob@example.org", &query(&form));
    assert_eq!(done.attr("type"), Some("result"), "{done}");
    play.iq(
        bob,
        "get",
        "bob@example.org",
        &format!("<query xmlns='{}' node='{}'/>", ns::DISCO_INFO, ns::OFFLINE),
    );
    play.say(bob, &format!("<iq type='set' id='p'><enable xmlns='{}' jid='push.x.org'/></iq>", ns::PUSH));
    play.world.tell(|host, now, out| host.handle_gone(now, edge(bob), true, out));
    play.world.arrive("<message type='chat' from='a@x.org/1' to='bob@example.org'><body>x</body></message>");
    let abroad = std::mem::take(&mut play.world.abroad);
    abroad.iter().for_each(|stanza| forms_in(stanza, &mut play.found));
}

/// The registration form of a stream on which an account may be made.
fn registration() -> Element {
    let settings = c2s::C2sSettings {
        domains: vec!["example.org".into()],
        registration: true,
        max_stanza: 10_000,
        ..c2s::C2sSettings::default()
    };
    let security = Security { encrypted: true, ..Security::default() };
    let mut stream = C2s::new(Arc::new(settings), Framing::Messages, security, 1, "nonce".into());
    let mut out = c2s::Outbox::default();
    let open = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.org' version='1.0'/>";
    stream.handle_bytes(open.as_bytes(), &mut out);
    out.bytes.clear();
    let get = "<iq xmlns='jabber:client' type='get' id='r'><query xmlns='jabber:iq:register'/></iq>";
    stream.handle_bytes(get.as_bytes(), &mut out);
    xmpp::xml::parse(&out.bytes, &xmpp::xml::Prefixes::default()).unwrap()
}

/// Every form there is.
fn all_forms() -> Vec<Element> {
    let (mut play, admin, bob) = play();
    rooms(&mut play, admin, bob);
    nodes(&mut play, admin, bob);
    others(&mut play, bob);
    let bob = play.world.sign_in("bob@example.org/phone");
    play.say(bob, "<presence/>");
    commands(&mut play, admin);
    forms_in(&registration(), &mut play.found);
    play.found
}

#[test]
fn each_field_has_the_type_of_its_registry() {
    let forms = all_forms();
    let mut faults: Vec<String> = forms.iter().flat_map(faults).collect();
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for Registry { form, source, .. } in REGISTRIES {
        assert!(forms.iter().any(|found| type_of(found) == *form), "{form} of {source} was not seen");
    }
    for (form, var, _) in UNREGISTERED {
        let is_it = |found: &&Element| type_of(found) == *form;
        let has = |found: &Element| fields(found).any(|field| field.attr("var") == Some(var));
        assert!(forms.iter().filter(is_it).any(has), "{form} {var} was not seen");
    }
}

#[test]
fn no_form_is_made_anywhere_else() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().unwrap() != "tests" {
                sources(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
                found.push(path);
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in ["chat", "muc", "pubsub", "xmpp"] {
        sources(&root.join(name).join("src"), &mut found);
    }
    let makes = |path: &&std::path::PathBuf| {
        std::fs::read_to_string(path).unwrap().contains("Element::new(\"x\", ns::DATA)")
    };
    let mut made: Vec<String> = found
        .iter()
        .filter(makes)
        .map(|path| path.strip_prefix(root).unwrap().display().to_string())
        .collect();
    made.sort();
    assert_eq!(made, SOURCES);
}
