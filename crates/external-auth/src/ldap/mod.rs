//! LDAP (RFC 4511): a user's password is right if a bind with it succeeds. One connection for each sign-in, which ends with
//! it: StartTLS or TLS, a bind and a search for the user's entry where there is no template, and the user's own bind.
//!
//! A bind with an empty password succeeds at many directories without any proof (RFC 4513 §5.1.2): none is ever sent.
//! Referrals are not followed. The client is our own: a sign-in needs four messages of the protocol, each of a bounded size.

mod ber;
mod filter;
mod groups;
mod message;
mod name;
mod text;

use std::io;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsConnector;

pub use filter::{FilterTemplate, GroupFilter};
pub use groups::{DirectoryRole, GroupSettings, MemberForm};
pub use name::NameTemplate;

use crate::settings::{LdapLookup, LdapSecurity, LdapSettings, first_line};
use crate::{SourceFailure, limits, tls};
pub(crate) use groups::MemberQuery;

use groups::DirectoryEntry;
use message::{Response, ResultCode};
use text::Names;

/// A directory that is asked about passwords.
pub(crate) struct LdapSource {
    settings: LdapSettings,
    /// The password of the account that searches.
    password: Option<Box<str>>,
    /// `None`: the connection is in the clear.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The time that a search may take, in seconds.
    seconds: u32,
    /// The time that each step of a longer question may take. A sign-in has it for all of its steps, as its caller waits no longer.
    timeout: std::time::Duration,
}

impl LdapSource {
    /// # Errors
    /// A file that cannot be used, or a host that no certificate can be of.
    pub(crate) fn new(settings: &LdapSettings, timeout: std::time::Duration) -> Result<LdapSource> {
        let password = match &settings.lookup {
            LdapLookup::Search { bind: Some((_, file)), .. } => Some(first_line(file)?),
            LdapLookup::Search { .. } | LdapLookup::Template(_) => None,
        };
        let tls = match settings.security {
            LdapSecurity::Clear => None,
            LdapSecurity::StartTls | LdapSecurity::Tls => {
                let client = tls::client(settings.authorities.as_deref())?;
                Some((TlsConnector::from(Arc::new(client)), certificate_name(&settings.host)?))
            }
        };
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        Ok(LdapSource { settings: settings.clone(), password, tls, seconds, timeout })
    }

    /// True if the directory accepts the password.
    pub(crate) async fn check(
        &self,
        user: &str,
        domain: &str,
        password: &str,
    ) -> Result<bool, SourceFailure> {
        // RFC 4513 §5.1.2: such a bind proves nothing and yet succeeds.
        if password.is_empty() || user.is_empty() {
            return Ok(false);
        }
        match self.ask(Names { user, domain }, Question::Password(password)).await? {
            Reply::Password(is_right) => Ok(is_right),
            Reply::Groups(_) | Reply::Members(_) => Err(SourceFailure::new("groups instead of a verdict")),
        }
    }

    /// The greatest role that the user has by the groups of the directory. `None`: no group gives one, or the user is unknown.
    pub(crate) async fn role(
        &self,
        user: &str,
        domain: &str,
    ) -> Result<Option<DirectoryRole>, SourceFailure> {
        let Some(groups) = self.settings.groups.as_ref().filter(|_| !user.is_empty()) else {
            return Ok(None);
        };
        match self.ask(Names { user, domain }, Question::Groups(groups)).await? {
            Reply::Groups(found) => Ok(groups.role_of(&found)),
            Reply::Password(_) | Reply::Members(_) => Err(SourceFailure::new("a verdict instead of groups")),
        }
    }

    /// The users that are in each of the groups, by one connection and two searches for each user. Each user has the time of one sign-in.
    /// A failure at one of them is one of all: with a part of the answer members would be missing.
    pub(crate) async fn members(
        &self,
        query: &MemberQuery,
        domain: &str,
    ) -> Result<Vec<Vec<Box<str>>>, SourceFailure> {
        let Some(groups) = &self.settings.groups else {
            return Err(SourceFailure::new("the source has no groups"));
        };
        let question = Question::Members(groups, query);
        match self.ask(Names { user: "", domain }, question).await? {
            Reply::Members(members) => Ok(members),
            Reply::Password(_) | Reply::Groups(_) => Err(SourceFailure::new("a verdict instead of members")),
        }
    }

    async fn ask(&self, names: Names<'_>, question: Question<'_>) -> Result<Reply, SourceFailure> {
        let at = || format!("{}:{}", self.settings.host, self.settings.port);
        let asked = self.connect(names, question).await;
        asked.map_err(|error| SourceFailure(format!("the directory {}: {error:#}", at())))
    }

    async fn connect(&self, names: Names<'_>, question: Question<'_>) -> Result<Reply> {
        let connected = TcpStream::connect((bare(&self.settings.host), self.settings.port));
        let stream = self.within(connected).await?.context("no connection")?;
        // Each message waits for the answer to the one before.
        stream.set_nodelay(true)?;
        let Some((connector, name)) = &self.tls else {
            return self.converse(LdapConnection::new(stream), names, question).await;
        };
        let mut stream = stream;
        let mut used = 0;
        if self.settings.security == LdapSecurity::StartTls {
            let mut clear = LdapConnection::new(stream);
            match self.within(clear.ask(message::start_tls)).await?? {
                Response::Extended(ResultCode::SUCCESS) => {}
                Response::Extended(code) => bail!("StartTLS is refused with result code {}", code.0),
                _ => bail!("no answer to StartTLS"),
            }
            (stream, used) = clear.into_clear_stream()?;
        }
        let secured = self.within(connector.connect(name.clone(), stream)).await?.context("no TLS")?;
        let connection = LdapConnection { last_id: used, ..LdapConnection::new(secured) };
        self.converse(connection, names, question).await
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut connection: LdapConnection<S>,
        names: Names<'_>,
        question: Question<'_>,
    ) -> Result<Reply> {
        if let LdapLookup::Search { bind: Some((name, _)), .. } = &self.settings.lookup
            && let Some(own) = &self.password
        {
            match self.within(connection.bind(name, own)).await?? {
                ResultCode::SUCCESS => {}
                code => bail!("{name} is refused with result code {}", code.0),
            }
        }
        let reply = self.answer(&mut connection, names, question).await?;
        // The reply is here; whether the directory reads the farewell is of no matter.
        let _ = connection.send(message::unbind).await;
        Ok(reply)
    }

    /// Does one step of a question in its time.
    async fn within<T>(&self, step: impl Future<Output = T>) -> Result<T> {
        time::timeout(self.timeout, step).await.context("no answer in time")
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut LdapConnection<S>,
        names: Names<'_>,
        question: Question<'_>,
    ) -> Result<Reply> {
        match question {
            Question::Password(password) => {
                let Some(name) = self.name_of(connection, names).await? else {
                    return Ok(Reply::Password(false));
                };
                match connection.bind(&name, password).await? {
                    ResultCode::SUCCESS => Ok(Reply::Password(true)),
                    code if code.refuses() => Ok(Reply::Password(false)),
                    code => bail!("a bind is answered with result code {}", code.0),
                }
            }
            Question::Groups(groups) => {
                Ok(Reply::Groups(self.groups_of_user(connection, names, groups).await?))
            }
            Question::Members(groups, query) => {
                let mut members = vec![Vec::new(); query.groups.len()];
                for user in &query.users {
                    let names = Names { user, ..names };
                    let found = self.groups_of_user(connection, names, groups);
                    let found = self.within(found).await??;
                    query.add(user, &found, &mut members);
                }
                Ok(Reply::Members(members))
            }
        }
    }

    /// The name of a user that the directory takes. `None`: it has no such user.
    async fn name_of<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut LdapConnection<S>,
        names: Names<'_>,
    ) -> Result<Option<String>> {
        let name = match &self.settings.lookup {
            LdapLookup::Template(template) => template.name(names),
            LdapLookup::Search { base, filter, .. } => {
                connection.find(base, filter, names, self.seconds).await?.map(String::from)
            }
        };
        Ok(name.filter(|name| !name.is_empty()))
    }

    /// The groups that have a user as a member; none of an unknown user.
    async fn groups_of_user<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        connection: &mut LdapConnection<S>,
        names: Names<'_>,
        groups: &GroupSettings,
    ) -> Result<Vec<DirectoryEntry>> {
        let Some(name) = self.name_of(connection, names).await? else { return Ok(Vec::new()) };
        let member = match groups.member_form {
            MemberForm::Name | MemberForm::NestedName => &*name,
            MemberForm::User => names.user,
        };
        connection.groups_of(groups, member, self.seconds).await
    }
}

/// A question to a directory.
#[derive(Clone, Copy)]
enum Question<'a> {
    /// Is this the user's password?
    Password(&'a str),
    /// Asks which of these groups have the user as a member.
    Groups(&'a GroupSettings),
    /// Asks the same for several users.
    Members(&'a GroupSettings, &'a MemberQuery),
}

/// The answer to a [`Question`].
enum Reply {
    Password(bool),
    Groups(Vec<DirectoryEntry>),
    Members(Vec<Vec<Box<str>>>),
}

/// An address of IPv6 stands in brackets in a URL (RFC 3986 §3.2.2), and nowhere else.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The name or address that the directory's certificate has to be for.
fn certificate_name(host: &str) -> Result<ServerName<'static>> {
    let name = ServerName::try_from(String::from(bare(host)));
    name.with_context(|| format!("{host} is no host of a certificate"))
}

/// A connection with a directory: one request at a time.
struct LdapConnection<S> {
    stream: S,
    /// Bytes that were read and are not a whole message.
    bytes: Vec<u8>,
    last_id: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> LdapConnection<S> {
    fn new(stream: S) -> LdapConnection<S> {
        LdapConnection { stream, bytes: Vec::new(), last_id: 0 }
    }

    /// The stream without protection, and the number of the last request. Bytes that came after the answer to StartTLS were
    /// put there by another: they would be taken for protected ones.
    fn into_clear_stream(self) -> Result<(S, u32)> {
        if !self.bytes.is_empty() {
            bail!("bytes follow the answer to StartTLS before TLS begins");
        }
        Ok((self.stream, self.last_id))
    }

    async fn send(&mut self, request: impl FnOnce(u32) -> Vec<u8>) -> io::Result<()> {
        self.last_id += 1;
        self.stream.write_all(&request(self.last_id)).await?;
        self.stream.flush().await
    }

    /// The next message of the request that was sent last.
    async fn receive(&mut self) -> Result<Response> {
        let malformed = |_| anyhow::anyhow!("bytes that are not LDAP");
        loop {
            if let Some(length) = ber::whole_length(&self.bytes).map_err(malformed)? {
                if length > limits::LDAP_MESSAGE {
                    bail!("a message of {length} bytes");
                }
                if self.bytes.len() >= length {
                    let (id, response) = message::read(&self.bytes[..length]).map_err(malformed)?;
                    self.bytes.drain(..length);
                    if id != self.last_id {
                        bail!("an answer to another request, or the end of the connection is announced");
                    }
                    return Ok(response);
                }
            }
            let mut chunk = [0; 4_096];
            match self.stream.read(&mut chunk).await? {
                0 => bail!("the connection is closed"),
                count => self.bytes.extend_from_slice(&chunk[..count]),
            }
        }
    }

    async fn ask(&mut self, request: impl FnOnce(u32) -> Vec<u8>) -> Result<Response> {
        self.send(request).await?;
        self.receive().await
    }

    async fn bind(&mut self, name: &str, password: &str) -> Result<ResultCode> {
        if password.is_empty() {
            bail!("a bind without a password proves nothing");
        }
        match self.ask(|id| message::bind(id, name, password)).await? {
            Response::Bind(code) => Ok(code),
            _ => bail!("no answer to a bind"),
        }
    }

    /// The name of the only entry that the filter finds. `None`: there is none, or there are several.
    async fn find(
        &mut self,
        base: &str,
        filter: &FilterTemplate,
        names: Names<'_>,
        seconds: u32,
    ) -> Result<Option<Box<str>>> {
        self.send(|id| message::search(id, base, filter, names, seconds)).await?;
        let mut found = Vec::new();
        for _ in 0..limits::LDAP_MESSAGES {
            match self.receive().await? {
                Response::Entry(entry) => found.push(entry.name),
                Response::Reference => {}
                Response::SearchDone(code @ (ResultCode::SUCCESS | ResultCode::SIZE_LIMIT_EXCEEDED)) => {
                    // Beyond a limit there are more, whether they came or not.
                    let is_several = found.len() > 1 || code == ResultCode::SIZE_LIMIT_EXCEEDED;
                    if is_several {
                        tracing::warn!(
                            user = names.user,
                            domain = names.domain,
                            "several entries of the directory are of this user: none may sign in; make the filter narrower"
                        );
                    }
                    return Ok(found.pop().filter(|_| !is_several));
                }
                Response::SearchDone(code) => {
                    bail!("the search below {base} ends with result code {}", code.0)
                }
                Response::Bind(_) | Response::Extended(_) => bail!("no answer to a search"),
            }
        }
        bail!("a search has more than {} answers", limits::LDAP_MESSAGES)
    }

    /// The groups that have this member.
    async fn groups_of(
        &mut self,
        groups: &GroupSettings,
        member: &str,
        seconds: u32,
    ) -> Result<Vec<DirectoryEntry>> {
        self.send(|id| message::search_groups(id, groups, member, seconds)).await?;
        let mut found = Vec::new();
        // References and the end of the search are messages, too.
        for _ in 0..=2 * limits::GROUPS {
            match self.receive().await? {
                Response::Entry(entry) => found.push(entry),
                Response::Reference => {}
                Response::SearchDone(ResultCode::SUCCESS) => return Ok(found),
                // With a part of the groups a greater role could be missing, or none be there: nothing is known then.
                Response::SearchDone(ResultCode::SIZE_LIMIT_EXCEEDED) => {
                    bail!("a user is in more than {} groups", limits::GROUPS)
                }
                Response::SearchDone(code) => {
                    bail!("the search below {} ends with result code {}", groups.base, code.0)
                }
                Response::Bind(_) | Response::Extended(_) => bail!("no answer to a search"),
            }
        }
        bail!("a search has more than {} answers", 2 * limits::GROUPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_compared_with_names_and_with_addresses_of_both_families() {
        for (host, name) in
            [("ldap.a.test", "ldap.a.test"), ("192.0.2.1", "192.0.2.1"), ("[2001:db8::1]", "2001:db8::1")]
        {
            assert_eq!(certificate_name(host).unwrap().to_str(), name);
        }
        assert!(certificate_name("a b").is_err());
    }
}
