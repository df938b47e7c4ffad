//! `[[accounts.sources]]`: sign-in by a directory, an HTTP service, tokens or a file, for the domains that have such a source.
//!
//! Each source is a table of its own with keys by its `type`, so they are read by [`SourceKeys`] and not by `Section`. Texts of these tables are
//! shown in messages only where they can be no secrets. Rules that protect passwords are checked here: TLS except to this machine, none in a URL.

mod file;
mod http;
mod provider;

pub(super) use file::warnings;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use external_auth::{
    DirectoryRole, FilterTemplate, GroupFilter, GroupSettings, JwtSettings, KeySource, LdapLookup,
    LdapSecurity, LdapSettings, MemberForm, NameTemplate, SourceKind, SourceSettings, TokenRoles,
    is_loopback,
};
use toml::de::DeTable;
use url::Url;
use xmpp::Bare;

use super::reader::Section;
use super::value::{Value, duration_text};

/// The form of an entry, for messages.
const FORM: &str = "{ domain = \"example.net\", type = \"ldap\", \"http\", \"jwt\" or \"file\", … }";

/// The text of the reference.
const DOC: &str = "Sources of sign-ins outside the database, at most one for a domain: chat clients of that domain sign in by the source alone, and an account is made at the first time. As `[[accounts.sources]]` each is a table of its own; operating.md has the keys, with examples.";

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_hours(24);
/// Keys of every source.
const COMMON: [&str; 5] = ["domain", "type", "timeout", "remember", "keep_digests"];

/// A mistake, and what was expected.
type Fault = (String, String);

/// The sources of `[accounts]`, at most one for a domain.
/// `external_auth::Authenticator` chooses the source by the domain of the account, so a second one could never
/// be asked.
pub(super) fn read(section: &mut Section<'_, '_>) -> Vec<SourceSettings> {
    let sources: Vec<SourceSettings> = section.tables("sources", FORM, DOC, read_source);
    let twice = |(index, source): &(usize, &SourceSettings)| {
        sources[..*index].iter().any(|earlier| earlier.domain == source.domain)
    };
    if let Some((_, source)) = sources.iter().enumerate().find(twice) {
        section.mistake("sources", format!("{} stands twice", source.domain), "each domain once");
    }
    sources
}

/// One entry. The first mistake of it is reported.
fn read_source(table: &DeTable<'_>, folder: Option<&Path>) -> Result<SourceSettings, Fault> {
    let keys = SourceKeys { table, folder };
    let domain = keys.needed::<Box<str>>("domain")?;
    let bare = Bare::parse(&domain).ok().filter(|bare| bare.local().is_none());
    let bare =
        bare.ok_or_else(|| fault(format!("{domain:?} is no domain"), "a domain, as \"example.net\""))?;
    // The type decides which keys are known; the settings of the type are read first, so a missing key is
    // reported before an unknown one.
    let (kind, own): (_, &[&str]) = match &*keys.needed::<Box<str>>("type")? {
        "ldap" => (SourceKind::Ldap(Box::new(keys.ldap()?)), &LDAP),
        "http" => (SourceKind::Http(Box::new(keys.http()?)), &HTTP),
        "jwt" => (SourceKind::Jwt(Box::new(keys.jwt()?)), &JWT),
        "file" => (SourceKind::File(Box::new(file::read(&keys)?)), &file::FILE),
        other => {
            let expected = "\"ldap\", \"http\", \"jwt\" or \"file\"";
            return Err(fault(format!("`type` is {other:?}"), expected));
        }
    };
    // Keys of another type are unknown here, too.
    let known: Vec<&str> = COMMON.iter().chain(own).copied().collect();
    if let Some(key) = table.keys().find(|key| !known.contains(&&**key.get_ref())) {
        return Err(fault(format!("unknown key `{}`", key.get_ref()), known.join(", ")));
    }
    let keep_digests = keys.duration("keep_digests", Duration::ZERO, (Duration::ZERO, 90 * DAY))?;
    // Digests are made of a password, which a token is not.
    if kind.is_by_token() && !keep_digests.is_zero() {
        return Err(fault("`keep_digests` of tokens", "none: there is no password to keep digests of"));
    }
    Ok(SourceSettings {
        domain: bare.as_str().into(),
        kind,
        timeout: keys.duration("timeout", Duration::from_secs(5), (Duration::from_secs(1), MINUTE))?,
        remember: keys.duration("remember", MINUTE, (Duration::ZERO, Duration::from_hours(1)))?,
        keep_digests,
    })
}

/// Keys of a source by its type.
/// `bind_as` excludes `base`, `filter` and the pair of `bind_dn` and its password file
/// ([`SourceKeys::lookup`]).
const LDAP: [&str; 9] =
    ["url", "starttls", "ca", "bind_dn", "bind_password_file", "base", "filter", "bind_as", "groups"];
/// Keys of `groups`.
const GROUPS: [&str; 10] =
    ["base", "filter", "member", "member_form", "name", "refresh", "keep", "admins", "operators", "readers"];
/// Groups or values of a claim that give roles, at most: each is compared with each group of a user.
const MAPPED_GROUPS: usize = 100;
/// A form or JSON is posted to `url`; `token_file` has a token for the service.
const HTTP: [&str; 4] = ["url", "body", "token_file", "ca"];
/// Either `keys_file` or `keys_url`; `issuer` and `audience` are always required, since a signature alone does
/// not say for which service a token was made.
const JWT: [&str; 10] = [
    "keys_file",
    "keys_url",
    "ca",
    "issuer",
    "audience",
    "user_claim",
    "leeway",
    "roles",
    "account_claim",
    "provider",
];
/// Keys of `roles`.
const ROLES: [&str; 4] = ["claim", "admins", "operators", "readers"];

/// The text found, and the text expected.
/// `Section::tables` makes a mistake of the two, at the place of the entry.
fn fault(what: impl fmt::Display, expected: impl fmt::Display) -> Fault {
    (what.to_string(), expected.to_string())
}

/// The keys of one source.
struct SourceKeys<'t> {
    /// All keys of the entry.
    table: &'t DeTable<'t>,
    /// The folder that paths count from; unknown when the configuration is no file.
    folder: Option<&'t Path>,
}

impl SourceKeys<'_> {
    /// A key that may be left out.
    fn get<T: Value>(&self, name: &str) -> Result<Option<T>, Fault> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        let read = T::read(value.get_ref());
        // The value is not shown: the key may be the wrong one for a password.
        read.map(Some).ok_or_else(|| fault(format!("`{name}` cannot be read"), T::EXPECTED))
    }

    /// A key that must be there.
    fn needed<T: Value>(&self, name: &str) -> Result<T, Fault> {
        self.get(name)?.ok_or_else(|| fault(format!("no `{name}`"), T::EXPECTED))
    }

    /// A list of names.
    fn names(&self, name: &str) -> Result<Vec<Box<str>>, Fault> {
        let Some(value) = self.table.get(name) else { return Ok(Vec::new()) };
        let names = value.get_ref().as_array().and_then(|names| {
            names.iter().map(|name| name.get_ref().as_str().map(Box::from)).collect::<Option<_>>()
        });
        names.ok_or_else(|| fault(format!("`{name}` cannot be read"), "a list of names"))
    }

    /// A duration with a default and limits.
    fn duration(
        &self,
        name: &str,
        default: Duration,
        (least, most): (Duration, Duration),
    ) -> Result<Duration, Fault> {
        let duration = self.get(name)?.unwrap_or(default);
        if !(least..=most).contains(&duration) {
            let expected = format!("{} to {}", duration_text(least), duration_text(most));
            return Err(fault(format!("`{name}` is {}", duration_text(duration)), expected));
        }
        Ok(duration)
    }

    /// A file that has to be there, when it is known from which folder paths count.
    fn file(&self, name: &str) -> Result<Option<PathBuf>, Fault> {
        let Some(path) = self.get::<PathBuf>(name)? else { return Ok(None) };
        // Without a folder the text is from no file (`Config::parse`), and nothing is opened.
        if let Some(Err(error)) = self.folder.map(|folder| File::open(folder.join(&path))) {
            let what = format!("`{name}` names {}, which cannot be read ({error})", path.display());
            return Err(fault(what, "a file this user may read"));
        }
        Ok(Some(path))
    }

    /// A URL with a host, of one of the schemes; the second is without TLS.
    fn url(&self, name: &str, [secure, clear]: [&str; 2]) -> Result<Option<Url>, Fault> {
        let Some(text) = self.get::<Box<str>>(name)? else { return Ok(None) };
        let expected = format!("{secure}://host or {secure}://host:port");
        // A URL that cannot be read may hold a password.
        let url = Url::parse(&text).map_err(|_| fault(format!("`{name}` is no URL"), &expected))?;
        // Credentials stand in files of their own, which need not be readable for all who may read the
        // configuration. The URL is not shown here, as it has them.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault(format!("`{name}` has a user or a password in it"), &expected));
        }
        // From here on the URL has no credentials in it and may be shown.
        if ![secure, clear].contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
            return Err(fault(format!("`{name}` is {text:?}"), &expected));
        }
        Ok(Some(url))
    }

    /// The same as [`url`](Self::url), for HTTP. Without TLS to this machine only: passwords and keys go by it.
    /// Without TLS a host between could read passwords, or give keys of its own by which any token would be
    /// valid.
    fn http_url(&self, name: &str) -> Result<Option<Box<str>>, Fault> {
        let Some(url) = self.url(name, ["https", "http"])? else { return Ok(None) };
        if url.scheme() == "http" && !url.host_str().is_some_and(is_loopback) {
            let what = format!("`{name}` is without TLS, and not of this machine");
            return Err(fault(what, "an https: URL"));
        }
        Ok(Some(url.as_str().into()))
    }

    /// The server, and how an entry is found. 636 and 389 are the ports of LDAP with and without TLS.
    fn ldap(&self) -> Result<LdapSettings, Fault> {
        let expected = "ldaps://host or ldap://host";
        let url = self.url("url", ["ldaps", "ldap"])?.ok_or_else(|| fault("no `url`", expected))?;
        let host: Box<str> = url.host_str().unwrap_or_default().into();
        let starttls = self.get("starttls")?.unwrap_or(false);
        let (security, port) = match (url.scheme(), starttls) {
            ("ldaps", false) => (LdapSecurity::Tls, 636),
            ("ldaps", true) => return Err(fault("`starttls` with ldaps", "one of them")),
            // The upgrade is an extended operation on the port without TLS (RFC 4511 §4.14).
            (_, true) => (LdapSecurity::StartTls, 389),
            // The clear is for this machine only: a simple bind has the password as it is (RFC 4513 §5.1.3).
            (_, false) if is_loopback(&host) => (LdapSecurity::Clear, 389),
            (_, false) => {
                let what = format!("passwords would go to {host} in the clear");
                return Err(fault(what, "ldaps:, or `starttls = true`"));
            }
        };
        // An LDAP URL may carry a search of its own (RFC 4516), which is not read.
        if !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err(fault("`url` has more than host and port", "`base` and `filter` for the rest"));
        }
        let port = url.port().unwrap_or(port);
        let (authorities, lookup, groups) = (self.file("ca")?, self.lookup()?, self.groups()?);
        if groups.is_some() && matches!(lookup, LdapLookup::Template(_)) {
            // With `bind_as` no account of the node's own may search, and the user is there at a sign-in only.
            return Err(fault("`groups` with `bind_as`", "`base` and `filter`, with `bind_dn` perhaps"));
        }
        Ok(LdapSettings { host, port, security, authorities, lookup, groups })
    }

    /// The groups that give roles at the console: `groups = { … }`, or a table of its own.
    fn groups(&self) -> Result<Option<GroupSettings>, Fault> {
        self.table_of("groups", &GROUPS, |keys| keys.group_settings())
    }

    /// A table of its own below the source, with no keys but the known ones. Its mistakes name it.
    fn table_of<T>(
        &self,
        name: &str,
        known: &[&str],
        read: impl FnOnce(&SourceKeys<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        let table = value.get_ref().as_table();
        let table = table.ok_or_else(|| fault(format!("`{name}` is no table"), known.join(", ")))?;
        if let Some(key) = table.keys().find(|key| !known.contains(&&**key.get_ref())) {
            return Err(fault(format!("unknown key `{}` of `{name}`", key.get_ref()), known.join(", ")));
        }
        let within = |(what, expected): Fault| (format!("`{name}`: {what}"), expected);
        read(&SourceKeys { table, folder: self.folder }).map(Some).map_err(within)
    }

    /// The names that give roles.
    fn roles(&self) -> Result<Vec<(DirectoryRole, Box<str>)>, Fault> {
        let mut roles = Vec::new();
        for (key, role) in [
            ("admins", DirectoryRole::Admin),
            ("operators", DirectoryRole::Operator),
            ("readers", DirectoryRole::ReadOnly),
        ] {
            let names = self.names(key)?;
            if names.iter().any(|name| name.trim().is_empty()) {
                return Err(fault(format!("`{key}` has an empty name"), "names of groups or roles"));
            }
            roles.extend(names.into_iter().map(|name| (role, name)));
        }
        if roles.len() > MAPPED_GROUPS {
            let expected = format!("at most {MAPPED_GROUPS} names in `admins`, `operators` and `readers`");
            return Err(fault(format!("{} names give a role", roles.len()), expected));
        }
        Ok(roles)
    }

    /// The name of a claim.
    fn claim(&self, name: &str) -> Result<Option<Box<str>>, Fault> {
        let claim = self.get::<Box<str>>(name)?;
        if claim.as_deref().is_some_and(|claim| claim.trim().is_empty()) {
            return Err(fault(format!("`{name}` is empty"), "the name of a claim, as \"groups\""));
        }
        Ok(claim)
    }

    /// The claim of tokens that gives roles. Without a name there would be no use for it.
    fn token_roles(&self) -> Result<TokenRoles, Fault> {
        let claim = self.claim("claim")?.unwrap_or_else(|| "groups".into());
        let roles = self.roles()?;
        if roles.is_empty() {
            let expected = "values of the claim in `admins`, `operators` or `readers`";
            return Err(fault("no value gives a role", expected));
        }
        Ok(TokenRoles { claim, roles })
    }

    fn group_settings(&self) -> Result<GroupSettings, Fault> {
        let filter = self.get::<Box<str>>("filter")?.unwrap_or_else(|| "(objectClass=*)".into());
        let expected = "a filter of groups, as \"(objectClass=groupOfNames)\"";
        let filter =
            GroupFilter::parse(&filter).map_err(|mistake| fault(format!("`filter`: {mistake}"), expected))?;
        let member_form = match self.get::<Box<str>>("member_form")?.as_deref() {
            None | Some("name") => MemberForm::Name,
            Some("nested") => MemberForm::NestedName,
            Some("user") => MemberForm::User,
            Some(other) => {
                return Err(fault(format!("`member_form` is {other:?}"), "\"name\", \"nested\" or \"user\""));
            }
        };
        Ok(GroupSettings {
            base: self.needed("base")?,
            filter,
            member: self.get("member")?.unwrap_or_else(|| "member".into()),
            member_form,
            name: self.get("name")?.unwrap_or_else(|| "cn".into()),
            // Without a role the groups are for [[xmpp.groups]] alone.
            roles: self.roles()?,
            refresh: self.duration("refresh", 5 * MINUTE, (10 * SECOND, Duration::from_hours(24)))?,
            keep: self.duration("keep", Duration::from_hours(1), (Duration::ZERO, 7 * DAY))?,
        })
    }

    /// Two ways: a search for the entry, as another user or anonymously, or a name that the user's own name is put into.
    fn lookup(&self) -> Result<LdapLookup, Fault> {
        let (base, filter) = (self.get::<Box<str>>("base")?, self.get::<Box<str>>("filter")?);
        // A name without a password would be an unauthenticated bind, which servers may answer with success
        // (RFC 4513 §5.1.2).
        let bind = match (self.get("bind_dn")?, self.file("bind_password_file")?) {
            (Some(name), Some(file)) => Some((name, file)),
            (None, None) => None,
            _ => {
                return Err(fault(
                    "`bind_dn` or `bind_password_file` is alone",
                    "both, or none for an anonymous search",
                ));
            }
        };
        match (self.get::<Box<str>>("bind_as")?, base, filter) {
            // A search needs no template, and a template no search: with both it would be open which one
            // decides.
            (Some(name), None, None) if bind.is_none() => {
                let template = NameTemplate::parse(&name);
                let expected = "a name with {user}, as \"{user}@corp.example.net\"";
                let template =
                    template.map_err(|mistake| fault(format!("`bind_as`: {mistake}"), expected))?;
                Ok(LdapLookup::Template(template))
            }
            (None, Some(base), Some(filter)) => {
                let filter = FilterTemplate::parse(&filter);
                let expected = "a filter with {user}, as \"(uid={user})\"";
                let filter = filter.map_err(|mistake| fault(format!("`filter`: {mistake}"), expected))?;
                Ok(LdapLookup::Search { bind, base, filter })
            }
            _ => Err(fault(
                "the way to a user's entry is not said once",
                "either `base` and `filter`, with `bind_dn` perhaps, or `bind_as` alone",
            )),
        }
    }

    /// The keys, and the claims that a token must have.
    fn jwt(&self) -> Result<JwtSettings, Fault> {
        let keys = match (self.file("keys_file")?, self.http_url("keys_url")?) {
            (Some(file), None) => KeySource::File(file),
            (None, Some(url)) => KeySource::Url(url),
            _ => return Err(fault("the place of the keys is not said once", "`keys_file` or `keys_url`")),
        };
        Ok(JwtSettings {
            keys,
            authorities: self.file("ca")?,
            // Without these two, a token that the same keys signed for another service would sign its user in
            // here.
            issuer: self.needed("issuer")?,
            audience: self.needed("audience")?,
            user_claim: self.get("user_claim")?.unwrap_or_else(|| "sub".into()),
            // Difference of clocks that is tolerated in the times of a token (RFC 7519 §4.1.4 suggests a few
            // minutes at most).
            leeway: self.duration("leeway", Duration::from_secs(30), (Duration::ZERO, 5 * MINUTE))?,
            roles: self.table_of("roles", &ROLES, |keys| keys.token_roles())?,
            account_claim: self.claim("account_claim")?,
            provider: provider::read(self)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use external_auth::BodyForm;

    use super::*;
    use crate::Config;

    fn read(text: &str) -> Result<Vec<SourceSettings>, String> {
        let config = Config::parse(&format!("[[accounts.sources]]\n{text}\n"), Path::new("belfry.toml"));
        config.map(|config| config.accounts.sources).map_err(|error| error.to_string())
    }

    /// The configuration reference has the keys of sections only; those of a source are in the text.
    #[test]
    fn each_key_of_a_source_is_documented() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let manual = std::fs::read_to_string(docs.join("operating.md")).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_there = |key: &str| manual.split(|c| !is_part(c)).any(|word| word == key);
        let tables =
            [&COMMON[..], &super::LDAP, &GROUPS, &HTTP, &JWT, &file::FILE, &ROLES, &provider::PROVIDER];
        let missing: Vec<_> = tables.concat().into_iter().filter(|key| !is_there(key)).collect();
        assert!(missing.is_empty(), "docs/operating.md lacks {missing:?}");
    }

    const LDAP: &str = "domain = \"Example.net\"\ntype = \"ldap\"\n";
    const SEARCH: &str = "base = \"dc=example\"\nfilter = \"(uid={user})\"\n";

    #[test]
    fn a_directory_is_read() {
        let bind = "bind_dn = \"cn=belfry\"\nbind_password_file = \"secret\"\nca = \"ca.pem\"\n";
        let text = format!("{LDAP}url = \"ldaps://ldap.example.net\"\n{bind}{SEARCH}keep_digests = \"30d\"");
        let [source] = &mut read(&text).unwrap()[..] else { panic!("one") };
        assert_eq!((&*source.domain, source.keep_digests), ("example.net", 30 * DAY));
        assert_eq!((source.timeout, source.remember), (Duration::from_secs(5), MINUTE));
        let files: Vec<_> = source.kind.files().map(|file| file.display().to_string()).collect();
        assert_eq!(files, ["ca.pem", "secret"]);
        let SourceKind::Ldap(ldap) = &source.kind else { panic!("{source:?}") };
        assert_eq!((&*ldap.host, ldap.port, ldap.security), ("ldap.example.net", 636, LdapSecurity::Tls));
        for (url, security, port) in [
            ("ldap://ldap.example.net\"\nstarttls = true #\"", LdapSecurity::StartTls, 389),
            ("ldap://127.0.0.1:1389", LdapSecurity::Clear, 1_389),
            ("ldap://[::1]", LdapSecurity::Clear, 389),
        ] {
            let text = format!("{LDAP}url = \"{url}\"\nbind_as = \"{{user}}@corp.test\"");
            let source = read(&text).unwrap().remove(0);
            let SourceKind::Ldap(ldap) = source.kind else { panic!("{url}") };
            assert_eq!((ldap.port, ldap.security), (port, security), "{url}");
            assert!(matches!(ldap.lookup, LdapLookup::Template(_)), "{url}");
        }
    }

    #[test]
    fn groups_of_a_directory_are_read() {
        let source = |groups: &str, lookup: &str| {
            read(&format!("{LDAP}url = \"ldaps://ldap.example.net\"\n{lookup}groups = {{ {groups} }}\n"))
        };
        let given = "base = \"ou=groups\", admins = [\"ops\"], readers = [\"cn=staff,ou=groups\", \"audit\"]";
        let of = |source: &SourceSettings| {
            if let SourceKind::Ldap(ldap) = &source.kind { ldap.groups.clone().unwrap() } else { panic!() }
        };
        let groups = of(&source(given, SEARCH).unwrap()[0]);
        assert_eq!((&*groups.base, &*groups.member, &*groups.name), ("ou=groups", "member", "cn"));
        assert_eq!(
            (groups.member_form, groups.refresh, groups.keep),
            (MemberForm::Name, 5 * MINUTE, 60 * MINUTE)
        );
        let roles: Vec<_> = groups.roles.iter().map(|(role, group)| (*role, &**group)).collect();
        let reader = DirectoryRole::ReadOnly;
        assert_eq!(roles, [(DirectoryRole::Admin, "ops"), (reader, "cn=staff,ou=groups"), (reader, "audit")]);
        let nested = source(&format!("{given}, member_form = \"nested\", keep = \"0s\""), SEARCH).unwrap();
        assert_eq!(of(&nested[0]).member_form, MemberForm::NestedName);
        for (groups, lookup, mistake) in [
            ("admins = [\"ops\"]", SEARCH, "`groups`: no `base`"),
            ("base = \"b\", admins = [\" \"]", SEARCH, "`admins` has an empty name"),
            (
                "base = \"b\", admins = [\"a\"], filter = \"(uid={user})\"",
                SEARCH,
                "`filter`: a place for a name",
            ),
            ("base = \"b\", admins = [\"a\"], member_form = \"dn\"", SEARCH, "`member_form` is \"dn\""),
            ("base = \"b\", admins = [\"a\"], refresh = \"1s\"", SEARCH, "`refresh` is"),
            ("base = \"b\", admin = [\"a\"]", SEARCH, "unknown key `admin` of `groups`"),
            (given, "bind_as = \"{user}@corp.test\"\n", "`groups` with `bind_as`"),
        ] {
            let error = source(groups, lookup).unwrap_err();
            assert!(error.contains(mistake), "{mistake}: {error}");
        }
    }

    #[test]
    fn roles_by_a_claim_of_tokens_are_read() {
        let source = |more: &str| {
            read(&format!(
                "domain = \"a.test\"\ntype = \"jwt\"\nkeys_file = \"k\"\nissuer = \"i\"\naudience = \"belfry\"\n{more}\n"
            ))
        };
        assert!(!source("").unwrap()[0].gives_roles(), "tokens sign in to chat only");
        let given = "roles = { claim = \"realm_access.roles\", admins = [\"ops\"], readers = [\"staff\", \"audit\"] }";
        let sources = source(given).unwrap();
        let roles = sources[0].token_roles().unwrap();
        let values: Vec<_> = roles.roles.iter().map(|(role, value)| (*role, &**value)).collect();
        let reader = DirectoryRole::ReadOnly;
        assert_eq!(&*roles.claim, "realm_access.roles");
        assert_eq!(values, [(DirectoryRole::Admin, "ops"), (reader, "staff"), (reader, "audit")]);
        assert!(sources[0].gives_roles());
        let left_out = source("[accounts.sources.roles]\nadmins = [\"ops\"]").unwrap();
        assert_eq!(&*left_out[0].token_roles().unwrap().claim, "groups");
        let many = format!("roles = {{ admins = [{}] }}", "\"a\",".repeat(MAPPED_GROUPS + 1));
        for (roles, mistake) in [
            ("roles = \"admins\"", "`roles` is no table"),
            ("roles = {}", "`roles`: no value gives a role"),
            ("roles = { claim = \"groups\" }", "`roles`: no value gives a role"),
            ("roles = { claim = \" \", admins = [\"ops\"] }", "`roles`: `claim` is empty"),
            ("roles = { admins = [\"\"] }", "`roles`: `admins` has an empty name"),
            ("roles = { admins = \"ops\" }", "`roles`: `admins` cannot be read"),
            ("roles = { admin = [\"ops\"] }", "unknown key `admin` of `roles`"),
            (&many, "101 names give a role"),
        ] {
            let error = source(roles).unwrap_err();
            assert!(error.contains(mistake), "{mistake}: {error}");
        }
        let of_directory = format!("{LDAP}url = \"ldaps://ldap.test\"\n{SEARCH}{given}");
        assert!(read(&of_directory).unwrap_err().contains("unknown key `roles`"));
    }

    #[test]
    fn other_sources_are_read() {
        let text = "domain = \"a.test\"\ntype = \"http\"\nurl = \"https://a.test/check\"\nbody = \"json\"";
        let source = read(text).unwrap().remove(0);
        let SourceKind::Http(http) = source.kind else { panic!("{source:?}") };
        assert_eq!((&*http.url, http.form), ("https://a.test/check", BodyForm::Json));
        let text = "domain = \"a.test\"\ntype = \"jwt\"\nkeys_url = \"https://a.test/keys\"\nissuer = \"i\"\naudience = \"belfry\"";
        let source = read(text).unwrap().remove(0);
        let SourceKind::Jwt(jwt) = source.kind else { panic!("{source:?}") };
        assert_eq!((&*jwt.user_claim, jwt.leeway), ("sub", Duration::from_secs(30)));
        assert_eq!(jwt.keys, KeySource::Url("https://a.test/keys".into()));
    }

    #[test]
    fn mistakes_of_sources_are_named_and_show_no_secret() {
        let http = "domain = \"a.test\"\ntype = \"http\"\n";
        for (text, expected) in [
            ("type = \"ldap\"".to_owned(), "no `domain`"),
            ("domain = \"a@b\"".to_owned(), "\"a@b\" is no domain"),
            ("domain = \"a.test\"\ntype = \"nis\"".to_owned(), "`type` is \"nis\""),
            (format!("{LDAP}{SEARCH}"), "no `url`"),
            (
                format!("{LDAP}url = \"ldap://ldap.test\"\n{SEARCH}"),
                "passwords would go to ldap.test in the clear",
            ),
            (format!("{LDAP}url = \"ldaps://u:hush@ldap.test\"\n{SEARCH}"), "has a user or a password in it"),
            (
                format!("{LDAP}url = \"ldaps://ldap.test\"\nstarttls = true\n{SEARCH}"),
                "`starttls` with ldaps",
            ),
            (format!("{LDAP}url = \"ldaps://ldap.test/dc=a\"\n{SEARCH}"), "more than host and port"),
            (format!("{LDAP}url = \"ldaps://ldap.test\""), "the way to a user's entry is not said once"),
            (format!("{LDAP}url = \"ldaps://ldap.test\"\n{SEARCH}bind_dn = \"cn=a\""), "is alone"),
            (
                format!("{LDAP}url = \"ldaps://ldap.test\"\nbase = \"dc=a\"\nfilter = \"(uid=*)\""),
                "`filter`: no {user} in a value",
            ),
            (format!("{LDAP}url = \"ldaps://ldap.test\"\nbind_as = \"admin@a\""), "`bind_as`: no {user}"),
            (
                format!("{LDAP}url = \"ldaps://ldap.test\"\n{SEARCH}password = \"hush\""),
                "unknown key `password`",
            ),
            (
                format!("{LDAP}url = \"ldaps://ldap.test\"\n{SEARCH}timeout = \"1h\""),
                "`timeout` is 1h; expected 1s to 1m",
            ),
            (format!("{http}url = \"http://a.test/check\""), "`url` is without TLS"),
            (format!("{http}url = \"https://a.test/\"\nbody = \"xml\""), "`body` is \"xml\""),
            (
                "domain = \"a.test\"\ntype = \"jwt\"\nissuer = \"i\"\naudience = \"b\"".to_owned(),
                "the place of the keys",
            ),
            (
                "domain = \"a.test\"\ntype = \"jwt\"\nkeys_file = \"k\"\nissuer = \"i\"".to_owned(),
                "no `audience`",
            ),
            (
                format!(
                    "{http}url = \"https://a.test/\"\n[[accounts.sources]]\n{http}url = \"https://a.test/\""
                ),
                "a.test stands twice",
            ),
        ] {
            let mistake = read(&text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
            assert!(!mistake.contains("hush"), "{mistake}");
        }
        let text = format!(
            "[accounts]\ndigests = false\n[[accounts.sources]]\n{http}url = \"https://a.test/\"\nkeep_digests = \"1d\"\n"
        );
        let mistake = Config::parse(&text, Path::new("belfry.toml")).unwrap_err().to_string();
        assert!(mistake.contains("`keep_digests` of a source beside `digests = false`"), "{mistake}");
    }
}
