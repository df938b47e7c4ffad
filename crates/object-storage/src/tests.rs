//! The requests and the queue against a store that answers by a script.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

/// The answer to one request.
#[derive(Clone, Debug)]
enum Answer {
    /// Confirms content: the ETag is right.
    Stored,
    /// The same, but refuses content that begins so.
    StoredUnless(&'static [u8]),
    /// Confirms other content.
    OtherEtag,
    /// A status with a document.
    Fault(u16, &'static str),
    /// A part of an object of so many bytes.
    Part(&'static [u8], u64),
    /// A part whose connection breaks after these bytes.
    CutPart(&'static [u8], u64),
    /// The connection ends without an answer.
    Cut,
}

/// A request as it came.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    head: String,
    body: Vec<u8>,
}

struct Stub {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Stub {
    /// Gives these answers in turn, and the last one for ever.
    fn start(answers: &[Answer]) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, mut answers) = (Arc::clone(&seen), VecDeque::from(answers.to_vec()));
        let serve = move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
                // Before the answer, after which a test looks.
                noted.lock().unwrap().push(request.clone());
                answer_with(&answer.unwrap(), &request, &mut stream);
            }
        };
        Builder::new().name("stub".into()).spawn(serve).unwrap();
        Stub { url, seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn storage(&self) -> Arc<ObjectStorage> {
        storage(&self.url)
    }
}

fn storage(url: &str) -> Arc<ObjectStorage> {
    let settings = ObjectStorageSettings::new(url.parse().unwrap(), "files", ("AKEXAMPLE", "hush-hush"));
    ObjectStorage::start(ObjectStorageSettings { prefix: "belfry/".into(), ..settings }).unwrap()
}

fn read(stream: &mut TcpStream) -> Option<Seen> {
    let (mut bytes, mut one) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut one).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&one[..count]),
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while body.len() < length {
        match stream.read(&mut one).ok()? {
            0 => return None,
            count => body.extend_from_slice(&one[..count]),
        }
    }
    Some(Seen { line: head.lines().next().unwrap().to_owned(), head, body })
}

fn answer_with(answer: &Answer, request: &Seen, stream: &mut TcpStream) {
    let respond = |status: u16, headers: &str, length: usize, body: &[u8]| {
        let head =
            format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        [head.as_bytes(), body].concat()
    };
    let part = |content: &[u8], total: u64, sent: &[u8]| {
        let range = request.head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
        let start: u64 = range.split_once('-').unwrap().0.parse().unwrap();
        let range = format!("Content-Range: bytes {start}-{}/{total}\r\n", start + content.len() as u64 - 1);
        respond(206, &range, content.len(), sent)
    };
    let bytes = match answer {
        Answer::StoredUnless(begin) if request.body.starts_with(begin) => respond(400, "", 0, b""),
        Answer::Stored | Answer::StoredUnless(_) => {
            let md5 = body::ContentDigest::of_bytes(&request.body).md5;
            respond(200, &format!("ETag: \"{}\"\r\n", stdx::hex::encode(&md5)), 0, b"")
        }
        Answer::OtherEtag => respond(200, &format!("ETag: \"{}\"\r\n", "0".repeat(32)), 0, b""),
        Answer::Fault(status, document) => respond(*status, "", document.len(), document.as_bytes()),
        Answer::Part(content, total) => part(content, *total, content),
        Answer::CutPart(content, total) => part(content, *total, &content[..content.len() / 2]),
        Answer::Cut => Vec::new(),
    };
    // The client may have gone.
    let _ = stream.write_all(&bytes);
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn file(folder: &TempDir, content: &[u8]) -> PathBuf {
    let path = folder.path().join("one");
    fs::write(&path, content).unwrap();
    path
}

#[test]
fn a_file_is_put_whole_with_its_md5_and_a_signature_but_without_the_secret() {
    let (stub, folder) = (Stub::start(&[Answer::Stored]), tempfile::tempdir().unwrap());
    let content: Vec<u8> = (0..700_000_u32).map(|place| (place % 251) as u8).collect();
    let storage = stub.storage();
    assert_eq!(run(storage.put_file("uploads/1", &file(&folder, &content))), Ok(()));
    let [request] = &stub.seen()[..] else { panic!("one request") };
    assert!(request.line.starts_with("put /files/belfry/uploads/1?"), "{}", request.line);
    assert!(request.line.contains("x-amz-signature=") && !request.head.contains("hush"), "{}", request.line);
    assert!(request.head.contains("content-md5: ") && !request.head.contains("chunked"), "{}", request.head);
    assert!(request.body == content, "{} bytes", request.body.len());
    let status = storage.status();
    assert_eq!((status.put, status.failures, status.failure), (1, 0, None));
    assert!(!format!("{storage:?}").contains("hush"));
}

#[test]
fn only_the_right_etag_confirms_a_file() {
    let (stub, folder) = (Stub::start(&[Answer::OtherEtag]), tempfile::tempdir().unwrap());
    let put = run(stub.storage().put_file("uploads/1", &file(&folder, b"hello")));
    assert!(matches!(&put, Err(StorageFault::Away(why)) if why.contains("ETag")), "{put:?}");
}

#[test]
fn faults_are_told_apart_without_the_signed_url() {
    let faults = [
        Answer::Fault(403, "<Error><Code>SignatureDoesNotMatch</Code></Error>"),
        Answer::Fault(404, "<Error><Code>NoSuchBucket</Code></Error>"),
        Answer::Fault(404, "<Error><Code>NoSuchKey</Code></Error>"),
        Answer::Fault(500, ""),
        Answer::Cut,
        Answer::Part(b"hello", 5),
    ];
    let stub = Stub::start(&faults);
    let storage = stub.storage();
    let open = || run(storage.open("uploads/1", 0..5)).map(|reader| reader.total);
    let expect = |found: &Result<u64, StorageFault>, part: &str| {
        let text = format!("{found:?}");
        assert!(text.contains(part) && !text.contains("ignature="), "{text}");
    };
    expect(&open(), "check [s3] access_key and secret_key");
    expect(&open(), "there is no bucket");
    assert_eq!(open(), Err(StorageFault::Missing));
    assert_eq!(storage.status().failure, None, "the store answers");
    expect(&open(), "status 500");
    expect(&open(), "Away");
    assert!(storage.status().failure.is_some());
    assert_eq!(open(), Ok(5));
    let status = storage.status();
    assert_eq!((status.failures, status.failure), (4, None));
}

#[test]
fn nothing_listens_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let found = storage(&url).check_blocking();
    assert!(matches!(&found, Err(StorageFault::Away(why)) if !why.contains("X-Amz")), "{found:?}");
}

#[test]
fn an_object_is_read_by_ranges_and_a_broken_connection_is_no_end() {
    let stub = Stub::start(&[Answer::Part(b"hello", 100), Answer::CutPart(b"hello", 100)]);
    let storage = stub.storage();
    let read = || {
        run(async {
            let mut reader = storage.open("uploads/1", 7..12).await.unwrap();
            let mut all = Vec::new();
            loop {
                match reader.next().await {
                    Ok(Some(bytes)) => all.extend_from_slice(&bytes),
                    Ok(None) => return (reader.total, Ok(all)),
                    Err(fault) => return (reader.total, Err(fault)),
                }
            }
        })
    };
    assert_eq!(read(), (100, Ok(b"hello".to_vec())));
    assert!(stub.seen()[0].head.contains("range: bytes=7-11\r\n"));
    let (_, broken) = read();
    assert!(matches!(broken, Err(StorageFault::Away(_))), "{broken:?}");
}

#[test]
fn the_check_puts_reads_and_deletes() {
    let stub = Stub::start(&[Answer::Stored, Answer::Part(b"belfry\n", 7), Answer::Fault(204, "")]);
    assert_eq!(stub.storage().check_blocking(), Ok(()));
    let methods: Vec<String> =
        stub.seen().iter().map(|seen| seen.line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["put", "get", "delete"]);
    let other = Stub::start(&[Answer::Stored, Answer::Part(b"others\n", 7), Answer::Fault(204, "")]);
    let found = other.storage().check_blocking();
    assert!(matches!(&found, Err(StorageFault::Refused(why)) if why.contains("other content")), "{found:?}");
}

/// A folder whose files are the queue.
struct Folder(PathBuf);

impl PutSource for Folder {
    fn waiting(&self, most: usize) -> Vec<WaitingFile> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten().take(most);
        let file = |entry: fs::DirEntry| WaitingFile {
            key: entry.file_name().into_string().unwrap(),
            path: entry.path(),
        };
        let mut files: Vec<_> = entries.map(file).collect();
        files.sort_by(|one, other| one.key.cmp(&other.key));
        files
    }

    fn finish(&self, file: &WaitingFile) -> io::Result<bool> {
        match fs::remove_file(&file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            result => result.map(|()| true),
        }
    }
}

fn is_empty(folder: &Path) -> Option<()> {
    fs::read_dir(folder).unwrap().next().is_none().then_some(())
}

#[test]
fn files_wait_over_failures_and_restarts_until_they_are_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one"), b"1").unwrap();
    let source = || Arc::new(Folder(folder.path().to_owned()));
    // The first process finds no store that takes it.
    let broken = Stub::start(&[Answer::Fault(500, "")]);
    let storage = broken.storage();
    let queue = PutQueue::start(&storage, source());
    let tried = || (broken.seen().len() > 1).then_some(());
    wait::until("a try", LIMIT, tried, String::new);
    assert!(folder.path().join("one").exists() && storage.status().failure.is_some());
    drop((queue, storage));
    // The next one does, after a check and a failure.
    let answers = [
        Answer::Stored,
        Answer::Part(b"belfry\n", 7),
        Answer::Fault(204, ""),
        Answer::OtherEtag,
        Answer::Cut,
        Answer::Stored,
    ];
    let stub = Stub::start(&answers);
    let storage = stub.storage();
    let queue = PutQueue::start(&storage, source());
    wait::until("the file is put", LIMIT, || is_empty(folder.path()), || format!("{:?}", storage.status()));
    fs::write(folder.path().join("two"), b"22").unwrap();
    queue.wake();
    wait::until("the next file", LIMIT, || is_empty(folder.path()), || format!("{:?}", storage.status()));
    let bodies: Vec<Vec<u8>> = stub.seen().into_iter().skip(3).map(|seen| seen.body).collect();
    assert_eq!(bodies.last().unwrap(), b"22");
    assert_eq!(bodies.iter().filter(|body| **body == b"1").count(), 3, "two failures and a success");
}

#[test]
fn files_that_cannot_be_read_hold_up_no_other() {
    let (store, folder) = (interop::MemoryStore::start(), tempfile::tempdir().unwrap());
    // A folder can be opened and not read.
    for number in 0..2 * limits::PASS_FAILURES {
        fs::create_dir(folder.path().join(format!("unreadable-{number}"))).unwrap();
    }
    let storage = storage(store.url());
    let queue = PutQueue::start(&storage, Arc::new(Folder(folder.path().to_owned())));
    for name in ["one", "two"] {
        let path = folder.path().join(name);
        fs::write(&path, name).unwrap();
        queue.wake();
        let is_put = || (!path.exists()).then_some(());
        wait::until("the file is put", LIMIT, is_put, || format!("{:?}", storage.status()));
    }
    assert_eq!(storage.status().put, 2);
    assert_eq!(storage.status().failures, 0, "the store is not at fault");
}

#[test]
fn files_that_the_store_refuses_hold_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    // They come before the good one, and are more than a pass tries.
    let bad = limits::PASS_FAILURES + limits::PUTS;
    (0..bad).for_each(|number| put(&format!("a{number}"), "bad"));
    put("good", "good");
    // The queue begins with a check.
    let check = [Answer::Stored, Answer::Part(b"belfry\n", 7), Answer::Fault(204, "")];
    let stub = Stub::start(&[&check[..], &[Answer::StoredUnless(b"bad")]].concat());
    let storage = stub.storage();
    let _queue = PutQueue::start(&storage, Arc::new(Folder(folder.path().to_owned())));
    let is_put = || (!folder.path().join("good").exists()).then_some(());
    wait::until("the good file is put", LIMIT, is_put, || format!("{:?}", storage.status()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), bad, "the others wait");
}
