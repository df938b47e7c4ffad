//! `[acme]`: certificates that the node orders by itself.
//!
//! Only the wishes of the operator; the orders themselves are made by the crate `acme` and the node. It is read after all other sections, because the
//! names of the certificate come from them.
//!
//! Invariant: when `is_on`, at least one name can be certified, and no certificate is configured in `[tls]`; so the node can begin an order without
//! checking again.
//! `server/src/node/certificates.rs` takes the settings over.

use std::net::SocketAddr;
use std::path::PathBuf;

use toml::de::DeValue;

use super::Config;
use super::reader::{Reader, Section};
use super::value::Value;

/// Names of one certificate: Let's Encrypt's limit.
/// An order with more is refused by the authority, after the node has begun it.
const NAMES: usize = 100;

/// `[acme]`. Off unless `agree_to_terms` is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acme {
    /// The operator has agreed to the terms of the authority: the node orders its certificate.
    pub is_on: bool,
    /// `production`, `staging` or a URL.
    pub directory: Box<str>,
    /// An address of mail.
    pub contact: Option<Box<str>>,
    /// Empty: those of [`Config::certificate_names`].
    pub names: Vec<Box<str>>,
    /// `None`: `acme` in the node's folder.
    pub folder: Option<PathBuf>,
    /// The proof of each name.
    pub challenge: AcmeChallenge,
    /// `None`: the port of the challenge at all addresses.
    pub listen: Option<SocketAddr>,
    /// Authorities that certify the directory's server; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// A kind of certificate that the authority offers.
    pub profile: Option<Box<str>>,
}

/// The proof that a name leads to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A file by HTTP (RFC 8555 §8.3).
    #[default]
    Http01,
    /// A certificate by TLS (RFC 8737).
    TlsAlpn01,
}

impl Value for AcmeChallenge {
    const EXPECTED: &'static str = "\"http-01\" or \"tls-alpn-01\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "http-01" => Some(AcmeChallenge::Http01),
            "tls-alpn-01" => Some(AcmeChallenge::TlsAlpn01),
            _ => None,
        }
    }

    fn show(&self) -> String {
        match self {
            AcmeChallenge::Http01 => "\"http-01\"".into(),
            AcmeChallenge::TlsAlpn01 => "\"tls-alpn-01\"".into(),
        }
    }
}

/// A directory of an authority.
struct Directory(Box<str>);

impl Value for Directory {
    const EXPECTED: &'static str =
        "\"production\", \"staging\" or a URL, as \"https://ca.example.net/directory\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        // RFC 8555 §6.1: ACME is spoken over HTTPS only.
        let has_host = |url: &str| url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
        let is_one = matches!(text, "production" | "staging") || has_host(text);
        is_one.then(|| Directory(text.into()))
    }

    fn show(&self) -> String {
        toml::Value::String(self.0.to_string()).to_string()
    }
}

impl Acme {
    /// The address for the authority's requests.
    /// Authorities connect to exactly these ports (RFC 8555 §8.3, RFC 8737 §3); another one is of use only
    /// behind a proxy that passes them on.
    pub fn listen(&self) -> SocketAddr {
        let port = match self.challenge {
            AcmeChallenge::Http01 => 80,
            AcmeChallenge::TlsAlpn01 => 443,
        };
        self.listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], port)))
    }

    /// After all other sections, of which it takes the names.
    pub(super) fn read(reader: &mut Reader<'_>, config: &Config) -> Self {
        let mut section = reader.section("acme");
        let acme = Acme {
            is_on: section.key(
                "agree_to_terms",
                false,
                "Whether the operator has read and agreed to the terms of the authority. The node then orders its certificate by ACME (RFC 8555), renews it when a third of its life is left, and uses it at all listeners without a restart. It serves with the certificate that it has, or one that it made for itself, until the first is there.",
            ),
            directory: section
                .key(
                    "directory",
                    Directory("production".into()),
                    "The authority: Let's Encrypt's (`production`), the one for trials, whose certificates no client trusts (`staging`), or the URL of another one's directory.",
                )
                .0,
            contact: section.optional("contact", "An address of mail for the authority's notices, as \"admin@example.net\"."),
            names: section.list(
                "names",
                Vec::new(),
                "The names of the certificate. Each needs an address in DNS that leads to this node. When empty: `[sip] domains`, the host of `[sip] advertise`, and the domains' rooms if other chat servers connect. Domains that are added while the node runs are to be named here.",
            ),
            folder: section.optional(
                "folder",
                "Folder of the account's key and the certificate, for the node's user only. `acme` in `[server] data` when not given. In a farm each node has its own.",
            ),
            challenge: section.key(
                "challenge",
                AcmeChallenge::Http01,
                "How the authority finds out that the names lead here: it fetches a file from port 80 of each (`http-01`), or connects to port 443 (`tls-alpn-01`, which needs that port for itself). Wildcards need DNS-01, which the node does not do.",
            ),
            listen: section.optional(
                "listen",
                "Address for the authority's requests, open while an order goes on, and for nothing else. `0.0.0.0:80` or, for `tls-alpn-01`, `0.0.0.0:443` when not given; `[::]:80` is IPv6, too. A proxy that has port 80 may pass `/.well-known/acme-challenge/` on to another one.",
            ),
            authorities: section.file(
                "authorities",
                "PEM file of authorities that certify the server of `directory`. Those of the system when not given.",
            ),
            profile: section.optional("profile", "A kind of certificate that the authority offers, as `shortlived`."),
        };
        // Spelled before they are checked: limits and comparisons are for the names as the certificate has
        // them.
        let acme = acme.spelled(&mut section);
        acme.check(&mut section, config);
        section.finish();
        acme
    }

    /// Names as certificates have them.
    /// A name that cannot be certified stays as it is and is reported, so that the others are still checked.
    fn spelled(mut self, section: &mut Section<'_, '_>) -> Self {
        for name in &mut self.names {
            match certifiable(name) {
                Some(spelled) => *name = spelled,
                None => section.mistake(
                    "names",
                    format!("{name:?} is no name that an authority certifies by this challenge"),
                    "a host name with a dot in it and without *, as \"example.net\"",
                ),
            }
        }
        self
    }

    /// Reports mistakes of the section as a whole.
    fn check(&self, section: &mut Section<'_, '_>, config: &Config) {
        // These keys have no use of their own: their author expects a certificate, and would get none without a
        // word.
        let is_meant = self.contact.is_some() || !self.names.is_empty() || self.profile.is_some();
        if !self.is_on {
            if is_meant {
                let expected = "true, when the terms of the authority have been read and agreed to: it certifies nothing otherwise";
                section.mistake("agree_to_terms", "`agree_to_terms` is not true", expected);
            }
            return;
        }
        // The files in `[tls]` would win (`server::node::build::certificates`), and the ordered certificate
        // never be used.
        if config.tls.certificate.is_some() {
            let what = "[tls] certificate names a file, and [acme] orders a certificate";
            section.mistake("agree_to_terms", what, "one of the two");
        }
        // The address becomes a `mailto:` URL (RFC 8555 §7.3), in which more than one address or header fields
        // are not allowed.
        let plain = |c: char| c.is_ascii_graphic() && !"<>,;".contains(c);
        if let Some(contact) = &self.contact
            && !(contact.contains('@') && contact.chars().all(plain))
        {
            section.mistake(
                "contact",
                format!("`contact` is {contact:?}"),
                "an address, as \"admin@example.net\"",
            );
        }
        let names = self.names_or(config);
        if names.is_empty() {
            let what = format!("no domain of this node can be certified: {}", config.sip.domains.join(", "));
            section.mistake("names", what, "the public names of this node, as [\"example.net\"]");
        } else if names.len() > NAMES {
            let what = format!("the certificate would have {} names", names.len());
            section.mistake("names", what, format!("{NAMES} at most: name those that clients connect to"));
        }
    }

    /// The names that are given, or else those of the configuration that an authority can certify, each once.
    fn names_or(&self, config: &Config) -> Vec<Box<str>> {
        let mut names: Vec<Box<str>> = Vec::new();
        let mut add = |name: &str| {
            if let Some(name) = certifiable(name)
                && !names.contains(&name)
            {
                names.push(name);
            }
        };
        // Given names replace those of the configuration, so an operator can leave out a domain that does not
        // lead here yet: one that fails, fails the whole order.
        if !self.names.is_empty() {
            self.names.iter().for_each(|name| add(name));
            return names;
        }
        config.sip.domains.iter().for_each(|domain| add(domain));
        // Peers that use TLS compare the certificate with the host that they were told (RFC 5922 §7.2).
        config.sip.advertise.iter().for_each(|host| add(host));
        // Other servers connect to the rooms' domain by itself and expect its name in the certificate.
        if config.federation.is_on() {
            let rooms = config.sip.domains.iter().map(|domain| format!("{}.{domain}", config.xmpp.rooms));
            rooms.for_each(|rooms| add(&rooms));
        }
        names
    }
}

impl Config {
    /// The names that a certificate of this node is ordered for.
    /// Domains that were added at run time are not among them.
    pub fn certificate_names(&self) -> Vec<Box<str>> {
        self.acme.names_or(self)
    }

    /// The folder of the accounts and certificates of authorities.
    /// The processes of one machine are nodes of a farm, and each has a folder of its own.
    pub fn acme_folder(&self) -> PathBuf {
        let folder = self.acme.folder.clone().unwrap_or_else(|| self.server.data.join("acme"));
        match &self.process {
            Some(process) if process.number() > 1 => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                folder.with_file_name(format!("{name}-{}", process.number()))
            }
            _ => folder,
        }
    }
}

/// The name in the form that certificates have. None: an address, a name without a dot, a wildcard.
/// Domains in other letters become A-labels. Limits of lengths are those of DNS (RFC 1035 §2.3.4).
fn certifiable(name: &str) -> Option<Box<str>> {
    let ascii = xmpp::domain::to_ascii(name)?.to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_plain = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        (1..=63).contains(&label.len()) && is_plain
    };
    let last = ascii.rsplit('.').next().unwrap_or_default();
    // The last label of an IPv4 address is a number.
    let is_public = ascii.contains('.') && !last.chars().all(|c| c.is_ascii_digit());
    (is_public && ascii.len() <= 253 && ascii.split('.').all(is_label)).then(|| ascii.into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ON: &str = "[acme]\nagree_to_terms = true\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("belfry.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_off_until_the_terms_are_agreed_to() {
        assert!(!parse("").unwrap().acme.is_on);
        let meant = parse("[acme]\ncontact = \"a@b.test\"\n").unwrap_err();
        assert!(meant.contains("`agree_to_terms` is not true; expected true, when the terms"), "{meant}");
    }

    #[test]
    fn names_are_the_domains_and_hosts_that_can_be_certified() {
        let names = |text: &str| parse(text).unwrap().certificate_names().join(" ");
        let sip = "[sip]\ndomains = [\"example.net\", \"localhost\", \"bücher.example\"]\n";
        assert_eq!(names(&format!("{sip}{ON}")), "example.net xn--bcher-kva.example");
        let told = format!("{sip}advertise = \"sip.example.net\"\n{ON}");
        assert_eq!(names(&told), "example.net xn--bcher-kva.example sip.example.net");
        let told = format!("{sip}advertise = \"192.0.2.7\"\n{ON}");
        assert_eq!(names(&told), "example.net xn--bcher-kva.example");
        let servers = "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n[xmpp.federation]\nlisten = [\"tcp:127.0.0.1:5269\"]\n";
        let of_servers = format!("[sip]\ndomains = [\"example.net\"]\n{servers}{ON}");
        assert_eq!(names(&of_servers), "example.net conference.example.net");
        assert_eq!(names(&format!("{sip}{ON}names = [\"Other.example\"]\n")), "other.example");
    }

    #[test]
    fn defaults_are_lets_encrypt_by_http_at_port_80() {
        let config = parse(&format!("[sip]\ndomains = [\"a.test\"]\n{ON}")).unwrap();
        assert_eq!(&*config.acme.directory, "production");
        assert_eq!(config.acme.listen().to_string(), "0.0.0.0:80");
        assert_eq!(config.acme_folder(), Path::new("run/belfry/acme"));
        let tls =
            parse(&format!("[sip]\ndomains = [\"a.test\"]\n{ON}challenge = \"tls-alpn-01\"\n")).unwrap();
        assert_eq!(tls.acme.listen().to_string(), "0.0.0.0:443");
    }

    #[test]
    fn a_file_in_tls_and_names_that_cannot_be_certified_are_mistakes() {
        let sip = "[sip]\ndomains = [\"a.test\"]\n";
        let many: Vec<_> = (0..101).map(|n| format!("\"n{n}.a.test\"")).collect();
        let cases = [
            (format!("{sip}[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n{ON}"), "one of the two"),
            (ON.to_owned(), "no domain of this node can be certified: localhost"),
            (format!("{sip}{ON}names = [\"*.a.test\"]\n"), "is no name that an authority certifies"),
            (format!("{sip}{ON}names = [\"192.0.2.7\"]\n"), "is no name that an authority certifies"),
            (format!("{sip}{ON}names = [{}]\n", many.join(", ")), "would have 101 names"),
            (format!("{sip}{ON}contact = \"nobody\"\n"), "`contact` is"),
            (format!("{sip}{ON}directory = \"http://a.test/\"\n"), "`directory` is"),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let farm =
            "[farm]\nname = \"f\"\nnode = \"n\"\ncouncil = [\"nats://127.0.0.1:4222\"]\nsecret = \"s\"\n";
        assert!(
            parse(&format!("{sip}{farm}{ON}")).unwrap().acme.is_on,
            "one node of the farm orders for all"
        );
    }
}
