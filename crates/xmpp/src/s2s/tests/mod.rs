//! Two servers and a wire between them.
