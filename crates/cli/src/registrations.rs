//! `belfry registrations`.
//!
//! The node reads them from the memory of its shards and, in a farm, asks the other nodes. A page is at most `LIST_PAGE` addresses; the command
//! asks for pages until it has what was asked for.

use std::io;

use clap::Args;
use config::Config;
use control::limits::LIST_PAGE;
use control::{Client, NodesAnswered, RegisteredAddress, RegistrationQuery, Request, Response};

use super::account::address;
use super::error::CliError;
use super::nodes::{say_nodes, warn_of_missing};
use super::table::{Table, elapsed, grouped};

#[derive(Debug, Args)]
pub(super) struct RegistrationsArgs {
    /// Only those of this account or address, as `alice` or `alice@example.net`
    #[arg(value_name = "ACCOUNT|ADDRESS")]
    account: Option<String>,
    /// So many addresses at most, in their order
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Addresses behind this one: the last of the page before
    #[arg(long, value_name = "ADDRESS", conflicts_with = "account")]
    after: Option<String>,
    /// One JSON object a line, an address with its contacts each
    #[arg(long)]
    json: bool,
    /// Only those that this node of a farm keeps
    #[arg(long, alias = "node")]
    this_node: bool,
}

/// The part of the list that is shown.
struct RegistrationList {
    addresses: Vec<RegisteredAddress>,
    /// The number of all registered addresses, shown or not.
    total: u64,
    /// The last page was full, so that another may follow.
    has_more: bool,
    nodes: Option<NodesAnswered>,
}

impl RegistrationsArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let account = self.account.as_deref().map(|text| address(text, config)).transpose()?;
        let account = account.map(|account| account.to_string());
        let after = self.after.as_deref().map(|text| address(text, config)).transpose()?;
        let mut client = Client::connect(&config.server.control)?;
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        let list = self.list(&mut client, account.as_deref(), after)?;
        if self.json {
            for address in &list.addresses {
                say!("{}", serde_json::to_string(address)?);
            }
            warn_of_missing(list.nodes.as_ref());
            return Ok(());
        }
        if list.addresses.is_empty() {
            match &account {
                Some(account) => say!("{account} is not registered"),
                None => say!("no address is registered"),
            }
            return say_nodes(list.nodes.as_ref());
        }
        table(&list.addresses).print(&mut io::stdout().lock())?;
        if account.is_none() {
            let shown = list.addresses.len() as u64;
            say!("{} of {} registered addresses", grouped(shown), grouped(list.total));
            if let Some(last) = list.addresses.last().filter(|_| list.has_more && shown < list.total) {
                say!("more with: --after {}, or --limit N", super::table::printable(&last.address));
            }
        }
        say_nodes(list.nodes.as_ref())
    }

    /// Page after page, up to the limit.
    fn list(
        &self,
        client: &mut Client,
        account: Option<&str>,
        mut after: String,
    ) -> Result<RegistrationList, CliError> {
        let mut list = RegistrationList { addresses: Vec::new(), total: 0, has_more: false, nodes: None };
        // The address itself is the first of those that begin with it.
        let mut left = if account.is_some() { 1 } else { self.limit };
        loop {
            let limit = left.min(LIST_PAGE);
            let prefix = account.unwrap_or_default().into();
            let query = RegistrationQuery { prefix, after: after.as_str().into(), limit };
            let page = self.page(client, query, &mut list.nodes)?;
            list.total = page.total;
            list.has_more = page.addresses.len() as u64 >= u64::from(limit);
            left -= limit;
            let is_asked =
                |found: &RegisteredAddress| account.is_none_or(|account| account == &*found.address);
            list.addresses.extend(page.addresses.into_iter().filter(is_asked));
            match list.addresses.last() {
                Some(last) if list.has_more && left > 0 => after = last.address.to_string(),
                _ => return Ok(list),
            }
        }
    }

    fn page(
        &self,
        client: &mut Client,
        query: RegistrationQuery,
        nodes: &mut Option<NodesAnswered>,
    ) -> Result<control::RegistrationPage, CliError> {
        let request = Request::Registrations(query);
        let response = if self.this_node {
            client.ask(&request)?
        } else {
            let (response, answered) = client.ask_all_nodes(&request)?;
            *nodes = answered;
            response
        };
        match response {
            Response::Registrations(page) => Ok(page),
            other => Err(client.unexpected(&other).into()),
        }
    }
}

/// A row for each contact; the address stands in the first of its rows.
fn table(addresses: &[RegisteredAddress]) -> Table {
    let mut table = Table::new(&["address", "contact", "from", "expires in", "agent"], &[3]);
    for RegisteredAddress { address, contacts } in addresses {
        for (number, contact) in contacts.iter().enumerate() {
            table.row([
                if number == 0 { address.to_string() } else { String::new() },
                contact.contact.to_string(),
                contact.received.as_deref().unwrap_or("its contact").to_owned(),
                elapsed(contact.expires_in_seconds),
                contact.user_agent.to_string(),
            ]);
        }
    }
    table
}
