//! `belfry store copy`: from the file to PostgreSQL and back, and its failures.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::place::Place;
use super::psql::Session;

/// A place whose other configuration, `server.toml`, names a database of PostgreSQL; and its URL.
fn place() -> (Place, String) {
    let (place, url) = (Place::new(), interop::new_postgres_database());
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("server.toml", &format!("{config}[store]\nurl = \"{url}\"\n"));
    place.belfry_with(&["account", "import", "-"], "alice,secret,Alice\nbob@other.test,secret\n").good();
    place.belfry(&["account", "alias", "add", "boss", "alice"]).good();
    place.belfry(&["route", "add", "gw", "prefix:00", "sip:192.0.2.7"]).good();
    (place, url)
}

fn files(place: &Place) -> Vec<String> {
    let files = std::fs::read_dir(place.path(".")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains(".db")).collect();
    names.sort();
    names
}

#[test]
fn a_node_moves_to_postgresql_and_back() {
    let (place, url) = place();
    let file = "sqlite:data/belfry.db";
    let copied = place.belfry(&["store", "copy", "--from", file, "--to", &url]).good();
    let row = |table: &str| copied.lines().find(|line| line.starts_with(table)).unwrap().to_owned();
    for (table, rows) in [("domain ", "2"), ("account ", "2"), ("alias ", "1"), ("route ", "1")] {
        assert!(row(table).ends_with(&format!(" {rows}")), "{copied}");
    }
    assert!(row("copied: ").contains("both databases have as many"), "{copied}");
    for command in [&["account", "list", "--json"][..], &["account", "alias", "list"], &["route", "list"]] {
        let before = place.belfry(command).good();
        let after = place.belfry(&[&["--config", "server.toml"], command].concat()).good();
        assert_eq!(before, after);
    }
    place.belfry(&["--config", "server.toml", "account", "disable", "boss"]).good();
    let back = ["store", "copy", "--from", &url, "--to", "sqlite:back.db", "--json"];
    let rows: serde_json::Value = serde_json::from_str(&place.belfry(&back).good()).unwrap();
    assert_eq!((&rows["account"], &rows["xmpp_room"]), (&2.into(), &0.into()));
    assert_eq!(files(&place), ["back.db"]);
    std::fs::rename(place.path("back.db"), place.path("data/belfry.db")).unwrap();
    assert!(place.belfry(&["account", "show", "alice"]).good().contains("disabled"));

    // A second copy would mix two databases.
    place
        .belfry(&["store", "copy", "--from", file, "--to", &url])
        .failed(1, "it has rows in domain, account");
    place.belfry(&back[..6]).good();
    place.belfry(&back[..6]).failed(1, "back.db: it is there already");
}

#[test]
fn an_end_that_is_wrong_or_missing_is_an_error_without_its_password() {
    let (place, url) = place();
    let copy = |from: &str, to: &str| place.belfry(&["store", "copy", "--from", from, "--to", to]);
    copy("sqlite:none.db", &url).failed(1, "there is no database none.db");
    let wrong = copy("sqlite:data/belfry.db", "mysql://belfry:hush@host/database");
    assert!(!wrong.err.contains("hush"), "{wrong:?}");
    wrong.failed(2, "--to: not the name of a database; expected sqlite:PATH or postgres://");
    let away = copy("sqlite:data/belfry.db", "postgres://belfry:hush@localhost:1/none");
    assert!(!away.err.contains("hush"), "{away:?}");
    away.failed(1, "postgres://localhost/none: the database cannot be used");
    assert!(files(&place).is_empty());
}

#[test]
fn a_copy_on_a_full_disk_leaves_nothing() {
    let place = Place::new();
    let lines: String = (0..2_000).map(|number| format!("user{number:05},secret\n")).collect();
    place.belfry_with(&["account", "import", "-"], &lines).good();
    let copy = ["store", "copy", "--from", "sqlite:data/belfry.db", "--to", "sqlite:new.db"];
    // Files cannot grow beyond so many blocks of 512 bytes (POSIX `ulimit -f`); the schema alone takes more than half.
    let script = "trap '' XFSZ; ulimit -f 700; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_belfry")]).args(copy).current_dir(place.path("."));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("new.db: "), "{error}");
    assert!(error.contains("disk"), "{error}");
    assert!(files(&place).is_empty());
    place.belfry(&copy).good();
    assert_eq!(files(&place), ["new.db"]);
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let (place, url) = place();
    place.belfry(&["store", "copy", "--from", "sqlite:data/belfry.db", "--to", &url]).good();
    let mut session = Session::start(&url);
    // The copy waits for this before its first row.
    assert_eq!(
        session.select("BEGIN; LOCK TABLE domain IN ACCESS EXCLUSIVE MODE; SELECT 'locked';"),
        "locked"
    );
    let mut copy =
        place.command(&["store", "copy", "--from", &url, "--to", "sqlite:back.db"]).spawn().unwrap();
    let waiting = "SELECT pg_stat_clear_snapshot(); SELECT count(*) FROM pg_stat_activity \
                   WHERE application_name = 'copy of belfry' AND wait_event_type = 'Lock';";
    wait::until(
        "the copy waits for the lock",
        Duration::from_secs(60),
        || {
            session.select(waiting);
            (session.line() == "1").then_some(())
        },
        String::new,
    );
    assert!(Command::new("kill").args(["-INT", &copy.id().to_string()]).status().unwrap().success());
    let mut errors = BufReader::new(copy.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.starts_with("stopping after this batch")));
    session.end();
    assert_eq!(
        errors.last().unwrap(),
        "belfry: interrupted; nothing was written; the same command begins anew"
    );
    assert_eq!(copy.wait().unwrap().code(), Some(1));
    assert!(files(&place).is_empty());
}
