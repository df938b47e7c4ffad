//! The shell of a reader who follows a page: its command lines run in it as they are written, one after the other.
//!
//! The shell has a network and processes of its own (namespaces), because the lines of a page have the ports of a real node. Programs
//! that stay run in terminals with names, into which keys can be typed.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::wait::{lines_in, wait_until};

/// `script` writes this when the program of a terminal has ended.
const OVER: &str = "[COMMAND_EXIT_CODE=";

/// bash, whose lines come by a pipe; their output goes to a file. It ends with all that it started.
pub struct Shell {
    folder: TempDir,
    lines: File,
    /// Keys of the shell itself: nothing is ever typed.
    _keys: File,
    /// The input of the terminals, by name.
    terminals: Vec<(String, File)>,
    /// How many bytes of a terminal's text have been looked at, by its name.
    seen: HashMap<String, usize>,
    /// For one line, or one text in a terminal.
    patience: Duration,
    child: Child,
    number: usize,
}

/// The outcome of a command line.
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// The lines of its standard output and standard error, as they came.
    pub printed: Vec<String>,
}

impl Shell {
    /// In a folder that `prepare` has filled, with so much patience for each line and each text in a terminal; programs in `bin` there come before those of the system. `sudo` is there: in the
    /// namespace every process is root already.
    pub fn start(patience: Duration, prepare: impl FnOnce(&Path)) -> Shell {
        let folder = TempDir::new().expect("a temporary folder");
        std::fs::create_dir_all(folder.path().join("bin")).expect("the test's folder is writable");
        write_program(&folder.path().join("bin/sudo"), SUDO);
        prepare(folder.path());
        let (lines, keys) = (pipe(&folder.path().join("lines")), pipe(&folder.path().join("keys")));
        let log = File::create(folder.path().join("shell.log")).expect("a log");
        let errors = log.try_clone().expect("a file can be cloned");
        let path = std::env::var("PATH").unwrap_or_default();
        let is_root =
            std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        let mut command = Command::new("unshare");
        // Variables that cargo and make set for their children: a reader's shell has none of them.
        for name in ["CARGO", "CARGO_TARGET_DIR", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"] {
            command.env_remove(name);
        }
        let child = command
            .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(if is_root { &[][..] } else { &["--user", "--map-root-user"] })
            .args(["bash", "lines"])
            .current_dir(&folder)
            .env("PATH", format!("{}/bin:{path}:/usr/sbin:/sbin", folder.path().display()))
            .env("HOME", folder.path())
            .env("TERM", "xterm")
            .env("LANG", "C.UTF-8")
            .stdin(keys.try_clone().expect("a file can be cloned"))
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("unshare of util-linux");
        let (terminals, seen) = (Vec::new(), HashMap::new());
        let mut shell = Shell { folder, lines, _keys: keys, terminals, seen, patience, child, number: 0 };
        shell.expect("shopt -s expand_aliases", &[0], &[]);
        shell.expect(&format!("python3 -c '{LOOPBACK_UP}'"), &[0], &[]);
        shell
    }

    /// The folder in which the shell runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a line until its end.
    pub fn run(&mut self, line: &str) -> Ended {
        let began = lines_in(&self.log("shell")).len();
        self.number += 1;
        let mark = format!("@@ line {} ended with ", self.number);
        write!(self.lines, "{line}\ncode=$?; echo; echo \"{mark}$code\"\n").expect("the shell reads");
        let mut ended = None;
        let has_ended = || {
            let lines = lines_in(&self.log("shell"));
            let code = |line: &String| line.strip_prefix(&mark)?.parse().ok();
            ended = lines.iter().position(|line| code(line).is_some()).map(|at| {
                let mut printed = lines[began..at].to_vec();
                // `echo` before the mark: an empty line, or the end of one that had none.
                printed.pop_if(|line| line.is_empty());
                Ended { code: code(&lines[at]).unwrap_or(-1), printed }
            });
            ended.is_some()
        };
        wait_until(&format!("the end of {line:?}"), self.patience, has_ended, || self.tails());
        ended.expect("it has ended")
    }

    /// Runs a line, which must end with one of `codes` and print all of `words`.
    pub fn expect(&mut self, line: &str, codes: &[i32], words: &[&str]) {
        let Ended { code, printed } = self.run(line);
        let printed = printed.join("\n");
        assert!(
            codes.contains(&code),
            "{line:?} ended with {code}, expected one of {codes:?}:\n{printed}\n{}",
            self.tails()
        );
        for word in words {
            assert!(printed.contains(word), "{line:?} did not print {word:?}:\n{printed}\n{}", self.tails());
        }
    }

    /// Starts a program that stays, in a terminal of its own.
    pub fn open(&mut self, terminal: &str, line: &str) {
        let file = file_name(terminal);
        self.terminals.push((terminal.to_owned(), pipe(&self.folder.path().join(format!("{file}.keys")))));
        let line = line.replace('\'', "'\\''");
        let command = format!(
            "script --quiet --flush --return --command 'stty rows 40 cols 160; {line}' {file}.log < {file}.keys > /dev/null &"
        );
        self.expect(&command, &[0], &[]);
    }

    /// Types into a terminal.
    pub fn type_keys(&mut self, terminal: &str, keys: &str) {
        let known = self.terminals.iter_mut().find(|(name, _)| name == terminal);
        let (_, pipe) = known.expect("the page opens the terminal first");
        pipe.write_all(keys.as_bytes()).expect("the terminal reads");
    }

    /// Waits until a terminal shows these words, now or earlier.
    pub fn see(&self, terminal: &str, words: &str) {
        let is_shown_or_over = || {
            let text = self.text(terminal);
            text.contains(words) || text.contains(OVER)
        };
        let what = format!("{words:?} in the terminal of {terminal}");
        wait_until(&what, self.patience, is_shown_or_over, || self.tails());
        assert!(self.text(terminal).contains(words), "{terminal} ended before {words:?}\n{}", self.tails());
    }

    /// Waits until a terminal shows these words behind those that an earlier call has waited for.
    pub fn see_next(&mut self, terminal: &str, words: &str) {
        let from = self.seen.get(terminal).copied().unwrap_or(0);
        let find = || {
            let text = self.text(terminal);
            let text = text.get(from..).unwrap_or_default();
            text.find(words).map(|at| from + at + words.len()).ok_or(text.contains(OVER))
        };
        let mut end = None;
        let is_shown_or_over = || {
            let found = find();
            end = found.ok();
            found != Err(false)
        };
        let what = format!("{words:?} in the terminal of {terminal}");
        wait_until(&what, self.patience, is_shown_or_over, || self.tails());
        let end = end.unwrap_or_else(|| panic!("{terminal} ended before {words:?}\n{}", self.tails()));
        self.seen.insert(terminal.to_owned(), end);
    }

    /// All that a terminal has shown, without what moves its cursor and colours its text.
    pub fn text(&self, terminal: &str) -> String {
        plain(&lines_in(&self.log(&file_name(terminal))).join("\n"))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// The last lines of all terminals and of the shell.
    pub fn tails(&self) -> String {
        let names = self.terminals.iter().map(|(name, _)| name.as_str()).chain(["shell"]);
        let tail = |name: &str| {
            let text = self.text(name);
            let lines: Vec<&str> = text.lines().collect();
            format!("== {name}\n{}\n", lines[lines.len().saturating_sub(30)..].join("\n"))
        };
        names.map(tail).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With the first process of its namespace all others go.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new network has a loopback interface that is down: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING.
const LOOPBACK_UP: &str = "import fcntl, socket, struct; \
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh14x\", b\"lo\", 0x41))";

/// In the namespace every process is root already.
const SUDO: &str = "#!/bin/sh\nexec \"$@\"\n";

/// Writes a program that a shell can run.
pub fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the test's folder is writable");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our own file");
}

/// Makes `belfry` and `ringer` in `folder` links to the programs that were built with the tests.
pub fn link_programs(folder: &Path) {
    let test = std::env::current_exe().expect("a running test has a path");
    let built = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
    std::fs::create_dir_all(folder).expect("the test's folder is writable");
    for name in ["belfry", "ringer"] {
        let program = built.join(name);
        let path = program.display();
        assert!(program.is_file(), "{path} is not built: run `cargo build --workspace --bins`");
        std::os::unix::fs::symlink(&program, folder.join(name)).expect("a link");
    }
}

/// The name of the files of a terminal.
fn file_name(terminal: &str) -> String {
    terminal.replace([' ', '\''], "-")
}

/// A named pipe. Open for both, so that neither end waits for the other.
fn pipe(path: &Path) -> File {
    let made = Command::new("mkfifo").arg(path).stderr(Stdio::inherit()).status();
    assert!(made.is_ok_and(|status| status.success()), "no pipe {}", path.display());
    File::options().read(true).write(true).open(path).expect("our own pipe")
}

/// Without escape sequences (ECMA-48 §5.4, and xterm's titles): each becomes a space.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\x1b' {
            out.push(if character == '\r' { ' ' } else { character });
            continue;
        }
        out.push(' ');
        match rest.next() {
            Some('[') => while rest.next().is_some_and(|next| !('@'..='~').contains(&next)) {},
            Some(']') => while rest.next().is_some_and(|next| next != '\x07') {},
            Some('(' | ')') => drop(rest.next()),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_spaces() {
        assert_eq!(plain("\x1b[1;2Ha\x1b(Bb\x1b]0;t\x07c\r"), " a b c ");
    }
}
