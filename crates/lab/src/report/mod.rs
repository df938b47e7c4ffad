//! Reports: JSON that holds everything, and a page and JUnit made from it.

mod chart;
mod html;
mod junit;
pub mod model;
mod record;
mod stages;
pub mod summary;
pub mod tables;
#[cfg(test)]
mod tests;

pub use html::page;
pub use junit::document as junit;
pub use model::Report;
pub use record::{ProcessMeter, Recorder};
