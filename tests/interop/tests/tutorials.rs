//! The tutorials of the documentation, followed line by line by a reader who has the programs on the path (`interop::tutorial`).

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Command;

use interop::{link_programs, tutorial, write_program};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn follow(name: &str, prepare: impl FnOnce(&Path)) {
    let place = format!("docs/tutorials/{name}.md");
    let page = std::fs::read_to_string(repository().join(&place)).expect("the page");
    tutorial::follow(&place, &page, |folder| {
        link_programs(&folder.join("bin"));
        prepare(folder);
    });
}

/// Copies a part of the repository that the page says is needed.
fn copy(part: &str, folder: &Path) {
    let to = folder.join(part);
    std::fs::create_dir_all(to.parent().expect("a folder")).expect("the test's folder is writable");
    let copied = Command::new("cp").arg("-r").arg(repository().join(part)).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{part} cannot be copied");
}

#[test]
fn small_office() {
    follow("small-office", |folder| {
        copy("tools", folder);
        copy("examples/ivr/documents", folder);
    });
}

#[test]
fn web_application() {
    // The page has it installed with pip, which needs a network.
    follow("web-application", |folder| {
        copy("tools", folder);
        // A link would not find the library.
        let python = format!("#!/bin/sh\nexec {} \"$@\"\n", interop::python("twilio").display());
        write_program(&folder.join("bin/python3"), &python);
    });
}

#[test]
fn company_chat() {
    follow("company-chat", |folder| {
        // Else profanity asks at its first start whether to show it.
        std::fs::create_dir_all(folder.join(".config/profanity")).expect("the test's folder is writable");
        let settings = "[ui]\nsplash=true\n";
        std::fs::write(folder.join(".config/profanity/profrc"), settings)
            .expect("the test's folder is writable");
    });
}

#[test]
fn carrier_lab() {
    follow("carrier-lab", |_| {});
}
