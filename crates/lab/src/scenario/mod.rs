//! SIPp's scenario language: read, compiled, explained.

pub mod action;
mod compile;
pub mod model;
pub mod template;

pub use compile::{CompileError, Compiled, built_in, compile_file, compile_template, compile_text};
pub use model::Scenario;
