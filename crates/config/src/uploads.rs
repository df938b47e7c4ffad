//! `[xmpp.web]`, `[xmpp.uploads]`: what chat clients do by HTTP, at the `ws:` and `wss:` addresses.
//!
//! [`Web`] has the address that clients are told; the listeners themselves are those of `[xmpp] listen`.
//! [`Uploads`] limits the folder that `xmpp_io::uploads` writes and `server` empties by age.
//! `server/src/node/xmpp.rs` makes the settings of both.

use std::path::PathBuf;
use std::time::Duration;

use net::Network;
use toml::de::DeValue;

use super::reader::Reader;
use super::value::{Size, Value};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The public address of the web services.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Web {
    /// Without a slash at its end. `None`: the first of these addresses.
    pub public_url: Option<Box<str>>,
    /// The page of users is served. Off by default.
    pub app: bool,
    /// The URL that its phone connects to. `None`: at the node's own listeners.
    pub sip_url: Option<Box<str>>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
}

/// Files of users (XEP-0363).
#[derive(Clone, Debug, PartialEq)]
pub struct Uploads {
    /// Users may upload files. On by default.
    pub enabled: bool,
    /// `None`: `uploads` in the node's folder.
    pub folder: Option<PathBuf>,
    /// Bytes of one file; at most `per_day`.
    pub max_size: u64,
    /// Bytes of a user's files in a day (UTC).
    pub per_day: u64,
    /// Bytes of all files.
    pub total: u64,
    /// The age at which files are removed; 30 days by default.
    pub keep: Duration,
}

impl Web {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("xmpp.web");
        let public_url = section
            .optional(
                "public_url",
                "Where clients find WebSocket (`/ws`), BOSH (`/bosh`) and files (`/upload`), when something stands before this server: told in `/.well-known/host-meta`, and in the addresses of files. The first `wss:` or `ws:` address when not given.",
            )
            .map(|Base(url)| url);
        let app = section.key(
            "app",
            false,
            "Whether users find a page with their chat and a phone at `/app/` of the `ws:` and `wss:` addresses (docs/webphone.md).",
        );
        let sip_url = section
            .optional(
                "sip_url",
                "Where the phone of that page connects with SIP, when something stands before this server. The `ws:` or `wss:` address of `sip.listen` when not given.",
            )
            .map(|SipUrl(url)| url);
        let trusted_proxies = section.list(
            "trusted_proxies",
            Vec::new(),
            "Reverse proxies before the `ws:` and `wss:` addresses. Of what they pass on the client is who they say in `X-Forwarded-For`, to limits per source, registration and lists of sessions; their own connections are not counted per source. No proxy is believed when empty.",
        );
        section.finish();
        Web { public_url, app, sip_url, trusted_proxies }
    }
}

impl Uploads {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("xmpp.uploads");
        // At least a KiB: a size that was meant in another unit shall be a mistake, not a service that refuses
        // all files.
        let mut size = |name, default, most, doc| {
            let Size(size) = section.key_in(name, Size(default), Size(1 << 10)..=Size(most), doc);
            size as u64
        };
        let max_size = size("max_size", 100 << 20, 1 << 40, "Largest file.");
        let per_day = size("per_day", 1 << 30, 1 << 50, "What one user may upload in a day (UTC).");
        let total = size(
            "total",
            20 << 30,
            1 << 50,
            "What all files may take. Beyond, uploads are refused until old files are removed.",
        );
        let uploads = Uploads {
            enabled: section.key(
                "enabled",
                true,
                "Whether users may upload files, where there is a `ws:` or `wss:` address to do it at.",
            ),
            folder: section.optional(
                "folder",
                "Folder of the files, made with the first. `uploads` in `server.data` when not given.",
            ),
            max_size,
            per_day,
            total,
            keep: section.key_in("keep", 30 * DAY, HOUR..=36_600 * DAY, "Files older than this are removed."),
        };
        // Clients are told `max_size` (XEP-0363 §4) and would be refused a file of that size at each attempt.
        if max_size > per_day {
            section.mistake(
                "max_size",
                "`max_size` is more than `per_day`",
                "a file that may be uploaded in a day",
            );
        }
        section.finish();
        uploads
    }
}

/// A URL without a slash at its end, to which paths are added.
struct Base(Box<str>);

impl Value for Base {
    const EXPECTED: &'static str = "a URL, as \"https://chat.example.net\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let url = value.as_str()?.trim_end_matches('/');
        // No character may need escaping in XML, a header or a document.
        let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"'&?#".contains(&byte));
        // The same reading of URLs as that of applications' documents: a host is needed, and no other scheme is
        // let through.
        let parsed = ivr::request::resolve(None, url, &["http", "https"]).filter(|_| is_plain);
        parsed.map(|_| Base(url.into()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

/// A URL of a WebSocket.
struct SipUrl(Box<str>);

impl Value for SipUrl {
    const EXPECTED: &'static str = "a URL, as \"wss://chat.example.net/sip\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let url = value.as_str()?;
        let rest = url.strip_prefix("wss://").or_else(|| url.strip_prefix("ws://"))?;
        // It stands in a header of the page, where these would be more than an address.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
        let is_url = rest.starts_with(|c: char| c != '/') && rest.chars().all(is_plain);
        is_url.then(|| SipUrl(url.into()))
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "belfry.toml".as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn configured_values_count_and_defaults_are_sensible() {
        let uploads = Config::default().uploads;
        assert!(uploads.enabled && uploads.folder.is_none());
        assert_eq!((uploads.max_size, uploads.per_day), (100 << 20, 1 << 30));
        let config =
            parse("[xmpp.web]\npublic_url = \"https://chat.example.net/\"\n[xmpp.uploads]\nkeep = \"7d\"\n")
                .unwrap();
        assert_eq!(config.web.public_url.as_deref(), Some("https://chat.example.net"));
        assert_eq!(config.uploads.keep, std::time::Duration::from_hours(7 * 24));
        assert!(!config.web.app && config.web.sip_url.is_none());
        let config = parse("[xmpp.web]\napp = true\nsip_url = \"wss://chat.example.net/sip\"\n").unwrap();
        assert!(config.web.app);
        assert_eq!(config.web.sip_url.as_deref(), Some("wss://chat.example.net/sip"));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, what) in [
            ("[xmpp.web]\npublic_url = \"ftp://a\"\n", "public_url"),
            ("[xmpp.web]\npublic_url = \"https://a/<b>\"\n", "public_url"),
            ("[xmpp.web]\nsip_url = \"https://a/\"\n", "sip_url"),
            ("[xmpp.web]\nsip_url = \"wss://a/; script-src *\"\n", "sip_url"),
            ("[xmpp.web]\ntrusted_proxies = [\"nginx\"]\n", "expected an address"),
            ("[xmpp.web]\ntrusted_proxies = [\"10.0.0.0/33\"]\n", "trusted_proxies"),
            ("[xmpp.uploads]\nmax_size = \"2GiB\"\n", "`max_size` is more than `per_day`"),
            ("[xmpp.uploads]\nkeep = \"1s\"\n", "keep"),
            ("[xmpp.uploads]\nsize = \"1KiB\"\n", "unknown key `size`"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(mistake.contains(what), "{mistake}");
        }
    }
}
