//! Reports: JSON that holds everything, and a page and JUnit made from it.
//!
//! `record::Recorder` watches a run and fills a [`Report`] (`model`), with the readings of a load of users (`stages`). From it are made the page
//! (`html`, `chart`), JUnit (`junit`), tables and summary on the terminal (`tables`, `summary`), and comparisons (`compare`, `compare_page`).

mod chart;
pub mod compare;
mod compare_page;
mod html;
mod junit;
mod machine;
pub mod model;
mod record;
mod stages;
pub mod summary;
pub mod tables;
#[cfg(test)]
mod tests;

pub use compare_page::comparison_page;
pub use html::page;
pub use junit::document as junit;
pub use model::Report;
pub use record::{ProcessMeter, Recorder};
