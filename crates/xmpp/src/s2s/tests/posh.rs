//! Certificates that no authority signed for their domain, proved by POSH (RFC 7711), in both directions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

use super::bad::TestCaller;
use super::*;
use crate::limits;

const URL_OF_A: &str = "https://a.test/.well-known/posh/xmpp-server.json";
const URL_OF_B: &str = "https://b.test/.well-known/posh/xmpp-server.json";

/// A document with the fingerprint of that certificate.
fn document(der: &[u8], expires: u64) -> WebAnswer {
    let fingerprint = BASE64_STANDARD.encode(Sha256::digest(der));
    WebAnswer::Body(format!(r#"{{"fingerprints":[{{"sha-256":"{fingerprint}"}}],"expires":{expires}}}"#))
}

fn reference(url: &str, expires: u64) -> WebAnswer {
    WebAnswer::Body(format!(r#"{{"url":"{url}","expires":{expires}}}"#))
}

/// a.test and b.test, whose certificates no authority signed. Node `demands` has a demand of certificates.
fn world(seed: u64, demands: &[usize]) -> FederationWorld {
    let mut world = FederationWorld::new(seed, &[&["a.test"], &["b.test"]]);
    for node in 0..2 {
        let is_demanded = demands.contains(&node);
        world.set(node, |settings| {
            settings.posh = true;
            settings.policy.require_certificate = is_demanded;
        });
    }
    world.nodes[0].presented = Some(CertificateHashes::of(b"a"));
    world.nodes[1].presented = Some(CertificateHashes::of(b"b"));
    world
}

fn publish(world: &mut FederationWorld, url: &str, answer: WebAnswer) {
    world.web.insert(url.into(), answer);
}

fn connected(by: Proof, peer: Option<Proof>) -> S2sStreamEvent {
    S2sStreamEvent::Connected { by, peer, is_encrypted: true }
}

fn accepted(by: Proof) -> S2sStreamEvent {
    S2sStreamEvent::Accepted { by, is_encrypted: true }
}

/// The addresses that a node has fetched.
fn fetched(world: &FederationWorld, node: usize) -> Vec<&str> {
    let of_node = world.fetches.iter().filter(|(by, ..)| *by == node);
    of_node.map(|(_, _, fetch)| &*fetch.url).collect()
}

/// RFC 7712 §5: instead of names in the certificate, for SASL EXTERNAL too.
#[test]
fn posh_proves_both_servers_to_each_other() {
    for seed in 0..30 {
        let mut world = world(seed, &[0, 1]);
        publish(&mut world, URL_OF_A, document(b"a", 600));
        publish(&mut world, URL_OF_B, document(b"b", 600));
        world.message(0, "alice@a.test/x", "bob@b.test", "1");
        world.run();
        assert_eq!(world.got(1), ["1"], "seed {seed}");
        assert_eq!(world.proofs(0), [connected(Proof::Certificate, Some(Proof::Posh))]);
        assert_eq!(world.proofs(1), [accepted(Proof::Posh)]);
        assert_eq!(
            (world.dialled, fetched(&world, 0), fetched(&world, 1)),
            (1, vec![URL_OF_B], vec![URL_OF_A])
        );
        assert_eq!(world.sum(0, |counts| counts.posh_proved), 1);
        assert_eq!(world.sum(1, |counts| counts.posh_proved), 1);
        world.message(1, "bob@b.test/y", "alice@a.test/x", "2");
        world.run();
        assert_eq!(world.got(0), ["2"]);
    }
}

#[test]
fn a_wrong_fingerprint_proves_nothing() {
    let mut of_b = world(1, &[0]);
    publish(&mut of_b, URL_OF_B, document(b"another", 600));
    of_b.message(0, "alice@a.test/x", "bob@b.test", "1");
    of_b.run();
    assert_eq!(of_b.got(0), ["1 remote-server-not-found"]);
    assert!(of_b.nodes[0].delivered[0].to_string().contains("no valid certificate"));
    let mut of_a = world(1, &[1]);
    publish(&mut of_a, URL_OF_A, document(b"another", 600));
    of_a.message(0, "alice@a.test/x", "bob@b.test", "1");
    of_a.run();
    assert_eq!((of_a.got(0), of_a.got(1)), (vec!["1 remote-server-not-found".to_owned()], vec![]));
}

#[test]
fn a_document_that_has_ended_or_is_too_weak_proves_nothing() {
    let sha1 =
        format!(r#"{{"fingerprints":[{{"sha-1":"{}"}}],"expires":600}}"#, BASE64_STANDARD.encode([7; 20]));
    let without = WebAnswer::Body(r#"{"fingerprints":[]}"#.into());
    for answer in [document(b"b", 0), without, WebAnswer::Body(sha1), WebAnswer::Body("<html/>".into())] {
        let mut world = world(2, &[0]);
        publish(&mut world, URL_OF_B, answer.clone());
        world.message(0, "alice@a.test/x", "bob@b.test", "1");
        world.run();
        assert_eq!(world.got(0), ["1 remote-server-not-found"], "{answer:?}");
        assert_eq!(world.sum(0, |counts| counts.posh_failures), 1);
    }
}

/// RFC 7711 §3.2 and §6.
#[test]
fn one_reference_is_followed_and_the_shorter_time_counts() {
    const HOSTING: &str = "https://hosting.test/.well-known/posh/xmpp-server.json";
    for (of_reference, of_document) in [(60, 600), (600, 60)] {
        let mut world = world(3, &[0, 1]);
        publish(&mut world, URL_OF_A, document(b"a", 600));
        publish(&mut world, URL_OF_B, reference(HOSTING, of_reference));
        publish(&mut world, HOSTING, document(b"b", of_document));
        world.message(0, "alice@a.test/x", "bob@b.test", "1");
        world.run();
        assert_eq!(world.got(1), ["1"]);
        assert_eq!(fetched(&world, 0), [URL_OF_B, HOSTING]);
        // Remembered for a minute and no longer.
        for (wait, fetches) in [(50, 2), (20, 4)] {
            world.pass(Duration::from_secs(wait));
            world.hang_up(world.wires.len() - 1);
            world.message(0, "alice@a.test/x", "bob@b.test", "2");
            world.run();
            assert_eq!(fetched(&world, 0).len(), fetches, "{:?}", world.fetches);
        }
    }
}

#[test]
fn a_reference_that_leads_to_a_reference_proves_nothing() {
    const FIRST: &str = "https://one.test/posh.json";
    let mut world = world(4, &[1]);
    publish(&mut world, URL_OF_A, reference(FIRST, 600));
    publish(&mut world, FIRST, reference("https://two.test/posh.json", 600));
    publish(&mut world, "https://two.test/posh.json", document(b"a", 600));
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!((world.got(1), fetched(&world, 1)), (Vec::<String>::new(), vec![URL_OF_A, FIRST]));
}

#[test]
fn a_web_server_that_is_down_is_asked_again_only_after_a_while() {
    let mut world = world(5, &[0]);
    publish(&mut world, URL_OF_B, WebAnswer::Down);
    for _ in 0..20 {
        world.message(0, "alice@a.test/x", "bob@b.test", "1");
        world.pass(Duration::from_secs(14));
    }
    assert!(world.dialled > 3, "{}", world.dialled);
    assert_eq!(fetched(&world, 0), [URL_OF_B]);
    publish(&mut world, URL_OF_B, document(b"b", 600));
    world.pass(Duration::from_secs(300));
    world.message(0, "alice@a.test/x", "bob@b.test", "now");
    world.run();
    assert_eq!(world.got(1), ["now"]);
}

#[test]
fn a_slow_web_server_delays_a_stream_that_needs_it_for_seconds_only() {
    let mut demanding = world(6, &[0]);
    publish(&mut demanding, URL_OF_B, WebAnswer::Silent);
    demanding.message(0, "alice@a.test/x", "bob@b.test", "1");
    demanding.pass(limits::POSH_TIME - Duration::from_secs(1));
    assert_eq!(demanding.got(0), Vec::<String>::new(), "it waits");
    demanding.pass(Duration::from_secs(2));
    assert_eq!(demanding.got(0), ["1 remote-server-not-found"]);
    // The answer that comes too late is not taken.
    let (node, shard, fetch) = demanding.fetches[0].clone();
    let late = Ok(br#"{"fingerprints":[],"expires":1}"#.to_vec());
    demanding.tell(node, shard, |servers, now, out| servers.handle_posh(now, &fetch, late, out));
    assert_eq!(demanding.sum(0, |counts| counts.posh_failures), 1);
}

/// Dialback does then, as without POSH.
#[test]
fn a_slow_web_server_hardly_delays_a_stream_that_can_do_without() {
    let mut world = world(7, &[]);
    publish(&mut world, URL_OF_A, WebAnswer::Silent);
    publish(&mut world, URL_OF_B, WebAnswer::Silent);
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.pass(limits::POSH_HOLD * 4);
    assert_eq!(world.got(1), ["1"]);
    assert!(world.proofs(0).contains(&connected(Proof::Dialback, None)), "{:?}", world.proofs(0));
    assert!(world.proofs(1).contains(&accepted(Proof::Dialback)), "{:?}", world.proofs(1));
    world.pass(Duration::from_secs(20));
    assert!(world.sum(0, |counts| counts.posh_failures) >= 1);
    assert_eq!(world.sum(0, |counts| counts.posh_proved), 0);
}

#[test]
fn where_no_certificate_is_demanded_posh_still_proves_one() {
    let mut world = world(8, &[]);
    publish(&mut world, URL_OF_A, document(b"a", 600));
    publish(&mut world, URL_OF_B, document(b"b", 600));
    world.message(0, "alice@a.test/x", "bob@b.test", "1");
    world.run();
    assert_eq!((world.proofs(0), world.dialled), (vec![connected(Proof::Certificate, Some(Proof::Posh))], 1));
    assert_eq!(world.proofs(1), [accepted(Proof::Posh)]);
}

#[test]
fn nothing_is_fetched_about_a_certificate_that_proves_itself_or_when_posh_is_off() {
    let mut certified = world(9, &[0, 1]);
    certified.certify(0, "a.test");
    certified.certify(1, "b.test");
    let mut off = world(9, &[]);
    (0..2).for_each(|node| off.set(node, |settings| settings.posh = false));
    for mut world in [certified, off] {
        world.message(0, "alice@a.test/x", "bob@b.test", "1");
        world.run();
        assert_eq!((world.got(1), world.fetches.len()), (vec!["1".to_owned()], 0));
    }
}

/// One whose document was fetched before the certificate was renewed.
#[test]
fn a_certificate_that_is_not_in_an_old_document_is_looked_up_once_more() {
    let mut world = world(10, &[0]);
    publish(&mut world, URL_OF_A, document(b"a", 80_000));
    publish(&mut world, URL_OF_B, document(b"b", 80_000));
    let attempt = |world: &mut FederationWorld, id: &str| {
        let wire = world.wires.len();
        world.message(0, "alice@a.test/x", "bob@b.test", id);
        world.run();
        (wire..world.wires.len()).for_each(|wire| world.hang_up(wire));
    };
    attempt(&mut world, "1");
    world.nodes[1].presented = Some(CertificateHashes::of(b"new"));
    publish(&mut world, URL_OF_B, document(b"new", 80_000));
    world.pass(Duration::from_secs(60));
    attempt(&mut world, "2");
    assert_eq!((world.got(1), fetched(&world, 0).len()), (vec!["1".to_owned()], 1), "not within minutes");
    world.pass(limits::POSH_FAILED);
    attempt(&mut world, "3");
    assert_eq!((world.got(1).last().map(String::as_str), fetched(&world, 0).len()), (Some("3"), 2));
    // A certificate that was never in it does not take the document away, even if the web server is down.
    publish(&mut world, URL_OF_B, WebAnswer::Down);
    world.nodes[1].presented = Some(CertificateHashes::of(b"wrong"));
    world.pass(limits::POSH_FAILED);
    attempt(&mut world, "4");
    world.nodes[1].presented = Some(CertificateHashes::of(b"new"));
    world.pass(Duration::from_secs(60));
    attempt(&mut world, "5");
    assert_eq!((world.got(1).last().map(String::as_str), fetched(&world, 0).len()), (Some("5"), 3));
}

/// A caller with a certificate of its own, at a server with a demand of certificates.
fn caller() -> TestCaller {
    let change = |settings: &mut S2sSettings| {
        settings.posh = true;
        settings.policy.require_certificate = true;
    };
    let presented = Some(Box::new(CertificateHashes::of(b"evil")));
    TestCaller::new(change, Security { encrypted: true, certificate: None, presented })
}

fn header(from: &str) -> String {
    super::bad::HEADER.replace("evil.test", from)
}

fn fetches(caller: &TestCaller) -> Vec<PoshFetch> {
    let fetch = |effect: &Effect| match effect {
        Effect::FetchPosh(fetch) => Some(fetch.clone()),
        _ => None,
    };
    caller.effects.iter().filter_map(fetch).collect()
}

fn body(answer: WebAnswer) -> Vec<u8> {
    let WebAnswer::Body(body) = answer else { panic!("{answer:?}") };
    body.into_bytes()
}

#[test]
fn a_stranger_causes_no_fetch_from_a_name_that_is_no_host_name() {
    for from in ["127.0.0.1", "[::1]", "localhost", "127.1", "a.0x7f000001", "x_y.test", "rooms.a.test"] {
        let mut caller = caller();
        caller.say(&header(from));
        assert_eq!(fetches(&caller), [], "{from}");
    }
}

#[test]
fn a_stream_causes_few_fetches_and_all_streams_share_one_of_a_domain() {
    let mut caller = caller();
    caller.say(&header("evil.test"));
    let first = fetches(&caller);
    assert_eq!(first.len(), 1);
    // Another stream of the same domain waits for the same fetch.
    let presented = Some(Box::new(CertificateHashes::of(b"evil")));
    let security = Security { encrypted: true, certificate: None, presented };
    let second = caller.servers.accept(START, security);
    caller.tell(|servers, out| servers.handle_bytes(START, second, header("evil.test").as_bytes(), out));
    assert_eq!(fetches(&caller), []);
    let answer = Ok(body(document(b"evil", 60)));
    let written = caller.tell(|servers, out| servers.handle_posh(START, &first[0], answer, out));
    assert_eq!(written.matches("EXTERNAL").count(), 2, "{written}");
    let mut count = 0;
    for number in 0..9 {
        caller.say(&format!("<db:result from='x{number}.test' to='a.test'>key</db:result>"));
        count += fetches(&caller).len();
    }
    assert_eq!(count, limits::POSH_OF_STREAM - 1);
}

#[test]
fn fetches_for_strangers_are_bounded_and_leave_room_for_our_own() {
    let mut caller = caller();
    let mut count = 0;
    for number in 0..2 * limits::POSH_FETCHES {
        let presented = Some(Box::new(CertificateHashes::of(b"evil")));
        let stream = caller.servers.accept(START, Security { encrypted: true, certificate: None, presented });
        let header = header(&format!("x{number}.test"));
        caller.tell(|servers, out| servers.handle_bytes(START, stream, header.as_bytes(), out));
        count += fetches(&caller).len();
    }
    assert_eq!(count, limits::POSH_FETCHES_OF_CALLERS);
    const { assert!(limits::POSH_FETCHES_OF_CALLERS < limits::POSH_FETCHES) };
}

#[test]
fn documents_of_strangers_take_bounded_memory() {
    let mut caller = caller();
    let mut fetched = 0;
    for number in 0..limits::POSH_DOMAINS + 100 {
        let presented = Some(Box::new(CertificateHashes::of(b"evil")));
        let stream = caller.servers.accept(START, Security { encrypted: true, certificate: None, presented });
        let header = header(&format!("x{number}.test"));
        caller.tell(|servers, out| servers.handle_bytes(START, stream, header.as_bytes(), out));
        for fetch in fetches(&caller) {
            fetched += 1;
            let answer = Ok(body(document(b"evil", 60)));
            caller.tell(|servers, out| servers.handle_posh(START, &fetch, answer, out));
        }
        caller.tell(|servers, out| {
            let failure = Failure::new(Condition::RemoteServerTimeout, "gone");
            servers.handle_broken(START, stream, failure, out);
        });
    }
    assert_eq!(fetched, limits::POSH_DOMAINS + 100);
    assert_eq!(caller.servers.remembered_posh(), limits::POSH_DOMAINS);
    let end = START + Duration::from_secs(61);
    caller.tell(|servers, out| servers.expire(end, out));
    assert_eq!(caller.servers.remembered_posh(), 0);
}

/// A source that has caused too many fetches does not make the domain forgotten for others.
#[test]
fn a_refused_fetch_is_not_remembered() {
    let mut caller = caller();
    caller.say(&header("evil.test"));
    let fetch = fetches(&caller).remove(0);
    let written = caller.tell(|servers, out| servers.handle_posh(START, &fetch, Err(PoshFailure::Busy), out));
    assert!(written.contains("<stream:features") && !written.contains("EXTERNAL"), "{written}");
    assert_eq!(caller.servers.remembered_posh(), 0);
}

#[test]
fn a_caller_that_talks_while_it_waits_for_features_is_closed() {
    let mut caller = caller();
    caller.say(&header("evil.test"));
    assert_eq!(caller.say(&"x".repeat(limits::STANZA_BEFORE_AUTH)), "");
    assert!(caller.say("x").contains("<policy-violation"));
}

/// A key of a further domain (XEP-0220 §2.6) is no proof where the certificate is demanded; its document is.
#[test]
fn a_further_domain_of_a_stream_is_proved_by_its_own_document() {
    let mut caller = caller();
    caller.say(&header("evil.test"));
    let fetch = fetches(&caller).remove(0);
    let answer = Ok(body(document(b"evil", 60)));
    caller.tell(|servers, out| servers.handle_posh(START, &fetch, answer, out));
    for (domain, der, expected) in
        [("more.test", &b"evil"[..], "type='valid'"), ("other.test", b"x", "not-authorized")]
    {
        let result = format!("<db:result from='{domain}' to='a.test'>key</db:result>");
        assert_eq!(caller.say(&result), "", "it waits");
        let fetch = fetches(&caller).remove(0);
        assert_eq!(caller.say(&result), "", "it still waits");
        let answer = Ok(body(document(der, 60)));
        let written = caller.tell(|servers, out| servers.handle_posh(START, &fetch, answer, out));
        assert!(written.contains(expected), "{written}");
    }
}

/// Another stream whose peer shows that certificate and names that domain.
fn open(caller: &mut TestCaller, now: Instant, from: &str, der: &[u8]) -> u64 {
    let presented = Some(Box::new(CertificateHashes::of(der)));
    let security = Security { encrypted: true, certificate: None, presented };
    let stream = caller.servers.accept(now, security);
    caller.tell(|servers, out| servers.handle_bytes(now, stream, header(from).as_bytes(), out));
    stream
}

/// A web server that answers too slowly is not asked again at once.
#[test]
fn an_answer_that_comes_too_late_does_not_take_the_remembered_failure_away() {
    let mut caller = caller();
    caller.say(&header("evil.test"));
    let fetch = fetches(&caller).remove(0);
    let end = START + limits::POSH_TIME;
    caller.tell(|servers, out| servers.expire(end, out));
    assert_eq!(caller.servers.remembered_posh(), 1);
    let answer = Ok(body(document(b"evil", 60)));
    caller.tell(|servers, out| servers.handle_posh(end, &fetch, answer, out));
    assert_eq!(caller.servers.remembered_posh(), 1);
    open(&mut caller, end, "evil.test", b"evil");
    assert_eq!(fetches(&caller), []);
}

/// A stranger that names a domain from a source that has caused too many fetches.
#[test]
fn a_refused_fetch_goes_on_for_the_other_streams_that_wait_for_it() {
    let mut caller = caller();
    let stranger = open(&mut caller, START, "evil.test", b"wrong");
    let fetch = fetches(&caller).remove(0);
    let waits = open(&mut caller, START, "evil.test", b"evil");
    assert_eq!((fetch.number, fetches(&caller)), (stranger, vec![]));
    let written = caller.tell(|servers, out| servers.handle_posh(START, &fetch, Err(PoshFailure::Busy), out));
    assert!(written.matches("<stream:features").count() == 1 && !written.contains("EXTERNAL"), "{written}");
    let fetch = fetches(&caller).remove(0);
    assert_eq!((fetch.number, &*fetch.url), (waits, "https://evil.test/.well-known/posh/xmpp-server.json"));
    let answer = Ok(body(document(b"evil", 60)));
    let written = caller.tell(|servers, out| servers.handle_posh(START, &fetch, answer, out));
    assert_eq!(written.matches("EXTERNAL").count(), 1, "{written}");
}

#[test]
fn a_refused_fetch_does_not_put_off_the_look_at_a_new_certificate() {
    let mut caller = caller();
    caller.say(&header("evil.test"));
    let fetch = fetches(&caller).remove(0);
    let answer = Ok(body(document(b"evil", 80_000)));
    caller.tell(|servers, out| servers.handle_posh(START, &fetch, answer, out));
    let later = START + limits::POSH_FAILED;
    open(&mut caller, later, "evil.test", b"wrong");
    let fetch = fetches(&caller).remove(0);
    caller.tell(|servers, out| servers.handle_posh(later, &fetch, Err(PoshFailure::Busy), out));
    open(&mut caller, later, "evil.test", b"new");
    let fetch = fetches(&caller).remove(0);
    let answer = Ok(body(document(b"new", 60)));
    let written = caller.tell(|servers, out| servers.handle_posh(later, &fetch, answer, out));
    assert!(written.contains("EXTERNAL"), "{written}");
}

/// A key makes this server connect to the domain that it names (XEP-0220 §2.3), where a stranger may show any certificate.
#[test]
fn a_key_of_a_stranger_causes_no_fetch_from_the_domain_that_it_names() {
    const FEATURES: &str = "<stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:server' \
                            version='1.0' id='1'><stream:features/>";
    let change = |settings: &mut S2sSettings| settings.posh = true;
    let mut caller = TestCaller::new(change, Security::default());
    // The fetches that the connection causes which this server has just begun, and what it writes there.
    let answer = |caller: &mut TestCaller| {
        let connect = |effect: &Effect| match effect {
            Effect::Connect(connect) => Some(connect.number),
            _ => None,
        };
        let number = caller.effects.iter().find_map(connect).expect("a connection");
        let presented = Some(Box::new(CertificateHashes::of(b"evil")));
        let security = Security { encrypted: true, certificate: None, presented };
        let written = caller.tell(|servers, out| {
            servers.handle_connected(START, number, security, None, out);
            servers.handle_bytes(START, number, FEATURES.as_bytes(), out);
        });
        (fetches(caller).len(), written.contains("<db:verify"))
    };
    let pair = Pair { local: "a.test".into(), remote: "evil.test".into() };
    let question = KeyQuery { pair, id: "1".into(), key: "key".into() };
    let edge = ConnectionId { shard: ShardAddress::default(), connection: 2 };
    let verify = ShardMessage::Verify { edge, question };
    caller.tell(|servers, out| servers.handle_shard_message(START, verify, out));
    assert_eq!(answer(&mut caller), (0, true));
    let message = Element::new("message", ns::CLIENT).with("from", "alice@a.test/x").with("to", "bob@b.test");
    caller.tell(|servers, out| servers.handle_stanza(START, Box::new(message), out));
    assert_eq!(answer(&mut caller), (1, false));
}
