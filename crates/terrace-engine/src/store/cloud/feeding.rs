use std::sync::{Arc, Weak};

use crate::store::Inner;
use crate::version::format::encode_edit;
use crate::{Error, Result};

impl Inner {
    /// From now on jobs feed what the local manifest gets, and delete what nobody needs.
    pub(in crate::store) fn start_feeding(self: &Arc<Self>) {
        let Some(behind) = self.behind() else { return };
        let calls = |schedule: fn(&Inner)| {
            let me = Weak::clone(&self.me);
            move || {
                if let Some(inner) = me.upgrade() {
                    schedule(&inner);
                }
            }
        };
        behind.set_wake(calls(Inner::schedule_feeding));
        self.context.opener.far.set_wake(calls(Inner::schedule_collecting));
        self.schedule_feeding();
    }

    pub(in crate::store) fn behind(&self) -> Option<&Arc<super::FeedBehind>> {
        self.cloud.as_ref()?.behind()
    }

    /// Does one thing that is due for the feed in the store; `false` if nothing was.
    pub(in crate::store) fn keep_feed(&self) -> Result<bool> {
        let Some(behind) = self.behind() else { return Ok(false) };
        behind.feed_one(|take| self.versions.with_snapshot(|snapshot| take(encode_edit(snapshot))))
    }

    /// At a close: feeds what waits, once. What the store does not take now, the next open feeds,
    /// which begins with a snapshot.
    ///
    /// Errors: `Fenced`.
    pub(in crate::store) fn feed_rest(&self) -> Result<()> {
        loop {
            match self.keep_feed() {
                Ok(true) => {}
                Err(error @ Error::Fenced(_)) => return Err(error),
                Err(error) => {
                    let dir = self.dir.display();
                    crate::program_log::warn!(%dir, %error, "closed before the store had all edits");
                    return Ok(());
                }
                Ok(false) => return Ok(()),
            }
        }
    }
}
