//! How much of something each owner has, so that one cannot take all.

/// Counts of what owners have taken, each at most a share. Owners are numbered from 0, densely: a count is two octets.
#[derive(Debug)]
pub struct Shares {
    taken: Box<[u16]>,
    most: u16,
}

impl Shares {
    /// For `owners` owners, each with at most `most`.
    pub fn new(owners: u32, most: u16) -> Shares {
        Shares {
            taken: vec![0; owners as usize].into(),
            most,
        }
    }

    /// Takes one for `owner`. Whether it has one left; an owner that there is not has none.
    #[must_use]
    pub fn take(&mut self, owner: u32) -> bool {
        match self.taken.get_mut(owner as usize) {
            Some(taken) if *taken < self.most => {
                *taken += 1;
                true
            }
            _ => false,
        }
    }

    /// Whether `owner` has one left.
    pub fn has_left(&self, owner: u32) -> bool {
        let taken = self.taken.get(owner as usize);
        taken.is_some_and(|taken| *taken < self.most)
    }

    /// Gives back one of `owner`.
    pub fn give_back(&mut self, owner: u32) {
        if let Some(taken) = self.taken.get_mut(owner as usize) {
            *taken = taken.saturating_sub(1);
        }
    }

    /// How many `owner` has.
    pub fn taken(&self, owner: u32) -> u16 {
        self.taken.get(owner as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_its_share_and_no_more() {
        let mut shares = Shares::new(2, 2);
        assert!(shares.take(0) && shares.take(0) && !shares.take(0));
        assert!(shares.take(1));
        shares.give_back(0);
        assert!(shares.take(0) && !shares.take(0));
        assert!(!shares.take(2));
        assert_eq!((shares.taken(0), shares.taken(1), shares.taken(2)), (2, 1, 0));
    }
}
