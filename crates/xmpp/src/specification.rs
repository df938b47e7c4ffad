//! The specifications that are implemented, as `docs/compliance.md` and the DOAP file list them.

/// The extent of a specification's implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Complete,
    Partial,
}

/// One specification, as `docs/compliance.md` and the DOAP file have it.
#[derive(Clone, Copy, Debug)]
pub struct Specification {
    /// `XEP-0199`, `RFC 6121`.
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
    pub level: Level,
    pub file: &'static str,
    pub note: &'static str,
}
