//! The files of a load: accounts of its users, and stanzas to send.
//!
//! Read once, before the run; worker processes read them again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab_xmpp::{AccountFile, StanzaTemplate, UserDirectory};

use super::flags::XmppFlags;

/// All accounts of the file are users, except the monitors, unless a number was given.
pub(super) fn listed(told: &XmppFlags, file: &Path, domain: &str) -> Result<UserDirectory, String> {
    if told.name.is_some() || told.password.is_some() {
        return Err(
            "--users-file says names and passwords: expected neither --name nor --password".to_owned()
        );
    }
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("--users-file {shown}: {error}"))?;
    let roll = AccountFile::parse(&text, &shown, domain)?;
    let monitors = told.monitors.pairs.saturating_mul(2);
    // Monitors are the last accounts of the file, two a pair.
    let rest = roll.len().saturating_sub(told.first).saturating_sub(monitors);
    let people =
        UserDirectory::listed(told.users.unwrap_or(rest), told.contacts, told.first, Arc::new(roll), domain);
    people.map_err(|error| format!("{shown}: {error}"))
}

/// The stanzas of all files, in order.
pub(super) fn stanzas(files: &[PathBuf]) -> Result<Vec<StanzaTemplate>, String> {
    let mut all = Vec::new();
    for file in files {
        let shown = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| format!("--stanza {shown}: {error}"))?;
        all.extend(StanzaTemplate::parse_all(&text, &shown)?);
    }
    Ok(all)
}
