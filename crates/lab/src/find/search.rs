//! The search itself, without a clock: which value to try next, by what the tries before gave.
//!
//! RFC 7502 §6: start low, raise while sessions succeed, narrow down when one fails, and confirm the figure with a
//! longer run. Between ramp and confirmation we bisect instead of stepping by tenths, and try each value more than
//! once, because software fails by chance near its limit (a single bisection would then end anywhere below it).

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Ramp,
    Bisect,
    Repeat,
    Confirm,
}

/// One run to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    pub value: f64,
    pub phase: Phase,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Bad,
    /// Ringer, not the server, was the limit: the true value is at least the last good one, and is not found.
    LimitedByRinger,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found {
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

#[derive(Debug)]
pub struct Search {
    settings: Settings,
    state: State,
    good: Option<f64>,
    bad: Option<f64>,
    goods_in_a_row: u32,
    confirmations: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Trying { value: f64, phase: Phase },
    Confirming { value: f64 },
    Done(Found),
}

impl Search {
    pub fn new(mut settings: Settings) -> Search {
        settings.to = settings.fit(settings.to).max(settings.unit);
        settings.from = settings.fit(settings.from).max(settings.unit);
        let state = State::Trying { value: settings.from, phase: Phase::Ramp };
        Search { settings, state, good: None, bad: None, goods_in_a_row: 0, confirmations: 0 }
    }

    /// The run to make now; `None` when the search is over.
    pub fn next(&self) -> Option<Trial> {
        match self.state {
            State::Trying { value, phase } if self.goods_in_a_row == 0 => Some(Trial { value, phase }),
            State::Trying { value, .. } => Some(Trial { value, phase: Phase::Repeat }),
            State::Confirming { value } => Some(Trial { value, phase: Phase::Confirm }),
            State::Done(_) => None,
        }
    }

    pub fn found(&self) -> Option<Found> {
        match self.state {
            State::Done(found) => Some(found),
            State::Trying { .. } | State::Confirming { .. } => None,
        }
    }

    pub fn handle_verdict(&mut self, verdict: Verdict) {
        self.state = match (self.state, verdict) {
            (State::Done(found), _) => State::Done(found),
            (_, Verdict::LimitedByRinger) => State::Done(Found::RingerEndedAt(self.good)),
            (State::Trying { value, phase }, Verdict::Good) => self.good_try(value, phase),
            (State::Trying { value, .. }, Verdict::Bad) => self.bad_try(value),
            (State::Confirming { value }, Verdict::Good) if value >= self.settings.to => {
                State::Done(Found::AtLeast(value))
            }
            (State::Confirming { value }, Verdict::Good) => State::Done(Found::Highest(value)),
            (State::Confirming { value }, Verdict::Bad) => self.bad_confirmation(value),
        };
    }

    fn good_try(&mut self, value: f64, phase: Phase) -> State {
        self.goods_in_a_row += 1;
        // On the way up one good run is enough: the bisection comes back to the edge.
        let wanted = if phase == Phase::Ramp { 1 } else { self.settings.repeats.max(1) };
        if self.goods_in_a_row < wanted {
            return State::Trying { value, phase };
        }
        self.good = Some(value);
        self.after()
    }

    fn bad_try(&mut self, value: f64) -> State {
        self.bad = Some(value);
        self.after()
    }

    /// RFC 7502 §6.1 lowers by a tenth when the long run fails.
    fn bad_confirmation(&mut self, value: f64) -> State {
        self.confirmations += 1;
        let lower = self.settings.fit(value * 0.9);
        if self.confirmations > self.settings.confirmations || lower >= value {
            return State::Done(Found::NotConfirmed(value));
        }
        State::Confirming { value: lower }
    }

    fn after(&mut self) -> State {
        self.goods_in_a_row = 0;
        match (self.good, self.bad) {
            (None, Some(_)) => State::Done(Found::Nothing),
            (Some(good), None) if good >= self.settings.to => State::Confirming { value: good },
            (Some(good), None) => {
                State::Trying { value: self.settings.above(good, self.settings.factor), phase: Phase::Ramp }
            }
            (Some(good), Some(bad)) => self.between(good, bad),
            (None, None) => State::Trying { value: self.settings.from, phase: Phase::Ramp },
        }
    }

    fn between(&self, good: f64, bad: f64) -> State {
        let middle = self.settings.fit(f64::midpoint(good, bad));
        if bad - good <= good * self.settings.precision || middle <= good || middle >= bad {
            State::Confirming { value: good }
        } else {
            State::Trying { value: middle, phase: Phase::Bisect }
        }
    }
}

impl Settings {
    fn fit(&self, value: f64) -> f64 {
        let value = value.min(self.to);
        if self.unit > 0.0 { (value / self.unit).floor() * self.unit } else { value }
    }

    fn above(&self, value: f64, factor: f64) -> f64 {
        let next = self.fit(value * factor);
        if next > value { next } else { self.fit(value + self.unit.max(1.0)).max(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::rng::Rng;

    fn settings() -> Settings {
        Settings {
            from: 100.0,
            to: 100_000.0,
            factor: 2.0,
            precision: 0.02,
            repeats: 2,
            confirmations: 5,
            unit: 0.0,
        }
    }

    fn run(settings: Settings, mut server: impl FnMut(Trial) -> Verdict) -> (Found, Vec<Trial>) {
        let mut search = Search::new(settings);
        let mut trials = Vec::new();
        while let Some(trial) = search.next() {
            assert!(trials.len() < 200, "{trials:?}");
            trials.push(trial);
            search.handle_verdict(server(trial));
        }
        (search.found().expect("no next trial means an end"), trials)
    }

    fn limit(at: f64) -> impl FnMut(Trial) -> Verdict {
        move |trial| if trial.value <= at { Verdict::Good } else { Verdict::Bad }
    }

    #[test]
    fn a_sharp_limit_is_found_to_the_precision_and_confirmed() {
        for at in [101.0, 781.6, 6_568.4, 99_000.0] {
            let (found, trials) = run(settings(), limit(at));
            let Found::Highest(value) = found else { panic!("{at}: {found:?}") };
            assert!(value <= at && value >= at * 0.97, "{at}: {value}");
            assert_eq!(trials.last().map(|trial| trial.phase), Some(Phase::Confirm));
            assert!(trials.len() < 40, "{at}: {} runs", trials.len());
        }
    }

    #[test]
    fn the_ends_of_the_range_are_said() {
        assert_eq!(run(settings(), limit(99.0)).0, Found::Nothing);
        assert_eq!(run(settings(), limit(1e9)).0, Found::AtLeast(100_000.0));
    }

    #[test]
    fn ringer_at_its_limit_ends_the_search() {
        let (found, _) =
            run(
                settings(),
                |trial| {
                    if trial.value > 3_000.0 { Verdict::LimitedByRinger } else { Verdict::Good }
                },
            );
        assert_eq!(found, Found::RingerEndedAt(Some(1_600.0)));
    }

    #[test]
    fn a_failed_confirmation_lowers_by_a_tenth() {
        let mut confirmations = 0;
        let (found, _) = run(settings(), |trial| {
            if trial.phase == Phase::Confirm {
                confirmations += 1;
                return if trial.value <= 900.0 { Verdict::Good } else { Verdict::Bad };
            }
            limit(1_000.0)(trial)
        });
        let Found::Highest(value) = found else { panic!("{found:?}") };
        assert!(value <= 900.0 && value > 800.0, "{value}");
        assert!(confirmations >= 2);
        let (found, _) =
            run(
                settings(),
                |trial| {
                    if trial.phase == Phase::Confirm { Verdict::Bad } else { limit(1_000.0)(trial) }
                },
            );
        assert!(matches!(found, Found::NotConfirmed(_)), "{found:?}");
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
                if rng.chance(per_mille) { Verdict::Bad } else { Verdict::Good }
            });
            let (Found::Highest(value) | Found::NotConfirmed(value)) = found else {
                panic!("{seed}: {found:?}")
            };
            assert!((1_500.0..5_000.0).contains(&value), "{seed}: {value}");
        }
    }

    #[test]
    fn whole_numbers_stay_whole() {
        for (from, unit) in [(1.0, 1.0), (2.0, 2.0)] {
            let whole = Settings { from, to: 500.0, unit, ..settings() };
            let (found, trials) = run(whole, limit(150.0));
            assert!(trials.iter().all(|trial| trial.value % unit == 0.0), "{trials:?}");
            let Found::Highest(value) = found else { panic!("{found:?}") };
            assert!((146.0..=150.0).contains(&value), "{value}");
            // The ends of the range are brought to such numbers too.
            let odd = Settings { from: 0.7, to: 501.5, unit, ..settings() };
            assert_eq!(run(odd, limit(1e9)).0, Found::AtLeast((501.5 / unit).floor() * unit));
        }
    }
}
