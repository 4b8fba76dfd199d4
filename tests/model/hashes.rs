//! A set of hashes, of hundreds of thousands of states.
//!
//! What always holds: it is no more than a table of them, so that it is fast without optimisation.

#[derive(Debug)]
pub struct Hashes {
    /// 0: free. As many as a power of two, at least half of them free.
    slots: Vec<u64>,
    count: usize,
}

impl Default for Hashes {
    fn default() -> Self {
        Self {
            slots: vec![0; 1 << 10],
            count: 0,
        }
    }
}

impl Hashes {
    pub fn contains(&self, hash: u64) -> bool {
        self.slots[self.place(hash)] != 0
    }

    /// Is it new?
    pub fn insert(&mut self, hash: u64) -> bool {
        let place = self.place(hash);
        if self.slots[place] != 0 {
            return false;
        }
        self.slots[place] = hash.max(1);
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            self.grow();
        }
        true
    }

    /// Where it is, or would be.
    fn place(&self, hash: u64) -> usize {
        // No state has the hash that stands for a free place.
        let hash = hash.max(1);
        let last = self.slots.len() - 1;
        let mut place = hash as usize & last;
        while self.slots[place] != 0 && self.slots[place] != hash {
            place = (place + 1) & last;
        }
        place
    }

    fn grow(&mut self) {
        let bigger = vec![0; 2 * self.slots.len()];
        for hash in std::mem::replace(&mut self.slots, bigger) {
            if hash != 0 {
                let place = self.place(hash);
                self.slots[place] = hash;
            }
        }
    }
}
