use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_base::LEVEL_MAX;

use crate::cache::persistent::{DataCacheOptions, PersistentCache};
use crate::cloud::CloudNames;
use crate::options::CloudOptions;
use crate::placement::{FarName, FarReader};
use crate::process::PoolName;
use crate::store::open::opening::Opening;
use crate::table::Compression;
use crate::version::Version;
use crate::{Error, Result};

impl Opening {
    /// Makes the tables in the object store readable, if the range has one, and puts the waterline
    /// where they say that it stood.
    ///
    /// Errors: `Invalid` if some of the range lies in a store and the options name none; those of
    /// the store's URL.
    pub(in crate::store) fn mount_far(&self, version: &Version) -> Result<()> {
        let Some(tier) = &self.cloud else { return self.refuse_far(version) };
        let far = &self.context.opener.far;
        let reader = match self.options.read_only {
            true => FarReader::BesideOwner,
            false => FarReader::Owner,
        };
        let near = match reader {
            FarReader::Owner => self.open_near(tier.options(), version),
            FarReader::BesideOwner => None,
        };
        let names = CloudNames::new(version.database());
        far.mount(Arc::clone(tier.store()?), names, reader, near);
        let of_options = tier.options().and_then(|options| options.first_level);
        far.line().put_at(of_options.unwrap_or_else(|| first_far_level(version)));
        if reader == FarReader::Owner {
            let rows = version.l0().live().iter();
            let rows = rows.filter_map(|live| FarName::of(&live.table.meta().location));
            rows.for_each(|row| far.ask_ahead(&row));
        }
        Ok(())
    }

    /// What was kept of far tables on the local disk, without what no table needs any more.
    fn open_near(
        &self,
        options: Option<&CloudOptions>,
        version: &Version,
    ) -> Option<Arc<PersistentCache>> {
        let options = options?;
        let bytes_max = options.near_bytes_max();
        let table = &self.options.table;
        let is_compressed = table.compression != Compression::None;
        let research = &self.options.research;
        let (block_bytes, design) = (table.block_bytes, research.near);
        let data = DataCacheOptions::for_blocks(bytes_max, block_bytes, is_compressed, design);
        let bucket_bytes = research.near_bucket_bytes.unwrap_or(data.bucket_bytes);
        let takes_neighbours = !research.near_alone;
        let data = DataCacheOptions { bucket_bytes, takes_neighbours, ..data };
        let env = self.process.env();
        let memory = self.process.memory().pool(PoolName::PersistentCache);
        let near = PersistentCache::open(env, &self.dir, version.database(), data, memory);
        let far = version.tables().filter_map(|table| FarName::of(&table.meta().location));
        let named: BTreeSet<u128> = far.map(|name| name.cached_as()).collect();
        near.meta.retain(|table| named.contains(&table));
        Some(Arc::new(if research.near_meta_none { near.without_metadata() } else { near }))
    }

    /// Refuses a range that belongs to a store which the options do not name. For reading it is
    /// enough that all of its tables are here.
    fn refuse_far(&self, version: &Version) -> Result<()> {
        let far = version.tables().filter(|table| table.meta().location.is_far());
        let count = far.count();
        if count == 0 && (version.cloud().is_none() || self.options.read_only) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the database in {} belongs to an object store that its manifest does not name, in which \
             {count} of its tables lie: open it with the store's URL (the option `cloud`)",
            self.dir.display()
        )))
    }
}

/// The first level with a table in the store; one behind the last if there is none.
fn first_far_level(version: &Version) -> u8 {
    let mut levels = version.runs();
    let has_far =
        levels.find(|(_, run)| run.tables().iter().any(|table| table.meta().location.is_far()));
    has_far.map_or(LEVEL_MAX.0 + 1, |(level, _)| level.0)
}
