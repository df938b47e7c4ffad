//! The farm's secret: 256 random bits in a file that all nodes have. All secrets of the farm derive from it.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use cluster::link::FarmSecret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The farm's secret.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads the file: 64 hexadecimal digits, and nothing else but space.
    ///
    /// # Errors
    /// Errors are in words for the operator, without the content of the file.
    pub fn read(file: &Path) -> Result<Secret> {
        let text = std::fs::read_to_string(file).with_context(|| {
            format!("{}: the farm's secret cannot be read; check [farm] secret", file.display())
        })?;
        let text = text.trim();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bail!(
                "{}: not a farm's secret (64 hexadecimal digits): make one with belfry farm secret",
                file.display()
            );
        }
        let mut bytes = [0; 32];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&text[2 * place..2 * place + 2], 16).context("64 hexadecimal digits")?;
        }
        Ok(Secret(bytes))
    }

    /// A secret for one purpose.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(b"belfry farm ");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The key of values that nodes leave at the council for each other.
    pub fn for_table(&self) -> SealingKey {
        let key = RandomizedNonceKey::new(&AES_256_GCM, &self.derive("table"));
        SealingKey(Arc::new(key.expect("a key of 32 bytes")))
    }

    /// The secret that nodes prove to each other.
    pub fn for_links(&self) -> FarmSecret {
        FarmSecret::new(self.derive("links"))
    }
}

/// Encrypts values of named places (AES-256-GCM): a value of one place is none of another.
#[derive(Clone)]
pub struct SealingKey(Arc<RandomizedNonceKey>);

impl SealingKey {
    /// The nonce, and behind it the encrypted value. `None`: the system gives no randomness.
    pub(crate) fn seal(&self, place: &str, value: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = value.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(place.as_bytes()), &mut sealed).ok()?;
        Some([&nonce.as_ref()[..], &sealed].concat())
    }

    /// `None`: another key or place, or bytes that were changed.
    pub(crate) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut value = sealed.to_vec();
        let length = self.0.open_in_place(nonce, Aad::from(place.as_bytes()), &mut value).ok()?.len();
        value.truncate(length);
        Some(value)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

/// Writes a new secret to a file that is not there yet, readable by its owner alone. A file that could not be written whole is
/// removed, so that the same command works when there is space.
///
/// # Errors
/// When the file is there, or cannot be written.
pub fn make(file: &Path) -> Result<()> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the system gives no randomness")?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = std::fs::File::options();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    let mut new = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{}: is there already, and a farm may use it: name another file, or remove this one if no node has it",
            file.display()
        ),
        opened => opened.with_context(|| {
            format!("{}: cannot be made; check the disk, the directory and its owner", file.display())
        })?,
    };
    if let Err(error) = writeln!(new, "{text}").and_then(|()| new.sync_all()) {
        // The command says what it could not write; a file that cannot be removed either is named by the next run.
        let _ = std::fs::remove_file(file);
        return Err(error).with_context(|| {
            let file = file.display();
            format!(
                "{file}: cannot be written, and is removed; check the disk, and give the same command again"
            )
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of all versions derive the same: else they would not know each other, nor each other's dialogs.
    #[test]
    fn each_purpose_has_the_secret_that_it_had_in_version_1() {
        let secret = Secret([7; 32]);
        let derived = ["links", "council", "sip"].map(|purpose| stdx::hex::encode(&secret.derive(purpose)));
        assert_eq!(
            derived,
            [
                "0d6327a39420e5b82f9b36b3dfe7283dd4f101da7222612a36149f3884850f6b",
                "6549d15d4e45615240c3b4ef31c8f87583a9b41cc836f2db5499b992cbcd0a6b",
                "4590bb7e3204f9548aeea06878c0591821eb4f2eb0a7c5735ea513718e7c4174",
            ]
        );
    }

    #[test]
    fn a_value_is_opened_with_the_same_secret_at_the_same_place_only() {
        let (own, other) = (Secret([1; 32]).for_table(), Secret([2; 32]).for_table());
        let sealed = own.seal("certificate", b"a key").unwrap();
        assert_eq!(own.open("certificate", &sealed).as_deref(), Some(&b"a key"[..]));
        assert_ne!(own.seal("certificate", b"a key").unwrap(), sealed, "each has a nonce of its own");
        assert!(!sealed.windows(5).any(|part| part == b"a key"));
        assert_eq!(own.open("account", &sealed), None);
        assert_eq!(other.open("certificate", &sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(own.open("certificate", &changed), None, "{place}");
            assert_eq!(own.open("certificate", &sealed[..place]), None, "{place}");
        }
    }

    #[test]
    fn a_secret_is_made_once_and_read_back() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("farm.secret");
        make(&file).unwrap();
        let secret = Secret::read(&file).unwrap();
        assert_ne!(secret.derive("sip"), secret.derive("links"));
        assert_eq!(secret.derive("sip"), Secret::read(&file).unwrap().derive("sip"));
        assert!(
            make(&file).unwrap_err().to_string().contains("is there already"),
            "it would end the farm's calls"
        );
        std::fs::write(&file, "short").unwrap();
        assert!(Secret::read(&file).unwrap_err().to_string().contains("64 hexadecimal digits"));
    }
}
