//! The operator's settings for requests, speech and prompts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::MailRelay;
use object_storage::ObjectStorage;

use super::limits;
use super::recording_access::RecordingAccess;

/// The settings of helpers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URLs may lead to loopback, private and link-local addresses.
    pub allow_private: bool,
    /// For one answer, redirects and all.
    pub fetch_timeout: Duration,
    /// The folder of documents for `file:NAME`; `None`: there are none.
    pub documents: Option<PathBuf>,
    /// The folder of sounds for `file:NAME`; `None`: there are none.
    pub prompts: Option<PathBuf>,
    /// The store of complete recordings; `None`: they are files of the node.
    pub recordings: Option<Arc<ObjectStorage>>,
    /// Decides which recordings a document may play; `None`: it may play none.
    pub access: Option<Arc<dyn RecordingAccess>>,
    /// Speaks instead of flite and espeak-ng: a program and its arguments, in which `{voice}` (man, woman) and `{language}`
    /// are replaced. It reads UTF-8 from its input and writes WAV to its output.
    pub command: Option<Vec<String>>,
    /// The program for English.
    pub flite: PathBuf,
    /// The program for other languages.
    pub espeak: PathBuf,
    /// Understands speech: a program and its arguments, in which `{language}` and `{hints}` are replaced, or one URL.
    pub recogniser: Option<Vec<String>>,
    /// Engines that run at the same time.
    pub processes: usize,
    /// For one engine to speak a text.
    pub speech_timeout: Duration,
    /// The relay for mails.
    pub mail: Option<MailRelay>,
    /// Bytes of decoded speech kept, and as many of decoded files.
    pub cache: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            allow_private: false,
            fetch_timeout: limits::FETCH_TIMEOUT,
            documents: None,
            prompts: None,
            recordings: None,
            access: None,
            command: None,
            flite: "flite".into(),
            espeak: "espeak-ng".into(),
            recogniser: None,
            processes: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            speech_timeout: limits::SPEECH_TIMEOUT,
            mail: None,
            cache: limits::CACHE,
        }
    }
}
