//! Merge operators by keyspace: the engine knows one for the whole tree, which looks up whose turn
//! it is.
//!
//! ```text
//!   engine: "by-keyspace" ─► number of the keyspace ─► its operator
//! ```
//! Which keyspace has which operator stands in the catalog, and the catalog lies in the tree. So
//! while an open has not read it, every fold is refused. That loses nothing: flushes and
//! compactions keep operands that they cannot fold.
//!
//! A database from before keyspaces had operators of their own names one in its manifest. That one
//! serves all its keyspaces that have none of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use terrace_engine::merge::{MergeFailure, MergeOperator, MergeOperators as EngineOperators};

use super::stored::{KeyspaceNo, split};

/// Merge operators that a program brings along.
pub type MergeOperators = Vec<Arc<dyn MergeOperator>>;

/// The name of the engine's operator that looks up the keyspace's.
const BY_KEYSPACE: &str = "by-keyspace";

/// An operator as errors name it: which one a keyspace has, the engine does not know.
pub fn shown(name: &str) -> String {
    if name == BY_KEYSPACE { "of the keyspace".to_string() } else { name.to_string() }
}

/// Which keyspace has which operator. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct OperatorTable(Arc<ArcSwapOption<BTreeMap<KeyspaceNo, Operator>>>);

/// The operator of a keyspace.
#[derive(Clone, Debug)]
pub enum Operator {
    Known(Arc<dyn MergeOperator>),
    /// This program does not know it.
    Unknown(String),
}

impl OperatorTable {
    /// From now on these operators are asked, too. One change at a time.
    pub fn add(&self, operators: impl Iterator<Item = (KeyspaceNo, Operator)>) {
        let so_far = self.0.load().as_deref().cloned().unwrap_or_default();
        self.0.store(Some(Arc::new(so_far.into_iter().chain(operators).collect())));
    }

    /// The operators that the engine is to know: the built-in ones and these, each as the one that
    /// serves where a keyspace has none of its own, and the one for new databases.
    pub fn for_engine(&self, own: &MergeOperators) -> EngineOperators {
        let mut list: Vec<Arc<dyn MergeOperator>> = Vec::new();
        for operator in known(own).iter() {
            let name = operator.name().to_string();
            let fallback = Some(Arc::clone(operator));
            list.push(Arc::new(ByKeyspace { name, fallback, table: self.clone() }));
        }
        let name = BY_KEYSPACE.to_string();
        list.push(Arc::new(ByKeyspace { name, fallback: None, table: self.clone() }));
        EngineOperators::only(list).with_fallback(BY_KEYSPACE)
    }
}

/// The built-in operators, and these.
pub fn known(own: &MergeOperators) -> EngineOperators {
    own.iter().fold(EngineOperators::default(), |operators, own| operators.with(Arc::clone(own)))
}

/// The engine's operator: it knows keys with the prefix of their keyspace, those that it asks
/// without.
#[derive(Debug)]
struct ByKeyspace {
    name: String,
    fallback: Option<Arc<dyn MergeOperator>>,
    table: OperatorTable,
}

impl ByKeyspace {
    fn ask<T>(
        &self,
        stored: &[u8],
        ask: impl FnOnce(&dyn MergeOperator, &[u8]) -> Result<T, MergeFailure>,
    ) -> Result<T, MergeFailure> {
        let table = self.table.0.load();
        let Some(table) = table.as_deref() else {
            return Err(MergeFailure::new("the database has not read yet how keyspaces merge"));
        };
        let (number, key) = split(stored);
        let operator = match table.get(&KeyspaceNo(number)) {
            Some(Operator::Known(operator)) => operator,
            Some(Operator::Unknown(name)) => {
                return Err(MergeFailure::new(format!(
                    "the keyspace merges with {name}, which this program does not know: add it to \
                     the options"
                )));
            }
            None => self.fallback.as_ref().ok_or_else(|| {
                MergeFailure::new(
                    "the keyspace has no merge operator: choose one, once, by keyspace_with and \
                     KeyspaceOptions::merge_operator",
                )
            })?,
        };
        ask(&**operator, key.unwrap_or(stored))
    }
}

impl MergeOperator for ByKeyspace {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeFailure> {
        self.ask(key, |operator, key| operator.check(key, operand))
    }

    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        self.ask(key, |operator, key| operator.full(key, base, operands))
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.ask(key, |operator, key| Ok(operator.partial(key, older, newer))).ok().flatten()
    }
}
