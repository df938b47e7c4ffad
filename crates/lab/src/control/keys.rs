//! Keys, when standard input is a terminal. In raw mode, which is given back when this is dropped.

use std::io::IsTerminal as _;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;

use super::{Command, Target, command, key, obey};
use crate::engine::Run;
use crate::screen::Remote;
use crate::session::Control;

pub struct Terminal {
    keys: Keys,
}

impl Terminal {
    /// `None` without a terminal.
    pub fn open(remote: Remote) -> Option<Terminal> {
        if !std::io::stdin().is_terminal() || terminal::enable_raw_mode().is_err() {
            return None;
        }
        remote.with(|state| state.raw_terminal = true);
        Some(Terminal { keys: Keys::new(remote) })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.keys.remote.with(|state| state.raw_terminal = false);
        // Nothing can be done about a terminal that is gone.
        let _ = terminal::disable_raw_mode();
    }
}

impl Control for Terminal {
    fn poll(&mut self, run: &Run) {
        while matches!(event::poll(Duration::ZERO), Ok(true)) {
            let Ok(event) = event::read() else { return };
            if let Event::Key(pressed) = event
                && pressed.kind != KeyEventKind::Release
            {
                let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
                self.keys.press(run, pressed.code, control);
            }
        }
    }
}

/// What is typed: single keys, and after `c` a line.
pub struct Keys {
    remote: Remote,
    line: Option<String>,
}

impl Keys {
    pub fn new(remote: Remote) -> Keys {
        Keys { remote, line: None }
    }

    pub fn press(&mut self, target: &dyn Target, code: KeyCode, control: bool) {
        // Raw mode gives Ctrl-C as a key.
        if control && code == KeyCode::Char('c') {
            self.line = None;
            obey(target, &self.remote, &Command::Quit);
            return;
        }
        let Some(line) = &mut self.line else {
            if let KeyCode::Char(pressed) = code {
                if pressed == 'c' {
                    self.line = Some(String::new());
                } else if let Some(command) = key(pressed) {
                    obey(target, &self.remote, &command);
                }
            }
            return;
        };
        match code {
            KeyCode::Char(typed) => line.push(typed),
            KeyCode::Backspace => {
                line.pop();
            }
            KeyCode::Esc => self.line = None,
            KeyCode::Enter => {
                let line = std::mem::take(line);
                self.line = None;
                match command(&line) {
                    Ok(command) => obey(target, &self.remote, &command),
                    Err(why) => self.remote.with(|state| state.say(why)),
                }
            }
            _ => {}
        }
    }
}
