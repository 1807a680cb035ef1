//! What the tests of all rooms share.

pub(crate) mod specimens;
