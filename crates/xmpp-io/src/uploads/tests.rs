//! Slots and files, on a folder of the test.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;

use tempfile::TempDir;

use super::*;

pub(super) const KIND: &str = "text/plain";

struct World {
    folder: TempDir,
    uploads: Arc<Uploads>,
    now: Instant,
}

pub(super) fn settings(folder: &Path) -> UploadFolderSettings {
    UploadFolderSettings {
        folder: folder.to_owned(),
        total: 10_000,
        keep: Duration::from_hours(24),
        url: "https://chat.example.org".into(),
        key: [7; 32],
        node: None,
        storage: None,
    }
}

pub(super) fn alice() -> Bare {
    Bare::parse("alice@example.org").unwrap()
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new();
        let uploads = Uploads::start(settings(folder.path()), clock, Box::new(|_| true)).unwrap();
        World { folder, uploads, now: clock.now() }
    }

    /// Place and token.
    fn slot(&self, name: &str, size: u64) -> (String, String) {
        let slot = self.uploads.slot(self.now, &alice(), name, size, KIND).unwrap();
        let place = slot.put.strip_prefix("https://chat.example.org/upload/").unwrap();
        (place.to_owned(), slot.headers[0].1.to_string())
    }

    fn admit(&self, place: &str, token: &str, size: u64, kind: &str) -> Result<Grant, Refusal> {
        self.uploads.admit(self.now, place, Some(token), (Some(size), Some(kind)))
    }

    fn put(&self, (place, token): &(String, String), content: &[u8]) -> Result<(), Refusal> {
        let grant = self.admit(place, token, content.len() as u64, KIND)?;
        let mut incoming = self.uploads.create(self.now, &grant)?;
        incoming.write(content)?;
        incoming.finish()
    }

    fn used(&self) -> u64 {
        self.uploads.shelf.used.load(Ordering::Relaxed)
    }
}

#[test]
fn a_file_is_whole_or_not_there() {
    let world = World::new();
    let slot = world.slot("a.txt", 5);
    let grant = world.admit(&slot.0, &slot.1, 5, KIND).unwrap();
    let mut incoming = world.uploads.create(world.now, &grant).unwrap();
    assert_eq!(world.uploads.create(world.now, &grant).err(), Some(Refusal::Taken), "one at a time");
    incoming.write(b"he").unwrap();
    assert_eq!(world.uploads.open(&slot.0).err(), Some(Refusal::Unknown));
    assert_eq!(incoming.write(b"llo!"), Err(Refusal::TooLarge));
    assert_eq!(incoming.finish(), Err(Refusal::WrongSize));
    assert_eq!(world.used(), 0, "nothing is left of it");
    assert_eq!(world.put(&slot, b"hello"), Ok(()));
    assert_eq!(world.put(&slot, b"hello"), Err(Refusal::Taken));
    let mut stored = world.uploads.open(&slot.0).unwrap();
    assert_eq!((&*stored.name, &*stored.kind, stored.size), ("a.txt", KIND, 5));
    assert_eq!(stored.read_at(1, 3).unwrap(), b"ell");
    let on_disk = world.used();
    let again = Uploads::start(settings(world.folder.path()), Clock::new(), Box::new(|_| true)).unwrap();
    assert_eq!(again.shelf.used.load(Ordering::Relaxed), on_disk, "counted as it is");
}

#[test]
fn a_grant_is_for_one_file_of_one_place_for_a_while() {
    let mut world = World::new();
    let (place, token) = world.slot("a.txt", 5);
    let (other, _) = world.slot("a.txt", 5);
    assert_eq!(world.admit(&other, &token, 5, KIND), Err(Refusal::Forged));
    assert_eq!(world.admit(&place.replace("a.txt", "b.txt"), &token, 5, KIND), Err(Refusal::Forged));
    assert_eq!(world.admit(&place, &token, 4, KIND), Err(Refusal::WrongSize));
    assert_eq!(world.admit(&place, &token, 6, KIND), Err(Refusal::TooLarge));
    assert_eq!(world.admit(&place, &token, 5, "text/html"), Err(Refusal::WrongType));
    assert_eq!(world.admit(&place, "Basic abc", 5, KIND), Err(Refusal::Ungranted));
    let none = world.uploads.admit(world.now, &place, Some(&token), (None, Some(KIND)));
    assert_eq!(none.err(), Some(Refusal::NoSize));
    // A larger size with the old signature.
    let (text, signature) = token.strip_prefix("Bearer ").unwrap().split_once('.').unwrap();
    use base64::Engine;
    let text = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let text = String::from_utf8(text).unwrap().replace("\n5\n", "\n9\n");
    let forged = format!("Bearer {}.{signature}", base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text));
    assert_eq!(world.admit(&place, &forged, 9, KIND), Err(Refusal::Forged));
    assert!(Grant::read(token.strip_prefix("Bearer ").unwrap(), &[8; 32]).is_none(), "of another server");
    world.now = world.now + limits::UPLOAD_SLOT;
    assert_eq!(world.admit(&place, &token, 5, KIND), Err(Refusal::Expired));
}

#[tokio::test]
async fn so_many_come_at_once() {
    let world = World::new();
    let grant = |user: usize| {
        let user = Bare::parse(&format!("user{user}@example.org")).unwrap();
        let slot = world.uploads.slot(world.now, &user, "a", 1, KIND).unwrap();
        let place = slot.put.strip_prefix("https://chat.example.org/upload/").unwrap();
        world.admit(place, &slot.headers[0].1, 1, KIND).unwrap()
    };
    let mut held = Vec::new();
    for user in 0..limits::UPLOADS_AT_ONCE {
        held.push(world.uploads.turn(&grant(user)).await.unwrap());
    }
    let last = grant(limits::UPLOADS_AT_ONCE);
    assert_eq!(world.uploads.turn(&last).await.err(), Some(Refusal::Busy));
    drop(held);
    assert!(world.uploads.turn(&last).await.is_ok());
}

#[test]
fn all_files_together_have_a_bound() {
    let world = World::new();
    let (first, second) = (world.slot("a", 6_000), world.slot("b", 6_000));
    assert_eq!(world.put(&first, &[1; 6_000]), Ok(()));
    assert_eq!(world.put(&second, &[1; 6_000]), Err(Refusal::Full));
    assert!(world.uploads.slot(world.now, &alice(), "c", 6_000, KIND).is_none());
}

#[test]
fn old_files_are_removed_and_crashes_leave_nothing() {
    let world = World::new();
    let slot = world.slot("a", 5);
    world.put(&slot, b"hello").unwrap();
    let folder = u8::from_str_radix(&slot.0[..2], 16).unwrap();
    let shelf = &world.uploads.shelf;
    let mut any_account: HasAccount = Box::new(|_| true);
    shelf.sweep(world.now + Duration::from_hours(23), folder, &mut any_account);
    assert!(world.uploads.open(&slot.0).is_ok());
    shelf.sweep(world.now + Duration::from_hours(25), folder, &mut any_account);
    assert_eq!(world.uploads.open(&slot.0).err(), Some(Refusal::Unknown));
    assert_eq!(world.used(), 0);
    let left = world.folder.path().join(COMING).join("x");
    fs::write(&left, "half").unwrap();
    Uploads::start(settings(world.folder.path()), Clock::new(), Box::new(|_| true)).unwrap();
    assert!(!left.exists());
}

#[test]
fn no_address_leads_out_of_the_folder() {
    let world = World::new();
    fs::write(world.folder.path().join("secret"), "x").unwrap();
    let id = "a".repeat(ID);
    for place in [
        "../secret/x".to_owned(),
        "..%2fsecret/x".to_owned(),
        "%2e%2e/secret".to_owned(),
        "secret".to_owned(),
        format!("{id}/"),
        format!("{id}/%"),
        format!("{id}/%f"),
        format!("{id}/%ff"),
        format!("{}/x", "A".repeat(ID)),
        format!("{}/x", "é".repeat(ID / 2)),
        format!("{id}0/x"),
        String::new(),
    ] {
        assert_eq!(world.uploads.open(&place).err(), Some(Refusal::Unknown), "{place}");
    }
    assert_eq!(decode(&encode("a/../b ü%.txt")).as_deref(), Some("a/../b ü%.txt"));
    // A file that this server did not write is not served.
    let path = world.uploads.shelf.path_of(&id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "nothing of ours\n\n").unwrap();
    assert_eq!(world.uploads.open(&format!("{id}/x")).err(), Some(Refusal::Broken));
}

#[test]
fn files_go_with_their_account() {
    let world = World::new();
    let slot = world.slot("a", 5);
    world.put(&slot, b"hello").unwrap();
    let folder = u8::from_str_radix(&slot.0[..2], 16).unwrap();
    let mut but_bob: HasAccount = Box::new(|owner| owner != "bob@example.org");
    world.uploads.shelf.sweep(world.now, folder, &mut but_bob);
    assert!(world.uploads.open(&slot.0).is_ok());
    let mut but_alice: HasAccount = Box::new(|owner| owner != "alice@example.org");
    world.uploads.shelf.sweep(world.now, folder, &mut but_alice);
    assert_eq!(world.uploads.open(&slot.0).err(), Some(Refusal::Unknown));
    assert_eq!(world.used(), 0);
}

/// A node of a farm; its folder may be that of another one.
fn node(name: &str, folder: &Path) -> Arc<Uploads> {
    let settings = UploadFolderSettings { node: Some(name.into()), ..settings(folder) };
    Uploads::start(settings, Clock::new(), Box::new(|_| true)).unwrap()
}

/// Two nodes on one folder.
fn neighbours() -> (World, World) {
    let (first, second) = (World::new(), World::new());
    let uploads = node("n1", first.folder.path());
    let neighbour = node("n2", first.folder.path());
    (World { uploads, ..first }, World { uploads: neighbour, ..second })
}

#[test]
fn a_slot_is_good_for_once_at_all_nodes_of_a_folder() {
    let (n1, n2) = neighbours();
    let (place, token) = n1.slot("a", 5);
    let grant = n1.admit(&place, &token, 5, KIND).unwrap();
    let mut first = n1.uploads.create(n1.now, &grant).unwrap();
    let mut second = n2.uploads.create(n2.now, &grant).unwrap();
    first.write(b"first").unwrap();
    second.write(b"other").unwrap();
    // A node that starts does not remove what another one is given at that moment.
    node("n3", n1.folder.path());
    assert!(n1.uploads.shelf.path_of_coming(&grant.id).exists());
    assert_eq!(first.finish(), Ok(()));
    assert_eq!(second.finish(), Err(Refusal::Taken));
    assert_eq!(n2.put(&(place.clone(), token), b"later"), Err(Refusal::Taken));
    assert_eq!(n2.uploads.open(&place).unwrap().read_at(0, 9).unwrap(), b"first");
    assert_eq!(fs::read_dir(n1.folder.path().join(COMING)).unwrap().count(), 0);
}

#[test]
fn nodes_of_a_folder_have_one_bound() {
    let (n1, n2) = neighbours();
    let grant = |world: &World| {
        let (place, token) = world.slot("a", 6_000);
        world.admit(&place, &token, 6_000, KIND).unwrap()
    };
    let (of_n1, of_n2) = (grant(&n1), grant(&n2));
    let mut arriving = n1.uploads.create(n1.now, &of_n1).unwrap();
    assert_eq!(n2.uploads.create(n2.now, &of_n2).err(), Some(Refusal::Full), "one arrives at n1");
    arriving.write(&[1; 6_000]).unwrap();
    arriving.finish().unwrap();
    assert_eq!(n2.uploads.create(n2.now, &of_n2).err(), Some(Refusal::Full), "one is there");
    let removed = n1.uploads.shelf.path_of(&of_n1.id);
    fs::remove_file(removed).unwrap();
    assert!(n2.uploads.create(n2.now, &of_n2).is_ok());
    n2.uploads.shelf.count(n2.now);
    assert_eq!(n2.used(), 0, "nothing stays of a file that did not come whole");
}

#[test]
fn one_node_of_a_folder_removes_old_files_until_it_is_gone() {
    let (n1, n2) = neighbours();
    let is_sweeper = |world: &World, later: Duration| world.uploads.shelf.is_sweeper(world.now + later);
    let (half, whole) = (limits::UPLOAD_SWEEPER / 2, limits::UPLOAD_SWEEPER);
    assert!(is_sweeper(&n1, Duration::ZERO) && !is_sweeper(&n2, half));
    // It renews its part.
    assert!(is_sweeper(&n1, half) && !is_sweeper(&n2, whole));
    assert!(is_sweeper(&n2, half + whole) && !is_sweeper(&n1, half + whole));
    // Files that a node was given and left, when it did not come back.
    let left = n1.folder.path().join(COMING).join("0.n3");
    fs::write(&left, "half").unwrap();
    let mut any_account: HasAccount = Box::new(|_| true);
    n2.uploads.shelf.sweep(n2.now, 0, &mut any_account);
    assert!(left.exists());
    n2.uploads.shelf.sweep(n2.now + limits::UPLOAD_TIME * 3, 0, &mut any_account);
    assert!(!left.exists());
}

/// The database and the links of a farm whose nodes have a folder each.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) own: &'static str,
    pub(super) rows: Arc<Mutex<HashMap<String, &'static str>>>,
    pub(super) live: HashMap<&'static str, Arc<Uploads>>,
}

impl FarmFiles for Rows {
    fn register(&self, id: &str, _owner: &str) -> FarmAnswer<Result<(), RegisterFault>> {
        let before = self.rows.lock().unwrap().insert(id.to_owned(), self.own);
        Box::pin(std::future::ready(before.map_or(Ok(()), |_| Err(RegisterFault::Taken))))
    }

    fn find(&self, id: &str) -> FarmAnswer<Result<Option<Box<str>>, ReadFault>> {
        let node = self.rows.lock().unwrap().get(id).copied();
        Box::pin(std::future::ready(Ok(node.map(Box::from))))
    }

    fn read(&self, node: &str, id: &str, range: Range<u64>) -> FarmAnswer<Result<UploadPiece, ReadFault>> {
        let piece = self.live.get(node).ok_or(ReadFault::Away).and_then(|node| node.read_piece(id, range));
        Box::pin(std::future::ready(piece))
    }
}

#[tokio::test]
async fn a_file_of_another_node_is_read_piece_by_piece_while_that_node_lives() {
    let (folders, rows) = ([(); 2].map(|()| tempfile::tempdir().unwrap()), Arc::default());
    let large = |name: &str, folder: &TempDir| {
        let settings =
            UploadFolderSettings { total: 1 << 20, node: Some(name.into()), ..settings(folder.path()) };
        Uploads::start(settings, Clock::new(), Box::new(|_| true)).unwrap()
    };
    let (n1, n2) = (large("n1", &folders[0]), large("n2", &folders[1]));
    n1.join(Arc::new(Rows { own: "n1", rows: Arc::clone(&rows), live: HashMap::new() }));
    n2.join(Arc::new(Rows { own: "n2", rows: Arc::clone(&rows), live: [("n1", Arc::clone(&n1))].into() }));
    let [folder, _] = folders;
    let n1 = World { folder, uploads: n1, now: Clock::new().now() };
    let content: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    let slot = n1.slot("a b.txt", content.len() as u64);
    let grant = n1.admit(&slot.0, &slot.1, content.len() as u64, KIND).unwrap();
    n1.put(&slot, &content).unwrap();
    assert_eq!(n2.find(&slot.0).await.err(), Some(Refusal::Unknown), "no row names its node");
    n1.uploads.register(&grant).await.unwrap();

    let (info, file) = n2.find(&slot.0).await.unwrap();
    assert_eq!((&*info.name, &*info.kind, info.size), ("a b.txt", KIND, 300_000));
    let (first, file) = file.read(0..300_000).await.unwrap();
    assert!(first.len() == limits::UPLOAD_CHUNK && first == content[..first.len()]);
    let (part, _) = file.read(65_530..65_542).await.unwrap();
    assert_eq!(part, content[65_530..65_542]);
    assert_eq!(n2.find(&slot.0.replace("a%20b", "c")).await.err(), Some(Refusal::Unknown));
    rows.lock().unwrap().insert(grant.id.to_string(), "n3");
    assert_eq!(n2.find(&slot.0).await.err(), Some(Refusal::Away), "n3 does not live");

    // A second use of the slot at n2: the row is there, and the file goes again.
    let mut incoming = n2.create(n1.now, &grant).unwrap();
    incoming.write(&content).unwrap();
    incoming.finish().unwrap();
    assert_eq!(n2.register(&grant).await, Err(Refusal::Taken));
    assert_eq!(n2.open(&slot.0).err(), Some(Refusal::Unknown));
}
