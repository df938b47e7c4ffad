//! Keys of records (RFC 8446 §5.2) that are expanded for each record.
//!
//! An expanded key of AES-GCM is 600 bytes for each direction, as aws-lc keeps it; the key itself is 16 or 32. A connection that waits keeps the key, and a
//! record pays some 350 ns for its expansion (`examples/session_memory.rs`), little beside the system call that carries it. TLS 1.2 is left as it is.

use std::sync::LazyLock;

use aws_lc_rs::aead::{self, Aad, Algorithm, LessSafeKey, UnboundKey};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter, Nonce,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::{
    CipherSuite, CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    SupportedCipherSuite, Tls13CipherSuite,
};

/// The provider of rustls with suites of TLS 1.3 that keep no expanded keys.
pub fn compact_provider() -> CryptoProvider {
    let mut provider = provider::default_provider();
    for suite in &mut provider.cipher_suites {
        if let Some(compact) = COMPACT.iter().find(|compact| compact.common.suite == suite.suite()) {
            *suite = SupportedCipherSuite::Tls13(compact);
        }
    }
    provider
}

static COMPACT: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    provider::ALL_CIPHER_SUITES.iter().filter_map(|suite| compact(suite.tls13()?)).collect()
});

fn compact(suite: &'static Tls13CipherSuite) -> Option<Tls13CipherSuite> {
    let aead_alg: &'static ExpandedPerRecord = match suite.common.suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => &AES_128,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &AES_256,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => &CHACHA20,
        _ => return None,
    };
    Some(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        hkdf_provider: suite.hkdf_provider,
        aead_alg,
        quic: None,
    })
}

static AES_128: ExpandedPerRecord = ExpandedPerRecord {
    algorithm: &aead::AES_128_GCM,
    secrets: |key, iv| ConnectionTrafficSecrets::Aes128Gcm { key, iv },
};
static AES_256: ExpandedPerRecord = ExpandedPerRecord {
    algorithm: &aead::AES_256_GCM,
    secrets: |key, iv| ConnectionTrafficSecrets::Aes256Gcm { key, iv },
};
static CHACHA20: ExpandedPerRecord = ExpandedPerRecord {
    algorithm: &aead::CHACHA20_POLY1305,
    secrets: |key, iv| ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
};

struct ExpandedPerRecord {
    algorithm: &'static Algorithm,
    secrets: fn(AeadKey, Iv) -> ConnectionTrafficSecrets,
}

impl Tls13AeadAlgorithm for ExpandedPerRecord {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(RecordKey { algorithm: self.algorithm, key, iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(RecordKey { algorithm: self.algorithm, key, iv })
    }

    fn key_len(&self) -> usize {
        self.algorithm.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok((self.secrets)(key, iv))
    }
}

/// The key of one direction.
struct RecordKey {
    algorithm: &'static Algorithm,
    key: AeadKey,
    iv: Iv,
}

impl RecordKey {
    /// `None`: the key is not one of the algorithm's length, which rustls makes it.
    fn expand(&self) -> Option<LessSafeKey> {
        UnboundKey::new(self.algorithm, self.key.as_ref()).ok().map(LessSafeKey::new)
    }

    /// Unique, as rustls numbers each record of a key once (RFC 8446 §5.3).
    fn nonce(&self, number: u64) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(Nonce::new(&self.iv, number).0)
    }
}

impl MessageEncrypter for RecordKey {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        // The type of what is inside; outside each record is application data of TLS 1.2 (RFC 8446 §5.1).
        payload.extend_from_slice(&[u8::from(message.typ)]);
        let key = self.expand().ok_or(Error::EncryptError)?;
        key.seal_in_place_append_tag(self.nonce(number), Aad::from(make_tls13_aad(length)), &mut payload)
            .map_err(|_| Error::EncryptError)?;
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        length + 1 + self.algorithm.tag_len()
    }
}

impl MessageDecrypter for RecordKey {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut message.payload;
        let aad = Aad::from(make_tls13_aad(payload.len()));
        let key = self.expand().ok_or(Error::DecryptError)?;
        // A record that is shorter than its tag does not open.
        let opened = key.open_in_place(self.nonce(number), aad, payload).map_err(|_| Error::DecryptError)?;
        let length = opened.len();
        payload.truncate(length);
        message.into_tls13_unpadded_message()
    }
}
