//! The recordings that a document may play. The rows of recordings and accounts are not of this crate.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use ::voice::PlayedRecording;

/// An answer that is awaited: true if the document may play the recording.
pub type AccessAnswer<'a> = Pin<Box<dyn Future<Output = Result<bool, String>> + Send + 'a>>;

/// Decides which recordings a document may play.
pub trait RecordingAccess: Send + Sync + Debug {
    /// True if the recording is of the account in its URL, and that account is the reader or below it.
    ///
    /// # Errors
    /// The database does not say.
    fn may_play<'a>(&'a self, recording: &'a PlayedRecording) -> AccessAnswer<'a>;
}
