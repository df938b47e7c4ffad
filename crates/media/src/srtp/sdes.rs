//! Keys in SDP: `a=crypto` (RFC 4568).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Context, KEY_LEN, Suite};

/// `crypto:<tag> <suite> inline:<key> [parameters]`, as much of it as is used. `Key` decides the suites that are spoken:
/// an array only those whose key is as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CryptoLine<Key = [u8; KEY_LEN]> {
    /// The number by which an answer refers to an offered line (RFC 4568 §5.1.2).
    pub tag: u32,
    /// The cipher and the authentication.
    pub suite: Suite,
    /// The master key and the master salt, one behind the other.
    pub key: Key,
    /// `UNENCRYPTED_SRTP`.
    pub unencrypted: bool,
}

impl<Key: AsRef<[u8]> + TryFrom<Vec<u8>>> CryptoLine<Key> {
    /// With or without `a=` and `crypto:`. `None`: a suite, key or parameter that is not spoken here, such as an MKI.
    pub fn parse(line: &str) -> Option<CryptoLine<Key>> {
        let line = line.trim();
        let line = line.strip_prefix("a=").unwrap_or(line);
        let mut words = line.strip_prefix("crypto:").unwrap_or(line).split_ascii_whitespace();
        let tag = words.next().filter(|tag| tag.len() <= 9)?.parse().ok()?;
        let suite = Suite::from_name(words.next()?)?;
        let mut parts = words.next()?.strip_prefix("inline:")?.split('|');
        let key = STANDARD.decode(parts.next()?).ok().filter(|key| key.len() == suite.key_len())?;
        let key = key.try_into().ok()?;
        // A lifetime may follow; an MKI (with its colon) would lengthen every packet.
        if parts.any(|part| part.contains(':')) {
            return None;
        }
        let unencrypted = words.any(|word| word == "UNENCRYPTED_SRTP");
        Some(CryptoLine { tag, suite, key, unencrypted })
    }

    /// For one direction: that in which this key is used.
    pub fn context(&self) -> Context {
        let context = Context::new(self.suite, self.key.as_ref());
        if self.unencrypted { context.without_encryption() } else { context }
    }
}

/// The attribute without `a=`.
impl<Key: AsRef<[u8]>> fmt::Display for CryptoLine<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = STANDARD.encode(&self.key);
        write!(f, "crypto:{} {} inline:{key}", self.tag, self.suite.name())?;
        if self.unencrypted { f.write_str(" UNENCRYPTED_SRTP") } else { Ok(()) }
    }
}
