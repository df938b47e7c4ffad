//! A list that is nearly always empty, in a struct of which there is one for each session: empty it is one pointer, a third of a vector.

use std::ops::Deref;

/// Values in order.
pub(super) struct SparseVec<T>(Option<Box<Items<T>>>);

/// The values of a list that has any.
struct Items<T>(Vec<T>);

impl<T> SparseVec<T> {
    pub(super) fn push(&mut self, item: T) {
        match &mut self.0 {
            Some(items) => items.0.push(item),
            None => *self = vec![item].into(),
        }
    }

    /// Keeps the values that `is_kept` accepts.
    pub(super) fn retain(&mut self, is_kept: impl FnMut(&T) -> bool) {
        if self.0.is_some() {
            self.change(|items| items.retain(is_kept));
        }
    }

    /// Lets `work` change the values in any way.
    pub(super) fn change<R>(&mut self, work: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let mut items = self.take();
        let done = work(&mut items);
        *self = items.into();
        done
    }

    /// Takes all values out.
    pub(super) fn take(&mut self) -> Vec<T> {
        self.0.take().map(|items| items.0).unwrap_or_default()
    }
}

impl<T> Default for SparseVec<T> {
    fn default() -> SparseVec<T> {
        SparseVec(None)
    }
}

impl<T> From<Vec<T>> for SparseVec<T> {
    fn from(items: Vec<T>) -> SparseVec<T> {
        SparseVec((!items.is_empty()).then(|| Box::new(Items(items))))
    }
}

impl<T> Deref for SparseVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |items| &items.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_holds_no_memory() {
        assert_eq!(size_of::<SparseVec<u64>>(), 8);
        let mut list = SparseVec::default();
        list.retain(|_| false);
        assert!(list.is_empty() && list.0.is_none());
        list.push(1);
        list.push(2);
        list.push(3);
        list.retain(|item| *item != 2);
        assert_eq!(list[..], [1, 3]);
        assert_eq!(list.change(|items| items.remove(0)), 1);
        assert_eq!(list[..], [3]);
        list.retain(|_| false);
        assert!(list.0.is_none());
        list.push(4);
        assert_eq!(list.take(), [4]);
        assert!(list.0.is_none());
    }
}
