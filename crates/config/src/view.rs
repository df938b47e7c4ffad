//! The keys of a configuration as operators may see them at the console: without secrets.
//!
//! Comments are left out, as an old password may stand in one. Masked are the keys that are read as secrets, texts whose names say that they are
//! one, and of URLs the user information and the query.

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
        let is_secret = is_secret || is_name_of_secret(name);
        match value.get_ref() {
            DeValue::String(_) if is_secret => MASK.to_owned(),
            DeValue::String(text) => format!("{:?}", without_query(&without_user_info(text))),
            DeValue::Array(entries) => {
                let entries: Vec<_> = entries.iter().map(|entry| self.show(name, entry, is_secret)).collect();
                format!("[{}]", entries.join(", "))
            }
            DeValue::Table(table) => {
                let entries: Vec<_> = table
                    .iter()
                    .map(|(key, value)| {
                        let name = key.get_ref();
                        format!("{name} = {}", self.show(name, value, is_secret))
                    })
                    .collect();
                format!("{{ {} }}", entries.join(", "))
            }
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

    #[test]
    fn values_are_shown_as_written_without_what_a_password_may_be_in() {
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
