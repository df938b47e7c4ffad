//! `belfry xmpp invite` (XEP-0401).
//!
//! The token is made here and stored in the database; the link has it in the form of `chat::invite::uri`. Domain or name, and the inviter if one is
//! named, are checked first.

use std::io::Write as _;
use std::time::Duration;

use chat::effect::Invitation;
use chat::invite::{page_address, uri};
use clap::Args;
use config::{Config, Inviting, parse_duration};
use control::{Ask, Change, Listing, Secret};
use net::clock::Clock;
use xmpp::Bare;

use super::account::address;
use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::table::date;

#[derive(Debug, Args)]
pub(super) struct InviteArgs {
    /// A domain, for any name in it; or user@domain, for that name only, which is reserved until the link expires
    address: String,
    /// User that becomes a contact of the new user, and the other way round
    #[arg(long, value_name = "USER")]
    from: Option<String>,
    /// How long it is good [default: what the configuration says]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

/// The longest validity of an invitation: a link that has lain about for longer may be in the wrong hands.
const LONGEST: Duration = Duration::from_hours(24 * 366);

impl InviteArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        if config.registration.invitations == Inviting::Off {
            let text = "invitations are off: [xmpp.registration] invitations is \"nobody\"; set it to \"administrators\" or \"users\" to invite";
            return Err(CliError::Other(text.into()));
        }
        let good_for = match &self.expires {
            Some(text) => {
                parse_duration(text).filter(|time| !time.is_zero() && *time <= LONGEST).ok_or_else(|| {
                    CliError::Usage(format!(
                        "--expires {text}: expected a time of a year at most, as 12h or 7d"
                    ))
                })?
            }
            None => config.registration.invitation_for,
        };
        // The database is made if need be: an operator may invite before the first start.
        let mut backend = Backend::open_or_make(config)?;
        let (name, domain) = self.account(&mut backend, config)?;
        let from = self.from.as_deref().map(|from| inviter(&mut backend, config, from)).transpose()?;
        // 128 bits: the link is all that its holder needs.
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|error| CliError::Other(format!("the system gives no randomness: {error}")))?;
        let token = stdx::hex::encode(&secret);
        // For the text below only; the node or the database counts from its own clock.
        let expires_at = Clock::new().now() + good_for;
        let inviter = from.as_ref().map(ToString::to_string);
        let invitation = Invitation {
            domain: domain.clone(),
            name: name.clone(),
            inviter: from,
            registers: true,
            expires_at,
        };
        let (link, until) = (uri(&token, &invitation), date(expires_at.as_micros() / 1_000_000));
        backend.change(Change::Invite {
            token: Secret::new(&token),
            domain,
            name,
            inviter: inviter.map(Into::into),
            good_for,
        })?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{link}")?;
        writeln!(out, "good once, until {until} UTC")?;
        if config.registration.invitation_page {
            match config.web.public_url.as_deref() {
                Some(base) => writeln!(out, "for browsers: {}", page_address(base, &token))?,
                // The address by which browsers find the node is not known here.
                None => writeln!(
                    out,
                    "for browsers: /invite/{token} at the ws: and wss: addresses of [xmpp] listen, with http: and https:; set [xmpp.web] \
                     public_url, and this command prints the whole address"
                )?,
            }
        }
        Ok(())
    }

    /// Name and domain of the invitation: no name for a domain alone. A name must be free, and fit for chat.
    fn account(
        &self,
        backend: &mut Backend,
        config: &Config,
    ) -> Result<(Option<Box<str>>, Box<str>), CliError> {
        for domain in &config.sip.domains {
            backend.ensure_domain(config, domain)?;
        }
        let domains = match backend.ask(Ask::Domains)? {
            Listing::Domains(domains) => domains,
            other => return Err(unexpected(&other)),
        };
        let is_served = |name: &str| domains.iter().any(|domain| *domain.name == *name);
        // A bare word that is a domain served here is the domain; other words are mistakes, as names need the
        // `@`.
        if !self.address.contains('@') && is_served(&self.address.to_lowercase()) {
            return Ok((None, self.address.to_lowercase().into()));
        }
        if !self.address.contains('@') {
            let text = format!(
                "the domain {0} is not served here; add it with: belfry domain add {0}, or name an address, as {0}@{1}",
                self.address, config.sip.default_domain
            );
            return Err(CliError::Other(text));
        }
        let address = address(&self.address, config)?;
        if !is_served(&address.domain) {
            let text = format!(
                "the domain {0} is not served here; add it with: belfry domain add {0}",
                address.domain
            );
            return Err(CliError::Other(text));
        }
        // Prepared for XMPP the name must stay as it is: with capital letters the new user could not sign in.
        let bare = Bare::new(Some(&address.user), &address.domain).ok();
        if bare.as_ref().and_then(Bare::local) != Some(&*address.user) {
            let text = format!("{} is no name for chat; expected lower case, without spaces", address.user);
            return Err(CliError::Other(text));
        }
        match backend.ask(Ask::Account { address: address.clone() })? {
            Listing::Account(None) => Ok((Some(address.user), address.domain)),
            Listing::Account(Some(_)) => Err(CliError::Other(format!(
                "there is an account {address} already; set a new password with: belfry account passwd {address}"
            ))),
            other => Err(unexpected(&other)),
        }
    }
}

/// The inviting account, of which an alias may be given.
fn inviter(backend: &mut Backend, config: &Config, text: &str) -> Result<Bare, CliError> {
    let address = address(text, config)?;
    match backend.ask(Ask::Account { address: address.clone() })? {
        Listing::Account(Some(found)) => {
            let account = found.address;
            Bare::new(Some(&account.user), &account.domain).map_err(|_| {
                CliError::Other(format!(
                    "{account} cannot sign in to chat; name an account in lower case, without spaces"
                ))
            })
        }
        Listing::Account(None) => Err(CliError::Other(format!(
            "there is no account {address}; see those there are with: belfry account list"
        ))),
        other => Err(unexpected(&other)),
    }
}
