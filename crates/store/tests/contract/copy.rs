//! A database is copied into another kind and back: every table, all or nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use stdx::Instant;
use store::access::{AccessWrite, FreshToken, Invitation, TokenWrite};
use store::copy::copy;
use store::rest::types::{Common, Queue};
use store::rest::{Resource as _, RestWrite};
use store::xmpp::{ArchiveRow, RosterRow, XmppWrite};
use store::{
    AccountLimits, Address, Admin, BindingOwner, CallRecord, CopiedTable, CopyEnd, CopyOptions, CopyProgress,
    Loaded, NewAccount, Pattern, Postgres, Read, Route, RoutePolicy, RouteTarget, ScramHash, ScramKeys,
    Sqlite, Store, StoreError, Write,
};
use tempfile::TempDir;

use crate::server;

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn address(text: &str) -> Address {
    Address::parse(text, Some("example.org")).unwrap()
}

/// A record of these tests is the address, with a `!` before it where nothing is bound.
pub(crate) fn options() -> CopyOptions {
    CopyOptions {
        binding_owner: |record| {
            let text = std::str::from_utf8(record).ok()?;
            let aor = text.trim_start_matches('!');
            Some(BindingOwner { aor: aor.into(), is_empty: aor.len() < text.len() })
        },
        stop: Arc::default(),
    }
}

pub(crate) fn copied(from: &CopyEnd, to: &CopyEnd) -> Result<Vec<CopiedTable>, StoreError> {
    copy(from, to, &options(), &mut |_| ()).map(|tables| tables.expect("it was not told to stop"))
}

pub(crate) fn postgres() -> (CopyEnd, String) {
    let url = server::new_postgres_database();
    (CopyEnd::Postgres(url.clone().into()), url)
}

pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn end(&self, name: &str) -> CopyEnd {
        CopyEnd::Sqlite(self.path(name))
    }

    /// The names of all files, of the companions of databases, too.
    pub(crate) fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A file with a row in every table.
    pub(crate) fn filled(&self, name: &str) -> CopyEnd {
        let path = self.path(name);
        let store = Sqlite::open(&path).unwrap();
        let mut admin = Admin::new(&store).unwrap();
        admin.ensure_domain("example.org", at(1)).unwrap();
        admin.ensure_domain("gone.org", at(1)).unwrap();
        admin.ensure_domain("example.net", at(2)).unwrap();
        admin.write(&Write::RemoveDomain { name: "gone.org".into() }).unwrap();
        add_account(&mut admin, "alice");
        add_account(&mut admin, "bob@example.net");
        admin.add_alias(address("boss"), address("alice")).unwrap();
        add_others(&mut admin);
        store.writer().unwrap().secret("tickets", [9; 32]).unwrap();
        drop(admin);
        let conn = Connection::open(&path).unwrap();
        for (seq, record) in [(3, "alice"), (4, "bob"), (5, "!carol"), (7, "alice"), (9, "!bob"), (8, "bob")]
        {
            let sql = "INSERT INTO binding_log (seq, written_at, record) VALUES (?1, ?2, ?3)";
            conn.execute(sql, params![seq, seq * 10, record.as_bytes()]).unwrap();
        }
        for aor in ["alice", "alice", "gone"] {
            let sql = "INSERT INTO kept_message (aor, from_uri, content_type, body, sent_at) \
                       VALUES (?1, 'sip:x', 'text/plain', x'00ff', 5)";
            conn.execute(sql, [aor]).unwrap();
        }
        conn.execute("DELETE FROM kept_message WHERE aor = 'gone'", []).unwrap();
        CopyEnd::Sqlite(path)
    }
}

fn add_account(admin: &mut Admin, name: &str) {
    let mut account = NewAccount::with_password(address(name), "secret", at(7)).unwrap();
    let keys = |byte: u8| ScramKeys {
        salt: [byte; 16].into(),
        iterations: 4_096,
        stored: [byte; 32].into(),
        server: [byte; 32].into(),
    };
    account.verifiers.set_scram(ScramHash::Sha256, &keys(3));
    account.display_name = format!("The “{name}”").into();
    account.limits = AccountLimits {
        max_contacts: Some(3),
        max_rate: Some(4),
        deny: vec!["00*".into()],
        ..account.limits
    };
    admin.add_account(account).unwrap();
    admin.set_disabled(address(name), name == "alice").unwrap();
}

fn add_others(admin: &mut Admin) {
    let common = Common { sid: "QU1".into(), account: "AC1".into(), created_at: at(5), updated_at: at(6) };
    let queue = Queue { common, friendly_name: "sales".into(), ..Queue::default() };
    let writes = vec![
        Write::AddRoute(Box::new(Route {
            id: 1,
            name: "germany".into(),
            pattern: Pattern::Prefix("+49".into()),
            targets: vec![RouteTarget { uri: "sip:gw.example.net".into(), weight: 2, priority: 1 }],
            open: false,
            probe: true,
            strip: 1,
            prefix: "00".into(),
            policy: RoutePolicy { trusted: true, ..RoutePolicy::default() },
            created_at: at(7),
        })),
        Write::Call(Box::new(CallRecord {
            call_id: "1@x".into(),
            from: "sip:a@example.org".into(),
            to: "sip:b@example.org".into(),
            started_at: at(1),
            answered_at: Some(Instant::from_micros(2_500_000)),
            ended_at: at(9),
            code: 200,
            reason: "BYE".into(),
            account: Some("a@example.org".into()),
            callee: None,
        })),
        Write::Rest(RestWrite::Insert(Box::new(queue.row().unwrap()))),
    ];
    for write in [writes, chat(), access()].concat() {
        admin.write(&write).unwrap();
    }
}

fn chat() -> Vec<Write> {
    let user: Box<str> = "alice@example.org".into();
    vec![
        Write::Xmpp(XmppWrite::LastSeen { user: user.clone(), at: at(9), status: "gone".into() }),
        Write::Xmpp(XmppWrite::Roster {
            user: user.clone(),
            contact: "bob@x".into(),
            item: Some(Box::new(RosterRow { subscription: "both".into(), ..RosterRow::default() })),
            version: 1,
        }),
        Write::Xmpp(XmppWrite::Offline {
            user: user.clone(),
            at: at(9),
            stanza: "<m>ä</m>".into(),
            is_repeated: false,
        }),
        Write::Xmpp(XmppWrite::Archive(Box::new(ArchiveRow {
            owner: user.clone(),
            id: "1".into(),
            at: at(9),
            bare: "bob@x".into(),
            resource: Some("r".into()),
            stanza: "<m/>".into(),
        }))),
        Write::Xmpp(XmppWrite::Node {
            owner: user.clone(),
            node: "urn:n".into(),
            at: at(9),
            config: Some("<x/>".into()),
        }),
        Write::Xmpp(XmppWrite::Item {
            owner: user.clone(),
            node: "urn:n".into(),
            id: "i".into(),
            at: at(9),
            item: Some("<item/>".into()),
            keep: 9,
        }),
        Write::Xmpp(XmppWrite::Room {
            room: "room@conference.example.org".into(),
            config: Some("<x/>".into()),
            charged: Some(user),
        }),
    ]
}

fn access() -> Vec<Write> {
    let token = FreshToken {
        id: [1, 0, 255].into(),
        mechanism: "HT-SHA-256-NONE".into(),
        issued_at: at(9),
        expires_at: at(99),
    };
    vec![
        Write::Access(AccessWrite::Tokens(Box::new(TokenWrite {
            user: "alice@example.org".into(),
            agent: "phone".into(),
            used: None,
            fresh: Some(token),
        }))),
        Write::Access(AccessWrite::Invite(Box::new(Invitation {
            hash: [7; 32],
            domain: "example.org".into(),
            name: Some("carol".into()),
            inviter: None,
            registers: true,
            expires_at: at(100),
        }))),
    ]
}

/// All rows of a file by table.
pub(crate) fn dump(path: &Path) -> Vec<(String, Vec<Vec<Value>>)> {
    let conn = Connection::open(path).unwrap();
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'probe' ORDER BY name";
    let mut statement = conn.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let rows = |name: &str| {
        let mut statement = conn.prepare(&format!("SELECT * FROM {name} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|index| row.get(index)).collect();
        statement.query_map([], row).unwrap().map(Result::unwrap).collect()
    };
    names.filter(|name| !name.starts_with("sqlite_stat")).map(|name| (name.clone(), rows(&name))).collect()
}

#[test]
fn every_table_is_copied_to_a_server_and_back_with_its_ids() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let (server, url) = postgres();
    let tables = copied(&file, &server).unwrap();
    assert!(tables.iter().all(|table| table.rows > 0), "{tables:?}");
    let accounts = tables.iter().find(|table| table.name == "account").map(|table| table.rows);
    assert_eq!(accounts, Some(2));
    assert_eq!(copied(&server, &files.end("back.db")).unwrap(), tables);
    assert_eq!(files.names(), ["back.db", "belfry.db"]);
    let mut before = dump(&files.path("belfry.db"));
    for (name, rows) in &mut before {
        if name == "binding_log" {
            // The newest row of each address, where something is bound in it.
            rows.retain(|row| row[0] == Value::Integer(7));
        }
    }
    let back = dump(&files.path("back.db"));
    for (before, back) in before.iter().zip(&back) {
        assert!(!before.1.is_empty(), "{}", before.0);
        assert_eq!(before, back);
    }
    assert_eq!(before.len(), back.len());

    // The server's database works, and gives ids that were never given.
    let store = Postgres::open(&url).unwrap();
    let mut admin = Admin::new(&store).unwrap();
    let alice = admin.account(&address("boss")).unwrap();
    assert_eq!((&*alice.name, alice.disabled), ("alice", true));
    assert!(alice.verifiers.has_scram() && alice.verifiers.are_of_password());
    let carol = NewAccount::with_password(address("carol"), "x", at(8)).unwrap();
    assert_eq!(admin.add_account(carol).unwrap(), 3);
    assert_eq!(store.writer().unwrap().secret("tickets", [1; 32]).unwrap(), [9; 32]);
    let ids = "DO $$ BEGIN IF nextval(pg_get_serial_sequence('kept_message', 'id')) <> 4 OR nextval('binding_seq') <= 7 \
               THEN RAISE 'a number that was given before'; END IF; END $$";
    server::run_sql(&url, ids);
    // So does the file.
    let mut admin = Admin::new(&Sqlite::open(files.path("back.db")).unwrap()).unwrap();
    assert_eq!(admin.account(&address("boss")).unwrap(), alice);
    let conn = Connection::open(files.path("back.db")).unwrap();
    let add = "INSERT INTO kept_message (aor, from_uri, content_type, body, sent_at) VALUES ('a', '', '', x'', 1) \
               RETURNING id";
    assert_eq!(
        conn.query_row(add, [], |row| row.get::<_, i64>(0)),
        Ok(4),
        "3 was given to one that is deleted"
    );
}

#[test]
fn kept_messages_have_the_bucket_of_their_address() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let (server, url) = postgres();
    copied(&file, &server).unwrap();
    let bucket = cluster::Bucket::of("alice").number();
    let mut reader = Postgres::open(&url).unwrap().reader().unwrap();
    let counts = reader.load(&Read::BucketKeptCounts { buckets: [bucket].into() }).unwrap();
    assert_eq!(counts, Loaded::KeptCounts(vec![("alice".into(), 2)]));
    // The connection is closed: a database in use is not copied.
    drop(reader);
    copied(&server, &files.end("back.db")).unwrap();
}

#[test]
fn a_database_that_is_in_use_is_not_copied() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let (server, url) = postgres();
    let used = Sqlite::open(files.path("belfry.db")).unwrap().reader().unwrap();
    let error = copied(&file, &server).unwrap_err().to_string();
    assert!(error.contains("belfry.db: a node or another command uses it"), "{error}");
    drop(used);
    copied(&file, &server).unwrap();
    let used = Postgres::open(&url).unwrap().reader().unwrap();
    let error = copied(&server, &files.end("back.db")).unwrap_err().to_string();
    assert!(error.contains("a node or another command uses it"), "{error}");
    drop(used);
    copied(&server, &files.end("back.db")).unwrap();
}

#[test]
fn a_target_that_has_something_is_left_as_it_is() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let (server, url) = postgres();
    Admin::new(&Postgres::open(&url).unwrap()).unwrap().ensure_domain("example.org", at(1)).unwrap();
    let error = copied(&file, &server).unwrap_err().to_string();
    assert!(error.contains("it has rows in domain: expected an empty database"), "{error}");
    let before = dump(&files.path("belfry.db"));
    files.filled("other.db");
    let error = copied(&file, &files.end("other.db")).unwrap_err().to_string();
    assert!(error.contains("other.db: it is there already"), "{error}");
    assert_eq!(dump(&files.path("other.db")), before);
}

#[test]
fn a_copy_that_is_stopped_or_fails_leaves_nothing() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let (server, _) = postgres();
    for to in [&server, &files.end("new.db")] {
        let options = options();
        let mut last = 0;
        let stopped = copy(&file, to, &options, &mut |CopyProgress { rows, total, .. }| {
            assert!(last < rows && rows <= total, "{last} {rows} {total}");
            last = rows;
            options.stop.store(true, Ordering::Relaxed);
        });
        assert_eq!((stopped, last), (Ok(None), 2), "after the first table");
        assert_eq!(files.names(), ["belfry.db"]);
    }
    // The last table has a value that no version has written.
    let conn = Connection::open(files.path("belfry.db")).unwrap();
    conn.execute("UPDATE xmpp_invitation SET expires_at = 1.5", []).unwrap();
    drop(conn);
    for to in [&server, &files.end("new.db")] {
        assert!(matches!(copied(&file, to), Err(StoreError::Corrupt { .. })));
        assert_eq!(files.names(), ["belfry.db"]);
    }
    let conn = Connection::open(files.path("belfry.db")).unwrap();
    conn.execute("UPDATE xmpp_invitation SET expires_at = 1", []).unwrap();
    drop(conn);
    copied(&file, &server).unwrap();
}

#[test]
fn an_end_that_cannot_be_opened_is_named() {
    let files = Files::new();
    let (server, _) = postgres();
    let error = copied(&files.end("none.db"), &server).unwrap_err().to_string();
    assert!(error.contains("there is no database") && error.contains("none.db"), "{error}");
    assert!(files.names().is_empty(), "a source is not made");
    files.filled("belfry.db");
    let nowhere = CopyEnd::Postgres("postgres://belfry:hush@localhost:1/none".into());
    let error = copied(&files.end("belfry.db"), &nowhere).unwrap_err().to_string();
    assert!(error.contains("postgres://localhost/none") && !error.contains("hush"), "{error}");
    let error = copied(&files.end("belfry.db"), &files.end("no/folder.db")).unwrap_err().to_string();
    assert!(error.contains("folder.db"), "{error}");
    std::fs::write(files.path("text.db"), "not a database, and long enough to be read as the head of one")
        .unwrap();
    let error = copied(&files.end("text.db"), &files.end("new.db")).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
