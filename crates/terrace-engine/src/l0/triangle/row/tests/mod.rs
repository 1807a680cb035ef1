//! Tests of whole rows.
