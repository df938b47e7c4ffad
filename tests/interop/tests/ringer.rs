//! Ringer beside SIPp, case by case: one test a case, and one that sees to it that none is forgotten.

use interop::compare;

macro_rules! cases {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare::compare(stringify!($name));
            }
        )*

        const LISTED: &[&str] = &[$(stringify!($name)),*];
    };
}

cases! {
    built_in_uac
}

#[test]
fn every_case_of_the_corpus_is_run() {
    let mut listed: Vec<&str> = LISTED.to_vec();
    listed.sort_unstable();
    assert_eq!(compare::cases(), listed);
}
