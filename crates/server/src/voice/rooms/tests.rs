//! Rooms in virtual time.
