//! The folder of recordings: names, repair after a crash, and reading of finished files.
//!
//! Names: `<sid>.deleted` marks a recording that was deleted while it waited for the store of objects. `<sid>.wav` and `<sid>.mp3` are whole; `<sid>[.<node>].wav.part` grows, and `<sid>.<number>[.<node>].mp3.part` is a conversion under way.
//! Sids of other forms are never put into a path.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use media::record::HEADER_LEN;
use object_storage::PutWaker;

/// Where recordings are, and what its files are called.
pub(super) struct Folder {
    path: PathBuf,
    /// The node's name in its farm, whose other nodes may use the same folder: unfinished files are named for their node.
    node: Option<Box<str>>,
    /// The queue of the store of objects, if there is one.
    queue: OnceLock<PutWaker>,
}

/// A finished recording, as WAV or as MP3.
#[derive(Debug)]
pub struct Sound {
    /// Bytes of the file.
    pub len: u64,
    /// The file, open for reading.
    pub file: fs::File,
}

/// A recording that a crash had left unfinished, after its repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedRecording {
    /// The recording's sid.
    pub sid: String,
    /// Whole seconds of its sound. `None`: it had no sound, and is removed.
    pub seconds: Option<u32>,
}

/// The ending of a recording that grows.
const PART: &str = ".wav.part";
/// The ending of an unfinished conversion.
const MP3_PART: &str = ".mp3.part";

/// The ending of the mark of a deleted recording.
const DELETED: &str = "deleted";

/// Characters of a recording's sid.
const SID: usize = 34;

/// Opens a file for reading; `None`: there is none.
pub(super) fn open(path: &Path) -> Option<Sound> {
    let file = fs::File::open(path).ok()?;
    let len = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    Some(Sound { len, file })
}

/// Nothing else becomes a part of a path.
pub(super) fn is_sid(sid: &str) -> bool {
    let digits = sid.strip_prefix(ivr::sid::RECORDING).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The byte rate that a header tells.
fn bytes_per_second(header: &[u8; HEADER_LEN]) -> u32 {
    u32::from_le_bytes([header[28], header[29], header[30], header[31]]).max(1)
}

impl Folder {
    pub(super) fn new(path: &Path, node: Option<Box<str>>) -> Folder {
        Folder { path: path.to_owned(), node, queue: OnceLock::new() }
    }

    /// Complete recordings wait for this queue from now on.
    pub(super) fn wake_with(&self, queue: PutWaker) {
        // A folder has one.
        let _ = self.queue.set(queue);
    }

    /// The sids and paths of complete recordings.
    pub(super) fn complete_recordings(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let sid = name.strip_suffix(".wav").filter(|sid| is_sid(sid))?;
            Some((sid.to_owned(), entry.path()))
        })
    }

    /// The name of the node; empty if it is alone.
    pub(super) fn node(&self) -> &str {
        self.node.as_deref().unwrap_or_default()
    }

    /// The ending of unfinished files of this node.
    fn of_node(&self, ending: &str) -> String {
        self.node.as_ref().map_or(ending.to_owned(), |node| format!(".{node}{ending}"))
    }

    /// The path of a finished recording. `None`: no name of a recording.
    pub(super) fn path(&self, sid: &str) -> Option<PathBuf> {
        is_sid(sid).then(|| self.path.join(format!("{sid}.wav")))
    }

    /// The path of a recording that grows.
    pub(super) fn part(&self, sid: &str) -> Option<PathBuf> {
        is_sid(sid).then(|| self.path.join(format!("{sid}{}", self.of_node(PART))))
    }

    /// The path of its conversion to MP3. `None`: no name of a recording.
    pub(super) fn mp3(&self, sid: &str) -> Option<PathBuf> {
        is_sid(sid).then(|| self.path.join(format!("{sid}.mp3")))
    }

    /// An unfinished conversion.
    pub(super) fn mp3_part(&self, sid: &str, number: u64) -> Option<PathBuf> {
        is_sid(sid).then(|| self.path.join(format!("{sid}.{number}{}", self.of_node(MP3_PART))))
    }

    pub(super) fn open(&self, sid: &str) -> Option<Sound> {
        open(&self.path(sid)?)
    }

    /// Whole seconds of a finished recording. `None`: it is not here.
    pub(super) fn seconds(&self, sid: &str) -> Option<u32> {
        let Sound { len, mut file } = self.open(sid)?;
        let mut header = [0; HEADER_LEN];
        file.read_exact(&mut header).ok()?;
        u32::try_from(len.saturating_sub(HEADER_LEN as u64) / u64::from(bytes_per_second(&header))).ok()
    }

    pub(super) fn open_mp3(&self, sid: &str) -> Option<Sound> {
        open(&self.mp3(sid)?)
    }

    /// The recording first, then its MP3 file: a conversion that ends in between finds no recording
    /// (`encoder::complete`).
    pub(super) fn delete(&self, sid: &str) -> io::Result<()> {
        self.mark_deleted(sid)?;
        [self.path(sid), self.mp3(sid)].into_iter().flatten().try_for_each(|path| {
            match fs::remove_file(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result,
            }
        })
    }

    /// Marks a recording that may be on its way into the store as deleted. Without the mark, a node that puts the recording could not tell its
    /// deletion from the end of the same PUT at another node of the folder, after which the object has to stay.
    fn mark_deleted(&self, sid: &str) -> io::Result<()> {
        let Some(path) = self.path(sid).filter(|path| self.queue.get().is_some() && path.exists()) else {
            return Ok(());
        };
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path.with_extension(DELETED))
            .map(drop)
    }

    /// True if the recording at this path was deleted while it waited for the store.
    pub(super) fn is_deleted(&self, path: &Path) -> bool {
        path.with_extension(DELETED).exists()
    }

    /// The sids and paths of the marks of recordings that were deleted so long ago.
    pub(super) fn old_marks(&self, age: Duration) -> impl Iterator<Item = (String, PathBuf)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let name = entry.file_name().into_string().ok()?;
            let sid = name.strip_suffix(DELETED)?.strip_suffix('.').filter(|sid| is_sid(sid))?;
            let changed = entry.metadata().ok()?.modified().ok()?;
            changed.elapsed().is_ok_and(|since| since >= age).then(|| (sid.to_owned(), entry.path()))
        })
    }

    /// Begins one. The folder is made with the first.
    pub(super) fn create(&self, part: &Path) -> io::Result<fs::File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part)
    }

    /// Complete on the disk, and under its own name.
    pub(super) fn complete(&self, file: &fs::File, sid: &str) -> io::Result<()> {
        let (Some(part), Some(path)) = (self.part(sid), self.path(sid)) else { return Ok(()) };
        file.sync_all()?;
        fs::rename(part, path)?;
        fs::File::open(&self.path)?.sync_all()?;
        if let Some(queue) = self.queue.get() {
            queue.wake();
        }
        Ok(())
    }

    /// Repairs the folder after a crash: sound is kept, nothing else. Other nodes may write their files at this moment. Returns the recordings
    /// that are complete or removed now.
    pub(super) fn repair(&self) -> Vec<RepairedRecording> {
        let mut repaired = Vec::new();
        let Ok(entries) = fs::read_dir(&self.path) else { return repaired };
        let (part, mp3_part) = (self.of_node(PART), self.of_node(MP3_PART));
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_conversion = |name: &str| name.ends_with(&mp3_part) && name.get(..SID).is_some_and(is_sid);
            if name.to_str().is_some_and(is_conversion) {
                let _ = fs::remove_file(entry.path());
                continue;
            }
            let Some(sid) = name.to_str().and_then(|name| name.strip_suffix(&*part)) else { continue };
            if !is_sid(sid) {
                continue;
            }
            let seconds = match self.repair_one(sid, &entry.path()) {
                Ok((0, _)) => {
                    tracing::info!(sid, "a recording that a crash left had no sound, and is removed");
                    None
                }
                Ok((bytes, seconds)) => {
                    tracing::warn!(sid, bytes, "a recording that a crash left is complete now");
                    Some(seconds)
                }
                Err(error) => {
                    tracing::warn!(sid, %error, "a recording that a crash left cannot be repaired");
                    continue;
                }
            };
            repaired.push(RepairedRecording { sid: sid.to_owned(), seconds });
        }
        repaired
    }

    /// Bytes of sound, and its whole seconds.
    fn repair_one(&self, sid: &str, part: &Path) -> io::Result<(u32, u32)> {
        let mut file = fs::OpenOptions::new().read(true).write(true).open(part)?;
        let mut header = [0; HEADER_LEN];
        let whole = file.read_exact(&mut header).is_ok() && header.starts_with(b"RIFF");
        let sound = file.metadata()?.len().saturating_sub(HEADER_LEN as u64);
        // Bytes of a sample of all channels (block align of the header): half a sample is cut off.
        let width = u64::from(u16::from_le_bytes([header[32], header[33]])).max(1);
        let sound = u32::try_from(sound / width * width).unwrap_or(u32::MAX - 64);
        if !whole || sound == 0 {
            fs::remove_file(part)?;
            return Ok((0, 0));
        }
        file.set_len(HEADER_LEN as u64 + u64::from(sound))?;
        // The two lengths of the header, of the whole and of the sound.
        for (position, size) in [(4, sound + 36), (40, sound)] {
            file.seek(SeekFrom::Start(position))?;
            file.write_all(&size.to_le_bytes())?;
        }
        self.complete(&file, sid)?;
        Ok((sound, sound / bytes_per_second(&header)))
    }
}
