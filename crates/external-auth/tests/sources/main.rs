//! The authenticator against real sources on loopback: OpenLDAP's server, and services of HTTP.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

mod http;
mod issuer;
mod ldap;
mod provider;

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use external_auth::{Answer, Authenticator, Credential, Hidden, Query, SourceKind, SourceSettings, Verdict};
use stdx::Instant;

const DOMAIN: &str = "example.test";
const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

/// Asked each time, and given up after two seconds.
fn source(kind: SourceKind) -> SourceSettings {
    let timeout = Duration::from_secs(2);
    SourceSettings {
        domain: DOMAIN.into(),
        kind,
        timeout,
        remember: Duration::ZERO,
        keep_digests: Duration::ZERO,
    }
}

fn start(kind: SourceKind) -> Authenticator {
    Authenticator::start(&[source(kind)]).unwrap().unwrap()
}

fn query(user: &str, password: &str) -> Query {
    let credential = Credential::Password { user: user.into(), password: Hidden(password.into()) };
    Query { now: NOW, domain: DOMAIN.into(), credential }
}

/// The verdict on a query, waited for.
fn verdict(authenticator: &Authenticator, query: Query) -> Verdict {
    let (sender, receiver) = sync_channel(1);
    authenticator.ask(query, Answer::new(move |verdict| sender.send(verdict).expect("the test waits")));
    receiver.recv_timeout(Duration::from_secs(60)).expect("every query has a verdict")
}

fn ask(authenticator: &Authenticator, user: &str, password: &str) -> Verdict {
    verdict(authenticator, query(user, password))
}

fn accepted(user: &str) -> Verdict {
    Verdict::Accepted(user.into())
}
