//! Tests of what damage does.
