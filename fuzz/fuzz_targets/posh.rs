//! Any bytes as the documents that a domain's web server and the one of a reference answer with (RFC 7711), one after the other behind a zero
//! byte, for a stream of another server that has shown a certificate: two fetches at most, the features come once, and SASL EXTERNAL is among them
//! only if a document has the certificate's fingerprint.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use stdx::Instant;
use xmpp::ShardAddress;
use xmpp::s2s::{Admission, CertificateHashes, Effect, Policy, PoshFetch, S2sSettings, Security, Servers};

/// The certificate of which `fuzz/seeds.sh` has the fingerprint: SHA-256 over these bytes, in Base64.
const CERTIFICATE: &[u8] = b"certificate";
const FINGERPRINTS: [&str; 3] = [
    "A9Zt0Ig1wco/EozOrNHzGslBYwlrIPRFroQoW8CDLXI=",
    "5sFeWMFJyCj7XxNgnD+NTU/uO8aeb/k7+qvIu/L2RWBkHm1IGOXHY0lRKVEgGvgq",
    "PZ572aTLC1kcNnRh5uj2JRgdZb1vRcFpXePE5fGmstxb5Y6PIvnY59FgV63vBYdDzpsi3X0z89tjdMBb4O/Zgg==",
];

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
    xmlns:db='jabber:server:dialback' from='b.test' to='a.test' version='1.0'>";

fuzz_target!(|data: &[u8]| {
    let now = Instant::from_unix_seconds(1);
    let mut servers = Servers::new(Arc::new(settings()), ShardAddress::default(), [1; 32]);
    let presented = Some(Box::new(CertificateHashes::of(CERTIFICATE)));
    let number = servers.accept(now, Security { encrypted: true, certificate: None, presented });
    let mut out = Vec::new();
    servers.handle_bytes(now, number, HEADER, &mut out);
    let mut documents = data.splitn(2, |byte| *byte == 0).map(<[u8]>::to_vec);
    let (mut fetches, mut written, mut has_fingerprint) = (0, String::new(), false);
    loop {
        written.extend(out.iter().filter_map(|effect| match effect {
            Effect::Write { bytes, .. } => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }));
        let Some(fetch) = std::mem::take(&mut out).into_iter().find_map(fetch_of) else { break };
        fetches += 1;
        assert!(
            fetch.url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")),
            "{fetch:?}"
        );
        let document = documents.next().unwrap_or_default();
        // A document may spell it with escapes.
        let text = String::from_utf8_lossy(&document);
        has_fingerprint |= text.contains('\\') || FINGERPRINTS.iter().any(|hash| text.contains(hash));
        servers.handle_posh(now, &fetch, Ok(document), &mut out);
    }
    assert!((1..=2).contains(&fetches));
    assert_eq!(written.matches("<stream:features").count(), 1, "{written}");
    assert!(has_fingerprint || !written.contains("EXTERNAL"), "{written}");
});

fn fetch_of(effect: Effect) -> Option<PoshFetch> {
    match effect {
        Effect::FetchPosh(fetch) => Some(fetch),
        _ => None,
    }
}

fn settings() -> S2sSettings {
    let second = std::time::Duration::from_secs(1);
    S2sSettings {
        domains: vec!["a.test".into()],
        tls: true,
        policy: Policy { admission: Admission::Open, require_tls: true, ..Policy::default() },
        max_stanza: 1 << 16,
        connect: second,
        authorize: 30 * second,
        idle: 60 * second,
        secret: [1; 32],
        posh: true,
    }
}
