//! `belfry route`.
//!
//! Patterns and targets are parsed by `control::routes`, as the web console and the REST interface do it.

use std::io;

use clap::{Args, Subcommand};
use config::Config;
use control::routes::{parse_pattern, parse_target, unverifiable};
use control::{Ask, Change, Listing};
use store::{Route, RoutePolicy, RouteTarget};

use super::account::{address, must_be_there};
use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::table::Table;

const PATTERNS: &str = "\
PATTERN is one of
  number:1234          this number, with or without +
  prefix:+49           numbers that begin so; prefix: alone is every user
  user:bob*            this user; * is any text, ? any character
  regex:1\\d\\d          users that match as a whole
  domain:example.net   all users of this domain, which need not be served here

TARGET is a SIP address, or account:user@domain, with ,weight=N and ,priority=N behind it: targets of the lowest
priority share the calls by weight, the next priority takes what they do not answer.

  belfry route add carrier prefix:+49 sip:192.0.2.7:5060 sip:192.0.2.8:5060,priority=2 --probe
  belfry route add sales user:sales account:bob@example.net
  belfry route add world 'prefix:00' sip:192.0.2.7 --trusted --max-rate 20 --deny '00882*' --deny '001900*'
  belfry route add carrier prefix:+49 'sip:sip.carrier.example;transport=tls' --certificate sip.carrier.example";

#[derive(Debug, Subcommand)]
pub(super) enum RouteCommand {
    /// Make a route; it is used from the next call on
    #[command(after_help = PATTERNS)]
    Add(AddArgs),
    /// Routes in the order they were made
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Remove a route
    Remove {
        /// As `belfry route list` has it
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Name of the route, for lists and records of calls
    name: String,
    /// Destinations that take it: number:, prefix:, user:, regex: or domain: and a value (see below)
    pattern: String,
    /// SIP addresses, or one account, with ,weight=N and ,priority=N [default: 1 each] (see below)
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Callers that have not signed in may use it too
    #[arg(long)]
    open: bool,
    /// Watch the targets with OPTIONS; those that do not answer are left out
    #[arg(long)]
    probe: bool,
    /// Digits taken off the front of the number
    #[arg(long, value_name = "N", default_value_t = 0)]
    strip: u8,
    /// Digits put before what is left [default: none]
    #[arg(long, value_name = "DIGITS", default_value = "", hide_default_value = true)]
    prefix: String,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Take the place of the route of this name
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, Args)]
struct PolicyArgs {
    /// Its targets are in the trust domain: P-Asserted-Identity and the like go there and are taken from there
    #[arg(long)]
    trusted: bool,
    /// A UDP source address alone proves its targets, though it can be forged: from there all other routes may be taken
    #[arg(long)]
    trust_udp_address: bool,
    /// Name of which its systems show a certificate over TLS, which must be verified; may be repeated. With any, no
    /// address proves them
    #[arg(long, value_name = "NAME", conflicts_with = "trust_udp_address")]
    certificate: Vec<Box<str>>,
    /// New calls a second by this route [default: no limit]
    #[arg(long, value_name = "N")]
    max_rate: Option<u32>,
    /// Destinations that it does not carry, as +882*, 00* or 1900???????; may be repeated [default: none]
    #[arg(long, value_name = "PATTERN")]
    deny: Vec<Box<str>>,
}

impl RouteCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        match self {
            RouteCommand::Add(args) => args.run(config),
            RouteCommand::List { json } => list(&mut Backend::open(config)?, json),
            RouteCommand::Remove { name } => {
                Backend::open(config)?.change(Change::RemoveRoute { name: name.into() })
            }
        }
    }
}

impl AddArgs {
    fn run(self, config: &Config) -> Result<(), CliError> {
        let Some(pattern) = parse_pattern(&self.pattern) else {
            return Err(CliError::Usage(format!(
                "pattern {:?}: expected number:, prefix:, user:, regex: or domain: and a value; \
                 see: belfry route add --help",
                self.pattern
            )));
        };
        // All are parsed before anything is written: a route with half of its targets would be another route.
        let targets = self.targets.iter().map(|text| parse_target(text).map_err(CliError::Usage));
        let route = Route {
            // The store numbers routes and stamps them itself.
            id: 0,
            name: self.name.into(),
            pattern,
            targets: targets.collect::<Result<_, _>>()?,
            open: self.open,
            probe: self.probe,
            strip: self.strip,
            prefix: self.prefix.into(),
            policy: RoutePolicy {
                trusted: self.policy.trusted,
                by_address: self.policy.trust_udp_address,
                certificates: self.policy.certificate,
                max_rate: self.policy.max_rate,
                deny: self.policy.deny,
            },
            created_at: stdx::Instant::default(),
        };
        // Only a warning: certificate authorities may be added to the configuration afterwards.
        let warning = unverifiable(&route, config.unverifiable_certificates());
        let accounts: Vec<Box<str>> = route
            .targets
            .iter()
            .filter_map(|target| target.uri.strip_prefix("account:").map(Box::from))
            .collect();
        let mut backend = Backend::open_or_make(config)?;
        let name = route.name.clone();
        backend.change(Change::AddRoute { route, replace: self.replace })?;
        if let Some(warning) = warning {
            eprintln!("belfry: warning: {warning}");
        }
        // Only a warning, too: the account may be made afterwards.
        for account in accounts {
            let found =
                address(&account, config).and_then(|address| must_be_there(&mut backend, &address, config));
            if found.is_err() {
                eprintln!(
                    "belfry: warning: the route {name} leads to {account}, and there is no such account: its callers get \
                     404 until there is; make it with: belfry account add {account}"
                );
            }
        }
        Ok(())
    }
}

fn list(backend: &mut Backend, json: bool) -> Result<(), CliError> {
    let routes = match backend.ask(Ask::Routes)? {
        Listing::Routes(routes) => routes,
        other => return Err(unexpected(&other)),
    };
    if json {
        for route in &routes {
            say!("{}", serde_json::to_string(route)?);
        }
        return Ok(());
    }
    if routes.is_empty() {
        say!("no routes");
        return Ok(());
    }
    let mut table = Table::new(&["name", "pattern", "targets", "number", "who", "probe", "policy"], &[]);
    for route in &routes {
        table.row([
            route.name.to_string(),
            format!("{}:{}", route.pattern.kind(), route.pattern.value()),
            route.targets.iter().map(target).collect::<Vec<_>>().join(" "),
            rewrite(route),
            if route.open { "everybody" } else { "accounts" }.to_owned(),
            if route.probe { "yes" } else { "no" }.to_owned(),
            policy(&route.policy),
        ]);
    }
    Ok(table.print(&mut io::stdout().lock())?)
}

/// As it is written for `add`.
fn target(target: &RouteTarget) -> String {
    let mut text = target.uri.to_string();
    if target.weight != 1 {
        text.push_str(&format!(",weight={}", target.weight));
    }
    if target.priority != 1 {
        text.push_str(&format!(",priority={}", target.priority));
    }
    text
}

/// As it is written for `add`.
fn policy(policy: &RoutePolicy) -> String {
    let mut words = Vec::new();
    if policy.trusted {
        words.push("trusted".to_owned());
    }
    if policy.by_address {
        words.push("trust-udp-address".to_owned());
    }
    words.extend(policy.certificates.iter().map(|name| format!("certificate={name}")));
    words.extend(policy.max_rate.map(|calls| format!("max-rate={calls}")));
    words.extend(policy.deny.iter().map(|pattern| format!("deny={pattern}")));
    if words.is_empty() { "none".into() } else { words.join(" ") }
}

/// The digits that are put before, and how many are taken off.
fn rewrite(route: &Route) -> String {
    match (route.strip, &*route.prefix) {
        (0, "") => "as it is".into(),
        (0, prefix) => format!("{prefix}…"),
        (strip, prefix) => format!("{prefix}… without {strip}"),
    }
}
