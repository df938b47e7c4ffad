//! A type has at most forty methods over all its impl blocks. Types that have more are listed with their number, which
//! only goes down.

use crate::types::WorkspaceType;

use super::exceptions::{AllFound, Found};

pub(super) const LIST: &str = "xtask/exceptions/methods.txt";

/// A reader overlooks a machine of this size: a screen or two of methods.
const METHODS: usize = 40;

pub(super) fn found(types: &[WorkspaceType]) -> AllFound {
    let mut found = AllFound::new();
    for it in types.iter().filter(|it| it.methods > METHODS) {
        let text = format!(
            "{} has {} methods in {} files, {METHODS} are allowed: give a group of its state a type of its own",
            it.name,
            it.methods,
            it.files.len()
        );
        found.insert((it.name.clone(), it.path.clone()), Found { number: it.methods, line: it.line, text });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::types::types;

    #[test]
    fn a_type_of_forty_one_methods_is_found() {
        let methods =
            |from: usize, to: usize| (from..to).map(|n| format!("fn m{n}() {{}}")).collect::<String>();
        let check = |count: usize| {
            let sources = [
                Source::new("crates/sip/src/a.rs", &format!("struct A;\nimpl A {{ {} }}\n", methods(0, 20))),
                Source::new(
                    "crates/sip/src/b.rs",
                    &format!("impl Display for A {{ {} }}\n", methods(20, count)),
                ),
            ];
            found(&types(&sources).unwrap())
        };
        assert!(check(40).is_empty());
        let found = check(41);
        let it = &found[&("A".to_owned(), "crates/sip/src/a.rs".to_owned())];
        assert_eq!((it.number, it.line), (41, 1));
        assert!(it.text.starts_with("A has 41 methods in 2 files, 40 are allowed"), "{}", it.text);
    }
}
