//! The ways to council and database as all nodes have them.

/// The delays and losses on the ways to council and database.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The council neither hears nor answers.
    pub is_council_away: bool,
    /// Answers of the council that are lost, of a thousand.
    pub lost_answers: u32,
    /// The longest way to or from the council, in milliseconds.
    pub council_delay: u64,
    /// The longest way to or from the database, in milliseconds: below the database's limit for a statement.
    pub database_delay: u64,
}

impl Weather {
    /// All is well.
    pub const FAIR: Weather =
        Weather { is_council_away: false, lost_answers: 0, council_delay: 10, database_delay: 10 };
}
