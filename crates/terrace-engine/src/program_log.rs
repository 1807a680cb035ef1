//! What is told to the log of the program, by the crate `tracing`; to nobody if the feature of that
//! name is off. Whoever needs to know it for sure listens to [`events`](crate::events).

#[cfg(feature = "tracing")]
pub(crate) use tracing::{debug, error, trace, warn};

/// Takes what `tracing` would take: fields, then a text.
#[cfg(not(feature = "tracing"))]
macro_rules! ignored {
    ($text:literal) => {{}};
    ($name:ident = $(%)? $(?)? $value:expr, $($rest:tt)+) => {{
        let _ = &$value;
        $crate::program_log::ignored!($($rest)+)
    }};
    ($(%)? $(?)? $name:ident, $($rest:tt)+) => {{
        let _ = &$name;
        $crate::program_log::ignored!($($rest)+)
    }};
}

#[cfg(not(feature = "tracing"))]
pub(crate) use {ignored, ignored as debug, ignored as error, ignored as trace, ignored as warn};
