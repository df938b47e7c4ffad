//! The common parts of the tables of requirements: matching texts, naming a test instead of repeating it, and reporting all rows at once.

use std::path::Path;

/// Tells what is wrong with `path::name`, a path below `crates`: the file must have a test of that name.
pub(crate) fn fault_of(path: &str) -> Option<String> {
    let (file, name) = path.split_once("::").expect("a row names a test as path::name");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(source).unwrap_or_default();
    let start = format!("fn {name}()");
    let is_there = text.split("#[test]").skip(1).any(|rest| rest.trim_start().starts_with(&start));
    (!is_there).then(|| format!("no test {path}"))
}

/// True if the parts are in the text, in this order, and parts after a `!` are nowhere in it. No parts: the
/// text is empty.
pub(crate) fn has_in_order(text: &str, parts: &[&str]) -> bool {
    let mut rest = text;
    let is_in = |part: &&str| match part.strip_prefix('!') {
        Some(absent) => !text.contains(absent),
        None => rest.split_once(part).is_some_and(|(_, after)| {
            rest = after;
            true
        }),
    };
    parts.is_empty() == text.is_empty() && parts.iter().all(is_in)
}

/// Fails with the differences of all rows, so that a change shows all that it breaks.
#[track_caller]
pub(crate) fn assert_none(wrong: &[String], rows: usize) {
    assert!(wrong.is_empty(), "{} of {rows} rows\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_test_is_found_by_its_file_and_name() {
    assert_eq!(fault_of("xmpp/src/requirements.rs::a_test_is_found_by_its_file_and_name"), None);
    for missing in [
        "xmpp/src/requirements.rs::fault_of",
        "xmpp/src/requirements.rs::a_test_is_found",
        "xmpp/src/none.rs::a",
    ] {
        assert!(fault_of(missing).is_some(), "{missing}");
    }
}
