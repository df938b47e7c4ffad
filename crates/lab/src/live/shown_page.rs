//! The page on the terminal, as the reader of the keys sets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::screen::ScreenView;

/// Shared by the keys, the control port and the screens.
#[derive(Debug, Clone, Default)]
pub struct ShownPage(Arc<ShownState>);

#[derive(Debug)]
struct ShownState {
    /// 0 is the live view, 1 to 9 are SIPp's, [`UNASKED`] before the first choice.
    screen: AtomicU8,
    /// A live view draws it.
    attached: AtomicBool,
    /// Goes up with every change.
    version: AtomicU64,
    /// The lowest line.
    line: Mutex<String>,
    /// The scenario that SIPp's screens show.
    view: Mutex<ScreenView>,
}

/// No screen was chosen: without a live view none is drawn then.
const UNASKED: u8 = u8::MAX;

impl Default for ShownState {
    fn default() -> Self {
        ShownState {
            screen: AtomicU8::new(UNASKED),
            attached: AtomicBool::default(),
            version: AtomicU64::default(),
            line: Mutex::default(),
            view: Mutex::default(),
        }
    }
}

impl ShownPage {
    /// The number of the shown page.
    pub fn get(&self) -> u8 {
        self.asked().unwrap_or(0)
    }

    /// `None` before the first choice of a screen.
    pub fn asked(&self) -> Option<u8> {
        Some(self.0.screen.load(Ordering::Relaxed)).filter(|screen| *screen != UNASKED)
    }

    /// Shows another page.
    pub fn set(&self, screen: u8) {
        self.0.screen.store(screen, Ordering::Relaxed);
        self.touch();
    }

    /// The lowest line: what is being typed, or an answer to it; empty for the usual one.
    pub fn line(&self) -> String {
        self.0.line.lock().clone()
    }

    /// Shows a line of text below the page.
    pub fn set_line(&self, line: String) {
        *self.0.line.lock() = line;
        self.touch();
    }

    /// The scenario that SIPp's screens show.
    pub fn view(&self) -> ScreenView {
        *self.0.view.lock()
    }

    /// Changes the view of SIPp's screens.
    pub fn change_view(&self, change: impl FnOnce(&mut ScreenView)) {
        change(&mut self.0.view.lock());
        self.touch();
    }

    /// To be drawn anew, as after a change of the terminal's size.
    pub fn touch(&self) {
        self.0.version.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of changes so far: a screen that was drawn at another number is out of date.
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }

    /// A live view owns the screen: no other output is written to it.
    pub fn is_attached(&self) -> bool {
        self.0.attached.load(Ordering::Relaxed)
    }

    /// A live view takes the screen, or gives it back.
    pub(super) fn attach(&self, attached: bool) {
        self.0.attached.store(attached, Ordering::Relaxed);
    }
}
