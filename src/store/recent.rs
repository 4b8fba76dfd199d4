//! A map that keeps what was used last.
//!
//! What always holds: it holds at most twice as many entries as it was made for, and the latest so
//! many that were used are among them. Every step takes constant time, but for one in so many, which
//! forgets half of it at once.
//!
//! What it does not do: order entries by their last use, which would take a list of them.

use std::collections::HashMap;
use std::hash::Hash;

/// Two generations: what is used enters the young one; when that is full it becomes the old one, and
/// what is still in the old one then is forgotten.
#[derive(Debug)]
pub(in crate::store) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    at_most: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub(in crate::store) fn new(at_most: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            at_most,
        }
    }

    /// Using it keeps it.
    pub(in crate::store) fn using(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// As it is, or new.
    pub(in crate::store) fn using_or_new(&mut self, key: &K) -> &mut V
    where
        K: Clone,
        V: Default,
    {
        if !self.young.contains_key(key) {
            let value = self.old.remove(key).unwrap_or_default();
            self.insert(key.clone(), value);
        }
        self.young.entry(key.clone()).or_default()
    }

    pub(in crate::store) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.at_most && !self.young.contains_key(&key) {
            // The room of the one that is forgotten serves again.
            std::mem::swap(&mut self.old, &mut self.young);
            self.young.clear();
        }
        self.young.insert(key, value);
    }

    pub(in crate::store) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.young.iter().chain(&self.old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut recent = Recent::new(4);
        for number in 0..100 {
            recent.insert(number, number);
            assert!(recent.iter().count() <= 8);
            assert_eq!(recent.using(&0), Some(&mut 0), "used all the time");
            assert!(number == 0 || recent.using(&(number - 1)).is_some());
        }
        assert_eq!(recent.using(&50), None);
    }

    #[test]
    fn an_entry_has_one_value_and_is_removed_whole() {
        let mut recent = Recent::new(1);
        recent.insert('a', 1);
        recent.insert('b', 2);
        recent.insert('a', 3);
        assert_eq!(recent.iter().filter(|(key, _)| **key == 'a').count(), 1);
        assert_eq!(recent.using(&'a'), Some(&mut 3));
        recent.insert('c', 4);
        recent.remove(&'a');
        assert_eq!(recent.using(&'a'), None);
    }
}
