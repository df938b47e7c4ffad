//! The licences of everything the workspace links, from `cargo metadata`, against the list in deny.toml.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let allowed = allowed(&std::fs::read_to_string(root.join("deny.toml")).context("deny.toml")?)?;
    let mut findings = Vec::new();
    for package in packages(root)? {
        let Package { name, version, license } = package;
        let text = license.unwrap_or_default();
        if !is_allowed(&text, &allowed) {
            findings.push(format!("{name} {version}: licence `{text}` is not among deny.toml's"));
        }
    }
    Ok(findings)
}

fn allowed(deny: &str) -> Result<Vec<String>> {
    let deny: toml::Table = deny.parse().context("deny.toml")?;
    let list = deny.get("licenses").and_then(|section| section.get("allow")).and_then(toml::Value::as_array);
    let list = list.context("deny.toml: no licenses.allow")?;
    Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // One platform: the others' crates are neither downloaded nor linked.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--filter-platform", &host])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    Ok(metadata.packages)
}

/// An SPDX expression, enough of it: `A OR B`, `A AND B`, `A WITH exception`, parentheses, and the old `A/B`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words, allowed)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut good = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        good |= all_of(words, allowed);
    }
    good
}

fn all_of(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut good = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        good &= one(words, allowed);
    }
    good
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        let good = any_of(words, allowed);
        return words.next() == Some(")") && good;
    }
    let mut licence = word.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{word} WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(&licence)
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    let allowed: Vec<String> =
        ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-2.0",
        "ISC AND (MIT OR LGPL-2.1)",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "AGPL-3.0", "MIT AND GPL-3.0", "ISC AND (GPL-2.0 OR LGPL-2.1)", "MIT WITH surprise"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
