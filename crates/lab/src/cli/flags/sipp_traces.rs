//! SIPp's flags of traces and statistics.
//!
//! Each log has a switch (`-trace_…`), a name (`…_file`) and whether it begins anew (`…_overwrite`, stored as its opposite, `append`).

use super::FlagArgument::{Nothing, One};
use super::FlagGroup::Traces;
use super::{Flag, done, flag, put, some};
use crate::cli::value::{DefaultUnit, boolean, integer, time};

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("f", Traces, One("TIME"), "How often progress is shown. Bare numbers are seconds. Default: 1.", |a, v| put(&mut a.options.files.screen_period, time(v[0], DefaultUnit::Seconds))),
    flag("fd", Traces, One("TIME"), "How often statistics are written. Bare numbers are seconds. Default: 60.", |a, v| put(&mut a.options.files.stat_period, time(v[0], DefaultUnit::Seconds))),
    flag("trace_stat", Traces, Nothing, "Write statistics to <scenario>_<pid>_.csv.", |a, _| done(&mut a.options.files.stat.on, true)),
    flag("stat_delimiter", Traces, One("TEXT"), "What stands between columns. Default: a semicolon.", |a, v| done(&mut a.options.files.stat_delimiter, v[0].to_owned())),
    flag("stf", Traces, One("FILE"), "Name of the statistics file.", |a, v| done(&mut a.options.files.stat.file, Some(v[0].into()))),
    flag("rfc3339", Traces, Nothing, "Write times as RFC 3339 has them.", |a, _| done(&mut a.options.files.rfc3339, true)),
    flag("periodic_rtd", Traces, Nothing, "Buckets of times in the statistics file count from line to line, not from the start.", |a, _| done(&mut a.options.files.periodic_rtd, true)),
    flag("trace_msg", Traces, Nothing, "Write all messages to <scenario>_<pid>_messages.log.", |a, _| done(&mut a.options.files.messages.on, true)),
    flag("message_file", Traces, One("FILE"), "Name of that file.", |a, v| done(&mut a.options.files.messages.file, Some(v[0].into()))),
    flag("message_overwrite", Traces, One("BOOL"), "Whether it begins anew. Default: true.", |a, v| put(&mut a.options.files.messages.append, boolean(v[0]).map(|b| !b))),
    flag("trace_shortmsg", Traces, Nothing, "Write a line a message to <scenario>_<pid>_shortmessages.log.", |a, _| done(&mut a.options.files.short_messages.on, true)),
    flag("shortmessage_file", Traces, One("FILE"), "Name of that file.", |a, v| done(&mut a.options.files.short_messages.file, Some(v[0].into()))),
    flag("shortmessage_overwrite", Traces, One("BOOL"), "Whether it begins anew. Default: true.", |a, v| put(&mut a.options.files.short_messages.append, boolean(v[0]).map(|b| !b))),
    flag("trace_counts", Traces, Nothing, "Write the counts of each step to <scenario>_<pid>_counts.csv.", |a, _| done(&mut a.options.files.counts.on, true)),
    flag("trace_err", Traces, Nothing, "Write unexpected messages and errors to <scenario>_<pid>_errors.log.", |a, _| done(&mut a.options.files.errors.on, true)),
    flag("error_file", Traces, One("FILE"), "Name of that file.", |a, v| done(&mut a.options.files.errors.file, Some(v[0].into()))),
    flag("error_overwrite", Traces, One("BOOL"), "Whether it begins anew. Default: true.", |a, v| put(&mut a.options.files.errors.append, boolean(v[0]).map(|b| !b))),
    flag("trace_error_codes", Traces, Nothing, "Write unexpected response codes to <scenario>_<pid>_error_codes.csv.", |a, _| done(&mut a.options.files.error_codes.on, true)),
    flag("trace_calldebug", Traces, Nothing, "Write what failed calls did to <scenario>_<pid>_calldebug.log.", |a, _| done(&mut a.options.files.call_debug.on, true)),
    flag("calldebug_file", Traces, One("FILE"), "Name of that file.", |a, v| done(&mut a.options.files.call_debug.file, Some(v[0].into()))),
    flag("calldebug_overwrite", Traces, One("BOOL"), "Whether it begins anew. Default: true.", |a, v| put(&mut a.options.files.call_debug.append, boolean(v[0]).map(|b| !b))),
    flag("trace_screen", Traces, Nothing, "Write the screens to <scenario>_<pid>_screen.log at the end.", |a, _| done(&mut a.options.files.screen.on, true)),
    flag("screen_file", Traces, One("FILE"), "Name of that file.", |a, v| done(&mut a.options.files.screen.file, Some(v[0].into()))),
    flag("screen_overwrite", Traces, One("BOOL"), "Whether it begins anew. Default: true.", |a, v| put(&mut a.options.files.screen.append, boolean(v[0]).map(|b| !b))),
    flag("trace_rtt", Traces, Nothing, "Write every response time to <scenario>_<pid>_rtt.csv.", |a, _| done(&mut a.options.files.rtt.on, true)),
    flag("rtt_freq", Traces, One("N"), "Write them in lots of this many. Default: 200.", |a, v| put(&mut a.options.files.rtt_frequency, integer(v[0]))),
    flag("trace_logs", Traces, Nothing, "Write what <log> says to <scenario>_<pid>_logs.log.", |a, _| done(&mut a.options.files.logs.on, true)),
    flag("log_file", Traces, One("FILE"), "Name of that file.", |a, v| done(&mut a.options.files.logs.file, Some(v[0].into()))),
    flag("log_overwrite", Traces, One("BOOL"), "Whether it begins anew. Default: true.", |a, v| put(&mut a.options.files.logs.append, boolean(v[0]).map(|b| !b))),
    flag("ringbuffer_files", Traces, One("N"), "Files kept of error, message, short message and call-debug logs when they rotate.", |a, v| some(&mut a.options.files.ring_files, integer(v[0]))),
    flag("ringbuffer_size", Traces, One("BYTES"), "Size at which those logs rotate.", |a, v| some(&mut a.options.files.ring_size, integer(v[0]))),
    flag("max_log_size", Traces, One("BYTES"), "Size at which those logs stop.", |a, v| some(&mut a.options.files.max_size, integer(v[0]))),
];
