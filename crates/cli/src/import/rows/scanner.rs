//! Bytes of an input one after the other, with their line.

use std::io::{self, Read};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Reads an input in chunks, and looks one byte ahead.
pub(super) struct Scanner<R> {
    input: R,
    buffer: Vec<u8>,
    at: usize,
    /// The line of the next byte, from 1.
    pub(super) line: u64,
    /// Bytes before the next one.
    pub(super) bytes: u64,
}

impl<R: Read> Scanner<R> {
    pub(super) fn new(input: R) -> Scanner<R> {
        Scanner { input, buffer: Vec::new(), at: 0, line: 1, bytes: 0 }
    }

    /// The next byte, which stays. `None`: the input has ended.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.at == self.buffer.len() {
            self.fill(CHUNK)?;
        }
        Ok(self.buffer.get(self.at).copied())
    }

    /// The next byte, which is taken.
    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.at += 1;
            self.bytes += 1;
            self.line += u64::from(byte == b'\n');
        }
        Ok(byte)
    }

    /// Takes the next byte if it is that one.
    pub(super) fn take(&mut self, wanted: u8) -> io::Result<bool> {
        let is_it = self.peek()? == Some(wanted);
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    /// The text from here, as far as a chunk goes; nothing is taken. It is of the first line whole, unless that is longer.
    pub(super) fn look_ahead(&mut self) -> io::Result<&[u8]> {
        loop {
            let ready = &self.buffer[self.at..];
            let length = ready.len();
            if length >= CHUNK || ready.contains(&b'\n') {
                break;
            }
            self.fill(CHUNK - length)?;
            if self.buffer.len() == length {
                break;
            }
        }
        Ok(&self.buffer[self.at..])
    }

    /// Takes the rest of the line and its end.
    pub(super) fn skip_line(&mut self) -> io::Result<()> {
        while !matches!(self.next()?, None | Some(b'\n')) {}
        Ok(())
    }

    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + wanted, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}
