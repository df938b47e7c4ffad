//! Files that users share by HTTP (XEP-0363): slots, and their content.
//!
//! A slot is not stored: it is a grant that we signed, which says whose file of which name, size and type may
//! be put at which place until when. A file is written beside, synced and renamed, so it is there whole or
//! not at all; its first lines say what it is. A file that is older than `keep`, or whose account has been
//! removed, is deleted, one folder at a time.
//!
//! Nodes of a farm may share the folder, or have one each; then a row of their database names the node of each file
//! ([`FarmFiles`], `docs/decisions/0073`). With a store of objects files are put there, and only their heads stay (`object`).
//!
//! All but `slot` and `admit` wait for the disk: not on a shard.

mod farm;
mod file;
mod grant;
mod object;
#[cfg(test)]
mod object_tests;
mod queue;
mod sizes;
mod sweep;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use chat::effect::UploadSlot;
use object_storage::{ObjectStorage, PutQueue};
use stdx::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use xmpp::Bare;

use crate::limits;

pub use farm::{FarmAnswer, FarmFiles, ReadFault, RegisterFault, UploadPiece};
pub(crate) use farm::{FileInfo, OpenFile};
pub(crate) use file::{Incoming, Stored};
pub(crate) use grant::Grant;
use net::clock::Clock;
pub(crate) use queue::UploadPermit;
use queue::UploadQueue;
use sizes::FolderSizes;

/// The settings of stored files.
#[derive(Clone, Debug)]
pub struct UploadFolderSettings {
    /// The folder of the files.
    pub folder: PathBuf,
    /// Bytes of all of them.
    pub total: u64,
    /// The age up to which a file is kept.
    pub keep: Duration,
    /// `https://chat.example.net`; the file's place follows.
    pub url: Box<str>,
    /// The key of signatures.
    pub key: [u8; 32],
    /// The node's name in its farm, whose other nodes may use the same folder; `None`: the node is alone.
    pub node: Option<Box<str>>,
    /// The store that complete files are put into; `None`: they stay in the folder.
    pub storage: Option<Arc<ObjectStorage>>,
}

/// True unless the account of that address certainly does not exist.
pub type HasAccount = Box<dyn FnMut(&str) -> bool + Send>;

/// The reason why a request for a place is refused (`http::files` has the HTTP status of each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such place, or no such file.
    Unknown,
    /// No grant came with it.
    Ungranted,
    /// A grant for something else, or none of ours.
    Forged,
    /// The grant was good until [`limits::UPLOAD_SLOT`] after it was given.
    Expired,
    /// The slot was used already.
    Taken,
    /// Fewer bytes than the grant is for.
    WrongSize,
    /// More bytes than the grant is for.
    TooLarge,
    /// Without a size nothing is taken.
    NoSize,
    /// Another media type than the grant is for.
    WrongType,
    /// Others of the same user come, or wait for their turn.
    Waiting,
    /// The file comes more slowly than [`limits::UPLOAD_SPEED`].
    Slow,
    /// The server has as much as it may have.
    Full,
    /// [`limits::UPLOADS_AT_ONCE`] files come.
    Busy,
    /// The disk cannot be read or written.
    Broken,
    /// The node that has the file does not answer, or the database does not.
    Away,
}

/// All files of a node; shared by its shards.
#[derive(Debug)]
pub struct Uploads {
    shelf: Arc<UploadFolder>,
    /// Dropped, the sweeper ends.
    _stop: SyncSender<()>,
    /// Files that come at the same time, of all users.
    places: Arc<Semaphore>,
    /// The turns of the files of each user.
    turns: UploadQueue,
    /// The files of the farm's other nodes; none if the node is alone, and before it serves.
    farm: OnceLock<Arc<dyn FarmFiles>>,
    /// Puts complete files into the store of objects.
    queue: Option<PutQueue>,
}

/// The folder and what is in it.
#[derive(Debug)]
struct UploadFolder {
    settings: UploadFolderSettings,
    /// Bytes, those that are coming among them.
    used: AtomicU64,
    /// The sizes of the folder's parts as last counted.
    sizes: Mutex<FolderSizes>,
}

/// Hexadecimal digits of a file's place: 128 bits, which cannot be guessed. Knowing the address is the right to read the file.
const ID: usize = 32;

/// The folder of files while they arrive.
const COMING: &str = "coming";

impl Uploads {
    /// Makes the folder, forgets what a crash left, counts what is there, and begins to remove what is too old.
    pub fn start(
        settings: UploadFolderSettings,
        clock: Clock,
        has_account: HasAccount,
    ) -> io::Result<Arc<Uploads>> {
        let coming = settings.folder.join(COMING);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&coming)?;
        let shelf = Arc::new(UploadFolder { settings, used: AtomicU64::new(0), sizes: Mutex::default() });
        for left in fs::read_dir(&coming)? {
            let left = left?;
            // Other nodes may write theirs at this moment.
            if left.file_name().to_str().is_none_or(|name| shelf.is_own(name)) {
                fs::remove_file(left.path())?;
            }
        }
        let (stop, stopped) = sync_channel(1);
        shelf.count(clock.now());
        sweep::start(Arc::clone(&shelf), clock, has_account, stopped)?;
        let storage = shelf.settings.storage.as_ref();
        let queue = storage.map(|storage| PutQueue::start(storage, Arc::clone(&shelf) as _));
        let places = Arc::new(Semaphore::new(limits::UPLOADS_AT_ONCE));
        let (turns, farm) = (UploadQueue::default(), OnceLock::new());
        Ok(Arc::new(Uploads { shelf, _stop: stop, places, turns, farm, queue }))
    }

    /// Serves the files of the farm's other nodes, too, from now on.
    pub fn join(&self, farm: Arc<dyn FarmFiles>) {
        // A node joins once.
        let _ = self.farm.set(farm);
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        self.shelf.used.load(Ordering::Relaxed)
    }

    /// A place for a file; `None` when there is none now.
    pub fn slot(&self, now: Instant, user: &Bare, name: &str, size: u64, kind: &str) -> Option<UploadSlot> {
        let settings = &self.shelf.settings;
        if self.used().saturating_add(size) > settings.total {
            tracing::warn!(folder = %settings.folder.display(), "uploads are refused: `total` of [xmpp.uploads] is reached");
            return None;
        }
        let mut id = [0; ID / 2];
        getrandom::fill(&mut id).ok()?;
        let grant = Grant {
            id: stdx::hex::encode(&id).into(),
            owner: user.as_str().into(),
            name: name.into(),
            kind: kind.into(),
            size,
            until: now + limits::UPLOAD_SLOT,
        };
        let address: Box<str> = format!("{}/upload/{}/{}", settings.url, grant.id, encode(name)).into();
        let token = format!("Bearer {}", grant.sign(&settings.key));
        Some(UploadSlot {
            put: address.clone(),
            get: address,
            headers: vec![("Authorization".into(), token.into())],
        })
    }

    /// Checks a grant for this place (as in the address, still encoded).
    pub(crate) fn admit(
        &self,
        now: Instant,
        place: &str,
        token: Option<&str>,
        (size, kind): (Option<u64>, Option<&str>),
    ) -> Result<Grant, Refusal> {
        let (id, name) = split(place).ok_or(Refusal::Unknown)?;
        let token = token.and_then(|token| token.strip_prefix("Bearer ")).ok_or(Refusal::Ungranted)?;
        let grant = Grant::read(token.trim(), &self.shelf.settings.key).ok_or(Refusal::Forged)?;
        if *grant.id != *id || *grant.name != *name {
            return Err(Refusal::Forged);
        }
        if grant.until <= now {
            return Err(Refusal::Expired);
        }
        match size {
            None => return Err(Refusal::NoSize),
            Some(size) if size > grant.size => return Err(Refusal::TooLarge),
            Some(size) if size < grant.size => return Err(Refusal::WrongSize),
            Some(_) => {}
        }
        // A slot without a type takes any; the file is served as a type that browsers do not open.
        let is_any = *grant.kind == *ANY_KIND;
        if !is_any && kind.is_none_or(|kind| !kind.trim().eq_ignore_ascii_case(&grant.kind)) {
            return Err(Refusal::WrongType);
        }
        Ok(grant)
    }

    /// Checks that no file is at that place or on its way there. Waits for the disk.
    pub(crate) fn check_free(&self, grant: &Grant) -> Result<(), Refusal> {
        let is_taken = self.shelf.has(&grant.id) || self.shelf.path_of_coming(&grant.id).exists();
        if is_taken { Err(Refusal::Taken) } else { Ok(()) }
    }

    /// One file of a user comes at a time: waits for those before it. The permits are held until the file is
    /// there.
    pub(crate) async fn turn(&self, grant: &Grant) -> Result<(UploadPermit, OwnedSemaphorePermit), Refusal> {
        let turn = self.turns.take(&grant.owner).await?;
        let permit = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        Ok((turn, permit))
    }

    /// Begins to write what was granted.
    pub(crate) fn create(&self, now: Instant, grant: &Grant) -> Result<Incoming, Refusal> {
        Incoming::create(&self.shelf, now, grant)
    }

    /// Opens the file at that place.
    pub(crate) fn open(&self, place: &str) -> Result<Stored, Refusal> {
        let (id, name) = split(place).ok_or(Refusal::Unknown)?;
        let stored = Stored::open(&self.shelf.path_of(id))?;
        // The name is part of the secret.
        if *stored.name == *name { Ok(stored) } else { Err(Refusal::Unknown) }
    }
}

/// The type of a slot for which the client has named none (RFC 2046 §4.5.1): browsers save such a file and do not open it.
const ANY_KIND: &str = "application/octet-stream";

impl UploadFolder {
    /// The path of a checked id: nothing of the file's name is in it.
    fn path_of(&self, id: &str) -> PathBuf {
        self.settings.folder.join(&id[..2]).join(id)
    }

    /// The path of a file while it arrives, named for the node that writes it.
    fn path_of_coming(&self, id: &str) -> PathBuf {
        let coming = self.settings.folder.join(COMING);
        match &self.settings.node {
            Some(node) => coming.join(format!("{id}.{node}")),
            None => coming.join(id),
        }
    }

    /// True for the name of an arriving file of this node.
    fn is_own(&self, name: &str) -> bool {
        match &self.settings.node {
            Some(node) => name.split_once('.').is_some_and(|(_, writer)| *writer == **node),
            None => !name.contains('.'),
        }
    }

    /// Removes a file that is complete.
    fn remove(&self, id: &str) {
        let path = self.path_of(id);
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        match fs::remove_file(&path) {
            Ok(()) => self.give_back(size),
            Err(error) => {
                // It may be in the store already.
                let removed = self.remove_stored(&self.path_of_head(id));
                if removed.is_err() || self.settings.storage.is_none() {
                    tracing::warn!(%error, path = %path.display(), "an upload cannot be removed");
                }
            }
        }
    }

    /// True if other nodes may use the same folder: its bytes are counted anew for each file, and names of arriving files have the node's.
    fn is_of_farm(&self) -> bool {
        self.settings.node.is_some()
    }

    /// Takes room; false: there is none.
    fn take(&self, size: u64) -> bool {
        let used = self.used.fetch_add(size, Ordering::Relaxed);
        let fits = used.saturating_add(size) <= self.settings.total;
        if !fits {
            self.give_back(size);
        }
        fits
    }

    fn give_back(&self, size: u64) {
        // It always gives a value.
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(size)));
    }
}

/// `ID/NAME` of an address. `None`: it is none of ours.
fn split(place: &str) -> Option<(&str, String)> {
    let (id, name) = place.split_once('/')?;
    let is_id = id.len() == ID && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let name = decode(name)?;
    (is_id && !name.is_empty()).then_some((id, name))
}

/// RFC 3986 §2.3: all else in per cent. RFC 8187 §3.2.1 takes these in a header, too.
pub(crate) fn encode(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        text += &if is_plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    }
    text
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, others) = rest.split_at_checked(2)?;
        bytes.extend_from_slice(&stdx::hex::decode_array::<1>(digits)?);
        rest = others;
    }
    String::from_utf8(bytes).ok()
}

/// Forces the entries of a folder to the disk: a renamed file is there after a crash only when its folder is synced.
fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
