//! Accounts from CSV.

use std::io;
use std::sync::atomic::Ordering;

use super::{Database, database};
use proptest::prelude::*;
use stdx::Instant;
use store::xmpp::{RosterRow, XmppLoaded, XmppRead, XmppWrite};
use store::{
    AccountFilter, Address, Admin, Existing, ImportOptions, Imported, Loaded, NewAccount, NewUser, Progress,
    Read, SourceUser, StoreError, Users, Verifiers,
};

fn admin() -> (Database, Admin) {
    let database = database();
    let admin = Admin::new(&*database.store()).unwrap();
    (database, admin)
}

fn options() -> ImportOptions {
    ImportOptions::new(Some("example.org"), Instant::from_unix_seconds(9))
}

fn import(admin: &mut Admin, csv: impl AsRef<[u8]>) -> Result<Imported, StoreError> {
    admin.import(csv.as_ref(), &options(), &mut |_, _| ())
}

fn added(added: u64) -> Result<Imported, StoreError> {
    Ok(Imported { added, ..Imported::default() })
}

fn address(text: &str) -> Address {
    Address::parse(text, Some("example.org")).unwrap()
}

#[test]
fn headings_default_domain_quotes_and_missing_names() {
    let (_database, mut admin) = admin();
    let csv = "\u{feff}Account,Password,Name\r\nalice,s3cret,\"Alice, \"\"the\"\" first\"\r\n\r\nbob@other.org,x\r\n";
    assert_eq!(import(&mut admin, csv), added(2));
    let alice = admin.account(&address("alice")).unwrap();
    assert_eq!(&*alice.display_name, "Alice, \"the\" first");
    assert_eq!(alice.verifiers, Verifiers::from_password("alice", "example.org", "s3cret"));
    assert_eq!(&*admin.account(&address("bob@other.org")).unwrap().display_name, "");
    assert_eq!(import(&mut admin, "carol,x,Carol"), added(1), "without headings");
    assert_eq!(import(&mut admin, ""), added(0));
}

#[test]
fn keys_are_made_where_they_are_asked_for() {
    let (_database, mut admin) = admin();
    let keys: store::MakeKeys = |password| {
        let bytes: Box<[u8]> = password.as_bytes().into();
        let (stored, server) = (bytes.clone(), bytes.clone());
        [(store::ScramHash::Sha1, store::ScramKeys { salt: bytes, iterations: 1, stored, server })].into()
    };
    let options = ImportOptions { keys: Some(keys), ..options() };
    admin.import(&b"alice,one"[..], &options, &mut |_, _| ()).unwrap();
    let verifiers = Verifiers::from_password("alice", "example.org", "one").with_scram(&keys("one"));
    assert_eq!(admin.account(&address("alice")).unwrap().verifiers, verifiers);
}

#[test]
fn accounts_that_are_there_are_updated_or_skipped() {
    let (_database, mut admin) = admin();
    import(&mut admin, "alice,one,Alice").unwrap();
    let updated = import(&mut admin, "alice,two\nbob,x\nbob,y\n").unwrap();
    assert_eq!(updated, Imported { added: 1, updated: 2, ..Imported::default() });
    let alice = admin.account(&address("alice")).unwrap();
    assert_eq!(&*alice.display_name, "Alice", "an empty name does not erase one");
    assert_eq!(alice.verifiers, Verifiers::from_password("alice", "example.org", "two"));
    let bob = admin.account(&address("bob")).unwrap();
    assert_eq!(bob.verifiers, Verifiers::from_password("bob", "example.org", "y"), "the later line counts");
    let skip = ImportOptions { existing: Existing::Skip, ..options() };
    let skipped = admin.import(&b"alice,three,X"[..], &skip, &mut |_, _| ()).unwrap();
    assert_eq!(skipped, Imported { skipped: 1, ..Imported::default() });
    assert_eq!(admin.account(&address("alice")).unwrap(), alice);
}

#[test]
fn accounts_with_a_changed_password_are_reported_and_an_equal_one_keeps_its_keys() {
    let (_database, mut admin) = admin();
    import(&mut admin, "alice,one\nbob,one\ncarol,one").unwrap();
    let keys: store::MakeKeys = |password| {
        let bytes: Box<[u8]> = password.as_bytes().into();
        let (stored, server) = (bytes.clone(), bytes.clone());
        [(store::ScramHash::Sha1, store::ScramKeys { salt: bytes, iterations: 1, stored, server })].into()
    };
    let with_keys = ImportOptions { keys: Some(keys), ..options() };
    let mut import_and_tell = |csv: &str, options: &ImportOptions| {
        let mut reported = Vec::new();
        admin.import(csv.as_bytes(), options, &mut |_, changed| reported.extend_from_slice(changed)).unwrap();
        (reported, admin.account(&address("bob")).unwrap().verifiers.has_scram())
    };
    assert_eq!(import_and_tell("bob,one", &with_keys), (vec![], true));
    let again = import_and_tell("alice,two\nbob,one,Bob\ndave,one", &options());
    assert_eq!(again, (vec![address("alice")], true));
    let skip = ImportOptions { existing: Existing::Skip, ..options() };
    assert_eq!(import_and_tell("bob,two", &skip), (vec![], true));
    assert_eq!(import_and_tell("bob,two", &options()), (vec![address("bob")], false));
}

#[test]
fn a_bad_line_is_named_with_the_expected_form() {
    let cases: [(&[u8], &str); 9] = [
        (b"a,x\nb\n", "line 2: 1 field; expected account,password,name (name may be missing)"),
        (b"a,x\nb,y,z,w\n", "line 2: 4 fields; expected account,password,name (name may be missing)"),
        (b"account,password\na,\n", "line 2: password; expected 1 to 1024 bytes"),
        (
            b"a,x\n\n\nb c,x\n",
            "line 4: account name \"b c\"; expected 1 to 255 bytes without spaces, @ : < > and quotes",
        ),
        (
            b"account;password\na;x\n",
            "line 1: 1 field; expected account,password,name (name may be missing): commas between the fields, in place of the semicolons",
        ),
        (b"a,x\r\n\r\nb", "line 3: 1 field; expected account,password,name (name may be missing)"),
        (
            b"a,x,\"two\nlines\"\nb,\"x\ny\",z,\n",
            "line 3: 4 fields; expected account,password,name (name may be missing)",
        ),
        (b"a@,x\n", "line 1: domain \"\"; expected a host name of at most 253 bytes"),
        (b"a,x\nb,\xff\xfe\n", "line 2: bytes that are not UTF-8; expected a file saved as UTF-8"),
    ];
    for (csv, expected) in cases {
        let (_database, mut admin) = admin();
        assert_eq!(import(&mut admin, csv).unwrap_err().to_string(), expected);
    }
    // No row ends: a quote is not closed, or the file is none of text.
    for byte in [b"x", b"\n"] {
        let (_database, mut admin) = admin();
        let endless = io::Read::chain(&b"a,\""[..], io::Cursor::new(byte.repeat(3 << 20)));
        let none = ImportOptions::new(Some("example.test"), Instant::from_micros(1));
        let error = admin.import(endless, &none, &mut |_, _| ()).unwrap_err().to_string();
        assert!(error.ends_with("a row of more than 1024 KiB; expected readable CSV"), "{error}");
    }
    let (_database, mut admin) = admin();
    let none = ImportOptions::new(None, Instant::from_micros(1));
    let error = admin.import(&b"alice,x"[..], &none, &mut |_, _| ()).unwrap_err();
    assert_eq!(error.to_string(), "line 1: account \"alice\"; expected user@domain");
}

#[test]
fn accounts_before_a_bad_line_are_kept() {
    let (_database, mut admin) = admin();
    assert!(import(&mut admin, "a,x\nb,x\n,x\nc,x\n").is_err());
    let listed = admin.accounts(AccountFilter { limit: 9, ..AccountFilter::default() }).unwrap();
    assert_eq!(listed.iter().map(|account| &*account.name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_stopped_import_writes_the_accounts_that_it_has_read() {
    let (_database, mut admin) = admin();
    let options = ImportOptions { batch: 5, ..options() };
    let csv: String = (0..2_000).map(|number| format!("user{number},x\n")).collect();
    let stop = options.stop.clone();
    let imported =
        admin.import(csv.as_bytes(), &options, &mut |_, _| stop.store(true, Ordering::Relaxed)).unwrap();
    assert!((5..2_000).contains(&imported.added), "{imported:?}");
    let page = admin.accounts(AccountFilter { limit: 1_000, ..AccountFilter::default() }).unwrap();
    assert_eq!(page.len() as u64, imported.added.min(1_000));
}

#[test]
fn a_check_names_every_bad_line_and_counts_the_good_ones() {
    let csv = b"account,password\na,x\nb\n\nc d,x\ne,\xff\nf,\ng,x,G,more\nh,x";
    let mut bad = Vec::new();
    let mut good = 0;
    let mut seen = |line: Result<(u64, Address), StoreError>| match line {
        Ok(_) => good += 1,
        Err(error) => bad.push(error.to_string()),
    };
    store::import::check(&csv[..], &options(), &mut seen).unwrap();
    assert_eq!(good, 2);
    let lines: Vec<&str> = bad.iter().map(|text| text.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["line 3", "line 5", "line 6", "line 7", "line 8"], "{bad:#?}");
}

#[test]
fn a_check_ends_with_an_input_that_cannot_be_read() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let error = store::import::check(Broken, &options(), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("the cable is out"), "{error}");
}

#[test]
fn progress_grows_to_the_size_of_the_input() {
    let (_database, mut admin) = admin();
    let csv: String = (0..25).map(|n| format!("user{n},x\n")).collect();
    let small = ImportOptions { batch: 10, ..options() };
    let mut seen: Vec<Progress> = Vec::new();
    admin.import(csv.as_bytes(), &small, &mut |progress, _| seen.push(progress)).unwrap();
    assert_eq!(seen.iter().map(|progress| progress.imported.added).collect::<Vec<_>>(), [10, 20, 25]);
    assert!(seen.is_sorted_by_key(|progress| progress.bytes));
    assert_eq!(seen[2].bytes, csv.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Every record written as CSV (RFC 4180) is imported.
    #[test]
    fn generated_csv_is_imported_unchanged(
        rows in prop::collection::btree_map("[a-z0-9.+_-]{1,20}", ("[^\u{0}-\u{1f}]{1,30}", "[^\u{0}]{0,30}"), 1..20),
    ) {
        let mut file = csv::Writer::from_writer(Vec::new());
        for (account, (password, name)) in &rows {
            file.write_record([account, password, name]).unwrap();
        }
        let (_database, mut admin) = admin();
        prop_assert_eq!(import(&mut admin, file.into_inner().unwrap()), added(rows.len() as u64));
        for (account, (password, name)) in &rows {
            let found = admin.account(&address(account)).unwrap();
            prop_assert_eq!(found.verifiers, Verifiers::from_password(account, "example.org", password));
            prop_assert_eq!(&*found.display_name, name.trim());
        }
    }

    /// Any bytes give accounts or an error that names a line; never a panic.
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_database, mut admin) = admin();
        match import(&mut admin, bytes) {
            Ok(_) => {}
            Err(StoreError::Line { line, .. }) => prop_assert!(line > 0),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

/// An input of one user, as another server kept it.
struct One(Option<NewUser>);

impl Users for One {
    type Error = StoreError;

    fn next(&mut self) -> Result<Option<SourceUser>, StoreError> {
        Ok(self.0.take().map(|user| SourceUser { user, password: None }))
    }

    fn bytes(&self) -> u64 {
        1
    }
}

#[test]
fn chat_data_is_imported_once_and_offline_messages_are_bounded() {
    let (_database, mut admin) = admin();
    let user: Box<str> = "alice@example.org".into();
    let mut import = |contacts: &[&str], messages: std::ops::Range<u32>, options: &ImportOptions| {
        let contact = |contact: &&str| XmppWrite::Roster {
            user: user.clone(),
            contact: (*contact).into(),
            item: Some(Box::new(RosterRow { version: 1, ..RosterRow::default() })),
            version: 1,
        };
        let message = |number| XmppWrite::Offline {
            user: user.clone(),
            at: Instant::from_unix_seconds(u64::from(number)),
            stanza: format!("<message id='{number}'/>").into(),
            is_repeated: false,
        };
        let chat = contacts.iter().map(contact).chain(messages.map(message)).collect();
        let account = NewAccount::with_password(address("alice"), "x", options.now).unwrap();
        let mut users = One(Some(NewUser { account, chat }));
        let imported = admin.import_users(&mut users, options, &mut |_, _| ()).unwrap();
        let read = Read::Xmpp(XmppRead::User { user: user.clone(), nodes: &[] });
        let Loaded::Xmpp(XmppLoaded::User(row)) = admin.read(&read).unwrap() else { panic!() };
        let versions: Vec<u64> = row.roster.iter().map(|(_, item)| item.version).collect();
        (imported, versions, row.roster_version, row.offline)
    };
    let updated = |refused| Imported { updated: 1, refused, ..Imported::default() };
    let first = import(&["a@x", "b@x"], 0..10, &options());
    assert_eq!(first, (Imported { added: 1, ..Imported::default() }, vec![1, 1], 1, 10));
    assert_eq!(import(&["b@x"], 0..10, &options()), (updated(0), vec![1, 2], 2, 10), "only once");
    let most = store::limits::MAX_XMPP_OFFLINE;
    assert_eq!(import(&[], 5..most + 7, &options()), (updated(7), vec![1, 2], 2, most));
    let skip = ImportOptions { existing: Existing::Skip, ..options() };
    let (imported, versions, ..) = import(&["c@x"], 0..0, &skip);
    assert_eq!((imported.skipped, versions), (1, vec![1, 2]), "with all that belongs to it");
}

#[test]
fn new_old_and_repeated_accounts_of_one_batch_are_merged() {
    let (_database, mut admin) = admin();
    let line = |number: u32, password: &str| format!("user{number:05}@d{}.org,{password},\n", number % 2);
    let old: String =
        (0..12_000).step_by(3).map(|number| line(number, "one").replace(",\n", ",Old\n")).collect();
    assert_eq!(import(&mut admin, old), added(4_000));
    // Every account; the old ones with another password, every hundredth once more.
    let all = (0..12_000).map(|number| line(number, "two"));
    let again = (0..12_000).step_by(100).map(|number| line(number, "three"));
    let csv: String = all.chain(again).collect();
    let mut changed = Vec::new();
    let mut import_all = |options: &ImportOptions| {
        changed.clear();
        let imported =
            admin.import(csv.as_bytes(), options, &mut |_, others| changed.extend_from_slice(others));
        (imported.unwrap(), changed.len())
    };
    let skip = ImportOptions { existing: Existing::Skip, ..options() };
    let skipped = Imported { added: 8_000, skipped: 4_120, ..Imported::default() };
    assert_eq!(import_all(&skip), (skipped, 0));
    // Of the 4,000 with the password "one", and the repeated ones.
    let updated = Imported { updated: 12_120, ..Imported::default() };
    assert_eq!(import_all(&options()), (updated, 4_000 + 120));
    assert_eq!(import_all(&options()), (updated, 240), "to the first password and back to the second");
    for (number, password, name) in
        [(3, "two", "Old"), (1, "two", ""), (100, "three", ""), (300, "three", "Old")]
    {
        let account = admin.account(&address(&format!("user{number:05}@d{}.org", number % 2))).unwrap();
        let expected = Verifiers::from_password(&account.name, &account.domain, password);
        assert_eq!((&*account.display_name, account.verifiers), (name, expected), "{number}");
    }
}

#[test]
fn keys_of_scram_are_imported_in_the_place_of_passwords() {
    let (_database, mut admin) = admin();
    let key = |letter: &str| letter.repeat(42) + "A=";
    let line = |user: &str, letter: &str| {
        format!("{user},SCRAM-SHA-256$4096:c2FsdA==${}:{},Name\n", key(letter), key("B"))
    };
    let csv = |letter: &str| format!("account,scram,name\n{}{}", line("alice", letter), line("bob", "A"));
    let options = |unknown| ImportOptions { unknown: Some([unknown; 32]), ..options() };
    let mut import = |csv: &str, options: &ImportOptions| {
        let mut reported = Vec::new();
        let imported =
            admin.import(csv.as_bytes(), options, &mut |_, changed| reported.extend_from_slice(changed));
        (imported, reported, admin.account(&address("alice")), admin.account(&address("bob")))
    };
    let (imported, _, alice, bob) = import(&csv("A"), &options(1));
    let (alice, bob) = (alice.unwrap(), bob.unwrap());
    assert_eq!((imported, &*alice.display_name), (added(2), "Name"));
    let keys = alice.verifiers.scram(store::ScramHash::Sha256).unwrap();
    assert_eq!((keys.iterations, &*keys.salt, keys.stored.len()), (4_096, &b"salt"[..], 32));
    assert!(!alice.verifiers.are_of_password());
    assert_ne!(alice.verifiers.sha256, bob.verifiers.sha256);
    let (_, reported, again, _) = import(&csv("A"), &options(2));
    assert_eq!(
        (reported, again.unwrap().verifiers),
        (vec![], alice.verifiers),
        "the same keys are the same password"
    );
    let (_, reported, ..) = import(&csv("C"), &options(3));
    assert_eq!(reported, [address("alice")]);
    let (error, ..) = import("account,scram\ncarol,hush\n", &options(4));
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("line 2: keys of SCRAM; expected SCRAM-SHA-256$") && !error.contains("hush"),
        "{error}"
    );
}

#[test]
fn an_ha1_of_md5_gives_way_to_the_password_that_it_is_of_and_not_back() {
    let (_database, mut admin) = admin();
    let full = Verifiers::from_password("alice", "example.org", "one");
    let import_md5 = |admin: &mut Admin, md5, unknown| {
        let account = NewAccount {
            address: address("alice"),
            display_name: "".into(),
            verifiers: Verifiers::of_md5(md5, &[unknown; 32]),
            limits: store::AccountLimits::default(),
            created_at: Instant::from_unix_seconds(9),
        };
        let mut user = One(Some(NewUser { account, chat: Vec::new() }));
        let mut reported = Vec::new();
        admin
            .import_users(&mut user, &options(), &mut |_, changed| reported.extend_from_slice(changed))
            .unwrap();
        (reported, admin.account(&address("alice")).unwrap().verifiers)
    };
    let (_, first) = import_md5(&mut admin, full.md5, 1);
    assert!(first.are_of_md5_only() && first.md5 == full.md5);
    assert_eq!(import_md5(&mut admin, full.md5, 2), (vec![], first), "the same HA1 is the same password");
    import(&mut admin, "alice,one").unwrap();
    assert_eq!(admin.account(&address("alice")).unwrap().verifiers, full);
    assert_eq!(import_md5(&mut admin, full.md5, 3), (vec![], full), "it proves more");
    let (reported, other) = import_md5(&mut admin, [7; 16], 4);
    assert!(reported == [address("alice")] && other.md5 == [7; 16]);
}
