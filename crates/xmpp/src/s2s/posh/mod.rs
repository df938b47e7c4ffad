//! POSH (RFC 7711, RFC 7712 §5): a certificate that no authority signed for a domain proves it still when the
//! domain's web server vouches for the certificate's fingerprint over HTTPS.
//!
//! A stream whose peer has shown such a certificate asks the [`PoshLookups`] of its shard (`PeerProofs`), which remember
//! documents and fetch missing ones by [`Effect::FetchPosh`](super::Effect::FetchPosh); the driver answers with
//! [`Servers::handle_posh`](super::Servers::handle_posh). The stream waits for the outcome before its features, or before it
//! answers those of the other server: until the outcome is there where the policy demands a certificate, else for
//! `limits::POSH_HOLD` at most.

mod document;
mod lookups;
mod proofs;

pub use document::{CertificateHashes, PoshDocument, PoshFault, PoshFingerprints, url_of};
pub(super) use lookups::{FinishedLookup, LookupReply, LookupRequest, PoshLookups};
pub use lookups::{PoshFailure, PoshFetch};
pub(super) use proofs::PeerProofs;
