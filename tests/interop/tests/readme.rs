//! README's command lines, each as it is written, in their order, in one shell (`interop::Shell`).
//!
//! The built binaries stand where a release build puts them; a `cargo` of the test's own takes `cargo build` for done.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::{Ended, Shell, link_programs, write_program};

/// For one line. The longest takes a minute on two idle cores, unoptimised.
const PATIENCE: Duration = Duration::from_secs(400);

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
fn every_line_of_readme_works_as_described() {
    let readme = readme();
    for (line, reason) in NOT_COMMANDS {
        assert!(readme.contains(&format!("\n    {line}")), "README has no {line:?} any more ({reason})");
    }
    let mut special: VecDeque<&(&str, How)> = SPECIAL.iter().collect();
    let mut shorter: Vec<_> = SHORTER.iter().collect();
    let mut shell = Shell::start(PATIENCE, clone);
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
            None => run_line(&mut shell, &run, &[0], &[]),
            Some(Prints(codes, words)) => run_line(&mut shell, &run, codes, words),
            Some(Terminal(name, ready)) => {
                shell.open(name, &run);
                shell.see(name, ready);
            }
            Some(Typed(terminal, then)) => type_line(&mut shell, terminal, &run, then),
        }
    }
    let left: Vec<&str> = special.iter().map(|(begins, _)| *begins).collect();
    assert!(left.is_empty(), "README has no such lines in this order any more: {left:?}");
    assert!(shorter.is_empty(), "README has no such lines any more: {shorter:?}");
    assert!(shell.text("node").contains("web chat     ws://127.0.0.1:5280/"), "{}", shell.text("node"));
}

/// Times that a line is run whose node refused something.
const TRIES: usize = 5;

/// Runs a line, which must end with one of `codes` and print all of `words`. Again if the node refused something meanwhile: an unoptimised
/// one on a busy machine is behind now and then, and answers 503 as it should.
fn run_line(shell: &mut Shell, line: &str, codes: &[i32], words: &[&str]) {
    for _ in 1..TRIES {
        let Ended { code, printed } = shell.run(line);
        let printed = printed.join("\n");
        if codes.contains(&code) && words.iter().all(|word| printed.contains(word)) {
            return;
        }
        assert!(printed.contains("503"), "{line:?} ended with {code}:\n{printed}\n{}", shell.tails());
        // The calls of the last time are in it.
        shell.expect("test ! -e ask-digit.log || truncate --size 0 ask-digit.log", &[0], &[]);
    }
    shell.expect(line, codes, words);
}

fn type_line(shell: &mut Shell, terminal: &str, line: &str, then: &[Do]) {
    shell.type_keys(terminal, &format!("{line}\r"));
    for step in then {
        match step {
            Types(terminal, keys) => shell.type_keys(terminal, keys),
            Sees(terminal, words) => shell.see(terminal, words),
        }
    }
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

/// In the place of cargo: the release build is there.
const CARGO: &str = "#!/bin/sh\ncase \"$1\" in\n    build) exit 0 ;;\n    run) while [ \"$1\" != -- ]; do shift; done; shift\n        \
    exec target/release/belfry \"$@\" ;;\nesac\nexit 2\n";

/// Makes the parts of a clone that README's lines need, and the programs.
fn clone(folder: &Path) {
    for part in ["Makefile", "belfry.toml", "tools", "examples", "crates/lab/plans"] {
        let to = folder.join(part);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("the test's folder is writable");
        let copied = Command::new("cp").arg("-r").arg(repository().join(part)).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "{part} cannot be copied");
    }
    write_program(&folder.join("bin/cargo"), CARGO);
    link_programs(&folder.join("target/release"));
    // Else profanity asks at its first start whether to show it.
    std::fs::create_dir_all(folder.join(".config/profanity")).expect("the test's folder is writable");
    std::fs::write(folder.join(".config/profanity/profrc"), "[ui]\nsplash=true\n")
        .expect("the test's folder is writable");
}

#[test]
fn lines_are_those_of_the_blocks_that_are_commands() {
    let text = "# A\n\n    make demo\n    make test\n\ntext\n\n    one  # a comment\n\n    two \\\n        --more  # b\n\ntext\n\n    [xmpp]\n    a = 1\n";
    assert_eq!(command_lines(text), ["one", "two \\\n    --more"]);
}
