//! Compaction filters by keyspace: the engine knows one for the whole tree, which looks up whose
//! turn it is.
//!
//! A program says which keyspace a filter is for by its name, and the catalog says which number has
//! that name. Until an open has read the catalog, nothing is filtered; nor is anything of a number
//! whose keyspace was dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use terrace_engine::Error as EngineError;
use terrace_engine::compaction::filter::{
    CompactionFilter as EngineFilter, Decision, FilterOption, Wants,
};

use super::catalog::canonical;
use super::stored::{KeyspaceNo, split};
use crate::Result;
use crate::filter::CompactionFilter;

/// Compaction filters that a program brings along, each with the name of its keyspace.
pub type CompactionFilters = Vec<(String, Arc<dyn CompactionFilter>)>;

/// The name of the engine's filter that looks up the keyspace's.
const BY_KEYSPACE: &str = "by-keyspace";

type ByNumber = BTreeMap<KeyspaceNo, Arc<dyn CompactionFilter>>;

/// Which keyspace has which filter. Clones share what is known of numbers.
#[derive(Clone, Debug, Default)]
pub struct FilterTable {
    own: CompactionFilters,
    by_number: Arc<ArcSwapOption<ByNumber>>,
}

impl FilterTable {
    /// These filters, of keyspaces whose numbers are not known yet.
    pub fn new(own: &CompactionFilters) -> FilterTable {
        FilterTable { own: own.clone(), by_number: Arc::default() }
    }

    /// Errors: `Invalid`, if two filters are for one keyspace, or a name cannot be one.
    pub fn validate(own: &CompactionFilters) -> Result<()> {
        for (index, (keyspace, filter)) in own.iter().enumerate() {
            let keyspace = canonical(keyspace)?;
            let name = filter.name();
            if !(1..=64).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic())
            {
                return Err(EngineError::invalid(format!(
                    "{name:?} cannot name a compaction filter: use 1 to 64 printable characters \
                     of ASCII without spaces"
                ))
                .into());
            }
            if own[..index].iter().any(|(other, _)| canonical(other).is_ok_and(|o| o == keyspace)) {
                return Err(EngineError::invalid(format!(
                    "there are two compaction filters for the keyspace {keyspace}: let one of them \
                     ask the other"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// From now on these are the numbers of the keyspaces.
    pub fn renew(&self, number_of: impl Fn(&str) -> Option<KeyspaceNo>) {
        if self.own.is_empty() {
            return;
        }
        let numbered = self.own.iter().filter_map(|(keyspace, filter)| {
            let number = canonical(keyspace).ok().and_then(&number_of)?;
            Some((number, Arc::clone(filter)))
        });
        self.by_number.store(Some(Arc::new(numbered.collect())));
    }

    /// The filter for the engine, if there is any.
    pub fn for_engine(&self) -> FilterOption {
        if self.own.is_empty() {
            return FilterOption::default();
        }
        FilterOption::of(ByKeyspace { by_number: Arc::clone(&self.by_number) })
    }
}

/// The engine's filter: it knows keys with the prefix of their keyspace, those that it asks
/// without.
#[derive(Debug)]
struct ByKeyspace {
    by_number: Arc<ArcSwapOption<ByNumber>>,
}

impl ByKeyspace {
    /// What the filter of a key's keyspace says; nothing if it has none. Other kinds of keys than
    /// plain ones are nobody's business.
    fn ask<T>(
        &self,
        stored: &[u8],
        ask: impl FnOnce(&dyn CompactionFilter, &[u8]) -> T,
    ) -> Option<T> {
        let by_number = self.by_number.load();
        let (number, key) = split(stored);
        let filter = by_number.as_deref()?.get(&KeyspaceNo(number))?;
        Some(ask(&**filter, key?))
    }
}

impl EngineFilter for ByKeyspace {
    fn name(&self) -> &str {
        BY_KEYSPACE
    }

    fn name_at(&self, stored: &[u8]) -> String {
        let name = self.ask(stored, |filter, _| filter.name().to_string());
        name.unwrap_or_else(|| BY_KEYSPACE.to_string())
    }

    fn wants(&self, stored: &[u8]) -> Wants {
        self.ask(stored, |filter, key| filter.wants(key)).unwrap_or(Wants::Nothing)
    }

    fn decide(&self, stored: &[u8], value: &[u8]) -> Decision {
        self.ask(stored, |filter, key| filter.decide(key, value)).unwrap_or(Decision::Keep)
    }
}
