//! Domain names in other letters than ASCII (RFC 5890, prepared as UTS 46 says): A-labels, as DNS, SIP and certificates have
//! them, and U-labels, as addresses have them (RFC 7622 §3.2). Both are one name, and its letters are how it is kept.

use std::borrow::Cow;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// True if it has to be looked into: nearly no name has.
pub(crate) fn is_international(name: &str) -> bool {
    let is_a_label =
        |label: &str| label.as_bytes().get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"));
    !name.is_ascii() || name.split('.').any(is_a_label)
}

/// The name with U-labels. `None`: an A-label that stands for nothing or for ASCII, letters that no name has, or too long for
/// DNS.
pub fn to_unicode(name: &str) -> Option<Cow<'_, str>> {
    if !is_international(name) {
        return Some(Cow::Borrowed(name));
    }
    to_ascii(name)?;
    let (unicode, valid) =
        Uts46::new().to_unicode(name.as_bytes(), AsciiDenyList::URL, Hyphens::CheckFirstLast);
    valid.is_ok().then_some(unicode)
}

/// The name with A-labels. `None` as of [`to_unicode`].
pub fn to_ascii(name: &str) -> Option<Cow<'_, str>> {
    if !is_international(name) {
        return Some(Cow::Borrowed(name));
    }
    let (list, hyphens) = (AsciiDenyList::URL, Hyphens::CheckFirstLast);
    Uts46::new().to_ascii(name.as_bytes(), list, hyphens, DnsLength::Verify).ok()
}

/// As the names in a certificate are compared (RFC 6125 §6.4.2). One that stands for nothing stays, and is like no address.
pub(crate) fn of_certificate(name: &str) -> Box<str> {
    let (star, rest) = name.strip_prefix("*.").map_or(("", name), |rest| ("*.", rest));
    match to_unicode(rest) {
        Some(unicode) => format!("{star}{}", unicode.to_ascii_lowercase()).into(),
        None => name.to_ascii_lowercase().into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_of_both_kinds_are_one_name() {
        // RFC 3492 §7.1 (B), (I), (L) and (S).
        for (code, text) in [
            ("ihqwcrb4cv8a8dqg056pqjye", "他们为什么不说中文"),
            ("b1abfaaepdrnnbgefbadotcwatmq2g4l", "почемужеонинеговорятпорусски"),
            ("3B-ww4c5e180e575a65lsy2b", "3年b組金八先生"),
            ("bcher-kva", "bücher"),
        ] {
            let (ascii, unicode) = (format!("www.xn--{code}.example"), format!("www.{text}.example"));
            assert_eq!(to_unicode(&ascii).as_deref(), Some(&*unicode));
            assert_eq!(to_ascii(&unicode).as_deref(), Some(&*ascii.to_lowercase()));
            assert_eq!(*of_certificate(&ascii), *unicode);
        }
        assert_eq!(to_unicode("Chat.Example_1.NET").as_deref(), Some("Chat.Example_1.NET"), "none of ours");
        assert_eq!(*of_certificate("*.XN--BCHER-KVA.Example"), *"*.bücher.example");
    }

    #[test]
    fn invalid_names_have_no_unicode_form() {
        let long = format!("{}.test", "ü".repeat(60));
        for wrong in [
            "xn--.test",
            "xn--example-.test",
            "xn--a-ä.test",
            "xn--99999999.test",
            "xn--bcher-kva\u{308}.test",
            "ü..test",
            "ü/x.test",
            "ü x.test",
            "-ü.test",
            "\u{200d}ü.test",
            // Right to left beside left to right.
            "aא.test",
            &long,
        ] {
            assert_eq!(to_unicode(wrong), None, "{wrong}");
        }
        assert_eq!(*of_certificate("xn--example-.test"), *"xn--example-.test");
    }

    proptest! {
        #[test]
        fn a_name_is_unchanged_by_conversion_to_ascii_and_back(name in "(xn--)?[a-zA-Z0-9üßя中.-]{1,20}") {
            if let Some(unicode) = to_unicode(&name) {
                prop_assert_eq!(to_unicode(&unicode), Some(unicode.clone()));
                let ascii = to_ascii(&name).unwrap();
                prop_assert!(ascii.is_ascii());
                if is_international(&name) {
                    prop_assert_eq!(to_unicode(&ascii), Some(unicode));
                }
            }
        }
    }
}
