//! Keying material exporters (RFC 8446 §7.5), which channel bindings are made of (RFC 9266).
//!
//! Only connections of rustls that have buffers export keys. The secret that exporters begin with leaves the others by the
//! key log, the interface that rustls has for it.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::crypto::tls13::OkmBlock;
use rustls::{KeyLog, ServerConfig, SupportedCipherSuite, Tls13CipherSuite};
use zeroize::Zeroizing;

type Secret = Zeroizing<Vec<u8>>;

thread_local! {
    /// The secret of the handshake that computes on this thread, until its session takes it.
    static FRESH: RefCell<Option<Secret>> = const { RefCell::new(None) };
}

/// Keeps the exporter secret of each handshake for [`TlsSession::exporter`](crate::TlsSession::exporter), and no other secret.
#[derive(Debug)]
pub struct ExporterSecrets(());

impl ExporterSecrets {
    /// Handshakes of this configuration keep their exporter secrets from now on.
    pub fn keep(config: &mut ServerConfig) {
        config.key_log = Arc::new(ExporterSecrets(()));
    }
}

impl KeyLog for ExporterSecrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if self.will_log(label) {
            FRESH.set(Some(Zeroizing::new(secret.to_vec())));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

/// The secret of the handshake step that this thread has just computed, if that step made one.
pub(crate) fn take_fresh() -> Option<Secret> {
    FRESH.take()
}

/// Derives keys from one session of TLS 1.3.
pub struct Exporter {
    suite: &'static Tls13CipherSuite,
    secret: OkmBlock,
}

impl Exporter {
    /// `None`: a version before 1.3, whose exporters would need the extended master secret (RFC 9266 §3).
    pub(crate) fn new(suite: SupportedCipherSuite, secret: &Secret) -> Option<Exporter> {
        let SupportedCipherSuite::Tls13(suite) = suite else { return None };
        Some(Exporter { suite, secret: OkmBlock::new(secret) })
    }

    /// `TLS-Exporter(label, context, 32)` of RFC 8446 §7.5.
    pub fn export(&self, label: &[u8], context: &[u8]) -> Option<[u8; 32]> {
        let hash = self.suite.common.hash_provider;
        let mut derived = [0; OkmBlock::MAX_LEN];
        let derived = derived.get_mut(..hash.output_len())?;
        self.expand_label(&self.secret, label, hash.hash(&[]).as_ref(), derived)?;
        let derived = OkmBlock::new(derived);
        let mut exported = [0; 32];
        self.expand_label(&derived, b"exporter", hash.hash(context).as_ref(), &mut exported)?;
        Some(exported)
    }

    /// `HKDF-Expand-Label` of RFC 8446 §7.1.
    fn expand_label(&self, secret: &OkmBlock, label: &[u8], context: &[u8], out: &mut [u8]) -> Option<()> {
        const PREFIX: &[u8] = b"tls13 ";
        let length = u16::try_from(out.len()).ok()?.to_be_bytes();
        let label_length = [u8::try_from(PREFIX.len() + label.len()).ok()?];
        let context_length = [u8::try_from(context.len()).ok()?];
        let info = [&length[..], &label_length, PREFIX, label, &context_length, context];
        self.suite.hkdf_provider.expander_for_okm(secret).expand_slice(&info, out).ok()
    }
}
