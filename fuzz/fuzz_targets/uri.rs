//! Any bytes as a URI, or two: equality, canonical texts, and that these are URIs again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sip::wire::{Address, Params, Uri, parse_ip, unescape};

fuzz_target!(|data: &[u8]| {
    let mut halves = data.splitn(2, |&b| b == b'\n');
    let (first, second) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    let _ = (parse_ip(first), unescape(first), Address::parse(first).is_some());
    Params(first).iter().for_each(drop);
    let Ok(uri) = Uri::parse(first) else { return };
    assert!(uri.equals(&uri));
    let _ = (uri.user_decoded(), uri.host_lower(), uri.host_ip(), uri.number(), uri.number_param("isub"));
    if let Some(aor) = uri.aor() {
        let again = format!("sip:{aor}");
        let again = Uri::parse(again.as_bytes()).expect("an AOR is a URI's text");
        assert_eq!(again.aor().as_ref(), Some(&aor));
    }
    if let Ok(other) = Uri::parse(second) {
        assert_eq!(uri.equals(&other), other.equals(&uri));
    }
});
