//! Sign-in by sources outside the database: a directory (OpenLDAP's server), an HTTP service, tokens, a file of accounts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use interop::{OpenIdFault, OpenIdProvider, Slapd};
use sha2::Sha256;
use sip::transport::Transport::{Tls, Udp};
use xmpp::{Element, ns};

use super::client::Client;
use super::registration::{ask, is_refused, operate, wanted};
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::Place;
use crate::until;

fn mechanisms(features: &Element) -> Vec<String> {
    let offered = features.get("mechanisms", ns::SASL);
    offered.into_iter().flat_map(Element::elements).map(|name| name.content().into_owned()).collect()
}

/// A node whose users are in that directory.
fn place_of(slapd: &Slapd, more: &str) -> Place {
    let source = format!(
        "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"ldap\"\nurl = \"ldap://localhost:{}\"\nstarttls = true\n\
         ca = {:?}\nbind_dn = \"{}\"\nbind_password_file = {:?}\nbase = \"{}\"\nfilter = \"(uid={{user}})\"\n\
         timeout = \"2s\"\nremember = \"0s\"\n{more}",
        slapd.port,
        slapd.authorities(),
        Slapd::SEARCHER,
        slapd.password_file(),
        Slapd::BASE,
    );
    Place::new("").with_xmpp(&source)
}

fn opened(place: &Place) -> (Client, Element) {
    let mut client = Client::connect(place, Tls);
    let features = client.open();
    (client, features)
}

fn condition(answer: &Element) -> String {
    assert!(answer.is("failure", ns::SASL), "{answer}");
    answer.elements().next().map(|condition| condition.name().to_owned()).unwrap_or_default()
}

#[test]
fn a_user_of_the_directory_signs_in_and_has_an_account_from_then_on() {
    let slapd = Slapd::start(&[("alice", "wonderland"), ("bob", "builder")]);
    let place = place_of(&slapd, "");
    let mut node = place.start();
    let (mut alice, features) = opened(&place);
    assert_eq!(mechanisms(&features), ["PLAIN"], "{features}");
    assert!(!features.to_string().contains("urn:xmpp:fast:0"), "no tokens: {features}");
    assert!(alice.plain("alice", "wonderland").is("success", ns::SASL));
    alice.open();
    alice.bind("desk");
    assert!(operate(&place, &["account", "list"]).contains("alice"), "it was made");
    alice.say("<presence/>");
    assert!(alice.hear().is("presence", ns::CLIENT), "her own, so that messages come to her");
    let (mut bob, _) = opened(&place);
    assert!(bob.plain("bob", "builder").is("success", ns::SASL));
    bob.open();
    bob.bind("desk");
    bob.message(&format!("alice@{DOMAIN}"), "hello");
    let message = alice.hear();
    assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some("hello"), "{message}");
    let (mut again, _) = opened(&place);
    assert!(again.plain("alice", "wonderland").is("success", ns::SASL), "and is found the second time");
    node.stop();
}

#[test]
fn a_password_that_the_directory_refuses_is_not_authorized_and_one_that_it_cannot_check_is_a_temporary_failure()
 {
    let mut slapd = Slapd::start(&[("alice", "wonderland"), ("bob", "builder")]);
    let place = place_of(&slapd, "").with_accounts(&["carol"]);
    let mut node = place.start();
    let (mut client, _) = opened(&place);
    assert_eq!(condition(&client.plain("alice", "builder")), "not-authorized");
    let (mut client, _) = opened(&place);
    // Her password in the database counts for her phones only.
    assert_eq!(condition(&client.plain("carol", PASSWORD)), "not-authorized");
    assert!(!operate(&place, &["account", "list"]).contains("alice"), "no account is made without a sign-in");
    let (mut client, _) = opened(&place);
    assert!(client.plain("bob", "builder").is("success", ns::SASL));
    operate(&place, &["account", "disable", &format!("bob@{DOMAIN}")]);
    let (mut client, _) = opened(&place);
    assert_eq!(condition(&client.plain("bob", "builder")), "not-authorized", "the account is disabled here");
    slapd.stop();
    let (mut client, _) = opened(&place);
    assert_eq!(condition(&client.plain("alice", "wonderland")), "temporary-auth-failure");
    node.stop();
}

#[test]
fn a_phone_signs_in_by_the_last_right_password_where_its_digests_are_kept() {
    let slapd = Slapd::start(&[("alice", PASSWORD), ("bob", PASSWORD)]);
    let place = place_of(&slapd, "keep_digests = \"30d\"\n");
    let mut node = place.start();
    let (mut client, _) = opened(&place);
    assert!(client.plain("alice", PASSWORD).is("success", ns::SASL));
    let mut phone = place.phone("alice", Udp);
    phone.register();
    let mut phone = place.phone("bob", Udp);
    let ask = phone.registration("");
    assert_ne!(phone.request(ask).status(), 200, "no right password of this user has been seen here");
    node.stop();
}

#[test]
fn registration_cannot_take_the_name_of_a_directory_user() {
    let slapd = Slapd::start(&[("alice", "wonderland")]);
    let place = place_of(&slapd, "[xmpp.registration]\nopen = true\nchange_password = true\n");
    let mut node = place.start();
    let (mut client, features) = opened(&place);
    assert!(!features.to_string().contains("iq-register"), "{features}");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("alice", "another password")), "not-allowed");
    assert!(client.plain("alice", "wonderland").is("success", ns::SASL));
    client.open();
    client.bind("desk");
    is_refused(&ask(&mut client, "set", DOMAIN, &wanted("alice", "another password")), "not-allowed");
    node.stop();
}

/// `wonderland`, as PostgreSQL keeps it, and as `slappasswd` and `mkpasswd -m sha-512` write it.
const SCRAM: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$KIjVe2QEmZMSVxwO8QpqUhDHxuYOXfER1PAQtzaUCMM=:z7UOoEZsx6BoXyYDRvW7B9QBsa0utqNNtn+9RTLsaWc=";
const SSHA: &str = "{SSHA}JQgdTqjowIvpsbtICxnkg0t7E6xzYWx0c2FsdHNhbHRzYWx0";
const SHA_CRYPT: &str =
    "$6$saltsalt$pqxtaP8VN9msji06dnBCbUbaSGTOXyo9jZDqZxik1rPexoqRIW4UKuiD0ZHZchCSd7S4/HoRU8bcFbnz2ihUr.";

/// A node whose users are in the file `people`, with this content.
fn place_of_file(content: &str) -> Place {
    let source =
        format!("[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"file\"\naccounts_file = \"people\"\n");
    let place = Place::new("").with_xmpp(&source);
    std::fs::write(place.path("people"), content).unwrap();
    place
}

#[test]
fn users_of_a_file_with_keys_sign_in_by_scram_and_by_password() {
    let place = place_of_file(&format!("alice:{SCRAM}:Alice Liddell:staff\nbob:{SCRAM}\n"));
    let mut node = place.start();
    let (mut alice, features) = opened(&place);
    assert_eq!(mechanisms(&features), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN"], "{features}");
    assert!(!features.to_string().contains("urn:xmpp:fast:0"), "no tokens: {features}");
    let exporter = alice.exporter();
    let answer = alice.scram("alice", "wonderland", Some(("tls-exporter", &exporter)));
    assert!(answer.is("success", ns::SASL), "{answer}");
    alice.open();
    alice.bind("desk");
    let accounts = operate(&place, &["account", "list"]);
    assert!(accounts.contains("alice") && accounts.contains("Alice Liddell"), "{accounts}");
    let (mut bob, _) = opened(&place);
    assert!(bob.plain("bob", "wonderland").is("success", ns::SASL));
    for (user, password) in [("alice", "Wonderland"), ("carol", "wonderland")] {
        let (mut client, _) = opened(&place);
        assert_eq!(condition(&client.scram(user, password, None)), "not-authorized", "{user}");
        let (mut client, _) = opened(&place);
        assert_eq!(condition(&client.plain(user, password)), "not-authorized", "{user}");
    }
    assert!(!operate(&place, &["account", "list"]).contains("carol"), "the file does not know her");
    operate(&place, &["account", "disable", &format!("bob@{DOMAIN}")]);
    let (mut client, _) = opened(&place);
    assert_eq!(condition(&client.scram("bob", "wonderland", None)), "not-authorized", "disabled here");
    let mut phone = place.phone("alice", Udp);
    let ask = phone.registration("");
    assert_ne!(
        phone.request(ask).status(),
        200,
        "the file has nothing that SIP digest could be checked with"
    );
    node.stop();
}

#[test]
fn a_changed_file_counts_at_once_and_a_bad_one_changes_nothing() {
    let place = place_of_file(&format!("alice:{SCRAM}\nbob:{SCRAM}\n"));
    let process = place.spawn();
    let (mut alice, _) = opened(&place);
    assert!(alice.plain("alice", "wonderland").is("success", ns::SASL), "and the password is remembered");
    alice.open();
    alice.bind("desk");
    alice.say("<presence/>");
    assert!(alice.hear().is("presence", ns::CLIENT));
    let offered = || mechanisms(&opened(&place).1);
    std::fs::write(place.path("people"), format!("bob:{SSHA}\ncarol:{SHA_CRYPT}\n")).unwrap();
    until("keys are not offered any more", || (offered() == ["PLAIN"]).then_some(()));
    let (mut again, _) = opened(&place);
    assert_eq!(condition(&again.plain("alice", "wonderland")), "not-authorized", "she is not in the file");
    for user in ["bob", "carol"] {
        let (mut client, _) = opened(&place);
        assert!(client.plain(user, "wonderland").is("success", ns::SASL), "{user}");
    }
    let own = alice.jid.clone();
    alice.message(&own, "still there");
    let message = alice.hear();
    assert_eq!(
        message.content_of("body", ns::CLIENT).as_deref(),
        Some("still there"),
        "as with other sources"
    );
    std::fs::write(place.path("people"), "bob:hush\n").unwrap();
    std::fs::write(place.path("people"), format!("bob:hush\nalice:{SCRAM}\n")).unwrap();
    let (mut client, _) = opened(&place);
    assert!(client.plain("bob", "wonderland").is("success", ns::SASL), "the last good content counts");
    std::fs::write(place.path("people"), format!("alice:{SCRAM}\n")).unwrap();
    until("keys are offered again", || (offered()[0] == "SCRAM-SHA-256-PLUS").then_some(()));
    let (mut client, _) = opened(&place);
    assert!(client.scram("alice", "wonderland", None).is("success", ns::SASL));
    process.kill();
}

const SECRET: &[u8] = b"a secret of more than thirty-two bytes";

fn token(user: &str, audience: &str) -> String {
    token_of(&format!("{{\"iss\":\"i\",\"aud\":\"{audience}\",\"exp\":4000000000,\"sub\":\"{user}\"}}"))
}

fn token_of(claims: &str) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", encode("{\"alg\":\"HS256\"}"), encode(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
    mac.update(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn bearer(client: &mut Client, token: &str) -> Element {
    client.auth("OAUTHBEARER", format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}").as_bytes())
}

#[test]
fn a_token_of_the_provider_signs_its_user_in() {
    let place = Place::new("").with_xmpp(&format!(
        "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"jwt\"\nkeys_file = \"keys.json\"\nissuer = \"i\"\naudience = \"belfry\"\n"
    ));
    let keys = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{}\"}}]}}", URL_SAFE_NO_PAD.encode(SECRET));
    std::fs::write(place.path("keys.json"), keys).unwrap();
    let _node = place.spawn();
    let (mut client, features) = opened(&place);
    assert_eq!(mechanisms(&features), ["OAUTHBEARER"], "{features}");
    let challenge = bearer(&mut client, &token("alice", "another service"));
    assert!(challenge.is("challenge", ns::SASL), "{challenge}");
    client.say("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AQ==</response>");
    assert_eq!(condition(&client.hear()), "not-authorized");
    let right = bearer(&mut client, &token("alice", "belfry"));
    assert!(right.is("success", ns::SASL), "{right}");
    client.open();
    client.bind("desk");
    assert_eq!(client.jid, format!("alice@{DOMAIN}/desk"));
    until("both verdicts are counted", || {
        let mut socket = TcpStream::connect(place.http()).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut metrics = String::new();
        socket.read_to_string(&mut metrics).unwrap();
        let counted = |verdict: &str| {
            let label = format!("verdict=\"{verdict}\"}} 1");
            metrics.lines().any(|line| {
                line.starts_with("belfry_xmpp_external_sign_ins_total{") && line.ends_with(&label)
            })
        };
        (counted("accepted") && counted("refused")).then_some(())
    });
}

/// A request to the console about the session, and its answer: status, cookie, body.
fn ask_console(port: u16, method: &str, cookie: &str, body: &str) -> (String, String, String) {
    ask_with(port, &format!("{method} /v1/admin/session"), &format!("Cookie: {cookie}"), body)
}

/// The same for any request, with a header field.
fn ask_with(port: u16, request: &str, field: &str, body: &str) -> (String, String, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "{request} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{field}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_default();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (head.split(' ').nth(1).unwrap().to_owned(), cookie, body.to_owned())
}

#[test]
fn a_group_of_the_directory_gives_a_role_at_the_console_until_the_user_leaves_it() {
    let slapd = Slapd::start(&[("alice", "wonderland"), ("bob", "builder")]);
    slapd.add_group("desk", &["alice", "bob"]);
    let port = interop::free_port();
    let groups = format!(
        "groups = {{ base = \"{}\", filter = \"(objectClass=groupOfNames)\", operators = [\"desk\"], refresh = \"10s\" }}\n\
         [console]\nlisten = \"127.0.0.1:{port}\"\n",
        Slapd::GROUPS
    );
    let place = place_of(&slapd, &groups);
    let process = place.spawn();
    let sign_in = |user: &str, password: &str| {
        let body = format!("{{\"account\": \"{user}@{DOMAIN}\", \"password\": \"{password}\"}}");
        ask_console(port, "POST", "", &body)
    };
    assert_eq!(sign_in("alice", "builder").0, "401");
    let (status, cookie, body) = sign_in("alice", "wonderland");
    assert!(status == "200" && body.contains("\"role\":\"operator\""), "{status} {body}\n{}", process.log());
    assert_eq!(ask_console(port, "GET", &cookie, "").0, "200");
    slapd.set_members("desk", &["bob"]);
    until("her session ends", || (ask_console(port, "GET", &cookie, "").0 == "401").then_some(()));
    assert_eq!(sign_in("alice", "wonderland").0, "403");
    assert_eq!(sign_in("bob", "builder").0, "200");
    let log = process.log();
    let line =
        log.lines().find(|line| line.contains("role of a directory") && line.contains("before=\"operator\""));
    assert!(
        line.is_some_and(|line| line.contains("belfry::audit") && line.contains(&format!("alice@{DOMAIN}"))),
        "{log}"
    );
    process.kill();
}

/// A node whose console takes tokens: the value `desk` of a claim makes operators, and `staff` readers.
fn place_of_tokens(port: u16, more: &str) -> Place {
    let place = Place::new("").with_xmpp(&format!(
        "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"jwt\"\nkeys_file = \"keys.json\"\nissuer = \"i\"\naudience = \"belfry\"\n\
         roles = {{ claim = \"realm_access.roles\", operators = [\"desk\"], readers = [\"staff\"] }}\n\
         [console]\nlisten = \"127.0.0.1:{port}\"\n{more}"
    ));
    let keys = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{}\"}}]}}", URL_SAFE_NO_PAD.encode(SECRET));
    std::fs::write(place.path("keys.json"), keys).unwrap();
    place
}

/// A token with a value of the claim, that ends at this second.
fn role_token(user: &str, end: u64, value: &str) -> String {
    let access = format!("{{\"roles\":[\"offline_access\",\"{value}\"]}}");
    token_of(&format!(
        "{{\"iss\":\"i\",\"aud\":\"belfry\",\"exp\":{end},\"sub\":\"{user}\",\"realm_access\":{access}}}"
    ))
}

/// The end of tokens that last.
const NEVER: u64 = 4_000_000_000;

/// A request to the console with a token: its status and body.
fn ask_by_token(port: u16, request: &str, token: &str, body: &str) -> (String, String) {
    let (status, _, body) = ask_with(port, request, &format!("Authorization: Bearer {token}"), body);
    (status, body)
}

#[test]
fn a_claim_of_a_token_gives_a_role_at_the_console() {
    let port = interop::free_port();
    let place = place_of_tokens(port, "");
    let process = place.spawn();
    let sign_in = |user: &str, token: &str| {
        let body = format!("{{\"account\": \"{user}@{DOMAIN}\", \"password\": \"{token}\"}}");
        ask_console(port, "POST", "", &body)
    };
    let (status, cookie, body) = sign_in("alice", &role_token("alice", NEVER, "desk"));
    assert!(status == "200" && body.contains("\"role\":\"operator\""), "{status} {body}\n{}", process.log());
    assert_eq!(ask_console(port, "GET", &cookie, "").0, "200");
    assert_eq!(sign_in("bob", &role_token("alice", NEVER, "desk")).0, "401", "another user's");
    assert_eq!(sign_in("alice", &role_token("alice", 1, "desk")).0, "401", "over");
    assert_eq!(sign_in("alice", &role_token("alice", NEVER, "other")).0, "403");
    let add = format!("{{\"address\": \"carol@{DOMAIN}\", \"password\": \"{PASSWORD}\"}}");
    let (reader, operator) = (role_token("rita", NEVER, "staff"), role_token("alice", NEVER, "desk"));
    assert_eq!(ask_by_token(port, "GET /v1/admin/accounts", &reader, "").0, "200");
    assert_eq!(
        ask_by_token(port, "POST /v1/admin/accounts", &reader, &add).0,
        "403",
        "a reader may not write"
    );
    let (status, body) = ask_by_token(port, "POST /v1/admin/accounts", &operator, &add);
    assert_eq!(status, "200", "{body}");
    let over = role_token("alice", 1, "desk");
    assert_eq!(ask_by_token(port, "GET /v1/admin/accounts", &over, "").0, "401");
    let log = process.log();
    let is_line = |line: &&str| {
        line.contains("belfry::audit")
            && line.contains("action=\"SignIn\"")
            && line.contains("subject=\"token\"")
            && line.contains("role=\"read-only\"")
    };
    assert_eq!(log.lines().filter(is_line).count(), 1, "{log}");
    assert!(!log.contains(&reader), "no token is in the log");
    process.kill();
}

#[test]
fn a_reader_sees_shared_groups_and_their_members_at_the_console() {
    let port = interop::free_port();
    let group = format!(
        "[[xmpp.groups]]\nname = \"office\"\nlabel = \"The Office\"\nmembers = [\"bob@{DOMAIN}\", \"alice@{DOMAIN}\"]\n"
    );
    let place = place_of_tokens(port, &group);
    let process = place.spawn();
    let reader = role_token("rita", NEVER, "staff");
    let row = "{\"directory\":null,\"everyone\":[],\"label\":\"The Office\",\"members\":2,\"name\":\"office\",\"named\":2,\"shown_to\":[\"office\"]}";
    let all = ask_by_token(port, "GET /v1/admin/roster-groups", &reader, "");
    let expected = format!("{{\"groups\":[{row}],\"has_more\":false,\"total\":1}}");
    assert_eq!(all, ("200".to_owned(), expected), "{}", process.log());
    let one = ask_by_token(port, "GET /v1/admin/roster-groups/office?limit=1", &reader, "");
    let expected = format!("{{\"group\":{row},\"has_more\":true,\"members\":[\"alice@{DOMAIN}\"]}}");
    assert_eq!(one, ("200".to_owned(), expected));
    assert_eq!(ask_by_token(port, "GET /v1/admin/roster-groups/none", &reader, "").0, "404");
    process.kill();
}

/// The roster of the client, as its shared groups are by now: pushes that came before are passed over.
fn roster(client: &mut Client) -> String {
    client.say("<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>");
    loop {
        let heard = client.hear();
        if heard.attr("id") == Some("roster") {
            return heard.to_string();
        }
    }
}

#[test]
fn members_of_a_group_of_the_directory_have_each_other_in_their_rosters_until_one_leaves_it() {
    let slapd = Slapd::start(&[("alice", "wonderland"), ("bob", "builder"), ("carol", "song")]);
    slapd.add_group("eng", &["alice", "bob"]);
    let more = format!(
        "groups = {{ base = \"{}\", filter = \"(objectClass=groupOfNames)\" }}\n\
         [[xmpp.groups]]\nname = \"eng\"\nlabel = \"Engineers\"\ndirectory = {{ domain = \"{DOMAIN}\", group = \"eng\" }}\n\
         [[xmpp.groups]]\nname = \"all\"\nlabel = \"Everyone\"\neveryone = [\"{DOMAIN}\"]\n",
        Slapd::GROUPS
    );
    let place = place_of(&slapd, &more).with_accounts(&["alice", "bob", "carol"]);
    let process = place.spawn();
    let (mut alice, _) = opened(&place);
    assert!(alice.plain("alice", "wonderland").is("success", ns::SASL));
    alice.open();
    alice.bind("desk");
    let item = |name: &str, groups: &[&str]| {
        let groups: String = groups.iter().map(|group| format!("<group>{group}</group>")).collect();
        format!("<item jid='{name}@{DOMAIN}' subscription='both'>{groups}</item>")
    };
    // The accounts are known before the first client, the directory is asked after the start.
    assert!(roster(&mut alice).contains(&item("carol", &["Everyone"])), "{}", process.log());
    let both = item("bob", &["Engineers", "Everyone"]);
    until("the directory has named its members", || roster(&mut alice).contains(&both).then_some(()));
    assert!(!roster(&mut alice).contains(&item("carol", &["Engineers", "Everyone"])));
    slapd.set_members("eng", &["alice", "carol"]);
    operate(&place, &["reload"]);
    let (left, came) = (item("bob", &["Everyone"]), item("carol", &["Engineers", "Everyone"]));
    until("the group has other members", || {
        let roster = roster(&mut alice);
        (roster.contains(&left) && roster.contains(&came)).then_some(())
    });
    process.kill();
}

/// A GET of a browser at the console: status, the way on, and the cookie that it sets.
fn browse(port: u16, path: &str, cookie: &str) -> (String, String, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let field = |name: &str| {
        let value = answer.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.split(';').next().unwrap().trim().to_owned()
    };
    (answer.split(' ').nth(1).unwrap().to_owned(), field("location: "), field("set-cookie: "))
}

#[test]
fn a_browser_signs_in_at_the_console_by_an_openid_provider() {
    let provider = OpenIdProvider::start(serde_json::json!({ "sub": "alice", "groups": ["desk"] }));
    provider.set_secret("of-the-console", false);
    let port = interop::free_port();
    let place = Place::new("").with_xmpp(&format!(
        "[[accounts.sources]]\ndomain = \"{DOMAIN}\"\ntype = \"jwt\"\nkeys_url = \"{}\"\nissuer = \"{}\"\n\
         audience = \"belfry\"\ntimeout = \"2s\"\nroles = {{ operators = [\"desk\"] }}\n\
         provider = {{ client_id = \"console\", client_secret_file = \"openid.secret\", label = \"Example\" }}\n\
         [console]\nlisten = \"127.0.0.1:{port}\"\n",
        provider.keys_url(),
        provider.issuer()
    ));
    std::fs::write(place.path("openid.secret"), "of-the-console\n").unwrap();
    let process = place.spawn();
    let begin = || {
        let (status, page, cookie) = browse(port, &format!("/sign-in/begin?domain={DOMAIN}"), "");
        assert_eq!(status, "302", "{}", process.log());
        (page, cookie)
    };
    // The path of the way back.
    let visit = |page: &str| {
        let back = provider.visit(page);
        back.strip_prefix(&format!("http://127.0.0.1:{port}")).expect("back to the console").to_owned()
    };
    let (page, cookie) = begin();
    let back = visit(&page);
    let (_, reason, _) = browse(port, &back, "");
    assert_eq!(reason, "/?sign_in=expired", "another browser");
    let (status, to, session) = browse(port, &back, &cookie);
    assert_eq!((&*status, &*to), ("302", "/"), "{}", process.log());
    let (status, _, body) = ask_console(port, "GET", &session, "");
    assert!(status == "200" && body.contains("\"role\":\"operator\""), "{status} {body}");
    assert_eq!(browse(port, &back, &cookie).1, "/?sign_in=not_accepted", "the code is used");
    for (fault, expected) in [
        (OpenIdFault::OtherNonce, "/?sign_in=not_accepted"),
        (OpenIdFault::Expired, "/?sign_in=not_accepted"),
        (OpenIdFault::OtherAudience, "/?sign_in=not_accepted"),
        (OpenIdFault::Broken, "/?sign_in=unavailable"),
        (OpenIdFault::Huge, "/?sign_in=unavailable"),
        (OpenIdFault::Silent, "/?sign_in=unavailable"),
        (OpenIdFault::None, "/"),
    ] {
        let (page, cookie) = begin();
        let back = visit(&page);
        provider.set_fault(fault);
        assert_eq!(browse(port, &back, &cookie).1, expected, "{fault:?}");
        provider.set_fault(OpenIdFault::None);
    }
    provider.set_claims(serde_json::json!({ "sub": "bob" }));
    let (page, cookie) = begin();
    assert_eq!(browse(port, &visit(&page), &cookie).1, "/?sign_in=no_role");
    provider.refuse_users();
    let (page, cookie) = begin();
    assert_eq!(browse(port, &visit(&page), &cookie).1, "/?sign_in=denied");
    let log = process.log();
    for secret in ["of-the-console", "code-1", &session] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    process.kill();
}
