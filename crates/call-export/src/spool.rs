//! The queue on disk: records wait here until their receiver has taken them, also over a restart.
//!
//! Files of JSON lines with a number for a name, and a file `position` that says how much of the first one is sent. One thread appends,
//! another reads from the front. The position is written after the receiver's answer, so that records whose answer was not noted are sent
//! again: their keys tell a receiver that it has them. Nothing is synced, as the database of the node has the records, too.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stdx::Instant;

use crate::line::Line;
use crate::{ExportStatus, limits};

/// The queue. Shared by the thread that appends and the one that sends.
pub(crate) struct Spool {
    folder: PathBuf,
    /// Bytes that may wait.
    capacity: u64,
    /// The file that is written. Only the thread that appends takes this lock, and keeps it while the disk works.
    open: Mutex<Option<File>>,
    /// Never kept while the disk works: the node's status is read from it.
    state: Mutex<State>,
    /// The state has changed in a way that a thread may wait for.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    segments: VecDeque<Segment>,
    /// The last of them is written.
    is_open: bool,
    next_number: u64,
    /// Bytes of the first segment that are sent.
    sent_to: u64,
    /// The end of the oldest call that waits, as far as it is known.
    oldest: Option<Instant>,
    phase: Phase,
    sent: u64,
    dropped: u64,
    failures: u64,
    failure: Option<Box<str>>,
}

/// The end of the queue's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Running,
    /// Nothing more is appended; the records that wait are sent until a first failure.
    Closing,
    /// No further group is sent.
    Abandoned,
    /// The thread that sends has ended.
    Ended,
}

/// One file.
#[derive(Clone, Copy)]
struct Segment {
    number: u64,
    /// Bytes of whole lines.
    bytes: u64,
    /// Records that are not sent.
    waiting: u64,
}

/// Records that are sent together.
pub(crate) struct Group {
    pub(crate) lines: Vec<Line>,
    /// Records of the file, damaged ones among them.
    count: u64,
    segment: u64,
    /// The place behind them.
    end: u64,
}

impl Spool {
    /// Opens the queue of a folder with the records that wait in it.
    pub(crate) fn open(folder: &Path, capacity: u64) -> io::Result<Spool> {
        fs::create_dir_all(folder)?;
        let (position, sent_to) = read_position(folder);
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number: Option<u64> =
                name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        // A new file is neither before nor within what `position` says is sent, also if all files are gone.
        let after_sent = position + u64::from(sent_to > 0);
        let next_number = numbers.last().map_or(0, |last| last + 1).max(after_sent);
        let mut state = State { next_number, ..State::default() };
        for number in numbers {
            let path = path_of(folder, number);
            if number < position {
                fs::remove_file(path)?;
                continue;
            }
            let from = if number == position { sent_to } else { 0 };
            let (bytes, waiting) = measure(&path, from)?;
            if state.segments.is_empty() {
                state.sent_to = from.min(bytes);
            }
            state.segments.push_back(Segment { number, bytes, waiting });
        }
        let (open, state) = (Mutex::default(), Mutex::new(state));
        Ok(Spool { folder: folder.into(), capacity, open, state, changed: Condvar::new() })
    }

    /// Appends lines of so many records, of which the first ended at `oldest`.
    pub(crate) fn append(&self, lines: &[u8], count: u64, oldest: Instant) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let segment = self.segment_for(lines.len() as u64, &mut open)?;
            let Some(file) = open.as_mut() else {
                return Err(io::Error::other("no file of the queue is open"));
            };
            if let Err(error) = file.write_all(lines) {
                // A line that was begun is cut off; if that fails, too, the next lines go to a new file.
                if file.set_len(segment.bytes).is_err() {
                    *open = None;
                    self.lock().is_open = false;
                }
                return Err(error);
            }
            let mut state = self.lock();
            // A file that was given up meanwhile is not read: the lines go to the next one.
            let Some(written) = state.segments.back_mut().filter(|last| last.number == segment.number) else {
                continue;
            };
            written.bytes += lines.len() as u64;
            written.waiting += count;
            state.oldest.get_or_insert(oldest);
            self.changed.notify_all();
            return Ok(());
        }
    }

    /// The segment that takes so many bytes more, with its file in `open`: the last one, or a new one.
    fn segment_for(&self, bytes: u64, open: &mut Option<File>) -> io::Result<Segment> {
        let number = {
            let mut state = self.lock();
            if state.bytes_waiting() + bytes > self.capacity {
                return Err(io::Error::new(
                    ErrorKind::StorageFull,
                    "too many records wait for their receiver",
                ));
            }
            let last = state.segments.back().copied().filter(|last| last.bytes < limits::SEGMENT_BYTES);
            if let Some(last) = last
                && state.is_open
                && open.is_some()
            {
                return Ok(last);
            }
            state.is_open = false;
            state.next_number
        };
        *open = None;
        let mut options = OpenOptions::new();
        // As the database: names and numbers of callers are in it.
        let options = options.append(true).create_new(true).mode(0o600);
        *open = Some(options.open(path_of(&self.folder, number))?);
        let segment = Segment { number, bytes: 0, waiting: 0 };
        let mut state = self.lock();
        state.next_number = number + 1;
        state.is_open = true;
        state.segments.push_back(segment);
        Ok(segment)
    }

    /// Counts records that could not be appended.
    pub(crate) fn count_dropped(&self, count: u64) {
        self.lock().dropped += count;
    }

    /// Waits for records. `None`: the queue has ended.
    pub(crate) fn next_group(&self) -> Option<Group> {
        loop {
            let (segment, from) = self.wait_for_records()?;
            match read_group(&path_of(&self.folder, segment.number), from, segment.bytes) {
                Ok((lines, count, end)) => {
                    let mut state = self.lock();
                    state.dropped += count - lines.len() as u64;
                    state.oldest = lines.first().map(|line| line.record.ended_at).or(state.oldest);
                    return Some(Group { lines, count, segment: segment.number, end });
                }
                Err(error) => {
                    tracing::error!(
                        folder = %self.folder.display(), %error, records = segment.waiting,
                        "a file of the queue of call records cannot be read: its records are not sent"
                    );
                    let mut state = self.lock();
                    state.give_up_first(segment.number);
                }
            }
        }
    }

    /// The first segment with records that wait, and how far it is sent.
    fn wait_for_records(&self) -> Option<(Segment, u64)> {
        let mut state = self.lock();
        loop {
            if state.phase >= Phase::Abandoned {
                return None;
            }
            let sent = state.take_sent();
            if !sent.is_empty() {
                drop(state);
                for number in sent {
                    // A file that stays is removed at the next start.
                    let _ = fs::remove_file(path_of(&self.folder, number));
                }
                state = self.lock();
                continue;
            }
            if let Some(first) = state.segments.front().filter(|first| first.bytes > state.sent_to) {
                return Some((*first, state.sent_to));
            }
            if state.phase == Phase::Closing {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that a group is with its receiver, which has refused some of its records.
    pub(crate) fn finish(&self, group: &Group, refused: u64) {
        let mut state = self.lock();
        if state.phase >= Phase::Abandoned {
            // Another one may use the folder by now. The records are sent again.
            return;
        }
        state.sent += (group.lines.len() as u64).saturating_sub(refused);
        state.dropped += refused;
        state.failure = None;
        let Some(first) = state.segments.front_mut().filter(|first| first.number == group.segment) else {
            return;
        };
        first.waiting = first.waiting.saturating_sub(group.count);
        state.sent_to = group.end;
        if state.waiting() == 0 {
            state.oldest = None;
        }
        drop(state);
        // Without a position the group is sent again after a restart, and its receiver knows it.
        if let Err(error) = write_position(&self.folder, group.segment, group.end) {
            tracing::warn!(
                folder = %self.folder.display(), %error,
                "the position in the queue of call records was not written: records may be sent again after a restart"
            );
        }
    }

    /// Notes a failure of the receiver. True if it is the first since the last success.
    pub(crate) fn note_failure(&self, cause: &str) -> bool {
        let mut state = self.lock();
        state.failures += 1;
        state.failure.replace(cause.into()).is_none()
    }

    /// Waits so long, unless the queue ends. False if it does.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let state = self.lock();
        let is_running = |state: &mut State| state.phase == Phase::Running;
        let waited = self.changed.wait_timeout_while(state, pause, is_running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.phase == Phase::Running
    }

    /// Lets the thread that sends end, and waits for it for a while. True if it has ended.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Closing);
        self.changed.notify_all();
        let has_not_ended = |state: &mut State| state.phase != Phase::Ended;
        let waited = self.changed.wait_timeout_while(state, patience, has_not_ended);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.phase = state.phase.max(Phase::Abandoned);
        state.phase == Phase::Ended
    }

    /// The thread that sends has ended.
    pub(crate) fn note_end(&self) {
        self.lock().phase = Phase::Ended;
        self.changed.notify_all();
    }

    pub(crate) fn status(&self, receiver: &str) -> ExportStatus {
        let state = self.lock();
        ExportStatus {
            receiver: receiver.into(),
            waiting: state.waiting(),
            oldest: state.oldest,
            sent: state.sent,
            dropped: state.dropped,
            failures: state.failures,
            failure: state.failure.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn waiting(&self) -> u64 {
        self.segments.iter().map(|segment| segment.waiting).sum()
    }

    fn bytes_waiting(&self) -> u64 {
        let all: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        all.saturating_sub(self.sent_to)
    }

    /// Forgets the segments at the front of which all is sent, and returns their numbers. The one that is written stays until another follows it.
    fn take_sent(&mut self) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some(first) = self.segments.front()
            && first.bytes <= self.sent_to
            && (self.segments.len() > 1 || !self.is_open)
        {
            sent.push(first.number);
            self.segments.pop_front();
            self.sent_to = 0;
        }
        sent
    }

    /// Gives up the first segment, which cannot be read.
    fn give_up_first(&mut self, number: u64) {
        if let Some(first) = self.segments.pop_front_if(|first| first.number == number) {
            self.dropped += first.waiting;
            self.sent_to = 0;
            if self.segments.is_empty() {
                self.is_open = false;
            }
            if self.waiting() == 0 {
                self.oldest = None;
            }
        }
    }
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.jsonl"))
}

/// The first segment that is not all sent, and how much of it is. A file that cannot be read is none: all is sent again.
fn read_position(folder: &Path) -> (u64, u64) {
    let text = fs::read_to_string(folder.join("position")).unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(segment)), Some(Ok(sent_to))) => (segment, sent_to),
        _ => (0, 0),
    }
}

fn write_position(folder: &Path, segment: u64, sent_to: u64) -> io::Result<()> {
    let new = folder.join("position.new");
    fs::write(&new, format!("{segment} {sent_to}\n"))?;
    fs::rename(new, folder.join("position"))
}

/// The bytes of a file's whole lines, and how many lines stand behind `from`. A line that was cut off is removed.
fn measure(path: &Path, from: u64) -> io::Result<(u64, u64)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut reader = io::BufReader::new(&file);
    let (mut place, mut whole, mut lines) = (0, 0, 0);
    let mut chunk = vec![0; 64 << 10];
    loop {
        let read = reader.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        for byte in &chunk[..read] {
            place += 1;
            if *byte == b'\n' {
                whole = place;
                lines += u64::from(place > from);
            }
        }
    }
    if whole < place {
        file.set_len(whole)?;
    }
    Ok((whole, lines))
}

/// The next records of a file, how many lines they are with damaged ones, and the place behind them.
fn read_group(path: &Path, from: u64, to: u64) -> io::Result<(Vec<Line>, u64, u64)> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take((to - from).min(limits::GROUP_BYTES)).read_to_end(&mut bytes)?;
    let (mut lines, mut count, mut end) = (Vec::new(), 0, from);
    for line in bytes.split_inclusive(|byte| *byte == b'\n').take(limits::GROUP) {
        // The rest of a line that is cut here is in the next group.
        if line.last() != Some(&b'\n') {
            break;
        }
        count += 1;
        end += line.len() as u64;
        lines.extend(serde_json::from_slice(line).ok());
    }
    if count == 0 {
        return Err(io::Error::new(ErrorKind::InvalidData, "a line without an end"));
    }
    Ok((lines, count, end))
}

#[cfg(test)]
mod tests;
