//! The scenario of a run that the screens show: `set display` and `set hide`.
//!
//! A view is a changed copy of set-up and figures, so that the screens need not know of it.

use std::sync::Arc;

use lab_sip::call::ScenarioRole;

use crate::engine::{Progress, Setup};

/// The scenario that the screens show, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenView {
    /// The scenario whose steps are shown (`set display`).
    pub which: ScenarioRole,
    /// Steps marked `hide` are shown.
    pub unhide: bool,
}

impl Default for ScreenView {
    fn default() -> Self {
        ScreenView { which: ScenarioRole::Main, unhide: false }
    }
}

impl ScreenView {
    /// The set-up and figures to draw instead; `None`: the run as it is. A scenario that the run does not have
    /// is shown as the main one.
    pub fn seen(self, setup: &Setup, progress: &Progress) -> Option<(Setup, Progress)> {
        if self == ScreenView::default() {
            return None;
        }
        let (mut setup, mut progress) = (setup.clone(), progress.clone());
        let total = &mut progress.total;
        let other = match self.which {
            ScenarioRole::Main => None,
            // A scenario that the run does not have leaves the main one.
            ScenarioRole::Receive => setup.receive.clone().map(|other| (other, &total.receive_steps)),
            ScenarioRole::OutOfCall => {
                setup.out_of_call.clone().map(|other| (other, &total.out_of_call_steps))
            }
        };
        if let Some((scenario, steps)) = other {
            setup.scenario = scenario;
            total.steps = steps.clone();
        }
        if self.unhide {
            for step in &mut Arc::make_mut(&mut setup.scenario).steps {
                step.screen.hide = false;
            }
        }
        Some((setup, progress))
    }
}
