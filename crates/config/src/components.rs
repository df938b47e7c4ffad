//! `[[xmpp.components]]`: external components (XEP-0114), and where they connect.
//!
//! Secrets are read when the node starts ([`Component::secret`]); here their files only have to be there.
//!
//! [`Components`] is a part of `[xmpp]`, so it is read from that section. `server/src/node/xmpp.rs` makes the
//! settings of `xmpp_io::components` of it. Invariant: each domain stands once, as the domain alone names the
//! component that a connection speaks for.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use net::Listener;
use privilege::Privileges;
use sip::transport::Transport;
use toml::de::DeTable;
use xmpp::Bare;
use xmpp::sasl::Secret;

use super::privileges;
use super::reader::Section;
use super::value::{Size, Value};

/// Gateways, bots and whatever else speaks for a domain of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Components {
    /// TCP and TLS; empty: nowhere.
    pub listen: Vec<Listener>,
    /// Each domain once.
    pub known: Vec<Component>,
    /// A second, of one connection.
    pub stanzas: u32,
    /// A second, of one connection.
    pub bytes: usize,
}

/// An external component (XEP-0114).
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Prepared, as addresses have it.
    pub domain: Box<str>,
    /// The source of the secret that it proves its domain with.
    pub secret: ComponentSecret,
    /// The permissions that it has for accounts (XEP-0356).
    pub privileges: Privileges,
}

/// The source of a component's secret.
#[derive(Clone, Debug, PartialEq)]
pub enum ComponentSecret {
    /// The secret itself.
    Text(Secret),
    /// Its first line.
    File(PathBuf),
}

/// The form of an entry, for messages.
const FORM: &str =
    "{ domain = \"irc.example.net\", secret = \"…\" }, or with `secret_file`, a file whose first line it is";

impl Components {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        let listen = section.list(
            "component_listen",
            Vec::new(),
            "Where external components connect (XEP-0114): `tcp:`, usually port 5347, on loopback or in a network of one's own, for their streams are in the clear; or `tls:`. Nowhere when empty.",
        );
        let known: Vec<Component> = section.tables(
            "components",
            FORM,
            "External components: each speaks for one domain. As `[[xmpp.components]]` each is a table of its own. Several connections of one component share its stanzas: all of one user go to the same. An entry may grant what a component does for accounts (XEP-0356): `roster` and the namespaces of `requests` are \"get\", \"set\" or \"both\", `messages` is true, `presence` is \"managed_entity\" or \"roster\", `roster_pushes` is false for a component that wants no changes of rosters; see operating.md.",
            Component::read,
        );
        let stanzas = section.key_in(
            "component_stanzas_per_second",
            10_000,
            1..=1_000_000,
            "Stanzas that one connection of a component may send a second, after a burst of five seconds' worth. One that sends more is read more slowly; nothing of it is lost.",
        );
        let Size(bytes) = section.key_in(
            "component_bytes_per_second",
            Size(16 << 20),
            Size(1 << 10)..=Size(1 << 30),
            "Bytes that one connection of a component may send a second, in the same way.",
        );
        let components = Components { listen, known, stanzas, bytes };
        components.check(section);
        components
    }

    /// Rules that need several keys.
    /// Only TCP and TLS: XEP-0114 has no STARTTLS and no WebSocket.
    fn check(&self, section: &mut Section<'_, '_>) {
        let is_known = |listener: &Listener| matches!(listener.transport, Transport::Tcp | Transport::Tls);
        if let Some(listener) = self.listen.iter().find(|listener| !is_known(listener)) {
            let what = format!("`component_listen` has {}", listener.show());
            section.mistake("component_listen", what, "tcp: or tls:");
        }
        let twice = |(index, component): &(usize, &Component)| {
            self.known[..*index].iter().any(|earlier| earlier.domain == component.domain)
        };
        if let Some((_, component)) = self.known.iter().enumerate().find(twice) {
            section.mistake("components", format!("{} stands twice", component.domain), "each domain once");
        }
        // The other way round is allowed: addresses without a component refuse every handshake.
        if self.listen.is_empty() && !self.known.is_empty() {
            let expected = "`component_listen`, where they connect";
            section.mistake("components", "`components` without `component_listen`", expected);
        }
    }

    /// Paths that count from the configuration's folder.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.known.iter_mut().filter_map(|component| component.secret.file_mut())
    }
}

impl Component {
    /// One entry. Its text is never shown, for it may hold the secret.
    fn read(table: &DeTable<'_>, folder: Option<&Path>) -> Result<Self, (String, String)> {
        let keys = ["domain", "secret", "secret_file"];
        let is_known = |key: &str| keys.contains(&key) || privileges::KEYS.contains(&key);
        if let Some(key) = table.keys().find(|key| !is_known(key.get_ref())) {
            let expected =
                format!("domain, secret, secret_file or a permission: {}", privileges::KEYS.join(", "));
            return Err((format!("unknown key `{}`", key.get_ref()), expected));
        }
        let text = |name: &str| match table.get(name).map(|value| value.get_ref().as_str()) {
            None => Ok(None),
            Some(Some(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err((format!("`{name}` is no text"), "text in quotes".to_owned())),
        };
        let domain = text("domain")?.ok_or_else(|| ("no `domain`".to_owned(), FORM.to_owned()))?;
        // Prepared as addresses of stanzas are, so that comparison with `to` and `from` is one of bytes.
        let bare = Bare::parse(domain).ok().filter(|bare| bare.local().is_none());
        let bare = bare.ok_or_else(|| {
            (format!("{domain:?} is no domain"), "a host name, as \"irc.example.net\"".into())
        })?;
        let what = format!("how {domain} proves itself");
        let secret = read_secret((text("secret")?, text("secret_file")?), folder, &what)?;
        let privileges = privileges::read(table, bare.as_str())?;
        Ok(Component { domain: bare.as_str().into(), secret, privileges })
    }

    /// The secret that the component has to know.
    ///
    /// # Errors
    /// Those of [`ComponentSecret::read`].
    pub fn secret(&self) -> Result<Secret> {
        self.secret.read(&format!("the component {}", self.domain))
    }
}

impl ComponentSecret {
    /// The secret of this component, webhook or the like.
    /// The file is read each time that the settings are made, so one that has changed since `check-config`
    /// counts.
    ///
    /// # Errors
    /// A file that cannot be read, or has nothing in it.
    pub fn read(&self, of: &str) -> Result<Secret> {
        let path = match self {
            ComponentSecret::Text(secret) => return Ok(secret.clone()),
            ComponentSecret::File(path) => path,
        };
        let what = || format!("the secret of {of}: {}", path.display());
        let text = std::fs::read_to_string(path).with_context(what)?;
        // The first line only: editors end a file with a line break, which is no part of the secret. An empty
        // secret would be known to all.
        match text.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => Ok(Secret(line.into())),
            _ => bail!("{}: its first line is empty; expected the secret there", what()),
        }
    }

    /// The path, which counts from the configuration's folder.
    pub(super) fn file_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            ComponentSecret::File(path) => Some(path),
            ComponentSecret::Text(_) => None,
        }
    }
}

/// One place of a secret: with two it would be open which one counts after a change. `what` is said to lack it.
pub(super) fn read_secret(
    (secret, file): (Option<&str>, Option<&str>),
    folder: Option<&Path>,
    what: &str,
) -> Result<ComponentSecret, (String, String)> {
    match (secret, file) {
        (Some(secret), None) => Ok(ComponentSecret::Text(Secret(secret.into()))),
        (None, Some(file)) => Ok(ComponentSecret::File(readable(file, folder)?)),
        _ => Err((format!("{what} is not said once"), "`secret` or `secret_file`, one of them".into())),
    }
}

/// A file that has to be there, when it is known from which folder paths count.
fn readable(file: &str, folder: Option<&Path>) -> Result<PathBuf, (String, String)> {
    let path = PathBuf::from(file);
    match folder.map(|folder| std::fs::File::open(folder.join(&path))) {
        Some(Err(error)) => {
            let what = format!("`secret_file` names {file}, which cannot be read ({error})");
            Err((what, "a file this user may read".into()))
        }
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn mistake(text: &str) -> String {
        Config::parse(&format!("[xmpp]\n{text}\n"), Path::new("belfry.toml")).unwrap_err().to_string()
    }

    #[test]
    fn a_component_is_read_and_keeps_its_secret_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("irc.secret"), "from a file\n").unwrap();
        let file = folder.path().join("belfry.toml");
        let text = "[xmpp]\ncomponent_listen = [\"tcp:127.0.0.1:5347\"]\n\
                    [[xmpp.components]]\ndomain = \"SMS.example.net\"\nsecret = \"hush\"\n\
                    [[xmpp.components]]\ndomain = \"irc.example.net\"\nsecret_file = \"irc.secret\"\n";
        std::fs::write(&file, text).unwrap();
        let components = Config::read(&file).unwrap().xmpp.components;
        let [sms, irc] = &components.known[..] else { panic!("{components:?}") };
        assert_eq!((&*sms.domain, &*sms.secret().unwrap().0), ("sms.example.net", "hush"));
        assert_eq!((&*irc.domain, &*irc.secret().unwrap().0), ("irc.example.net", "from a file"));
        assert!(!format!("{components:?}").contains("hush"));
        std::fs::write(folder.path().join("irc.secret"), "\n").unwrap();
        let error = irc.secret().unwrap_err().to_string();
        assert!(error.contains("irc.example.net") && error.contains("irc.secret"), "{error}");
        std::fs::remove_file(folder.path().join("irc.secret")).unwrap();
        let error = Config::read(&file).unwrap_err().to_string();
        assert!(error.contains("`secret_file` names irc.secret, which cannot be read"), "{error}");
    }

    #[test]
    fn mistakes_name_the_fault_and_show_no_secret() {
        let listen = "component_listen = [\"tcp:127.0.0.1:5347\"]";
        for (text, expected) in [
            (
                "component_listen = [\"ws:127.0.0.1:5347\"]",
                "`component_listen` has \"ws:127.0.0.1:5347\"; expected tcp: or tls:",
            ),
            (
                "components = [{ domain = \"a.test\", secret = \"hush\" }]",
                "`components` without `component_listen`",
            ),
            (
                &format!("{listen}\ncomponents = {{ domain = \"a.test\", secret = \"hush\" }}"),
                "`components` is no array",
            ),
            (&format!("{listen}\ncomponents = [\"hush\"]"), "it is no table"),
            (&format!("{listen}\ncomponents = [{{ secret = \"hush\" }}]"), "no `domain`"),
            (
                &format!("{listen}\ncomponents = [{{ domain = \"a@b\", secret = \"hush\" }}]"),
                "\"a@b\" is no domain",
            ),
            (
                &format!("{listen}\ncomponents = [{{ domain = \"a.test\" }}]"),
                "how a.test proves itself is not said once",
            ),
            (
                &format!(
                    "{listen}\ncomponents = [{{ domain = \"a.test\", secret = \"hush\", secret_file = \"f\" }}]"
                ),
                "how a.test proves itself is not said once",
            ),
            (
                &format!("{listen}\ncomponents = [{{ domain = \"a.test\", secret = 5 }}]"),
                "`secret` is no text",
            ),
            (
                &format!("{listen}\ncomponents = [{{ domain = \"a.test\", password = \"hush\" }}]"),
                "unknown key `password`; expected domain, secret, secret_file or a permission",
            ),
            (
                &format!(
                    "{listen}\ncomponents = [{{ domain = \"a.test\", secret = \"hush\" }}, {{ domain = \"A.test\", secret = \"hush\" }}]"
                ),
                "a.test stands twice; expected each domain once",
            ),
        ] {
            let said = mistake(text);
            assert!(said.contains(expected), "{text}: {said}");
            assert!(!said.contains("hush"), "{said}");
        }
    }
}
