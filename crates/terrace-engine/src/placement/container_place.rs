use std::path::{Path, PathBuf};

use super::Role;

/// Where the container of a range is, as the manifest keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlace {
    /// The file: a mere name if it is in the range's own directory, so that it goes where that
    /// goes, else its path. Text, so that it can be told to whoever misses it.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The size of its pages in bytes.
    pub page_bytes: u64,
}

/// The container's name in a range's directory, if no medium is named.
const OWN_NAME: &str = "l0.rows";

impl ContainerPlace {
    /// The path of a range's container: in its own directory, or in `medium`.
    #[must_use]
    pub fn path_of(medium: Option<&Path>, database: u128) -> String {
        match medium {
            Some(medium) => {
                medium.join(Role::Container.name(database)).to_string_lossy().into_owned()
            }
            None => OWN_NAME.to_string(),
        }
    }

    /// The path of the file, for the range in `dir`. Earlier versions named the directory of the
    /// range in the path, which may have been moved or copied since: what is called so is in the
    /// range's own.
    #[must_use]
    pub fn file(&self, dir: &Path) -> PathBuf {
        let path = Path::new(&self.path);
        if path.file_name().is_some_and(|name| name == OWN_NAME) {
            return dir.join(OWN_NAME);
        }
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => path.to_path_buf(),
            _ => dir.join(path),
        }
    }

    /// The path of the file, if it is on a medium; `None` if it is in the range's own directory.
    #[must_use]
    pub fn on_medium(&self) -> Option<&Path> {
        let path = Path::new(&self.path);
        let is_named = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty());
        (is_named && path.file_name().is_none_or(|name| name != OWN_NAME)).then_some(path)
    }

    /// The medium that the file is on; `None` if it is in the range's own directory.
    #[must_use]
    pub fn medium(&self) -> Option<&Path> {
        self.on_medium()?.parent()
    }

    /// The same file, named as one in the range's own directory, which it is in.
    pub(crate) fn in_own_directory(self) -> ContainerPlace {
        let name = Path::new(&self.path).file_name();
        let path = name.map_or(self.path.clone(), |name| name.to_string_lossy().into_owned());
        ContainerPlace { path, ..self }
    }

    /// The size that the file gets: whole pages.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes / self.page_bytes * self.page_bytes
    }
}
