//! Items of one kind in an array of fixed length, by number; free ones form a list.

use flow::slab::{OutOfMemory, Slab};
use zerocopy::FromZeros;

/// What a [`Pool`] holds: it can hold the number of another in its place.
pub(super) trait Item: FromZeros + Copy {
    /// A free item, which is not in use, before this link.
    fn free(link: u32) -> Self;
    /// The link of a free item.
    fn link(&self) -> u32;
    /// Whether it is in use.
    fn is_in_use(&self) -> bool;
}

/// Items by number.
pub(super) struct Pool<T> {
    items: Slab<T>,
    /// Items below this have been used at least once.
    touched: u32,
    /// One more than the number of the item that was freed last; 0: none.
    free: u32,
    len: u32,
}

impl<T: Item> Pool<T> {
    /// Room for as many, at most 2^30.
    ///
    /// # Errors
    /// When the memory cannot be had, or more are asked for.
    pub fn new(capacity: usize) -> Result<Self, OutOfMemory> {
        if capacity > 1 << 30 {
            let octets = capacity.saturating_mul(size_of::<T>());
            return Err(OutOfMemory { octets });
        }
        Ok(Self {
            items: Slab::new(capacity)?,
            touched: 0,
            free: 0,
            len: 0,
        })
    }

    pub fn octets(&self) -> usize {
        self.items.len() * size_of::<T>()
    }

    /// How many are in use.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// How many more there can be.
    pub fn room(&self) -> usize {
        self.items.len() - self.len()
    }

    /// Items of this number and above have never been used.
    pub fn touched(&self) -> u32 {
        self.touched
    }

    /// Adds an item, if there is room.
    pub fn put(&mut self, item: T) -> Option<u32> {
        let number = self.free.checked_sub(1).unwrap_or(self.touched);
        let place = self.items.get_mut(number as usize)?;
        match self.free {
            0 => self.touched += 1,
            _ => self.free = place.link(),
        }
        *place = item;
        self.len += 1;
        Some(number)
    }

    /// Takes out an item that is in use.
    pub fn take(&mut self, number: u32) -> Option<T> {
        let place = self.items.get_mut(number as usize)?;
        let item = *place;
        if !item.is_in_use() {
            return None;
        }
        *place = T::free(self.free);
        self.free = number + 1;
        self.len -= 1;
        Some(item)
    }

    /// An item that is in use.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize).filter(|item| item.is_in_use())
    }

    /// An item that is in use.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let item = self.items.get_mut(number as usize);
        item.filter(|item| item.is_in_use())
    }

    /// All that are in use.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let all = (0..).zip(self.items.iter());
        all.filter(|(_, item)| item.is_in_use())
    }
}
