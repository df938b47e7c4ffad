//! For tests: virtual clock, seeded randomness, lossy networks, worlds, ladder diagrams.
