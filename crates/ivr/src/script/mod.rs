//! The interpreter of one call.
pub enum Effect {}
pub struct Script;
