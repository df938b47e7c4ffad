//! The cost of authentication for a shard: `cargo run --release -p sip --example digest_bench`. Nanoseconds
//! an operation, the best of several rounds.

use std::fmt::Write;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use sip::digest::{Authenticator, Credentials, DigestRequest, DigestSettings, Ha1s, NonceScope, Verdict};
use stdx::Instant;

const ROUNDS: u32 = 20;
const OPERATIONS: u32 = 10_000;
const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
const CALL_ID: &[u8] = b"843817637684230@998sdasdh09.example.org";
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const SCOPE: NonceScope<'static> = NonceScope { realm: "example.org", call_id: CALL_ID, source: SOURCE };

fn main() {
    println!("{:<28}{:>10}", "operation", "ns");
    let mut authenticator = Authenticator::new([7; 32], DigestSettings::default(), NOW);
    report("challenge, three lines", || {
        black_box(authenticator.challenges(NOW, black_box(SCOPE), false));
    });
    let mut nonces = sip::digest::Nonces::new([7; 16], DigestSettings::default().nonces, NOW);
    report("nonce alone", || {
        black_box(nonces.issue(NOW, black_box(SCOPE)));
    });
    let account = Ha1s::compute("alice", "example.org", "secret");
    for algorithm in ["MD5", "SHA-256", "SHA-512-256"] {
        let nonce = nonces.issue(NOW, SCOPE);
        let header = header(algorithm, &nonce);
        report(&format!("parse, {algorithm}"), || {
            black_box(Credentials::parse(black_box(&header)).is_ok());
        });
        let mut authenticator = Authenticator::new([7; 32], DigestSettings::default(), NOW);
        let challenge = authenticator.challenges(NOW, SCOPE, false).remove(0);
        let nonce = challenge.split('"').nth(3).expect("a challenge has a realm and a nonce").to_owned();
        let header = self::header(algorithm, &nonce);
        let credentials = Credentials::parse(&header).expect("written above");
        let inspected =
            authenticator.inspect(NOW, credentials, question()).expect("the nonce was issued above");
        for (name, account) in [("known", Some(&account)), ("unknown", None)] {
            report(&format!("verify, {algorithm}, {name}"), || {
                let verdict = authenticator.verify(NOW, black_box(&inspected), question(), account);
                assert_eq!(verdict, Verdict::Wrong);
            });
        }
    }
}

/// With a wrong response: the work is the same and the nonce stays good.
fn header(algorithm: &str, nonce: &str) -> Bytes {
    let mut header = format!(
        "Digest username=\"alice\", realm=\"example.org\", nonce=\"{nonce}\", uri=\"sip:example.org\", \
         algorithm={algorithm}, cnonce=\"0a4f113b6e3ddae1\", qop=auth, nc=00000001, response=\""
    );
    for _ in 0..if algorithm == "MD5" { 16 } else { 32 } {
        let _ = write!(header, "00");
    }
    header.push('"');
    header.into()
}

fn question() -> DigestRequest<'static> {
    DigestRequest {
        realm: "example.org",
        method: b"REGISTER",
        request_uri: b"sip:example.org",
        call_id: CALL_ID,
        source: SOURCE,
        cseq: 2,
        body: b"",
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn report(name: &str, mut operation: impl FnMut()) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = std::time::Instant::now();
            (0..OPERATIONS).for_each(|_| operation());
            start.elapsed() / OPERATIONS
        })
        .min()
        .unwrap_or_default();
    println!("{name:<28}{:>10}", best.as_nanos());
}
