use std::os::unix::fs::symlink;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ::voice::Done;
use media::record::{RecordOptions, Recorder};
use media::wav::Wav;

use super::*;

struct Told(std::sync::Mutex<SyncSender<(u64, Result<(), String>)>>);

impl Deliver for Told {
    fn deliver(&self, ticket: Ticket, done: Done) {
        if let Done::Written(result) = done {
            self.0.lock().unwrap().send((ticket.id, result)).unwrap();
        }
    }
}

type Answers = Receiver<(u64, Result<(), String>)>;

fn start(folder: &Path) -> (Files, Answers) {
    let (sender, answers) = sync_channel(16);
    (Files::start(folder, None, Arc::new(Told(std::sync::Mutex::new(sender)))).unwrap(), answers)
}

fn next(answers: &Answers) -> (u64, Result<(), String>) {
    answers.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn sid(number: u128) -> String {
    ivr::sid::new(ivr::sid::RECORDING, number)
}

const OPTIONS: RecordOptions = RecordOptions { rate: 8_000, channels: 1, trim: false, max_ms: 0 };

fn record(files: &Files, number: u64, samples: &[i16]) -> (Recorder, Box<dyn RecordingFile>) {
    let ticket = Ticket { shard: 0, id: number };
    let mut file = files.create(ticket, &sid(u128::from(number)), "AC1").unwrap();
    let mut recorder = Recorder::new(OPTIONS, &mut file);
    recorder.handle(samples, &mut file);
    file.flush().unwrap();
    (recorder, file)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_recording_is_a_file_once_it_is_told_of() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("made/when/needed");
    let (files, answers) = start(&folder);
    assert!(!folder.exists());
    let samples: Vec<i16> = (0..8_000).collect();
    let (recorder, mut file) = record(&files, 1, &samples);
    assert_eq!(recorder.finish(&mut file), 1_000);
    file.close(true);
    assert_eq!(next(&answers), (1, Ok(())));
    assert_eq!(names(&folder), [format!("{}.wav", sid(1))]);
    let mut sound = files.open(&sid(1)).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut sound.file, &mut bytes).unwrap();
    assert_eq!(sound.len, bytes.len() as u64);
    assert_eq!(Wav::parse(&bytes).unwrap().samples, samples);
    files.delete(&sid(1)).unwrap();
    files.delete(&sid(1)).unwrap();
    assert!(files.open(&sid(1)).is_none());
}

#[test]
fn recordings_are_readable_by_the_servers_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("recordings");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (files, answers) = start(&folder);
    let (recorder, mut file) = record(&files, 1, &[1; 800]);
    recorder.finish(&mut file);
    file.close(true);
    assert_eq!(next(&answers), (1, Ok(())));
    assert_eq!((mode(&folder), mode(&folder.join(format!("{}.wav", sid(1))))), (0o700, 0o600));
}

#[test]
fn a_dropped_or_unwanted_recording_leaves_no_file() {
    let place = tempfile::tempdir().unwrap();
    let (files, answers) = start(place.path());
    record(&files, 1, &[1; 800]).1.close(false);
    drop(record(&files, 2, &[1; 800]));
    assert_eq!((next(&answers), next(&answers)), ((1, Ok(())), (2, Ok(()))));
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn a_full_disk_is_told_of_at_once_with_file_and_reason() {
    let place = tempfile::tempdir().unwrap();
    let part = place.path().join(format!("{}.wav.part", sid(1)));
    symlink("/dev/full", &part).unwrap();
    let (files, answers) = start(place.path());
    // The repair at the start may have removed the link, for it holds no sound.
    if !part.is_symlink() {
        symlink("/dev/full", &part).unwrap();
    }
    let (_, file) = record(&files, 1, &[1; 800]);
    let (id, told) = next(&answers);
    let told = told.unwrap_err();
    assert_eq!(id, 1);
    assert!(told.contains(&sid(1)) && told.contains("No space left"), "{told}");
    file.close(true);
    assert_eq!(names(place.path()), [""; 0]);
    // Other recordings go on.
    record(&files, 2, &[1; 800]).1.close(true);
    assert_eq!(next(&answers), (2, Ok(())));
}

#[test]
fn a_folder_that_is_a_file_is_told_of() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("file");
    std::fs::write(&folder, "").unwrap();
    let (files, answers) = start(&folder);
    let (_, _file) = record(&files, 1, &[1; 800]);
    assert!(next(&answers).1.unwrap_err().contains(&sid(1)));
}

#[test]
fn a_partial_file_after_a_crash_becomes_a_recording_or_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: String| place.path().join(name);
    let whole = Wav { rate: 8_000, channels: 1, samples: vec![7; 20_100] }.to_bytes();
    let mut cut = whole.clone();
    // Its header tells of less than there is, and the last sample is half.
    cut[4..8].copy_from_slice(&36_u32.to_le_bytes());
    cut[40..44].copy_from_slice(&0_u32.to_le_bytes());
    cut.push(9);
    std::fs::write(path(format!("{}.wav.part", sid(1))), cut).unwrap();
    std::fs::write(path(format!("{}.wav.part", sid(2))), &whole[..44]).unwrap();
    std::fs::write(path(format!("{}.wav.part", sid(3))), "RIF").unwrap();
    std::fs::write(path("other.wav.part".into()), "RIF").unwrap();
    let (files, _) = start(place.path());
    assert_eq!(names(place.path()), [format!("{}.wav", sid(1)), "other.wav.part".into()]);
    let mut repaired = files.repaired().to_vec();
    repaired.sort_by_key(|one| one.sid.clone());
    let one = |number, seconds| RepairedRecording { sid: sid(number), seconds };
    assert_eq!(repaired, [one(1, Some(2)), one(2, None), one(3, None)]);
    assert_eq!((files.seconds(&sid(1)), files.seconds(&sid(2))), (Some(2), None));
    assert_eq!(std::fs::read(path(format!("{}.wav", sid(1)))).unwrap(), whole);
}

#[test]
fn a_node_that_starts_leaves_the_recordings_of_others_in_its_folder_alone() {
    let place = tempfile::tempdir().unwrap();
    let node = |name: &str| {
        let (sender, answers) = sync_channel(16);
        let told = Arc::new(Told(std::sync::Mutex::new(sender)));
        (Files::start(place.path(), Some(name.into()), told).unwrap(), answers)
    };
    let (first, of_first) = node("n1");
    let (recorder, mut file) = record(&first, 1, &[7; 100]);
    assert_eq!(file.node(), "n1");
    let (second, _) = node("n2");
    recorder.finish(&mut file);
    file.close(true);
    assert_eq!(next(&of_first), (1, Ok(())));
    assert_eq!(names(place.path()), [format!("{}.wav", sid(1))]);
    assert!(second.open(&sid(1)).is_some());
    // A crash leaves this; the node itself makes a recording of it.
    let whole = Wav { rate: 8_000, channels: 1, samples: vec![7; 100] }.to_bytes();
    std::fs::write(place.path().join(format!("{}.n1.wav.part", sid(2))), whole).unwrap();
    let _second = node("n2");
    assert!(second.open(&sid(2)).is_none());
    let _first = node("n1");
    assert!(second.open(&sid(2)).is_some());
}

#[test]
fn only_names_of_recordings_become_paths() {
    let place = tempfile::tempdir().unwrap();
    let (files, _) = start(&place.path().join("recordings"));
    std::fs::write(place.path().join("secret.wav"), "RIFF").unwrap();
    for name in ["../secret", "", "RE", "RE/../../secret", &format!("{}/", sid(1)), &sid(1)[1..]] {
        assert!(files.open(name).is_none() && files.path(name).is_none(), "{name}");
        files.delete(name).unwrap();
    }
    assert!(place.path().join("secret.wav").exists());
}

#[test]
fn too_many_at_once_are_refused_and_those_open_close() {
    let place = tempfile::tempdir().unwrap();
    let (sender, answers) = sync_channel(16);
    let told = Arc::new(Told(std::sync::Mutex::new(sender)));
    let files = Files::with(Folder::new(place.path(), None), told, 2).unwrap();
    let create = |number| files.create(Ticket { shard: 0, id: number }, &sid(u128::from(number)), "AC1");
    let open = (create(1).unwrap(), create(2).unwrap());
    assert!(create(3).is_err_and(|told| told.contains("too many")));
    drop(open);
    next(&answers).1.unwrap();
    assert!(create(4).is_ok());
}

/// Hears of the first, and of nothing more until it is let.
struct Busy(std::sync::Mutex<Receiver<()>>);

impl Deliver for Busy {
    fn deliver(&self, _ticket: Ticket, _done: Done) {
        let _ = self.0.lock().unwrap().recv();
    }
}

#[test]
fn a_writer_that_does_not_keep_up_is_told_of() {
    let place = tempfile::tempdir().unwrap();
    let (go_on, busy) = sync_channel(1);
    let files =
        Files::with(Folder::new(place.path(), None), Arc::new(Busy(std::sync::Mutex::new(busy))), 2).unwrap();
    let stuck = files.create(Ticket { shard: 0, id: 1 }, "no name", "AC1").unwrap();
    let mut file = files.create(Ticket { shard: 0, id: 2 }, &sid(2), "AC1").unwrap();
    let mut flush = || {
        file.append(&[0; 4]);
        file.flush()
    };
    let refused = (0..=limits::RECORDED_PIECES + 2).find_map(|_| flush().err());
    assert!(refused.is_some_and(|told| told.contains("does not keep up")));
    // Their last words have a place all the same.
    file.close(false);
    drop((stuck, go_on));
    drop(files);
    assert_eq!(names(place.path()), [""; 0]);
}

fn storage_of(store: &interop::MemoryStore) -> Arc<ObjectStorage> {
    let url = store.url().parse().unwrap();
    let settings = object_storage::ObjectStorageSettings::new(url, "files", ("AKEXAMPLE", "hush"));
    ObjectStorage::start(settings).unwrap()
}

#[test]
fn a_recording_that_two_nodes_put_stays_and_one_that_was_deleted_goes() {
    use object_storage::{PutSource as _, WaitingFile};

    let (store, place) = (interop::MemoryStore::start(), tempfile::tempdir().unwrap());
    store.set_away(true);
    let node = |name: &str| {
        let (sender, _) = sync_channel(16);
        let deliver = Arc::new(Told(std::sync::Mutex::new(sender)));
        let files = Files::start(place.path(), Some(name.into()), deliver).unwrap();
        files.with_storage(Some(storage_of(&store)))
    };
    let (n1, n2) = (node("n1"), node("n2"));
    let file = |number| {
        let path = n1.folder.path(&sid(number)).unwrap();
        std::fs::write(&path, b"RIFF").unwrap();
        WaitingFile { key: format!("recordings/{}.wav", sid(number)), path }
    };
    // Both nodes of the folder have put it: the second one to end must not take the object away.
    let both = file(1);
    assert!(n1.folder.finish(&both).unwrap());
    assert!(n2.folder.finish(&both).unwrap(), "false deletes the only copy");
    // It is deleted at one node while the other one puts it.
    let deleted = file(2);
    n1.delete(&sid(2)).unwrap();
    assert!(!n2.folder.finish(&deleted).unwrap());
    // The mark outlives every PUT, and goes once the object has been deleted again.
    let mark = deleted.path.with_extension("deleted");
    assert_eq!(n1.folder.old_deletions(), []);
    let old = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::options().write(true).open(&mark).unwrap().set_modified(old).unwrap();
    assert_eq!(n1.folder.old_deletions(), [WaitingFile { path: mark.clone(), ..deleted }]);
    store.set_away(false);
    drop(n2);
    let n3 = node("n3");
    wait::within(Duration::from_secs(60), || (!mark.exists()).then_some(())).expect("the mark goes");
    assert!(store.paths().iter().all(|path| !path.contains(&sid(2))), "{:?}", store.paths());
    drop(n3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_recording_goes_into_the_store_and_is_read_converted_and_deleted_there() {
    let (store, place) = (interop::MemoryStore::start(), tempfile::tempdir().unwrap());
    let storage = storage_of(&store);
    let (files, answers) = start(place.path());
    let encoder = ["sh", "-c", "printf ID3; cat"].map(Box::from);
    let files = files.with_mp3(&encoder).with_storage(Some(Arc::clone(&storage)));
    let samples: Vec<i16> = (0..8_000).collect();
    let (recorder, mut file) = record(&files, 1, &samples);
    recorder.finish(&mut file);
    file.close(true);
    assert_eq!(next(&answers), (1, Ok(())));
    let limit = Duration::from_secs(60);
    let is_put = || names(place.path()).is_empty().then_some(());
    wait::within(limit, is_put).expect("the recording is put");
    let object = store.object(&format!("files/recordings/{}.wav", sid(1))).unwrap();
    assert_eq!(Wav::parse(&object).unwrap().samples, samples);

    // Read on a thread that may wait, as handlers of REST do.
    let files = Arc::new(files);
    let read = |from: u64| {
        let files = Arc::clone(&files);
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Handle::current();
            let mut sound = runtime.block_on(files.open_stored(&sid(1), from)).unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut sound, &mut bytes).unwrap();
            (sound.len, bytes)
        })
    };
    let whole = object.len() as u64;
    assert_eq!(read(0).await.unwrap(), (whole, object.clone()));
    assert_eq!(read(40).await.unwrap(), (whole, object[40..].to_vec()));
    assert_eq!(read(whole).await.unwrap(), (whole, object.clone()), "beyond its end nothing is left out");
    assert_eq!(read_whole(&storage, &sid(1), object.len()).await, Ok(object.clone()));
    assert!(read_whole(&storage, &sid(1), object.len() - 1).await.is_err());
    let mut mp3 = files.open_mp3(&sid(1)).await.unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut mp3.file, &mut bytes).unwrap();
    assert_eq!((mp3.len, bytes), (whole + 3, [b"ID3".as_slice(), &object].concat()));
    assert!(names(place.path()).is_empty(), "a conversion of it is not kept");

    store.set_away(true);
    assert_eq!(files.open_stored(&sid(1), 0).await.unwrap_err(), EncodeError::Away);
    assert_eq!(files.delete_stored(&sid(1)).await, Err(EncodeError::Away));
    store.set_away(false);
    assert_eq!(files.delete_stored(&sid(1)).await, Ok(()));
    assert_eq!(files.delete_stored(&sid(1)).await, Ok(()));
    assert_eq!(files.open_stored(&sid(1), 0).await.unwrap_err(), EncodeError::NotFound);
    assert_eq!(files.open_mp3(&sid(1)).await.unwrap_err(), EncodeError::NotFound);
}
