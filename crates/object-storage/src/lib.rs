//! Files of the node in a store of objects that speaks the protocol of S3 (Amazon S3, MinIO, Ceph, Garage and others).
//!
//! [`ObjectStorage`] puts, reads and deletes objects; [`PutQueue`] puts the files of a folder, which is the queue: a file that is complete
//! there waits, over restarts, until the store has confirmed it. Requests are signed by `rusty-s3` (AWS Signature Version 4 in the
//! query) and sent by the client of HTTP that the node has, on a thread of this crate. `xmpp_io::uploads` and `voice_io::recordings` use it
//! (`docs/decisions/0103`).
//!
//! Invariants: a file is reported as stored only when the store has answered with the MD5 of its content; neither a signed URL nor a
//! key of the configuration gets into an error or a log line; an object is read piece by piece, never as a whole.

#![warn(missing_docs)]

mod body;
mod client;
mod fault;
pub mod limits;
mod queue;
#[cfg(test)]
mod tests;

pub use client::{ObjectReader, ObjectStorage, ObjectStorageSettings, StorageStatus};
pub use fault::StorageFault;
pub use queue::{PutQueue, PutSource, PutWaker, WaitingFile};
