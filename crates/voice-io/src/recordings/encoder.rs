//! Recordings as MP3: the operator's encoder, one process a conversion, never a shell.
//!
//! The encoder has the WAV file as its standard input and writes MP3 to its standard output. The result is kept beside the
//! recording as `<sid>.mp3` and is deleted with it. A request for an MP3 file (`rest::plane`) polls the conversion; when
//! the request ends before it, the process is killed and nothing of it is kept.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use admin::EncodeError;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::folder::{self, Folder, Sound};
use super::object::{StoredRecordings, StoredSound};
use crate::{helpers, limits};

/// The encoder of the node, and its bounds.
pub(super) struct Encoder {
    folder: Arc<Folder>,
    /// The program of `[voice] mp3`, found by PATH if it has no folder.
    program: PathBuf,
    arguments: Vec<String>,
    /// The time limit of each conversion, and of the wait for its turn.
    deadline: Duration,
    /// Conversions that run.
    running: Semaphore,
    /// Conversions that run or wait.
    admitted: Semaphore,
    /// The number of the next unfinished file: two conversions of one recording write to different files.
    next: AtomicU64,
}

/// Why a conversion made no file.
enum Problem {
    /// It does not exist, or was deleted meanwhile.
    NoRecording,
    /// For the log.
    Failed(String),
}

impl Encoder {
    /// `None`: the command is empty.
    pub(super) fn new(folder: Arc<Folder>, command: &[Box<str>], deadline: Duration) -> Option<Encoder> {
        let [program, arguments @ ..] = command else { return None };
        let program = PathBuf::from(&**program);
        if !helpers::is_installed(&program) {
            tracing::warn!(
                program = %program.display(),
                "the encoder of [voice] mp3 is not there: requests for .mp3 fail until it is installed"
            );
        }
        Some(Encoder {
            folder,
            program,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            deadline,
            running: Semaphore::new(limits::ENCODERS),
            admitted: Semaphore::new(limits::ENCODINGS),
            next: AtomicU64::new(0),
        })
    }

    /// The recording as MP3: the file of an earlier conversion, or a new one. The process is killed at the deadline, and
    /// when the future is dropped.
    pub(super) async fn encode(&self, sid: &str) -> Result<Sound, EncodeError> {
        if let Some(sound) = self.folder.open_mp3(sid) {
            return Ok(sound);
        }
        let _places = self.places().await?;
        // The conversion before may have been of the same recording.
        if let Some(sound) = self.folder.open_mp3(sid) {
            return Ok(sound);
        }
        self.within_time(sid, self.convert(sid)).await
    }

    /// A recording in the store as MP3. Nothing of it is kept, as any node may delete the recording.
    pub(super) async fn encode_stored(
        &self,
        sid: &str,
        stored: &StoredRecordings,
    ) -> Result<Sound, EncodeError> {
        let _places = self.places().await?;
        let sound = stored.open(sid, 0).await?;
        self.within_time(sid, self.convert_stored(sid, sound)).await
    }

    /// The places of a conversion, once it is its turn.
    async fn places(&self) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), EncodeError> {
        let admitted = self.admitted.try_acquire().map_err(|_| EncodeError::Busy)?;
        match timeout(self.deadline, self.running.acquire()).await {
            Ok(Ok(turn)) => Ok((admitted, turn)),
            _ => Err(EncodeError::Busy),
        }
    }

    /// Ends a conversion at the deadline, and logs the reason of one that fails.
    async fn within_time(
        &self,
        sid: &str,
        conversion: impl Future<Output = Result<Sound, Problem>>,
    ) -> Result<Sound, EncodeError> {
        let late = |_| Problem::Failed(format!("it ran longer than {:?} and was killed", self.deadline));
        match timeout(self.deadline, conversion).await.map_err(late).flatten() {
            Ok(sound) => Ok(sound),
            Err(Problem::NoRecording) => Err(EncodeError::NotFound),
            Err(Problem::Failed(why)) => {
                let program = self.program.display();
                tracing::warn!(sid, %program, why, "the encoder of [voice] mp3 made no file");
                Err(EncodeError::Failed)
            }
        }
    }

    /// One conversion of a recording of the folder.
    async fn convert(&self, sid: &str) -> Result<Sound, Problem> {
        let wav = self.folder.open(sid).ok_or(Problem::NoRecording)?;
        let (part, file) = self.run(sid, wav).await?;
        let (folder, sid) = (Arc::clone(&self.folder), sid.to_owned());
        blocking(move || complete(&folder, &file, part, &sid)).await?
    }

    /// One conversion of a recording of the store, by way of files that have no names.
    async fn convert_stored(&self, sid: &str, mut sound: StoredSound) -> Result<Sound, Problem> {
        let unfetched = |error| Problem::Failed(format!("the store does not give the recording: {error:?}"));
        let (part, mut file) = self.part(sid)?;
        while let Some(bytes) = sound.next().await.map_err(unfetched)? {
            let written;
            (file, written) = blocking(move || {
                let written = file.write_all(&bytes);
                (file, written)
            })
            .await?;
            written.map_err(failed("cannot write its input"))?;
        }
        let (part, _) = self.run(sid, part.into_unnamed()?).await?;
        part.into_unnamed()
    }

    fn part(&self, sid: &str) -> Result<(Part, fs::File), Problem> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Part::create(&self.folder, sid, number).map_err(failed("cannot write its output"))
    }

    /// Runs the encoder: both outputs are read until their ends, and only then the status counts.
    async fn run(&self, sid: &str, wav: Sound) -> Result<(Part, fs::File), Problem> {
        let most = wav.len.saturating_mul(2).saturating_add(limits::ENCODED_EXTRA);
        let (part, file) = self.part(sid)?;
        let mut child = self.start(wav.file)?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Problem::Failed("it has no output".to_owned()));
        };
        let ((bytes, file), message) = tokio::try_join!(copy(output, file, most), first_line(errors))?;
        let status = child.wait().await.map_err(failed("its end was not seen"))?;
        if !status.success() {
            return Err(Problem::Failed(format!("it ended with {status}: {message}")));
        }
        if bytes == 0 {
            return Err(Problem::Failed(format!("it wrote nothing: {message}")));
        }
        Ok((part, file))
    }

    /// The process has the file itself as its input, so nothing has to be copied to it.
    fn start(&self, wav: fs::File) -> Result<Child, Problem> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::from(wav)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).spawn().map_err(failed("it cannot be started"))
    }
}

/// The words of an error of the system, with what was tried.
fn failed(tried: &'static str) -> impl Fn(io::Error) -> Problem {
    move |error| Problem::Failed(format!("{tried}: {error}"))
}

/// Work on the disk, away from the thread of the requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    spawn_blocking(work).await.map_err(|error| Problem::Failed(error.to_string()))
}

/// The bytes that were copied, and the file; more than `most` are an error.
async fn copy(mut output: ChildStdout, mut file: fs::File, most: u64) -> Result<(u64, fs::File), Problem> {
    let mut buffer = vec![0; limits::ENCODED_PIECE];
    let mut bytes = 0;
    loop {
        let count = output.read(&mut buffer).await.map_err(failed("its output cannot be read"))?;
        if count == 0 {
            return Ok((bytes, file));
        }
        bytes += count as u64;
        if bytes > most {
            return Err(Problem::Failed(format!("it wrote more than {most} bytes and was killed")));
        }
        let write = move || {
            let written = file.write_all(&buffer[..count]);
            (written, file, buffer)
        };
        let written;
        (written, file, buffer) = blocking(write).await?;
        written.map_err(failed("cannot write its output"))?;
    }
}

/// The first line of the encoder's errors. The rest is read, too: a full pipe would stop the encoder.
async fn first_line(mut errors: ChildStderr) -> Result<String, Problem> {
    let mut message = Vec::new();
    let read = (&mut errors).take(limits::ENCODER_MESSAGE).read_to_end(&mut message).await;
    read.map_err(failed("its errors cannot be read"))?;
    tokio::io::copy(&mut errors, &mut tokio::io::sink())
        .await
        .map_err(failed("its errors cannot be read"))?;
    let message = String::from_utf8_lossy(&message);
    Ok(message.lines().next().unwrap_or("without a message").to_owned())
}

/// The file under its own name. A recording that was deleted in the meantime leaves none.
fn complete(folder: &Folder, file: &fs::File, part: Part, sid: &str) -> Result<Sound, Problem> {
    file.sync_all().map_err(failed("cannot write its output"))?;
    part.keep(folder, sid).map_err(failed("cannot write its output"))?;
    // `Folder::delete` removes the recording first and its MP3 file second: either it removes this file, or the
    // recording is found missing here. It may be in the store by now; then the next request converts it from there.
    if folder.open(sid).is_none() {
        let _ = folder.delete(sid);
        return Err(Problem::NoRecording);
    }
    folder.open_mp3(sid).ok_or(Problem::NoRecording)
}

/// An unfinished file, removed unless it is kept.
struct Part {
    path: Option<PathBuf>,
}

impl Part {
    /// Creates the file under a name that only this conversion has.
    fn create(folder: &Folder, sid: &str, number: u64) -> io::Result<(Part, fs::File)> {
        let path = folder.mp3_part(sid, number).ok_or(io::ErrorKind::InvalidInput)?;
        let file = folder.create(&path)?;
        Ok((Part { path: Some(path) }, file))
    }

    /// The file, open for reading and without a name: it ends with its readers.
    fn into_unnamed(self) -> Result<Sound, Problem> {
        self.path.as_deref().and_then(folder::open).ok_or(Problem::NoRecording)
    }

    /// Gives the file its name, in one step: a reader sees a whole file or none.
    fn keep(mut self, folder: &Folder, sid: &str) -> io::Result<()> {
        let (Some(path), Some(name)) = (&self.path, folder.mp3(sid)) else { return Ok(()) };
        fs::rename(path, name)?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use tokio::task::JoinSet;

    use super::*;

    const SID: &str = "RE00000000000000000000000000000001";
    const LONG: Duration = Duration::from_secs(60);

    fn encoder(folder: &Path, script: &str, deadline: Duration) -> Arc<Encoder> {
        let folder = Arc::new(Folder::new(folder, None));
        let command = ["sh", "-c", script].map(Box::from);
        Arc::new(Encoder::new(folder, &command, deadline).unwrap())
    }

    fn recording(folder: &Path) -> PathBuf {
        let path = folder.join(format!("{SID}.wav"));
        fs::write(&path, b"RIFFsound").unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn an_mp3_file_is_made_once_readable_by_the_owner_alone_and_deleted_with_its_recording() {
        let place = tempfile::tempdir().unwrap();
        recording(place.path());
        let count = place.path().join("count");
        let script = format!("echo run >> {}; printf ID3; cat", count.display());
        let encoder = encoder(place.path(), &script, LONG);
        for _ in 0..3 {
            let mut sound = encoder.encode(SID).await.unwrap();
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut sound.file, &mut bytes).unwrap();
            assert_eq!((sound.len, &*bytes), (12, &b"ID3RIFFsound"[..]));
        }
        assert_eq!(fs::read_to_string(&count).unwrap(), "run\n");
        assert_eq!(mode(&place.path().join(format!("{SID}.mp3"))), 0o600);
        encoder.folder.delete(SID).unwrap();
        assert_eq!(names(place.path()), ["count"]);
        assert_eq!(encoder.encode(SID).await.unwrap_err(), EncodeError::NotFound);
        assert_eq!(encoder.encode("../x").await.unwrap_err(), EncodeError::NotFound);
    }

    #[tokio::test]
    async fn an_encoder_that_fails_writes_nothing_or_too_much_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        recording(place.path());
        for script in ["printf ID3; echo no codec >&2; exit 3", "exit 0", "yes", "cat >&2; cat /dev/zero"] {
            let encoder = encoder(place.path(), script, LONG);
            assert_eq!(encoder.encode(SID).await.unwrap_err(), EncodeError::Failed, "{script}");
            assert_eq!(names(place.path()), [format!("{SID}.wav")], "{script}");
        }
        let folder = Arc::new(Folder::new(place.path(), None));
        let absent = Encoder::new(folder, &["/nowhere/lame".into()], LONG).unwrap();
        assert_eq!(absent.encode(SID).await.unwrap_err(), EncodeError::Failed);
    }

    /// The number of its process that the script has written whole: the file is there before the number is in it.
    fn written(number: &Path) -> Option<String> {
        let text = fs::read_to_string(number).ok()?;
        Some(text.strip_suffix('\n')?.to_owned())
    }

    /// The process whose number the script wrote has ended. One that was ended before it wrote is gone, too.
    async fn until_gone(number: &Path) {
        let Some(process) = written(number) else { return };
        let status = PathBuf::from(format!("/proc/{process}/status"));
        while fs::read_to_string(&status).is_ok_and(|text| !text.contains("State:\tZ")) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_encoder_is_killed_at_the_deadline_and_when_the_request_ends() {
        let place = tempfile::tempdir().unwrap();
        recording(place.path());
        let number = place.path().join("number");
        let script = format!("printf ID3; echo $$ > {}; exec sleep 600", number.display());
        let late = encoder(place.path(), &script, Duration::from_secs(2));
        assert_eq!(late.encode(SID).await.unwrap_err(), EncodeError::Failed);
        until_gone(&number).await;
        let _ = fs::remove_file(&number);
        let patient = encoder(place.path(), &script, LONG);
        let mut work = JoinSet::new();
        work.spawn(async move { patient.encode(SID).await.map(|sound| sound.len) });
        while written(&number).is_none() {
            tokio::task::yield_now().await;
        }
        work.shutdown().await;
        until_gone(&number).await;
        assert_eq!(names(place.path()), [format!("{SID}.wav"), "number".to_owned()]);
    }

    #[tokio::test]
    async fn a_few_encoders_run_at_once_a_bounded_number_waits_and_more_are_refused() {
        let place = tempfile::tempdir().unwrap();
        recording(place.path());
        let encoder = encoder(place.path(), "printf ID3", LONG);
        let running = encoder.running.acquire_many(limits::ENCODERS as u32).await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..limits::ENCODINGS {
            let encoder = Arc::clone(&encoder);
            waiting.spawn(async move { encoder.encode(SID).await.map(|sound| sound.len) });
        }
        while encoder.admitted.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(encoder.encode(SID).await.unwrap_err(), EncodeError::Busy);
        drop(running);
        while let Some(one) = waiting.join_next().await {
            assert_eq!(one.unwrap(), Ok(3));
        }
        assert_eq!(encoder.admitted.available_permits(), limits::ENCODINGS);
    }

    #[tokio::test]
    async fn a_recording_that_is_deleted_during_its_conversion_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        let wav = recording(place.path());
        let encoder = encoder(place.path(), &format!("rm {}; printf ID3", wav.display()), LONG);
        assert_eq!(encoder.encode(SID).await.unwrap_err(), EncodeError::NotFound);
        assert_eq!(names(place.path()), [""; 0]);
    }

    #[test]
    fn unfinished_files_that_a_crash_left_are_removed_at_the_start() {
        let place = tempfile::tempdir().unwrap();
        recording(place.path());
        for name in [&format!("{SID}.7.mp3.part"), "others.mp3.part"] {
            fs::write(place.path().join(name), b"ID3").unwrap();
        }
        Folder::new(place.path(), None).repair();
        assert_eq!(names(place.path()), [&format!("{SID}.wav"), "others.mp3.part"]);
    }

    /// Debian's `lame`, installed by `tools/setup`.
    #[tokio::test]
    async fn lame_encodes_a_recording() {
        let place = tempfile::tempdir().unwrap();
        let tone = |n: i32| ((f64::from(n) * 0.345).sin() * 8_000.0) as i16;
        let samples = (0..16_000).map(tone).collect();
        let bytes = media::wav::Wav { rate: 8_000, channels: 1, samples }.to_bytes();
        fs::write(place.path().join(format!("{SID}.wav")), &bytes).unwrap();
        let folder = Arc::new(Folder::new(place.path(), None));
        let command = ["lame", "--quiet", "-", "-"].map(Box::from);
        let encoder = Encoder::new(folder, &command, LONG).unwrap();
        let mut sound = encoder.encode(SID).await.unwrap();
        let mut mp3 = Vec::new();
        io::Read::read_to_end(&mut sound.file, &mut mp3).unwrap();
        assert!(mp3.starts_with(b"ID3") || mp3[0] == 0xff && mp3[1] & 0xe0 == 0xe0, "{:?}", &mp3[..4]);
        assert!(mp3.len() > 2_000 && mp3.len() < bytes.len(), "{} of {}", mp3.len(), bytes.len());
    }
}
