//! Vectors of the RFCs, and attempts that must fail.

use super::*;

fn context(nonce: &str) -> Context {
    Context { nonce: nonce.into(), secret: [7; 32], domain: "example.org".into(), ..Context::default() }
}

fn text(step: &Step) -> &str {
    match step {
        Step::Challenge(bytes) | Step::Success { last: Some(bytes), .. } => {
            std::str::from_utf8(bytes).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn scram(hash: Hash) -> Mechanism {
    Mechanism::Scram { hash, plus: false }
}

/// The step after a proof that may be checked.
fn prove(exchange: &mut Exchange, response: &[u8]) -> Step {
    let step = exchange.respond(response);
    assert!(matches!(step, Step::Find(CredentialQuery::Proof { .. })), "{step:?}");
    assert!(exchange.is_finding() && exchange.has_challenged());
    exchange.give(CredentialAnswer::Proof)
}

#[test]
fn a_right_proof_is_not_looked_at_while_the_client_has_to_wait() {
    let keys = derive(Hash::Sha1, "pencil", &STANDARD.decode("QSXCR+Q6sek8bf92").unwrap(), 4_096);
    let first = b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL";
    let (mut exchange, _) = Exchange::start(scram(Hash::Sha1), Some(first), context("3rfcNHYJY1ZVvWVs7j"));
    exchange.give(CredentialAnswer::Keys(keys));
    let step = exchange
        .respond(b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=");
    assert_eq!(step, Step::Find(CredentialQuery::Proof { user: "user".into() }));
    let refused = exchange.give(CredentialAnswer::Unavailable);
    assert_eq!(refused, Step::Failure(Failure::TemporaryAuthFailure));
}

#[test]
fn the_example_of_rfc_5802() {
    let salt = STANDARD.decode("QSXCR+Q6sek8bf92").unwrap();
    let keys = derive(Hash::Sha1, "pencil", &salt, 4_096);
    let (mut exchange, step) = Exchange::start(
        scram(Hash::Sha1),
        Some(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"),
        context("3rfcNHYJY1ZVvWVs7j"),
    );
    assert_eq!(step, Step::Find(CredentialQuery::Keys { user: "user".into(), hash: Hash::Sha1 }));
    let step = exchange.give(CredentialAnswer::Keys(keys));
    assert_eq!(text(&step), "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096");
    let step = prove(
        &mut exchange,
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    );
    assert_eq!(text(&step), "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=");
}

#[test]
fn the_example_of_rfc_7677() {
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let keys = derive(Hash::Sha256, "pencil", &salt, 4_096);
    let (mut exchange, _) = Exchange::start(
        scram(Hash::Sha256),
        Some(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"),
        context("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
    );
    exchange.give(CredentialAnswer::Keys(keys));
    let step = prove(
        &mut exchange,
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    );
    assert_eq!(text(&step), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

/// A client with this password, to the end.
fn sign_in(
    hash: Hash,
    plus: Option<&str>,
    password: &str,
    known: CredentialAnswer,
    context: Context,
) -> Step {
    let flag = plus.map_or("n".to_owned(), |name| format!("p={name}"));
    let bare = "n=al=2Cice,r=abc";
    let data = plus.and_then(|name| context.bindings.find(name)).unwrap_or_default().to_vec();
    let mechanism = Mechanism::Scram { hash, plus: plus.is_some() };
    let (mut exchange, step) =
        Exchange::start(mechanism, Some(format!("{flag},,{bare}").as_bytes()), context);
    assert_eq!(step, Step::Find(CredentialQuery::Keys { user: "al,ice".into(), hash }));
    let challenge = exchange.give(known);
    let challenge = text(&challenge).to_owned();
    let field =
        |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name)).unwrap().to_owned();
    let salt = STANDARD.decode(field("s=")).unwrap();
    let keys = derive(hash, password, &salt, field("i=").parse().unwrap());
    let binding = STANDARD.encode([format!("{flag},,").as_bytes(), &data].concat());
    let without = format!("c={binding},r={}", field("r="));
    let proof = super::scram::testing::proof(hash, password, &keys, &format!("{bare},{challenge},{without}"));
    prove(&mut exchange, format!("{without},p={proof}").as_bytes())
}

fn keys(hash: Hash, password: &str) -> CredentialAnswer {
    CredentialAnswer::Keys(derive(hash, password, b"0123456789abcdef", 10))
}

#[test]
fn the_right_password_signs_in_and_no_other() {
    for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha512] {
        let right = sign_in(hash, None, "secret", keys(hash, "secret"), context("x"));
        assert!(matches!(right, Step::Success { user: Identity::User(ref user), .. } if **user == *"al,ice"));
        let wrong = sign_in(hash, None, "Secret", keys(hash, "secret"), context("x"));
        assert_eq!(wrong, Step::Failure(Failure::NotAuthorized));
        let unknown = sign_in(hash, None, "secret", CredentialAnswer::NoAccount, context("x"));
        assert_eq!(unknown, Step::Failure(Failure::NotAuthorized));
    }
}

#[test]
fn a_proof_is_bound_to_its_channel() {
    let bound = |data: &[u8]| Context {
        bindings: Bindings { tls_exporter: Some(data.into()), ..Bindings::default() },
        offered: vec!["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"],
        ..context("x")
    };
    let step = sign_in(Hash::Sha256, Some("tls-exporter"), "s", keys(Hash::Sha256, "s"), bound(b"channel"));
    assert!(matches!(step, Step::Success { .. }));
    let (_, step) = Exchange::start(scram(Hash::Sha256), Some(b"y,,n=a,r=b"), bound(b"channel"));
    assert_eq!(step, Step::Failure(Failure::NotAuthorized), "an attacker took -PLUS out of the list");
    let plus = Mechanism::Scram { hash: Hash::Sha256, plus: true };
    let (_, step) = Exchange::start(plus, Some(b"p=tls-unique,,n=a,r=b"), bound(b"channel"));
    assert_eq!(step, Step::Failure(Failure::MalformedRequest), "a binding that was not offered");
}

#[test]
fn a_proof_cannot_be_used_again() {
    let (mut exchange, _) = Exchange::start(scram(Hash::Sha1), Some(b"n,,n=a,r=b"), context("other"));
    exchange.give(keys(Hash::Sha1, "pencil"));
    let step = prove(&mut exchange, b"c=biws,r=b-old,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=");
    assert_eq!(step, Step::Failure(Failure::NotAuthorized));
    assert_eq!(exchange.respond(b"c=biws"), Step::Failure(Failure::MalformedRequest));
}

#[test]
fn the_salt_of_an_unknown_account_is_always_the_same() {
    let salt = |secret: u8| {
        let context = Context { secret: [secret; 32], ..context("x") };
        let (mut exchange, _) = Exchange::start(scram(Hash::Sha1), Some(b"n,,n=ghost,r=b"), context);
        text(&exchange.give(CredentialAnswer::NoAccount)).to_owned()
    };
    assert_eq!(salt(1), salt(1));
    assert_ne!(salt(1), salt(2));
}

#[test]
fn plain_names_one_user_and_no_other() {
    let start = |message: &[u8]| Exchange::start(Mechanism::Plain, Some(message), context("x"));
    let (mut exchange, step) = start(b"\0alice\0secret");
    assert_eq!(
        step,
        Step::Find(CredentialQuery::Password { user: "alice".into(), password: Secret("secret".into()) })
    );
    assert_eq!(
        exchange.give(CredentialAnswer::Password(true)),
        Step::Success { user: Identity::User("alice".into()), last: None }
    );
    let (mut exchange, _) = start(b"alice@example.org\0alice\0wrong");
    assert_eq!(exchange.give(CredentialAnswer::Password(false)), Step::Failure(Failure::NotAuthorized));
    for other in ["bob", "bob@example.org", "alice@other.org", "alice@", "@example.org"] {
        let message = format!("{other}\0alice\0secret");
        assert_eq!(start(message.as_bytes()).1, Step::Failure(Failure::InvalidAuthzid), "{other}");
    }
    for wrong in [&b""[..], b"alice", b"\0alice\0", b"\0\0secret", b"\0a\0b\0c", b"\0a\0\xff"] {
        assert_eq!(start(wrong).1, Step::Failure(Failure::MalformedRequest), "{wrong:?}");
    }
}

/// XEP-0388 §2.3: an authorization identity has to be the one that the stream's header names.
#[test]
fn an_identity_other_than_the_stream_s_is_refused() {
    let start = |mechanism, message: &str, caller: &str| {
        let context =
            Context { caller: Some(caller.into()), certified: Some("alice".into()), ..context("x") };
        Exchange::start(mechanism, Some(message.as_bytes()), context).1
    };
    let messages = [
        (Mechanism::Plain, "alice@example.org\0alice\0secret", "\0alice\0secret"),
        (scram(Hash::Sha1), "n,a=alice@example.org,n=alice,r=b", "n,,n=alice,r=b"),
        (
            Mechanism::OAuthBearer,
            "n,a=alice@example.org,\x01auth=Bearer x\x01\x01",
            "n,,\x01auth=Bearer x\x01\x01",
        ),
        (Mechanism::External, "alice@example.org", ""),
    ];
    for (mechanism, named, unnamed) in messages {
        let refused = start(mechanism, named, "bob@example.org");
        assert_eq!(refused, Step::Failure(Failure::InvalidAuthzid), "{mechanism:?}");
        assert!(matches!(start(mechanism, named, "alice@example.org"), Step::Find(_)), "{mechanism:?}");
        assert!(matches!(start(mechanism, unnamed, "bob@example.org"), Step::Find(_)), "{mechanism:?}");
    }
}

#[test]
fn a_certificate_is_its_owners() {
    let start = |message: &[u8], certified: Option<&str>| {
        let context = Context { certified: certified.map(Box::from), ..context("x") };
        Exchange::start(Mechanism::External, Some(message), context).1
    };
    // A certificate outlives its account: the store is asked.
    let find = Step::Find(CredentialQuery::Account { user: "alice".into() });
    assert_eq!(start(b"", Some("alice")), find);
    assert_eq!(start(b"alice@example.org", Some("alice")), find);
    assert_eq!(start(b"bob", Some("alice")), Step::Failure(Failure::InvalidAuthzid));
    assert_eq!(start(b"", None), Step::Failure(Failure::NotAuthorized));
}

#[test]
fn invalid_base64_is_refused() {
    assert_eq!(decode(""), Ok(None));
    assert_eq!(decode("="), Ok(Some(Vec::new())));
    assert_eq!(decode("YQ=="), Ok(Some(b"a".to_vec())));
    assert_eq!(decode("Y Q"), Err(Failure::IncorrectEncoding));
}

/// The challenge for an account that is not there: its salt and its number of iterations.
fn of_unknown(hash: Hash, user: &str, context: Context) -> (Vec<u8>, u32) {
    let first = format!("n,,n={user},r=b");
    let (mut exchange, _) = Exchange::start(scram(hash), Some(first.as_bytes()), context);
    let challenge = exchange.give(CredentialAnswer::NoAccount);
    let field = |name: &str| text(&challenge).split(',').find_map(|field| field.strip_prefix(name)).unwrap();
    (STANDARD.decode(field("s=")).unwrap(), field("i=").parse().unwrap())
}

fn at(domain: &str) -> Context {
    Context { domain: domain.into(), ..context("x") }
}

#[test]
fn the_salt_of_an_account_that_is_not_there_is_of_its_hash_and_its_address() {
    let salt = |hash, user: &str, domain: &str| of_unknown(hash, user, at(domain));
    let first = salt(Hash::Sha256, "ghost", "a.test");
    assert_eq!(first, salt(Hash::Sha256, "ghost", "a.test"), "always the same");
    assert_eq!((first.0.len(), first.1), (16, crate::limits::SCRAM_ITERATIONS), "as of accounts made here");
    assert_eq!(
        first,
        salt(Hash::Sha256, "Ghost", "a.test"),
        "names are one in any spelling, as of who is there"
    );
    // An account that does not exist has its own salt for each hash, and in each domain.
    let others = [
        salt(Hash::Sha1, "ghost", "a.test"),
        salt(Hash::Sha512, "ghost", "a.test"),
        salt(Hash::Sha256, "ghost", "b.test"),
        salt(Hash::Sha256, "other", "a.test"),
    ];
    assert!(others.iter().all(|other| *other != first), "{others:?}");
}

#[test]
fn an_account_that_is_not_there_looks_as_often_like_the_others_as_they_do() {
    let look = |iterations, salt| Some(KeyParameters { iterations, salt });
    let own = AccountProfile {
        sha1: look(4_096, 16),
        sha256: look(4_096, 16),
        sha512: look(4_096, 16),
        ..AccountProfile::default()
    };
    let imported = AccountProfile { sha1: look(10_000, 36), only_keys: true, ..AccountProfile::default() };
    let looks = |own_accounts, imported_accounts| {
        let profiles = vec![
            AccountProfile { accounts: own_accounts, ..own.clone() },
            AccountProfile { accounts: imported_accounts, ..imported.clone() },
        ];
        UnknownAccounts::new([("a.test".into(), profiles)])
    };
    let seen = |looks: &UnknownAccounts, hash| -> Vec<(usize, u32)> {
        let one = |number: u32| {
            let context = Context { looks: looks.clone(), ..at("a.test") };
            let (salt, iterations) = of_unknown(hash, &format!("ghost{number}"), context);
            (salt.len(), iterations)
        };
        (0..400).map(one).collect()
    };
    let mixed = looks(300, 100);
    let (sha1, sha256) = (seen(&mixed, Hash::Sha1), seen(&mixed, Hash::Sha256));
    let count = sha1.iter().filter(|seen| **seen == (36, 10_000)).count();
    assert!((60..140).contains(&count), "a quarter of 400, about: {count}");
    assert!(sha1.iter().all(|seen| matches!(seen, (36, 10_000) | (16, 4_096))));
    assert!(
        sha256.iter().all(|seen| *seen == (16, 4_096)),
        "an account without a hash is asked as a missing one"
    );
    // The time that a password takes goes with it.
    for (number, seen) in sha1.iter().enumerate() {
        let only_keys = mixed.only_keys(&[7; 32], &format!("ghost{number}"), "a.test");
        assert_eq!(only_keys, *seen == (36, 10_000), "{number}");
    }
    // A few more accounts leave nearly all others with the same profile.
    let later = seen(&looks(310, 100), Hash::Sha1);
    let changed = sha1.iter().zip(&later).filter(|(before, after)| before != after).count();
    assert!(changed < 20, "{changed}");
    assert_eq!(of_unknown(Hash::Sha1, "ghost", Context { looks: mixed, ..at("b.test") }).1, 4_096);
}
