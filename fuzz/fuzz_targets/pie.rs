//! Any bytes as a file of XEP-0227 or as Openfire's own export, cut into reads anywhere: the cuts change nothing, reading ends, and every user is read
//! or told what is wrong.
#![no_main]

use std::io::{self, Read};

use chat::pie::{Document, Piece, read_user};
use libfuzzer_sys::fuzz_target;
use stdx::Instant;

fuzz_target!(|data: &[u8]| {
    let Some((&seed, file)) = data.split_first() else { return };
    let whole = pieces(file, file.len().max(1));
    assert_eq!(whole, pieces(file, usize::from(seed % 16) + 1));
});

/// Up to what cannot be read.
fn pieces(file: &[u8], step: usize) -> Vec<String> {
    let mut document = Document::new(Cut { file, step }, None).with_domain("example.test".into());
    let mut out = Vec::new();
    while let Ok(Some(piece)) = document.next_piece() {
        if let Piece::User { host, element, .. } = &piece {
            let _ = read_user(element, host, Instant::from_unix_seconds(1));
        }
        out.push(format!("{piece:?}"));
    }
    out
}

struct Cut<'a> {
    file: &'a [u8],
    step: usize,
}

impl Read for Cut<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.step.min(buffer.len());
        self.file.read(&mut buffer[..most])
    }
}
