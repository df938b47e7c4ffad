//! Passwords: asked for without echo, from standard input, or (with a warning) from the command line.
//!
//! Used by `account add`, `account passwd` and `init`. A program gives a password by `--password-stdin`; a terminal is asked twice.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use control::Secret;

use super::error::CliError;

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct PasswordArgs {
    /// Take the password from the first line of standard input
    #[arg(long)]
    password_stdin: bool,
    /// The password itself; other users of this machine can see it while the command runs
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
}

impl PasswordArgs {
    /// The password by one of the three ways; `account` is named in the question.
    pub(super) fn read(self, account: &store::Address) -> Result<Secret, CliError> {
        if let Some(password) = self.password {
            eprintln!(
                "belfry: warning: a password on the command line can be seen by others and stays in the \
                 shell's history; --password-stdin does neither"
            );
            return Ok(Secret::new(&password));
        }
        if self.password_stdin {
            return from_stdin();
        }
        // A script that forgot the option: to wait for input would look like a hang.
        if !io::stdin().is_terminal() {
            return Err(CliError::Usage(
                "no terminal to ask for the password; give it with --password-stdin".into(),
            ));
        }
        ask(account)
    }
}

fn from_stdin() -> Result<Secret, CliError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| {
        CliError::Other(format!("cannot read the password: {error}; give it with --password-stdin"))
    })?;
    // Only the line break: spaces may belong to the password.
    Ok(Secret::new(line.trim_end_matches(['\r', '\n'])))
}

fn ask(account: &store::Address) -> Result<Secret, CliError> {
    // Standard output may be redirected to a file.
    let terminal = console::Term::stderr();
    let line = |prompt: &str| {
        terminal.write_str(prompt).and_then(|()| terminal.read_secure_line()).map_err(|error| {
            CliError::Other(format!("cannot read the password: {error}; give it with --password-stdin"))
        })
    };
    let password = line(&format!("Password of {account}: "))?;
    // It was typed blindly; a slip would lock the user out.
    if line("Once more: ")? != password {
        return Err(CliError::Other(
            "the two passwords differ; nothing was changed: run the command again".into(),
        ));
    }
    Ok(Secret::new(&password))
}
