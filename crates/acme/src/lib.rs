//! Certificates of an authority by ACME (RFC 8555): [`schedule`] says when an order is due, [`CertificateRenewer`] carries it out in the
//! background and puts the certificate in place, the folder of files survives a restart. The challenges are HTTP-01 (RFC 8555
//! §8.3) and TLS-ALPN-01 (RFC 8737), each answered at an address of its own that is open while an order goes on. Of a farm one node orders, and all
//! answer ([`FarmOrders`]).

#![warn(missing_docs)]

mod challenges;
mod farm_orders;
mod folder;
mod http_client;
pub mod limits;
mod listener;
mod order;
mod renewer;
pub mod schedule;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use farm_orders::{Awaited, FarmOrders, FarmTable};
pub use folder::CertificateFolder;
pub use renewer::{CertificateRenewer, RenewalStatus};

/// Let's Encrypt's authority.
pub const PRODUCTION: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Let's Encrypt's authority for trials, whose certificates no client trusts.
pub const STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The URL of a directory that may be named `production` or `staging`, Let's Encrypt's.
pub fn directory_url(name: &str) -> &str {
    match name {
        "production" => PRODUCTION,
        "staging" => STAGING,
        url => url,
    }
}

/// The proof that a name leads to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A file by HTTP at port 80 (RFC 8555 §8.3).
    Http01,
    /// A certificate by TLS at port 443, for the protocol `acme-tls/1` only (RFC 8737).
    TlsAlpn01,
}

/// The authority, the account, and the way in which names are proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The URL of the authority's directory.
    pub directory: String,
    /// An address of mail for the authority's notices.
    pub contact: Option<String>,
    /// The folder of accounts and certificates, which is made when missing.
    pub folder: PathBuf,
    /// The proof of each name.
    pub challenge: ChallengeKind,
    /// The address at which the authority's requests arrive.
    pub listen: SocketAddr,
    /// PEM file of the authorities that certify the directory's server; none: those of the system.
    pub authorities: Option<PathBuf>,
    /// A kind of certificate that the authority offers, by its name.
    pub profile: Option<String>,
}
