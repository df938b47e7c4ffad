//! Which of a run's scenarios the screens are about: `set display` and `set hide`.

use std::sync::Arc;

use lab_sip::call::Which;

use crate::engine::{Progress, Setup};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub which: Which,
    /// Steps marked `hide` are shown.
    pub unhide: bool,
}

impl Default for View {
    fn default() -> Self {
        View { which: Which::Main, unhide: false }
    }
}

impl View {
    /// What to draw instead; `None`: the run as it is. A scenario that the run does not have is shown as the main one.
    pub fn seen(self, setup: &Setup, progress: &Progress) -> Option<(Setup, Progress)> {
        if self == View::default() {
            return None;
        }
        let (mut setup, mut progress) = (setup.clone(), progress.clone());
        let total = &mut progress.total;
        let other = match self.which {
            Which::Main => None,
            Which::Receive => setup.receive.clone().map(|other| (other, &total.receive_steps)),
            Which::OutOfCall => setup.out_of_call.clone().map(|other| (other, &total.out_of_call_steps)),
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
