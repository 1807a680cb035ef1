use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_base::WallTime;

use super::disk::DiskImage;
use super::files::SimFileSystem;
use super::io::SimDisk;
use super::objects::{
    ObjectFault, ObjectFaults, ObjectImage, ObjectLimits, SimObjectStores, SimObjects,
};
use super::options::SimOptions;
use super::random::SeededRng;
use super::scheduler::{Call, Scheduler};
use crate::env::thread_name;
use crate::{
    Env, EnvError, EnvResult, FileSystem, Job, JobClass, JobHandle, ObjectStores, Operation,
    WaitFactory,
};

/// The simulated environment.
pub struct SimEnv {
    seed: u64,
    scheduler: Arc<Scheduler>,
    disk: Arc<SimDisk>,
    fs: SimFileSystem,
    objects: Arc<SimObjects>,
    stores: SimObjectStores,
    random: Mutex<SeededRng>,
    wall: Mutex<Wall>,
    parallelism: usize,
}

/// What the wall clock showed at one moment of virtual time; it goes on from there.
#[derive(Clone, Copy)]
struct Wall {
    shown: WallTime,
    at: Duration,
}

impl SimEnv {
    /// Runs `main` in a new simulation and returns what it returned, once every thread that it
    /// started has ended.
    ///
    /// Panics, with the seed and what every thread waits for, if
    /// * a simulated thread panicked;
    /// * every thread waits and no timer is set;
    /// * a thread waits for ever, or runs on for longer than
    ///   [`linger_max`](SimOptions::linger_max), after `main` returned;
    /// * the run made more than [`steps_max`](SimOptions::steps_max) calls.
    ///
    /// The other threads of a failed run are unwound at their next call, so their destructors run.
    /// The process is aborted if these wait for each other for ever.
    ///
    /// ```
    /// use terrace_env::{Env, JobClass, SimEnv, SimOptions};
    ///
    /// let hash = |seed| {
    ///     SimEnv::run(SimOptions::new(seed), |env| {
    ///         let log = env.waits().mutex(Vec::new());
    ///         let log = std::sync::Arc::new(log);
    ///         let jobs: Vec<_> = (0..2)
    ///             .map(|thread| {
    ///                 let log = log.clone();
    ///                 let job = Box::new(move || (0..9).for_each(|_| log.lock().push(thread)));
    ///                 env.spawn(JobClass::Client, &thread.to_string(), job).unwrap()
    ///             })
    ///             .collect();
    ///         assert!(jobs.into_iter().all(|job| job.join()));
    ///         (log.lock().clone(), env.trace_hash())
    ///     })
    /// };
    /// assert_eq!(hash(1), hash(1));
    /// assert_ne!(hash(1), hash(2));
    /// ```
    pub fn run<R: Send>(mut options: SimOptions, main: impl FnOnce(Arc<SimEnv>) -> R + Send) -> R {
        let scheduler =
            Arc::new(Scheduler::new(options.seed, options.limits(), options.with_trace));
        let wall = Wall { shown: options.wall_start, at: Duration::ZERO };
        let (seed, parallelism) = (options.seed, options.parallelism);
        let limits = ObjectLimits::of(&options);
        let image = Arc::new(Mutex::new(std::mem::take(&mut options.objects)));
        let disk = Arc::new(SimDisk::new(Arc::clone(&scheduler), Arc::clone(&image), options));
        let objects =
            Arc::new(SimObjects::new(Arc::clone(&scheduler), Arc::clone(&disk), image, limits));
        let env = Arc::new(SimEnv {
            seed,
            scheduler: Arc::clone(&scheduler),
            fs: SimFileSystem::new(Arc::clone(&disk)),
            stores: SimObjectStores::new(Arc::clone(&objects), Arc::clone(&disk)),
            disk,
            objects,
            random: Mutex::new(SeededRng::stream(seed, 4)),
            wall: Mutex::new(wall),
            parallelism,
        });
        scheduler.run(|| main(env))
    }

    /// The seed of this run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A hash of everything that happened so far: whose turn it was, and each call with its bytes.
    /// Like the other methods of this type this is no call of the environment: it never gives the
    /// turn away, and any thread may ask.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.scheduler.trace(|_, trace| trace.hash())
    }

    /// The changes of thread and the I/O so far, as text; empty unless
    /// [`SimOptions::with_trace`] was set.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.scheduler.trace(|_, trace| trace.lines().to_vec())
    }

    /// How many changes of the disk and of the object stores were begun so far: the index of the
    /// next [`IoPoint`].
    ///
    /// [`IoPoint`]: super::IoPoint
    #[must_use]
    pub fn io_count(&self) -> u64 {
        self.disk.io_count()
    }

    /// How many syncs did nothing; see [`SimOptions::sync_lie_one_in`].
    #[must_use]
    pub fn lie_count(&self) -> u64 {
        self.disk.lie_count()
    }

    /// What [`Env::now`] would say.
    #[must_use]
    pub fn virtual_time(&self) -> Duration {
        self.scheduler.now()
    }

    /// The disk as it is now.
    #[must_use]
    pub fn disk(&self) -> DiskImage {
        self.disk.image()
    }

    /// What the object stores hold now.
    #[must_use]
    pub fn object_image(&self) -> ObjectImage {
        self.objects.image()
    }

    /// How often each fault has happened to a request to an object store.
    #[must_use]
    pub fn object_faults(&self) -> BTreeMap<ObjectFault, u64> {
        self.objects.fault_counts()
    }

    /// Changes how often requests to object stores go wrong from here on.
    pub fn set_object_faults(&self, faults: ObjectFaults) {
        self.objects.set_faults(faults);
    }

    /// Takes the object stores away, or brings them back: every request that begins while they are
    /// away fails, and is not done. What was late lands all the same.
    pub fn set_objects_away(&self, is_away: bool) {
        self.objects.set_away(is_away);
    }

    /// Changes the room on the disk: takes space away, or gives it back.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk.set_capacity(bytes);
    }

    /// Makes the wall clock jump; it goes on from there.
    pub fn set_wall_time(&self, time: WallTime) {
        *self.wall.lock() = Wall { shown: time, at: self.scheduler.now() };
    }
}

impl Env for SimEnv {
    fn fs(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn objects(&self) -> &dyn ObjectStores {
        &self.stores
    }

    fn now(&self) -> Duration {
        self.scheduler.enter(Call::Now);
        self.scheduler.now()
    }

    fn thread_cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_time(&self) -> WallTime {
        self.scheduler.enter(Call::WallTime);
        let wall = *self.wall.lock();
        let passed = self.scheduler.now().saturating_sub(wall.at).as_millis();
        WallTime(wall.shown.0.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    fn random_u64(&self) -> u64 {
        self.scheduler.enter(Call::Random);
        self.random.lock().next_u64()
    }

    fn parallelism(&self) -> usize {
        self.parallelism
    }

    fn spawn(&self, class: JobClass, name: &str, job: Job) -> EnvResult<JobHandle> {
        let name = thread_name(class, name);
        let thread = self
            .scheduler
            .spawn(&name, job)
            .map_err(|error| EnvError::new(Operation::Spawn, Path::new(&name), error))?;
        let scheduler = Arc::clone(&self.scheduler);
        Ok(JobHandle::new(Box::new(move || scheduler.join(thread))))
    }

    fn yield_now(&self) {}

    fn sleep(&self, duration: Duration) {
        self.scheduler.sleep(duration);
    }

    fn waits(&self) -> WaitFactory {
        WaitFactory::simulated(Arc::clone(&self.scheduler))
    }
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimEnv").field("seed", &self.seed).finish_non_exhaustive()
    }
}
