//! Call records as comma-separated values (RFC 4180).

use std::fmt::Write as _;

use store::CallRecord;

/// The first line.
pub const HEAD: &str = "started,answered,ended,account,callee,from,to,code,reason,call_id\r\n";

/// The first line, and a line for each call.
pub fn calls(calls: &[CallRecord]) -> String {
    let mut out = String::from(HEAD);
    calls.iter().for_each(|call| write_line(call, &mut out));
    out
}

/// Appends the line of a call. Times are milliseconds since 1970.
pub fn write_line(call: &CallRecord, out: &mut String) {
    let answered = call.answered_at.map(|at| at.as_millis().to_string()).unwrap_or_default();
    let _ = write!(out, "{},{answered},{}", call.started_at.as_millis(), call.ended_at.as_millis());
    let account = call.account.as_deref().unwrap_or_default();
    let callee = call.callee.as_deref().unwrap_or_default();
    for text in [account, callee, &call.from, &call.to] {
        field(text, out);
    }
    let _ = write!(out, ",{}", call.code);
    for text in [&call.reason, &call.call_id] {
        field(text, out);
    }
    out.push_str("\r\n");
}

/// Quoted. A text of a stranger that a spreadsheet would take for a formula gets an apostrophe in front.
fn field(text: &str, out: &mut String) {
    out.push_str(",\"");
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        out.push('\'');
    }
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use stdx::Instant;

    use super::*;

    #[test]
    fn quotes_are_doubled_and_no_field_is_a_formula() {
        let at = Instant::from_unix_seconds(1_800_000_000);
        let call = CallRecord {
            call_id: "=cmd|' /C calc'!A0".into(),
            from: "sip:\"a,b\"@example.test".into(),
            to: "@SUM(1)".into(),
            started_at: at,
            answered_at: None,
            ended_at: at,
            code: 404,
            reason: "Not\nFound".into(),
            account: None,
            callee: None,
        };
        let text = calls(&[call]);
        let (head, line) = text.split_once("\r\n").unwrap();
        assert_eq!(head.split(',').count(), 10);
        assert_eq!(
            line,
            "1800000000000,,1800000000000,\"\",\"\",\"sip:\"\"a,b\"\"@example.test\",\"'@SUM(1)\",404,\"Not\nFound\",\
             \"'=cmd|' /C calc'!A0\"\r\n"
        );
    }
}
