//! The binary `belfry`.

fn main() {}
