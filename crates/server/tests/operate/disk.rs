//! Every command that writes: on a full disk, in a folder that is read-only, ended half-way, with an output that is full.

use std::fs::{File, Permissions, set_permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::place::{Place, ProgramOutput};

/// Commands that write the record, with what they read from standard input.
const WRITES: [(&[&str], &str); 13] = [
    (&["account", "add", "carol", "--password-stdin"], "secret\n"),
    (&["account", "passwd", "alice", "--password-stdin"], "other\n"),
    (&["account", "set", "alice", "--name", "Alice"], ""),
    (&["account", "disable", "alice"], ""),
    (&["account", "enable", "alice"], ""),
    (&["account", "alias", "add", "boss", "alice"], ""),
    (&["account", "remove", "bob"], ""),
    (&["account", "import", "-"], "dave,x\n"),
    (&["domain", "add", "other.test"], ""),
    (&["domain", "remove", "third.test"], ""),
    (&["route", "add", "gw", "prefix:00", "sip:192.0.2.7"], ""),
    (&["route", "remove", "old"], ""),
    (&["xmpp", "invite", "example.test"], ""),
];

/// Longer than any of them takes on a busy machine; one that hangs is ended.
const PATIENCE: Duration = Duration::from_secs(20);

fn place() -> Place {
    let place = Place::new();
    place.belfry_with(&["account", "import", "-"], "alice,secret\nbob,secret\n").good();
    place.belfry(&["domain", "add", "third.test"]).good();
    place.belfry(&["route", "add", "old", "prefix:01", "sip:192.0.2.7"]).good();
    place
}

/// `belfry` whose files cannot grow beyond so many blocks of 512 bytes (POSIX `ulimit -f`): like a full disk,
/// but without root.
fn limited(place: &Place, blocks: u32, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_belfry")]).args(args).current_dir(place.path("."));
    command.env_remove("BELFRY_CONFIG").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `belfry` with `data` on a disk of its own, which has an account and is then full to the last page. Only the command has the disk.
fn on_full_disk(place: &Place, args: &[&str]) -> Command {
    const FILL: &str = r#"
        mount -t tmpfs -o size=600k tmpfs data || exit 90
        echo alice,secret | "$0" account import - >/dev/null 2>&1 || exit 91
        dd if=/dev/zero of=data/filler bs=4k 2>/dev/null
        exec "$0" "$@"
    "#;
    let is_root = place.path(".").metadata().unwrap().uid() == 0;
    let user: &[&str] = if is_root { &[] } else { &["--user", "--map-current-user", "--keep-caps"] };
    let mut command = Command::new("unshare");
    command.args(user).args(["--mount", "sh", "-c", FILL, env!("CARGO_BIN_EXE_belfry")]).args(args);
    command.current_dir(place.path(".")).env_remove("BELFRY_CONFIG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The output of the command; `None`: it had to be killed.
fn output_of(child: Child) -> Option<ProgramOutput> {
    let id = child.id().to_string();
    let (send, receive) = sync_channel(1);
    let wait = move || drop(send.send(child.wait_with_output()));
    std::thread::Builder::new().name("waits".into()).spawn(wait).unwrap();
    let Ok(output) = receive.recv_timeout(PATIENCE) else {
        Command::new("kill").args(["-KILL", &id]).status().unwrap();
        return None;
    };
    let output = output.unwrap();
    Some(ProgramOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    })
}

fn run(mut command: Command, input: &str) -> Option<ProgramOutput> {
    let mut child = command.spawn().unwrap();
    // A command that does not read may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    output_of(child)
}

#[test]
fn each_command_fails_on_a_full_disk_and_works_when_repeated_with_space() {
    let place = place();
    let before = listed(&place);
    for (args, input) in WRITES {
        let result = run(limited(&place, 8, args), input).unwrap_or_else(|| panic!("{args:?} hangs"));
        assert_eq!(result.code, 1, "{args:?}: {result:?}");
        assert!(result.err.contains("data/belfry.db: cannot read or write"), "{args:?}: {}", result.err);
        assert!(
            result.err.contains("check the disk, the directory and its owner"),
            "{args:?}: {}",
            result.err
        );
    }
    assert_eq!(listed(&place), before, "nothing is changed");
    for (args, input) in WRITES {
        place.belfry_with(args, input).good();
    }
}

/// SQLite cannot enlarge the index of its log then, which even those that read need, and calls that an I/O error.
#[test]
fn a_disk_that_is_full_to_the_last_page_is_called_full() {
    let place = Place::new();
    std::fs::create_dir(place.path("data")).unwrap();
    for args in
        [&["account", "list"][..], &["account", "disable", "alice"], &["domain", "add", "b.test"], &["serve"]]
    {
        let result = run(on_full_disk(&place, args), "").expect("it ends");
        result.failed(1, "data/belfry.db: the disk is full; free some space there");
    }
}

/// The next run would refuse to write over the empty one.
#[test]
fn a_configuration_on_a_full_disk_leaves_no_file_and_is_made_by_the_same_command() {
    let place = Place::new();
    let args = ["init", "--yes", "--domain", "a.test", "--dir", "new"];
    run(limited(&place, 0, &args), "").expect("it ends").failed(1, "new/belfry.toml: cannot be written");
    assert!(!place.path("new/belfry.toml").exists());
    assert!(place.belfry(&args).good().contains("wrote new/belfry.toml"));
}

/// Its file is no database, and the empty one of a failure must not stand in the way of the next run.
#[test]
fn a_secret_on_a_full_disk_leaves_no_file_and_is_made_by_the_same_command() {
    let place = place();
    let args = ["farm", "secret", "farm.secret"];
    let result = run(limited(&place, 0, &args), "").expect("it ends");
    result.failed(
        1,
        "farm.secret: cannot be written, and is removed; check the disk, and give the same command again",
    );
    assert!(!place.path("farm.secret").exists());
    place.belfry(&args).good();
    place.belfry(&args).failed(1, "farm.secret: is there already, and a farm may use it: name another file");
    let command = read_only(&place, &["farm", "secret", "data/farm.secret"]);
    set_permissions(place.path("data"), Permissions::from_mode(0o555)).unwrap();
    run(command, "").unwrap().failed(1, "check the disk, the directory and its owner");
    set_permissions(place.path("data"), Permissions::from_mode(0o700)).unwrap();
}

fn listed(place: &Place) -> [String; 4] {
    [
        &["account", "list", "--json"][..],
        &["account", "alias", "list"],
        &["domain", "list"],
        &["route", "list"],
    ]
    .map(|args| place.belfry(args).good())
}

/// A command that may read the database and write nowhere. Root runs it as another user, because root may write anywhere.
fn read_only(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(args);
    if place.path(".").metadata().unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    command
}

#[test]
fn a_read_only_folder_is_an_error_of_each_command() {
    let place = place();
    set_permissions(place.path("."), Permissions::from_mode(0o755)).unwrap();
    set_permissions(place.path("data/belfry.db"), Permissions::from_mode(0o444)).unwrap();
    set_permissions(place.path("data"), Permissions::from_mode(0o555)).unwrap();
    for (args, input) in WRITES {
        let result = run(read_only(&place, args), input).unwrap_or_else(|| panic!("{args:?} hangs"));
        assert_eq!(result.code, 1, "{args:?}: {result:?}");
        assert!(
            result.err.contains("check the disk, the directory and its owner"),
            "{args:?}: {}",
            result.err
        );
    }
    let result = run(read_only(&place, &["account", "export", "out.xml"]), "").unwrap();
    result.failed(1, "cannot read or write");
    let result = run(read_only(&place, &["serve"]), "").expect("a node that cannot write does not start");
    assert_eq!(result.code, 1, "{result:?}");
    assert!(result.err.contains("check ["), "{}", result.err);
    set_permissions(place.path("data"), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn an_import_on_a_full_disk_prints_the_written_accounts_and_how_to_resume() {
    let place = place();
    let csv: String = (0..5_000).map(|number| format!("user{number:04},pw\n")).collect();
    place.write("users.csv", &csv);
    // Room for the first page of the log, not for thousands of accounts.
    let result = run(limited(&place, 256, &["account", "import", "users.csv"]), "").expect("it ends");
    assert_eq!(result.code, 1, "{result:?}");
    let hint = "accounts in before it: 0; when that is mended give the same command again";
    assert!(result.err.contains(hint), "{}", result.err);
    let result = place.belfry(&["account", "import", "users.csv"]).good();
    assert!(result.contains("5 000 added"), "{result}");
}

#[test]
fn an_import_from_a_pipe_that_stays_open_ends_at_once_when_the_disk_is_full() {
    let place = place();
    let mut child = limited(&place, 8, &["account", "import", "-"]).spawn().unwrap();
    let open = child.stdin.take();
    output_of(child).expect("it does not wait for more lines").failed(1, "cannot read or write");
    drop(open);
}

/// The command has opened the record, which makes its log.
fn until_opened(place: &Place, child: &mut Child) {
    let is_open = || {
        assert!(child.try_wait().unwrap().is_none(), "ended too early");
        place.path("data/belfry.db-wal").exists().then_some(())
    };
    wait::until("the database is opened", Duration::from_secs(20), is_open, String::new);
}

#[test]
fn an_interrupt_ends_an_import_that_waits_for_lines() {
    let place = place();
    let mut child = place.command(&["account", "import", "-"]).spawn().unwrap();
    let mut open = child.stdin.take().unwrap();
    open.write_all(b"carol,x\n").unwrap();
    let pid = child.id().to_string();
    // Interrupts are caught before the record is opened.
    until_opened(&place, &mut child);
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    output_of(child).expect("one interrupt is enough").failed(1, "interrupted; accounts in: ");
    drop(open);
}

#[test]
fn a_killed_import_is_completed_by_the_same_command() {
    let place = place();
    let mut child = place.command(&["account", "import", "-"]).spawn().unwrap();
    let mut open = child.stdin.take().unwrap();
    open.write_all(b"carol,x\ndave,x\n").unwrap();
    until_opened(&place, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let result = place.belfry_with(&["account", "import", "-"], "carol,x\ndave,x\n").good();
    assert!(result.contains("accounts: 2 in "), "{result}");
    assert_eq!(place.belfry(&["account", "list", "--json"]).good().lines().count(), 4);
}

#[test]
fn an_export_writes_a_complete_file_or_no_file() {
    let place = place();
    let keys = "x".repeat(200);
    let csv: String = (0..300).map(|number| format!("user{number:04}{keys},pw\n")).collect();
    place.belfry_with(&["account", "import", "-"], &csv).good();
    // The record is only read: 64 KiB are enough for its index in memory, and not for the file.
    let result = run(limited(&place, 128, &["account", "export", "out.xml"]), "").expect("it ends");
    result.failed(1, "out.xml: cannot be written: File too large");
    assert!(!place.path("out.xml").exists() && !place.path("out.xml.part").exists());
    // Left by one that was killed.
    place.write("out.xml.part", "<server-data");
    place.belfry(&["account", "export", "out.xml"]).good();
    let written = std::fs::read_to_string(place.path("out.xml")).unwrap();
    assert!(written.ends_with("</server-data>\n") && !place.path("out.xml.part").exists());
    place
        .belfry(&["account", "export", "nowhere/out.xml"])
        .failed(1, "nowhere/out.xml: cannot be written: No such file");
}

#[test]
fn an_output_that_is_full_is_an_error_and_no_panic() {
    let place = place();
    for args in [
        &["account", "list"][..],
        &["account", "list", "--json"],
        &["account", "show", "alice"],
        &["domain", "list"],
        &["domain", "list", "--json"],
        &["route", "list", "--json"],
        &["calls"],
        &["check-config"],
    ] {
        let mut command = place.command(args);
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        run(command, "").expect("it ends").failed(1, "cannot write the answer: No space left on device");
    }
}
