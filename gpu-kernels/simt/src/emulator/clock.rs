//! What happened before what: vector clocks.
//!
//! A thread's *time* counts the moments at which it made its past visible to others. An access is stamped
//! with thread and time. Each thread knows, of every thread of its block, the time up to which that
//! thread's accesses lie in its own past; an access that does not is concurrent with it. Two concurrent
//! accesses to one word, one of them a write, are a race, whatever the order the emulator happened to run
//! them in.
//!
//! Barriers and `sync_warp` join the pasts of the threads that meet. Between blocks only atomics and
//! fences order: a release leaves the thread's [`History`] at the atomic's address, an acquire takes it
//! up (PTX ISA, "Memory consistency model", causality order). Clocks are shared between threads until one
//! of them learns something, so a barrier of the whole block costs one vector.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::{Order, Scope};

/// Moments of one thread at which others could learn of its past.
pub(crate) type Time = u32;

/// For each thread of a block, the time up to which its accesses are known.
#[derive(Clone, Debug)]
struct Clocks(Rc<[Time]>);

impl Clocks {
    /// Nothing is known of `threads` threads.
    fn new(threads: u32) -> Self {
        Self(vec![0; threads as usize].into())
    }

    /// Adds what `other` knows.
    fn join(&mut self, other: &Self) {
        if Rc::ptr_eq(&self.0, &other.0) {
            return;
        }
        for (mine, theirs) in Rc::make_mut(&mut self.0).iter_mut().zip(&*other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    fn set(&mut self, thread: u32, time: Time) {
        Rc::make_mut(&mut self.0)[thread as usize] = time;
    }

    fn get(&self, thread: u32) -> Time {
        self.0.get(thread as usize).copied().unwrap_or(0)
    }
}

/// A past that reaches into several blocks: clocks by linear block index.
#[derive(Clone, Debug, Default)]
struct History(Rc<BTreeMap<u32, Clocks>>);

impl History {
    fn join(&mut self, other: &Self) {
        if other.0.is_empty() || Rc::ptr_eq(&self.0, &other.0) {
            return;
        }
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        for (block, clocks) in &*other.0 {
            self.join_block(*block, clocks);
        }
    }

    fn join_block(&mut self, block: u32, clocks: &Clocks) {
        if self
            .0
            .get(&block)
            .is_some_and(|mine| Rc::ptr_eq(&mine.0, &clocks.0))
        {
            return;
        }
        Rc::make_mut(&mut self.0)
            .entry(block)
            .and_modify(|mine| mine.join(clocks))
            .or_insert_with(|| clocks.clone());
    }
}

/// What releases left at an address.
///
/// A plain write there ends the release sequence; it need not be noted, since it must be ordered between
/// the atomics before and after it (or is a race), and then so are they.
#[derive(Clone, Debug, Default)]
struct Left {
    /// For acquires of device scope.
    device: History,
    /// For acquires of block scope, and the block they must be in.
    local: History,
    block: u32,
}

impl Left {
    /// Leaves `history`, for as far as `scope` reaches.
    fn leave(&mut self, history: &History, scope: Scope, block: u32) {
        if self.block != block {
            self.local = History::default();
            self.block = block;
        }
        self.local.join(history);
        if scope != Scope::Block {
            self.device.join(history);
        }
    }

    /// What a thread of `block` may take up at `scope`.
    fn taken(&self, scope: Scope, block: u32) -> History {
        let mut history = if self.block == block {
            self.local.clone()
        } else {
            History::default()
        };
        if scope != Scope::Block {
            history.join(&self.device);
        }
        history
    }
}

/// What one thread knows.
#[derive(Clone, Debug)]
struct Thread {
    time: Time,
    own_block: Clocks,
    other_blocks: History,
    /// Its past at its last releasing fence; relaxed atomics leave it behind.
    fenced: Option<(History, Scope)>,
    /// What its relaxed atomics met; an acquiring fence takes it up.
    met: Left,
}

/// The order of all accesses of a launch, as far as synchronisation made one.
#[derive(Debug)]
pub(crate) struct Clock {
    block: u32,
    threads: Vec<Thread>,
    global: HashMap<usize, Left>,
    shared: HashMap<usize, Left>,
}

impl Clock {
    /// The clock of a launch with blocks of `threads` threads.
    pub(crate) fn new(threads: u32) -> Self {
        let own_block = Clocks::new(threads);
        let thread = Thread {
            time: 1,
            own_block,
            other_blocks: History::default(),
            fenced: None,
            met: Left::default(),
        };
        Self {
            block: 0,
            threads: vec![thread; threads as usize],
            global: HashMap::new(),
            shared: HashMap::new(),
        }
    }

    /// Begins block `block`: its threads know nothing.
    pub(crate) fn begin(&mut self, block: u32) {
        let fresh = Self::new(self.threads.len() as u32);
        self.block = block;
        self.threads = fresh.threads;
        self.shared.clear();
    }

    /// The time of `thread`.
    pub(crate) fn time(&self, thread: u32) -> Time {
        self.threads[thread as usize].time
    }

    /// Whether what thread `by` of block `block` did at `time` lies in the past of `thread`.
    pub(crate) fn knows(&self, thread: u32, block: u32, by: u32, time: Time) -> bool {
        let me = &self.threads[thread as usize];
        if block == self.block {
            by == thread || me.own_block.get(by) >= time
        } else {
            me.other_blocks
                .0
                .get(&block)
                .is_some_and(|clocks| clocks.get(by) >= time)
        }
    }

    /// `members` meet: each knows from now on what any of them knew.
    pub(crate) fn meet(&mut self, members: &[u32]) {
        let Some((first, rest)) = members.split_first() else {
            return;
        };
        let mut clocks = self.threads[*first as usize].own_block.clone();
        let mut others = self.threads[*first as usize].other_blocks.clone();
        for thread in rest {
            clocks.join(&self.threads[*thread as usize].own_block);
            others.join(&self.threads[*thread as usize].other_blocks);
        }
        for thread in members {
            clocks.set(*thread, self.threads[*thread as usize].time);
        }
        for thread in members {
            let thread = &mut self.threads[*thread as usize];
            thread.time += 1;
            thread.own_block = clocks.clone();
            thread.other_blocks = others.clone();
        }
    }

    /// `thread` is about to do an atomic at `address`: takes up what was left there.
    pub(crate) fn acquire(
        &mut self,
        thread: u32,
        address: usize,
        shared: bool,
        order: Order,
        scope: Scope,
    ) {
        let block = self.block;
        let Some(left) = self.variables(shared).get(&address) else {
            return;
        };
        let history = left.taken(scope, block);
        if matches!(order, Order::Acquire | Order::AcqRel) {
            self.take_up(thread, &history);
        } else {
            self.threads[thread as usize]
                .met
                .leave(&history, scope, block);
        }
    }

    /// `thread` did an atomic at `address`: leaves its past there.
    ///
    /// What earlier releases left stays too: a read-modify-write continues their release sequence.
    pub(crate) fn release(
        &mut self,
        thread: u32,
        address: usize,
        shared: bool,
        order: Order,
        scope: Scope,
    ) {
        let left = if matches!(order, Order::Release | Order::AcqRel) {
            Some((self.past(thread), scope))
        } else {
            self.threads[thread as usize].fenced.clone()
        };
        if let Some((history, reach)) = left {
            let block = self.block;
            let scope = if reach == Scope::Block {
                Scope::Block
            } else {
                scope
            };
            self.variables(shared)
                .entry(address)
                .or_default()
                .leave(&history, scope, block);
        }
    }

    fn variables(&mut self, shared: bool) -> &mut HashMap<usize, Left> {
        if shared {
            &mut self.shared
        } else {
            &mut self.global
        }
    }

    /// `thread` passed a fence.
    pub(crate) fn fence(&mut self, thread: u32, order: Order, scope: Scope) {
        if order == Order::Relaxed {
            return;
        }
        // `fence.acq_rel` is the only fence there is, so every order is both.
        let met = self.threads[thread as usize].met.taken(scope, self.block);
        self.take_up(thread, &met);
        let history = self.past(thread);
        self.threads[thread as usize].fenced = Some((history, scope));
    }

    /// The past of `thread` up to now; what it does next is later.
    fn past(&mut self, thread: u32) -> History {
        let me = &mut self.threads[thread as usize];
        let mut clocks = me.own_block.clone();
        clocks.set(thread, me.time);
        me.time += 1;
        let mut history = me.other_blocks.clone();
        history.join_block(self.block, &clocks);
        history
    }

    fn take_up(&mut self, thread: u32, history: &History) {
        let me = &mut self.threads[thread as usize];
        if let Some(clocks) = history.0.get(&self.block) {
            me.own_block.join(clocks);
        }
        me.other_blocks.join(history);
    }
}
