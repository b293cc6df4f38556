//! In which order blocks begin and threads go on.

/// The threads of a block that may run.
pub(crate) struct Schedule {
    /// Threads that waited and may go on.
    ready: Vec<u32>,
    /// Threads that have not begun, the next one last; empty in a fixed order, where `next` counts.
    unstarted: Vec<u32>,
    next: u32,
    threads: u32,
    random: Option<Random>,
}

/// What the scheduler does next.
pub(crate) enum Step {
    /// A thread that waited goes on.
    Resume(u32),
    /// A thread that has not begun begins.
    Start,
}

impl Schedule {
    /// Threads begin in order, and a warp that may go on does so before another begins.
    pub(crate) fn fixed() -> Self {
        Self {
            ready: Vec::new(),
            unstarted: Vec::new(),
            next: 0,
            threads: 0,
            random: None,
        }
    }

    /// Every choice is drawn from `seed`.
    pub(crate) fn varied(seed: u64) -> Self {
        Self {
            random: Some(Random(seed)),
            ..Self::fixed()
        }
    }

    /// Whether choices are drawn.
    pub(crate) fn is_varied(&self) -> bool {
        self.random.is_some()
    }

    /// Begins a block of `threads` threads.
    pub(crate) fn begin(&mut self, threads: u32) {
        self.ready.clear();
        self.unstarted.clear();
        (self.next, self.threads) = (0, threads);
        if let Some(random) = &mut self.random {
            self.unstarted.extend(0..threads);
            random.shuffle(&mut self.unstarted);
        }
    }

    /// `threads` may go on, the last one first.
    pub(crate) fn ready(&mut self, threads: impl Iterator<Item = u32>) {
        self.ready.extend(threads);
    }

    /// The next thread to begin.
    pub(crate) fn next_unstarted(&mut self) -> Option<u32> {
        if self.random.is_some() {
            return self.unstarted.pop();
        }
        let thread = self.next;
        self.next += u32::from(thread < self.threads);
        (thread < self.threads).then_some(thread)
    }

    /// What to do next; `None` when nobody can run.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if let Some(random) = &mut self.random {
            let (ready, unstarted) = (self.ready.len(), self.unstarted.len());
            if ready + unstarted == 0 {
                return None;
            }
            let choice = random.below((ready + unstarted) as u64) as usize;
            return Some(if choice < ready {
                Step::Resume(self.ready.swap_remove(choice))
            } else {
                Step::Start
            });
        }
        match self.ready.pop() {
            Some(thread) => Some(Step::Resume(thread)),
            None => (self.next < self.threads).then_some(Step::Start),
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Puts `items` into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
