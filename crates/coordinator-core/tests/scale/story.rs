//! A pool, who scales it, and a clock that is moved by hand.

use evenkeel_coordinator_core::scale::{
    Act, Band, Decision, Outcome, Part, PhaseName, PoolServer, Scale, ScaleMode, ScaleSettings,
    Seen, decide,
};
use evenkeel_types::Instant;

pub const BY_HAND: &str = "10.0.0.1:11211";

/// A pool, who scales it, and what is seen of both.
pub struct Story {
    pub settings: ScaleSettings,
    pub seen: Seen,
    pub scale: Scale,
    seconds: u64,
    last: Option<Decision>,
}

impl Story {
    /// This many servers, of which all but the first are the actuator's: `p-1` and so on.
    pub fn of(servers: usize) -> Story {
        let settings = ScaleSettings {
            mode: ScaleMode::Automatic,
            requests_per_server: Some(Band {
                lower: 12_000.0,
                upper: 30_000.0,
            }),
            max: 8,
            ..ScaleSettings::default()
        };
        assert_eq!(settings.validate(), Ok(()));
        let mut story = Story {
            settings,
            seen: Seen::default(),
            scale: Scale::new("p"),
            seconds: 0,
            last: None,
        };
        story.seen.listed = Some([].into());
        story.has(BY_HAND, Part::Owns);
        for number in 1..servers {
            story.runs(&format!("p-{number}"));
            story.has(&address(&format!("p-{number}")), Part::Owns);
        }
        story
    }

    pub fn has(&mut self, address: &str, part: Part) {
        let server = PoolServer {
            part,
            is_unreached: false,
        };
        self.seen.pool.insert(address.into(), server);
    }

    pub fn runs(&mut self, name: &str) {
        let listed = self.seen.listed.as_mut().expect("it says what it runs");
        listed.insert(name.into(), address(name));
    }

    /// Requests per second of each server.
    pub fn loaded(&mut self, requests: f64) {
        self.seen.measures.requests_per_server = Some(requests);
    }

    /// Time passes, and something is decided. What was heard is heard once.
    pub fn after(&mut self, seconds: u64) -> &Decision {
        self.seconds += seconds;
        let now = Instant::from_millis(self.seconds * 1_000);
        let decision = decide(now, &self.scale, &self.settings, &self.seen);
        self.scale = decision.scale.clone();
        self.seen.outcome = None;
        self.seen.is_approved = false;
        println!("{} s: {}", self.seconds, decision.why);
        self.last.insert(decision)
    }

    pub fn hears(&mut self, outcome: Outcome) -> &Decision {
        self.seen.outcome = Some(outcome);
        self.after(0)
    }

    pub fn done(&mut self) -> &Decision {
        let act = self.act().expect("something is to be done");
        self.hears(match act {
            Act::Start { name } => {
                let address = address(&name);
                Outcome::Started { name, address }
            }
            act => Outcome::Done(act),
        })
    }

    pub fn fails(&mut self, why: &str) -> &Decision {
        let act = self.act().expect("something is to be done");
        self.hears(Outcome::Failed(act, why.into()))
    }

    pub fn act(&self) -> Option<Act> {
        self.last.as_ref()?.act.clone()
    }

    pub fn name(&self) -> PhaseName {
        self.scale.phase().name()
    }

    /// Another leader goes on with what was saved.
    pub fn passes_on(&mut self) {
        let saved = serde_json::to_string(&self.scale).unwrap();
        let read: Scale = serde_json::from_str(&saved).unwrap();
        assert_eq!(read.contradiction(), None);
        // Its clock began at another time.
        self.seconds += 1_000;
        self.scale = read.restored(Instant::from_millis(self.seconds * 1_000));
    }

    /// Until the server that is started may be tried.
    pub fn starts(&mut self, name: &str) {
        self.loaded(31_000.0);
        self.after(1);
        let start = Act::Start { name: name.into() };
        assert_eq!(self.after(30).act, Some(start));
        let address = address(name);
        assert_eq!(self.done().act, Some(Act::Try { address }));
    }

    /// Until a server has joined that was started.
    pub fn joins(&mut self, name: &str) {
        self.starts(name);
        for _ in 0..10 {
            self.done();
        }
        let address = address(name);
        let join = Act::Join {
            address: address.clone(),
        };
        assert_eq!(self.act(), Some(join));
        self.runs(name);
        self.has(&address, Part::Comes);
        assert_eq!(self.after(1).act, None);
        self.has(&address, Part::Owns);
        self.after(10);
    }

    /// Until the ring lets go of one.
    pub fn drains(&mut self, name: &str) {
        self.loaded(5_000.0);
        self.after(1);
        let address = address(name);
        let drain = Act::Drain {
            address: address.clone(),
        };
        assert_eq!(self.after(30).act, Some(drain));
        self.has(&address, Part::Leaves);
        assert_eq!(self.after(1).act, None);
    }
}

pub fn address(name: &str) -> String {
    format!("{name}.cache:11211")
}

pub fn band(lower: f64, upper: f64) -> Option<Band> {
    Some(Band { lower, upper })
}
