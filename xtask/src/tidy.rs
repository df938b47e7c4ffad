//! The house rules that a compiler does not check. Each check returns findings, one line each: where, what, and
//! what to do about it.

mod arrows;
mod lengths;
mod licences;
mod security;
mod words;

use std::path::Path;

use anyhow::Result;

use crate::source;

pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let sources = source::read_all(root)?;
    let mut findings = arrows::findings(root)?;
    findings.extend(words::findings(&sources));
    findings.extend(lengths::findings(root, &sources)?);
    findings.extend(licences::findings(root)?);
    findings.extend(security::findings(root)?);
    Ok(findings)
}

#[test]
fn the_workspace_is_tidy() {
    let findings = findings(crate::workspace()).expect("the workspace can be read");
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
