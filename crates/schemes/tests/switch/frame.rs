//! What a command asks of one architecture, and what it waits for there.

use crate::key::Scope;
use crate::register::Kind;
use crate::servers::{Ask, For, Layer, Place, RACKS, rack_id};
use evenkeel_schemes::locality::holder::{self, Command, Machine, Racks, Site, Wish};
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warm::Warming;

/// What a command waits for: the answers to what it asks of one architecture, with what came before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub layer: usize,
    pub kind: Kind,
    /// By which it goes there.
    pub stage: Stage,
    pub doing: Doing,
    pub asked: Vec<(Place, Ask)>,
    /// By place, in which of its lives a unique was learnt there.
    pub lives: Vec<(Place, u8)>,
    /// What was fetched.
    pub filled: Option<u8>,
    /// What an increment has been told it made.
    pub made: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// One request, or the first of a read.
    Single,
    Racks(Machine),
    Warm(Warming),
}

pub fn racks_of(rack: usize) -> Racks {
    Racks::new(rack_id(rack), (0..RACKS).map(rack_id))
}

/// Where a site of an architecture is.
pub fn place_of(layer: usize, site: Site) -> Place {
    let site = match site {
        Site::Rack(rack) => rack.index(),
        Site::Directory => RACKS,
        Site::Former => unreachable!("it is no place"),
    };
    Place { layer, site }
}

pub fn site_of(place: Place) -> Site {
    match place.site {
        RACKS => Site::Directory,
        rack => Site::Rack(rack_id(rack)),
    }
}

impl Frame {
    /// A command that an architecture executes by itself.
    pub fn new(
        layer: usize,
        kind: Kind,
        rack: usize,
        stage: Stage,
        scope: &Scope,
    ) -> (Self, holder::Next) {
        let mut frame = Frame {
            layer,
            kind,
            stage,
            doing: Doing::Single,
            asked: Vec::new(),
            lives: Vec::new(),
            filled: None,
            made: None,
        };
        let own = |ask| (place_of(layer, Site::Rack(rack_id(rack))), ask);
        let mut next = holder::Next::default();
        match scope.layers[layer] {
            Layer::Plain => {
                let place = place_of(layer, Site::Rack(rack_id(0)));
                frame.asked.push((place, Ask::Plain(kind)));
            }
            Layer::Racks(_) if kind.reads() => {
                frame.asked.push(own(Ask::Racks(Command::Own(None))));
            }
            Layer::Racks(protocol) => {
                let wish = match kind {
                    Kind::Set => Wish::Set,
                    Kind::Add => Wish::Add,
                    Kind::Delete => Wish::Delete,
                    _ => Wish::Change,
                };
                let begun = Machine::of_asked(protocol, wish, racks_of(rack), None, stage);
                frame.doing = Doing::Racks(begun.0);
                next = begun.1;
            }
        }
        (frame, next)
    }

    pub fn life(&self, place: Place) -> u8 {
        let known = self.lives.iter().find(|(at, _)| *at == place);
        known.map_or(0, |(_, life)| *life)
    }

    pub fn learn(&mut self, place: Place, life: u8) {
        self.lives.retain(|(at, _)| *at != place);
        self.lives.push((place, life));
    }

    pub fn by(&self, op: usize) -> For {
        let fills = match &self.doing {
            Doing::Racks(machine) => machine.wish() == Wish::Fill,
            Doing::Warm(_) => true,
            Doing::Single => false,
        };
        For {
            op,
            kind: self.kind,
            filled: self.filled.filter(|_| fills),
        }
    }
}
