//! The issuers of tokens, and the OpenID providers that the console sends users to.
//!
//! Each is asked for its configuration and its keys, as the node asks for them; no user signs in. The time of its answers is compared with the clock of
//! this machine, as tokens begin and end by both.

use std::time::Duration;

use config::Config;
use external_auth::{IssuerConfiguration, IssuerReport, JwtSettings, KeySource, SourceKind};
use stdx::Instant;

use super::{Finding, host};
use crate::limits::DOCTOR_PATIENCE;

const CHECK: &str = "tokens";

/// The time of an answer has whole seconds, and the way takes some.
const ROUNDING: Duration = Duration::from_secs(5);

/// The life of a short token. With clocks further apart no token is good.
const SHORT_LIFE: Duration = Duration::from_mins(5);

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &config.accounts.sources {
        if let SourceKind::Jwt(settings) = &source.kind {
            let report = IssuerReport::ask_blocking(settings, DOCTOR_PATIENCE);
            findings.extend(match report {
                Ok(report) => judge(&source.domain, settings, &report, host::now()),
                Err(error) => vec![Finding::problem(
                    CHECK,
                    format!("the source of {}: {error:#}", source.domain),
                    "write the file so that the node's user can read it, or change its line in [[accounts.sources]]",
                )],
            });
        }
    }
    findings
}

fn judge(domain: &str, settings: &JwtSettings, report: &IssuerReport, now: Instant) -> Vec<Finding> {
    let mut findings = vec![keys(domain, settings, report)];
    findings.extend(report.configuration.as_ref().map(|read| configuration(settings, read)));
    if let Some(Ok(read)) = &report.configuration {
        findings.extend(other_keys(settings, read));
    }
    findings.extend(report.time.and_then(|time| clock(settings, now, time)));
    findings
}

fn keys(domain: &str, settings: &JwtSettings, report: &IssuerReport) -> Finding {
    let (place, mend) = match &settings.keys {
        KeySource::File(file) => {
            (file.display().to_string(), "write the issuer's set of keys (RFC 7517) there".to_owned())
        }
        KeySource::Url(url) => (
            url.to_string(),
            "change `keys_url` to the `jwks_uri` of the issuer's configuration, or mend the way there; `ca` names an authority of your own".to_owned(),
        ),
    };
    match &report.keys {
        Ok(1) => Finding::good(CHECK, format!("{domain}: 1 usable key at {place}")),
        Ok(count) => Finding::good(CHECK, format!("{domain}: {count} usable keys at {place}")),
        Err(error) => {
            Finding::problem(CHECK, format!("{domain}: the keys at {place} cannot be used: {error}"), mend)
        }
    }
}

/// A node that sends users to the provider needs it; one that only checks tokens does not read it.
fn configuration(settings: &JwtSettings, read: &Result<IssuerConfiguration, String>) -> Finding {
    let (issuer, has_provider) = (&settings.issuer, settings.provider.is_some());
    let configuration = match read {
        Ok(configuration) => configuration,
        Err(error) if has_provider => {
            return Finding::problem(
                CHECK,
                format!("the OpenID provider {issuer} cannot be asked for its configuration: {error}"),
                "change `issuer` to the address before /.well-known/openid-configuration, or mend the way there; `ca` names an authority of your own",
            );
        }
        Err(error) => {
            let what = format!("{issuer} gives no configuration ({error}), which only `provider` needs");
            return Finding::good(CHECK, what);
        }
    };
    if configuration.issuer != *issuer {
        let what =
            format!("{issuer} calls itself {:?}, and so do its tokens", shortened(&configuration.issuer));
        let mend = "write `issuer` exactly so, with or without a slash at its end";
        return if has_provider {
            Finding::problem(CHECK, what, mend)
        } else {
            Finding::warning(CHECK, what, mend)
        };
    }
    match &configuration.endpoints {
        Err(mistake) if has_provider => Finding::problem(
            CHECK,
            format!("the OpenID provider {issuer}: {mistake}"),
            "mend the provider: authorization_endpoint and token_endpoint have to be https: URLs",
        ),
        Err(_) | Ok(()) => Finding::good(CHECK, format!("{issuer} answers, and is the issuer")),
    }
}

/// The same keys may be at several addresses.
fn other_keys(settings: &JwtSettings, read: &IssuerConfiguration) -> Option<Finding> {
    let KeySource::Url(url) = &settings.keys else { return None };
    let named = read.keys_url.as_deref().filter(|named| **named != **url)?;
    let what = format!("{} has its keys at {:?}, and `keys_url` is {url}", settings.issuer, shortened(named));
    Some(Finding::warning(CHECK, what, "change `keys_url`, unless the same keys are at both"))
}

fn clock(settings: &JwtSettings, now: Instant, time: Instant) -> Option<Finding> {
    let (ahead, behind) = (now.since(time), time.since(now));
    let (apart, word) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    if apart <= settings.leeway + ROUNDING {
        return None;
    }
    let what =
        format!("the clock of this machine is {} s {word} that of {}", apart.as_secs(), settings.issuer);
    let mend = "set this machine's clock by NTP (timedatectl set-ntp true), or the issuer's; `leeway` permits at most 5 minutes";
    Some(if apart > SHORT_LIFE {
        Finding::problem(CHECK, what + ": its tokens count as over, or as not begun", mend)
    } else {
        Finding::warning(CHECK, what, mend)
    })
}

/// A text of another machine, as far as a line has room.
fn shortened(text: &str) -> &str {
    const MOST: usize = 200;
    &text[..text.floor_char_boundary(MOST)]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
    const ISSUER: &str = "https://id.example.net";

    fn settings(more: &str) -> JwtSettings {
        let text = format!(
            "[[accounts.sources]]\ndomain = \"example.net\"\ntype = \"jwt\"\nkeys_url = \"{ISSUER}/keys\"\n\
             issuer = \"{ISSUER}\"\naudience = \"chat\"\n{more}"
        );
        let config = Config::parse(&text, Path::new("belfry.toml")).unwrap();
        let SourceKind::Jwt(settings) = config.accounts.sources.into_iter().next().unwrap().kind else {
            panic!("{text}")
        };
        *settings
    }

    fn with_provider() -> JwtSettings {
        settings("provider = { client_id = \"console\" }\n")
    }

    fn report() -> IssuerReport {
        let configuration = IssuerConfiguration {
            issuer: ISSUER.into(),
            keys_url: Some(format!("{ISSUER}/keys").into()),
            endpoints: Ok(()),
        };
        IssuerReport { keys: Ok(2), configuration: Some(Ok(configuration)), time: Some(NOW) }
    }

    fn states(settings: &JwtSettings, report: &IssuerReport) -> Vec<(&'static str, String)> {
        let findings = judge("example.net", settings, report, NOW);
        findings.into_iter().map(|finding| (finding.state(), finding.what)).collect()
    }

    /// The only finding that is not good.
    fn fault(settings: &JwtSettings, change: impl FnOnce(&mut IssuerReport)) -> (&'static str, String) {
        let mut report = report();
        change(&mut report);
        let mut bad = states(settings, &report).into_iter().filter(|(state, _)| *state != "ok");
        let found = bad.next().expect("a fault is found");
        assert_eq!(bad.next(), None);
        found
    }

    fn of(report: &mut IssuerReport) -> &mut IssuerConfiguration {
        report.configuration.as_mut().unwrap().as_mut().unwrap()
    }

    #[test]
    fn an_issuer_without_faults_is_good() {
        let good = states(&with_provider(), &report());
        assert_eq!(
            good,
            [
                ("ok", "example.net: 2 usable keys at https://id.example.net/keys".to_owned()),
                ("ok", "https://id.example.net answers, and is the issuer".to_owned())
            ]
        );
        // OpenID Connect Discovery is not all issuers' business.
        let plain =
            IssuerReport { configuration: Some(Err("the status is 404 Not Found".into())), ..report() };
        assert!(states(&settings(""), &plain).iter().all(|(state, _)| *state == "ok"));
        let nameless = IssuerReport { configuration: None, time: None, ..report() };
        assert_eq!(states(&settings(""), &nameless).len(), 1);
    }

    #[test]
    fn each_fault_of_a_provider_is_a_problem() {
        let provider = with_provider();
        let (state, what) =
            fault(&provider, |report| report.configuration = Some(Err("no answer for 3 s".into())));
        assert!(state == "problem" && what.contains("no answer for 3 s"), "{what}");
        let (state, what) = fault(&provider, |report| of(report).issuer = format!("{ISSUER}/").into());
        assert!(state == "problem" && what.contains("\"https://id.example.net/\""), "{what}");
        let (state, what) = fault(&provider, |report| of(report).endpoints = Err("no addresses".into()));
        assert!(state == "problem" && what.ends_with("no addresses"), "{what}");
        let (state, what) = fault(&provider, |report| report.keys = Err("no key for RS256".into()));
        assert!(state == "problem" && what.ends_with("no key for RS256"), "{what}");
    }

    #[test]
    fn a_possibly_intended_setting_is_a_warning() {
        let plain = settings("");
        // COMPAT(Entra ID): the configuration of several tenants has a pattern in place of the issuer.
        let (state, _) =
            fault(&plain, |report| of(report).issuer = "https://id.example.net/{tenantid}".into());
        assert_eq!(state, "warning");
        let (state, what) =
            fault(&plain, |report| of(report).keys_url = Some("https://elsewhere.test/keys".into()));
        assert!(state == "warning" && what.contains("elsewhere.test"), "{what}");
        let (_, long) = fault(&plain, |report| of(report).keys_url = Some("é".repeat(5_000).into()));
        assert!(long.len() < 500, "{long}");
    }

    #[test]
    fn clocks_that_are_apart_are_told_by_how_much() {
        let plain = settings("leeway = \"30s\"\n");
        let at = |time: Instant| fault(&plain, |report| report.time = Some(time));
        let (state, what) = at(NOW + Duration::from_secs(60));
        assert_eq!(
            (state, &*what),
            ("warning", "the clock of this machine is 60 s behind that of https://id.example.net")
        );
        let (state, what) = at(Instant::from_unix_seconds(1_700_000_000 - 3_600));
        assert!(state == "problem" && what.contains("3600 s ahead of"), "{what}");
        let near = IssuerReport { time: Some(NOW + Duration::from_secs(35)), ..report() };
        assert_eq!(states(&plain, &near).len(), 2, "within `leeway`");
    }
}
