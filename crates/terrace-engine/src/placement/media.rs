use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{ContainerPlace, Role};

/// Where data of a range lies beside its own directory, as versions and the manifest keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// Where the rows of L0 are that lie in pages, if there may be such.
    pub container: Option<ContainerPlace>,
    /// The directory of the tables of L0 that lie in one of their own, if there may be such.
    pub row_directory: Option<String>,
    /// The directories beside the range's own in which segments of the log may lie.
    pub log_directories: Vec<String>,
}

impl Media {
    /// The media on which something of this database lies, in their order, each once. What no
    /// database of this id can have is not among them: a manifest that names it is refused where it
    /// is opened.
    pub(crate) fn named(&self, database: u128) -> BTreeSet<PathBuf> {
        let container = self.container.as_ref().and_then(ContainerPlace::on_medium);
        let rows = self.row_directory.as_deref().map(Path::new);
        let segments = self.log_directories.iter().map(Path::new);
        let container = container.into_iter().map(|path| (Role::Container, path));
        let rows = rows.into_iter().map(|path| (Role::Rows, path));
        let segments = segments.map(|path| (Role::Segments, path));
        let own = container.chain(rows).chain(segments);
        let own = own.filter(|(role, path)| role.is_of(path, database));
        own.filter_map(|(_, path)| path.parent()).map(Path::to_path_buf).collect()
    }
}
