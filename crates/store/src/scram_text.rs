//! Keys of SCRAM as text (RFC 5803 §2), by which accounts are imported without their passwords.
//!
//! `SCRAM-SHA-256$4096:SALT$STORED:SERVER`, the last three in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::limits;
use crate::verifiers::{ScramHash, ScramKeys};

/// Reads keys of one hash or more, with spaces between them (RFC 5803 §2). `None`: they are not keys.
pub fn read(text: &str) -> Option<Vec<(ScramHash, ScramKeys)>> {
    let keys: Vec<_> = text.split_ascii_whitespace().map(read_one).collect::<Option<_>>()?;
    (!keys.is_empty()).then_some(keys)
}

fn read_one(text: &str) -> Option<(ScramHash, ScramKeys)> {
    let mut parts = text.split('$');
    let (scheme, info, value) = (parts.next()?, parts.next()?, parts.next()?);
    let (hash, length) = match scheme {
        "SCRAM-SHA-1" => (ScramHash::Sha1, 20),
        "SCRAM-SHA-256" => (ScramHash::Sha256, 32),
        "SCRAM-SHA-512" => (ScramHash::Sha512, 64),
        _ => return None,
    };
    let (iterations, salt) = info.split_once(':')?;
    let (stored, server) = value.split_once(':')?;
    let decode = |text: &str| STANDARD.decode(text).ok().map(Vec::into_boxed_slice);
    let keys = ScramKeys {
        salt: decode(salt)?,
        iterations: iterations.parse().ok()?,
        stored: decode(stored)?,
        server: decode(server)?,
    };
    let fits = parts.next().is_none()
        && (1..=limits::MAX_SALT).contains(&keys.salt.len())
        && (1..=limits::MAX_ITERATIONS).contains(&keys.iterations)
        && [&keys.stored, &keys.server].iter().all(|key| key.len() == length);
    fits.then_some((hash, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(scheme: &str, length: usize, iterations: u32) -> String {
        let key = STANDARD.encode(vec![1; length]);
        format!("{scheme}${iterations}:{}${key}:{key}", STANDARD.encode(b"salt"))
    }

    #[test]
    fn keys_of_one_or_more_hashes_are_read() {
        let both = format!("{} {}", text("SCRAM-SHA-1", 20, 4_096), text("SCRAM-SHA-256", 32, 10_000));
        let keys = read(&both).unwrap();
        assert_eq!(
            keys.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(),
            [ScramHash::Sha1, ScramHash::Sha256]
        );
        assert_eq!(
            (keys[1].1.iterations, &*keys[1].1.salt, &*keys[1].1.stored),
            (10_000, &b"salt"[..], &[1; 32][..])
        );
    }

    #[test]
    fn text_that_is_not_keys_is_refused() {
        let good = text("SCRAM-SHA-256", 32, 4_096);
        assert!(read(&good).is_some());
        let wrong = [
            String::new(),
            "secret".into(),
            text("SCRAM-MD5", 16, 4_096),
            text("SCRAM-SHA-256", 20, 4_096),
            text("SCRAM-SHA-256", 32, 0),
            text("SCRAM-SHA-256", 32, u32::MAX),
            format!("{good}$x"),
            good.replace("4096:", "4096:="),
            format!("{good} secret"),
        ];
        for wrong in wrong {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
