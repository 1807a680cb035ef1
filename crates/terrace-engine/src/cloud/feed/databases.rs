use terrace_env::{ListPage, ObjectName};

use crate::Result;
use crate::cloud::{CloudNames, CloudStore};

/// The databases that have objects in the store, in the order of their ids; a request for each of
/// more than a thousand objects, and for a thousand of those of the others. A list may lack names,
/// so one that is not found may be there all the same.
///
/// Errors: the environment's.
pub fn find_databases(store: &CloudStore) -> Result<Vec<u128>> {
    let mut found = Vec::new();
    let mut after: Option<ObjectName> = None;
    loop {
        let ListPage { objects, is_last } = store.list_page("", after.as_ref())?;
        found.extend(objects.iter().filter_map(|object| CloudNames::database_of(&object.name)));
        found.dedup();
        let Some(last) = objects.last().filter(|_| !is_last) else { return Ok(found) };
        after = Some(match CloudNames::database_of(&last.name) {
            Some(database) => CloudNames::new(database).behind_all(),
            None => last.name.clone(),
        });
    }
}
