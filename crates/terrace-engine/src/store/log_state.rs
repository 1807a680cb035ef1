use std::sync::Arc;

use terrace_base::LogPosition;

use crate::wal::LogSink;
use crate::{Error, Result};

/// The log that the range writes to, and where in it the writes of this open begin.
///
/// Neither changes while the range is open, so nothing guards them here. The sink has the turns and
/// latches of the log; the sequencer asks it for places, under the sequencer's latch.
#[derive(Debug)]
pub(in crate::store) struct LogState {
    /// None if the range was opened for reading only.
    sink: Option<Arc<dyn LogSink>>,
    /// Where the log ended when the range was opened.
    begin: LogPosition,
}

impl LogState {
    /// The log goes on at `begin`.
    pub fn new(sink: Option<Arc<dyn LogSink>>, begin: LogPosition) -> LogState {
        LogState { sink, begin }
    }

    /// Where records go. Errors: the range was opened for reading only.
    #[inline]
    pub fn sink(&self) -> Result<&dyn LogSink> {
        self.sink.as_deref().ok_or(Error::ReadOnly)
    }

    /// Whether nothing is ever written to it.
    pub fn is_read_only(&self) -> bool {
        self.sink.is_none()
    }

    /// Bytes that were written to it since the open, if it ends at `end` now.
    pub fn written_bytes(&self, end: LogPosition) -> u64 {
        end.0 - self.begin.0
    }
}
