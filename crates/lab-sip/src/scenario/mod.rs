//! SIPp's scenario language: read, compiled, explained.
//!
//! The compiler looks names up in the lexicon's tables, and `docs/ringer-scenarios.md` is made of the same tables.

pub mod action;
mod builtin;
mod check;
mod compile;
mod explain;
mod language_words;
mod lexicon;
mod lexicon_actions;
mod lexicon_keywords;
pub mod model;
mod reference;
mod schema;
pub mod template;
mod template_parser;
#[cfg(test)]
mod tests;
mod xml;

pub use builtin::{BUILT_IN_NAMES, built_in};
pub use check::counted;
pub use check::{CheckReport, check, summary};
pub use compile::{CompileError, CompiledScenario, compile_file, compile_template, compile_text};
pub use explain::{ExplainedStep, Explanation, LineNote, Requirement, explain};
pub use language_words::{LanguageWord, WordKind, words};
pub use model::Scenario;
pub use reference::reference_page;
pub use schema::scenario_schema;
