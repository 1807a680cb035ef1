use terrace_env::ObjectName;

use crate::Result;
use crate::cloud::{CloudNames, CloudStore};

/// The databases that have objects in the store, in the order of their ids; one request for each.
/// A list may lack names, so one that is not found may be there all the same.
///
/// Errors: the environment's.
pub fn find_databases(store: &CloudStore) -> Result<Vec<u128>> {
    let mut found = Vec::new();
    let mut after: Option<ObjectName> = None;
    loop {
        let page = store.list_page("", after.as_ref())?;
        let Some(last) = page.last() else { return Ok(found) };
        let database = page.iter().find_map(|object| CloudNames::database_of(&object.name));
        after = Some(match database {
            Some(database) => {
                found.push(database);
                CloudNames::new(database).behind_all()
            }
            None => last.name.clone(),
        });
    }
}
