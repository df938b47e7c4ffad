//! Reports of the load lab: JSON that holds everything, and what is made of it.
//!
//! The crate `lab` fills a [`Report`] (`model`) while a load runs. From it are made the page (`html`, `chart`), JUnit (`junit`), tables and
//! summary on the terminal ([`tables`], [`summary`]), and comparisons ([`mod@compare`], `compare_page`). [`growth`] judges whether a watched
//! process grows.

#![warn(missing_docs)]

mod chart;
pub mod compare;
mod compare_page;
pub mod growth;
mod html;
mod junit;
pub mod model;
pub mod shell;
pub mod summary;
pub mod tables;

pub use compare_page::comparison_page;
pub use html::page;
pub use junit::document as junit;
pub use model::Report;
