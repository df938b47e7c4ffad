//! The causes of errors.

use std::error::Error;

/// The innermost cause of an error: it says what happened. The errors around it say only that something did, and name addresses that are told
/// beside it.
pub fn innermost_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|inner| inner as _)
        }
    }

    #[test]
    fn the_innermost_cause_is_that_without_a_source() {
        let refused = Layer("connection refused", None);
        assert_eq!(innermost_cause(&refused).to_string(), "connection refused");
        let sending =
            Layer("error sending request", Some(Box::new(Layer("client error", Some(Box::new(refused))))));
        assert_eq!(innermost_cause(&sending).to_string(), "connection refused");
    }
}
