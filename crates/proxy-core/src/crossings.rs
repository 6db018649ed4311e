//! Commands on their way between the racks of a pool, one of which holds each item.
//!
//! What each asks next is decided by a pure machine ([`Machine`]); here is what it works with: the application's own request, what is
//! asked where, and on which connection a unique was learnt there. `under_way/crossing.rs` asks and hears.

use crate::failure::Failure;
use crate::ids::{BackendId, ClientId, PoolId};
use crate::limits::{OPERATION_BYTES_MAX, OPERATIONS_MAX};
use crate::made::Made;
use crate::operations::Fetched;
use crate::pipe::in_flight::{Asker, Progress, Question, Tag};
use crate::pool::racks::PoolRacks;
use crate::slab::{Key, Slab};
use evenkeel_schemes::locality::holder::{Command, Heard, Machine, Shown, Site, Sites, Wish};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_types::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names one, also in the tag of a step, which nobody's connection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CrossingId(Key);

impl CrossingId {
    /// As the slot in a step's tag.
    pub fn slot(self) -> u64 {
        self.0.to_number()
    }

    /// Whose step a request is, if it is one.
    pub fn of_step(tag: &Tag) -> Option<Self> {
        (tag.asker == Asker::Crossing).then_some(CrossingId(Key::of_number(tag.slot)))
    }
}

/// A command on its way.
#[derive(Debug)]
pub(crate) struct Crossing {
    pub machine: Machine,
    /// The racks when it began.
    pub racks: Arc<PoolRacks>,
    /// The application's request, which is a meta command; its tag names who waits for the answer.
    pub question: Question,
    /// The key as it is stored.
    pub key: Box<[u8]>,
    /// Whether the application has its answer, and what is left is done for nobody.
    pub is_told: bool,
    /// The application's further requests wait for it.
    pub holds_back: bool,
    /// What is asked at present, or was asked last.
    asked: Vec<Asked>,
    /// What it wants once its machine is at its end, if that was not all.
    pub then: Option<Wish>,
    /// What was fetched at the former pool, or is to be copied.
    fetched: Option<Fetched>,
    /// A read whose answer may be copied in the own rack.
    pub may_copy: Option<MayCopy>,
    /// Its answer is to be copied, which this rack has given.
    pub copy_of: Option<RackId>,
    /// Whether the former pool had an item, which was deleted.
    pub was_at_former: bool,
    /// By which version of its pool's step it was begun.
    pub version: u64,
    /// When it was begun: a read, when its own place was asked.
    pub begun: Instant,
    /// What is asked when its pause is over.
    pub paused: Option<(Command, Sites)>,
    /// When it began, or began anew.
    pub since: Instant,
    /// How often it has begun anew.
    pub anew: u32,
    /// No further step begins from then on.
    pub give_up: Instant,
    /// Why a step failed.
    pub failure: Option<Failure>,
}

/// What is asked at a site.
#[derive(Clone, Copy, Debug)]
struct Asked {
    site: Site,
    command: Option<Command>,
    /// Commands that nothing is heard of yet, this one and those before it that do not count any more.
    unanswered: u32,
    /// The connection on which a unique was learnt there, and which of those to its server that is.
    learnt_on: Option<(BackendId, u64)>,
}

impl Crossing {
    /// One that has asked nothing yet.
    pub fn new(
        machine: Machine,
        racks: Arc<PoolRacks>,
        question: Question,
        (key, version): (Box<[u8]>, u64),
        holds_back: bool,
        (begun, now, give_up): (Instant, Instant, Instant),
    ) -> Self {
        Crossing {
            machine,
            racks,
            question,
            key,
            is_told: false,
            holds_back,
            asked: Vec::new(),
            then: None,
            fetched: None,
            may_copy: None,
            copy_of: None,
            was_at_former: false,
            version,
            begun,
            paused: None,
            since: now,
            anew: 0,
            give_up,
            failure: None,
        }
    }

    /// What was fetched at the former pool, or is to be copied.
    pub fn fetched(&self) -> Option<&Fetched> {
        self.fetched.as_ref()
    }

    /// What is asked at a site, or was asked there last.
    pub fn asked_at(&self, site: Site) -> Option<Command> {
        let mut asked = self.asked.iter();
        asked.find(|it| it.site == site)?.command
    }

    /// A command is asked at a site.
    pub fn ask(&mut self, site: Site, command: Command) {
        let at = self.at(site);
        at.command = Some(command);
        at.unanswered += 1;
    }

    /// Which command it is that what comes next from a site answers. `None` for one that does not count any more: a command may go on before
    /// all is answered that it has asked, and what it asks then at the same site is answered behind that.
    pub fn awaited_at(&self, site: Site) -> Option<Command> {
        let asked = self.asked.iter().find(|it| it.site == site)?;
        asked.command.filter(|_| asked.unanswered == 1)
    }

    /// What was to come next from a site has come, or never will.
    pub fn answered_at(&mut self, site: Site) {
        let at = self.at(site);
        at.unanswered = at.unanswered.saturating_sub(1);
    }

    fn at(&mut self, site: Site) -> &mut Asked {
        let known = self.asked.iter().position(|it| it.site == site);
        let at = known.unwrap_or_else(|| {
            self.asked.push(Asked {
                site,
                command: None,
                unanswered: 0,
                learnt_on: None,
            });
            self.asked.len() - 1
        });
        &mut self.asked[at]
    }

    /// What it wants in place of telling this: a counter that is not there is made by an add, and one that is there meanwhile is changed after
    /// all.
    pub fn wants_instead(&self, shown: Shown) -> Option<Wish> {
        let wish = match (self.machine.wish(), shown) {
            (Wish::Change, Shown::Miss) => Wish::Add,
            (Wish::Add, Shown::NotStored) => Wish::Change,
            _ => return None,
        };
        Made::of(&self.question.bytes).map(|_| wish)
    }

    /// A unique was learnt at a site on a connection.
    pub fn learn(&mut self, site: Site, on: Option<(BackendId, u64)>) {
        self.at(site).learnt_on = on;
    }

    /// The connection on which a unique was learnt at a site.
    pub fn learnt_on(&self, site: Site) -> Option<(BackendId, u64)> {
        self.asked.iter().find(|it| it.site == site)?.learnt_on
    }
}

/// A read of one key whose own place has no item, which is to go on.
#[derive(Debug)]
pub(crate) struct Met {
    pub client: ClientId,
    pub slot: u64,
    pub pool: PoolId,
    pub key: Box<[u8]>,
    pub found: Heard,
    /// The tag of the copy that was found, if one was.
    pub copy: Option<u64>,
}

/// A read whose answer may be copied in the own rack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayCopy {
    /// When it was asked, or earlier.
    pub asked: Instant,
    /// The tag of the copy that was found in the own rack, if one was.
    pub met: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    slab: Slab<Crossing>,
    /// Bytes of their requests and of what they have fetched.
    bytes: usize,
    /// Those whose step at a site has failed, which have not heard it.
    failed: Vec<(CrossingId, Site, Failure)>,
    /// When pauses are over.
    pauses: BTreeSet<(Instant, CrossingId)>,
    /// Reads that have not begun to go on.
    met: Vec<Met>,
    /// Steps of other commands that were executed here, and what they are answered.
    steps: Vec<(Tag, Vec<u8>)>,
}

impl Crossings {
    /// Whether another one can begin that keeps this many bytes.
    pub fn has_room(&self, len: usize) -> bool {
        self.slab.len() < OPERATIONS_MAX && self.bytes + len <= OPERATION_BYTES_MAX
    }

    pub fn insert(&mut self, crossing: Crossing) -> CrossingId {
        self.bytes += crossing.question.bytes.len();
        CrossingId(self.slab.insert(crossing))
    }

    pub fn get(&self, id: CrossingId) -> Option<&Crossing> {
        self.slab.get(id.0)
    }

    pub fn get_mut(&mut self, id: CrossingId) -> Option<&mut Crossing> {
        self.slab.get_mut(id.0)
    }

    /// The application is told: its request, and whether its further ones have waited for it. Its own command is not asked any more.
    pub fn told(&mut self, id: CrossingId) -> Option<(Question, bool)> {
        let crossing = self.slab.get_mut(id.0)?;
        crossing.is_told = true;
        let bytes = core::mem::take(&mut crossing.question.bytes);
        self.bytes -= bytes.len();
        let question = Question {
            tag: crossing.question.tag,
            bytes,
            progress: Progress::Nothing,
        };
        Some((question, core::mem::take(&mut crossing.holds_back)))
    }

    /// Keeps what was fetched.
    pub fn keep(&mut self, id: CrossingId, fetched: Fetched) {
        if let Some(crossing) = self.slab.get_mut(id.0) {
            self.bytes += fetched.value.len();
            let before = crossing.fetched.replace(fetched);
            self.bytes -= before.map_or(0, |before| before.value.len());
        }
    }

    /// Takes out what was fetched.
    pub fn take_fetched(&mut self, id: CrossingId) -> Option<Fetched> {
        let fetched = self.slab.get_mut(id.0)?.fetched.take()?;
        self.bytes -= fetched.value.len();
        Some(fetched)
    }

    /// It is over.
    pub fn remove(&mut self, id: CrossingId) {
        if let Some(crossing) = self.slab.remove(id.0) {
            let fetched = crossing.fetched.as_ref();
            self.bytes -= crossing.question.bytes.len();
            self.bytes -= fetched.map_or(0, |fetched| fetched.value.len());
        }
        debug_assert!(self.bytes == 0 || self.slab.len() > 0, "bytes of nobody");
    }

    /// A step of another command was executed here.
    pub fn step_done(&mut self, tag: Tag, reply: &[u8]) {
        self.steps.push((tag, reply.to_vec()));
    }

    /// Whether any is to hear what a step has come to.
    pub fn has_more_to_hear(&self) -> bool {
        !self.failed.is_empty() || !self.steps.is_empty()
    }

    /// The next one that is to hear so.
    pub fn pop_step(&mut self) -> Option<(Tag, Vec<u8>)> {
        self.steps.pop()
    }

    /// A step could not be asked of a pool, or nobody knows what came of it.
    pub fn step_failed(&mut self, id: CrossingId, pool: PoolId, failure: Failure) {
        let crossing = self.slab.get(id.0);
        if let Some(site) = crossing.and_then(|crossing| crossing.racks.site_of(pool)) {
            self.failed.push((id, site, failure));
        }
    }

    /// The next one that is to hear that.
    pub fn pop_failed(&mut self) -> Option<(CrossingId, Site, Failure)> {
        self.failed.pop()
    }

    /// It goes on at that time.
    pub fn pause(&mut self, id: CrossingId, until: Instant) {
        self.pauses.insert((until, id));
    }

    /// The next one whose pause is over.
    pub fn pop_paused(&mut self, now: Instant) -> Option<CrossingId> {
        let (until, id) = *self.pauses.first()?;
        (until <= now).then(|| {
            self.pauses.pop_first();
            id
        })
    }

    /// When the first pause is over.
    pub fn deadline(&self) -> Option<Instant> {
        self.pauses.first().map(|(until, _)| *until)
    }

    /// A read is to go on.
    pub fn meet(&mut self, met: Met) {
        self.met.push(met);
    }

    /// The reads that are to go on, in the order in which they were met.
    pub fn take_met(&mut self) -> Vec<Met> {
        core::mem::take(&mut self.met)
    }

    /// Whether any of a pool was begun by an earlier version of its step. O(commands under way).
    pub fn began_before(&self, pool: PoolId, version: u64) -> bool {
        let mut crossings = self.slab.iter().map(|(_, crossing)| crossing);
        crossings.any(|it| it.question.tag.pool == pool && it.version < version)
    }

    /// Whether any of a pool was begun at this time or before. O(commands under way).
    pub fn began_until(&self, pool: PoolId, time: Instant) -> bool {
        let mut crossings = self.slab.iter().map(|(_, crossing)| crossing);
        crossings.any(|it| it.question.tag.pool == pool && it.begun <= time)
    }

    /// Whether any works with a pool. O(commands under way).
    pub fn use_pool(&self, pool: PoolId) -> bool {
        let mut crossings = self.slab.iter().map(|(_, crossing)| crossing);
        crossings.any(|crossing| crossing.racks.uses(pool))
    }
}
