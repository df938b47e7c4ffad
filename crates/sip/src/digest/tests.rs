use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;
use stdx::Instant;

use super::algorithm::hash_hex;
use super::*;
use crate::wire::Header;

const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
const REALM: &str = "example.org";
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn scope<'a>(call_id: &'a [u8], realm: &'a str) -> NonceScope<'a> {
    NonceScope { realm, call_id, source: SOURCE }
}

fn authenticator() -> Authenticator {
    Authenticator::new(std::array::from_fn(|index| index as u8), DigestSettings::default(), NOW)
}

fn question(cseq: u32) -> DigestRequest<'static> {
    DigestRequest {
        realm: REALM,
        method: b"REGISTER",
        request_uri: b"sip:example.org",
        call_id: b"call-1",
        source: SOURCE,
        cseq,
        body: b"",
    }
}

fn alice() -> Ha1s {
    Ha1s::compute("alice", REALM, "secret")
}

fn nonce_of(challenge: &str) -> String {
    challenge.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// The credentials of a client for a challenge.
fn respond(algorithm: &str, nonce: &str, qop: &str, nc: u32, password: &str) -> String {
    let parsed = Algorithm::from_bytes(algorithm.as_bytes()).unwrap();
    let hash = parsed.hash;
    let ha1s = Ha1s::compute("alice", REALM, password);
    let mut ha1 = algorithm::Hex::of(ha1s.of(hash));
    if parsed.session {
        ha1 = hash_hex(hash, &[ha1.as_bytes(), nonce.as_bytes(), b"c"]);
    }
    let mut ha2 = hash_hex(hash, &[b"REGISTER", b"sip:example.org"]);
    if qop == "auth-int" {
        let body = hash_hex(hash, &[b""]);
        ha2 = hash_hex(hash, &[b"REGISTER", b"sip:example.org", body.as_bytes()]);
    }
    let nc = format!("{nc:08x}");
    let (tail, response) = if qop.is_empty() && !parsed.session {
        (String::new(), hash_hex(hash, &[ha1.as_bytes(), nonce.as_bytes(), ha2.as_bytes()]))
    } else if qop.is_empty() {
        let response = hash_hex(hash, &[ha1.as_bytes(), nonce.as_bytes(), ha2.as_bytes()]);
        (", cnonce=\"c\"".to_owned(), response)
    } else {
        let parts = [ha1.as_bytes(), nonce.as_bytes(), nc.as_bytes(), b"c", qop.as_bytes(), ha2.as_bytes()];
        (format!(", cnonce=\"c\", qop={qop}, nc={nc}"), hash_hex(hash, &parts))
    };
    let response = String::from_utf8_lossy(response.as_bytes()).into_owned();
    format!(
        "Digest username=\"alice\", realm=\"{REALM}\", nonce=\"{nonce}\", uri=\"sip:example.org\", \
         response=\"{response}\", algorithm={algorithm}{tail}"
    )
}

fn credentials(header: &str) -> Result<Credentials, CredentialsError> {
    Credentials::parse(&header.to_owned().into())
}

fn judge(
    authenticator: &mut Authenticator,
    now: Instant,
    header: &str,
    question: DigestRequest<'_>,
    account: Option<&Ha1s>,
) -> Verdict {
    let credentials = credentials(header).unwrap();
    match authenticator.inspect(now, credentials, question) {
        Ok(inspected) => authenticator.verify(now, &inspected, question, account),
        Err(verdict) => verdict,
    }
}

fn hex_of(hash: Hash, parts: &[&[u8]]) -> String {
    String::from_utf8(hash_hex(hash, parts).as_bytes().to_vec()).unwrap()
}

/// RFC 7616 §3.9.1, both algorithms of its example, and RFC 2617 §3.5.
#[test]
fn the_vectors_of_the_rfcs() {
    let cases = [
        (
            Hash::Md5,
            "http-auth@example.org",
            "Circle of Life",
            "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            "8ca523f5e9506fed4657c9700eebdbec",
        ),
        (
            Hash::Sha256,
            "http-auth@example.org",
            "Circle of Life",
            "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        ),
        (
            Hash::Md5,
            "testrealm@host.com",
            "Circle Of Life",
            "dcd98b7102dd2f0e8b11d0f600bfb0c093",
            "0a4f113b",
            "6629fae49393a05397450978507c4ef1",
        ),
    ];
    for (hash, realm, password, nonce, cnonce, expected) in cases {
        let ha1s = Ha1s::compute("Mufasa", realm, password);
        let ha1 = algorithm::Hex::of(ha1s.of(hash));
        let ha2 = hash_hex(hash, &[b"GET", b"/dir/index.html"]);
        let parts: [&[u8]; 6] =
            [ha1.as_bytes(), nonce.as_bytes(), b"00000001", cnonce.as_bytes(), b"auth", ha2.as_bytes()];
        assert_eq!(hex_of(hash, &parts), expected);
    }
}

/// RFC 7616 §3.9.2 as erratum 4897 corrects it: the RFC's own figures are of SHA-512 cut short, a different
/// function from the SHA-512/256 of FIPS 180-4 that §3.9.2 and RFC 8760 name.
#[test]
fn sha_512_256_is_the_one_of_fips() {
    let ha1s = Ha1s::compute("Jäsøn Doe", "api@example.org", "Secret, or not?");
    let ha1 = algorithm::Hex::of(ha1s.of(Hash::Sha512_256));
    let ha2 = hash_hex(Hash::Sha512_256, &[b"GET", b"/doe.json"]);
    let parts: [&[u8]; 6] = [
        ha1.as_bytes(),
        b"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK",
        b"00000001",
        b"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
        b"auth",
        ha2.as_bytes(),
    ];
    let expected = "3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5";
    assert_eq!(hex_of(Hash::Sha512_256, &parts), expected);
}

/// The header of RFC 7616 §3.9.1, unquoted and quoted as it stands there.
#[test]
fn credentials_are_read_as_written() {
    let header = r#"Digest username="Mufasa", realm="http-auth@example.org", uri="/dir/index.html",
        algorithm=SHA-256, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001,
        cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth, x="a,b=\"c",
        response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#;
    let credentials = credentials(header).unwrap();
    assert_eq!(&*credentials.username, "Mufasa");
    assert_eq!(credentials.algorithm, Algorithm::SHA_256);
    assert_eq!((credentials.qop, credentials.nonce_count()), (Qop::Auth, Some(1)));
    assert_eq!(credentials.uri, "/dir/index.html");
}

#[test]
fn usernames_come_escaped_and_extended() {
    let rest = ", realm=\"r\", nonce=\"n\", uri=\"sip:x\", response=\"00\"";
    let username =
        |text: &str| credentials(&format!("Digest {text}{rest}")).map(|found| found.username.into_string());
    assert_eq!(username(r#"username="a\"b\\c""#), Ok("a\"b\\c".to_owned()));
    assert_eq!(username("username*=UTF-8''J%C3%A4s%C3%B8n%20Doe"), Ok("Jäsøn Doe".to_owned()));
    assert_eq!(username("username=bare"), Ok("bare".to_owned()));
    // RFC 7616 §3.4: never both; and other character sets are not allowed.
    for bad in ["username=\"a\", username*=UTF-8''a", "username*=latin1''a", "username*=UTF-8'a", "opaque=1"]
    {
        assert_eq!(username(bad), Err(CredentialsError::Malformed), "{bad}");
    }
    assert_eq!(username("username=a, userhash=true"), Err(CredentialsError::NotOffered));
}

#[test]
fn broken_credentials_are_told_apart() {
    use CredentialsError::{Malformed, NotDigest, NotOffered};
    let good = "Digest username=\"a\", realm=\"r\", nonce=\"n\", uri=\"sip:x\", response=\"00\"";
    assert!(credentials(good).is_ok());
    let cases = [
        // RFC 4475 §3.3.7.
        ("NoOneKnowsThisScheme opaque-data=here".to_owned(), NotDigest),
        ("Basic YTpi".to_owned(), NotDigest),
        (String::new(), NotDigest),
        ("Digest".to_owned(), Malformed),
        (format!("{good}, realm=\"other\""), Malformed),
        (format!("{good}, qop=auth, nc=00000001"), Malformed),
        (format!("{good}, qop=auth, cnonce=\"c\", nc=xyz"), Malformed),
        (format!("{good}, qop=auth, cnonce=\"c\", nc=000000001"), Malformed),
        (format!("{good}, algorithm=MD5-sess"), Malformed),
        (format!("{good}, algorithm=SHA-1"), NotOffered),
        (format!("{good}, qop=auth-conf"), NotOffered),
        (format!("{good}, x=\"open"), Malformed),
        (format!("{good} junk=\"1\""), Malformed),
    ];
    for (text, error) in cases {
        assert_eq!(credentials(&text), Err(error), "{text}");
    }
}

#[test]
fn every_algorithm_and_qop_signs_in() {
    for algorithm in ["MD5", "SHA-256", "SHA-512-256", "md5-sess", "SHA-256-sess", "SHA-512-256-sess"] {
        for qop in ["auth", "auth-int", ""] {
            let mut authenticator = authenticator();
            let nonce = nonce_of(&authenticator.challenges(NOW, scope(b"call-1", REALM), false)[0]);
            let header = respond(algorithm, &nonce, qop, 1, "secret");
            let verdict = judge(&mut authenticator, NOW, &header, question(1), Some(&alice()));
            assert_eq!(verdict, Verdict::Accepted, "{algorithm} {qop}");
        }
    }
}

fn request(lines: &str) -> crate::wire::Message {
    let text =
        format!("REGISTER sip:example.com SIP/2.0\r\n{lines}CSeq: 9338 REGISTER\r\nCall-ID: c\r\n\r\n");
    crate::wire::Message::parse(text.into_bytes().into()).unwrap()
}

/// RFC 4475 §3.3.7 regaut01 is challenged; credentials for others on the way are not ours (RFC 3261 §22.3).
#[test]
fn credentials_are_found_by_realm() {
    let of = |realm: &str| {
        format!(
            "Authorization: Digest username=\"{realm}\", realm=\"{realm}\", nonce=n, uri=u, response=00\r\n"
        )
    };
    let found = |lines: &str| {
        find(&request(lines), Header::Authorization, "b.org")
            .map(|found| found.map(|c| c.username.into_string()))
    };
    let unknown = "Authorization: NoOneKnowsThisScheme opaque-data=here\r\n";
    assert_eq!(found(""), None);
    assert_eq!(found(&of("a.org")), None);
    assert_eq!(found(unknown), Some(Err(CredentialsError::NotDigest)));
    let both = of("a.org") + unknown + &of("b.org");
    assert_eq!(found(&both), Some(Ok("b.org".to_owned())));
    let request = request(unknown);
    let question = DigestRequest::of(&request, "b.org", SOURCE).unwrap();
    assert_eq!((question.method, question.request_uri), (&b"REGISTER"[..], &b"sip:example.com"[..]));
    assert_eq!((question.call_id, question.cseq), (&b"c"[..], 9338));
}

/// RFC 8760 §2.4 order, one nonce for all three.
#[test]
fn challenges_stand_in_order() {
    let mut authenticator = authenticator();
    let challenges = authenticator.challenges(NOW, scope(b"call-1", "a\"b"), true);
    let nonce = nonce_of(&challenges[0]);
    let expected = ["SHA-256", "SHA-512-256", "MD5"].map(|name| {
        format!("Digest realm=\"a\\\"b\", nonce=\"{nonce}\", algorithm={name}, qop=\"auth\", stale=true")
    });
    assert_eq!(challenges, expected);
    assert_eq!(nonce.len(), 32);
    assert_ne!(nonce, nonce_of(&authenticator.challenges(NOW, scope(b"call-1", "a\"b"), true)[0]));
}

/// A wrong password, an unknown account and an algorithm that was not offered look the same.
#[test]
fn wrong_credentials_are_refused() {
    let settings = DigestSettings { hashes: vec![Hash::Sha256], ..DigestSettings::default() };
    let mut authenticator = Authenticator::new([7; 32], settings, NOW);
    let nonce = nonce_of(&authenticator.challenges(NOW, scope(b"call-1", REALM), false)[0]);
    let mut verdict = |header: String, account: Option<&Ha1s>| {
        judge(&mut authenticator, NOW, &header, question(1), account)
    };
    assert_eq!(verdict(respond("SHA-256", &nonce, "auth", 1, "guess"), Some(&alice())), Verdict::Wrong);
    assert_eq!(verdict(respond("SHA-256", &nonce, "auth", 1, "secret"), None), Verdict::Wrong);
    assert_eq!(verdict(respond("MD5", &nonce, "auth", 1, "secret"), Some(&alice())), Verdict::Wrong);
    // None of these has used the nonce up.
    assert_eq!(verdict(respond("SHA-256", &nonce, "auth", 1, "secret"), Some(&alice())), Verdict::Accepted);
}

/// RFC 3261 §22.4 leaves it to us; SIPp signs the address it sends to.
#[test]
fn the_operator_may_insist_on_the_request_uri() {
    for (same_uri, expected) in [(false, Verdict::Accepted), (true, Verdict::Wrong)] {
        let mut authenticator =
            Authenticator::new([7; 32], DigestSettings { same_uri, ..DigestSettings::default() }, NOW);
        let nonce = nonce_of(&authenticator.challenges(NOW, scope(b"call-1", REALM), false)[0]);
        let header = respond("SHA-256", &nonce, "auth", 1, "secret");
        let question = DigestRequest { request_uri: b"sip:192.0.2.1:5060", ..question(1) };
        assert_eq!(judge(&mut authenticator, NOW, &header, question, Some(&alice())), expected);
    }
}

/// RFC 7616 §3.4 `nc`, and CSeq in its place for RFC 2069.
#[test]
fn a_count_is_used_once() {
    let mut authenticator = authenticator();
    let nonce = nonce_of(&authenticator.challenges(NOW, scope(b"call-1", REALM), false)[0]);
    let mut with = |qop: &str, nc: u32, cseq: u32| {
        let header = respond("SHA-256", &nonce, qop, nc, "secret");
        judge(&mut authenticator, NOW, &header, question(cseq), Some(&alice()))
    };
    assert_eq!(with("auth", 1, 1), Verdict::Accepted);
    assert_eq!(with("auth", 1, 2), Verdict::Stale);
    assert_eq!(with("auth", 5, 3), Verdict::Accepted);
    assert_eq!(with("auth", 4, 4), Verdict::Stale);
    assert_eq!(with("", 0, 5), Verdict::Accepted);
    assert_eq!(with("", 0, 5), Verdict::Stale);
    assert_eq!(with("", 0, 6), Verdict::Accepted);
}

#[test]
fn a_nonce_belongs_to_its_call_source_realm_and_time() {
    let settings = NonceSettings::default();
    let mut nonces = Nonces::new([1; 16], settings, NOW);
    let own_scope = scope(b"call-1", REALM);
    let nonce = nonces.issue(NOW, own_scope);
    let late = NOW + settings.lifetime + Duration::from_micros(1);
    let check = |now, scope| nonces.check(now, nonce.as_bytes(), scope, 1);
    assert!(matches!(check(NOW + settings.lifetime, own_scope), NonceVerdict::Good(_)));
    assert_eq!(check(late, own_scope), NonceVerdict::Stale);
    assert_eq!(check(NOW, scope(b"call-2", REALM)), NonceVerdict::Forged);
    assert_eq!(check(NOW, scope(b"call-1", "other.org")), NonceVerdict::Forged);
    let other_source = NonceScope { source: "192.0.2.8".parse().unwrap(), ..own_scope };
    assert_eq!(check(NOW, other_source), NonceVerdict::Forged);
    let mapped = NonceScope { source: "::ffff:192.0.2.7".parse().unwrap(), ..own_scope };
    assert!(
        matches!(check(NOW, mapped), NonceVerdict::Good(_)),
        "an address is itself however it is written"
    );
    assert_eq!(nonces.check(NOW, "0".repeat(32).as_bytes(), own_scope, 1), NonceVerdict::Forged);
    let other = Nonces::new([2; 16], settings, NOW);
    assert_eq!(other.check(NOW, nonce.as_bytes(), own_scope, 1), NonceVerdict::Forged);
}

/// The use counts of nonces end with the process. In a farm, nodes that started before accept it.
#[test]
fn a_nonce_from_before_the_process_started_is_stale() {
    let settings = NonceSettings::default();
    let own_scope = scope(b"call-1", REALM);
    let mut before = Nonces::new([1; 16], settings, NOW);
    let nonce = before.issue(NOW + Duration::from_secs(5), own_scope);
    let later = NOW + Duration::from_secs(20);
    let restarted = Nonces::new([1; 16], settings, NOW + Duration::from_secs(10));
    assert_eq!(restarted.check(later, nonce.as_bytes(), own_scope, 1), NonceVerdict::Stale);
    let neighbour = Nonces::new([1; 16], settings, NOW);
    assert!(matches!(neighbour.check(later, nonce.as_bytes(), own_scope, 1), NonceVerdict::Good(_)));
    let of_neighbour = before.issue(NOW + Duration::from_secs(11), own_scope);
    assert!(matches!(restarted.check(later, of_neighbour.as_bytes(), own_scope, 1), NonceVerdict::Good(_)));
}

/// Every digit counts.
#[test]
fn no_digit_of_a_nonce_can_change() {
    let mut nonces = Nonces::new([1; 16], NonceSettings::default(), NOW);
    let nonce = nonces.issue(NOW, scope(b"call-1", REALM));
    for at in 0..nonce.len() {
        let mut changed = nonce.clone().into_bytes();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        let verdict = nonces.check(NOW, &changed, scope(b"call-1", REALM), 1);
        assert!(matches!(verdict, NonceVerdict::Forged | NonceVerdict::Stale), "{at} {verdict:?}");
    }
}

#[test]
fn the_table_of_counts_is_bounded_and_never_lets_a_replay_through() {
    let settings = NonceSettings { capacity: 4, ..NonceSettings::default() };
    let mut nonces = Nonces::new([1; 16], settings, NOW);
    let issued: Vec<String> = (0..10)
        .map(|index| nonces.issue(NOW + Duration::from_micros(index), scope(b"call-1", REALM)))
        .collect();
    for nonce in &issued {
        let NonceVerdict::Good(used) = nonces.check(NOW, nonce.as_bytes(), scope(b"call-1", REALM), 1) else {
            panic!("unused and newer than what was forgotten");
        };
        assert!(nonces.spend(NOW, used));
        assert!(!nonces.spend(NOW, used), "two requests were checked before either was verified");
    }
    assert_eq!(nonces.in_use(), 4);
    for nonce in &issued[..6] {
        assert_eq!(nonces.check(NOW, nonce.as_bytes(), scope(b"call-1", REALM), 2), NonceVerdict::Stale);
    }
    let fresh = |count| nonces.check(NOW, issued[9].as_bytes(), scope(b"call-1", REALM), count);
    assert_eq!(fresh(1), NonceVerdict::Replayed);
    assert!(matches!(fresh(2), NonceVerdict::Good(_)));
}

#[test]
fn counts_of_dead_nonces_are_forgotten() {
    let mut nonces = Nonces::new([1; 16], NonceSettings::default(), NOW);
    for minute in 0..60 {
        let now = NOW + Duration::from_secs(minute * 60);
        let nonce = nonces.issue(now, scope(b"call-1", REALM));
        let NonceVerdict::Good(used) = nonces.check(now, nonce.as_bytes(), scope(b"call-1", REALM), 1) else {
            panic!("fresh");
        };
        assert!(nonces.spend(now, used));
    }
    assert_eq!(nonces.in_use(), 6);
}

proptest! {
    #[test]
    fn any_bytes_may_be_tried(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Credentials::parse(&bytes.clone().into());
        let mut behind = b"Digest ".to_vec();
        behind.extend_from_slice(&bytes);
        let _ = Credentials::parse(&behind.into());
        let _ = Nonces::new([1; 16], NonceSettings::default(), NOW).check(NOW, &bytes, scope(&bytes, REALM), 1);
    }

    #[test]
    fn nearly_credentials_may_be_tried(
        text in "(username|nc|qop|realm|algorithm|cnonce|username\\*)=(\"[a-z\\\\,=]{0,4}\"?|auth|[0-9a-f]{0,9}|UTF-8'%)( ?, ?)?",
        more in "[ -~]{0,40}",
    ) {
        let header = format!("Digest {text}{more}{text}");
        if credentials(&header).is_ok() {
            let _ = judge(&mut authenticator(), NOW, &header, question(1), None);
        }
    }

    #[test]
    fn a_quoted_string_reads_back(text in "[ -~äø]{0,20}") {
        let mut header = "Digest username=".to_owned();
        quoted(&text, &mut header);
        header.push_str(", realm=r, nonce=n, uri=u, response=00");
        let credentials = credentials(&header).unwrap();
        prop_assert_eq!(&*credentials.username, text);
    }
}
