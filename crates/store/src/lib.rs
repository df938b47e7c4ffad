//! The record: what belfry acknowledged survives kill -9.
