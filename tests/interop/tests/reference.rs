//! The corpus with SIPp at every end: what `tests/ringer.rs` compares with is what each case says it is.

use std::sync::Mutex;

use interop::compare;

#[test]
fn sipp_does_what_the_cases_say() {
    let only = std::env::var("CASES").unwrap_or_default();
    let names = Mutex::new(compare::cases());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(name) = names.lock().unwrap().pop() {
                    if !name.starts_with(&only) { continue; }
                    if std::panic::catch_unwind(|| compare::reference(&name)).is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    assert!(failed.lock().unwrap().is_empty(), "{:?}", failed.lock().unwrap());
}
