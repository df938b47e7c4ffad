//! Plans: several loads against one server, with thresholds and the figures of the test they repeat.
//!
//! The way of a plan: its TOML is read and checked (`model`), names are filled in and files written (`values`, `prepare`), the loads run stage by
//! stage (`run`), and published figures are put beside the measured ones (`published`).

pub mod model;
mod prepare;
mod published;
mod run;
mod values;

pub use model::{Plan, PlanError};
pub use prepare::{LoadCommand, ParseArguments, PreparedLoad, PreparedPlan};
pub use run::{PlanOutcome, ProgressCallback, run};
pub use values::PlanValues;

/// The plans that come with the program: name and text.
pub const SHIPPED: &[(&str, &str)] = &[
    ("cgp-r1", include_str!("../../plans/cgp-r1.toml")),
    ("cgp-r2", include_str!("../../plans/cgp-r2.toml")),
    ("cgp-r3", include_str!("../../plans/cgp-r3.toml")),
    ("cgp-r4", include_str!("../../plans/cgp-r4.toml")),
    ("cgp-r6", include_str!("../../plans/cgp-r6.toml")),
    ("cgp-r7", include_str!("../../plans/cgp-r7.toml")),
    ("jabber-100k", include_str!("../../plans/jabber-100k.toml")),
    ("jabber-1m", include_str!("../../plans/jabber-1m.toml")),
    ("restcomm-gather", include_str!("../../plans/restcomm-gather.toml")),
];

/// Scenarios and other files the shipped plans name; written to `{dir}`.
pub const FILES: &[(&str, &str)] = &[
    ("answer.xml", include_str!("../../plans/answer.xml")),
    ("call.xml", include_str!("../../plans/call.xml")),
    ("gather.xml", include_str!("../../plans/gather.xml")),
    ("register.xml", include_str!("../../plans/register.xml")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_plan_is_right() {
        for (name, text) in SHIPPED {
            Plan::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn mistakes_name_the_file_the_line_and_the_expected_value() {
        let good = "about = \"x\"\n[[generator]]\nname = \"calls\"\nsip = [\"-sn\", \"uac\"]\n";
        assert!(Plan::parse(good, "p").is_ok());
        for (text, line, says) in [
            ("about = \"x\"\nabot = 1\n", 2, "unknown field `abot`"),
            ("about = \"x\"\n[[generator]]\nname = 3\nsip = []\n", 3, "expected a string"),
            (&format!("{good}thresholds = [\"fail == 0\"]\n"), 5, "expected one of failed"),
            (&format!("{good}[seed]\ntitle = \"t\"\ngenerator = \"cals\"\n"), 7, "expected one of calls"),
            (&format!("{good}background = true\n"), 5, "expected one that ends"),
            (
                &format!("{good}[find]\ngenerator = \"calls\"\nvary = \"rate\"\nfrom = 9\nto = 9\n"),
                8,
                "expected 0 < from < to",
            ),
        ] {
            let error = Plan::parse(text, "p.toml").expect_err(text);
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
