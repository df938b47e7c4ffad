//! The end of a test program, read from what it printed.

/// The tests of one run of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) failed: Vec<String>,
    pub(super) passed: usize,
    /// The summary was printed: the program was not ended by a signal, for example.
    pub(super) has_result: bool,
}

impl Outcome {
    pub(super) fn read(output: &str) -> Outcome {
        let mut outcome = Outcome::default();
        output.lines().for_each(|line| outcome.handle_line(line.trim()));
        outcome
    }

    fn handle_line(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            self.has_result = true;
            return;
        }
        // Output of a test that is not captured may stand between the name and the result.
        let Some((test, result)) = line.strip_prefix("test ").and_then(|it| it.split_once(" ... ")) else {
            return;
        };
        if result.ends_with("FAILED") {
            self.failed.push(test.trim_end_matches(" - should panic").to_owned());
        } else if result.ends_with("ok") {
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_the_result_are_read() {
        let outcome = Outcome::read(
            "\nrunning 3 tests\ntest wire::folds ... ok\ntest wire::wraps - should panic ... FAILED\n\
             test wire::says ... said something ok\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored",
        );
        assert_eq!(outcome, Outcome { failed: vec!["wire::wraps".to_owned()], passed: 2, has_result: true });
        assert!(!Outcome::read("test a ... ok\n").has_result);
    }
}
