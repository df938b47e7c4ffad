//! The house rules that a compiler does not check. Each check returns findings, one line each: where, what, and
//! what to do about it.

mod arrows;
mod exceptions;
mod glossary;
mod lengths;
mod licences;
mod log_fields;
mod methods;
mod references;
mod security;
mod site;
mod words;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::source;
use crate::types;

use exceptions::{AllFound, Exceptions};
use glossary::Glossary;

pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let sources = source::read_all(root)?;
    let mut findings = arrows::findings(root, &sources)?;
    findings.extend(words::findings(&sources));
    findings.extend(lengths::findings(root, &sources)?);
    findings.extend(licences::findings(root)?);
    findings.extend(security::findings(root)?);
    findings.extend(site::findings(root)?);
    findings.extend(log_fields::findings(root, &sources)?);
    let lists = Lists::read(root, &sources)?;
    findings.extend(lists.findings);
    for (exceptions, found) in &lists.all {
        findings.extend(exceptions.check(found));
    }
    Ok(findings)
}

/// Drops exceptions that are no longer needed, lowers their numbers, and follows types and files that have moved.
pub(crate) fn shrink(root: &Path) -> Result<()> {
    let sources = source::read_all(root)?;
    let page = root.join(glossary::PAGE);
    let text = std::fs::read_to_string(&page).context(glossary::PAGE)?;
    let rewritten = Glossary::read(root)?.rewrite(&text, &types::types(&sources)?);
    if rewritten != text {
        std::fs::write(&page, rewritten).context(glossary::PAGE)?;
    }
    for (mut exceptions, found) in Lists::read(root, &sources)?.all {
        exceptions.shrink(&found);
        exceptions.write(root)?;
    }
    Ok(())
}

/// The checks that have a list of exceptions each, and findings that none can allow.
struct Lists {
    all: Vec<(Exceptions, AllFound)>,
    findings: Vec<String>,
}

impl Lists {
    fn read(root: &Path, sources: &[source::Source]) -> Result<Lists> {
        let types = types::types(sources)?;
        let glossary = Glossary::read(root)?;
        let files = references::Files::read(root)?;
        let (planned, mut findings) = glossary.planned(&types);
        findings.extend(glossary.missing(&types));
        let checks = [
            (glossary::PLANNED, planned),
            (glossary::NAMES, glossary.forbidden(&types)),
            (methods::LIST, methods::found(&types)),
            (references::LIST, references::found(root, sources, &files)?),
        ];
        let read = |(file, found)| Ok((Exceptions::read(root, file)?, found));
        Ok(Lists { all: checks.into_iter().map(read).collect::<Result<_>>()?, findings })
    }
}

#[test]
fn the_workspace_is_tidy() {
    let findings = findings(crate::workspace()).expect("the workspace can be read");
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
