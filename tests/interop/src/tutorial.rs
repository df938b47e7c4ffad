//! The blocks of a tutorial, and what a reader does with each of them. `docs/decisions/0087-documentation-as-a-site.md` has the kinds:
//!
//! - `console`: lines after `$ ` are commands, the lines below a command are all that it prints. `…` stands for any text in a line, a line
//!   of its own for any number of lines. `console,code=1` ends with that code; `console,again` reads something that takes a moment to
//!   come: the reader repeats the command until it shows this.
//! - `console,terminal=NAME`: one command that stays, in a terminal of its own, which then shows these lines one after the other.
//! - `console,keys=NAME`: lines after `> ` are typed into that terminal; other lines are what it shows then.
//! - `console,shows=NAME`: what that terminal shows meanwhile.
//! - any language with `file=PATH`: a file that the reader writes.
//! - `text,elsewhere`: something that happens at another machine, and is not tested; the paragraph above says so.

use std::path::Path;
use std::time::Duration;

use crate::shell::{Ended, Shell};
use crate::wait::wait_until;

/// The time in which a command ends, and shows what the page says. The longest takes ten seconds on two idle cores, unoptimised.
const SOON: Duration = Duration::from_secs(60);

/// The text that a page has in place of what differs from run to run.
const ANYTHING: &str = "…";

/// Something that the reader does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes a file, named relative to the folder of the tutorial.
    Write {
        /// Its path.
        path: String,
        /// Its text.
        text: String,
    },
    /// Runs a command until its end.
    Run {
        /// The command line.
        line: String,
        /// The lines that it prints.
        shown: Vec<String>,
        /// Its exit code.
        code: i32,
        /// It is repeated until it prints these lines.
        again: bool,
    },
    /// Starts a program in a terminal of its own.
    Open {
        /// The name of the terminal.
        terminal: String,
        /// The command line.
        line: String,
    },
    /// Types a line into a terminal; a single letter is a key without Enter.
    Type {
        /// The name of the terminal.
        terminal: String,
        /// The keys.
        keys: String,
    },
    /// Waits until a terminal shows this line.
    See {
        /// The name of the terminal.
        terminal: String,
        /// The line, with `…` for any text.
        line: String,
    },
}

/// An action and the line of the page where it stands.
pub type Step = (usize, Action);

/// The actions of a page in its order, or its mistakes.
pub fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut mistakes = Vec::new();
    for block in blocks(page) {
        match actions(&block) {
            Ok(actions) => steps.extend(actions),
            Err(mistake) => mistakes.push(format!("line {}: {mistake}", block.line)),
        }
    }
    if mistakes.is_empty() { Ok(steps) } else { Err(mistakes.join("\n")) }
}

/// A fenced block.
struct Block<'a> {
    /// The number of its fence's line.
    line: usize,
    info: &'a str,
    lines: Vec<(usize, &'a str)>,
    /// The paragraph above.
    above: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    let mut above = String::new();
    let mut is_paragraph_over = true;
    for (at, line) in page.lines().enumerate() {
        let fence = line.strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.lines.push((at + 1, line)),
            (None, Some(info)) => {
                open = Some(Block { line: at + 1, info, lines: Vec::new(), above: above.clone() });
            }
            (None, None) if line.is_empty() => is_paragraph_over = true,
            (None, None) => {
                if std::mem::take(&mut is_paragraph_over) {
                    above.clear();
                }
                above.push_str(line);
                above.push(' ');
            }
        }
    }
    blocks.extend(open);
    blocks
}

fn actions(block: &Block<'_>) -> Result<Vec<Step>, String> {
    let mut words = block.info.split(',');
    let language = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    if let Some(path) = value("file") {
        if !block.above.contains(&format!("`{path}`")) {
            return Err(format!("the paragraph above does not name the file `{path}`"));
        }
        let text = block.lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        return Ok(vec![(block.line, Action::Write { path: path.to_owned(), text })]);
    }
    match (language, &words[..]) {
        ("text", ["elsewhere"]) if block.above.contains("not tested") => Ok(Vec::new()),
        ("text", ["elsewhere"]) => Err("the paragraph above does not say that this is not tested".into()),
        ("console", []) => commands(block, 0, false),
        ("console", ["again"]) => commands(block, 0, true),
        ("console", [word]) => {
            if let Some(code) = value("code") {
                return commands(
                    block,
                    code.parse().map_err(|_| format!("{code:?} is no exit code"))?,
                    false,
                );
            }
            let (key, terminal) = word.split_once('=').unwrap_or_default();
            terminal_actions(block, key, terminal)
        }
        _ => Err(format!("no kind of block of a tutorial: {:?}", block.info)),
    }
}

fn commands(block: &Block<'_>, code: i32, again: bool) -> Result<Vec<Step>, String> {
    let mut steps: Vec<(usize, String, Vec<String>)> = Vec::new();
    for (at, text) in &block.lines {
        if let Some(line) = text.strip_prefix("$ ") {
            steps.push((*at, line.to_owned(), Vec::new()));
            continue;
        }
        let (_, line, shown) = steps.last_mut().ok_or("the first line is no command")?;
        if shown.is_empty() && line.ends_with('\\') {
            *line += &format!("\n{text}");
        } else {
            shown.push((*text).to_owned());
        }
    }
    let run = |(at, line, mut shown): (usize, String, Vec<String>)| {
        while shown.pop_if(|line| line.is_empty()).is_some() {}
        (at, Action::Run { line, shown, code, again })
    };
    Ok(steps.into_iter().map(run).collect())
}

fn terminal_actions(block: &Block<'_>, key: &str, terminal: &str) -> Result<Vec<Step>, String> {
    let typed = match key {
        "terminal" => "$ ",
        "keys" => "> ",
        "shows" => "",
        _ => return Err(format!("no kind of block of a tutorial: {:?}", block.info)),
    };
    let terminal = || terminal.to_owned();
    let mut steps = Vec::new();
    for (at, text) in &block.lines {
        let step = match text.strip_prefix(typed).filter(|_| key != "shows") {
            Some(line) if key == "terminal" => Action::Open { terminal: terminal(), line: line.to_owned() },
            Some(keys) => Action::Type { terminal: terminal(), keys: keys.to_owned() },
            None if text.is_empty() || *text == ANYTHING => continue,
            None => Action::See { terminal: terminal(), line: (*text).to_owned() },
        };
        steps.push((*at, step));
    }
    let opened = steps.iter().filter(|(_, action)| matches!(action, Action::Open { .. })).count();
    if key == "terminal" && opened != 1 {
        return Err("a terminal has one command".into());
    }
    Ok(steps)
}

/// Does what the page says, in a shell in whose folder `prepare` has put what the page needs. Panics where something else happens.
pub fn follow(name: &str, page: &str, prepare: impl FnOnce(&Path)) {
    let steps = steps(page).unwrap_or_else(|mistakes| panic!("{name}:\n{mistakes}"));
    let mut shell = Shell::start(SOON, prepare);
    for (at, action) in steps {
        perform(&mut shell, &format!("{name}:{at}"), &action);
    }
}

fn perform(shell: &mut Shell, place: &str, action: &Action) {
    match action {
        Action::Write { path, text } => {
            let path = shell.folder().join(path);
            let folder = path.parent().expect("it is in the folder of the tutorial");
            std::fs::create_dir_all(folder).expect("the test's folder is writable");
            std::fs::write(&path, text).expect("the test's folder is writable");
        }
        Action::Run { line, shown, code, again: false } => {
            let ended = shell.run(line);
            if let Err(difference) = compare(&ended, shown, *code) {
                panic!("{place}: {line}\n{difference}\n{}", shell.tails());
            }
        }
        Action::Run { line, shown, code, again: true } => {
            let what = format!("{place}: what the page shows of {line:?}:\n{}", shown.join("\n"));
            let printed = std::cell::RefCell::default();
            let is_as_shown = || {
                let ended = shell.run(line);
                let is_as_shown = compare(&ended, shown, *code).is_ok();
                *printed.borrow_mut() = ended.printed;
                is_as_shown
            };
            wait_until(&what, SOON, is_as_shown, || printed.borrow().join("\n"));
        }
        Action::Open { terminal, line } => shell.open(terminal, line),
        Action::Type { terminal, keys } if keys.chars().count() == 1 => shell.type_keys(terminal, keys),
        Action::Type { terminal, keys } => shell.type_keys(terminal, &format!("{keys}\r")),
        Action::See { terminal, line } => {
            for words in line.split(ANYTHING).map(str::trim).filter(|words| !words.is_empty()) {
                shell.see_next(terminal, words);
            }
        }
    }
}

/// The difference between what a command did and what the page shows.
fn compare(ended: &Ended, shown: &[String], code: i32) -> Result<(), String> {
    let mut printed: Vec<&str> = ended.printed.iter().map(|line| line.trim_end()).collect();
    while printed.pop_if(|line| line.is_empty()).is_some() {}
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    if ended.code == code && are_like(&shown, &printed) {
        return Ok(());
    }
    Err(format!(
        "the page shows, with code {code}:\n{}\nit printed, with code {}:\n{}",
        shown.join("\n"),
        ended.code,
        printed.join("\n")
    ))
}

/// A line `…` is any number of lines.
fn are_like(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [first, rest @ ..] if *first == ANYTHING => {
            (0..=printed.len()).any(|skipped| are_like(rest, &printed[skipped..]))
        }
        [first, rest @ ..] => {
            let Some((line, printed)) = printed.split_first() else { return false };
            is_like(first, line) && are_like(rest, printed)
        }
    }
}

/// `…` in a line is any text; several spaces are as one, since a column is as wide as what varies in it.
fn is_like(shown: &str, printed: &str) -> bool {
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, printed) = (plain(shown), plain(printed));
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_alike_where_only_omitted_parts_differ() {
        assert!(is_like("made …, password …", "made alice, password abc"));
        assert!(is_like("a  b", "a     b") && is_like("…b", "ab") && is_like("a…", "a"));
        assert!(!is_like("a…c", "ab") && !is_like("a", "ab") && !is_like("ab…ba", "aba"));
        assert!(are_like(&["a", "…", "d"], &["a", "b", "c", "d"]) && are_like(&["a", "…"], &["a"]));
        assert!(!are_like(&["a"], &["a", "b"]) && !are_like(&["a", "b"], &["a"]) && !are_like(&[], &["a"]));
    }

    #[test]
    fn blocks_become_the_actions_of_the_reader() {
        let page = "Write `a.txt`:\n\n```toml,file=a.txt\nx = 1\n```\n\n```console\n$ one \\\n  two\nfirst\n\n$ three\n```\n\n\
            ```console,terminal=node\n$ serve\n…\nis up\n```\n\n```console,keys=node\n> a\n> bc\ngone\n```\n";
        let terminal = || "node".to_owned();
        let run = |line: &str, shown: &[&str]| Action::Run {
            line: line.into(),
            shown: shown.iter().map(|&line| line.into()).collect(),
            code: 0,
            again: false,
        };
        let expected = vec![
            (3, Action::Write { path: "a.txt".into(), text: "x = 1\n".into() }),
            (8, run("one \\\n  two", &["first"])),
            (12, run("three", &[])),
            (16, Action::Open { terminal: terminal(), line: "serve".into() }),
            (18, Action::See { terminal: terminal(), line: "is up".into() }),
            (22, Action::Type { terminal: terminal(), keys: "a".into() }),
            (23, Action::Type { terminal: terminal(), keys: "bc".into() }),
            (24, Action::See { terminal: terminal(), line: "gone".into() }),
        ];
        assert_eq!(steps(page), Ok(expected));
    }

    #[test]
    fn a_block_that_no_reader_could_follow_is_a_mistake() {
        let mistakes = [
            ("```\nls\n```\n", "no kind of block"),
            ("```sh\nls\n```\n", "no kind of block"),
            ("Write it:\n\n```toml,file=a.txt\n```\n", "does not name the file"),
            ("At the provider:\n\n```text,elsewhere\nA 192.0.2.1\n```\n", "not tested"),
            ("```console\nls\n```\n", "no command"),
            ("```console,terminal=a\nls\n```\n", "one command"),
        ];
        for (page, expected) in mistakes {
            let mistake = steps(page).unwrap_err();
            assert!(mistake.contains(expected), "{mistake}");
        }
    }

    #[test]
    fn differences_from_the_page_are_reported() {
        let ended = Ended { code: 1, printed: vec!["a".into(), String::new()] };
        assert!(compare(&ended, &["a".into()], 1).is_ok());
        assert!(compare(&ended, &["a".into()], 0).is_err_and(|text| text.contains("with code 1")));
        assert!(compare(&ended, &["b".into()], 1).is_err());
    }
}
