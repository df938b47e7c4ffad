//! `docs/reference/ringer.md` is made of what `ringer` prints about itself.

use std::path::Path;
use std::process::Command;

const HEAD: &str = "\
# The command line of ringer

This page is made of what the program says; `BLESS=1 cargo test -p lab@0.1.0 --test reference` writes it anew. The flags of `ringer sip` and `ringer xmpp` have
[a page of their own](../ringer-options.md), with exit codes, keys and signals. [Ringer, the load lab](../ringer.md) says what the commands are for.
";

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ringer")).args(words).output().expect("ringer runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_committed_page_matches_the_program() {
    let mut page = HEAD.to_owned();
    for (title, words) in [
        ("ringer", &["--help"][..]),
        ("ringer find", &["find", "--help"]),
        ("ringer run", &["run", "--help"]),
        ("ringer run --list", &["run", "--list"]),
        ("ringer report", &["report", "--help"]),
        ("ringer xmpp --actions", &["xmpp", "--actions"]),
    ] {
        let text = help(words);
        assert!(text.lines().count() > 2, "{title}: {text:?}");
        page += &format!("\n## {title}\n\n```\n{}\n```\n", text.trim_end());
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/ringer.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == page,
        "docs/reference/ringer.md is not what the program says: BLESS=1 cargo test -p lab@0.1.0 --test reference"
    );
}
