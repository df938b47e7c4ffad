use std::fs;
use std::time::Duration;

use super::*;
use crate::ldap::MemberQuery;
use crate::{Answer, Authenticator, Credential, Hidden, Query, SourceKind, SourceSettings, Verdict};

/// All of `wonderland`.
const BCRYPT: &str = "$2y$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu";
const SHA_CRYPT: &str =
    "$6$saltsalt$pqxtaP8VN9msji06dnBCbUbaSGTOXyo9jZDqZxik1rPexoqRIW4UKuiD0ZHZchCSd7S4/HoRU8bcFbnz2ihUr.";
const SSHA: &str = "{SSHA}JQgdTqjowIvpsbtICxnkg0t7E6xzYWx0c2FsdHNhbHRzYWx0";
const SCRAM: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$KIjVe2QEmZMSVxwO8QpqUhDHxuYOXfER1PAQtzaUCMM=:z7UOoEZsx6BoXyYDRvW7B9QBsa0utqNNtn+9RTLsaWc=";

fn parse(text: &str) -> FileAccounts {
    FileAccounts::parse(text).unwrap()
}

#[test]
fn a_password_is_compared_with_each_form_of_a_secret() {
    for secret in [BCRYPT, SHA_CRYPT, SSHA, SCRAM] {
        let accounts =
            parse(&format!("# people\n\nalice:{secret}:Alice Liddell:staff, admins\nbob:{secret}\n"));
        assert!(accounts.is_password("alice", "wonderland"), "{secret}");
        assert!(accounts.is_password("bob", "wonderland"), "{secret}");
        for (user, password) in [("alice", "Wonderland"), ("alice", ""), ("carol", "wonderland"), ("", "")] {
            assert!(!accounts.is_password(user, password), "{secret} {user} {password}");
        }
        assert_eq!((accounts.display_name("alice"), accounts.display_name("bob")), ("Alice Liddell", ""));
    }
}

#[test]
fn the_example_of_the_manual_is_a_file_of_accounts() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let manual = fs::read_to_string(manual).unwrap();
    let lines = manual.lines().skip_while(|line| !line.starts_with("    # NAME:SECRET"));
    let example: Vec<&str> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    let accounts = parse(&example.join("\n"));
    assert_eq!(example.len(), 4);
    for user in ["alice", "bob", "carol"] {
        assert!(accounts.is_password(user, "wonderland"), "{user}");
    }
}

#[test]
fn keys_are_there_for_scram_and_for_a_whole_file_only() {
    let accounts = parse(&format!("alice:{SCRAM}:Alice:staff\nbob:{SCRAM}"));
    let keys = accounts.keys("alice").unwrap();
    assert_eq!((keys.iterations, &*keys.salt), (4_096, &b"saltsaltsaltsalt"[..]));
    assert!(accounts.have_keys() && accounts.keys("carol").is_none());
    assert_eq!(accounts.key_parameters().into_iter().collect::<Vec<_>>(), [((4_096, 16), 2)]);
    let mixed = parse(&format!("alice:{SCRAM}\nbob:{BCRYPT}"));
    assert!(!mixed.have_keys() && mixed.keys("bob").is_none());
}

#[test]
fn groups_of_the_file_give_roles_and_members() {
    let accounts = parse(&format!("alice:{SSHA}::staff,admins\nbob:{SSHA}::staff\ncarol:{SSHA}"));
    let roles = [(DirectoryRole::ReadOnly, "staff".into()), (DirectoryRole::Admin, "admins".into())];
    let role = |user| accounts.role(user, &roles);
    assert_eq!(role("alice"), Some(DirectoryRole::Admin));
    assert_eq!(role("bob"), Some(DirectoryRole::ReadOnly));
    assert_eq!((role("carol"), role("dave")), (None, None));
    let query = MemberQuery {
        users: ["alice", "bob", "carol", "dave"].map(Box::from).into(),
        groups: ["staff", "admins", "none"].map(Box::from).into(),
    };
    let members: [Vec<Box<str>>; 3] = [vec!["alice".into(), "bob".into()], vec!["alice".into()], vec![]];
    assert_eq!(accounts.members(&query), members);
}

#[test]
fn a_wrong_line_is_named_and_shows_no_secret() {
    let long = format!("alice:{SSHA}:{}", "x".repeat(limits::DISPLAY_NAME + 1));
    for (line, expected) in [
        ("alice", "no colon"),
        (":hush", "\"\" is no local part"),
        ("alice@a.test:hush", "is no local part"),
        ("Alice:hush", "has capital letters; expected \"alice\""),
        ("alice:hush", "a secret of an unknown form"),
        ("alice:{SHA}hush", "a secret of an unknown form"),
        ("alice:{SSHA}hush", "{SSHA} without a hash"),
        (
            "alice:$2y$31$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu",
            "a cost of 31; expected 4 to 14",
        ),
        ("alice:$2y$04$hush", "a hash of bcrypt that is none"),
        ("alice:$6$rounds=999999999$salt$hush", "other rounds than 1000 to 500000"),
        ("alice:$6$salt$hush", "a hash of SHA-512-crypt that is none"),
        ("alice:SCRAM-SHA-256$4096:c2FsdA==$hush:hush", "keys of SCRAM that are none"),
        ("alice:SCRAM-SHA-256$9999999:c2FsdA==$hush:hush", "at most 1000000 rounds"),
        (&format!("alice:{SSHA}:Alice:a:b"), "a colon behind the groups"),
        (&format!("alice:{SSHA}\nalice:{SSHA}"), "\"alice\" stands twice"),
        (&long, "a display name of more than 256 bytes"),
    ] {
        let LineFault { line: number, what } =
            FileAccounts::parse(&format!("bob:{SSHA}\n{line}")).unwrap_err();
        assert!(what.contains(expected) && !what.contains("hush"), "{line}: {what}");
        assert_eq!(number, line.lines().count() + 1, "{line}");
    }
    assert_eq!(FileAccounts::parse("# nothing\n").unwrap_err().what, "no account in it");
}

#[test]
fn a_changed_file_is_read_once_it_is_left_alone_and_never_for_the_worse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("accounts");
    fs::write(&path, format!("alice:{SSHA}\n")).unwrap();
    let settings = FileSettings { path: path.clone(), roles: Vec::new() };
    let file = WatchedFile::open("a.test", &settings).unwrap();
    let knows = |user: &str| file.current().is_password(user, "wonderland");
    assert!(knows("alice") && !file.look());
    fs::write(&path, format!("bob:{SSHA}\n")).unwrap();
    assert!(!file.look() && knows("alice"), "it may still be being written");
    assert!(file.look() && knows("bob") && !knows("alice"));
    assert_eq!(file.generation(), 1);
    for bad in ["carol:hush\n", "", "# nothing\n"] {
        fs::write(&path, bad).unwrap();
        assert!(!file.look() && !file.look() && !file.look(), "{bad}");
        assert!(knows("bob"), "the last good content counts: {bad}");
    }
    fs::remove_file(&path).unwrap();
    assert!(!file.look() && !file.look() && knows("bob"));
    fs::write(&path, format!("carol:{SSHA}\n")).unwrap();
    assert!(!file.look() && file.look() && knows("carol"));
    let mistake = WatchedFile::open("a.test", &FileSettings { path: folder.path().join("none"), ..settings });
    assert!(mistake.unwrap_err().contains("none: No such file"));
}

#[test]
fn a_file_that_others_may_read_is_found() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    for (mode, is_open) in [(0o600, false), (0o640, false), (0o644, true), (0o606, true)] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(is_open_to_others(file.path()), is_open, "{mode:o}");
    }
}

/// A pipe is a file that does not answer until its other end is written to.
#[test]
fn a_file_that_does_not_answer_stops_the_sign_ins_of_no_domain() {
    let folder = tempfile::tempdir().unwrap();
    let source = |domain: &str| {
        let path = folder.path().join(domain);
        fs::write(&path, format!("alice:{SSHA}\n")).unwrap();
        SourceSettings {
            domain: domain.into(),
            kind: SourceKind::File(Box::new(FileSettings { path, roles: Vec::new() })),
            timeout: Duration::from_secs(10),
            remember: Duration::ZERO,
            keep_digests: Duration::ZERO,
        }
    };
    let authenticator =
        Authenticator::start(&[source("a.test"), source("b.test")]).unwrap().expect("there are sources");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::rename(&pipe, folder.path().join("a.test")).unwrap();
    // Opened once the file is being read.
    let writer = File::options().write(true).open(folder.path().join("a.test")).unwrap();
    for domain in ["a.test", "b.test"] {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let credential = Credential::Password { user: "alice".into(), password: Hidden("wonderland".into()) };
        let now = stdx::Instant::from_unix_seconds(1_700_000_000);
        let query = Query { now, domain: domain.into(), credential };
        authenticator.ask(query, Answer::new(move |verdict| sender.send(verdict).expect("the test waits")));
        let verdict = receiver.recv_timeout(Duration::from_secs(60));
        assert_eq!(verdict, Ok(Verdict::Accepted("alice".into())), "{domain}");
    }
    drop(writer);
}
