//! `[telemetry]`: traces of calls for a collector of OpenTelemetry.
//!
//! `node::call_traces` of the crate `server` makes the export of it. All of it counts after a restart.

use url::Url;

use super::reader::Reader;

/// `[telemetry]`
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// The URL of the collector; `None`: nothing is exported.
    pub otlp: Option<Box<str>>,
    /// Calls in a hundred that are exported.
    pub percent: u32,
}

impl Telemetry {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("telemetry");
        let otlp = section.secret(
            "otlp",
            "A collector of OpenTelemetry that is sent spans of calls and stanzas by OTLP over HTTP, in JSON: its URL without `/v1/traces`, as `http://127.0.0.1:4318`. Off without it. Spans have the names and numbers of callers and callees.",
        );
        let percent = section.key_in(
            "percent",
            0,
            0..=100,
            "Calls in a hundred that spans are made of. Which ones the Call-ID decides, so all nodes of a farm choose the same calls. Besides these, all calls and stanzas of accounts that are traced just then (`belfry trace`, the console).",
        );
        let otlp = otlp.and_then(|text| match checked(&text) {
            Ok(url) => Some(url),
            Err(what) => {
                section.mistake("otlp", what, "http://host:port or https://host:port");
                None
            }
        });
        section.finish();
        Telemetry { otlp, percent }
    }

    /// A consequence that may surprise.
    pub(super) fn warning(&self) -> Option<String> {
        let Some(otlp) = &self.otlp else {
            return (self.percent > 0)
                .then(|| "[telemetry] percent has no effect without otlp: name a collector".to_owned());
        };
        let url = Url::parse(otlp).ok()?;
        let is_local = url.host_str().is_some_and(external_auth::is_loopback);
        (url.scheme() == "http" && !is_local).then(|| {
            format!("[telemetry] sends names and numbers of callers to {otlp} in the clear: let the way there be a network of your own")
        })
    }
}

/// The text may hold a password, and is not shown before that is known.
fn checked(text: &str) -> Result<Box<str>, String> {
    let url = Url::parse(text).map_err(|_| "`otlp` is no URL".to_owned())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`otlp` has a user or a password in it".into());
    }
    let has_more = url.query().is_some() || url.fragment().is_some();
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) || has_more {
        return Err(format!("`otlp` is {text:?}"));
    }
    Ok(url.as_str().trim_end_matches('/').into())
}
