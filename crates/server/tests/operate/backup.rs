//! Backups and restores by the built program: beside a node, into the other engine, on a full disk, ended half-way.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::fake::FakeNode;
use super::place::{Place, ProgramOutput};
use super::psql::Session;

const BACKUP: [&str; 2] = ["backup", "kept.backup"];
const RESTORE: [&str; 2] = ["restore", "kept.backup"];

/// A place with accounts, and files of users.
fn place() -> Place {
    let place = Place::new();
    place.belfry_with(&["account", "import", "-"], "alice,secret,Alice\nbob@other.test,secret\n").good();
    place.belfry(&["account", "alias", "add", "boss", "alice"]).good();
    std::fs::create_dir_all(place.path("data/uploads/0a")).unwrap();
    place.write("data/uploads/0a/picture", "a picture");
    place
}

/// The same place with a database of PostgreSQL, by the configuration `server.toml`; and its URL.
fn with_server(place: &Place) -> String {
    let url = interop::new_postgres_database();
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("server.toml", &format!("{config}[store]\nurl = \"{url}\"\n"));
    url
}

fn accounts(place: &Place) -> String {
    place.belfry(&["account", "list", "--json"]).good() + &place.belfry(&["account", "show", "boss"]).good()
}

/// The files in the place besides the configuration.
fn files(place: &Place) -> Vec<String> {
    let names = |folder: &str| -> Vec<String> {
        let files = std::fs::read_dir(place.path(folder)).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    let mut names = [names("."), names("data")].concat();
    names.retain(|name| !name.ends_with(".toml") && name != "data");
    names.sort();
    names
}

#[test]
fn a_database_is_backed_up_beside_a_node_and_restored_without() {
    let place = place();
    let before = accounts(&place);
    let node = FakeNode::start(place.config());
    let told = place.belfry(&[&BACKUP[..], &["--files"]].concat()).good();
    assert!(told.contains("uploads: 1 files, 9 bytes\nrecordings: 0 files, 0 bytes\nbacked up: "), "{told}");
    assert_eq!(place.path("kept.backup").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    place.belfry(&RESTORE).failed(1, "a node runs and has the database in memory");
    drop(node);
    let checked = place.belfry(&[&BACKUP[..], &["--check", "--json"]].concat()).good();
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!((&checked["rows"]["account"], &checked["files"]["uploads"]["bytes"]), (&2.into(), &9.into()));
    place.belfry(&BACKUP).failed(1, "kept.backup: it is there already");

    place.belfry(&["account", "remove", "alice"]).good();
    place.write("data/uploads/0a/other", "another");
    place.belfry(&RESTORE).failed(1, "it has rows in domain, account");
    let told = place.belfry(&[&RESTORE[..], &["--replace"]].concat()).good();
    assert!(told.contains("restored: ") && told.contains("kept: data/belfry.db.before-2"), "{told}");
    assert_eq!(accounts(&place), before);
    assert_eq!(std::fs::read_to_string(place.path("data/uploads/0a/picture")).unwrap(), "a picture");
    assert!(!place.path("data/uploads/0a/other").exists());
    let kept: Vec<String> = files(&place).into_iter().filter(|name| name.contains("before-")).collect();
    assert!(kept.len() == 2 && kept[1].starts_with("uploads.before-"), "{kept:?}");
    // Neither a node nor another place needs to be there.
    let other = Place::new();
    std::fs::copy(place.path("kept.backup"), other.path("kept.backup")).unwrap();
    other.belfry(&RESTORE).good();
    assert_eq!(accounts(&other), before);
}

#[test]
fn a_backup_moves_a_node_to_postgresql_and_back() {
    let place = place();
    let before = accounts(&place);
    with_server(&place);
    let with = |command: &[&str]| place.belfry(&[&["--config", "server.toml"], command].concat());
    place.belfry(&BACKUP).good();
    with(&RESTORE).good();
    assert_eq!(
        with(&["account", "list", "--json"]).good() + &with(&["account", "show", "boss"]).good(),
        before
    );
    with(&["account", "disable", "bob@other.test"]).good();
    with(&RESTORE).failed(1, "it has rows in domain");
    with(&["backup", "moved.backup"]).good();
    let told = with(&[&RESTORE[..], &["--replace"]].concat()).good();
    assert!(told.contains("kept: the schema belfry before-2"), "{told}");
    place.belfry(&["restore", "moved.backup", "--replace"]).good();
    assert!(place.belfry(&["account", "show", "bob@other.test"]).good().contains("disabled"));
}

#[test]
fn an_incomplete_or_damaged_backup_changes_nothing() {
    let place = place();
    let before = accounts(&place);
    place.belfry(&BACKUP).good();
    let whole = std::fs::read(place.path("kept.backup")).unwrap();
    let longer = [&whole[..], b"x"].concat();
    std::fs::write(place.path("kept.backup"), longer).unwrap();
    place
        .belfry(&[&BACKUP[..], &["--check"]].concat())
        .failed(1, "kept.backup: it is damaged (something follows its end)");
    std::fs::write(place.path("kept.backup"), &whole[..whole.len() / 2]).unwrap();
    place.belfry(&[&BACKUP[..], &["--check"]].concat()).failed(1, "kept.backup: it is cut short");
    place.belfry(&[&RESTORE[..], &["--replace"]].concat()).failed(1, "kept.backup: it is cut short");
    place.belfry(&["restore", "none", "--replace"]).failed(1, "none: cannot read or write");
    place.belfry(&["restore", "belfry.toml", "--replace"]).failed(1, "belfry.toml: it is ");
    place.belfry(&["backup", "-", "--check"]).failed(2, "--check reads a file");
    place.belfry(&["backup", "x", "--check", "--files"]).failed(2, "cannot be used with");
    place.belfry(&["backup", "none/x"]).failed(1, "none/x: cannot read or write");
    assert_eq!(accounts(&place), before);
    assert!(!files(&place).iter().any(|name| name.contains("before") || name.contains("part")));
    let empty = Place::new();
    empty.belfry(&BACKUP).failed(1, "there is no database");
    assert!(!empty.path("kept.backup").exists());
}

/// `belfry` whose files cannot grow beyond so many blocks of 512 bytes (POSIX `ulimit -f`): like a full disk.
fn limited(place: &Place, blocks: u32, args: &[&str]) -> ProgramOutput {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_belfry")]).args(args).current_dir(place.path("."));
    let output = command.env_remove("BELFRY_CONFIG").stdin(Stdio::null()).output().unwrap();
    ProgramOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn many(place: &Place) {
    let lines: String = (0..2_000).map(|number| format!("user{number:05},secret\n")).collect();
    place.belfry_with(&["account", "import", "-"], &lines).good();
}

#[test]
fn a_full_disk_leaves_nothing() {
    let place = place();
    many(&place);
    let before = accounts(&place);
    limited(&place, 100, &BACKUP).failed(1, "kept.backup: cannot read or write");
    let there = files(&place);
    assert!(!there.iter().any(|name| name.contains("kept")), "{there:?}");
    place.belfry(&BACKUP).good();
    limited(&place, 300, &[&RESTORE[..], &["--replace"]].concat()).failed(1, "data/belfry.db");
    assert_eq!(accounts(&place), before);
    let there = files(&place);
    assert!(!there.iter().any(|name| name.contains("part") || name.contains("before")), "{there:?}");
    place.belfry(&[&RESTORE[..], &["--replace"]].concat()).good();
    assert_eq!(accounts(&place), before);
}

#[test]
fn a_folder_that_is_read_only_is_an_error_of_both_commands() {
    let place = place();
    place.belfry(&BACKUP).good();
    let before = accounts(&place);
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        // Root may write everywhere.
        if place.path(".").metadata().unwrap().uid() == 0 {
            command.uid(65_534).gid(65_534);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        ProgramOutput {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    };
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("kept.backup", 0o644), ("data/belfry.db", 0o666), ("data", 0o777), (".", 0o555)] {
        set(name, mode);
    }
    run(&["backup", "new.backup"]).failed(1, "new.backup: cannot read or write");
    set("data", 0o555);
    let words = "check the disk, the directory and its owner";
    run(&[&RESTORE[..], &["--replace"]].concat()).failed(1, words);
    for name in [".", "data"] {
        set(name, 0o700);
    }
    assert!(!files(&place).iter().any(|name| name.contains("new") || name.contains("before")));
    assert_eq!(accounts(&place), before);
}

#[test]
fn an_interrupted_backup_leaves_nothing_and_a_killed_one_no_file_of_its_name() {
    let place = place();
    let url = with_server(&place);
    place.belfry(&BACKUP).good();
    place.belfry(&["--config", "server.toml", "restore", "kept.backup"]).good();
    let mut session = Session::start(&url);
    // The backup waits for this before its first row.
    assert_eq!(
        session.select("BEGIN; LOCK TABLE domain IN ACCESS EXCLUSIVE MODE; SELECT 'locked';"),
        "locked"
    );
    let waiting = "SELECT pg_stat_clear_snapshot(); SELECT count(*) FROM pg_stat_activity \
                   WHERE application_name = 'copy of belfry' AND wait_event_type = 'Lock';";
    let command = ["--config", "server.toml", "backup", "new.backup"];
    let mut begin = |count: &str| {
        let child = place.command(&command).spawn().unwrap();
        wait::until(
            "the backup waits for the lock",
            Duration::from_secs(60),
            || {
                session.select(waiting);
                (session.line() == count).then_some(())
            },
            String::new,
        );
        child
    };
    let mut killed = begin("1");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(place.path("new.backup.part").exists() && !place.path("new.backup").exists());
    // The server still has the session of the killed one.
    let mut interrupted = begin("2");
    let id = interrupted.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let mut errors = BufReader::new(interrupted.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.starts_with("stopping after this batch")));
    session.end();
    let last = errors.last().unwrap();
    assert_eq!(last, "belfry: interrupted; nothing is left of it; the same command begins anew");
    assert_eq!(interrupted.wait().unwrap().code(), Some(1));
    assert!(!files(&place).iter().any(|name| name.contains("new.backup")));
    place.belfry(&command).good();
}

#[test]
fn a_backup_goes_through_a_pipe() {
    let place = place();
    many(&place);
    let mut child = place.command(&["backup", "-"]).spawn().unwrap();
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(child.wait().unwrap().success());
    std::fs::write(place.path("kept.backup"), bytes).unwrap();
    let told = place.belfry(&[&BACKUP[..], &["--check"]].concat()).good();
    assert!(told.contains("whole: "), "{told}");
    // A reader that is gone.
    let mut child = place.command(&["backup", "-"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_restore_that_was_interrupted_is_run_again_before_anything_else() {
    let place = place();
    let before = accounts(&place);
    place.belfry(&BACKUP).good();
    // As of a restore that was killed between its two renames.
    place.write("data/restore.unfinished", "");
    let words = "data/restore.unfinished: a restore was interrupted: expected a whole database: run it again";
    place.belfry(&["account", "list"]).failed(1, words);
    place.belfry(&["serve"]).failed(1, words);
    place.belfry(&[&RESTORE[..], &["--replace"]].concat()).good();
    assert_eq!(accounts(&place), before);
}
