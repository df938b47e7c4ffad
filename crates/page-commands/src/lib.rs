//! Commands that the pages of the repository show, for tests: a program's command line has to take each of them.

#![warn(missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of pages whose commands are of their time, or made of the command line itself.
const LEFT_OUT: [&str; 2] = ["decisions", "reference"];

/// The pages of the repository.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("ARCHITECTURE.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of pages").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() {
                folders.extend((!LEFT_OUT.iter().any(|left| name == *left)).then_some(path));
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The lines of code of a page with their numbers; a line that ends with a backslash goes on in the next.
fn code(page: &str) -> Vec<(usize, String)> {
    let (mut lines, mut is_fenced) = (Vec::<(usize, String)>::new(), false);
    let mut goes_on = false;
    for (number, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if !is_fenced && !line.starts_with("    ") {
            continue;
        }
        let line = line.trim();
        let part = line.strip_suffix('\\').unwrap_or(line);
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => before.push_str(part),
            None => lines.push((number + 1, part.to_owned())),
        }
        goes_on = part.len() < line.len();
    }
    lines
}

/// The code in backquotes in the text of a page, with the number of its line.
fn quoted(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let prose = page.lines().enumerate().filter(|(_, line)| !line.starts_with("    "));
    prose.flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |code| (number + 1, code)))
}

/// The words of a line as a shell reads them, as far as the pages go: quotes, and the end of the command at a comment, a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '&' | ';' | '>' | '<') => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// A command that a page shows.
#[derive(Clone, Debug)]
pub struct ShownCommand {
    /// Page and number of the line, as editors take it.
    pub place: String,
    /// The words as a shell reads them, the program's name first.
    pub words: Vec<String>,
    /// It stands in the text, where commands are named without their arguments, and with letters in place of numbers.
    pub is_in_text: bool,
}

/// All commands of a program that the pages show.
///
/// # Panics
/// A page cannot be read.
pub fn commands(program: &str) -> Vec<ShownCommand> {
    let mut found = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let mut add = |number: usize, line: &str, is_in_text: bool| {
            let words = command_of(program, line);
            let place = format!("{}:{number}: {line}", page.display());
            found.extend(words.map(|words| ShownCommand { place, words, is_in_text }));
        };
        code(&text).iter().for_each(|(number, line)| add(*number, line, false));
        quoted(&text).for_each(|(number, line)| add(number, line, true));
    }
    found
}

/// The command of a line, if it is one of the program.
fn command_of(program: &str, line: &str) -> Option<Vec<String>> {
    let mut words = words(line);
    let first = words.iter().position(|word| word != "$" && !word.starts_with("BELFRY_"))?;
    words.drain(..first);
    let user = |words: &[String]| words.first().is_some_and(|word| word == "sudo");
    if user(&words) {
        let length = if words.get(1).is_some_and(|word| word == "-u") { 3 } else { 1 };
        words.drain(..length.min(words.len()));
    }
    // Three dots stand for more of the same kind, and a file of a backup's name is no command.
    words.retain(|word| word != "…");
    if words.iter().any(|word| word == "before-DATE") {
        return None;
    }
    let name = words.first()?;
    (Path::new(name).file_name()? == program).then_some(words)
}

#[test]
fn a_line_is_read_as_a_shell_reads_it() {
    let taken = |line| command_of("belfry", line).map(|words| words.join("|"));
    assert_eq!(
        taken("$ belfry route add a 'prefix:+49' sip:h   # comment").as_deref(),
        Some("belfry|route|add|a|prefix:+49|sip:h")
    );
    assert_eq!(taken("sudo -u belfry belfry status --json | jq .").as_deref(), Some("belfry|status|--json"));
    assert_eq!(
        taken("BELFRY_CONFIG=x target/release/belfry serve &").as_deref(),
        Some("target/release/belfry|serve")
    );
    assert_eq!(taken("belfryd serve"), None);
    assert_eq!(code("```sh\na \\\n  b\n```\nbelfry text"), [(2, "a b".to_owned())]);
    assert_eq!(quoted("see `belfry trace` and `a b`").collect::<Vec<_>>(), [(1, "belfry trace"), (1, "a b")]);
}
