//! README's command lines, each as it is written, in their order, in one shell.
//!
//! The shell has a network and processes of its own (namespaces), because README's lines have the ports of a real node. The
//! built binaries stand where a release build puts them; a `cargo` of the test's own takes `cargo build` for done.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use interop::{lines_in, wait_until};
use tempfile::TempDir;

/// For one line. The longest takes a minute on two idle cores, unoptimised.
const PATIENCE: Duration = Duration::from_secs(400);

/// `script` writes this when the program of a terminal has ended.
const OVER: &str = "[COMMAND_EXIT_CODE=";

/// Blocks that are no command lines, by their first lines.
const NOT_COMMANDS: &[(&str, &str)] = &[
    ("make demo", "`make test` runs this test, and `make demo` measures release builds for two minutes"),
    (
        "client = twilio.rest.Client(sid, token)",
        "Python: tests/interop/tests/rest.rs drives Twilio's library",
    ),
    (
        "make package",
        "it needs systemd and a release build: tests/interop/tests/package.rs installs the package",
    ),
    ("to sign in     target/release/belfry account add", "what `make run` prints, which is compared"),
    ("[console]", "configuration: tests/interop/tests/console.rs has it"),
    ("[xmpp]", "configuration: crates/server/tests/live/xmpp/components.rs has it"),
];

/// Shorter forms that README itself offers in backquotes: the beginning of the line, the shorter part, and the part that it replaces.
const SHORTER: &[(&str, &str, &str)] = &[
    ("ringer sip -sn uac", "-r 50 -m 100", "-r 1000 -m 10000"),
    ("ringer find -sn uac", "-r 20..80 --step 2 --confirm 50", "-r 100..20000"),
    ("ringer xmpp accounts", "--users 60", "--users 5000"),
    ("ringer run cgp-r4", "--set accounts=60 --set rate=10 --set seconds=5", ""),
    ("ringer xmpp 127.0.0.1", "--users 60 --for 5", "--users 1000"),
    ("ringer find xmpp", "--from 20 --to 60 --step 2 --confirm 5", "--from 100 --to 5000"),
    ("ringer run jabber-100k", "--set users=60 --set logins=20 --set seconds=5", "--scale 0.05"),
    ("sudo sipp", "-m 300", "-m 6000"),
    ("ringer sip -sf crates/lab/plans/gather.xml", "-m 300", "-m 6000"),
];

/// The kind of a line of README that is more than a command that ends well by itself.
enum How {
    /// A program in a terminal of that name, which shows this when it is ready.
    Terminal(&'static str, &'static str),
    /// Typed into a terminal; then this follows.
    Typed(&'static str, &'static [Do]),
    /// Ends with one of these codes, and has printed these words.
    Prints(&'static [i32], &'static [&'static str]),
}

enum Do {
    Types(&'static str, &'static str),
    Sees(&'static str, &'static str),
}

use Do::{Sees, Types};
use How::{Prints, Terminal, Typed};

/// In README's order, by how the line begins.
const SPECIAL: &[(&str, How)] = &[
    ("make run", Terminal("node", "to sign in")),
    ("belfry status", Prints(&[0], &["registrations"])),
    ("tools/phone alice", Terminal("alice", "registered successfully")),
    ("target/release/belfry trace", Terminal("trace", "Ctrl-C ends it")),
    ("tools/phone bob", Terminal("bob", "registered successfully")),
    (
        "d sip:alice",
        Typed(
            "bob",
            &[
                Sees("alice", "Incoming call"),
                Types("alice", "a"),
                Sees("bob", "Call established"),
                Sees("trace", "INVITE"),
                Types("alice", "b"),
                Sees("trace", "BYE"),
            ],
        ),
    ),
    ("belfry account list", Prints(&[0], &["carol@example.test"])),
    // Codes 98 and 99 judge the machine, too, and a busy one is no fault of README's. The verdicts that must hold are printed.
    ("ringer sip -sn uac", Prints(&[0, 98, 99], &["response.p99 < 20ms"])),
    ("ringer find -sn uac", Prints(&[0, 98, 99], &["1 ramp"])),
    ("ringer run cgp-r4", Prints(&[0, 98, 99], &["register: kept: failed == 0", "calls: kept: failed == 0"])),
    ("ringer xmpp 127.0.0.1", Prints(&[0, 98], &["kept: lost == 0", "kept: unseen == 0"])),
    ("ringer find xmpp", Prints(&[0, 98, 99], &["1 ramp"])),
    (
        "ringer run jabber-100k",
        Prints(
            &[0, 98, 99],
            &["users: kept: failed == 0", "users: kept: lost == 0", "users: not judged: growth < 1%/h"],
        ),
    ),
    ("python3 examples/ivr/ask-digit.py", Terminal("application", "http://127.0.0.1:8000/ask-digit.xml")),
    ("curl --user", Prints(&[0], &["\"phone_number\":\"+1234\""])),
    ("grep -c pass", Prints(&[0], &["300"])),
    // grep's own way to say that there is none.
    ("grep -c fail", Prints(&[1], &["0"])),
    ("ringer sip -sf crates/lab/plans/gather.xml", Prints(&[0, 98], &["call length"])),
    ("profanity", Terminal("alice's chat", "Type '/help'")),
    (
        "/connect alice",
        Typed(
            "alice's chat",
            &[
                Sees("alice's chat", "Enter password"),
                Types("alice's chat", "secret-a\r"),
                Sees("alice's chat", "logged in successfully"),
            ],
        ),
    ),
    ("profanity", Terminal("bob's chat", "Type '/help'")),
    (
        "/connect bob",
        Typed(
            "bob's chat",
            &[
                Sees("bob's chat", "Enter password"),
                Types("bob's chat", "secret-b\r"),
                Sees("bob's chat", "logged in successfully"),
            ],
        ),
    ),
    ("/msg bob", Typed("alice's chat", &[Sees("bob's chat", "chat message: alice@example.test")])),
    ("/win 2", Typed("bob's chat", &[Sees("bob's chat", "Hello, Bob")])),
    ("/msg alice", Typed("bob's chat", &[Sees("alice's chat", "Hello, Alice")])),
];

#[test]
fn every_line_of_readme_does_what_it_says() {
    let readme = readme();
    for (line, reason) in NOT_COMMANDS {
        assert!(readme.contains(&format!("\n    {line}")), "README has no {line:?} any more ({reason})");
    }
    let mut special: VecDeque<&(&str, How)> = SPECIAL.iter().collect();
    let mut shorter: Vec<_> = SHORTER.iter().collect();
    let mut shell = Shell::start();
    for line in command_lines(&readme) {
        let mut run = line.clone();
        if let Some(at) = shorter.iter().position(|(begins, ..)| line.starts_with(begins)) {
            run = shortened(&readme, &line, shorter.remove(at));
        }
        let how = special.front().filter(|(begins, _)| line.starts_with(begins)).map(|(_, how)| how);
        if how.is_some() {
            special.pop_front();
        }
        match how {
            None => shell.run(&run, &[0], &[]),
            Some(Prints(codes, words)) => shell.run(&run, codes, words),
            Some(Terminal(name, ready)) => shell.open(name, &run, ready),
            Some(Typed(terminal, then)) => shell.type_line(terminal, &run, then),
        }
    }
    let left: Vec<&str> = special.iter().map(|(begins, _)| *begins).collect();
    assert!(left.is_empty(), "README has no such lines in this order any more: {left:?}");
    assert!(shorter.is_empty(), "README has no such lines any more: {shorter:?}");
    assert!(shell.text("node").contains("web chat     ws://127.0.0.1:5280/"), "{}", shell.text("node"));
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn readme() -> String {
    std::fs::read_to_string(repository().join("README.md")).expect("README.md")
}

/// The lines of the indented blocks, without comments and with their continuations, except blocks that are no commands.
fn command_lines(readme: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut is_continued = false;
    let mut is_skipped = false;
    let mut was_text = true;
    for line in readme.lines() {
        let Some(code) = line.strip_prefix("    ") else {
            // An empty line between two indented ones is inside the block.
            was_text |= !line.is_empty();
            continue;
        };
        if was_text {
            is_skipped = NOT_COMMANDS.iter().any(|(first, _)| code.starts_with(first));
        }
        was_text = false;
        if is_skipped {
            continue;
        }
        let code = code.split("  #").next().unwrap_or(code).trim_end();
        match lines.last_mut().filter(|_| is_continued) {
            Some(last) => *last += &format!("\n{code}"),
            None => lines.push(code.to_owned()),
        }
        is_continued = code.ends_with('\\');
    }
    lines
}

/// The line as README says that it may be shortened.
fn shortened(readme: &str, line: &str, (begins, short, long): &(&str, &str, &str)) -> String {
    assert!(
        readme.contains(&format!("`{short}`")),
        "README does not say that {short:?} makes {begins:?} shorter"
    );
    if long.is_empty() {
        return format!("{line} {short}");
    }
    assert!(line.contains(long), "{line:?} has no {long:?}");
    line.replace(long, short)
}

/// bash, whose lines come by a pipe; their output goes to a file. It ends with all that it started.
struct Shell {
    folder: TempDir,
    lines: File,
    /// Keys of the shell itself: nothing is ever typed.
    _keys: File,
    /// The input of the terminals, by name.
    terminals: Vec<(String, File)>,
    child: Child,
    number: usize,
}

impl Shell {
    fn start() -> Shell {
        let folder = TempDir::new().expect("a temporary folder");
        clone(folder.path());
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
        let mut shell = Shell { folder, lines, _keys: keys, terminals: Vec::new(), child, number: 0 };
        shell.run("shopt -s expand_aliases", &[0], &[]);
        shell.run(&format!("python3 -c '{LOOPBACK_UP}'"), &[0], &[]);
        shell
    }

    fn run(&mut self, line: &str, codes: &[i32], words: &[&str]) {
        let began = lines_in(&self.log("shell")).len();
        self.number += 1;
        let mark = format!("@@ line {} ended with ", self.number);
        write!(self.lines, "{line}\ncode=$?; echo; echo \"{mark}$code\"\n").expect("the shell reads");
        let mut code = None;
        let ended = || {
            let lines = lines_in(&self.log("shell"));
            code = lines.iter().find_map(|line| line.strip_prefix(&mark)?.parse().ok());
            code.is_some()
        };
        wait_until(&format!("the end of {line:?}"), PATIENCE, ended, || self.tails());
        let printed = lines_in(&self.log("shell"))[began..].join("\n");
        let is_right = code.is_some_and(|code| codes.contains(&code));
        assert!(
            is_right,
            "{line:?} ended with {code:?}, expected one of {codes:?}:\n{printed}\n{}",
            self.tails()
        );
        for word in words {
            assert!(printed.contains(word), "{line:?} did not print {word:?}:\n{printed}\n{}", self.tails());
        }
    }

    /// A program that stays, in a terminal of its own.
    fn open(&mut self, name: &str, line: &str, ready: &str) {
        let file = name.replace([' ', '\''], "-");
        self.terminals.push((name.to_owned(), pipe(&self.folder.path().join(format!("{file}.keys")))));
        let line = line.replace('\'', "'\\''");
        let terminal = format!(
            "script --quiet --flush --return --command 'stty rows 40 cols 160; {line}' {file}.log < {file}.keys > /dev/null &"
        );
        self.run(&terminal, &[0], &[]);
        self.see(name, ready);
    }

    fn type_line(&mut self, terminal: &str, line: &str, then: &[Do]) {
        self.type_keys(terminal, &format!("{line}\r"));
        for step in then {
            match step {
                Types(terminal, keys) => self.type_keys(terminal, keys),
                Sees(terminal, words) => self.see(terminal, words),
            }
        }
    }

    fn type_keys(&mut self, terminal: &str, keys: &str) {
        let known = self.terminals.iter_mut().find(|(name, _)| name == terminal);
        let (_, pipe) = known.expect("README opens the terminal first");
        pipe.write_all(keys.as_bytes()).expect("the terminal reads");
    }

    fn see(&self, terminal: &str, words: &str) {
        let is_shown_or_over = || {
            let text = self.text(terminal);
            text.contains(words) || text.contains(OVER)
        };
        let what = format!("{words:?} in the terminal of {terminal}");
        wait_until(&what, PATIENCE, is_shown_or_over, || self.tails());
        assert!(self.text(terminal).contains(words), "{terminal} ended before {words:?}\n{}", self.tails());
    }

    /// All that a terminal has shown, without what moves its cursor and colours its text.
    fn text(&self, terminal: &str) -> String {
        plain(&lines_in(&self.log(&terminal.replace([' ', '\''], "-"))).join("\n"))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    fn tails(&self) -> String {
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

/// In the place of cargo: the release build is there.
const CARGO: &str = "#!/bin/sh\ncase \"$1\" in\n    build) exit 0 ;;\n    run) while [ \"$1\" != -- ]; do shift; done; shift\n        \
    exec target/release/belfry \"$@\" ;;\nesac\nexit 2\n";

/// In the namespace every process is root already.
const SUDO: &str = "#!/bin/sh\nexec \"$@\"\n";

/// Makes the parts of a clone that README's lines need, and the programs.
fn clone(folder: &Path) {
    for part in ["Makefile", "belfry.toml", "tools", "examples", "crates/lab/plans"] {
        let to = folder.join(part);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("the test's folder is writable");
        let copied = Command::new("cp").arg("-r").arg(repository().join(part)).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "{part} cannot be copied");
    }
    for (name, text) in [("cargo", CARGO), ("sudo", SUDO)] {
        let path = folder.join("bin").join(name);
        std::fs::create_dir_all(folder.join("bin")).expect("the test's folder is writable");
        std::fs::write(&path, text).expect("the test's folder is writable");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("our own file");
    }
    let test = std::env::current_exe().expect("a running test has a path");
    let built = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
    std::fs::create_dir_all(folder.join("target/release")).expect("the test's folder is writable");
    for name in ["belfry", "ringer"] {
        let program = built.join(name);
        assert!(
            program.is_file(),
            "{} is not built: run `cargo build --workspace --bins`",
            program.display()
        );
        std::os::unix::fs::symlink(program, folder.join("target/release").join(name)).expect("a link");
    }
    // Else profanity asks at its first start whether to show it.
    std::fs::create_dir_all(folder.join(".config/profanity")).expect("the test's folder is writable");
    std::fs::write(folder.join(".config/profanity/profrc"), "[ui]\nsplash=true\n")
        .expect("the test's folder is writable");
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

#[test]
fn lines_are_those_of_the_blocks_that_are_commands() {
    let text = "# A\n\n    make demo\n    make test\n\ntext\n\n    one  # a comment\n\n    two \\\n        --more  # b\n\ntext\n\n    [xmpp]\n    a = 1\n";
    assert_eq!(command_lines(text), ["one", "two \\\n    --more"]);
    assert_eq!(plain("\x1b[1;2Ha\x1b(Bb\x1b]0;t\x07c\r"), " a b c ");
}
