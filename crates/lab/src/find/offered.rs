//! Whether a run of a search was offered the load that it is to judge: a value that was not offered is not carried.
//!
//! `run` asks after each run without a failure. A load that fell short by the bound of the operator or by the server becomes a missed
//! threshold of the report; one that Ringer did not make is among the reasons that Ringer was the limit.

use lab_report::Report;
use lab_report::model::{ReportSample, ThresholdResult};
use lab_sip::options::{ArrivalPattern, RateOptions};
use lab_xmpp::{ThinkTime, UserAction, XmppLoad};

/// A load is offered when no more than this share of it is missing.
const MISSING: f64 = 0.05;

/// Standard deviations of a random number of arrivals that are no shortage.
const DEVIATIONS: f64 = 4.0;

/// Users sign in again so many seconds after they began to sign out, beside their time to think: they are seen to leave for two.
const AWAY: f64 = 2.0;

/// Milliseconds. Users whose actions begin later than this were kept waiting by Ringer.
const LATE: f64 = 10.0;

/// The search for a rate of calls: all arrivals of the run have to start.
pub(super) fn judge_calls(report: &mut Report, rate: &RateOptions) {
    let totals = &report.totals;
    if totals.failed > 0 || !report.limited_by_ringer.is_empty() {
        return;
    }
    if totals.blocked > 0 {
        let measured = format!("{} of {} arrivals blocked", totals.blocked, totals.due);
        match rate.limit {
            Some(limit) if totals.peak_open >= limit => {
                report.thresholds.push(missed(format!("blocked == 0 at -l {limit}"), measured));
            }
            _ => report.limited_by_ringer.push(format!("{measured}: use more --threads")),
        }
        return;
    }
    let seconds = rate.duration.unwrap_or_default().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a number of calls")]
    let (total, started) = (rate.total.unwrap_or(u64::MAX) as f64, totals.started as f64);
    let asked = (rate.calls / rate.period.as_secs_f64().max(1e-9) * seconds).min(total);
    let random = if rate.arrivals == ArrivalPattern::Poisson { DEVIATIONS * asked.sqrt() } else { 0.0 };
    if started + random < asked * (1.0 - MISSING) {
        report.limited_by_ringer.push(format!("only {started:.0} of {asked:.0} calls were started"));
    }
}

/// The searches among users: while they act, as much has to become due as their number and their time to think ask for. A user who signs in
/// waits for the server, so a server that is slow at it gets less.
pub(super) fn judge_users(report: &mut Report, load: &XmppLoad) {
    if report.totals.failed > 0 || !report.limited_by_ringer.is_empty() {
        return;
    }
    let Some((seconds, due)) = of_load(report) else { return };
    let asked = asked(load);
    // Users who are all there at the start need a while for the mean: about the first second is not typical, and nothing before a fixed think
    // time is over.
    let typical = match load.think {
        ThinkTime::Exponential(_) => seconds - 1.0,
        ThinkTime::Fixed(_) => seconds - 1.0 - asked.cycle,
    };
    let wanted = asked.rate * typical.max(0.0);
    if due + DEVIATIONS * wanted.sqrt() >= wanted * (1.0 - MISSING) {
        return;
    }
    let measured = format!("{:.1} a second", due / seconds);
    if report.start_delay.p99 > LATE {
        let reason = format!("users began {measured} in place of {:.1}, as Ringer was late", asked.rate);
        report.limited_by_ringer.push(reason);
    } else {
        let text = format!("{:.1} actions and sign-ins a second, as fast as users are served", asked.rate);
        report.thresholds.push(missed(text, measured));
    }
}

/// Seconds, and actions and sign-ins that became due in them, of the samples that are wholly within the stage of the load.
fn of_load(report: &Report) -> Option<(f64, f64)> {
    let at = |name: &str| report.stages.iter().find(|stage| stage.name == name).map(|stage| stage.at);
    // The readings are those after the sign-ins and after the load.
    let (from, to) = (at("login")?, at("final")?);
    let is_within = |sample: &&ReportSample| sample.at > from && sample.at < to;
    let within = report.samples.iter().filter(is_within);
    let sums = within
        .fold((0.0, 0.0), |(seconds, due), sample| (seconds + sample.span, due + sample.due * sample.span));
    (sums.0 > 0.0).then_some(sums)
}

/// The pace of users whose server answers at once.
struct AskedPace {
    /// Actions and sign-ins of all users in a second.
    rate: f64,
    /// Seconds from one action of a user to the next, on average.
    cycle: f64,
}

fn asked(load: &XmppLoad) -> AskedPace {
    let (ThinkTime::Fixed(think) | ThinkTime::Exponential(think)) = load.think;
    let think = think.as_secs_f64().max(1e-3);
    // A user who signs out is away, thinks, signs in and thinks again.
    let sign_outs = load.mix.share(UserAction::Logout);
    let cycle = think + sign_outs * (AWAY + think);
    AskedPace { rate: f64::from(load.people.count()) * (1.0 + sign_outs) / cycle, cycle }
}

fn missed(text: String, measured: String) -> ThresholdResult {
    ThresholdResult { text, measured: Some(measured), kept: false, judged: true }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lab_report::model::{ReportTotals, StageReading, TimeSummary};
    use lab_sip::options::Options;

    use super::super::run::verdict;
    use super::super::search::TrialVerdict;
    use super::*;

    /// A run of ten seconds at 100 a second without a failure, of which so many calls were blocked or not even due.
    fn calls(blocked: u64, absent: u64, peak_open: u64, limit: u64) -> (TrialVerdict, Report) {
        let due = 1_000 - absent;
        let started = due - blocked;
        let totals =
            ReportTotals { due, blocked, started, successful: started, peak_open, ..ReportTotals::default() };
        let mut report = Report { totals, ..Report::default() };
        let mut rate = Options::default().rate;
        (rate.calls, rate.limit, rate.duration) = (100.0, Some(limit), Some(Duration::from_secs(10)));
        judge_calls(&mut report, &rate);
        (verdict(&report), report)
    }

    #[test]
    fn a_rate_that_was_not_offered_is_not_carried() {
        for (blocked, absent, peak, wanted) in [
            (0, 0, 40, TrialVerdict::Good),
            // Open calls reached `-l`: the server did not end them in time.
            (1, 0, 50, TrialVerdict::Bad),
            // They did not: Ringer was too slow to start them.
            (1, 0, 40, TrialVerdict::LimitedByRinger),
            (0, 500, 40, TrialVerdict::LimitedByRinger),
            (0, 49, 40, TrialVerdict::Good),
        ] {
            let (is, report) = calls(blocked, absent, peak, 50);
            assert_eq!(is, wanted, "{blocked} blocked, {absent} absent: {report:?}");
        }
        let (_, report) = calls(975, 0, 50, 50);
        assert_eq!(
            report.thresholds[0].to_string(),
            "MISSED: blocked == 0 at -l 50 (measured 975 of 1000 arrivals blocked)"
        );
    }

    #[test]
    fn calls_of_a_run_that_ends_by_their_number_are_asked_for_by_it() {
        let totals = ReportTotals { due: 300, started: 300, successful: 300, ..ReportTotals::default() };
        let mut report = Report { totals, ..Report::default() };
        let mut rate = Options::default().rate;
        (rate.calls, rate.total, rate.duration) = (1e4, Some(300), Some(Duration::from_secs(120)));
        judge_calls(&mut report, &rate);
        assert_eq!(verdict(&report), TrialVerdict::Good, "{report:?}");
        rate.total = Some(400);
        judge_calls(&mut report, &rate);
        assert_eq!(report.limited_by_ringer, ["only 300 of 400 calls were started"]);
    }

    /// A load of 60 s after ten seconds of signing in, in which so much became due a second.
    fn users(words: &str, due: f64, late: f64) -> TrialVerdict {
        let words: Vec<String> = format!("127.0.0.1 {words}").split_whitespace().map(str::to_owned).collect();
        let (setup, _) = crate::cli::build_xmpp(&words).expect("right");
        let sample = |second: u32| {
            // The sign-ins before the load and those after it count for nothing.
            let due = if (11..70).contains(&second) { due } else { 5_000.0 };
            ReportSample { at: second.into(), span: 1.0, due, ..ReportSample::default() }
        };
        let stage =
            |name: &str, at: f64| StageReading { name: name.to_owned(), at, ..StageReading::default() };
        let mut report = Report {
            totals: ReportTotals { successful: 1_000, ..ReportTotals::default() },
            samples: (1..=75).map(sample).collect(),
            stages: vec![stage("initial", 0.0), stage("login", 10.0), stage("final", 70.0)],
            start_delay: TimeSummary { p99: late, ..TimeSummary::default() },
            ..Report::default()
        };
        judge_users(&mut report, setup.chat.as_ref().expect("users"));
        verdict(&report)
    }

    #[test]
    fn sign_ins_that_a_slow_server_never_got_are_not_carried() {
        // 1,000 users who sign in a hundred times a second: in ten seconds each of them signs out and in.
        let logins = "--users 1000 --think 4 --mix logout=1";
        assert_eq!(users(logins, 200.0, 1.0), TrialVerdict::Good);
        assert_eq!(users(logins, 195.0, 1.0), TrialVerdict::Good);
        // A sign-in takes three seconds more.
        assert_eq!(users(logins, 200.0 * 10.0 / 13.0, 1.0), TrialVerdict::Bad);
        assert_eq!(users(logins, 200.0 * 10.0 / 13.0, 30.0), TrialVerdict::LimitedByRinger);
        let fixed = "--users 1000 --think-fixed 4 --mix logout=1";
        assert_eq!(users(fixed, 190.0, 1.0), TrialVerdict::Good);
        assert_eq!(users(fixed, 140.0, 1.0), TrialVerdict::Bad);
    }

    #[test]
    fn actions_that_ringer_did_not_begin_are_not_carried() {
        let actions = "--users 1000 --think 5 --mix message=95,logout=5";
        // A user is away and thinks once more after each twentieth action.
        let asked = 1_000.0 * 1.05 / (5.0 + 0.05 * 7.0);
        assert_eq!(users(actions, asked, 1.0), TrialVerdict::Good);
        assert_eq!(users(actions, asked / 2.0, 500.0), TrialVerdict::LimitedByRinger);
    }
}
