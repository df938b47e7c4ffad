//! Any bytes as a scenario: steps, or mistakes with lines inside the text; and any bytes as a template.
#![no_main]

use lab_sip::scenario::model::{ScenarioSource, Variables};
use lab_sip::scenario::{compile_template, compile_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let lines = data.iter().filter(|&&byte| byte == b'\n').count() + 1;
    match compile_text(data, ScenarioSource::BuiltIn("fuzz")) {
        Ok(compiled) => {
            let scenario = compiled.scenario;
            let steps = scenario.steps.len();
            assert!(steps > 0);
            for flow in scenario.steps.iter().map(|step| &step.flow) {
                assert!(flow.next.is_none_or(|next| next <= steps));
                assert!(flow.on_timeout.is_none_or(|next| next <= steps));
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            assert!(errors.iter().all(|error| error.line as usize <= lines));
        }
    }
    let _ = compile_template(data, &mut Variables::default());
});
