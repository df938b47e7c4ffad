//! Call records in files of comma-separated values, one for each day (UTC) on which calls ended: `calls-2026-11-24.csv`.
//!
//! A shard hands each record over as it hands it to the store; a thread writes those that wait with one system call. Nothing waits
//! for the disk: records that find the queue full, or the disk, are lost for the files and counted. The database has them all the
//! same.

#![warn(missing_docs)]

pub mod csv;
pub mod limits;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use stdx::calendar::Date;
use store::CallRecord;

/// The way of call records to their files. When it is dropped, what waits is written first.
pub struct CallFiles {
    /// `None`: it is being dropped.
    queue: Option<SyncSender<CallRecord>>,
    thread: Option<JoinHandle<()>>,
}

/// A record that found the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl CallFiles {
    /// Makes the folder, if it is not there, and starts the thread. `lost` is told how many records the disk has not taken.
    ///
    /// # Errors
    /// A folder that cannot be made or written.
    pub fn start(folder: &Path, lost: impl FnMut(usize) + Send + 'static) -> io::Result<CallFiles> {
        fs::create_dir_all(folder)?;
        let mut writer =
            Writer { folder: folder.into(), open: None, is_failing: false, lost: Box::new(lost) };
        let (queue, records) = sync_channel(limits::QUEUE);
        let thread = Builder::new().name("call-files".into()).spawn(move || writer.run(&records))?;
        Ok(CallFiles { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands a record over. Never waits.
    ///
    /// # Errors
    /// Too many records wait: this one is not written.
    pub fn write(&self, record: CallRecord) -> Result<(), QueueFull> {
        let queue = self.queue.as_ref().ok_or(QueueFull)?;
        queue.try_send(record).map_err(|_| QueueFull)
    }
}

impl Drop for CallFiles {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// The file of one day.
struct DayFile {
    day: i64,
    file: File,
    /// The last write ended within a line.
    is_torn: bool,
}

/// The thread's part.
struct Writer {
    folder: PathBuf,
    open: Option<DayFile>,
    /// The last write failed, which is logged once.
    is_failing: bool,
    lost: Box<dyn FnMut(usize) + Send>,
}

impl Writer {
    fn run(&mut self, records: &Receiver<CallRecord>) {
        let mut waiting = Vec::new();
        while let Ok(record) = records.recv() {
            waiting.push(record);
            waiting.extend(records.try_iter().take(limits::BATCH - 1));
            let mut rest = &waiting[..];
            while let Some(first) = rest.first() {
                let day = day_of(first);
                let count = rest.iter().take_while(|record| day_of(record) == day).count();
                self.write(day, &rest[..count]);
                rest = &rest[count..];
            }
            waiting.clear();
        }
    }

    fn write(&mut self, day: i64, records: &[CallRecord]) {
        let mut text = String::new();
        records.iter().for_each(|record| csv::write_line(record, &mut text));
        match self.append(day, text.as_bytes()) {
            Ok(()) if self.is_failing => {
                self.is_failing = false;
                tracing::info!(folder = %self.folder.display(), "call records are written to files again");
            }
            Ok(()) => {}
            Err(error) => {
                (self.lost)(records.len());
                if !self.is_failing {
                    self.is_failing = true;
                    tracing::error!(
                        folder = %self.folder.display(), %error,
                        "call records are not written to files, only to the database: make room or mend the folder"
                    );
                }
            }
        }
    }

    fn append(&mut self, day: i64, lines: &[u8]) -> io::Result<()> {
        // A file that was moved away is made anew: operators rotate and collect files as they like.
        let is_current = self.open.as_ref().is_some_and(|open| open.day == day && self.path(day).exists());
        let mut open = match self.open.take() {
            Some(open) if is_current => open,
            _ => self.open(day)?,
        };
        if open.is_torn {
            open.file.write_all(b"\r\n")?;
            open.is_torn = false;
        }
        let result = open.file.write_all(lines);
        open.is_torn = result.is_err();
        self.open = Some(open);
        result
    }

    fn open(&self, day: i64) -> io::Result<DayFile> {
        let path = self.path(day);
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(csv::HEAD.as_bytes())?;
                Ok(DayFile { day, file, is_torn: false })
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let file = OpenOptions::new().append(true).open(&path)?;
                Ok(DayFile { day, file, is_torn: is_torn(&path)? })
            }
            Err(error) => Err(error),
        }
    }

    fn path(&self, day: i64) -> PathBuf {
        let Date { year, month, day } = Date::from_days(day);
        self.folder.join(format!("calls-{year:04}-{month:02}-{day:02}.csv"))
    }
}

/// The day, since 1970, on which a call ended.
fn day_of(record: &CallRecord) -> i64 {
    i64::try_from(record.ended_at.unix_seconds() / 86_400).unwrap_or_default()
}

/// True if a file does not end with a whole line: the machine lost power, or the disk was full.
fn is_torn(path: &Path) -> io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use stdx::Instant;

    use super::*;

    fn record(call_id: &str, second: u64) -> CallRecord {
        CallRecord {
            call_id: call_id.into(),
            from: "sip:alice@example.test".into(),
            to: "sip:\"b, b\"@example.test".into(),
            started_at: Instant::from_unix_seconds(second - 5),
            answered_at: Some(Instant::from_unix_seconds(second - 3)),
            ended_at: Instant::from_unix_seconds(second),
            code: 200,
            reason: "BYE\r\nX: y".into(),
            account: Some("alice@example.test".into()),
            callee: None,
        }
    }

    /// The last column of the lines of a file, and the first line as it is.
    fn calls(path: &Path) -> (String, Vec<String>) {
        let text = fs::read_to_string(path).unwrap();
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let calls = reader.records().map(|line| line.unwrap()[9].to_owned()).collect();
        (text.lines().next().unwrap_or_default().to_owned(), calls)
    }

    /// 2026-11-24 00:00:00 UTC.
    const DAY: u64 = 1_795_478_400;

    #[test]
    fn each_day_has_a_file_with_one_head() {
        let folder = tempfile::tempdir().unwrap();
        for round in ["a", "b"] {
            let files = CallFiles::start(&folder.path().join("calls"), |_| {}).unwrap();
            for (name, second) in [("yesterday", DAY - 1), ("today", DAY), ("late", DAY - 2)] {
                files.write(record(&format!("{name}-{round}"), second)).unwrap();
            }
        }
        let (head, today) = calls(&folder.path().join("calls/calls-2026-11-24.csv"));
        assert_eq!(head, csv::HEAD.trim_end());
        assert_eq!(today, ["today-a", "today-b"]);
        let (_, yesterday) = calls(&folder.path().join("calls/calls-2026-11-23.csv"));
        assert_eq!(yesterday, ["yesterday-a", "late-a", "yesterday-b", "late-b"]);
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls-2026-11-24.csv");
        fs::write(&path, format!("{}1,2,3", csv::HEAD)).unwrap();
        drop(CallFiles::start(folder.path(), |_| {}).map(|files| files.write(record("whole", DAY))));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("{}1,2,3\r\n{}", csv::HEAD, (DAY - 5) * 1_000)), "{text}");
    }

    #[test]
    fn records_that_the_disk_does_not_take_are_counted_and_calls_go_on() {
        let folder = tempfile::tempdir().unwrap();
        // A folder where the file should be.
        fs::create_dir(folder.path().join("calls-2026-11-24.csv")).unwrap();
        let lost = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lost);
        let files = CallFiles::start(folder.path(), move |count| {
            counted.fetch_add(count, Ordering::Relaxed);
        })
        .unwrap();
        for number in 0..3 {
            files.write(record(&number.to_string(), DAY)).unwrap();
        }
        files.write(record("other", DAY + 86_400)).unwrap();
        drop(files);
        assert_eq!(lost.load(Ordering::Relaxed), 3);
        assert_eq!(calls(&folder.path().join("calls-2026-11-25.csv")).1, ["other"]);
    }

    #[test]
    fn a_file_that_is_moved_away_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls-2026-11-24.csv");
        let mut writer =
            Writer { folder: folder.path().into(), open: None, is_failing: false, lost: Box::new(|_| {}) };
        writer.write(day_of(&record("", DAY)), &[record("one", DAY)]);
        fs::rename(&path, folder.path().join("collected.csv")).unwrap();
        writer.write(day_of(&record("", DAY)), &[record("two", DAY)]);
        assert_eq!(calls(&path).1, ["two"]);
    }
}
