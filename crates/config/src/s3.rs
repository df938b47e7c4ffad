//! `[s3]`: the store of objects that gets the files of users and the recordings.
//!
//! The crate `object-storage` speaks its protocol. Signatures go by the URL of the service, so without TLS it leads to this machine only.

use std::path::PathBuf;

use external_auth::is_loopback;
use object_storage::ObjectStorageSettings;
use url::Url;
use xmpp::sasl::Secret;

use super::reader::{Reader, Section};

/// `[s3]`. Off without a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct S3 {
    /// The bucket; `None`: files stay at the nodes.
    pub bucket: Option<Box<str>>,
    /// The URL of the service, without the bucket. Always there with a bucket.
    pub endpoint: Option<Url>,
    /// The region, as the service names it.
    pub region: Box<str>,
    /// Before all keys of objects, with a slash at its end; may be empty.
    pub prefix: Box<str>,
    /// The name of the key.
    pub access_key: Box<str>,
    /// The key itself.
    pub secret_key: Option<Secret>,
    /// The bucket is in the path of URLs, and not in the name of the host.
    pub path_style: bool,
    /// PEM: the authorities of the service's certificate. `None`: those of the system.
    pub authorities: Option<PathBuf>,
}

/// The form of an endpoint, for messages.
const ENDPOINT: &str =
    "https://host, as \"https://s3.eu-central-1.amazonaws.com\"; http:// to this machine only";

impl S3 {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("s3");
        let bucket: Option<Box<str>> = section.optional(
            "bucket",
            "A bucket of a store that speaks the protocol of S3 (Amazon S3, MinIO, Ceph, Garage and others). Each file of `[xmpp.uploads]` and each recording of `[voice]` is put there once it is complete, and removed from this node when the store has confirmed it; all nodes with the same section serve it. The bucket has to exist. Files stay at the nodes when not given.",
        );
        let endpoint: Option<Box<str>> =
            section.optional("endpoint", "The URL of the service, without the bucket.");
        let endpoint = endpoint.and_then(|text| checked_endpoint(&mut section, &text));
        let s3 = S3 {
            bucket,
            endpoint,
            region: section.key("region", "us-east-1".into(), "The region, as the service names it."),
            prefix: section
                .optional("prefix", "Before the names of all objects, as \"belfry/\".")
                .unwrap_or_default(),
            access_key: section.optional("access_key", "The name of the key.").unwrap_or_default(),
            secret_key: section
                .secret("secret_key", "The key itself. It needs the rights to put, get and delete objects, and to list the bucket.")
                .map(Secret),
            path_style: section.key(
                "path_style",
                true,
                "Whether the bucket is in the path of URLs, as MinIO and others have it; `false`: in the name of the host, as Amazon S3 asks for.",
            ),
            authorities: section.file(
                "ca",
                "PEM: the authorities of the service's certificate. Those of the system when not given.",
            ),
        };
        s3.check(&mut section);
        section.finish();
        s3
    }

    /// True if files go to a store.
    pub fn is_on(&self) -> bool {
        self.bucket.is_some()
    }

    /// The settings of the client; `None`: there is no store.
    pub fn settings(&self) -> Option<ObjectStorageSettings> {
        Some(ObjectStorageSettings {
            endpoint: self.endpoint.clone()?,
            region: self.region.clone(),
            bucket: self.bucket.clone()?,
            prefix: self.prefix.clone(),
            access_key: self.access_key.clone(),
            secret_key: self.secret_key.as_ref()?.0.clone(),
            path_style: self.path_style,
            authorities: self.authorities.clone(),
        })
    }

    fn check(&self, section: &mut Section<'_, '_>) {
        let Some(bucket) = &self.bucket else {
            if self.endpoint.is_some() || self.secret_key.is_some() || !self.access_key.is_empty() {
                section.mistake("bucket", "[s3] has no `bucket`", "the name of a bucket");
            }
            return;
        };
        // Amazon S3, "Bucket naming rules"; other services take some more, none of which needs escaping.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_plain) {
            section.mistake(
                "bucket",
                format!("`bucket` is {bucket:?}"),
                "3 to 63 letters, digits, dots and hyphens",
            );
        }
        if !self.prefix.chars().all(|c| is_plain(c) || c == '/') || self.prefix.starts_with('/') {
            section.mistake("prefix", format!("`prefix` is {:?}", self.prefix), "a path, as \"belfry/\"");
        }
        if self.endpoint.is_none() {
            section.mistake("endpoint", "[s3] has no `endpoint`", ENDPOINT);
        }
        if self.access_key.is_empty() {
            section.mistake("access_key", "[s3] has no `access_key`", "the name of a key");
        }
        if self.secret_key.is_none() {
            section.mistake("secret_key", "[s3] has no `secret_key`", "the key itself");
        }
    }
}

/// The URL of a service. The text may hold a password, and is not shown before that is known.
fn checked_endpoint(section: &mut Section<'_, '_>, text: &str) -> Option<Url> {
    let what = match Url::parse(text) {
        Err(_) => "`endpoint` is no URL".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "`endpoint` has a user or a password in it".to_owned()
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() || url.path() != "/" => {
            format!("`endpoint` is {text:?}, with a path")
        }
        Ok(url) if url.scheme() == "https" && url.host_str().is_some() => return Some(url),
        Ok(url) if url.scheme() != "http" => format!("`endpoint` is {text:?}"),
        Ok(url) if url.host_str().is_some_and(is_loopback) => return Some(url),
        Ok(_) => "`endpoint` is without TLS, and not of this machine".to_owned(),
    };
    section.mistake("endpoint", what, ENDPOINT);
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Config;

    const WHOLE: &str = "[s3]\nendpoint = \"http://127.0.0.1:9000\"\nbucket = \"files\"\naccess_key = \"belfry\"\nsecret_key = \"hush\"\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("belfry.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_store_is_read_and_its_key_is_not_shown() {
        assert!(!Config::default().s3.is_on());
        let s3 = parse(&format!("{WHOLE}prefix = \"belfry/\"\n")).unwrap().s3;
        assert!(s3.is_on() && s3.path_style);
        assert_eq!((&*s3.region, &*s3.prefix, &*s3.access_key), ("us-east-1", "belfry/", "belfry"));
        assert!(!format!("{s3:?}").contains("hush"));
    }

    #[test]
    fn mistakes_name_the_fault_and_show_no_secret() {
        for (text, what) in [
            ("[s3]\nsecret_key = \"hush\"\n".to_owned(), "[s3] has no `bucket`"),
            ("[s3]\nbucket = \"files\"\n".to_owned(), "[s3] has no `endpoint`"),
            (WHOLE.replace("files", "a b"), "`bucket` is \"a b\""),
            (WHOLE.replace("http:", "ftp:"), "`endpoint` is \"ftp:"),
            (WHOLE.replace("127.0.0.1", "192.0.2.1"), "without TLS, and not of this machine"),
            (WHOLE.replace("//127", "//user:hush@127"), "a user or a password in it"),
            (WHOLE.replace("9000", "9000/files"), "with a path"),
            (WHOLE.replace("access_key = \"belfry\"\n", ""), "[s3] has no `access_key`"),
            (WHOLE.replace("secret_key = \"hush\"\n", ""), "[s3] has no `secret_key`"),
            (format!("{WHOLE}prefix = \"/a\"\n"), "`prefix` is \"/a\""),
        ] {
            let mistake = parse(&text).unwrap_err();
            assert!(mistake.contains(what), "{mistake}");
            assert!(!mistake.contains("hush"), "{mistake}");
        }
    }
}
