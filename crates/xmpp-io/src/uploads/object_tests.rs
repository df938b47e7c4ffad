//! Files that go into a store of objects, on folders of the test and a store in memory.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use interop::MemoryStore;
use net::clock::Clock;
use object_storage::{ObjectStorage, ObjectStorageSettings, PutSource as _};
use tempfile::TempDir;

use super::tests::{KIND, Rows, alice, settings};
use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// A node with a folder of its own.
struct StoringNode {
    folder: TempDir,
    uploads: Arc<Uploads>,
    clock: Clock,
}

fn storage(store: &MemoryStore) -> Arc<ObjectStorage> {
    let url = store.url().parse().unwrap();
    let settings = ObjectStorageSettings::new(url, "files", ("AKEXAMPLE", "hush"));
    ObjectStorage::start(ObjectStorageSettings { prefix: "belfry/".into(), ..settings }).unwrap()
}

impl StoringNode {
    fn start(store: &MemoryStore, name: Option<&str>) -> StoringNode {
        StoringNode::start_in(tempfile::tempdir().unwrap(), store, name)
    }

    fn start_in(folder: TempDir, store: &MemoryStore, name: Option<&str>) -> StoringNode {
        let clock = Clock::new();
        let settings = UploadFolderSettings {
            total: 1 << 20,
            node: name.map(Into::into),
            storage: Some(storage(store)),
            ..settings(folder.path())
        };
        let uploads = Uploads::start(settings, clock, Box::new(|_| true)).unwrap();
        StoringNode { folder, uploads, clock }
    }

    /// Puts a file as a client does; returns its place and its id.
    async fn put(&self, name: &str, content: &[u8]) -> (String, String) {
        let slot = self.uploads.slot(self.clock.now(), &alice(), name, content.len() as u64, KIND).unwrap();
        let place = slot.put.strip_prefix("https://chat.example.org/upload/").unwrap().to_owned();
        let token = slot.headers[0].1.to_string();
        let size = Some(content.len() as u64);
        let grant = self.uploads.admit(self.clock.now(), &place, Some(&token), (size, Some(KIND))).unwrap();
        let mut incoming = self.uploads.create(self.clock.now(), &grant).unwrap();
        incoming.write(content).unwrap();
        incoming.finish().unwrap();
        self.uploads.register(&grant).await.unwrap();
        assert_eq!(self.uploads.check_free(&grant), Err(Refusal::Taken));
        (place, grant.id.to_string())
    }

    /// The whole content at that place.
    async fn content(&self, place: &str) -> Result<Vec<u8>, Refusal> {
        let (info, file) = self.uploads.find(place).await?;
        let mut file = file.begin(&(0..info.size)).await?;
        let mut content = Vec::new();
        while (content.len() as u64) < info.size {
            let bytes;
            (bytes, file) = file.read(content.len() as u64..info.size).await?;
            assert!(!bytes.is_empty(), "it ends after {} of {}", content.len(), info.size);
            content.extend(bytes);
        }
        Ok(content)
    }

    fn has_file(&self, id: &str) -> bool {
        self.uploads.shelf.path_of(id).exists()
    }

    fn wait_until_put(&self, id: &str) {
        wait_until("the file is put", || !self.has_file(id));
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    wait::until(what, LIMIT, || is_so().then_some(()), String::new);
}

fn large() -> Vec<u8> {
    (0..300_000_u32).map(|place| (place % 251) as u8).collect()
}

#[tokio::test]
async fn a_complete_file_goes_into_the_store_and_is_served_from_there_until_it_is_too_old() {
    let store = MemoryStore::start();
    let node = StoringNode::start(&store, None);
    let (place, id) = node.put("a b.txt", &large()).await;
    node.wait_until_put(&id);
    let path = format!("files/belfry/uploads/{id}");
    assert!(store.object(&path).unwrap().ends_with(&large()));
    // The file is away a moment before it is subtracted.
    wait_until("only what waits takes room", || node.uploads.used() == 0);
    let (info, file) = node.uploads.find(&place).await.unwrap();
    assert_eq!((&*info.name, &*info.kind, info.size), ("a b.txt", KIND, 300_000));
    let (part, _) = file.begin(&(65_530..65_542)).await.unwrap().read(65_530..65_542).await.unwrap();
    assert_eq!(part, large()[65_530..65_542]);
    assert_eq!(node.content(&place).await, Ok(large()));
    assert_eq!(node.content(&place.replace("a%20b", "c")).await, Err(Refusal::Unknown));

    // A restart reads the head again: the slot is used, and the file is served.
    let node = StoringNode::start_in(node.folder, &store, None);
    assert_eq!(node.content(&place).await, Ok(large()));
    let head = node.uploads.shelf.path_of_head(&id);
    let part = u8::from_str_radix(&id[..2], 16).unwrap();
    let shelf = Arc::clone(&node.uploads.shelf);
    let (now, old) = (node.clock.now(), node.clock.now() + Duration::from_hours(25));
    let sweep = |at, has: bool| {
        let shelf = Arc::clone(&shelf);
        let mut has_account: HasAccount = Box::new(move |_| has);
        // As the sweeper does: it waits for the store, which a runtime's thread must not.
        let swept = std::thread::Builder::new().spawn(move || shelf.sweep_stored(at, part, &mut has_account));
        swept.unwrap().join().unwrap();
    };
    sweep(now, true);
    assert!(head.exists());
    store.set_away(true);
    sweep(old, true);
    assert!(head.exists(), "the object is still there");
    store.set_away(false);
    sweep(now, false);
    assert!(!head.exists() && !store.paths().contains(&path), "its account is gone");
    assert_eq!(node.content(&place).await, Err(Refusal::Unknown));
}

#[tokio::test]
async fn files_wait_while_the_store_is_away_and_are_served_from_the_folder() {
    let store = MemoryStore::start();
    store.set_away(true);
    let node = StoringNode::start(&store, None);
    let (place, id) = node.put("a.txt", b"hello").await;
    let storage = node.uploads.shelf.settings.storage.clone().unwrap();
    wait_until("the store is asked", || storage.status().failures > 1);
    assert_eq!(node.content(&place).await, Ok(b"hello".to_vec()));
    store.set_away(false);
    node.wait_until_put(&id);
    assert_eq!(node.content(&place).await, Ok(b"hello".to_vec()));
    store.set_away(true);
    assert_eq!(node.content(&place).await, Err(Refusal::Away));
}

#[tokio::test]
async fn a_file_of_a_node_that_is_gone_is_served_by_the_others() {
    let (store, rows) = (MemoryStore::start(), Arc::new(Mutex::new(HashMap::new())));
    let (n1, n2) = (StoringNode::start(&store, Some("n1")), StoringNode::start(&store, Some("n2")));
    let join = |node: &StoringNode, own, live| {
        node.uploads.join(Arc::new(Rows { own, rows: Arc::clone(&rows), live }));
    };
    join(&n1, "n1", HashMap::new());
    join(&n2, "n2", HashMap::from([("n1", Arc::clone(&n1.uploads))]));
    // While it waits, the node that has it serves it.
    store.set_away(true);
    let (place, id) = n1.put("a.txt", &large()).await;
    assert_eq!(n2.content(&place).await, Ok(large()));
    store.set_away(false);
    n1.wait_until_put(&id);
    assert!(store.object(&format!("files/belfry/uploads/{id}.n1")).is_some(), "{:?}", store.paths());
    assert_eq!(n2.content(&place).await, Ok(large()));
    // n1 is gone, with its disk.
    let n3 = StoringNode::start(&store, Some("n3"));
    join(&n3, "n3", HashMap::new());
    drop(n1);
    assert_eq!(n3.content(&place).await, Ok(large()));
    store.set_away(true);
    assert_eq!(n3.content(&place).await, Err(Refusal::Away));
    store.set_away(false);
    // A node of the same name with an empty disk has the row, and the store the file.
    let n1 = StoringNode::start(&store, Some("n1"));
    join(&n1, "n1", HashMap::new());
    assert_eq!(n1.content(&place).await, Ok(large()));
}

#[tokio::test]
async fn a_second_use_of_a_slot_leaves_the_first_ones_object() {
    let (store, rows) = (MemoryStore::start(), Arc::new(Mutex::new(HashMap::new())));
    let node = StoringNode::start(&store, Some("n2"));
    node.uploads.join(Arc::new(Rows { own: "n2", rows: Arc::clone(&rows), live: HashMap::new() }));
    let slot = node.uploads.slot(node.clock.now(), &alice(), "a.txt", 5, KIND).unwrap();
    let place = slot.put.strip_prefix("https://chat.example.org/upload/").unwrap();
    let token = slot.headers[0].1.to_string();
    let now = node.clock.now();
    let grant = node.uploads.admit(now, place, Some(&token), (Some(5), Some(KIND))).unwrap();
    rows.lock().unwrap().insert(grant.id.to_string(), "n1");
    let mut incoming = node.uploads.create(node.clock.now(), &grant).unwrap();
    incoming.write(b"hello").unwrap();
    incoming.finish().unwrap();
    // The queue may take the file before its row is refused.
    node.uploads.wake_queue();
    node.wait_until_put(&grant.id);
    assert_eq!(node.uploads.register(&grant).await, Err(Refusal::Taken));
    let object = format!("files/belfry/uploads/{}.n2", grant.id);
    wait_until("the object is gone", || !store.paths().contains(&object));
    assert!(!node.uploads.shelf.has(&grant.id));
}

#[test]
fn nodes_that_put_a_file_of_one_folder_at_the_same_time_leave_one_head_and_its_object() {
    let store = MemoryStore::start();
    store.set_away(true);
    let folder = tempfile::tempdir().unwrap();
    let shelf_of = |name: &str| {
        let settings = UploadFolderSettings {
            total: 1 << 20,
            node: Some(name.into()),
            storage: Some(storage(&store)),
            ..settings(folder.path())
        };
        fs::create_dir_all(folder.path().join(COMING)).unwrap();
        UploadFolder { settings, used: AtomicU64::new(0), sizes: Mutex::default() }
    };
    let (n1, n2) = (shelf_of("n1"), shelf_of("n2"));
    let id = "ab".repeat(16);
    let path = n1.path_of(&id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "belfry-upload 1\nalice@a.test\na.txt\ntext/plain\n5\n7\n\nhello").unwrap();
    let [first, second] = [&n1, &n2].map(|node| node.waiting(10).pop().unwrap());
    // n1 has written its head, and n2 ends its own PUT before n1 has removed the file.
    n1.keep_head(&id, &first).unwrap();
    assert!(!n2.finish(&second).unwrap(), "the object of n2 goes");
    assert!(path.exists() && n2.waiting(10).is_empty(), "n1 removes the file");
    assert_eq!(n1.waiting(10).as_slice(), std::slice::from_ref(&first), "also after a restart");
    assert!(n1.finish(&first).unwrap(), "the object of n1 stays");
    let key = Stored::open(&n1.path_of_head(&id)).unwrap().key().unwrap();
    assert_eq!(*key, *first.key);
    assert!(!path.exists() && fs::read_dir(folder.path().join(COMING)).unwrap().next().is_none());
}

#[test]
fn heads_that_cannot_be_read_keep_no_object_in_the_store() {
    let store = MemoryStore::start();
    let node = StoringNode::start(&store, None);
    let shelf = &node.uploads.shelf;
    let id = "ab".repeat(16);
    let path = shelf.path_of(&id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "belfry-upload 1\nalice@a.test\na.txt\ntext/plain\n5\n7\n\nhello").unwrap();
    node.uploads.wake_queue();
    node.wait_until_put(&id);
    // The order of a folder is any: with so many the good one is hardly the first.
    for number in 0..20 {
        fs::write(shelf.path_of_head(&format!("ab{number:030x}")), "broken").unwrap();
    }
    let mut has_account: HasAccount = Box::new(|_| true);
    shelf.sweep_stored(node.clock.now() + Duration::from_hours(25), 0xab, &mut has_account);
    assert!(!shelf.path_of_head(&id).exists());
    assert!(store.paths().iter().all(|path| !path.contains(&id)), "{:?}", store.paths());
}

#[test]
fn a_head_is_as_old_as_its_file_and_has_the_key() {
    let store = MemoryStore::start();
    let node = StoringNode::start(&store, None);
    let shelf = &node.uploads.shelf;
    let id = "ab".repeat(16);
    let path = shelf.path_of(&id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "belfry-upload 1\nalice@a.test\na.txt\ntext/plain\n5\n7\n\nhello").unwrap();
    let age = (node.clock.now() - Duration::from_hours(3)).since(Instant::default());
    let old = std::time::UNIX_EPOCH + age;
    fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    node.uploads.wake_queue();
    node.wait_until_put(&id);
    let head = shelf.path_of_head(&id);
    assert_eq!(fs::metadata(&head).unwrap().modified().unwrap(), old);
    let text = fs::read_to_string(&head).unwrap();
    assert!(text.ends_with(&format!("\n7\n\nuploads/{id}")), "{text}");
    assert!(Path::new(&head).starts_with(node.folder.path()));
}
