//! Slots and files, on a folder of the test.

use std::fs;

use tempfile::TempDir;

use super::*;

const KIND: &str = "text/plain";

struct World {
    folder: TempDir,
    uploads: Arc<Uploads>,
    now: Instant,
}

fn settings(folder: &Path) -> UploadFolderSettings {
    UploadFolderSettings {
        folder: folder.to_owned(),
        total: 10_000,
        keep: Duration::from_hours(24),
        url: "https://chat.example.org".into(),
        key: [7; 32],
        node: None,
    }
}

fn alice() -> Bare {
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
    let mut everybody: HasAccount = Box::new(|_| true);
    shelf.sweep(world.now + Duration::from_hours(23), folder, &mut everybody);
    assert!(world.uploads.open(&slot.0).is_ok());
    shelf.sweep(world.now + Duration::from_hours(25), folder, &mut everybody);
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
