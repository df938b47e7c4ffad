//! The account with which everything begins: made at the first start, told once, kept in a file that only the operator
//! can read.
//!
//! It is an account of the REST interface, not of a phone. The node calls [`ensure_account`] at each start; `belfry rest token --renew` changes its
//! token.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use admin::Source;
use admin::first::Credentials;
use anyhow::{Context as _, Result};
use config::Config;
use net::clock::Clock;
use stdx::Instant;
use store::{Admin, Database};

use super::owner::give_new;

/// In the data folder: `SID:TOKEN`, as `curl --user` takes it.
const CREDENTIALS: &str = "rest-account";

/// The clock, and the system's randomness.
#[derive(Clone, Copy)]
pub struct Chance(Clock);

impl Chance {
    /// Takes the time from this clock.
    pub fn new(clock: Clock) -> Chance {
        Chance(clock)
    }
}

impl Source for Chance {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            // Tokens that can be guessed are worse than a node that has to be started anew.
            tracing::error!(%error, "the system gives no randomness; the process ends");
            std::process::abort();
        }
    }
}

/// Makes the first account of a database that has none, and tells the operator. The configuration's sid and token count.
///
/// # Errors
/// Errors of the database and of the file with the credentials, in words for the operator.
pub fn ensure_account(config: &Config, database: &Database, clock: Clock) -> Result<()> {
    let repository = admin::Blocking::new(Admin::new(database)?);
    let (sid, given) = (&config.voice.account, config.voice.auth_token.as_deref());
    let made = admin::first::ensure_account(&repository, &Chance::new(clock), sid, given)
        .context("the first account of the REST interface cannot be made")?;
    let Some(made) = made else { return Ok(()) };
    // The token stands in the configuration, so there is nothing to show or to keep.
    if given.is_some() {
        tracing::info!(sid = made.sid, "the first account of the REST interface has [voice] auth_token");
        return Ok(());
    }
    let file = config.server.data.join(CREDENTIALS);
    write(&file, &made).with_context(|| format!("{}: cannot be written", file.display()))?;
    tracing::info!(sid = made.sid, file = %file.display(), "made the first account of the REST interface");
    if io::stderr().is_terminal() {
        show(&made, &mut io::stderr().lock()).context("the terminal is gone")?;
    }
    Ok(())
}

/// For the eyes of the operator.
pub(crate) fn show(credentials: &Credentials, out: &mut impl io::Write) -> io::Result<()> {
    let Credentials { sid, token, .. } = credentials;
    writeln!(out, "account {sid}\ntoken   {token}")
}

/// Readable by this user only, from the first byte on.
fn write(file: &Path, credentials: &Credentials) -> io::Result<()> {
    let fresh = file.with_extension("new");
    // A start that was killed may have left the file.
    let _ = std::fs::remove_file(&fresh);
    let mut out = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
    writeln!(out, "{}:{}", credentials.sid, credentials.token)?;
    // Root renews tokens in the folder of the service's user, who has to read the file.
    if let Some(folder) = file.parent() {
        give_new(&out, folder)?;
    }
    // Before the name: after a crash the file has a whole token or is not there.
    out.sync_all()?;
    std::fs::rename(&fresh, file)
}

/// After an account has another token: the file is as right as before.
pub(crate) fn renewed(data: &Path, credentials: &Credentials) -> io::Result<()> {
    let file = data.join(CREDENTIALS);
    // Another account's token is none of this file's business.
    let is_its = std::fs::read_to_string(&file).is_ok_and(|text| text.starts_with(&credentials.sid));
    if is_its { write(&file, credentials) } else { Ok(()) }
}
