//! `belfry doctor`: what is wrong on this machine for the node of a configuration, and how to mend it.
//!
//! Each check is a function of what [`host`] has found, and returns [`Finding`]s. Nothing is contacted but the DNS servers, the database, the
//! NATS servers and the issuers of tokens that the configuration names, and the node itself.
//!
//! Invariant: nothing is changed. Ports are bound and let go, files are opened and closed; a check that cannot
//! know says so as a warning, and only what keeps the node from its work is a problem, which makes the exit
//! code.

mod addresses;
mod certificate;
mod folder;
mod host;
mod issuers;
mod kernel;
mod names;
mod ports;
mod services;

use std::io::ErrorKind;
use std::path::Path;

use clap::Args;
use config::{Config, ConfigError};

use super::error::CliError;
use super::table::Table;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// One JSON object a finding, one a line
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing is to be done.
    Good,
    /// The node works; something may surprise. How to mend it.
    Warning(String),
    /// Something does not work. How to mend it.
    Problem(String),
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The name of the check.
    check: &'static str,
    /// The finding in words.
    what: String,
    outcome: Outcome,
}

impl Finding {
    fn good(check: &'static str, what: impl Into<String>) -> Finding {
        Finding { check, what: what.into(), outcome: Outcome::Good }
    }

    fn warning(check: &'static str, what: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { check, what: what.into(), outcome: Outcome::Warning(mend.into()) }
    }

    fn problem(check: &'static str, what: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { check, what: what.into(), outcome: Outcome::Problem(mend.into()) }
    }

    fn state(&self) -> &'static str {
        match self.outcome {
            Outcome::Good => "ok",
            Outcome::Warning(_) => "warning",
            Outcome::Problem(_) => "problem",
        }
    }

    fn mend(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Good => None,
            Outcome::Warning(mend) | Outcome::Problem(mend) => Some(mend),
        }
    }
}

impl DoctorArgs {
    /// `named`: the file of `--config`.
    pub(super) fn run(&self, named: Option<&Path>) -> Result<(), CliError> {
        let findings = match Config::load(named) {
            Ok(config) => examine(&config)?,
            Err(error) => mistakes(&error),
        };
        if self.json {
            for finding in &findings {
                say!("{}", json(finding));
            }
        } else {
            table(&findings).print(&mut std::io::stdout().lock())?;
        }
        match findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Problem(_))).count() {
            0 => Ok(()),
            1 => Err(CliError::Other("1 problem; mend it and ask again: belfry doctor".into())),
            count => {
                Err(CliError::Other(format!("{count} problems; mend them and ask again: belfry doctor")))
            }
        }
    }
}

/// All checks of a configuration that can be read.
fn examine(config: &Config) -> Result<Vec<Finding>, CliError> {
    let mut findings = vec![match &config.file {
        Some(file) => Finding::good("configuration", format!("{} is good", file.display())),
        None => Finding::good(
            "configuration",
            "no belfry.toml here or in /etc/belfry: the defaults, which are good",
        ),
    }];
    // The same texts as the node logs at its start.
    let surprise = |text| Finding::warning("configuration", text, "see docs/configuration.md");
    findings.extend(config.warnings().into_iter().map(surprise));
    // First of the facts: ports and limits are judged by the node that runs, if one does.
    let node = host::running_node(config);
    findings.extend(ports::check(&config.sockets(), &node, ports::bind));
    let own = host::addresses();
    findings.extend(addresses::check(config, &own));
    let mut dns = host::Dns::new(config)?;
    findings.extend(names::check(config, &own, |query| dns.ask(query)));
    findings.extend(certificate::check(config, host::now(), net::certificate::examine));
    findings.extend(kernel::check(config, &host::Kernel::read(&node)));
    findings.extend(folder::check(&config.server.data));
    findings.extend(services::check(config));
    findings.extend(issuers::check(config));
    Ok(findings)
}

/// The configuration cannot be read, so there is nothing else to check.
fn mistakes(error: &ConfigError) -> Vec<Finding> {
    let mend = match error {
        ConfigError::Unreadable { error, .. } if error.kind() == ErrorKind::PermissionDenied => {
            "ask as root or as the user of the node"
        }
        ConfigError::Unreadable { .. } => {
            "name another file with --config or BELFRY_CONFIG, or make one: belfry init"
        }
        _ => "change the line; every key is in docs/configuration.md",
    };
    error.to_string().lines().map(|line| Finding::problem("configuration", line, mend)).collect()
}

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(&["state", "check", "found"], &[]);
    for finding in findings {
        table.row([finding.state(), finding.check, &finding.what]);
        if let Some(mend) = finding.mend() {
            table.row(["", "", &format!("-> {mend}")]);
        }
    }
    table
}

fn json(finding: &Finding) -> serde_json::Value {
    serde_json::json!({
        "check": finding.check,
        "state": finding.state(),
        "found": finding.what,
        "mend": finding.mend(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_for_people_and_objects_for_programs() {
        let findings = [
            Finding::good("ports", "udp:127.0.0.1:5060 is free"),
            Finding::problem("data", "/gone\nis not there", "make it"),
        ];
        let mut out = Vec::new();
        table(&findings).print(&mut out).unwrap();
        let lines = "STATE    CHECK  FOUND\n\
                     ok       ports  udp:127.0.0.1:5060 is free\n\
                     problem  data   /gone·is not there\n\
                     \x20               -> make it\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
        let object = json(&findings[1]);
        assert_eq!((object["state"].as_str(), object["mend"].as_str()), (Some("problem"), Some("make it")));
        assert!(json(&findings[0])["mend"].is_null());
    }

    #[test]
    fn every_mistake_of_a_configuration_is_a_problem() {
        let error = Config::parse("[sip]\nlisten = 1\ndomains = 2\n", Path::new("belfry.toml")).unwrap_err();
        let findings = mistakes(&error);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].what.starts_with("belfry.toml:2:"), "{findings:?}");
        assert!(findings.iter().all(|finding| finding.state() == "problem"));
    }
}
