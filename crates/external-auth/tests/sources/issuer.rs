//! The look at an issuer for its operator: what is found of a provider on loopback, and of its faults.

use std::net::TcpListener;
use std::time::Duration;

use external_auth::{IssuerReport, JwtSettings, KeySource};
use interop::{OpenIdFault, OpenIdProvider};
use serde_json::Value;
use stdx::Instant;

use super::provider::settings;

fn look(settings: &JwtSettings) -> IssuerReport {
    IssuerReport::ask_blocking(settings, Duration::from_secs(1)).unwrap()
}

fn look_at(fault: OpenIdFault) -> IssuerReport {
    let provider = OpenIdProvider::start(Value::Null);
    provider.set_fault(fault);
    look(&settings(&provider))
}

#[test]
fn keys_and_configuration_of_a_provider_are_found() {
    let provider = OpenIdProvider::start(Value::Null);
    let report = look(&settings(&provider));
    assert_eq!(report.keys, Ok(1));
    let configuration = report.configuration.unwrap().unwrap();
    assert_eq!(*configuration.issuer, *provider.issuer());
    assert_eq!(configuration.keys_url.as_deref(), Some(&*provider.keys_url()));
    assert_eq!((configuration.endpoints, report.time), (Ok(()), None));
}

#[test]
fn faults_of_a_provider_are_named() {
    let configuration = |fault| look_at(fault).configuration.unwrap();
    assert_eq!(&*configuration(OpenIdFault::OtherIssuer).unwrap().issuer, "https://other.example");
    let endpoints = configuration(OpenIdFault::ClearAddress).unwrap().endpoints;
    assert_eq!(endpoints.unwrap_err(), "its configuration has an address that is not of TLS");
    assert_eq!(configuration(OpenIdFault::Huge).unwrap_err(), "an answer of more than 65536 bytes");
    assert_eq!(configuration(OpenIdFault::NoConfiguration).unwrap_err(), "the status is 404 Not Found");
    let keys = look_at(OpenIdFault::OtherAlgorithm).keys;
    assert_eq!(keys.unwrap_err(), "no key for RS256, ES256, EdDSA or HS256");
    assert_eq!(look_at(OpenIdFault::OldClock).time, Some(Instant::from_unix_seconds(1_420_070_400)));
    let silent = look_at(OpenIdFault::Silent);
    assert_eq!(silent.keys, Err("no answer for 1 s".into()));
    assert_eq!(silent.configuration, Some(Err("no answer for 1 s".into())));
}

#[test]
fn an_issuer_that_nothing_listens_for_is_not_reached() {
    let provider = OpenIdProvider::start(Value::Null);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let report = look(&JwtSettings { issuer: closed.into(), ..settings(&provider) });
    assert_eq!(report.keys, Ok(1));
    let cause = report.configuration.unwrap().unwrap_err();
    assert!(cause.to_lowercase().contains("refused"), "{cause}");
}

#[test]
fn an_issuer_is_not_asked_where_only_a_file_of_keys_counts() {
    let provider = OpenIdProvider::start(Value::Null);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, "{}").unwrap();
    let alone = JwtSettings { keys: KeySource::File(file.clone()), provider: None, ..settings(&provider) };
    let report = look(&alone);
    assert_eq!(report.keys, Err("no set of JSON web keys (RFC 7517)".into()));
    assert_eq!((report.configuration, report.time), (None, None));
    let text = JwtSettings { issuer: "the company".into(), provider: None, ..settings(&provider) };
    assert_eq!(look(&text).configuration, None, "an issuer need not be an address");
    std::fs::remove_file(&file).unwrap();
    let mut secret = settings(&provider);
    secret.provider.as_mut().unwrap().client_secret_file = Some(file);
    let error = IssuerReport::ask_blocking(&secret, Duration::from_secs(1)).unwrap_err();
    assert!(format!("{error:#}").contains("client's secret"), "{error:#}");
}
