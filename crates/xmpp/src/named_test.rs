//! Rows of tables that name a test instead of repeating it.

use std::path::Path;

/// Tells what is wrong with `path::name`, a path below `crates/xmpp/src`: the file must have a test of that name.
pub(crate) fn fault_of(path: &str) -> Option<String> {
    let (file, name) = path.split_once("::").expect("a row names a test as path::name");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let text = std::fs::read_to_string(source).unwrap_or_default();
    let start = format!("fn {name}()");
    let is_there = text.split("#[test]").skip(1).any(|rest| rest.trim_start().starts_with(&start));
    (!is_there).then(|| format!("no test {path}"))
}

/// Rows that are nothing but the section, what it demands, and the test.
pub(crate) fn play(rows: &[(&str, &str, &str)]) {
    let wrong = rows.iter().filter_map(|(section, demand, path)| {
        fault_of(path).map(|wrong| format!("§{section} {demand}: {wrong}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {} rows\n\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn a_test_is_found_by_its_file_and_name() {
    assert_eq!(fault_of("named_test.rs::a_test_is_found_by_its_file_and_name"), None);
    for missing in ["named_test.rs::fault_of", "named_test.rs::a_test_is_found", "none.rs::a"] {
        assert!(fault_of(missing).is_some(), "{missing}");
    }
}
