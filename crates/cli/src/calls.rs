//! `belfry calls`.
//!
//! Records of calls come from the database; `calls end` is for calls of applications, which live at a node.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use config::Config;
use control::{Ask, CallMessages, Client, Listing, Request, Response};
use store::{CallFilter, CallRecord};

use super::account::{address, must_be_there};
use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::nodes::{say_nodes, warn_of_missing};
use super::table::{Table, date, elapsed};
use super::trace::Drawing;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct CallsArgs {
    #[command(subcommand)]
    command: Option<CallsCommand>,
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
    /// Only calls of this node, in a farm whose nodes have databases of their own
    #[arg(long, alias = "node")]
    this_node: bool,
}

#[derive(Debug, Subcommand)]
enum CallsCommand {
    /// End a call of an application, at whichever node of the farm it is
    End {
        /// The call's SID, as the REST interface and `belfry calls open` list it
        sid: Box<str>,
    },
    /// The messages of a call, without their contents, as the nodes remember them of recent calls
    Ladder {
        /// The Call-ID, as `belfry calls --json` has it
        call_id: Box<str>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// The calls that have not ended, of all nodes of the farm: the newest 200, and the number of all
    Open {
        /// Only calls that this account places or is called by
        #[arg(long, value_name = "ACCOUNT")]
        account: Option<String>,
        /// One JSON object a line; times are microseconds since 1970
        #[arg(long)]
        json: bool,
    },
}

impl CallsArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        match self.command {
            Some(CallsCommand::End { sid }) => return end(config, sid),
            Some(CallsCommand::Ladder { call_id, json }) => return ladder(config, call_id, json),
            Some(CallsCommand::Open { account, json }) => return open(config, account.as_deref(), json),
            None => {}
        }
        let named = self.account.as_deref();
        let account = named.map(|text| account_of(text, config)).transpose()?;
        // Filters are the database's, so a page is of the newest calls that match and not of the newest ones.
        let filter = CallFilter {
            account,
            call_id: self.call_id.map(Into::into),
            ended_until: None,
            limit: self.last,
        };
        let mut backend = Backend::open(config)?;
        let (listing, nodes) = backend.ask_nodes(Ask::Calls(filter), self.this_node)?;
        let calls = match listing {
            Listing::Calls(calls) => calls,
            other => return Err(unexpected(&other)),
        };
        // An account that was removed still has records.
        if let (true, Some(named)) = (calls.is_empty(), named) {
            must_have_account(&mut backend, named, config)?;
        }
        if self.json {
            for call in &calls {
                say!("{}", serde_json::to_string(call)?);
            }
            warn_of_missing(nodes.as_ref());
            return Ok(());
        }
        if calls.is_empty() {
            say!("no calls");
        } else {
            table(&calls).print(&mut io::stdout().lock())?;
        }
        say_nodes(nodes.as_ref())
    }
}

/// Ends a call of an application, at whichever node it is.
fn end(config: &Config, call: Box<str>) -> Result<(), CliError> {
    let mut client = Client::connect(&config.server.control)?;
    match client.ask_all_nodes(&Request::EndCall { call })? {
        (Response::Done { .. }, _) => {
            say!("ended");
            Ok(())
        }
        (other, _) => Err(client.unexpected(&other).into()),
    }
}

/// Draws the messages of a call.
fn ladder(config: &Config, call_id: Box<str>, json: bool) -> Result<(), CliError> {
    let mut client = Client::connect(&config.server.control)?;
    let (call, nodes) = match client.ask_all_nodes(&Request::CallMessages { call_id })? {
        (Response::CallMessages(call), nodes) => (call, nodes),
        (other, _) => return Err(client.unexpected(&other).into()),
    };
    warn_of_missing(nodes.as_ref());
    if call.lines.is_empty() {
        return Err(CliError::Other(reason_of_none(&call)));
    }
    let mut out = io::stdout().lock();
    let mut drawing = Drawing::default();
    for line in &call.lines {
        if json {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        } else {
            drawing.draw(line, &mut out)?;
        }
    }
    if call.left_out > 0 {
        eprintln!("… {} more messages are not remembered", call.left_out);
    }
    Ok(())
}

/// The reasons why there may be no messages of a call that there was.
fn reason_of_none(call: &CallMessages) -> String {
    let CallMessages { most_calls, most_per_second, not_begun, forgotten, since, .. } = call;
    format!(
        "no messages of a call with this Call-ID are remembered. Each shard of a node remembers those of {most_calls} calls since its \
         start ({} UTC), and begins with at most {most_per_second} calls a second: {not_begun} calls came faster, {forgotten} were \
         forgotten for newer ones. For later calls, belfry trace shows all messages of an account",
        date(since / 1_000_000)
    )
}

fn open(config: &Config, account: Option<&str>, json: bool) -> Result<(), CliError> {
    if let Some(named) = account {
        must_have_account(&mut Backend::open(config)?, named, config)?;
    }
    let account = account.map(|text| address(text, config)).transpose()?;
    let request = Request::OpenCalls { account: account.map(|account| account.to_string().into()) };
    let mut client = Client::connect(&config.server.control)?;
    let (list, nodes) = match client.ask_all_nodes(&request)? {
        (Response::OpenCalls(list), nodes) => (list, nodes),
        (other, _) => return Err(client.unexpected(&other).into()),
    };
    if json {
        for call in &list.calls {
            say!("{}", serde_json::to_string(call)?);
        }
        warn_of_missing(nodes.as_ref());
        return Ok(());
    }
    let mut table = Table::new(&["start (UTC)", "state", "account", "from", "to", "node", "SID"], &[]);
    for call in &list.calls {
        let or_none = |text: &Option<Box<str>>| text.as_deref().unwrap_or("-").to_owned();
        table.row([
            date(call.started_at / 1_000_000),
            call.state.to_string(),
            or_none(&call.account),
            call.from.to_string(),
            call.to.to_string(),
            or_none(&call.node),
            or_none(&call.sid),
        ]);
    }
    // No head of a table without rows.
    if list.total > 0 {
        table.print(&mut io::stdout().lock())?;
    }
    say!("{} of {} open calls", list.calls.len(), list.total);
    say_nodes(nodes.as_ref())
}

/// As records have it: a SID is no name of an account that signs in.
fn account_of(text: &str, config: &Config) -> Result<Box<str>, CliError> {
    if ivr::sid::is(ivr::sid::ACCOUNT, text) {
        return Ok(text.into());
    }
    Ok(address(text, config)?.to_string().into())
}

/// # Errors
/// The text names an account of phones and chat that is not there. Accounts of REST are not looked up.
fn must_have_account(backend: &mut Backend, text: &str, config: &Config) -> Result<(), CliError> {
    if ivr::sid::is(ivr::sid::ACCOUNT, text) {
        return Ok(());
    }
    must_be_there(backend, &address(text, config)?, config)
}

/// A call rings until it is answered, or until it ends.
fn table(calls: &[CallRecord]) -> Table {
    let mut table =
        Table::new(&["start (UTC)", "rang", "talked", "account", "from", "to", "code", "reason"], &[1, 2, 6]);
    for call in calls {
        // A call without an answer rang until it ended.
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
