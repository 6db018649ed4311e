//! The ring of a pool whose hash space follows the load, as a plan of its coordinator has it: where each key is, and by which name.
//!
//! A plan has a ring and parts of it that change hands. For keys in those the pool is [at a stage](evenkeel_schemes::stage::Stage) on the
//! way from the ring before the moves to the one behind them; for all others both rings say the same.
//!
//! An item goes by a name that holds the [generation](evenkeel_schemes::generation) of its slice. So a name says which of the two rings it is
//! of, and a request that has one finds its server whatever the stage is by then.

use crate::server_list::ServerList;
use core::array;
use evenkeel_control::bundles::BundlePlan;
use evenkeel_control::rings::{BadPlan, RingPlan};
use evenkeel_placement::ring::{GRAINS_OF_RING, Ring, Slice, grain_of};
use evenkeel_schemes::generation::{PREFIX_LEN, mask, name_prefix, taken_apart};
use evenkeel_schemes::stage::{Stage, Step};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a coordinator has told of a pool.
#[derive(Clone, Debug)]
pub struct PoolUpdate {
    /// Its newest step.
    pub step: Step,
    /// The ring of the plan that this is of, in a pool whose hash space follows the load.
    pub ring: Option<Arc<PlannedRing>>,
    /// That plan, in a pool that keeps copies; `None` as long as they were never on.
    pub bundle: Option<BundleUpdate>,
}

/// What a coordinator has told of a pool's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleUpdate {
    /// The newest plan.
    pub plan: BundlePlan,
    /// How many workers fill copies, of all proxies that follow the pool: they share what copies may take of the servers' memory. At least 1.
    pub fillers: u32,
}

/// A plan, ready for use: made once and shared by all workers.
#[derive(Debug)]
pub struct PlannedRing {
    number: u64,
    incarnation: u64,
    list: Arc<ServerList>,
    before: Ring,
    /// `None` where nothing moves.
    after: Option<Ring>,
    /// What moves is taken from a server that is not asked any more.
    is_loss: bool,
    /// Of the ring before the moves and of the one behind them.
    grains: [GrainIndex; 2],
    /// Of the slices of both, in their order.
    places: [Vec<SlicePlace>; 2],
}

/// What keys of a slice have in common.
#[derive(Clone, Copy, Debug)]
struct SlicePlace {
    owner: u16,
    /// It is one that has changed hands, behind the moves.
    moves: bool,
    /// What stands before the keys in names.
    prefix: Option<[u8; PREFIX_LEN]>,
}

/// A ring as it is at a stage, for keys that stay where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SteadyRing<'r> {
    ring: &'r Ring,
    places: &'r [SlicePlace],
    /// At this stage all do.
    all_stay: bool,
}

impl<'r> SteadyRing<'r> {
    /// The server, by its place in the list, that has a key of this hash, and what stands before the key in its name. `None` for one that
    /// changes hands. O(1) as [`Ring::slice_of`].
    #[inline]
    pub fn find(&self, hash: u32) -> Option<(usize, Option<&'r [u8; PREFIX_LEN]>)> {
        let place = &self.places[self.ring.slice_of(hash)];
        let stays = self.all_stay || !place.moves;
        stays.then_some((usize::from(place.owner), place.prefix.as_ref()))
    }
}

/// The grains of a ring, to be found by hash.
#[derive(Debug)]
pub(crate) struct GrainIndex {
    /// The last hash of each.
    lasts: Vec<u32>,
    /// Of each cell of the ring, the first grain that ends in it or behind it.
    cells: Box<[u32; GRAINS_OF_RING as usize]>,
}

/// Bits of a hash below its cell.
const CELL_BITS: u32 = u32::BITS - GRAINS_OF_RING.ilog2();

impl GrainIndex {
    fn new(ring: &Ring) -> Self {
        let grains = ring.grains();
        let lasts: Vec<u32> = grains.iter().map(|grain| grain.part.last).collect();
        let cell = |cell: usize| grain_of(&grains, (cell as u32) << CELL_BITS) as u32;
        GrainIndex {
            cells: Box::new(array::from_fn(cell)),
            lasts,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lasts.len()
    }

    /// Which one a hash is in. No grain goes over the end of a cell, and most cells have one. O(log grains of the cell).
    #[inline]
    pub fn find(&self, hash: u32) -> usize {
        let first = self.cells[(hash >> CELL_BITS) as usize] as usize;
        match self.lasts.get(first) {
            Some(last) if hash <= *last => first,
            _ => self.search(hash, first),
        }
    }

    /// The same of a hash behind the first grain of its cell.
    #[inline(never)]
    fn search(&self, hash: u32, first: usize) -> usize {
        let end = self.cells.get((hash >> CELL_BITS) as usize + 1);
        let end = end.map_or(self.lasts.len(), |end| *end as usize);
        first + self.lasts[first..end].partition_point(|last| *last < hash)
    }
}

impl PlannedRing {
    /// Makes a plan ready. O(slices · log slices).
    ///
    /// # Errors
    /// When it is none.
    pub fn new(plan: &RingPlan) -> Result<Self, BadPlan> {
        let after = plan.moved()?;
        let list = ServerList::new(plan.placement.clone())?;
        let rings = [&plan.ring, &after];
        let place = |slice: &Slice| SlicePlace {
            owner: slice.owner,
            moves: plan.ring.slices()[plan.ring.slice_of(slice.end)].generation != slice.generation,
            prefix: name_prefix(plan.incarnation, slice.generation),
        };
        Ok(PlannedRing {
            grains: rings.map(GrainIndex::new),
            places: rings.map(|ring| ring.slices().iter().map(place).collect()),
            number: plan.number,
            incarnation: plan.incarnation,
            list: Arc::new(list),
            before: plan.ring.clone(),
            after: plan.moves_anything().then_some(after),
            is_loss: plan.is_loss(),
        })
    }

    /// The plan's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What names the ring.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// How a stage of the plan is worked by. Nothing is brought from a server that is lost: where others look there, its keys have
    /// moved already.
    pub(crate) fn worked_by(&self, step: Step) -> Step {
        let has_moved = self.is_loss && step.stage > Stage::Quiesced;
        Step {
            stage: if has_moved { Stage::Done } else { step.stage },
            ..step
        }
    }

    /// Whether what moves is taken from a server that is not asked any more.
    pub(crate) fn is_loss(&self) -> bool {
        self.is_loss
    }

    /// Whether all keys are where they were before the ring, by their own names.
    pub fn is_as_adopted(&self) -> bool {
        self.after.is_none()
            && self
                .before
                .slices()
                .iter()
                .all(|slice| slice.generation == 0)
    }

    /// The servers.
    pub(crate) fn list(&self) -> &Arc<ServerList> {
        &self.list
    }

    /// The slices of a key by the ring before the moves and by the one behind them.
    fn slices(&self, key: &[u8]) -> (Slice, Slice) {
        let hash = self.list.hashed(key).1 as u32;
        let slice = |ring: &Ring| ring.slices()[ring.slice_of(hash)];
        let before = slice(&self.before);
        (before, self.after.as_ref().map_or(before, slice))
    }

    /// The grains of the ring before the moves, or of the one behind them.
    pub(crate) fn grains(&self, has_moved: bool) -> &GrainIndex {
        &self.grains[usize::from(has_moved)]
    }

    /// By which hash the key of a name is distributed.
    #[inline]
    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        self.list.hashed(taken_apart(name).1).1
    }

    /// The ring before the moves or the one behind them, and what is known of its slices.
    #[inline]
    fn ring(&self, has_moved: bool) -> (&Ring, &[SlicePlace]) {
        let after = self.after.as_ref().filter(|_| has_moved);
        let places = &self.places[usize::from(has_moved)];
        (after.unwrap_or(&self.before), places)
    }

    /// Where keys are that stay there at a stage.
    #[inline]
    pub(crate) fn steady(&self, stage: Stage) -> SteadyRing<'_> {
        // For keys that stay both rings say the same.
        let (ring, places) = self.ring(stage != Stage::Former);
        SteadyRing {
            ring,
            places,
            all_stay: matches!(stage, Stage::Former | Stage::Done),
        }
    }

    /// Whether the key of a name is in a part that changes hands.
    pub(crate) fn moves(&self, name: &[u8]) -> bool {
        self.after.is_some() && {
            let (before, after) = self.slices(taken_apart(name).1);
            before.generation != after.generation
        }
    }

    /// The server, by its place in the list, that has the item of a name. A name of neither ring has none of its own; it is looked for where
    /// its key is.
    pub(crate) fn server(&self, name: &[u8]) -> usize {
        let (generation, key) = taken_apart(name);
        let (before, after) = self.slices(key);
        usize::from(match generation == before.generation {
            true => before.owner,
            false => after.owner,
        })
    }

    /// What the item of a key is called, before the moves or behind them: what stands before the key, if anything does.
    pub(crate) fn name_prefix(&self, key: &[u8], has_moved: bool) -> Option<[u8; PREFIX_LEN]> {
        let (ring, places) = self.ring(has_moved);
        let hash = self.list.hashed(key).1 as u32;
        places[ring.slice_of(hash)].prefix
    }

    /// Another name of the item that has this one, before the moves or behind them.
    pub(crate) fn name(&self, name: &[u8], has_moved: bool) -> Vec<u8> {
        let key = taken_apart(name).1;
        named(self.name_prefix(key, has_moved), key)
    }

    /// The servers, by their places in the list, that may have items which somebody reads, when the plan is at this stage. O(slices).
    pub(crate) fn holders(&self, stage: Stage) -> BTreeSet<usize> {
        let before = (stage < Stage::Done || self.after.is_none()).then_some(&self.before);
        let after = self.after.as_ref().filter(|_| stage > Stage::Former);
        let rings = before.into_iter().chain(after);
        let slices = rings.flat_map(|ring| ring.slices());
        slices.map(|slice| usize::from(slice.owner)).collect()
    }

    /// The servers, by their places in the list, that give parts away.
    pub(crate) fn sources(&self) -> BTreeSet<usize> {
        let after = self.after.iter();
        let givers = after.flat_map(|after| self.before.givers(after));
        givers.map(usize::from).collect()
    }
}

/// What uniques of the item with this name are combined with where an application sees them.
#[inline]
pub(crate) fn unique_mask(name: &[u8]) -> u64 {
    mask(taken_apart(name).0)
}

/// The name of a key's item, with what stands before the key.
pub(crate) fn named(prefix: Option<[u8; PREFIX_LEN]>, key: &[u8]) -> Vec<u8> {
    match prefix {
        Some(prefix) => [&prefix, key].concat(),
        None => key.to_vec(),
    }
}
