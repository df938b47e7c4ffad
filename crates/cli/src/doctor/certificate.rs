//! The certificate of the configuration: readable, with its key, for the names that clients connect to, and not near its end.
//!
//! Three cases: the node orders it (`[acme]`), files are named (`[tls]`), or neither, which is a warning only where a listener that uses TLS is
//! reached by others.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acme::CertificateFolder;
use config::Config;
use net::certificate::CertificateFacts;
use net::tls::TlsError;
use sip::transport::Transport;
use stdx::Instant;

use super::Finding;
use crate::table::date;

const CHECK: &str = "certificate";
/// The time before the end from which a certificate is warned of. Renewals of certificates of 90 days begin 30 days before the end, so that
/// one with 14 days left is late.
const SOON: Duration = Duration::from_hours(14 * 24);

/// `examine` reads a certificate and its key, and compares it with names.
pub(super) fn check(
    config: &Config,
    now: Instant,
    examine: impl Fn(&Path, &Path, &[String]) -> Result<CertificateFacts, TlsError>,
) -> Vec<Finding> {
    let listeners = [&config.sip.listen, &config.xmpp.listen, &config.federation.listen];
    let is_public = |listener: &net::Listener| !listener.address.ip().is_loopback();
    // STARTTLS makes TCP of chat a use of the certificate, too.
    let uses = |chat: bool, transport: Transport| match transport {
        Transport::Tls | Transport::Wss => true,
        Transport::Tcp => chat,
        _ => false,
    };
    // Index 0 is SIP, the others chat; the metrics and REST speak plain HTTP.
    let is_used = listeners.iter().enumerate().any(|(index, list)| {
        list.iter().any(|listener| is_public(listener) && uses(index > 0, listener.transport))
    });
    // First, as files in `[tls]` beside it are refused by the configuration.
    if config.acme.is_on {
        return check_ordered(config, now, examine);
    }
    let (Some(certificate), Some(key)) = (&config.tls.certificate, &config.tls.key) else {
        return vec![match is_used {
            false => Finding::good(CHECK, "none is configured, and none is needed on loopback"),
            true => Finding::warning(
                CHECK,
                "none is configured: the node makes one for itself, which no client trusts",
                "let the node order one: [acme] agree_to_terms = true; or get one for the domain and name it in [tls] certificate and key",
            ),
        }];
    };
    match examine(certificate, key, &names(config)) {
        Err(error) => vec![Finding::problem(
            CHECK,
            error.to_string(),
            "put a certificate in PEM form and its key there, readable by the user of the node",
        )],
        Ok(facts) => {
            judge(certificate, &facts, now, "renew it; the node reads the files again when they change")
        }
    }
}

/// The certificate that the node orders by itself.
fn check_ordered(
    config: &Config,
    now: Instant,
    examine: impl Fn(&Path, &Path, &[String]) -> Result<CertificateFacts, TlsError>,
) -> Vec<Finding> {
    // The same path as the node uses (`server::node::certificates`).
    let file = ordered_file(config);
    let names: Vec<String> = config.certificate_names().iter().map(ToString::to_string).collect();
    match examine(&file, &file, &names) {
        Err(_) => vec![Finding::warning(
            CHECK,
            format!("the node has ordered none yet for {}", names.join(", ")),
            "start the node, and see in `belfry status` or the log how the order goes",
        )],
        Ok(facts) => judge(
            &file,
            &facts,
            now,
            "`belfry status` says why the node has not renewed it, and when it tries again",
        ),
    }
}

/// The file of the ordered certificate: chain and key in one.
fn ordered_file(config: &Config) -> PathBuf {
    CertificateFolder::of(&config.acme_folder(), acme::directory_url(&config.acme.directory)).certificate()
}

/// Names that are missing, and the end. `renew`: the advice for a certificate that ends.
fn judge(file: &Path, facts: &CertificateFacts, now: Instant, renew: &str) -> Vec<Finding> {
    let file = file.display();
    let mut findings = Vec::new();
    if !facts.missing.is_empty() {
        let names = facts.missing.join(", ");
        findings.push(Finding::warning(
            CHECK,
            format!("{file} is not for {names}: clients that connect to these names refuse it"),
            "get one that has all names",
        ));
    }
    // Names and end are judged independently: both may be wrong at once.
    let Some(validity) = facts.validity else {
        findings.push(Finding::warning(CHECK, format!("{file}: its end cannot be read"), renew));
        return findings;
    };
    let end = format!("{} UTC", date(validity.not_after.unix_seconds()));
    findings.push(if validity.not_after <= now {
        Finding::problem(CHECK, format!("{file} has ended, {end}"), renew)
    } else if validity.ends_soon(now, SOON) {
        Finding::warning(CHECK, format!("{file} ends soon, {end}"), renew)
    } else {
        Finding::good(CHECK, format!("{file} is good until {end}"))
    });
    findings
}

/// The names that clients and other servers verify: the domains (RFC 5922 §7.1, RFC 6120 §13.7.2.1), the host that peers are told, and the rooms'
/// domains, to which other servers connect as to any other.
fn names(config: &Config) -> Vec<String> {
    let told = config.sip.advertise.iter().filter(|host| host.parse::<IpAddr>().is_err()).cloned();
    let of_rooms = |domain| format!("{}.{domain}", config.xmpp.rooms).into();
    let rooms = config.sip.domains.iter().filter(|_| config.federation.is_on()).map(of_rooms);
    let names: Vec<Box<str>> = config.sip.domains.iter().cloned().chain(told).chain(rooms).collect();
    names.iter().map(|name| net::dns::ascii(name)).collect()
}

#[cfg(test)]
mod tests {
    use net::certificate::Validity;

    use super::*;

    const TEXT: &str =
        "[sip]\ndomains = [\"a.test\"]\nadvertise = \"sip.a.test\"\nlisten = [\"tls:0.0.0.0:5061\"]\n";
    const FILES: &str = "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";

    fn states(text: &str, facts: &Result<CertificateFacts, String>) -> Vec<String> {
        let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
        let now = Instant::from_unix_seconds(1_800_000_000);
        let findings = check(&config, now, |file, _, names| {
            assert_eq!(names, ["a.test", "sip.a.test"]);
            facts.clone().map_err(|problem| TlsError { file: file.into(), problem })
        });
        findings.iter().map(|finding| format!("{} {}", finding.state(), finding.what)).collect()
    }

    fn ends(days: i64, missing: &[&str]) -> Result<CertificateFacts, String> {
        let seconds = 1_800_000_000_u64.checked_add_signed(days * 86_400).unwrap();
        let missing = missing.iter().map(ToString::to_string).collect();
        // Of 90 days, the last of which is this.
        let not_after = Instant::from_unix_seconds(seconds);
        let validity = Validity { not_before: Instant::from_unix_seconds(seconds - 90 * 86_400), not_after };
        Ok(CertificateFacts { validity: Some(validity), missing })
    }

    /// RFC 6120 §13.7.2.1: another server connects to the domain of the rooms and verifies its name.
    #[test]
    fn a_certificate_has_the_rooms_domain_for_other_servers() {
        let of = |more: &str| {
            let text = format!("{TEXT}[xmpp]\nlisten = [\"tcp:0.0.0.0:5222\"]\nrooms = \"rooms\"\n{more}");
            names(&Config::parse(&text, Path::new("belfry.toml")).unwrap())
        };
        assert_eq!(of(""), ["a.test", "sip.a.test"]);
        let federation = "[xmpp.federation]\nlisten = [\"tcp:0.0.0.0:5269\"]\n";
        assert_eq!(of(federation), ["a.test", "sip.a.test", "rooms.a.test"]);
    }

    #[test]
    fn a_certificate_has_names_a_key_and_an_end() {
        let text = format!("{TEXT}{FILES}");
        assert!(states(&text, &ends(60, &[]))[0].starts_with("ok c.pem is good until 2027-03-16"));
        assert!(states(&text, &ends(10, &[]))[0].starts_with("warning c.pem ends soon"));
        assert!(states(&text, &ends(-1, &[]))[0].starts_with("problem c.pem has ended"));
        let named = states(&text, &ends(60, &["sip.a.test"]));
        assert!(named[0].starts_with("warning c.pem is not for sip.a.test") && named[1].starts_with("ok"));
        assert_eq!(states(&text, &Err("no such file".into())), ["problem c.pem: no such file"]);
    }

    #[test]
    fn one_that_the_node_orders_is_looked_at_in_its_folder() {
        let text = format!("{TEXT}[acme]\nagree_to_terms = true\n");
        assert!(states(&text, &ends(60, &[]))[0].starts_with(
            "ok run/belfry/acme/acme-v02.api.letsencrypt.org/certificate.pem is good until 2027-03-16"
        ));
        assert!(states(&text, &ends(10, &[]))[0].contains("ends soon"));
        let none = states(&text, &Err("no such file".into()));
        assert_eq!(none, ["warning the node has ordered none yet for a.test, sip.a.test"]);
    }

    #[test]
    fn without_one_the_network_is_warned_and_loopback_is_not() {
        assert!(states(TEXT, &Err("not read".into()))[0].starts_with("warning none is configured"));
        let chat = "[sip]\nlisten = [\"udp:0.0.0.0:5060\"]\n[xmpp]\nlisten = [\"tcp:0.0.0.0:5222\"]\n";
        assert!(states(chat, &Err("not read".into()))[0].starts_with("warning"), "STARTTLS");
        assert!(states("", &Err("not read".into()))[0].starts_with("ok"));
    }
}
