//! The media of a range that is being opened: claimed, opened, chosen, made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::opening::Opening;
use crate::l0::triangle::ContainerPlace;
use crate::options::{L0Kind, L0Options};
use crate::placement::{Claims, Role, RowDirectory, Wish, entries_of, media_of, require_medium};
use crate::version::{LogEdit, Media, Version, VersionEdit};
use crate::{Error, Result};

/// Bytes of a container's page on persistent memory: a row loses few of them in part.
const MEMORY_PAGE_BYTES: u64 = 4 << 10;

/// Bytes of a page in a file, where each write costs a call's worth.
const FILE_PAGE_BYTES: u64 = 64 << 10;

impl Opening<'_> {
    /// Locks what the manifest names on media, before anything there is read: the database may be a
    /// copy of the one that it belongs to. What is in the range's own directory is named so from
    /// now on.
    pub(super) fn claim_named(&self, version: Version) -> Result<(Version, Claims)> {
        let is_read_only = self.options.read_only;
        let mut claims = Claims::new(&self.env, self.dir, version.database(), is_read_only)?;
        for medium in &named_media(&version) {
            if !claims.is_own(medium)? {
                claims.enter(medium)?;
            }
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

    /// Claims what the range has on media, or may have from now on where the options say: the log
    /// is understood as far as its end.
    pub(super) fn claim(&self, version: &Version, claims: &mut Claims) -> Result<()> {
        for medium in &named_media(version) {
            claims.take(medium, Wish::Named)?;
        }
        // Memtables on a medium have no name there.
        for medium in
            [self.options.log_path.as_deref(), self.options.l0.path()].into_iter().flatten()
        {
            claims.take(medium, Wish::Wanted)?;
        }
        Ok(())
    }

    /// The medium of L0 must be there before anything is written that names it, but if what lies on
    /// one is open already, and stays there.
    pub(super) fn require_media(&self) -> Result<()> {
        let opener = &self.context.opener;
        let is_open = match self.options.l0_kind() {
            L0Kind::Plain => opener.rows.path().is_some(),
            L0Kind::Container | L0Kind::Matrix => opener.container.pages().is_some(),
            L0Kind::PmemMemtable => false,
        };
        match self.options.l0_medium().filter(|_| !is_open) {
            Some(medium) => require_medium(self.env.as_ref(), "l0_path", medium),
            None => Ok(()),
        }
    }

    /// Opens the container that the version names, if there are rows in it, and the rows.
    ///
    /// Errors: [`Error::Corruption`] if one of them is not there: also if the container was on
    /// memory that did not survive.
    pub(super) fn open_container(&self, version: &Version) -> Result<()> {
        if !version.has_rows_in_pages() {
            return Ok(());
        }
        let role = Role::Container;
        let place = version.media().container.as_ref().ok_or_else(|| role.unnamed(self.dir))?;
        if place.medium().is_some() {
            role.require_of(Path::new(&place.path), version.database())?;
        }
        let container = &self.context.opener.container;
        if !container.open(place, version.database())? {
            return Err(role.missing(&place.file(self.dir)));
        }
        container.open_rows(version.l0().live())
    }

    /// Decides where the container is from now on. The one of before, if it is of no use.
    pub(super) fn choose_container(
        &self,
        database: u128,
        media: &mut Media,
        claims: &Claims,
    ) -> Result<Option<ContainerPlace>> {
        let container = &self.context.opener.container;
        if container.pages().is_some() {
            // It keeps its place as long as there are rows in it.
            return Ok(None);
        }
        let wanted = self.container_place(database, claims)?;
        let before = std::mem::replace(&mut media.container, wanted.clone());
        if let Some(place) = &wanted
            && wanted == before
        {
            match container.open(place, database) {
                Ok(true) => return Ok(None),
                // Nothing is lost with one in which nothing was: a crash may have come before it
                // was made.
                Ok(false) | Err(Error::Corruption(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(before)
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

    /// Makes the container that the version names, unless it is open, and removes the one that it
    /// replaces: the manifest is durable that says so.
    pub(super) fn make_container(
        &self,
        version: &Version,
        replaced: Option<ContainerPlace>,
    ) -> Result<()> {
        let container = &self.context.opener.container;
        let replaced = replaced.filter(|place| Some(place) != version.media().container.as_ref());
        let may_go = |place: &ContainerPlace| {
            place.medium().is_none()
                || Role::Container.is_of(Path::new(&place.path), version.database())
        };
        if let Some(place) = replaced.filter(may_go) {
            container.remove(&place)?;
        }
        match &version.media().container {
            Some(place) if container.pages().is_none() => {
                container.create(place, version.database())
            }
            _ => Ok(()),
        }
    }

    /// Mounts the directory that the version names, if there are tables in it.
    ///
    /// Errors: [`Error::Corruption`] if it is not there, or no directory of this database.
    pub(super) fn open_row_directory(&self, version: &Version) -> Result<()> {
        if !version.has_tables_in_row_directory() {
            return Ok(());
        }
        let role = Role::Rows;
        let path = version.media().row_directory.as_deref().map(Path::new);
        let path = path.ok_or_else(|| role.unnamed(self.dir))?;
        role.require_of(path, version.database())?;
        if entries_of(self.env.as_ref(), path)?.is_none() {
            return Err(role.missing(path));
        }
        self.context.opener.rows.mount(path);
        Ok(())
    }

    /// Decides where tables of L0 go from now on, and empties the directory of before, if it is of
    /// no use: nothing live is in it, and once the manifest names another one nobody would look
    /// there.
    pub(super) fn choose_row_directory(&self, database: u128, media: &mut Media) -> Result<()> {
        if self.context.opener.rows.path().is_some() {
            // It keeps its place as long as there are tables in it.
            return Ok(());
        }
        let medium = self.options.row_medium();
        let name = Role::Rows.name(database);
        let wanted = medium.map(|(medium, _)| medium.join(name).to_string_lossy().into_owned());
        let before = std::mem::replace(&mut media.row_directory, wanted);
        if let Some(path) = before.filter(|before| Some(before) != media.row_directory.as_ref())
            && Role::Rows.is_of(Path::new(&path), database)
        {
            RowDirectory::clear(&self.env, Path::new(&path))?;
        }
        Ok(())
    }

    /// Makes the directory that the version names, unless it is mounted. The manifest is durable
    /// that says so.
    pub(super) fn make_row_directory(&self, version: &Version) -> Result<()> {
        let rows = &self.context.opener.rows;
        if let (Some(path), None) =
            (version.media().row_directory.as_deref().map(Path::new), rows.path())
        {
            self.env.fs().create_dir_all(path)?;
            if let Some(medium) = path.parent() {
                self.env.fs().sync_dir(medium)?;
            }
            rows.mount(path);
        }
        Ok(())
    }
}

/// The media that the manifest names.
fn named_media(version: &Version) -> BTreeSet<PathBuf> {
    media_of(version.database(), version.media())
}
