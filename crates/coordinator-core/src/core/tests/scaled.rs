//! A pool that is scaled, and an actuator that runs what is told.

use super::*;
use crate::scale::{Act, Outcome, PhaseName};

/// What tests of autoscaling have in common, whatever is scaled.
pub(super) trait Actuated {
    /// The name by which it is scaled.
    const POOL: &str;

    fn world(&mut self) -> &mut World;

    /// Where what the actuator runs is, by name.
    fn runs(&self) -> BTreeMap<String, String>;

    fn view(&mut self) -> ScaleView {
        let world = self.world();
        let mut pools = world.core.scales(world.now.monotonic).pools;
        assert_eq!(pools.len(), 1);
        pools.remove(0)
    }

    fn phase(&mut self) -> PhaseName {
        self.view().phase.name()
    }

    fn list(&mut self) {
        let runs = Some(self.runs());
        let world = self.world();
        world.core.handle_listed(world.now.monotonic, runs);
    }

    fn acted(&mut self, outcome: Outcome) {
        self.list();
        let world = self.world();
        world.core.handle_acted(world.now, Self::POOL, outcome);
    }

    /// What the actuator is to do, once it has said what it runs.
    fn asked(&mut self) -> Option<Act> {
        let world = self.world();
        match world.core.scale_work(world.now.monotonic)? {
            ScaleWork::List => {
                self.list();
                self.asked()
            }
            ScaleWork::Act { pool, act } => {
                assert_eq!(pool, Self::POOL);
                Some(act)
            }
        }
    }
}
