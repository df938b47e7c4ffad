//! Vectors of the RFCs, and tokens that must not be accepted.

use std::future::Future as _;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;
use crate::ldap::DirectoryRole;
use crate::token::TokenRoles;

const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
const SECRET: &[u8] = b"a secret of more than thirty-two bytes";

/// RFC 7515 appendix A: the payload of all its examples.
const PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn settings(keys: PathBuf) -> JwtSettings {
    JwtSettings {
        keys: KeySource::File(keys),
        authorities: None,
        issuer: "https://id.example.test".into(),
        audience: "belfry".into(),
        user_claim: "name".into(),
        leeway: Duration::from_secs(30),
        roles: Some(TokenRoles {
            claim: "realm_access.roles".into(),
            roles: vec![(DirectoryRole::Operator, "desk".into()), (DirectoryRole::ReadOnly, "staff".into())],
        }),
        account_claim: Some("belfry.account".into()),
        provider: None,
    }
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn sign(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn claims() -> Value {
    json!({"iss": "https://id.example.test", "aud": "belfry", "exp": 1_700_000_060, "name": "alice"})
}

fn secret_key(id: &str) -> Value {
    json!({"kty": "oct", "kid": id, "k": URL_SAFE_NO_PAD.encode(SECRET)})
}

fn set(keys: &[Value]) -> Vec<u8> {
    json!({"keys": keys}).to_string().into_bytes()
}

/// A source of tokens whose keys are in a file, and the runtime to ask it in.
struct TokenWorld {
    source: TokenSource,
    file: PathBuf,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl TokenWorld {
    fn new(keys: &[Value]) -> TokenWorld {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        std::fs::write(&file, set(keys)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        TokenWorld {
            source: TokenSource::new(&settings(file.clone())).unwrap(),
            file,
            runtime,
            _folder: folder,
        }
    }

    fn accept(&self, now: Instant, token: &str) -> Result<Option<TokenUser>, SourceFailure> {
        self.runtime.block_on(self.source.check(now, "example.test", token))
    }

    fn check_at(&self, now: Instant, token: &str) -> Result<Option<Box<str>>, SourceFailure> {
        self.accept(now, token).map(|user| user.map(|user| user.name))
    }

    fn user(&self, token: &str) -> Option<Box<str>> {
        self.check_at(NOW, token).unwrap()
    }
}

/// A world with one secret, and a token of these claims.
fn with_claims(change: impl FnOnce(&mut Map<String, Value>)) -> Option<Box<str>> {
    let mut claims = claims();
    change(claims.as_object_mut().unwrap());
    TokenWorld::new(&[secret_key("a")]).user(&sign(&json!({"alg": "HS256", "kid": "a"}), &claims, SECRET))
}

fn verified(token: &str, key: Value) -> bool {
    let keys = keys::read(&set(&[key])).unwrap();
    verify(&read(token).unwrap(), &keys).is_some()
}

#[test]
fn the_signatures_of_the_rfcs_are_verified() {
    let hs256 = format!(
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{PAYLOAD}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    );
    let rs256 = format!(
        "eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    );
    let es256 = format!(
        "eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    );
    let keys = [
        json!({"kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}),
        json!({"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}),
        json!({"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}),
    ];
    for (at, token) in [hs256, rs256, es256].iter().enumerate() {
        for (of, key) in keys.iter().enumerate() {
            assert_eq!(verified(token, key.clone()), at == of, "token {at} with key {of}");
        }
        let other = token.replacen("eyJpc3Mi", "eyJpc3Nj", 1);
        assert!(!verified(&other, keys[at].clone()), "other claims");
    }
}

#[test]
fn a_signature_of_ed25519_is_verified() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let world = TokenWorld::new(&[json!({"kty": "OKP", "crv": "Ed25519", "kid": "e", "use": "sig", "x": x})]);
    let message = format!("{}.{}", encode(&json!({"alg": "EdDSA", "kid": "e"})), encode(&claims()));
    let signature = pair.sign(message.as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
    assert_eq!(world.user(&token).as_deref(), Some("alice"));
    let (short, _) = token.split_at(token.len() - 2);
    assert_eq!(world.user(short), None, "a part of the signature");
}

#[test]
fn a_token_cannot_choose_how_it_is_verified() {
    // RFC 8725 §2.1: `none`, and a public key that is taken for a secret.
    let x = URL_SAFE_NO_PAD.encode(Ed25519KeyPair::generate().unwrap().public_key());
    let public = json!({"kty": "OKP", "crv": "Ed25519", "kid": "e", "x": x});
    let world = TokenWorld::new(&[public, secret_key("a")]);
    let of_header = |header: Value, secret: &[u8]| world.user(&sign(&header, &claims(), secret));
    assert_eq!(of_header(json!({"alg": "HS256", "kid": "a"}), SECRET).as_deref(), Some("alice"));
    assert_eq!(of_header(json!({"alg": "HS256"}), SECRET).as_deref(), Some("alice"), "no key is named");
    let as_secret = URL_SAFE_NO_PAD.decode(x.as_bytes()).unwrap();
    assert_eq!(of_header(json!({"alg": "HS256", "kid": "e"}), &as_secret), None, "algorithm confusion");
    assert_eq!(of_header(json!({"alg": "HS256", "kid": "e"}), x.as_bytes()), None);
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "None", "kid": "a"}),
        json!({"alg": "HS384", "kid": "a"}),
        json!({"alg": "hs256", "kid": "a"}),
        json!({"alg": ["HS256"], "kid": "a"}),
        json!({"kid": "a"}),
        json!({"alg": "HS256", "kid": 5}),
        json!({"alg": "HS256", "kid": "b"}),
        json!({"alg": "HS256", "kid": "a", "crit": ["exp"]}),
        json!({"alg": "EdDSA", "kid": "a"}),
    ] {
        assert_eq!(of_header(header.clone(), SECRET), None, "{header}");
    }
    assert_eq!(of_header(json!({"alg": "HS256", "kid": "a"}), b"another secret"), None);
    let unsigned = format!("{}.{}.", encode(&json!({"alg": "none"})), encode(&claims()));
    assert_eq!(world.user(&unsigned), None);
    // A key in the header (RFC 7515 §4.1.3) is not used.
    let own = json!({"alg": "HS256", "jwk": secret_key("x"), "kid": "x"});
    assert_eq!(of_header(own, SECRET), None);
}

#[test]
fn each_claim_is_checked() {
    type Change = fn(&mut Map<String, Value>);
    let set = |claims: &mut Map<String, Value>, name: &str, value: Value| {
        claims.insert(name.into(), value);
    };
    let right: [(&str, Change); 5] = [
        ("as it is", |_| {}),
        ("several audiences", |claims| drop(claims.insert("aud".into(), json!(["other", "belfry"])))),
        ("over, within the leeway", |claims| drop(claims.insert("exp".into(), json!(1_699_999_971)))),
        ("begun, within the leeway", |claims| drop(claims.insert("nbf".into(), json!(1_700_000_030)))),
        ("an address of this domain", |claims| {
            drop(claims.insert("name".into(), json!("alice@Example.test")));
        }),
    ];
    for (what, change) in right {
        assert_eq!(with_claims(change).as_deref(), Some("alice"), "{what}");
    }
    for (name, value) in [
        ("iss", json!("https://id.example.test/")),
        ("iss", json!(["https://id.example.test"])),
        ("aud", json!("other")),
        ("aud", json!(["other"])),
        ("aud", json!({"belfry": true})),
        ("exp", json!(1_699_999_970)),
        ("exp", json!("1700000060")),
        ("exp", Value::Null),
        ("nbf", json!(1_700_000_031)),
        ("nbf", json!("0")),
        ("nbf", Value::Null),
        ("name", json!("")),
        ("name", json!(7)),
        ("name", json!("alice@elsewhere.test")),
    ] {
        assert_eq!(with_claims(|claims| set(claims, name, value.clone())), None, "{name} {value}");
    }
    for name in ["iss", "aud", "exp", "name"] {
        assert_eq!(with_claims(|claims| drop(claims.remove(name))), None, "no {name}");
    }
}

#[test]
fn an_accepted_token_has_the_role_of_its_claims_and_an_end() {
    let world = TokenWorld::new(&[secret_key("a")]);
    let header = json!({"alg": "HS256", "kid": "a"});
    let mut claims = claims();
    let accept = |claims: &Value| world.accept(NOW, &sign(&header, claims, SECRET)).unwrap();
    let user = accept(&claims).unwrap();
    assert_eq!((&*user.name, user.role), ("alice", None));
    assert_eq!(user.ends_at, NOW + Duration::from_secs(90), "a minute, and the leeway");
    claims["realm_access"] = json!({"roles": ["offline_access", "staff", "desk"]});
    assert_eq!(accept(&claims).unwrap().role, Some(DirectoryRole::Operator));
    claims["exp"] = json!(1e300);
    assert_eq!(accept(&claims).unwrap().ends_at, Instant::FAR_FUTURE);
    claims["exp"] = json!(1_699_999_970);
    assert_eq!(accept(&claims), None, "a token that is over gives no role");
}

#[test]
fn the_issuer_that_a_token_claims_is_read_before_anything_is_verified() {
    let token = sign(&json!({"alg": "HS256"}), &claims(), b"any secret");
    assert_eq!(claimed_issuer(&token).as_deref(), Some("https://id.example.test"));
    let without = sign(&json!({"alg": "HS256"}), &json!({"iss": 1}), SECRET);
    for none in ["", "a.b.c", "e30.e30.e30", &without] {
        assert_eq!(claimed_issuer(none), None, "{none}");
    }
}

#[test]
fn bytes_that_are_no_token_are_refused() {
    let world = TokenWorld::new(&[secret_key("a")]);
    let long = format!("{}.e30.e30", "a".repeat(limits::TOKEN));
    for token in ["", ".", "..", "...", "e30.e30", "e30.e30.e30.e30", "=.=.=", "[].e30.e30", &long] {
        assert_eq!(world.user(token), None, "{}", token.len());
    }
}

#[test]
fn keys_are_read_again_for_an_unknown_key_and_at_most_once_a_minute() {
    let world = TokenWorld::new(&[secret_key("a")]);
    let of = |id: &str| sign(&json!({"alg": "HS256", "kid": id}), &claims(), SECRET);
    assert_eq!(world.user(&of("a")).as_deref(), Some("alice"));
    std::fs::write(&world.file, set(&[secret_key("a"), secret_key("b")])).unwrap();
    assert_eq!(world.user(&of("b")), None, "they were read within the minute");
    let later = NOW + Duration::from_secs(60);
    assert_eq!(world.check_at(later, &of("b")).unwrap().as_deref(), Some("alice"));
    // An unreadable file leaves the known keys, until they are too old.
    std::fs::write(&world.file, "{}").unwrap();
    let hours = |count| NOW + Duration::from_hours(count);
    let lasting = sign(
        &json!({"alg": "HS256", "kid": "a"}),
        &json!({"iss": "https://id.example.test", "aud": "belfry", "exp": 1_800_000_000, "name": "alice"}),
        SECRET,
    );
    assert_eq!(world.check_at(hours(2), &lasting).unwrap().as_deref(), Some("alice"));
    assert!(world.check_at(hours(25), &lasting).is_err(), "a key may have been withdrawn");
}

#[test]
fn a_set_without_a_usable_key_is_a_mistake_that_shows_nothing_of_it() {
    for text in [
        &b"hush"[..],
        b"{\"keys\": \"hush\"}",
        b"{\"keys\": [{\"kty\": \"oct\", \"k\": \"aHVzaA\"}]}",
        b"{\"keys\": [{\"kty\": \"oct\", \"alg\": \"HS512\", \"k\": \"aHVzaGh1c2hodXNoaHVzaGh1c2hodXNoaHVzaGh1c2g\"}]}",
        b"{\"keys\": [{\"kty\": \"EC\", \"crv\": \"P-384\", \"x\": \"AA\", \"y\": \"AA\"}]}",
        b"{\"keys\": []}",
    ] {
        let Err(mistake) = keys::read(text) else { panic!("{}", text.escape_ascii()) };
        assert!(!mistake.contains("hush"), "{mistake}");
    }
}

/// A pipe is a file that does not answer until its other end is written to.
#[test]
fn keys_in_a_file_that_does_not_answer_stop_nothing_else() {
    let world = TokenWorld::new(&[]);
    std::fs::remove_file(&world.file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&world.file).status().unwrap().success());
    let token = sign(&json!({"alg": "HS256", "kid": "a"}), &claims(), SECRET);
    {
        let _runtime = world.runtime.enter();
        let mut check = pin!(world.source.check(NOW, "example.test", &token));
        assert!(check.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The client has gone, and the file is still being read.
    }
    let later = NOW + limits::KEYS_AGAIN;
    let Err(failure) = world.check_at(later, &token) else { panic!("there are no keys yet") };
    assert!(failure.to_string().contains("there are no keys"), "{failure}");
    // Ends the reading, so that the next one is begun.
    std::fs::write(&world.file, set(&[secret_key("a")])).unwrap();
}
