//! `belfry calls`.

use std::io;

use clap::Args;
use config::Config;
use control::{Ask, Listing};
use store::{CallFilter, CallRecord};

use super::account::address;
use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::table::{Table, date, elapsed};

#[derive(Debug, Args)]
pub(super) struct CallsArgs {
    /// So many of the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    last: u32,
    /// Only calls that this account placed or was called by; or of a REST account, by its SID
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
    /// Only the call with this Call-ID
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// One JSON object a line; times are microseconds since 1970
    #[arg(long)]
    json: bool,
}

impl CallsArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let account = self.account.map(|text| account_of(&text, config)).transpose()?;
        let filter = CallFilter { account, call_id: self.call_id.map(Into::into), limit: self.last };
        let calls = match Backend::open(config)?.ask(Ask::Calls(filter))? {
            Listing::Calls(calls) => calls,
            other => return Err(unexpected(&other)),
        };
        if self.json {
            for call in &calls {
                say!("{}", serde_json::to_string(call)?);
            }
            return Ok(());
        }
        if calls.is_empty() {
            say!("no calls");
            return Ok(());
        }
        Ok(table(&calls).print(&mut io::stdout().lock())?)
    }
}

/// As records have it: a SID is no name of an account that signs in.
fn account_of(text: &str, config: &Config) -> Result<Box<str>, CliError> {
    if ivr::sid::is(ivr::sid::ACCOUNT, text) {
        return Ok(text.into());
    }
    Ok(address(text, config)?.to_string().into())
}

fn table(calls: &[CallRecord]) -> Table {
    let mut table =
        Table::new(&["start (UTC)", "rang", "talked", "account", "from", "to", "code", "reason"], &[1, 2, 6]);
    for call in calls {
        let rang_until = call.answered_at.unwrap_or(call.ended_at);
        let talked = call.answered_at.map(|answered| elapsed(call.ended_at.since(answered).as_secs()));
        table.row([
            date(call.started_at.unix_seconds()),
            elapsed(rang_until.since(call.started_at).as_secs()),
            talked.unwrap_or_else(|| "-".into()),
            call.account.as_deref().unwrap_or("-").to_owned(),
            call.from.to_string(),
            call.to.to_string(),
            call.code.to_string(),
            call.reason.to_string(),
        ]);
    }
    table
}
