//! An authority and certificates of it, made with OpenSSL as an operator would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A certificate and its key, PEM.
#[derive(Clone, Debug)]
pub struct Certified {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The certificate authority of a test's servers.
pub struct Authority {
    folder: TempDir,
}

impl Authority {
    pub fn new() -> Authority {
        let authority = Authority { folder: TempDir::new().expect("a temporary folder") };
        let extensions = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"];
        request(&authority.certified("authority"), "Test Authority", &extensions);
        authority
    }

    /// That others have to trust.
    pub fn certificate(&self) -> PathBuf {
        self.certified("authority").certificate
    }

    fn certified(&self, name: &str) -> Certified {
        let path = |kind: &str| self.folder.path().join(format!("{name}.{kind}"));
        Certified { certificate: path("pem"), key: path("key") }
    }

    /// For a domain and its rooms.
    pub fn certify(&self, domain: &str) -> Certified {
        let made = self.certified(domain);
        let issuer = self.certified("authority");
        let (issuer, key) = (issuer.certificate.display().to_string(), issuer.key.display().to_string());
        let names = names_of(domain);
        let signed =
            ["-CA", &issuer, "-CAkey", &key, "-addext", &names, "-addext", "basicConstraints=CA:FALSE"];
        request(&made, domain, &signed);
        made
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

/// A self-signed certificate.
pub(crate) fn self_signed(folder: &Path, domain: &str) -> Certified {
    let path = |kind: &str| folder.join(format!("{domain}.{kind}"));
    let made = Certified { certificate: path("pem"), key: path("key") };
    request(&made, domain, &["-addext", &names_of(domain)]);
    made
}

fn names_of(domain: &str) -> String {
    format!("subjectAltName=DNS:{domain},DNS:conference.{domain}")
}

fn request(made: &Certified, subject: &str, more: &[&str]) {
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={subject}"), "-keyout"])
        .arg(&made.key)
        .arg("-out")
        .arg(&made.certificate)
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("openssl: {error}. Install it: apt-get install openssl"));
    assert!(output.status.success(), "openssl req: {}", String::from_utf8_lossy(&output.stderr));
}
