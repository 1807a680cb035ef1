use std::path::Path;

use crate::objects::LIST_NAMES_MAX;
use crate::{DirEntry, EnvResult, FileSystem, ListedObject, ObjectName};

/// What a list asks for.
pub(super) struct Wanted<'a> {
    pub prefix: &'a str,
    pub after: Option<&'a ObjectName>,
}

impl Wanted<'_> {
    fn has(&self, name: &str) -> bool {
        name.starts_with(self.prefix) && self.after.is_none_or(|after| name > after.as_str())
    }

    /// Whether it can have a name that begins with `below`, which ends with a slash.
    fn may_have_some(&self, below: &str) -> bool {
        let is_behind = |after: &ObjectName| after.as_str() > below;
        let is_passed =
            self.after.is_some_and(|after| is_behind(after) && !after.as_str().starts_with(below));
        let fits = below.starts_with(self.prefix) || self.prefix.starts_with(below);
        fits && !is_passed
    }
}

/// Adds the objects below `dir`, whose names begin with `below`, until there are as many as a list
/// has.
pub(super) fn add_below(
    fs: &dyn FileSystem,
    dir: &Path,
    below: &str,
    wanted: &Wanted<'_>,
    listed: &mut Vec<ListedObject>,
) -> EnvResult<()> {
    let mut entries = fs.list(dir)?;
    // A directory stands where the names in it do: behind its name and a slash.
    let place = |entry: &DirEntry| format!("{}{}", entry.name, if entry.is_dir { "/" } else { "" });
    entries.sort_by_cached_key(place);
    for entry in entries {
        if listed.len() == LIST_NAMES_MAX {
            break;
        }
        let name = format!("{below}{}", entry.name);
        // Nothing else that lies there is an object.
        let Some(object) = ObjectName::new(&*name) else { continue };
        if entry.is_dir {
            let inner = format!("{name}/");
            if wanted.may_have_some(&inner) {
                add_below(fs, &dir.join(&entry.name), &inner, wanted, listed)?;
            }
        } else if wanted.has(&name) {
            listed.push(ListedObject { name: object, bytes: entry.bytes });
        }
    }
    Ok(())
}
