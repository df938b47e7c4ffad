//! `belfry check-config`.
//!
//! Mistakes are the error of `Config::load`, or of the certificate and key or the files of accounts that it names; warnings are of a configuration that is valid, and leave the exit code at 0.

use std::path::{Path, PathBuf};

use clap::Args;
use config::{Config, ConfigError};
use external_auth::SourceKind;

use super::error::CliError;

#[derive(Debug, Args)]
pub(super) struct CheckConfig {
    /// [default: what `serve` would read]
    file: Option<PathBuf>,
}

impl CheckConfig {
    pub(super) fn run(&self, config: Option<&Path>) -> Result<(), CliError> {
        let config = Config::load(self.file.as_deref().or(config)).map_err(|error| match error {
            ConfigError::Unreadable { .. } if self.file.is_some() => CliError::NamedConfig(error),
            error => CliError::Config(error),
        })?;
        if let (Some(certificate), Some(key)) = (&config.tls.certificate, &config.tls.key) {
            net::certificate::examine(certificate, key, &[])
                .map_err(|error| CliError::Other(format!("[tls] {error}; a node with it does not start")))?;
        }
        for source in &config.accounts.sources {
            if let SourceKind::File(file) = &source.kind {
                external_auth::read_accounts(&file.path).map_err(|mistake| {
                    CliError::Other(format!("[[accounts.sources]] {mistake}; a node with it does not start"))
                })?;
            }
        }
        match &config.file {
            Some(file) => say!("{}: good", file.display()),
            None => say!("no belfry.toml here or in /etc/belfry: the defaults, which are good"),
        }
        for warning in config.warnings() {
            say!("{warning}");
        }
        Ok(())
    }
}
