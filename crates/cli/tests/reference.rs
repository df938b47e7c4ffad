//! `docs/reference/belfry.md` is made of the command line.

use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "\
# The command line of belfry

This page is made by the code that reads the command line; `BLESS=1 cargo test -p cli --test reference` writes it anew. `belfry help` says the same, and so do
the manual pages of the package.

Every command takes `--config FILE` and `--help`. Commands speak to the running node through its control socket, or to its database when no node runs. Which node, the configuration says: `--config`,
else `BELFRY_CONFIG`, else `belfry.toml` in the present folder, else `/etc/belfry/belfry.toml`, else the defaults.

| exit code | |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | usage |
| 69 | no node runs |
| 75 | `belfry serve`: to be started again ([a farm of nodes](../farm.md)) |
| 78 | mistakes in the configuration |
";

/// A text in a table; outside of code, a word such as `<pid>` would be taken for markup.
fn text(help: &str) -> String {
    help.replace('|', "\\|").replace('<', "\\<").replace('\n', " ")
}

fn write(command: &clap::Command, path: &str, page: &mut String) {
    let Some(about) = command.get_about() else { return };
    let _ = writeln!(page, "\n## {path}\n\n{}.", text(&about.to_string()));
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(page, "\n```\n{}\n```", usage.trim_start_matches("Usage: "));
    let is_own = |argument: &&clap::Arg| argument.get_id() != "config" && argument.get_id() != "help";
    let arguments: Vec<_> = command.get_arguments().filter(is_own).collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | meaning |\n|---|---|\n");
    }
    for argument in arguments {
        let name = argument.to_string();
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {} |", name.replace('|', "\\|"), text(&help));
    }
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(page, "\n```\n{}\n```", after.to_string().trim_end());
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        write(inner, &format!("{path} {}", inner.get_name()), page);
    }
}

#[test]
fn the_committed_page_matches_the_command_line() {
    let mut page = HEAD.to_owned();
    let mut command = cli::command();
    command.build();
    for inner in command.get_subcommands() {
        write(inner, &format!("belfry {}", inner.get_name()), &mut page);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/belfry.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == page,
        "docs/reference/belfry.md is not what the code makes: BLESS=1 cargo test -p cli --test reference"
    );
}
