//! Each way to fail.
