//! Lines for standard output, from commands that print: a reader that has enough, as `head`, ends no command, and a full disk is an error and
//! no panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};

/// The exit code of a file that cannot be written, as SIPp's.
const CANNOT_WRITE: i32 = 255;

/// Writes text to standard output. What comes after a pipe's end is dropped: the exit code says more than the text. Any other failure ends
/// the process.
pub(crate) fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // Standard error may be the same full disk.
            let _ = writeln!(std::io::stderr(), "ringer: cannot write the output: {error}");
            std::process::exit(CANNOT_WRITE);
        }
        _ => {}
    }
}

/// Prints a line, as `println!` does where standard output is whole.
macro_rules! say_line {
    () => { $crate::output::write(format_args!("\n")) };
    ($($words:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($words)*))) };
}

/// Prints text without a line's end.
macro_rules! say_text {
    ($($words:tt)*) => { $crate::output::write(format_args!($($words)*)) };
}
