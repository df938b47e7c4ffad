//! The requests and the queue against moto's server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use interop::Moto;
use object_storage::{ObjectStorage, ObjectStorageSettings, PutQueue, PutSource, StorageFault, WaitingFile};

const LIMIT: Duration = Duration::from_secs(60);

fn storage(moto: &Moto, bucket: &str) -> Arc<ObjectStorage> {
    let url = moto.url().parse().unwrap();
    let settings = ObjectStorageSettings::new(url, bucket, ("AKEXAMPLE", "hush-hush"));
    ObjectStorage::start(ObjectStorageSettings { prefix: "belfry/".into(), ..settings }).unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn read(
    storage: &ObjectStorage,
    key: &str,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, StorageFault> {
    let mut reader = storage.open(key, range).await?;
    let mut content = Vec::new();
    while let Some(bytes) = reader.next().await? {
        content.extend_from_slice(&bytes);
    }
    Ok(content)
}

struct Folder(PathBuf);

impl PutSource for Folder {
    fn waiting(&self, most: usize) -> Vec<WaitingFile> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten().take(most);
        let file = |entry: fs::DirEntry| WaitingFile {
            key: format!("uploads/{}", entry.file_name().into_string().unwrap()),
            path: entry.path(),
        };
        entries.map(file).collect()
    }

    fn finish(&self, file: &WaitingFile) -> io::Result<bool> {
        fs::remove_file(&file.path).map(|()| true)
    }
}

#[test]
fn files_are_put_read_by_ranges_and_deleted() {
    let moto = Moto::start("files");
    let (storage, folder) = (storage(&moto, "files"), tempfile::tempdir().unwrap());
    assert_eq!(storage.check_blocking(), Ok(()));
    let content: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
    let path = folder.path().join("one");
    fs::write(&path, &content).unwrap();
    run(async {
        assert_eq!(storage.put_file("uploads/one", &path).await, Ok(()));
        assert!(moto.object("files", "belfry/uploads/one") == content);
        assert!(read(&storage, "uploads/one", 0..3_000_000).await.unwrap() == content);
        let part = read(&storage, "uploads/one", 1_000_001..2_500_000).await.unwrap();
        assert!(part == content[1_000_001..2_500_000], "{} bytes", part.len());
        // A range that goes beyond the end is cut, and the size is told.
        assert_eq!(storage.open("uploads/one", 0..4_000_000).await.unwrap().total, 3_000_000);
        assert_eq!(storage.delete("uploads/one").await, Ok(()));
        assert_eq!(storage.delete("uploads/one").await, Ok(()), "it is gone already");
        assert_eq!(read(&storage, "uploads/one", 0..5).await, Err(StorageFault::Missing));
    });
}

#[test]
fn a_bucket_that_is_not_there_is_named() {
    let moto = Moto::start("files");
    let found = storage(&moto, "other").check_blocking();
    assert!(matches!(&found, Err(StorageFault::Refused(why)) if why.contains("\"other\"")), "{found:?}");
}

#[test]
fn files_wait_while_the_store_is_away() {
    let mut moto = Moto::start("files");
    moto.stop();
    let (storage, folder) = (storage(&moto, "files"), tempfile::tempdir().unwrap());
    for number in 0..20 {
        fs::write(folder.path().join(number.to_string()), number.to_string()).unwrap();
    }
    let _queue = PutQueue::start(&storage, Arc::new(Folder(folder.path().to_owned())));
    let is_noticed = || storage.status().failure.map(|_| ());
    wait::until("a failure", LIMIT, is_noticed, String::new);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 20);
    moto.go_on("files");
    let is_done = || (storage.status().put == 20).then_some(());
    wait::until("all files are put", LIMIT, is_done, || format!("{:?}", storage.status()));
    assert_eq!(moto.object("files", "belfry/uploads/17"), b"17");
    assert_eq!(storage.status().failure, None);
}
