//! Keys, when standard input is a terminal. In raw mode, which is given back when this is dropped.
//!
//! [`Terminal`] reads the terminal and gives keys to [`Keys`], which knows whether a command is being typed and has no terminal itself, so that
//! tests can press keys.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsRawFd as _;
use std::sync::Once;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;

use super::{CommandTarget, OperatorCommand, key, obey, obey_text};
use crate::engine::Run;
use crate::screen::RunHandle;
use crate::session::RunController;

/// Events read in one turn, so that a paste does not hold up the run.
const PER_TURN: usize = 256;

/// The only reader of the terminal.
pub struct Terminal {
    /// Turns keys into commands.
    keys: Keys,
    /// Watched beside the events: a terminal that is gone looks like one without keys.
    hangup: HangupDetector,
}

impl Terminal {
    /// `None` without a terminal.
    pub fn open(remote: RunHandle) -> Option<Terminal> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let hangup = HangupDetector::watch().ok()?;
        terminal::enable_raw_mode().ok()?;
        restore_on_panic();
        remote.with(|state| state.raw_terminal = true);
        Some(Terminal { keys: Keys::new(remote), hangup })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.keys.remote.with(|state| state.raw_terminal = false);
        // Nothing can be done about a terminal that is gone.
        let _ = terminal::disable_raw_mode();
    }
}

impl RunController for Terminal {
    fn poll(&mut self, run: &Run) {
        for _ in 0..PER_TURN {
            if self.hangup.happened() || !matches!(event::poll(Duration::ZERO), Ok(true)) {
                return;
            }
            match event::read() {
                // Terminals that report releases would do everything twice.
                Ok(Event::Key(pressed)) if pressed.kind != KeyEventKind::Release => {
                    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
                    self.keys.press(run, pressed.code, control);
                }
                // The page is drawn anew with the next turn.
                Ok(Event::Resize(..)) => self.keys.remote.shown().touch(),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// A panic on any thread restores the terminal first, so that its message is visible.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = terminal::disable_raw_mode();
            before(info);
        }));
    });
}

/// Tells whether the terminal went away: reading one that did never ends.
struct HangupDetector {
    /// Watches standard input for its end alone.
    poll: Poll,
    events: Events,
    /// Stays true: a terminal does not come back.
    happened: bool,
}

impl HangupDetector {
    fn watch() -> io::Result<HangupDetector> {
        let poll = Poll::new()?;
        poll.registry().register(&mut SourceFd(&io::stdin().as_raw_fd()), Token(0), Interest::READABLE)?;
        Ok(HangupDetector { poll, events: Events::with_capacity(4), happened: false })
    }

    fn happened(&mut self) -> bool {
        if !self.happened && self.poll.poll(&mut self.events, Some(Duration::ZERO)).is_ok() {
            self.happened = self.events.iter().any(|event| event.is_read_closed() || event.is_error());
        }
        self.happened
    }
}

/// The keyboard: single keys, and after `c` a line.
pub struct Keys {
    /// State that keys, datagrams and signals change together.
    remote: RunHandle,
    /// The command typed after `c`; `None` between commands.
    line: Option<String>,
}

impl Keys {
    /// A keyboard for this run; no key has been pressed.
    pub fn new(remote: RunHandle) -> Keys {
        Keys { remote, line: None }
    }

    /// Handles one key, which may send a command to `target`.
    pub fn press(&mut self, target: &dyn CommandTarget, code: KeyCode, control: bool) {
        // Raw mode gives Ctrl-C as a key; it means what SIGINT means.
        if control && code == KeyCode::Char('c') {
            self.line = None;
            self.show();
            obey(target, &self.remote, &OperatorCommand::Terminate);
            return;
        }
        let Some(line) = &mut self.line else {
            if let KeyCode::Char(pressed) = code {
                self.single(target, pressed);
            }
            return;
        };
        match code {
            KeyCode::Char(typed) if line.len() < LONGEST_LINE => line.push(typed),
            KeyCode::Backspace => {
                line.pop();
            }
            KeyCode::Esc => self.line = None,
            KeyCode::Enter => {
                let line = std::mem::take(line);
                self.line = None;
                self.show();
                obey_text(target, &self.remote, &line);
                return;
            }
            // Other keys, and characters beyond the longest line, change nothing.
            _ => return,
        }
        self.show();
    }

    /// One key outside a command line.
    fn single(&mut self, target: &dyn CommandTarget, pressed: char) {
        if pressed == 'c' {
            self.line = Some(String::new());
            self.show();
        } else if let Some(command) = key(pressed) {
            // The previous message has been read by now.
            self.show();
            obey(target, &self.remote, &command);
        }
    }

    /// The line being typed, where it is seen.
    fn show(&self) {
        let line = self.line.as_ref().map_or_else(String::new, |line| format!("Command: {line}"));
        self.remote.shown().set_line(line);
    }
}

/// Bytes of a typed line; no command is near it.
const LONGEST_LINE: usize = 200;
