//! Named points around durable steps, at which tests kill the process; see `Env::reach`. Without
//! the feature `fail-points` they are nothing.

/// Stands at a point, named `room::before_step` or `room::after_step`.
macro_rules! fail_point {
    ($env:expr, $point:literal) => {
        #[cfg(feature = "fail-points")]
        $env.reach($point);
    };
}

pub(crate) use fail_point;
