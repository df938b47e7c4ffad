//! A first-in first-out queue with a bound. The caller decides what a full one means.

use std::collections::VecDeque;
use std::fmt;

/// A queue of bounded length.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    items: VecDeque<T>,
    capacity: usize,
}

/// The item that did not fit, handed back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> Ring<T> {
    /// Takes memory as it fills, not at once.
    pub const fn new(capacity: usize) -> Self {
        Ring { items: VecDeque::new(), capacity }
    }

    /// Appends an item; a full ring returns it.
    pub fn push(&mut self, item: T) -> Result<(), Full<T>> {
        if self.is_full() {
            return Err(Full(item));
        }
        self.items.push_back(item);
        Ok(())
    }

    /// Makes room by dropping the oldest, which is returned; for logs and traces.
    pub fn push_over(&mut self, item: T) -> Option<T> {
        let oldest = if self.is_full() { self.items.pop_front() } else { None };
        match self.push(item) {
            Ok(()) => oldest,
            Err(Full(item)) => Some(item),
        }
    }

    /// Removes the oldest item.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The oldest item.
    pub fn peek(&self) -> Option<&T> {
        self.items.front()
    }

    /// The items, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items.iter()
    }

    /// Removes all items, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.items.drain(..)
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True without items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True if the next `push` fails.
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// The largest number of items.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full")
    }
}

impl<T> std::error::Error for Full<T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_ring_hands_back_or_forgets_the_oldest() {
        let mut ring = Ring::new(2);
        assert_eq!(ring.push(1), Ok(()));
        assert_eq!(ring.push(2), Ok(()));
        assert_eq!(ring.push(3), Err(Full(3)));
        assert_eq!(ring.push_over(4), Some(1));
        assert_eq!(ring.drain().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(Ring::new(0).push_over(1), Some(1));
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(capacity in 0usize..10, steps in prop::collection::vec(any::<Option<u8>>(), 0..100)) {
            let mut ring = Ring::new(capacity);
            let mut model = Vec::new();
            for step in steps {
                match step {
                    Some(item) if model.len() < capacity => {
                        prop_assert_eq!(ring.push(item), Ok(()));
                        model.push(item);
                    }
                    Some(item) => prop_assert_eq!(ring.push(item), Err(Full(item))),
                    None if model.is_empty() => prop_assert_eq!(ring.pop(), None),
                    None => prop_assert_eq!(ring.pop(), Some(model.remove(0))),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert!(ring.iter().eq(&model));
            }
        }
    }
}
