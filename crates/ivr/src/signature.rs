//! The header that proves to an application that a request is ours: `X-Twilio-Signature`, HMAC-SHA1 over URL
//! and parameters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Name of the header that carries it. RestComm's applications know no signature and ignore it.
pub const HEADER: &str = "X-Twilio-Signature";

/// The header's value. `url` is the whole URL as it is requested, query included; `form` are the parameters of a form
/// in the body, none for GET. Names are sorted; a name's values too, each once, as Twilio's validators compute it.
pub fn sign(auth_token: &str, url: &str, form: &[(String, String)]) -> String {
    let mut sorted: Vec<(&str, &str)> =
        form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut mac = Hmac::<Sha1>::new_from_slice(auth_token.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(url.as_bytes());
    for (name, value) in sorted {
        mac.update(name.as_bytes());
        mac.update(value.as_bytes());
    }
    STANDARD.encode(mac.finalize().into_bytes())
}

/// A URL with the hash of a body that is no form as its last parameter, `bodySHA256`, and the header's value for it.
pub fn sign_body(auth_token: &str, url: &str, body: &[u8]) -> (String, String) {
    let joint = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{joint}bodySHA256={}", stdx::hex::encode(&Sha256::digest(body)));
    let signature = sign(auth_token, &url, &[]);
    (url, signature)
}

/// For requests that come in signed.
pub fn verify(auth_token: &str, url: &str, form: &[(String, String)], signature: &str) -> bool {
    stdx::ct_eq(sign(auth_token, url, form).as_bytes(), signature.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The facts of twilio-python's `tests/unit/test_request_validator.py`.
    const TOKEN: &str = "12345";

    fn form(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn call() -> Vec<(String, String)> {
        form(&[
            ("CallSid", "CA1234567890ABCDE"),
            ("Digits", "1234"),
            ("From", "+14158675309"),
            ("To", "+18005551212"),
            ("Caller", "+14158675309"),
        ])
    }

    /// The examples of Twilio's page about webhook security.
    #[test]
    fn signatures_match_twilios_examples() {
        for (url, signature) in [
            ("https://mycompany.com/myapp.php?foo=1&bar=2", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
            ("http://mycompany.com:1234/myapp.php?foo=1&bar=2", "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="),
            ("https://mycompany.com:443/myapp.php?foo=1&bar=2", "kvajT1Ptam85bY51eRf/AJRuM3w="),
            ("http://mycompany.com:80/myapp.php?foo=1&bar=2", "0ZXoZLH/DfblKGATFgpif+LLRf4="),
        ] {
            assert_eq!(sign(TOKEN, url, &call()), signature, "{url}");
            assert!(verify(TOKEN, url, &call(), signature));
            assert!(!verify("12346", url, &call(), signature));
        }
    }

    #[test]
    fn a_body_that_is_no_form_is_signed_by_its_hash_in_the_url() {
        let url = "https://mycompany.com/myapp.php?foo=1&bar=2&bodySHA256=\
                   0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
        assert_eq!(sign(TOKEN, url, &[]), "a9nBmqA0ju/hNViExpshrM61xv4=");
    }

    #[test]
    fn values_of_one_name_are_sorted_and_counted_once() {
        let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
        let twice =
            form(&[("Sid", "CA123"), ("SidAccount", "AC123"), ("Digits", "5678"), ("Digits", "1234")]);
        assert_eq!(sign(TOKEN, url, &twice), "IK+Dwps556ElfBT0I3Rgjkr1wJU=");
        let mut again = twice.clone();
        again.push(("Digits".into(), "1234".into()));
        assert_eq!(sign(TOKEN, url, &again), sign(TOKEN, url, &twice));
    }
}
