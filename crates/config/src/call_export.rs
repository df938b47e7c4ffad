//! `[calls.export]`: receivers of call records besides the database.
//!
//! The node keeps a queue on disk for each of them (the crate `call-export`). URLs here may be wrong in ways that only their server knows: such a
//! receiver counts as away.

use std::path::PathBuf;

use external_auth::is_loopback;
use url::Url;
use xmpp::sasl::Secret;

use super::reader::{Reader, Section};
use super::store::is_postgres;

/// `[calls.export]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallExport {
    /// The URL of a PostgreSQL database, which may have a password.
    pub postgres_url: Option<Secret>,
    /// The URL of a service of HTTP.
    pub http_url: Option<Box<str>>,
    /// The key of signatures; `None`: `[voice] auth_token`, if there is one.
    pub signing_key: Option<Secret>,
    /// PEM: the authorities of the service's certificate. `None`: the system's.
    pub authorities: Option<PathBuf>,
}

impl CallExport {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("calls.export");
        let postgres_url = section.secret(
            "postgres_url",
            "A PostgreSQL database that gets a row of the table `belfry_call` for each call, in the forms of `[store] url`. The table is made if it is not there. Records wait on disk while the database is away.",
        );
        if postgres_url.as_deref().is_some_and(|url| !is_postgres(url)) {
            let expected = "postgres://user:password@host:port/database";
            section.mistake("postgres_url", "`postgres_url` is not one of PostgreSQL", expected);
        }
        let http_url = section.secret(
            "http_url",
            "A service that is sent each call record, in groups, as lines of JSON by POST. `https:`, or `http:` to this machine. Records wait on disk until the service answers with a status of 200 to 299.",
        );
        let http_url = http_url.and_then(|text| checked_url(&mut section, &text));
        let signing_key = section.secret(
            "signing_key",
            "The key of `X-Twilio-Signature` in requests to `http_url`. `[voice] auth_token` when not given; without both, requests are not signed.",
        );
        let authorities = section.file(
            "ca",
            "PEM: the authorities of the certificate of `http_url`. Those of the system when not given.",
        );
        for (name, is_given) in [("signing_key", signing_key.is_some()), ("ca", authorities.is_some())] {
            if is_given && http_url.is_none() {
                section.mistake(name, format!("`{name}` without `http_url`"), "both, or neither");
            }
        }
        section.finish();
        CallExport {
            postgres_url: postgres_url.map(Secret),
            http_url,
            signing_key: signing_key.map(Secret),
            authorities,
        }
    }

    /// A consequence that may surprise.
    pub(super) fn warning(&self) -> Option<String> {
        let url = self.postgres_url.as_ref()?;
        let is_local = ["localhost", "127.0.0.1", "[::1]", "host=/"].iter().any(|host| url.0.contains(host));
        (!is_local && !url.0.contains("sslmode=verify-full")).then(|| {
            "[calls.export] postgres_url does not verify its server: call records may reach another one; give sslmode=verify-full"
                .to_owned()
        })
    }
}

/// A URL that a service of HTTP can have. The text may hold a password, and is not shown before that is known.
fn checked_url(section: &mut Section<'_, '_>, text: &str) -> Option<Box<str>> {
    let expected = "https://host/path, or http:// to this machine";
    let what = match Url::parse(text) {
        Err(_) => "`http_url` is no URL".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "`http_url` has a user or a password in it".to_owned()
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) || url.fragment().is_some() => {
            format!("`http_url` is {text:?}")
        }
        Ok(url) if url.scheme() == "https" => return Some(url.as_str().into()),
        Ok(url) if url.scheme() != "http" => format!("`http_url` is {text:?}"),
        Ok(url) if url.host_str().is_some_and(is_loopback) => return Some(url.as_str().into()),
        Ok(_) => "`http_url` is without TLS, and not of this machine".to_owned(),
    };
    section.mistake("http_url", what, expected);
    None
}
