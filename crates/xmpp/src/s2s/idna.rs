//! Names in certificates have other letters than ASCII as Punycode (RFC 3492, RFC 5890 §2.3.2.1); addresses have the letters.

/// Each label that begins with `xn--` as what it stands for; one that stands for nothing stays.
pub(super) fn to_unicode(name: &str) -> String {
    let labels = name.split('.').map(|label| {
        let lower = label.to_ascii_lowercase();
        // What is ASCII has one form only: `xn--example-` is not `example`, but somebody else.
        let decoded = lower.strip_prefix("xn--").and_then(decode).filter(|label| !label.is_ascii());
        decoded.unwrap_or(lower)
    });
    labels.collect::<Vec<_>>().join(".")
}

/// RFC 3492 §5.
const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const INITIAL_BIAS: u32 = 72;
const INITIAL_N: u32 = 128;

/// RFC 3492 §6.2. `None`: it is no Punycode.
fn decode(label: &str) -> Option<String> {
    let (basic, extended) = label.rsplit_once('-').unwrap_or(("", label));
    let mut output: Vec<char> = basic.chars().collect();
    let (mut n, mut i, mut bias) = (INITIAL_N, 0_u32, INITIAL_BIAS);
    let mut digits = extended.bytes().map(digit).peekable();
    while digits.peek().is_some() {
        let before = i;
        let (mut weight, mut k) = (1_u32, BASE);
        loop {
            let digit = digits.next()??;
            i = i.checked_add(digit.checked_mul(weight)?)?;
            let threshold = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
            k += BASE;
        }
        let length = u32::try_from(output.len()).ok()? + 1;
        bias = adapt(i - before, length, before == 0);
        n = n.checked_add(i / length)?;
        i %= length;
        output.insert(usize::try_from(i).ok()?, char::from_u32(n)?);
        i += 1;
    }
    Some(output.into_iter().collect())
}

fn digit(byte: u8) -> Option<u32> {
    match byte {
        b'a'..=b'z' => Some(u32::from(byte - b'a')),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 26),
        _ => None,
    }
}

/// RFC 3492 §6.1.
fn adapt(delta: u32, length: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    delta += delta / length;
    let mut k = 0;
    while delta > (BASE - T_MIN) * T_MAX / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_are_what_they_stand_for() {
        // RFC 3492 §7.1 (B), (I), (L) and (S).
        for (code, text) in [
            ("ihqwcrb4cv8a8dqg056pqjye", "他们为什么不说中文"),
            ("b1abfaaepdrnnbgefbadotcwatmq2g4l", "почемужеонинеговорятпорусски"),
            ("3B-ww4c5e180e575a65lsy2b", "3年b組金八先生"),
            ("bcher-kva", "bücher"),
        ] {
            assert_eq!(to_unicode(&format!("www.xn--{code}.example")), format!("www.{text}.example"));
        }
        assert_eq!(to_unicode("Chat.Example.NET"), "chat.example.net");
        assert_eq!(to_unicode("xn--.test"), "xn--.test");
        assert_eq!(to_unicode("xn--example-.test"), "xn--example-.test");
        assert_eq!(to_unicode("xn--a-ä.test"), "xn--a-ä.test", "not so");
        assert_eq!(to_unicode("xn--99999999.test"), "xn--99999999.test", "too large");
    }

    proptest! {
        #[test]
        fn no_label_makes_it_panic(label in "[a-z0-9-]{0,60}") {
            let _ = to_unicode(&format!("xn--{label}"));
        }
    }
}
