//! The media of a range that is being opened: claimed, opened, chosen, made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::opening::Opening;
use crate::Result;
use crate::options::{L0Kind, L0Options, Options};
use crate::placement::{
    Claims, ContainerPlace, Media, OnMedium, Role, Wish, entries_of, require_medium,
};
use crate::version::{LogEdit, Version, VersionEdit};
use crate::wal::LogMedium;

/// Bytes of a container's page on persistent memory: a row loses few of them in part.
const MEMORY_PAGE_BYTES: u64 = 4 << 10;

/// Bytes of a page in a file, where each write costs a call's worth.
const FILE_PAGE_BYTES: u64 = 64 << 10;

impl Opening {
    /// Locks what the manifest names on media, before anything there is read: the database may be a
    /// copy of the one that it belongs to. What is in the range's own directory is named so from
    /// now on.
    pub(super) fn claim_named(&self, version: Version) -> Result<(Version, Claims)> {
        let is_read_only = self.options.read_only;
        let mut claims = Claims::new(&self.env, &self.dir, version.database(), is_read_only)?;
        for medium in &named_media(&version) {
            if !claims.is_own(medium)? {
                claims.enter(medium)?;
            }
        }
        // Nobody writes to the log of a lost machine while it is read.
        if let Some(volume) = self.volume_of_owner().filter(|_| !is_read_only) {
            claims.lock_of_anybody(volume)?;
        } else if let Some(medium) = LogMedium::of(&self.options)
            && self.has_lost_log(&version)?
        {
            // It may be here, on a medium that was mounted elsewhere.
            claims.enter(medium.path())?;
        }
        let Some(place) = version.media().container.clone() else { return Ok((version, claims)) };
        let is_own = match place.medium() {
            Some(medium) => claims.is_own(medium)?,
            None => true,
        };
        if !is_own {
            return Ok((version, claims));
        }
        let container = Some(place.in_own_directory());
        let media = Some(Media { container, ..version.media().clone() });
        let log = LogEdit { closed: version.closed(), ..LogEdit::default() };
        let named = self.after(&version, &VersionEdit { media, log, ..VersionEdit::default() })?;
        Ok((named, claims))
    }

    /// Whether a directory of the log is not where the manifest names it.
    fn has_lost_log(&self, version: &Version) -> Result<bool> {
        for dir in &version.media().log_directories {
            if entries_of(self.env.as_ref(), Path::new(dir))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The volume for the log, if whose it is follows from whose the database is in its object
    /// store.
    fn volume_of_owner(&self) -> Option<&Path> {
        let decides = self.cloud.as_ref().is_some_and(|tier| tier.decides_owner());
        self.options.log_volume.as_deref().filter(|_| decides)
    }

    /// Claims what the range has on media, or may have from now on where the options say: the log
    /// is understood as far as its end.
    pub(super) fn claim(&self, version: &Version, claims: &mut Claims) -> Result<()> {
        for medium in &named_media(version) {
            claims.take(medium, Wish::Named)?;
        }
        // What an earlier owner had there belongs to this directory from now on.
        if let Some(volume) = self.volume_of_owner() {
            claims.write_over(volume)?;
        }
        // Memtables on a medium have no name there.
        let Options { log_path, log_volume, l0, .. } = &self.options;
        let wanted = [log_path.as_deref(), log_volume.as_deref(), l0.path()];
        for medium in wanted.into_iter().flatten() {
            claims.take(medium, Wish::Wanted)?;
        }
        Ok(())
    }

    /// The medium of L0 must be there before anything is written that names it, but if what lies on
    /// one is open already, and stays there.
    pub(super) fn require_media(&self) -> Result<()> {
        let opener = &self.context.opener;
        let is_open = match self.options.l0_kind() {
            L0Kind::Plain => opener.rows.is_open(),
            L0Kind::Container | L0Kind::Matrix => opener.container.is_open(),
            L0Kind::PmemMemtable => false,
        };
        match self.options.l0_medium().filter(|_| !is_open) {
            Some(medium) => require_medium(self.env.as_ref(), "l0_path", medium),
            None => Ok(()),
        }
    }

    /// Opens what the version names, if there is anything live in it: the container, and the rows
    /// in it, and the directory of L0's tables.
    ///
    /// Errors: those of [`OnMedium::open_named`]; so too if something was on memory that did not
    /// survive.
    pub(super) fn open_media(&self, version: &Version) -> Result<()> {
        let (opener, media, database) = (&self.context.opener, version.media(), version.database());
        if version.has_rows_in_pages() {
            opener.container.open_named(media.container.as_ref(), &self.dir, database)?;
            opener.container.open_rows(version.l0().live())?;
        }
        if version.has_tables_in_row_directory() {
            opener.rows.open_named(media.row_directory.as_ref(), &self.dir, database)?;
        }
        Ok(())
    }

    /// Where data of the range lies from now on, but for the log.
    pub(super) fn choose_media(&self, version: &Version, claims: &Claims) -> Result<Media> {
        let (opener, database) = (&self.context.opener, version.database());
        let mut media = version.media().clone();
        let container = self.container_place(database, claims)?;
        opener.container.choose(&mut media.container, container, database)?;
        let name = Role::Rows.name(database);
        let rows = self.options.row_medium().map(|(medium, _)| medium.join(name));
        let rows = rows.map(|path| path.to_string_lossy().into_owned());
        opener.rows.choose(&mut media.row_directory, rows, database)?;
        Ok(media)
    }

    /// Where the options want the container of a range, if they want one.
    fn container_place(&self, database: u128, claims: &Claims) -> Result<Option<ContainerPlace>> {
        let L0Options::Container { bytes, path: medium } = &self.options.l0 else {
            return Ok(None);
        };
        let (bytes, medium) = (*bytes, medium.as_deref());
        let path = ContainerPlace::path_of(medium, database);
        let page_bytes = if medium.is_some() { MEMORY_PAGE_BYTES } else { FILE_PAGE_BYTES };
        let place = ContainerPlace { path, bytes, page_bytes };
        match medium {
            Some(medium) if claims.is_own(medium)? => Ok(Some(place.in_own_directory())),
            _ => Ok(Some(place)),
        }
    }

    /// Makes what the version names, unless it is open. The manifest is durable that says so.
    pub(super) fn make_media(&self, version: &Version) -> Result<()> {
        let (opener, media, database) = (&self.context.opener, version.media(), version.database());
        opener.container.make(media.container.as_ref(), database)?;
        opener.rows.make(media.row_directory.as_ref(), database)
    }
}

/// The media that the manifest names.
fn named_media(version: &Version) -> BTreeSet<PathBuf> {
    version.media().named(version.database())
}
