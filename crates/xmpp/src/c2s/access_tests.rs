//! Tokens, accounts that are made, and the rest of SASL2.

use stdx::attempts::Cause;

use super::sign_in::FAILURES;
use super::tests::{ClientStreamWorld, HEADER, secure, settings};
use super::*;
use crate::sasl::{
    CredentialAnswer, CredentialQuery, Secret, Token, TokenBinding, TokenState, testing_initial,
};
use crate::stanza::{Condition, StanzaError};

const AGENT: &str = "<user-agent id='d4565fa7'><software>S</software><device>D</device></user-agent>";

fn world() -> ClientStreamWorld {
    let settings =
        C2sSettings { tokens: true, invitations: true, registration: true, anonymous: true, ..settings() };
    let mut world = ClientStreamWorld::new(settings, secure());
    world.say(HEADER);
    world
}

fn authenticate(world: &mut ClientStreamWorld, mechanism: &str, initial: &[u8], more: &str) -> String {
    world.say(&format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'><initial-response>{}</initial-response>{more}</authenticate>",
        sasl::encode(initial)
    ))
}

fn token(state: TokenState) -> Token {
    Token { id: [1].into(), binding: TokenBinding::Exporter, secret: Secret("token".into()), count: 3, state }
}

/// By a token; the token work that follows.
fn by_token(world: &mut ClientStreamWorld, state: TokenState, fast: &str, more: &str) -> String {
    let initial = testing_initial("alice", "token", b"exporter");
    let more = format!("{AGENT}<fast xmlns='urn:xmpp:fast:0'{fast}/>{more}");
    authenticate(world, "HT-SHA-256-EXPR", &initial, &more);
    let (user, agent) = ("alice".into(), "d4565fa7".into());
    let find = Effect::Find { find: CredentialQuery::Tokens { user, agent }, domain: "example.org".into() };
    assert_eq!(world.effects, [find]);
    world.found(CredentialAnswer::Tokens(vec![token(state)]))
}

fn work(world: &ClientStreamWorld) -> &TokenWork {
    match &world.effects[..] {
        [Effect::Tokens(work)] => work,
        other => panic!("{other:?}"),
    }
}

fn give(world: &mut ClientStreamWorld, done: Result<Option<NewToken>, sasl::Failure>) -> String {
    world.tell(|stream, out| stream.handle_tokens(done, out))
}

fn new_token() -> NewToken {
    let expires_at = stdx::Instant::from_unix_seconds(1_800_000_000);
    NewToken { token: Secret("fresh".into()), expires_at }
}

const TOKEN: &str = "<token xmlns='urn:xmpp:fast:0' expiry='2027-01-15T08:00:00.000Z' token='fresh'/>";

#[test]
fn a_client_gets_a_token_when_it_has_proved_itself() {
    let mut world = world();
    let more = format!(
        "{AGENT}<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/><bind xmlns='urn:xmpp:bind:0'/>"
    );
    authenticate(&mut world, "PLAIN", b"\0alice\0secret", &more);
    assert_eq!(world.found(CredentialAnswer::Password(true)), "", "first the token");
    let wanted = work(&world);
    assert_eq!((wanted.user.as_str(), &*wanted.agent), ("alice@example.org", "d4565fa7"));
    assert_eq!((wanted.wanted, &wanted.used, wanted.revokes), (Some(TokenBinding::None), &None, false));
    assert_eq!(give(&mut world, Ok(Some(new_token()))), "", "then the session");
    let [Effect::Bind(request)] = &world.effects[..] else { panic!("{:?}", world.effects) };
    let agent = request.agent.as_deref().unwrap();
    assert_eq!((agent.software.as_deref(), agent.device.as_deref()), (Some("S"), Some("D")));
    let answer = world.bind("alice@example.org/1");
    assert!(answer.contains(&format!("<bound xmlns='urn:xmpp:bind:0'/>{TOKEN}</success>")), "{answer}");
}

#[test]
fn a_client_that_asks_for_an_unavailable_token_signs_in_without_one() {
    for (more, why) in [
        ("<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>".to_owned(), "no agent"),
        (
            format!("{AGENT}<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-ENDP'/>"),
            "no binding",
        ),
        (format!("{AGENT}<request-token xmlns='urn:xmpp:fast:0' mechanism='PLAIN'/>"), "no token"),
    ] {
        let mut world = world();
        authenticate(&mut world, "PLAIN", b"\0alice\0secret", &more);
        let answer = world.found(CredentialAnswer::Password(true));
        assert!(answer.contains("<success") && !answer.contains("<token"), "{why}: {answer}");
    }
    let mut world = world();
    let request = format!("{AGENT}<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>");
    let answer = authenticate(&mut world, "ANONYMOUS", b"", &request);
    assert!(answer.contains("<success") && world.effects.is_empty(), "anonymous: no token: {answer}");
}

#[test]
fn only_the_changes_of_a_token_are_noted() {
    let mut world = world();
    assert!(by_token(&mut world, TokenState::Used, "", "").contains("<success"), "nothing to note");
    let case = |state, fast: &str, more: &str| {
        let mut world = self::world();
        by_token(&mut world, state, fast, more);
        let TokenWork { used, revokes, wanted, .. } = work(&world).clone();
        (used.map(|(id, count)| (id[0], count)), revokes, wanted)
    };
    assert_eq!(case(TokenState::New, "", ""), (Some((1, None)), false, None));
    assert_eq!(case(TokenState::Used, " count='4'", ""), (Some((1, Some(4))), false, None));
    let renewed = Some(TokenBinding::Exporter);
    assert_eq!(case(TokenState::Due, "", ""), (Some((1, None)), false, renewed));
    assert_eq!(case(TokenState::Due, " invalidate='true'", ""), (Some((1, None)), true, None));
    let request = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
    let wanted = Some(TokenBinding::None);
    assert_eq!(case(TokenState::Used, " invalidate='1'", request), (Some((1, None)), true, wanted));
}

#[test]
fn a_token_that_cannot_be_used_is_refused() {
    let mut world = world();
    let answer = by_token(&mut world, TokenState::TooOld, "", "");
    assert!(answer.contains("<credentials-expired"), "{answer}");
    assert_eq!(world.failures(), 0, "a right token is no guess");
    let answer = by_token(&mut world, TokenState::Used, " count='3'", "");
    assert!(answer.contains("<not-authorized"), "{answer}");
    // The store accepts one of two uses with the same count.
    assert_eq!(by_token(&mut world, TokenState::Used, " count='4'", ""), "");
    let answer = give(&mut world, Err(sasl::Failure::NotAuthorized));
    assert!(answer.contains("<not-authorized"), "{answer}");
    assert_eq!((world.failures(), world.stream.jid()), (2, None));
    let answer = authenticate(&mut world, "HT-SHA-256-EXPR", b"x", AGENT);
    assert!(answer.contains("<invalid-mechanism"), "without <fast/>: {answer}");
    let answer =
        world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='HT-SHA-256-NONE'>eA==</auth>");
    assert!(answer.contains("<invalid-mechanism"), "not by the old profile: {answer}");
}

#[test]
fn a_token_takes_up_a_session_with_one_question() {
    let mut world = world();
    let resume = "<resume xmlns='urn:xmpp:sm:3' previd='p' h='1'/>";
    assert_eq!(by_token(&mut world, TokenState::Due, "", resume), "");
    assert_eq!(give(&mut world, Ok(Some(new_token()))), "");
    assert!(matches!(&world.effects[..], [Effect::Resume { .. }]));
    let jid = Jid::parse("alice@example.org/desk").unwrap();
    let resumed = Element::new("resumed", ns::SM).with("previd", "p");
    let answer = world.tell(|stream, out| stream.handle_bound(Bound::Resumed { jid, resumed }, out));
    let expected = format!("<resumed xmlns='urn:xmpp:sm:3' previd='p'/>{TOKEN}</success>");
    assert!(answer.contains(&expected) && world.stream.is_bound(), "{answer}");
}

#[test]
fn why_a_session_is_not_resumed_is_said_with_the_new_one() {
    let mut world = world();
    let more = "<resume xmlns='urn:xmpp:sm:3' previd='p' h='1'/><bind xmlns='urn:xmpp:bind:0'/>";
    authenticate(&mut world, "PLAIN", b"\0alice\0secret", more);
    world.found(CredentialAnswer::Password(true));
    assert!(matches!(&world.effects[..], [Effect::Resume { .. }]));
    let failed = Element::new("failed", ns::SM).child(Element::new("item-not-found", ns::STANZA_ERRORS));
    let answer = world.tell(|stream, out| stream.handle_bound(Bound::NotResumed { failed }, out));
    assert!(answer.is_empty() && matches!(&world.effects[..], [Effect::Bind(_)]), "{answer}");
    let answer = world.bind("alice@example.org/1");
    assert!(answer.contains("<bound xmlns='urn:xmpp:bind:0'/><failed xmlns='urn:xmpp:sm:3'>"), "{answer}");
}

#[test]
fn each_exchange_has_a_new_challenge() {
    let mut world = world();
    let keys = sasl::derive(sasl::Hash::Sha256, "secret", b"salt", 10);
    let mut challenge = || {
        authenticate(&mut world, "SCRAM-SHA-256", b"n,,n=alice,r=abc", "");
        let challenge = world.found(CredentialAnswer::Keys(keys.clone()));
        world.say("<abort xmlns='urn:xmpp:sasl:2'/>");
        challenge
    };
    let first = challenge();
    assert!(first.contains("<challenge"), "{first}");
    assert_ne!(first, challenge());
}

fn ask(world: &mut ClientStreamWorld, kind: &str, payload: &str) -> String {
    world.say(&format!("<iq type='{kind}' id='q' to='example.org'>{payload}</iq>"))
}

const WANTED: &str =
    "<query xmlns='jabber:iq:register'><username>bob</username><password>secret</password></query>";

fn registration(world: &ClientStreamWorld) -> &Registration {
    match &world.effects[..] {
        [Effect::Register(registration)] => registration,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_account_is_made_and_signed_in_to_on_one_stream() {
    let mut world = world();
    let form = ask(&mut world, "get", "<query xmlns='jabber:iq:register'/>");
    assert!(form.contains("<username/><password/><x xmlns='jabber:x:data' type='form'>"), "{form}");
    // Later stanzas wait.
    assert_eq!(ask(&mut world, "set", WANTED), "");
    let expected = Registration {
        user: "bob".into(),
        domain: "example.org".into(),
        password: Secret("secret".into()),
        invitation: None,
    };
    assert_eq!(registration(&world), &expected);
    assert_eq!(ask(&mut world, "get", "<query xmlns='jabber:iq:register'/>"), "");
    let answer = world.tell(|stream, out| stream.handle_registered(Ok(()), out));
    assert!(answer.starts_with("<iq type='result' id='q' from='example.org'/><iq type='result'"), "{answer}");
    let form = "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>\
                <field var='username'><value>carol</value></field>\
                <field var='password'><value>pw</value></field></x></query>";
    ask(&mut world, "set", form);
    assert_eq!(&*registration(&world).user, "carol");
    let taken = StanzaError::from(Condition::Conflict);
    let answer = world.tell(|stream, out| stream.handle_registered(Err(taken), out));
    assert!(answer.contains("<conflict"), "{answer}");
}

#[test]
fn invalid_registrations_are_refused_at_once() {
    let mut world = world();
    let query = |inner: &str| format!("<query xmlns='jabber:iq:register'>{inner}</query>");
    for (inner, condition) in [
        ("<username>bob</username>", "not-acceptable"),
        ("<username/><password>x</password>", "not-acceptable"),
        ("<username>Bob</username><password>x</password>", "not-acceptable"),
        ("<username>b@b</username><password>x</password>", "not-acceptable"),
        ("<remove/>", "unexpected-request"),
    ] {
        let answer = ask(&mut world, "set", &query(inner));
        assert!(answer.contains(condition) && world.effects.is_empty(), "{inner}: {answer}");
    }
    assert!(ask(&mut world, "result", &query("")).contains("bad-request"));
    assert!(world.say("<iq type='set' id='x'><query xmlns='urn:x'/></iq>").contains("not-authorized"));
    let closed = C2sSettings { registration: false, ..settings() };
    let mut world = ClientStreamWorld::new(closed, secure());
    world.say(HEADER);
    assert!(ask(&mut world, "set", WANTED).contains("not-allowed"));
    let preauth = "<preauth xmlns='urn:xmpp:pars:0' token='t'/>";
    assert!(ask(&mut world, "set", preauth).contains("service-unavailable"));
}

#[test]
fn an_invitation_permits_one_registration_on_a_closed_server() {
    let mut world = ClientStreamWorld::new(C2sSettings { invitations: true, ..settings() }, secure());
    let features = world.say(HEADER);
    assert!(features.contains("<register xmlns='urn:xmpp:ibr-token:0'/>"), "{features}");
    assert!(ask(&mut world, "set", WANTED).contains("not-allowed"));
    assert!(ask(&mut world, "set", "<preauth xmlns='urn:xmpp:pars:0'/>").contains("bad-request"));
    ask(&mut world, "set", "<preauth xmlns='urn:xmpp:pars:0' token='t'/>");
    let effect = Effect::Invited { token: "t".into(), domain: "example.org".into() };
    assert_eq!(world.effects, [effect]);
    let invited = InvitationGrant { user: Some("juliet".into()) };
    let answer = world.tell(|stream, out| stream.handle_invited(Ok(invited), out));
    assert_eq!(answer, "<iq type='result' id='q' from='example.org'/>");
    assert!(
        ask(&mut world, "get", "<query xmlns='jabber:iq:register'/>").contains("<username>juliet</username>")
    );
    assert!(ask(&mut world, "set", WANTED).contains("not-acceptable"), "bob is not invited");
    ask(&mut world, "set", &WANTED.replace("bob", "juliet"));
    assert_eq!(registration(&world).invitation.as_deref(), Some("t"));
    world.tell(|stream, out| stream.handle_registered(Ok(()), out));
    assert!(ask(&mut world, "set", WANTED).contains("not-allowed"), "once");
}

#[test]
fn guesses_at_invitations_end_the_stream() {
    let mut world = world();
    for turn in 1..=5 {
        ask(&mut world, "set", "<preauth xmlns='urn:xmpp:pars:0' token='t'/>");
        let unknown = StanzaError::from(Condition::ItemNotFound);
        let answer = world.tell(|stream, out| stream.handle_invited(Err(unknown), out));
        assert!(answer.contains("<item-not-found"), "{answer}");
        assert_eq!(answer.contains("policy-violation"), turn == 5, "{turn}: {answer}");
    }
}

#[test]
fn a_client_is_sent_to_another_host() {
    let mut world = ClientStreamWorld::signed_in();
    let answer = world.tell(|stream, out| stream.see_other_host("[2001:db8::1]:5222", out));
    assert!(
        answer.contains("<see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>[2001:db8::1]:5222<"),
        "{answer}"
    );
    assert_eq!(world.effects, [Effect::Close]);
}

/// A stream whose documents are whole: of a WebSocket, or of BOSH.
fn documents(framing: Framing) -> ClientStreamWorld {
    let settings = C2sSettings { invitations: true, anonymous: true, ..settings() };
    let stream = C2s::new(Arc::new(settings), framing, secure(), 1, "nonce".into());
    ClientStreamWorld { stream, effects: Vec::new() }
}

fn document(world: &mut ClientStreamWorld, text: &str) -> String {
    if world.stream.framing() == Framing::Messages {
        return world.say(text);
    }
    let payload = crate::xml::parse(text.as_bytes(), &Prefixes::default()).unwrap();
    world.tell(|stream, out| stream.handle_payload(payload, out))
}

fn open_to(world: &mut ClientStreamWorld, domain: &str) -> String {
    document(
        world,
        &format!("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='{domain}' version='1.0'/>"),
    )
}

#[test]
fn an_invitation_is_forgotten_when_the_stream_begins_anew() {
    for framing in [Framing::Messages, Framing::Bodies] {
        for domain in ["other.org", "example.org"] {
            let mut world = documents(framing);
            open_to(&mut world, "example.org");
            let iq = |payload: &str| format!("<iq xmlns='jabber:client' type='set' id='q'>{payload}</iq>");
            document(&mut world, &iq("<preauth xmlns='urn:xmpp:pars:0' token='t'/>"));
            let invited = InvitationGrant { user: Some("bob".into()) };
            world.tell(|stream, out| stream.handle_invited(Ok(invited), out));
            open_to(&mut world, domain);
            let answer = document(&mut world, &iq(WANTED));
            assert!(answer.contains("not-allowed"), "{framing:?} {domain}: {answer}");
            assert!(world.effects.is_empty(), "{framing:?} {domain}: {:?}", world.effects);
        }
    }
}

#[test]
fn an_invitation_before_tls_is_forgotten_with_it() {
    let settings = C2sSettings { invitations: true, tls_required: false, ..settings() };
    let mut world = ClientStreamWorld::new(settings, Security::default());
    world.say(HEADER);
    ask(&mut world, "set", "<preauth xmlns='urn:xmpp:pars:0' token='t'/>");
    world.tell(|stream, out| stream.handle_invited(Ok(InvitationGrant::default()), out));
    world.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    world.tell(|stream, out| stream.handle_secured(secure(), out));
    world.say(&HEADER.replace("example.org", "other.org"));
    let answer = world.say(&format!("<iq type='set' id='q'>{WANTED}</iq>"));
    assert!(answer.contains("not-allowed"), "{answer}");
}

#[test]
fn a_client_signed_in_at_one_domain_cannot_go_on_at_another() {
    for framing in [Framing::Messages, Framing::Bodies] {
        let mut world = documents(framing);
        open_to(&mut world, "example.org");
        document(
            &mut world,
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>",
        );
        assert!(world.found(CredentialAnswer::Password(true)).contains("<success"));
        let answer = open_to(&mut world, "other.org");
        assert!(answer.contains("<not-authorized"), "{framing:?}: {answer}");
        assert!(world.effects.contains(&Effect::Close), "{:?}", world.effects);
    }
    let mut world = self::world();
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFsaWNlAHNlY3JldA==</auth>");
    world.found(CredentialAnswer::Password(true));
    let answer = world.say(&HEADER.replace("example.org", "other.org"));
    assert!(answer.contains("<not-authorized"), "{answer}");
}

const SCRAM: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>";

/// Challenged for an account that is there, or is not.
fn challenged(is_there: bool) -> ClientStreamWorld {
    let mut world = world();
    world.say(&format!("{SCRAM}{}</auth>", sasl::encode(b"n,,n=alice,r=abc")));
    let keys = sasl::derive(sasl::Hash::Sha256, "secret", b"0123456789abcdef", 10);
    let answer =
        world.found(if is_there { CredentialAnswer::Keys(keys) } else { CredentialAnswer::NoAccount });
    assert!(answer.contains("<challenge"), "{answer}");
    world
}

#[test]
fn a_try_that_ends_after_the_challenge_counts_as_a_failure() {
    for is_there in [true, false] {
        let mut world = challenged(is_there);
        let answer = world.say("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        assert!(answer.contains("<aborted"), "{answer}");
        assert_eq!(world.failures(), 1, "given up");
        let mut world = challenged(is_there);
        world.tell(|stream, _| stream.handle_gone());
        world.tell(|stream, _| stream.handle_gone());
        assert_eq!(world.failures(), 1, "the connection broke");
        for end in ["</stream:stream>", "<presence/>", "<x", SCRAM, "<!DOCTYPE"] {
            let mut world = challenged(is_there);
            world.say(&format!("{end}</nothing>"));
            world.tell(|stream, _| stream.handle_gone());
            assert_eq!(world.failures(), 1, "{end}");
        }
        let mut world = challenged(is_there);
        world.tell(|stream, out| stream.fail("connection-timeout", out));
        assert_eq!(world.failures(), 1, "silent until the time was over");
    }
    // Many at one stream: it ends as with wrong passwords.
    let mut world = world();
    for turn in 1..=FAILURES {
        world.say(&format!("{SCRAM}{}</auth>", sasl::encode(b"n,,n=alice,r=abc")));
        world.found(CredentialAnswer::NoAccount);
        let answer = world.say("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        assert_eq!(answer.contains("policy-violation"), turn == FAILURES, "{turn}: {answer}");
    }
}

#[test]
fn failures_tell_the_name_that_was_claimed_and_the_cause() {
    let failed = |world: &mut ClientStreamWorld| {
        let failed = world.stream.take_failed();
        let [FailedAttempt { user, cause }] = &failed[..] else { panic!("{failed:?}") };
        (user.to_string(), *cause)
    };
    let plain = |world: &mut ClientStreamWorld| {
        let first = sasl::encode(b"\0bob\0x");
        world
            .say(&format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{first}</auth>"));
        assert_eq!(world.stream.claimed(), Some("bob"));
    };
    let mut world = challenged(false);
    world.say("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(failed(&mut world), ("alice".to_owned(), Cause::Aborted));
    plain(&mut world);
    world.found(CredentialAnswer::Password(false));
    assert_eq!(failed(&mut world), ("bob".to_owned(), Cause::UnknownAccount));
    plain(&mut world);
    world.tell(|stream, out| stream.handle_found_as(CredentialAnswer::Password(false), "bob", out));
    assert_eq!(failed(&mut world), ("bob".to_owned(), Cause::WrongPassword));
    plain(&mut world);
    world.found(CredentialAnswer::Unavailable);
    assert_eq!((world.stream.take_failed(), world.stream.claimed()), (Vec::new(), None));
    authenticate(&mut world, "NO-SUCH", b"x", "");
    assert_eq!(failed(&mut world), (String::new(), Cause::Malformed), "of no account");
}

#[test]
fn an_early_abort_and_the_end_of_a_signed_in_stream_are_no_failed_attempts() {
    let mut world = world();
    world.say(&format!("{SCRAM}</auth>"));
    world.say("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(world.failures(), 0, "given up before a name was said");
    let mut world = ClientStreamWorld::signed_in();
    world.tell(|stream, out| stream.fail("connection-timeout", out));
    world.tell(|stream, _| stream.handle_gone());
    assert_eq!(world.failures(), 0);
}

/// XEP-0388 §2.4: a client that sends other things than the exchange's elements is disconnected, for white space too.
#[test]
fn white_space_within_an_exchange_of_sasl2_ends_the_stream() {
    let begun = || {
        let mut world = world();
        let answer = world.say("<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'/>");
        // §2.2: an empty element is an empty string.
        assert_eq!(answer, "<challenge xmlns='urn:xmpp:sasl:2'/>");
        world
    };
    for other in [" ", "\n", "<presence/>"] {
        let answer = begun().say(other);
        assert!(
            answer.contains("<not-authorized") && answer.ends_with("</stream:stream>"),
            "{other:?}: {answer}"
        );
    }
    // After the exchange, and in one of RFC 6120, it keeps the connection alive.
    let mut world = begun();
    world.say(&format!(
        "<response xmlns='urn:xmpp:sasl:2'>\n {}\n</response>",
        sasl::encode(b"\0alice\0secret")
    ));
    assert!(world.found(CredentialAnswer::Password(false)).contains("<failure"));
    assert_eq!(world.say(" "), "");
    world.say("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>");
    assert_eq!(world.say(" "), "");
}

/// XEP-0388 §2.3.
#[test]
fn sasl2_compares_the_identity_with_the_stream_s() {
    let header = HEADER.replace("to=", "from='bob@example.org' to=");
    let sign_in = |message: &[u8]| {
        let settings = C2sSettings { tokens: true, ..settings() };
        let mut world = ClientStreamWorld::new(settings, secure());
        world.say(&header);
        let refused = authenticate(&mut world, "PLAIN", message, "");
        (refused.contains("<invalid-authzid"), world.effects.len())
    };
    assert_eq!(sign_in(b"alice@example.org\0alice\0secret"), (true, 0));
    assert_eq!(sign_in(b"bob@example.org\0bob\0secret"), (false, 1));
    assert_eq!(sign_in(b"\0alice\0secret"), (false, 1), "an alias may have this name");
}

/// XEP-0388 §3: neither offered nor taken before TLS.
#[test]
fn sasl2_needs_tls_where_a_stream_can_have_it() {
    let clear = |framing| {
        let settings = C2sSettings { tls_required: false, ..settings() };
        let stream = C2s::new(Arc::new(settings), framing, Security::default(), 1, "nonce".into());
        ClientStreamWorld { stream, effects: Vec::new() }
    };
    let mut world = clear(Framing::Stream);
    let answer = world.say(HEADER);
    assert!(answer.contains("<mechanism>SCRAM-SHA-256<") && !answer.contains("urn:xmpp:sasl:2"), "{answer}");
    let answer = authenticate(&mut world, "SCRAM-SHA-256", b"n,,n=alice,r=abc", "");
    assert!(answer.contains("<invalid-mechanism"), "{answer}");
    let mut world = clear(Framing::Messages);
    let answer =
        world.say("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.org' version='1.0'/>");
    assert!(answer.contains("urn:xmpp:sasl:2"), "a proxy may have TLS: {answer}");
}

#[test]
fn a_refused_stream_ends_with_its_header_before_tls_and_sasl() {
    let mut world = ClientStreamWorld::new(settings(), Security::default());
    world.tell(|stream, _| refusal::refuse(stream));
    let answer = world.say(HEADER);
    // RFC 6120 §4.9.1.2: the header comes before the error.
    assert!(answer.starts_with("<?xml version='1.0'?><stream:stream "), "{answer}");
    assert!(
        answer.contains("<resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"),
        "{answer}"
    );
    assert!(!answer.contains("features") && answer.ends_with("</stream:stream>"), "{answer}");
    assert_eq!(world.effects, [Effect::Close]);
    assert!(refusal::is_refused(&world.stream) && !world.stream.was_closed());
}
