//! The recording of a run: `record::Recorder` watches it and fills a [`lab_report::Report`], with the readings of a load of users (`stages`).

mod machine;
mod record;
mod stages;
#[cfg(test)]
mod tests;

pub use record::{ProcessMeter, Recorder};
