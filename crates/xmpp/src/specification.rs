//! The specifications that are implemented, as `docs/compliance.md` and the DOAP file list them.

/// The extent of a specification's implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All that a server has to do is there.
    Complete,
    /// The note says what is missing.
    Partial,
}

/// One specification, as `docs/compliance.md` and the DOAP file have it.
#[derive(Clone, Copy, Debug)]
pub struct Specification {
    /// `XEP-0199`, `RFC 6121`.
    pub name: &'static str,
    /// The title of the document.
    pub title: &'static str,
    /// The version of the document, or the year of an RFC.
    pub version: &'static str,
    /// The extent of the implementation.
    pub level: Level,
    /// The source file with the implementation.
    pub file: &'static str,
    /// Restrictions and departures; empty if there are none.
    pub note: &'static str,
}
