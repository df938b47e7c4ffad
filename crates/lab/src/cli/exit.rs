//! The exit codes of the program.
//!
//! [`ExitCode::of_run`] is the one place that ranks the outcomes of a run; `cli::sip` lets a missed threshold come before failed calls.

use lab_sip::stats::Count;

use crate::engine::{RunEnd, RunOutcome};

/// SIPp's codes, and Ringer's two: 98, and 99 which also stands for a missed threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// 0: every call succeeded, or none failed before SIGTERM or SIGINT ended the run; or `--check` found no mistake.
    Success,
    /// 1: at least one call failed.
    CallsFailed,
    /// 1 too, as with SIPp: `-set` names a variable that no scenario has.
    UnknownGlobal,
    /// 97: ended by an internal command (`int_cmd`, a hard quit) or by `-timeout`; calls may have been made.
    Internal,
    /// 98: Ringer itself was the limit, so the figures of the run are not the server's.
    RingerWasTheLimit,
    /// 99: the run ended well, but not one call was made.
    NoCalls,
    /// 99 too, as with SIPp: a flag asked for text (`-h`, `-v`, `-sd`) in place of a run.
    Printed,
    /// 99 too: a threshold was missed.
    ThresholdMissed,
    /// 253: `rtpcheck` failed.
    RtpCheckFailed,
    /// 254: a socket could not be bound.
    Bind,
    /// 255: a mistake in flags, scenario or files, or a fault that stopped the run.
    Fatal,
}

impl ExitCode {
    /// The code of the process.
    pub fn code(self) -> u8 {
        match self {
            ExitCode::Success => 0,
            ExitCode::CallsFailed | ExitCode::UnknownGlobal => 1,
            ExitCode::Internal => 97,
            ExitCode::RingerWasTheLimit => 98,
            ExitCode::NoCalls | ExitCode::Printed | ExitCode::ThresholdMissed => 99,
            ExitCode::RtpCheckFailed => 253,
            ExitCode::Bind => 254,
            ExitCode::Fatal => 255,
        }
    }

    /// The code of a run that could not start.
    pub fn of_start(code: i32) -> ExitCode {
        if code == 254 || code == -2 { ExitCode::Bind } else { ExitCode::Fatal }
    }

    /// The code of a run. Failed calls come before all lesser outcomes, as in SIPp; thresholds are judged by the caller.
    // In the order of the ranks: a fault, RTP checks, failed calls, our own limit, and only then the reason of the end.
    pub fn of_run(outcome: &RunOutcome, timeout_is_error: bool) -> ExitCode {
        let counts = &outcome.progress.total.counts;
        let timed_out = outcome.end == RunEnd::Timeout;
        if matches!(outcome.end, RunEnd::Fatal | RunEnd::NoAccounts)
            || counts[Count::FatalErrors] > 0
            || (timed_out && timeout_is_error)
        {
            return ExitCode::Fatal;
        }
        if counts[Count::FailedRtpCheck] > 0 {
            return ExitCode::RtpCheckFailed;
        }
        if counts[Count::FailedCall] > 0 {
            return ExitCode::CallsFailed;
        }
        if !outcome.limited_by_ringer.is_empty() {
            return ExitCode::RingerWasTheLimit;
        }
        let succeeded = counts[Count::SuccessfulCall] > 0;
        match outcome.end {
            RunEnd::Internal => ExitCode::Internal,
            // As with SIPp, whose open calls have not failed then.
            RunEnd::Terminated => ExitCode::Success,
            // `-timeout` with some success is a good run; without any it is an end by force.
            RunEnd::Timeout if !succeeded => ExitCode::Internal,
            _ if succeeded => ExitCode::Success,
            // As with SIPp: a server that was never called has not succeeded.
            _ => ExitCode::NoCalls,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code.code())
    }
}
