//! Statements beside the program.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A session of psql. It holds its locks until its end.
pub(crate) struct Session {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Session {
    pub(crate) fn start(url: &str) -> Session {
        let mut command = Command::new("psql");
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", url]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Session { input, output, child }
    }

    /// The one line that a statement selects.
    pub(crate) fn select(&mut self, sql: &str) -> String {
        writeln!(self.input, "{sql}").unwrap();
        self.line()
    }

    /// The next line of what was selected.
    pub(crate) fn line(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }

    pub(crate) fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}
