//! A call record as it is queued and sent: a line of JSON.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use store::CallRecord;

/// A record with the key by which a receiver knows it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// 32 hexadecimal digits, the same for the same call at any node and time.
    pub id: Box<str>,
    /// The record, as `belfry calls --json` prints it.
    #[serde(flatten)]
    pub record: CallRecord,
}

impl Line {
    /// The line of a record.
    pub fn new(record: CallRecord) -> Line {
        Line { id: id_of(&record), record }
    }

    /// The text, with the end of the line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // A record has texts, numbers and nothing that JSON has no form for.
        serde_json::to_writer(&mut *out, self).expect("a record can be written as JSON");
        out.push(b'\n');
    }
}

/// Call-ID, begin, From and To are the same at a node that takes a call over from a dead one.
fn id_of(record: &CallRecord) -> Box<str> {
    let mut hash = Sha256::new();
    for text in [&record.call_id, &record.from, &record.to] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.update(record.started_at.as_millis().to_be_bytes());
    stdx::hex::encode(&hash.finalize()[..16]).into()
}

#[cfg(test)]
mod tests {
    use stdx::Instant;

    use super::*;

    fn record() -> CallRecord {
        CallRecord {
            call_id: "a\"b\n".into(),
            from: "sip:alice@example.test".into(),
            to: "sip:bob@example.test".into(),
            started_at: Instant::from_unix_seconds(1_800_000_000),
            answered_at: None,
            ended_at: Instant::from_unix_seconds(1_800_000_007),
            code: 486,
            reason: "Busy Here".into(),
            account: Some("alice@example.test".into()),
            callee: None,
        }
    }

    #[test]
    fn a_line_is_one_line_and_reads_back() {
        let line = Line::new(record());
        let mut text = Vec::new();
        line.write(&mut text);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<Line>(&text).unwrap(), line);
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["started_at"], 1_800_000_000_000_000_u64);
        assert_eq!(value["id"].as_str().map(str::len), Some(32));
    }

    #[test]
    fn the_key_is_of_the_call_and_not_of_its_end() {
        let id = |record: CallRecord| Line::new(record).id;
        let same = CallRecord { ended_at: Instant::from_unix_seconds(1_900_000_000), code: 200, ..record() };
        assert_eq!(id(record()), id(same));
        let later = CallRecord { started_at: Instant::from_unix_seconds(1_800_000_001), ..record() };
        assert_ne!(id(record()), id(later));
        // A text that ends where another begins is not the same as the two cut elsewhere.
        let cut = CallRecord { call_id: "a\"b\ns".into(), from: "ip:alice@example.test".into(), ..record() };
        assert_ne!(id(record()), id(cut));
    }
}
