use std::io;
use std::thread::{self, JoinHandle};

use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::env::thread_name;
use crate::{Job, JobClass};

/// How far below ordinary priority (0) a class runs, in the units of `nice`, in which a step is
/// about a quarter of CPU time less when somebody else wants it.
fn niceness(class: JobClass) -> i32 {
    match class {
        JobClass::Client | JobClass::Log => 0,
        JobClass::Flush => 2,
        JobClass::Compaction | JobClass::Maintenance => 8,
    }
}

pub(super) fn spawn(class: JobClass, name: &str, job: Job) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(thread_name(class, name)).spawn(move || {
        let niceness = niceness(class);
        if niceness > 0 {
            // On Linux the priority belongs to the thread. Refused (a sandbox), the job is as
            // correct and only less polite.
            let _ = setpriority_process(Some(gettid()), niceness);
        }
        job();
    })
}
