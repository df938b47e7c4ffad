//! State that controllers and observers of a run share.
//!
//! Keys, the control port and signals write it; the screens read it with the next interval. Clones share one state.

use std::sync::Arc;

use lab_sip::trace::Tracer;
use parking_lot::Mutex;

use crate::engine::Setup;
use crate::live::ShownPage;

/// A handle; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RunHandle {
    /// Flags and messages, under one lock.
    state: Arc<Mutex<RemoteState>>,
    /// The page on the terminal.
    shown: ShownPage,
    /// Switched on and off by `trace NAME on|off`.
    tracer: Tracer,
}

/// The state of a run that controllers and screens share.
#[derive(Debug, Clone, Default)]
pub struct RemoteState {
    /// The step of the keys `+` and `-`, a tenth of that of `*` and `/` (`-rate_scale`).
    pub scale: f64,
    /// The run is one of `-users`, which has no rate and no limit to set.
    pub has_users: bool,
    /// No new calls until the next `p`.
    pub paused: bool,
    /// An operator or a signal asked for the end; a further `q` ends the open calls too.
    pub quitting: bool,
    /// Screens are to be written to their file.
    pub dump: bool,
    /// `dump tasks` and `dump variables` were asked for.
    pub tasks: bool,
    /// `dump variables` was asked for.
    pub variables: bool,
    /// The terminal is raw: lines need a carriage return.
    pub raw_terminal: bool,
    /// The last message to the operator.
    pub said: Option<String>,
}

impl RunHandle {
    /// A handle with the step of the set-up.
    pub fn new(setup: &Setup) -> RunHandle {
        let rate = &setup.options.rate;
        let state =
            RemoteState { scale: rate.scale, has_users: rate.users.is_some(), ..RemoteState::default() };
        RunHandle {
            state: Arc::new(Mutex::new(state)),
            shown: ShownPage::default(),
            tracer: setup.tracer.clone(),
        }
    }

    /// Calls `act` with the state under its lock.
    pub fn with<T>(&self, act: impl FnOnce(&mut RemoteState) -> T) -> T {
        act(&mut self.state.lock())
    }

    /// The page on the terminal; the live view draws it.
    pub fn shown(&self) -> &ShownPage {
        &self.shown
    }

    /// The tracer of the run.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// A message to the operator: in the live view's lowest line, or on standard error with the next interval.
    pub fn say(&self, text: String) {
        if self.shown.is_attached() {
            self.shown.set_line(text);
        } else {
            self.with(|state| state.said = Some(text));
        }
    }
}
