//! The RFCs' examples, and challenges as servers write them.

use base64::Engine as _;

use super::digest::{Algorithm, Hash, Qop, Response};
use super::*;

const DEFAULTS: Defaults<'_> = Defaults { username: b"service", password: b"password" };
const REGISTER: SignedRequest<'_> =
    SignedRequest { method: b"REGISTER", uri: b"sip:127.0.0.1:5060", body: b"v=0\r\n" };

fn answered(values: &[&str], count: u32, secrets: &Secrets) -> Result<String, String> {
    let values: Vec<Vec<u8>> = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    let value = answer(&values, count, secrets, &DEFAULTS, &REGISTER, 0xfeed)?;
    Ok(String::from_utf8(value).unwrap())
}

fn secrets(username: &str, password: &str) -> Secrets {
    Secrets { username: Some(username.into()), password: Some(password.into()), ..Secrets::default() }
}

fn rfc7616(hash: Hash) -> Response<'static> {
    Response {
        algorithm: Algorithm { hash, session: false, aka: false },
        username: b"Mufasa",
        realm: b"http-auth@example.org",
        password: b"Circle of Life",
        nonce: b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        method: b"GET",
        uri: b"/dir/index.html",
        qop: Qop::Auth,
        cnonce: b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
        nc: b"00000001",
        body: b"",
    }
}

/// RFC 2617 §3.5.
#[test]
fn the_example_of_rfc_2617() {
    let response = Response {
        realm: b"testrealm@host.com",
        password: b"Circle Of Life",
        nonce: b"dcd98b7102dd2f0e8b11d0f600bfb0c093",
        cnonce: b"0a4f113b",
        ..rfc7616(Hash::Md5)
    };
    assert_eq!(response.compute(), b"6629fae49393a05397450978507c4ef1");
}

/// RFC 7616 §3.9.1.
#[test]
fn the_examples_of_rfc_7616() {
    assert_eq!(rfc7616(Hash::Md5).compute(), b"8ca523f5e9506fed4657c9700eebdbec");
    let sha = b"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
    assert_eq!(rfc7616(Hash::Sha256).compute(), sha);
}

#[test]
fn an_answer_has_sipps_shape() {
    let challenge = "Digest realm=\"r\", nonce=\"n\", opaque=\"o\", qop=\"auth\", stale=FALSE";
    let value = answered(&[challenge], 3, &secrets("u", "p")).unwrap();
    let (before, after) = value.split_once(",response=\"").unwrap();
    assert_eq!(
        before,
        "Digest username=\"u\",realm=\"r\",cnonce=\"000000000000feed\",nc=00000003,qop=auth,\
         uri=\"sip:127.0.0.1:5060\",nonce=\"n\""
    );
    assert_eq!(after[32..], *"\",algorithm=MD5,opaque=\"o\"");
}

#[test]
fn our_own_answers_are_verified() {
    let qops = ["", ",qop=auth", ",qop=\"auth-int\"", ",qop=\"auth,auth-int\""];
    for algorithm in
        ["", ",algorithm=MD5", ",algorithm=\"SHA-256\"", ",algorithm=SHA-512-256", ",algorithm=md5-sess"]
    {
        for qop in qops.iter().filter(|qop| !(algorithm.ends_with("sess") && qop.is_empty())) {
            let challenge = format!("Digest realm=\"a, nonce=b\",nonce=\"n\"{algorithm}{qop}");
            let value = answered(&[&challenge], 1, &secrets("u", "p")).unwrap();
            let check = |user: &str, password: &str, method: &str, body: &str| {
                verify(
                    user.as_bytes(),
                    password.as_bytes(),
                    method.as_bytes(),
                    value.as_bytes(),
                    body.as_bytes(),
                )
            };
            assert!(check("u", "p", "REGISTER", "v=0\r\n"), "{challenge}: {value}");
            assert!(!check("u", "q", "REGISTER", "v=0\r\n"), "{challenge}");
            assert!(!check("v", "p", "REGISTER", "v=0\r\n"), "{challenge}");
            assert!(!check("u", "p", "INVITE", "v=0\r\n"), "{challenge}");
            assert_eq!(!check("u", "p", "REGISTER", "v=1\r\n"), qop.contains("int"), "{challenge}");
        }
    }
}

#[test]
fn the_strongest_we_speak_is_answered() {
    let md5 = "Digest realm=\"md5\", nonce=\"n\"";
    let sha = "Digest realm=\"sha\", nonce=\"n\", algorithm=SHA-256";
    let strange = "Digest realm=\"x\", nonce=\"n\", algorithm=WHIRLPOOL, qop=\"auth,auth-int\"";
    let joined = format!("Basic realm=\"b\", {md5}, {strange}, {sha}");
    for offered in [&[md5, sha][..], &[sha, md5, strange], &[&joined]] {
        let value = answered(offered, 1, &Secrets::default()).unwrap();
        assert!(value.starts_with("Digest username=\"service\",realm=\"sha\""), "{value}");
    }
    // Without a qop a session algorithm cannot be answered.
    let session = "Digest realm=\"s\", nonce=\"n\", algorithm=SHA-256-sess";
    assert!(answered(&[session, md5], 1, &Secrets::default()).unwrap().contains("realm=\"md5\""));
}

#[test]
fn a_challenge_without_answer_says_why() {
    for (challenge, reason) in [
        ("", "no challenge"),
        ("Basic realm=\"x\"", "no challenge"),
        ("Digest realm=\"x\", nonce=\"n\", algorithm=WHIRLPOOL", "no challenge"),
        ("Digest nonce=\"n\"", "without realm"),
        ("Digest realm=\"x\"", "without nonce"),
        ("Digest realm=\"x\", nonce=\"***\", algorithm=AKAv1-MD5", "not base64"),
        ("Digest realm=\"x\", nonce=\"AAAA\", algorithm=AKAv1-MD5", "3 bytes"),
    ] {
        let error = answered(&[challenge], 1, &Secrets::default()).unwrap_err();
        assert!(error.contains(reason), "{challenge}: {error}");
    }
}

#[test]
fn broken_credentials_are_not_verified() {
    for value in [
        "",
        "Digest",
        "Basic x",
        "Digest response=\"\"",
        "Digest username=\"u\",realm=\"r\",uri=\"x\",nonce=\"n\"",
        "Digest username=\"u\",realm=\"r\",uri=\"x\",nonce=\"n\",response=\"\"",
        "Digest username=\"u\",realm=\"r\",nonce=\"n\",qop=auth,response=\"0\"",
        "Digest algorithm=AKAv1-MD5,response=\"\"",
        "Digest \"unclosed, response=\"",
    ] {
        assert!(!verify(b"u", b"p", b"REGISTER", value.as_bytes(), b""), "{value}");
    }
}

/// Test set 1 of 3GPP TS 35.208: RAND, SQN ⊕ AK, AMF, MAC.
#[test]
fn aka_answers_with_the_result_of_the_key() {
    let nonce = "23553cbe9637a89d218ae64dae47bf3555f328b43577b9b94a9ffac354dfafb3";
    let nonce = base64::engine::general_purpose::STANDARD.encode(stdx::hex::decode(nonce).unwrap());
    let challenge = format!("Digest realm=\"ims\", nonce=\"{nonce}\", algorithm=AKAv1-MD5, qop=auth");
    let key = Secrets {
        aka_k: Some(b"0x465b5ce8b199b49faa5f0a2ee238a6bc".to_vec()),
        aka_op: Some(b"0xcdc202d5123e20f62b6d676ac72cb318".to_vec()),
        ..secrets("u", "p")
    };
    let value = answered(&["Digest realm=\"x\",nonce=\"n\",algorithm=SHA-256", &challenge], 1, &key).unwrap();
    let expected = Response {
        username: b"u",
        realm: b"ims",
        password: &stdx::hex::decode("a54211d5e3ba50bf").unwrap(),
        nonce: nonce.as_bytes(),
        method: b"REGISTER",
        uri: REGISTER.uri,
        cnonce: b"000000000000feed",
        ..rfc7616(Hash::Md5)
    };
    let expected = String::from_utf8(expected.compute()).unwrap();
    assert!(value.contains(&format!("response=\"{expected}\",algorithm=AKAv1-MD5")), "{value}");
    // The same as bytes, and a key that is not the network's.
    let raw = stdx::hex::decode("465b5ce8b199b49faa5f0a2ee238a6bc").unwrap();
    let same = Secrets { aka_k: Some(raw), ..key.clone() };
    assert_eq!(answered(&[&challenge], 1, &same).unwrap(), value);
    let wrong = Secrets { aka_k: None, ..key };
    assert!(answered(&[&challenge], 1, &wrong).unwrap_err().contains("MAC is wrong"));
}

#[test]
fn keywords_out_of_files_are_read() {
    let read =
        parse_keyword(b"[authentication username=joe password=\"a \\\"b\\\" c\" aka_K=0x414243 aka_OP=");
    assert_eq!(read.username.as_deref(), Some(&b"joe"[..]));
    assert_eq!(read.password.as_deref(), Some(&b"a \"b\" c"[..]));
    assert_eq!(read.aka_k.as_deref(), Some(&b"ABC"[..]));
    assert_eq!((read.aka_op, read.aka_amf), (None, None));
    assert_eq!(parse_keyword(b"[authentication]"), Secrets::default());
}

proptest::proptest! {
    #[test]
    fn anything_may_be_offered(value in "[ -~]{0,80}", more in "(Digest )?[a-z=\", ]{0,40}") {
        let _ = answered(&[&value, &more], 1, &Secrets::default());
        let _ = verify(b"u", b"p", b"INVITE", value.as_bytes(), b"");
        let _ = parse_keyword(value.as_bytes());
    }
}
