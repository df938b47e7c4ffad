//! The content of a PUT: a file, read chunk by chunk on threads that may wait for the disk.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use md5::{Digest as _, Md5};
use tokio::task::spawn_blocking;

use crate::limits;

/// The length and the MD5 of a content, for `Content-MD5`, by which the store checks what it got, and for the ETag of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentDigest {
    pub(crate) length: u64,
    pub(crate) md5: [u8; 16],
}

impl ContentDigest {
    /// Reads all of a file. Waits for the disk.
    pub(crate) fn of_file(path: &Path) -> io::Result<ContentDigest> {
        let (mut file, mut hash, mut length) = (File::open(path)?, Md5::new(), 0);
        let mut chunk = vec![0; limits::CHUNK];
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(ContentDigest { length, md5: hash.finalize().into() }),
                count => {
                    hash.update(&chunk[..count]);
                    length += count as u64;
                }
            }
        }
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> ContentDigest {
        ContentDigest { length: bytes.len() as u64, md5: Md5::digest(bytes).into() }
    }
}

/// The content of an open file as the body of a request.
pub(crate) fn of_file(file: File) -> reqwest::Body {
    let read = |mut file: File| async move {
        let read = spawn_blocking(move || {
            let mut bytes = Vec::with_capacity(limits::CHUNK);
            let count = (&mut file).take(limits::CHUNK as u64).read_to_end(&mut bytes)?;
            io::Result::Ok((count > 0).then_some((bytes, file)))
        });
        match read.await.map_err(io::Error::other).flatten() {
            Ok(None) => None,
            Ok(Some((bytes, file))) => Some((Ok(Frame::data(Bytes::from(bytes))), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    };
    let chunks = stream::unfold(Some(file), move |file| async move { read(file?).await });
    reqwest::Body::wrap(StreamBody::new(chunks))
}
