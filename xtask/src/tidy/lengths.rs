//! How long a file and a function may be, with a list of exceptions that only shrinks.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::Source;

const FILE: usize = 600;
const TEST_FILE: usize = 900;
const FUNCTION: usize = 60;

const LIST: &str = "xtask/tidy-exceptions.txt";

pub(crate) fn findings(root: &Path, sources: &[Source]) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(LIST)).context(LIST)?;
    Ok(check(&parse(&text)?, sources))
}

/// `path` or `path::function`, and the length it may have.
type Exceptions = BTreeMap<String, usize>;

fn parse(text: &str) -> Result<Exceptions> {
    let mut exceptions = Exceptions::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (name, length) =
            line.rsplit_once(' ').with_context(|| format!("{LIST}: no length in: {line}"))?;
        let length = length.parse().with_context(|| format!("{LIST}: no length in: {line}"))?;
        exceptions.insert(name.trim().to_owned(), length);
    }
    Ok(exceptions)
}

fn check(exceptions: &Exceptions, sources: &[Source]) -> Vec<String> {
    let mut needed = Exceptions::new();
    let mut findings = Vec::new();
    let mut judge = |name: String, line: usize, length: usize, limit: usize| {
        if length <= limit {
            return;
        }
        if exceptions.get(&name).is_none_or(|allowed| *allowed < length) {
            let path = name.split("::").next().unwrap_or_default();
            findings.push(format!("{path}:{line}: {name} has {length} lines, {limit} are allowed"));
        }
        // Several functions of one file may share a name; the longest counts.
        let longest = needed.entry(name).or_default();
        *longest = length.max(*longest);
    };
    for source in sources {
        judge(source.path.clone(), 1, source.lines, if source.is_test() { TEST_FILE } else { FILE });
        for function in source.functions() {
            judge(format!("{}::{}", source.path, function.name), function.line, function.length, FUNCTION);
        }
    }
    for (name, allowed) in exceptions {
        match needed.get(name) {
            None => findings.push(format!("{LIST}: {name} is no longer too long: remove its line")),
            Some(length) if length < allowed => {
                findings.push(format!(
                    "{LIST}: {name} has {length} lines now: write {length} instead of {allowed}"
                ));
            }
            Some(_) => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(lines: usize) -> Source {
        Source::new("crates/sip/src/a.rs", &format!("fn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2)))
    }

    #[test]
    fn a_long_function_is_found_unless_excepted() {
        let excepted = parse("# why\ncrates/sip/src/a.rs::long 61\n").unwrap();
        assert_eq!(check(&Exceptions::new(), &[long(60)]).len(), 0);
        assert_eq!(check(&Exceptions::new(), &[long(61)]).len(), 1);
        assert_eq!(check(&excepted, &[long(61)]).len(), 0);
        assert_eq!(check(&excepted, &[long(62)]).len(), 1);
    }

    #[test]
    fn the_list_only_shrinks() {
        let excepted = parse("crates/sip/src/a.rs::long 70\n").unwrap();
        assert!(check(&excepted, &[long(60)])[0].contains("remove its line"));
        assert!(check(&excepted, &[long(65)])[0].contains("write 65 instead of 70"));
    }
}
