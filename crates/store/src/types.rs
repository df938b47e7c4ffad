//! The types of the database's rows. They contain no passwords, only [`Verifiers`].

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::verifiers::Verifiers;

/// `user@domain`, without a scheme. The domain is in lower case; the user part is as it was given (RFC 3261
/// §19.1.4: it is case-sensitive).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// The user part, without escapes.
    pub user: Box<str>,
    /// A host name in lower case, internationalised labels as U-labels (RFC 5890 §2.3.2.1), or an address literal.
    pub domain: Box<str>,
}

impl Address {
    /// Checks both parts and puts the domain in lower case.
    pub fn new(user: &str, domain: &str) -> Result<Self, StoreError> {
        check_name("account name", user)?;
        Ok(Address { user: user.into(), domain: check_domain(domain)? })
    }

    /// The address, if its domain could be added: an import adds the domains that it meets.
    ///
    /// # Errors
    /// `Invalid`: no host name and no literal address.
    pub fn with_addable_domain(self) -> Result<Self, StoreError> {
        check_new_domain(&self.domain)?;
        Ok(self)
    }

    /// Reads `user@domain`, or `user` when there is a default domain.
    pub fn parse(text: &str, default_domain: Option<&str>) -> Result<Self, StoreError> {
        match (text.rsplit_once('@'), default_domain) {
            (Some((user, domain)), _) => Address::new(user, domain),
            (None, Some(domain)) => Address::new(text, domain),
            (None, None) => Err(StoreError::invalid(format!("account {text:?}"), "user@domain")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.domain)
    }
}

fn check_name(what: &str, name: &str) -> Result<(), StoreError> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '"' | '<' | '>' | ':');
    if name.is_empty() || name.len() > limits::MAX_NAME || name.contains(bad) {
        let expected = format!("1 to {} bytes without spaces, @ : < > and quotes", limits::MAX_NAME);
        return Err(StoreError::invalid(format!("{what} {name:?}"), expected));
    }
    Ok(())
}

/// A domain that may be added, as [`check_domain`] returns it. Those that are there already are not looked at so closely, or
/// they could not be removed.
pub(crate) fn check_new_domain(domain: &str) -> Result<Box<str>, StoreError> {
    let name = check_domain(domain)?;
    let has_end = |label: &str, end: char| label.starts_with(end) || label.ends_with(end);
    let is_good = match name.strip_prefix('[').map_or(Some(&*name), |rest| rest.strip_suffix(']')) {
        // A literal IPv6 address, with its brackets or without (RFC 3986 §3.2.2).
        Some(literal) if literal.contains(':') => literal.parse::<Ipv6Addr>().is_ok(),
        // RFC 1123 §2.1: no label is empty, or begins or ends with a hyphen.
        Some(host) if host.len() == name.len() => !host
            .split('.')
            .any(|label| label.is_empty() || has_end(label, '-') || label.contains(['[', ']'])),
        _ => false,
    };
    if is_good {
        return Ok(name);
    }
    let expected = "a host name without a scheme or a port, as example.net, or a literal address";
    Err(StoreError::invalid(format!("domain {domain:?}"), expected))
}

/// The domain in lower case. Colons and brackets are let through for literal IPv6 addresses.
pub(crate) fn check_domain(domain: &str) -> Result<Box<str>, StoreError> {
    let good =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']') || b >= 128;
    if domain.is_empty() || domain.len() > limits::MAX_DOMAIN || !domain.bytes().all(good) {
        let expected = format!("a host name of at most {} bytes", limits::MAX_DOMAIN);
        return Err(StoreError::invalid(format!("domain {domain:?}"), expected));
    }
    // A-labels and U-labels are one domain: it is kept with its letters, as in addresses of chat (RFC 7622 §3.2).
    let lower = domain.to_lowercase();
    if lower.is_ascii() && !lower.split('.').any(|label| label.starts_with("xn--")) {
        return Ok(lower.into());
    }
    let (list, hyphens) = (AsciiDenyList::URL, Hyphens::CheckFirstLast);
    let idna = Uts46::new();
    let is_dns = idna.to_ascii(lower.as_bytes(), list, hyphens, DnsLength::Verify).is_ok();
    match idna.to_unicode(lower.as_bytes(), list, hyphens) {
        (unicode, Ok(())) if is_dns => Ok(unicode.into()),
        _ => Err(StoreError::invalid(format!("domain {domain:?}"), "a name that DNS could have (RFC 5891)")),
    }
}

/// An account.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The row's number, chosen by the database.
    pub id: i64,
    /// The user part of its address.
    pub name: Box<str>,
    /// The domain of its address, and the realm of its passwords (RFC 7616 §3.3).
    pub domain: Box<str>,
    /// Empty when none was given.
    pub display_name: Box<str>,
    /// Verifiers of its password.
    pub verifiers: Verifiers,
    /// True if the account may neither sign in nor be called.
    pub disabled: bool,
    /// Bounds on its use that differ from the server's.
    pub limits: AccountLimits,
    /// Whole seconds.
    pub created_at: Instant,
}

impl Account {
    /// Returns the account's address.
    pub fn address(&self) -> Address {
        Address { user: self.name.clone(), domain: self.domain.clone() }
    }
}

/// `None` leaves it to the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountLimits {
    /// Bindings at once.
    pub max_contacts: Option<u32>,
    /// Calls at once.
    pub max_calls: Option<u32>,
    /// New calls a second that it places.
    pub max_rate: Option<u32>,
    /// Patterns of destinations that it may not call.
    pub deny: Vec<Box<str>>,
}

/// An account to be made. Its domain must be there.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAccount {
    /// The address; unique among accounts and aliases.
    pub address: Address,
    /// The name that phones show; empty for none.
    pub display_name: Box<str>,
    /// Verifiers of its password.
    pub verifiers: Verifiers,
    /// Bounds on its use that differ from the server's.
    pub limits: AccountLimits,
    /// The time of creation, written in whole seconds.
    pub created_at: Instant,
}

impl NewAccount {
    /// Hashes the password with the domain as realm.
    pub fn with_password(address: Address, password: &str, now: Instant) -> Result<Self, StoreError> {
        check_password(password)?;
        let verifiers = Verifiers::from_password(&address.user, &address.domain, password);
        let limits = AccountLimits::default();
        Ok(NewAccount { address, display_name: "".into(), verifiers, limits, created_at: now })
    }
}

/// Checks the length of a password.
///
/// # Errors
/// `Invalid`: it is empty or longer than `limits::MAX_PASSWORD`.
pub fn check_password(password: &str) -> Result<(), StoreError> {
    if password.is_empty() || password.len() > limits::MAX_PASSWORD {
        // The error must not repeat the password.
        return Err(StoreError::invalid("password", format!("1 to {} bytes", limits::MAX_PASSWORD)));
    }
    Ok(())
}

/// The text of denied destinations in a row. Nothing for most accounts, whose rows stay small.
pub(crate) fn deny_text(deny: &[Box<str>]) -> Option<String> {
    (!deny.is_empty()).then(|| serde_json::to_string(deny).unwrap_or_default())
}

pub(crate) fn check_length(what: &str, value: usize, limit: usize) -> Result<(), StoreError> {
    if value > limit {
        return Err(StoreError::invalid(
            format!("{what} of {value} bytes"),
            format!("at most {limit} bytes"),
        ));
    }
    Ok(())
}

/// The accounts to list, in order of name within a domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountFilter {
    /// All domains when `None`.
    pub domain: Option<Box<str>>,
    /// Names that start so.
    pub prefix: Box<str>,
    /// The last address of the page before.
    pub after: Option<Address>,
    /// Rows at most; cut to `limits::MAX_PAGE`.
    pub limit: u32,
}

/// A domain of accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// A host name in lower case.
    pub name: Box<str>,
    /// Accounts in it.
    pub accounts: u64,
}

/// Another address of an account. It has no password of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// The address that requests are sent to.
    pub alias: Address,
    /// The account that receives them.
    pub account: Address,
}

/// Requests that match go to one of the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Chosen by the record; ignored when a route is added.
    #[serde(default)]
    pub id: i64,
    /// Unique.
    pub name: Box<str>,
    /// The condition on a request's URI.
    pub pattern: Pattern,
    /// The next hops, at least one.
    pub targets: Vec<RouteTarget>,
    /// Strangers, who have not signed in, may use it.
    pub open: bool,
    /// Watch the targets' health with OPTIONS.
    pub probe: bool,
    /// Leading characters taken off the number, before `prefix` is put there.
    pub strip: u8,
    /// Digits put before the number, after `strip` has taken effect.
    pub prefix: Box<str>,
    /// The trust in its targets, and bounds on its use.
    #[serde(default)]
    pub policy: RoutePolicy,
    /// Whole seconds.
    #[serde(with = "unix_seconds", default)]
    pub created_at: Instant,
}

/// The trust in a route's targets, and bounds on its use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoutePolicy {
    /// Its targets are in the trust domain (RFC 3325): identities go there and come from there.
    pub trusted: bool,
    /// A UDP source address alone proves its targets, though it can be forged: they may call whatever accounts may.
    pub by_address: bool,
    /// Names (RFC 5922 §7.1) of which its systems show a certificate over TLS. Where there are any, nothing else proves them.
    pub certificates: Vec<Box<str>>,
    /// New calls a second; `None`: any.
    pub max_rate: Option<u32>,
    /// Patterns of numbers and users that it does not carry: `+882*`, `00*`, `1900???????`.
    pub deny: Vec<Box<str>>,
}

/// The condition of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "value")]
pub enum Pattern {
    /// The user part is this number.
    Number(Box<str>),
    /// The user part is a number that starts so.
    Prefix(Box<str>),
    /// The user part is this.
    User(Box<str>),
    /// A regular expression over the user part; the plan compiles it.
    Regex(Box<str>),
    /// The domain is this.
    Domain(Box<str>),
}

impl Pattern {
    /// The kind's name, as commands and files write it.
    pub fn kind(&self) -> &'static str {
        match self {
            Pattern::Number(_) => "number",
            Pattern::Prefix(_) => "prefix",
            Pattern::User(_) => "user",
            Pattern::Regex(_) => "regex",
            Pattern::Domain(_) => "domain",
        }
    }

    /// The number, name or expression to match.
    pub fn value(&self) -> &str {
        match self {
            Pattern::Number(value)
            | Pattern::Prefix(value)
            | Pattern::User(value)
            | Pattern::Regex(value)
            | Pattern::Domain(value) => value,
        }
    }

    /// `None` for a kind there is not.
    pub fn from_parts(kind: &str, value: &str) -> Option<Self> {
        let value = value.into();
        Some(match kind {
            "number" => Pattern::Number(value),
            "prefix" => Pattern::Prefix(value),
            "user" => Pattern::User(value),
            "regex" => Pattern::Regex(value),
            "domain" => Pattern::Domain(value),
            _ => return None,
        })
    }
}

/// A target of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTarget {
    /// A SIP URI; its host is resolved as RFC 3263 says.
    pub uri: Box<str>,
    /// Share among targets of the same priority.
    pub weight: u16,
    /// Lower is tried first.
    pub priority: u16,
}

pub(crate) fn check_deny(deny: &[Box<str>]) -> Result<(), StoreError> {
    check_length("list of denied destinations", deny.len(), limits::MAX_DENY)?;
    deny.iter().try_for_each(|pattern| check_length("denied destination", pattern.len(), limits::MAX_PATTERN))
}

impl Route {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        check_name("name of a route", &self.name)?;
        check_length("prefix of a route", self.prefix.len(), limits::MAX_PREFIX)?;
        check_length("pattern of a route", self.pattern.value().len(), limits::MAX_PATTERN)?;
        check_deny(&self.policy.deny)?;
        let certificates = &self.policy.certificates;
        check_length("list of certificates of a route", certificates.len(), limits::MAX_ROUTE_CERTIFICATES)?;
        certificates
            .iter()
            .try_for_each(|name| check_length("name of a certificate", name.len(), limits::MAX_NAME))?;
        // An empty prefix is the default route; any other empty pattern matches nothing.
        if self.pattern.value().is_empty() && !matches!(self.pattern, Pattern::Prefix(_)) {
            return Err(StoreError::invalid(
                format!("pattern of route {}", self.name),
                "a value that can match",
            ));
        }
        if self.targets.is_empty() || self.targets.len() > limits::MAX_ROUTE_TARGETS {
            let expected = format!("1 to {}", limits::MAX_ROUTE_TARGETS);
            return Err(StoreError::invalid(format!("targets of route {}", self.name), expected));
        }
        self.targets
            .iter()
            .try_for_each(|target| check_length("target URI", target.uri.len(), limits::MAX_URI))
    }
}

/// One call, written when it is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The Call-ID of the INVITE.
    pub call_id: Box<str>,
    /// The URI of the INVITE's From.
    pub from: Box<str>,
    /// The URI of the INVITE's To.
    pub to: Box<str>,
    /// The time at which the INVITE arrived.
    #[serde(with = "micros")]
    pub started_at: Instant,
    /// The time of the 200; `None` for a call that failed.
    #[serde(with = "micros_or_none")]
    pub answered_at: Option<Instant>,
    /// The time of the BYE or of the final error.
    #[serde(with = "micros")]
    pub ended_at: Instant,
    /// The final status of the INVITE.
    pub code: u16,
    /// The reason of its end, in words.
    pub reason: Box<str>,
    /// `user@domain` of the account that placed it, when signed in; of a call by the REST interface, its account's SID.
    pub account: Option<Box<str>>,
    /// `user@domain` of the account that was called, when it is one of ours.
    #[serde(default)]
    pub callee: Option<Box<str>>,
}

impl CallRecord {
    /// All that records are told apart by, in an order: records of one call may have the same Call-ID and times.
    pub fn order(&self) -> impl Ord + '_ {
        let CallRecord {
            call_id,
            from,
            to,
            started_at,
            answered_at,
            ended_at,
            code,
            reason,
            account,
            callee,
        } = self;
        ((call_id, ended_at, started_at, answered_at), (from, to, code), (reason, account, callee))
    }
}

/// The call records to list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFilter {
    /// Calls that this account, `user@domain`, placed or was called by; or those of a REST account, by its SID.
    pub account: Option<Box<str>>,
    /// The whole Call-ID; all calls when `None`.
    pub call_id: Option<Box<str>>,
    /// Calls that ended then or earlier, for the page behind a list; all calls when `None`.
    #[serde(with = "micros_or_none", default, skip_serializing_if = "Option::is_none")]
    pub ended_until: Option<Instant>,
    /// Rows at most; cut to `limits::MAX_PAGE`.
    pub limit: u32,
}

/// A message kept until its address registers.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingMessage {
    /// Chosen by the record, which says what it chose in its answer to the write.
    pub id: u64,
    /// The address-of-record (RFC 3261 §6) that the message is for.
    pub aor: Box<str>,
    /// The sender's URI.
    pub from: Box<str>,
    /// The value of Content-Type.
    pub content_type: Box<str>,
    /// The body as received; at most `limits::MAX_MESSAGE_BODY` bytes.
    pub body: Arc<[u8]>,
    /// The time at which the MESSAGE arrived.
    pub sent_at: Instant,
    /// The time from which it is not delivered any more.
    pub expires_at: Option<Instant>,
}

/// Whole seconds since the Unix epoch.
mod unix_seconds {
    use super::{Deserialize, Instant};

    pub(super) fn serialize<S: serde::Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.unix_seconds())
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
        u64::deserialize(from).map(Instant::from_unix_seconds)
    }
}

/// Microseconds since the Unix epoch.
/// Times as microseconds since 1970-01-01 (UTC), for serde.
pub mod micros {
    use super::{Deserialize, Instant};

    /// Writes the time as a number.
    #[expect(clippy::missing_errors_doc, reason = "the error is the serializer's")]
    pub fn serialize<S: serde::Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.as_micros())
    }

    /// Reads it.
    #[expect(clippy::missing_errors_doc, reason = "the error is the deserializer's")]
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
        u64::deserialize(from).map(Instant::from_micros)
    }
}

pub(crate) mod micros_or_none {
    use super::{Deserialize, Instant, Serialize};

    pub(crate) fn serialize<S: serde::Serializer>(at: &Option<Instant>, to: S) -> Result<S::Ok, S::Error> {
        at.map(Instant::as_micros).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Instant>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Instant::from_micros))
    }
}
