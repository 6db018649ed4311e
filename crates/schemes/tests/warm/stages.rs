//! The stages of one change follow each other, and commands begin in the present one or in the one before it, as they would at several
//! proxies.

use crate::commands::{Doing, Event, Fault, Key, Running, Scope, State};
use crate::register::Kind;
use crate::servers::Place;
use crate::world;
use evenkeel_schemes::stage::Stage;

const FORMER: Place = Place {
    server: 0,
    generation: 0,
};

const HERE: Place = Place {
    server: 1,
    generation: 0,
};

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    Begins(Kind, Stage),
    Stage(Stage),
    Key(Event),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    stage: Stage,
    key: Key,
}

fn state(stage: Stage) -> State {
    State {
        version: stage as u64,
        stage: Some(stage),
        former: FORMER,
        here: HERE,
    }
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        World {
            stage: scope.stages.0,
            key: Key::new(scope, FORMER),
        }
    }

    /// In which stages a command may begin.
    fn stages_of_beginners(&self, scope: &Scope) -> Vec<Stage> {
        let apart = match scope.fault {
            Some(Fault::TwoStagesApart) => 2,
            _ => 1,
        };
        let present = self.stage as usize;
        let first = (scope.stages.0 as usize).max(present.saturating_sub(apart));
        let left_out = left_out(scope);
        let mut stages = Stage::ALL[first..=present].to_vec();
        if stages.iter().any(|stage| Some(*stage) == left_out) && first > 0 {
            stages.push(Stage::ALL[first - 1]);
        }
        stages.retain(|stage| Some(*stage) != left_out);
        stages
    }

    /// The stage that may begin: nothing that counts of the one before the present is under way.
    fn next_stage(&self, scope: &Scope) -> Option<Stage> {
        if self.stage == scope.stages.1 {
            return None;
        }
        let present = state(self.stage).version;
        let is_awaited = |op: &Running| {
            let reads_at_former = op.asked.kind.reads() && matches!(op.doing, Doing::At(_));
            let ignores_it = scope.fault == Some(Fault::FormerReadsAreNotAwaited);
            // A read here that has begun nothing is as good as none.
            let counts = op.doing != Doing::FirstRead && !(reads_at_former && ignores_it);
            op.state.version < present && counts
        };
        let awaits = self.key.running().any(is_awaited);
        if awaits && scope.fault != Some(Fault::CommandsAreNotAwaited) {
            return None;
        }
        let next = self.stage.next()?;
        // Placeholders live for two seconds, and the last stage begins later.
        if next == Stage::Done && self.key.servers.has_mark(HERE) {
            return None;
        }
        match left_out(scope) {
            Some(left_out) if left_out == next => next.next(),
            _ => Some(next),
        }
    }
}

impl world::World for World {
    type Scope = Scope;
    type Event = Happening;

    fn events(&self, scope: &Scope) -> Vec<Happening> {
        let mut next = Vec::new();
        for (kind, _) in self.key.beginners(scope) {
            for stage in self.stages_of_beginners(scope) {
                let goes_on = kind.reads()
                    && matches!(
                        scope.fault,
                        Some(Fault::ReadsGoOnWhileQuiesced | Fault::ReadsGoHereWhileQuiesced)
                    );
                if stage != Stage::Quiesced || goes_on {
                    next.push(Happening::Begins(kind, stage));
                }
            }
        }
        next.extend(self.next_stage(scope).map(Happening::Stage));
        next.extend(self.key.events().into_iter().map(Happening::Key));
        next
    }

    fn happen(&mut self, what: Happening, scope: &Scope) -> bool {
        match what {
            Happening::Begins(kind, stage) => self.key.begin((kind, None), state(stage), scope),
            Happening::Stage(stage) => {
                self.stage = stage;
                self.key.fills_no_more = stage > Stage::Closing;
            }
            Happening::Key(event) => return self.key.happen(event, scope),
        }
        true
    }

    fn describe(&self, what: Happening) -> String {
        match what {
            Happening::Begins(kind, stage) => format!("begins: {kind:?} {stage}"),
            Happening::Stage(stage) => stage.to_string(),
            Happening::Key(event) => self.key.describe(event),
        }
    }
}

/// By some faults a stage is left out.
fn left_out(scope: &Scope) -> Option<Stage> {
    match scope.fault? {
        Fault::QuiescedIsLeftOut => Some(Stage::Quiesced),
        Fault::ClosingIsLeftOut => Some(Stage::Closing),
        _ => None,
    }
}
