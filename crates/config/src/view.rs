//! The keys of a configuration as operators may see them at the console: without secrets.
//!
//! Comments are left out, as an old password may stand in one. Masked are the keys that are read as secrets, texts whose names say that they are
//! one, of URLs the user information and the query, and of libpq's other form of a URL all behind its password.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::without_user_info;

/// The text in the place of a secret.
const MASK: &str = "\"***\"";

/// A key, and its value in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKey {
    /// The section, without brackets.
    pub section: &'static str,
    /// The name of the key in its section.
    pub name: &'static str,
    /// The value as it stands in the file, with secrets masked; none: the default counts.
    pub value: Option<String>,
    /// The value when the file has none; none: there is none.
    pub default: Option<String>,
}

/// All keys that there are, in the order of the reference. Those of a text that is not TOML have no values.
pub fn keys(text: &str) -> Vec<ShownKey> {
    let root = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    let view = View { text };
    let keys = super::reference::keys().into_iter().map(|key| {
        let value = value_at(&root, key.section, key.name);
        let value = value.map(|value| view.show(key.name, value, key.is_secret));
        ShownKey { section: key.section, name: key.name, value, default: key.default }
    });
    keys.collect()
}

fn value_at<'t, 'a>(root: &'t DeTable<'a>, section: &str, name: &str) -> Option<&'t Spanned<DeValue<'a>>> {
    let mut table = root;
    for part in section.split('.') {
        table = table.get(part)?.get_ref().as_table()?;
    }
    table.get(name)
}

struct View<'a> {
    text: &'a str,
}

impl View<'_> {
    fn show(&self, name: &str, value: &Spanned<DeValue<'_>>, is_secret: bool) -> String {
        match value.get_ref() {
            DeValue::String(_) if is_secret || is_name_of_secret(name) => MASK.to_owned(),
            DeValue::String(text) => {
                format!("{:?}", without_password(&without_query(&without_user_info(text, &[]))))
            }
            DeValue::Array(entries) => {
                let entries: Vec<_> = entries.iter().map(|entry| self.show(name, entry, is_secret)).collect();
                format!("[{}]", entries.join(", "))
            }
            DeValue::Table(table) => {
                let entries: Vec<_> = table
                    .iter()
                    .map(|(key, value)| {
                        let name = key.get_ref();
                        format!("{name} = {}", self.show(name, value, is_secret || is_name_of_secret(name)))
                    })
                    .collect();
                format!("{{ {} }}", entries.join(", "))
            }
            // A secret without quotes is a mistake, and one all the same.
            _ if is_secret => MASK.to_owned(),
            // Numbers, truth values and times are as they are written.
            _ => self.text.get(value.span()).unwrap_or_default().to_owned(),
        }
    }
}

/// True for `password`, `secret_key`, `auth_token` and the like. The name of a file with a secret is none.
fn is_name_of_secret(name: &str) -> bool {
    let named = ["password", "secret", "token"].iter().any(|word| name.contains(word))
        || name == "key"
        || name.ends_with("_key");
    named && !name.ends_with("_file")
}

/// A token may stand in the query of a URL.
fn without_query(text: &str) -> String {
    match text.split_once('?') {
        Some((before, _)) if before.contains("://") => format!("{before}?***"),
        _ => text.to_owned(),
    }
}

/// `host=db password=… dbname=belfry`: what stands behind may belong to a password with spaces.
fn without_password(text: &str) -> String {
    const WORD: &str = "password";
    let is_value = |at: &usize| text[at + WORD.len()..].trim_start().starts_with('=');
    // Letters of ASCII keep their places.
    let lower = text.to_ascii_lowercase();
    match lower.match_indices(WORD).map(|(at, _)| at).find(is_value) {
        Some(at) => format!("{}=***", &text[..at + WORD.len()]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that is read as a secret is never shown.
    #[test]
    fn no_secret_of_any_key_is_shown() {
        let secrets: Vec<_> =
            super::super::reference::keys().into_iter().filter(|key| key.is_secret).collect();
        assert!(secrets.iter().any(|key| key.name == "auth_token") && secrets.len() >= 5);
        for key in secrets {
            let text = format!("[{}]\n{} = \"hunter2\" # hunter2\n", key.section, key.name);
            let shown = keys(&text);
            assert!(shown.iter().any(|shown| shown.value.as_deref() == Some(MASK)), "{}", key.name);
            assert!(!format!("{shown:?}").contains("hunter2"), "{}", key.name);
        }
    }

    /// A quote ends no password in a value, as it does in a line of the file; libpq's other form of a URL has the password in a word of its own; and a
    /// secret of a wrong kind is one, too.
    #[test]
    fn a_password_of_any_form_is_masked() {
        for text in [
            "[store]\nurl = \"postgres://belfry:hun'ter2@db/belfry\"\n",
            "[store]\nurl = 'postgres://belfry:hun\"ter2@db/belfry'\n",
            "[store]\nurl = \"postgres://belfry:hun\\nter2@db/belfry\"\n",
            "[store]\nurl = \"host=/run/postgresql user=belfry password=hunter2 dbname=belfry\"\n",
            "[store]\nurl = \"host=db password = 'hun ter2' dbname=belfry\"\n",
            "[store]\nurl = \"host=db PASSWORD=hunter2\"\n",
            "[s3]\nsecret_key = 4711\n",
            "[voice]\nauth_token = 4711\n",
            "[s3]\nsecret_key = 2026-11-29\n",
            "[xmpp]\ncomponents = [{ domain = \"irc.test\", secret = 4711 }]\n",
        ] {
            let shown = format!("{:?}", keys(text));
            for part in ["hun", "ter2", "4711", "2026"] {
                assert!(!shown.contains(part), "{part} of {text}: {shown}");
            }
        }
        let shown = keys("[store]\nurl = \"host=/run/postgresql user=belfry dbname=belfry\"\n");
        let url = shown.iter().find(|key| (key.section, key.name) == ("store", "url")).unwrap();
        assert_eq!(url.value.as_deref(), Some("\"host=/run/postgresql user=belfry dbname=belfry\""));
    }

    #[test]
    fn values_are_shown_as_written_without_possible_passwords() {
        let text = "# hunter2\n[store]\nurl = \"postgres://belfry:hunter2@db/belfry\"\n[sip]\nlisten = [\"udp:127.0.0.1:5060\"]\n\
                    [s3]\nsecret_key = \"hunter2\"\n[limits]\nsignins = 7\n\
                    [xmpp]\ncomponents = [{ domain = \"irc.test\", secret = \"hunter2\" }, { domain = \"b.test\", secret_file = \"b.secret\" }]\n\
                    webhooks = [{ url = \"https://a.test/hook?t=hunter2\", secret = 'hunter2' }]\n";
        let shown = keys(text);
        assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
        let value = |section: &str, name: &str| {
            let key = shown.iter().find(|key| (key.section, key.name) == (section, name)).unwrap();
            key.value.clone().unwrap_or_default()
        };
        assert_eq!(value("store", "url"), "\"postgres://***@db/belfry\"");
        assert_eq!(value("sip", "listen"), "[\"udp:127.0.0.1:5060\"]");
        let components = "[{ domain = \"irc.test\", secret = \"***\" }, { domain = \"b.test\", secret_file = \"b.secret\" }]";
        assert_eq!(value("xmpp", "components"), components);
        assert_eq!(value("xmpp", "webhooks"), "[{ url = \"https://a.test/hook?***\", secret = \"***\" }]");
        assert_eq!(value("http", "listen"), "", "the default counts");
        assert!(keys("no toml").iter().all(|key| key.value.is_none()));
    }
}
