//! The search itself, without a clock: which value to try next, by what the tries before gave.
//!
//! RFC 7502 §6: start low, raise while sessions succeed, narrow down when one fails, and confirm the figure with a
//! longer run. Between ramp and confirmation we bisect instead of stepping by tenths, and try each value more than
//! once, because software fails by chance near its limit (a single bisection would then end anywhere below it).

/// The method of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSettings {
    /// The first value tried.
    pub from: f64,
    /// Never beyond this.
    pub to: f64,
    /// Ramp: each step is the last one times this.
    pub factor: f64,
    /// Bisection ends when the gap is below this share of the good value.
    pub precision: f64,
    /// A value is good when this many tries in a row are.
    pub repeats: u32,
    /// Confirmations that may fail, each lowering the value by a tenth, before the search gives up.
    pub confirmations: u32,
    /// Values are multiples of this: 1 for open calls, 0 for a rate.
    pub unit: f64,
}

/// The phase of a search that a run belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchPhase {
    /// The value grows by the factor until a run is bad.
    Ramp,
    /// The middle between the highest good value and the lowest bad one.
    Bisect,
    /// A value that was good, once more.
    Repeat,
    /// The longer run with the value found (RFC 7502 §6.1).
    Confirm,
}

/// One run to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialRun {
    /// The value of the varied setting.
    pub value: f64,
    /// The phase that asked for the run.
    pub phase: SearchPhase,
}

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialVerdict {
    /// At least one call succeeded, none failed and no threshold was missed (RFC 7502 §6.1).
    Good,
    /// No call succeeded, a call failed, a threshold was missed, or the server did not take the value that was to be offered.
    Bad,
    /// Ringer, not the server, was the limit: the true value is at least the last good one, and is not found.
    LimitedByRinger,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchOutcome {
    /// Confirmed by a longer run.
    Highest(f64),
    /// Good up to the end of the range.
    AtLeast(f64),
    /// Good as far as Ringer could go.
    RingerEndedAt(Option<f64>),
    /// Even the lowest value failed.
    Nothing,
    /// No value survived its confirmation.
    NotConfirmed(f64),
}

/// A search: it chooses the load of each run from the verdicts on earlier ones.
#[derive(Debug)]
pub struct Search {
    /// The range and the method, rounded to the unit.
    settings: SearchSettings,
    state: SearchState,
    /// The highest value that was good.
    good: Option<f64>,
    /// The lowest value that was bad.
    bad: Option<f64>,
    /// Good runs with the present value.
    goods_in_a_row: u32,
    /// Confirmations that failed.
    confirmations: u32,
}

/// The progress of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SearchState {
    /// Ramp, bisection, or a repetition of either.
    Trying { value: f64, phase: SearchPhase },
    /// The longer run with the value found.
    Confirming { value: f64 },
    /// The search has its result.
    Done(SearchOutcome),
}

impl Search {
    /// A search that has made no run.
    pub fn new(mut settings: SearchSettings) -> Search {
        settings.to = settings.fit(settings.to).max(settings.unit);
        settings.from = settings.fit(settings.from).max(settings.unit);
        let state = SearchState::Trying { value: settings.from, phase: SearchPhase::Ramp };
        Search { settings, state, good: None, bad: None, goods_in_a_row: 0, confirmations: 0 }
    }

    /// The run to make now; `None` when the search is over.
    pub fn next(&self) -> Option<TrialRun> {
        match self.state {
            SearchState::Trying { value, phase } if self.goods_in_a_row == 0 => {
                Some(TrialRun { value, phase })
            }
            SearchState::Trying { value, .. } => Some(TrialRun { value, phase: SearchPhase::Repeat }),
            SearchState::Confirming { value } => Some(TrialRun { value, phase: SearchPhase::Confirm }),
            SearchState::Done(_) => None,
        }
    }

    /// The result, once there is one.
    pub fn found(&self) -> Option<SearchOutcome> {
        match self.state {
            SearchState::Done(found) => Some(found),
            SearchState::Trying { .. } | SearchState::Confirming { .. } => None,
        }
    }

    /// Takes the verdict on the run that was made last.
    pub fn handle_verdict(&mut self, verdict: TrialVerdict) {
        self.state = match (self.state, verdict) {
            // A verdict after the end changes nothing.
            (SearchState::Done(found), _) => SearchState::Done(found),
            (_, TrialVerdict::LimitedByRinger) => SearchState::Done(SearchOutcome::RingerEndedAt(self.good)),
            (SearchState::Trying { value, phase }, TrialVerdict::Good) => self.good_try(value, phase),
            (SearchState::Trying { value, .. }, TrialVerdict::Bad) => self.bad_try(value),
            // The range ended before the server did.
            (SearchState::Confirming { value }, TrialVerdict::Good) if value >= self.settings.to => {
                SearchState::Done(SearchOutcome::AtLeast(value))
            }
            (SearchState::Confirming { value }, TrialVerdict::Good) => {
                SearchState::Done(SearchOutcome::Highest(value))
            }
            (SearchState::Confirming { value }, TrialVerdict::Bad) => self.bad_confirmation(value),
        };
    }

    /// A good run: again with the same value until there were enough, then on.
    fn good_try(&mut self, value: f64, phase: SearchPhase) -> SearchState {
        self.goods_in_a_row += 1;
        // On the way up one good run is enough: the bisection comes back to the edge.
        let wanted = if phase == SearchPhase::Ramp { 1 } else { self.settings.repeats.max(1) };
        if self.goods_in_a_row < wanted {
            return SearchState::Trying { value, phase };
        }
        self.good = Some(value);
        self.after()
    }

    /// One bad run is enough: the value is not carried without failure.
    fn bad_try(&mut self, value: f64) -> SearchState {
        self.bad = Some(value);
        self.after()
    }

    /// RFC 7502 §6.1 lowers by a tenth when the long run fails.
    fn bad_confirmation(&mut self, value: f64) -> SearchState {
        self.confirmations += 1;
        let lower = self.settings.fit(value * 0.9);
        if self.confirmations > self.settings.confirmations || lower >= value {
            return SearchState::Done(SearchOutcome::NotConfirmed(value));
        }
        SearchState::Confirming { value: lower }
    }

    /// The next value, from the highest good and the lowest bad one.
    fn after(&mut self) -> SearchState {
        self.goods_in_a_row = 0;
        match (self.good, self.bad) {
            (None, Some(_)) => SearchState::Done(SearchOutcome::Nothing),
            (Some(good), None) if good >= self.settings.to => SearchState::Confirming { value: good },
            (Some(good), None) => SearchState::Trying {
                value: self.settings.above(good, self.settings.factor),
                phase: SearchPhase::Ramp,
            },
            (Some(good), Some(bad)) => self.between(good, bad),
            (None, None) => SearchState::Trying { value: self.settings.from, phase: SearchPhase::Ramp },
        }
    }

    /// Bisection ends when the gap is small enough, or no multiple of the unit lies in it.
    fn between(&self, good: f64, bad: f64) -> SearchState {
        let middle = self.settings.fit(f64::midpoint(good, bad));
        if bad - good <= good * self.settings.precision || middle <= good || middle >= bad {
            SearchState::Confirming { value: good }
        } else {
            SearchState::Trying { value: middle, phase: SearchPhase::Bisect }
        }
    }
}

impl SearchSettings {
    /// The value within the range, rounded down to the unit.
    fn fit(&self, value: f64) -> f64 {
        let value = value.min(self.to);
        if self.unit > 0.0 { (value / self.unit).floor() * self.unit } else { value }
    }

    /// The next step of the ramp: larger by at least one unit, so that a small factor cannot stand still.
    fn above(&self, value: f64, factor: f64) -> f64 {
        let next = self.fit(value * factor);
        if next > value { next } else { self.fit(value + self.unit.max(1.0)).max(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::rng::Rng;

    fn settings() -> SearchSettings {
        SearchSettings {
            from: 100.0,
            to: 100_000.0,
            factor: 2.0,
            precision: 0.02,
            repeats: 2,
            confirmations: 5,
            unit: 0.0,
        }
    }

    fn run(
        settings: SearchSettings,
        mut server: impl FnMut(TrialRun) -> TrialVerdict,
    ) -> (SearchOutcome, Vec<TrialRun>) {
        let mut search = Search::new(settings);
        let mut trials = Vec::new();
        while let Some(trial) = search.next() {
            assert!(trials.len() < 200, "{trials:?}");
            trials.push(trial);
            search.handle_verdict(server(trial));
        }
        (search.found().expect("no next trial means an end"), trials)
    }

    fn limit(at: f64) -> impl FnMut(TrialRun) -> TrialVerdict {
        move |trial| if trial.value <= at { TrialVerdict::Good } else { TrialVerdict::Bad }
    }

    #[test]
    fn a_sharp_limit_is_found_to_the_precision_and_confirmed() {
        for at in [101.0, 781.6, 6_568.4, 99_000.0] {
            let (found, trials) = run(settings(), limit(at));
            let SearchOutcome::Highest(value) = found else { panic!("{at}: {found:?}") };
            assert!(value <= at && value >= at * 0.97, "{at}: {value}");
            assert_eq!(trials.last().map(|trial| trial.phase), Some(SearchPhase::Confirm));
            assert!(trials.len() < 40, "{at}: {} runs", trials.len());
        }
    }

    #[test]
    fn the_ends_of_the_range_are_said() {
        assert_eq!(run(settings(), limit(99.0)).0, SearchOutcome::Nothing);
        assert_eq!(run(settings(), limit(1e9)).0, SearchOutcome::AtLeast(100_000.0));
    }

    #[test]
    fn ringer_at_its_limit_ends_the_search() {
        let (found, _) = run(settings(), |trial| {
            if trial.value > 3_000.0 { TrialVerdict::LimitedByRinger } else { TrialVerdict::Good }
        });
        assert_eq!(found, SearchOutcome::RingerEndedAt(Some(1_600.0)));
    }

    #[test]
    fn a_failed_confirmation_lowers_by_a_tenth() {
        let mut confirmations = 0;
        let (found, _) = run(settings(), |trial| {
            if trial.phase == SearchPhase::Confirm {
                confirmations += 1;
                return if trial.value <= 900.0 { TrialVerdict::Good } else { TrialVerdict::Bad };
            }
            limit(1_000.0)(trial)
        });
        let SearchOutcome::Highest(value) = found else { panic!("{found:?}") };
        assert!(value <= 900.0 && value > 800.0, "{value}");
        assert!(confirmations >= 2);
        let (found, _) = run(settings(), |trial| {
            if trial.phase == SearchPhase::Confirm { TrialVerdict::Bad } else { limit(1_000.0)(trial) }
        });
        assert!(matches!(found, SearchOutcome::NotConfirmed(_)), "{found:?}");
    }

    /// A server that fails by chance, the more the closer it is to its limit.
    #[test]
    fn a_noisy_limit_is_not_overstated() {
        for seed in 0..50 {
            let mut rng = Rng::seeded(seed);
            let (found, _) = run(settings(), |trial| {
                let per_mille = match trial.value {
                    v if v < 4_000.0 => 0,
                    v if v < 5_000.0 => 500,
                    _ => 1_000,
                };
                if rng.chance(per_mille) { TrialVerdict::Bad } else { TrialVerdict::Good }
            });
            let (SearchOutcome::Highest(value) | SearchOutcome::NotConfirmed(value)) = found else {
                panic!("{seed}: {found:?}")
            };
            assert!((1_500.0..5_000.0).contains(&value), "{seed}: {value}");
        }
    }

    #[test]
    fn whole_numbers_stay_whole() {
        for (from, unit) in [(1.0, 1.0), (2.0, 2.0)] {
            let whole = SearchSettings { from, to: 500.0, unit, ..settings() };
            let (found, trials) = run(whole, limit(150.0));
            assert!(trials.iter().all(|trial| trial.value % unit == 0.0), "{trials:?}");
            let SearchOutcome::Highest(value) = found else { panic!("{found:?}") };
            assert!((146.0..=150.0).contains(&value), "{value}");
            // The ends of the range are brought to such numbers too.
            let odd = SearchSettings { from: 0.7, to: 501.5, unit, ..settings() };
            assert_eq!(run(odd, limit(1e9)).0, SearchOutcome::AtLeast((501.5 / unit).floor() * unit));
        }
    }
}
