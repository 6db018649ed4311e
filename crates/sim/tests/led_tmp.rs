use evenkeel_sim::many;
use evenkeel_sim::world::{Fault, Habit, Hazard, Hazards, Plan, Swarm};
#[test]
fn search_tmp() {
    let plan = |seed| {
        let plan = Plan::led(seed)
            .lasting(21_000_000_000)
            .with_fault(Fault::FillsUnstored);
        Plan {
            swarm: Swarm {
                hazards: Hazards::default().with(Hazard::ApplicationGone),
                write_share: 100,
                habits: plan
                    .swarm
                    .habits
                    .without(&[Habit::Flush, Habit::Delete, Habit::Expire]),
                pause: (2_000_000_000, 4_000_000_000),
                ..plan.swarm
            },
            ..plan
        }
    };
    many::run(0..9000, 2, plan, |seed, outcome| {
        if let Some(v) = outcome.violations.first() {
            println!("FOUND {seed} {v}");
        }
        if seed % 500 == 0 {
            println!("at {seed}");
        }
        true
    });
}
