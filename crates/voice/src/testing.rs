//! For tests: helpers, files and sockets that do nothing, so that a test plays the node's part itself.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ivr::document::{Email, Voice as SpokenVoice};
use ivr::request::Wire;
use media::codec::Codec;
use media::record::File;
use media::sdp::{Description, Direction, Local, SrtpPolicy, answer};
use media::session::MediaSession;
use stdx::slab::{Key, Slab};

use super::{
    Common, HelperService, MediaSender, MediaSockets, Numbers, Opening, PlayedRecording, PortKind, PortPair,
    RecordingFile, RecordingFiles, RedialPolicy, Settings, ShardPlace, SpeechListener, StreamOrder,
    StreamSender, Ticket,
};

/// The tests supply the helpers' results.
pub(crate) struct NoHelpers;

struct NoStream;

impl StreamSender for NoStream {
    fn try_send(&self, _message: StreamOrder) -> bool {
        true
    }
}

impl HelperService for NoHelpers {
    fn fetch(&self, _: Ticket, _: Wire) {}
    fn tell(&self, _: Wire) -> bool {
        true
    }
    fn speech(&self, _: Ticket, _: &str, _: SpokenVoice, _: &str) {}
    fn audio(&self, _: Ticket, _: &str) {}
    fn recording(&self, _: Ticket, _: PlayedRecording) {}
    fn encode(&self, _: Ticket, _: Codec, _: Arc<[i16]>) {}
    fn mail(&self, _: Ticket, _: Email) {}
    fn transcribe(&self, _: Ticket, _: PathBuf) {}

    fn stream(&self, _: Ticket, _: Opening) -> Box<dyn StreamSender> {
        Box::new(NoStream)
    }

    fn recognise(&self, _: Ticket, _: &str, _: &[String], _: u32) -> Result<Box<dyn SpeechListener>, String> {
        Err("there is no recogniser".to_owned())
    }
}

/// Sids, and the bytes of their files.
type RecordingBytes = Vec<(String, Vec<u8>)>;

/// Recordings in memory.
#[derive(Clone, Default)]
pub(crate) struct MemoryFiles(Arc<Mutex<RecordingBytes>>);

impl MemoryFiles {
    /// The bytes of a recording that was closed to be kept.
    pub(crate) fn read(&self, sid: &str) -> Option<Vec<u8>> {
        let files = self.0.lock().unwrap();
        files.iter().find(|(name, _)| name == sid).map(|(_, bytes)| bytes.clone())
    }
}

impl RecordingFiles for MemoryFiles {
    fn create(&self, ticket: Ticket, sid: &str, _: &str) -> Result<Box<dyn RecordingFile>, String> {
        let (files, sid) = (self.clone(), sid.to_owned());
        Ok(Box::new(MemoryFile { ticket: ticket.id, sid, bytes: Vec::new(), files }))
    }

    fn path(&self, sid: &str) -> Option<PathBuf> {
        Some(sid.into())
    }
}

struct MemoryFile {
    ticket: u64,
    sid: String,
    bytes: Vec<u8>,
    files: MemoryFiles,
}

impl File for MemoryFile {
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn write_at(&mut self, position: u32, bytes: &[u8]) {
        let position = position as usize;
        self.bytes[position..position + bytes.len()].copy_from_slice(bytes);
    }

    fn truncate(&mut self, len: u32) {
        self.bytes.truncate(len as usize);
    }
}

impl RecordingFile for MemoryFile {
    fn ticket(&self) -> u64 {
        self.ticket
    }

    fn node(&self) -> &'static str {
        "n1"
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn close(self: Box<Self>, keep: bool) {
        if keep {
            let MemoryFile { sid, bytes, files, .. } = *self;
            files.0.lock().unwrap().push((sid, bytes));
        }
    }
}

/// Ports without sockets; datagrams are dropped.
pub(crate) struct NoSockets {
    free: BTreeSet<u16>,
    open: Slab<u16>,
}

impl NoSockets {
    pub(crate) fn new() -> NoSockets {
        NoSockets { free: (30_000..31_000).step_by(2).collect(), open: Slab::new() }
    }

    /// Pairs of ports.
    pub(crate) fn used(&self) -> u64 {
        self.open.len() as u64
    }
}

impl MediaSender for NoSockets {
    fn send(&self, _: PortPair, _: PortKind, _: SocketAddr, _: &[u8]) -> bool {
        true
    }
}

impl MediaSockets for NoSockets {
    fn open(&mut self, _leg: Key) -> io::Result<PortPair> {
        let port = self.free.pop_first().ok_or(io::ErrorKind::AddrInUse)?;
        Ok(PortPair { port, sockets: self.open.insert(port) })
    }

    fn close(&mut self, pair: PortPair) {
        assert_eq!(self.open.remove(pair.sockets), Some(pair.port), "ports are closed once");
        self.free.insert(pair.port);
    }

    fn sender(&self) -> &dyn MediaSender {
        self
    }
}

/// Calls at that address, without numbers.
pub(crate) fn common(ip: [u8; 4]) -> Common {
    let settings = Settings {
        ip: ip.into(),
        allow_private: false,
        end_pause: std::time::Duration::from_millis(500),
        records: true,
        media_networks: Box::default(),
        media_timeout: std::time::Duration::from_secs(60),
        media_timeout_ends: true,
        redial: RedialPolicy::Never,
    };
    let files = Arc::new(MemoryFiles::default());
    Common::new(settings, Numbers::default(), "example.test", Arc::new(NoHelpers), files, "http://127.0.0.1")
}

/// A shard of so many that has the Call-IDs whose first byte leaves its number.
pub(crate) fn place(shard: u16, shards: u16) -> ShardPlace {
    let owns_call_id = Box::new(move |call_id: &[u8]| shard_of(call_id, shards) == shard);
    ShardPlace { shard, shards, seed: [u8::try_from(shard).unwrap_or(0); 32], owns_call_id }
}

/// The shard of a call.
pub(crate) fn shard_of(call_id: &[u8], shards: u16) -> u16 {
    call_id.first().map_or(0, |first| u16::from(*first) % shards)
}

/// The media of a call with a phone of G.711.
pub(crate) fn media() -> MediaSession {
    media_of("8")
}

/// The media of a call with a phone of these formats, which lines of attributes may follow.
pub(crate) fn media_of(formats: &str) -> MediaSession {
    let offer = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.2\r\ns=-\r\nc=IN IP4 127.0.0.2\r\nt=0 0\r\nm=audio 6000 RTP/AVP {formats}\r\n"
    );
    let local = Local {
        ip: [127, 0, 0, 1].into(),
        port: 4_000,
        session_id: 1,
        codecs: &[Codec::Pcma],
        direction: Direction::SendRecv,
        srtp: SrtpPolicy::IfOffered,
        key: [0; media::srtp::KEY_LEN],
    };
    let negotiated = answer(&Description::parse(offer.as_bytes()).unwrap(), &local).unwrap().negotiated;
    MediaSession::new(negotiated, 7, None).unwrap()
}
