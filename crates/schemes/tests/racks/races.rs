//! Racks that set one key at once, by the paper's own steps (Talaga and Chapin, section 4) and by those of the crate: how many racks hold it when all
//! are answered, and what is read then.
//!
//! Of all requests that are under way, one by chance is executed next: each takes a time by chance, and on average all take as long. Nothing is evicted,
//! nothing is given up. The paper's steps look at nothing before they store, and stand here alone.

use crate::key::{place_of, rack_id, site_of};
use crate::register::{INITIAL, Kind, value_of};
use crate::servers::{Content, Servers};
use evenkeel_schemes::locality::holder::{
    Command, Heard, Kind as Protocol, Machine, Next, Over, Racks, Shown, Wish,
};
use evenkeel_schemes::stage::Stage;
use evenkeel_testkit::page::check_part;
use evenkeel_types::random::SplitMix64;

/// Keys of each row of the table.
const KEYS: usize = 10_000;

const SEED: u64 = 1;

/// What a writer asks.
#[derive(Clone, Copy)]
enum Asked {
    Command(Command),
    /// The paper's store: whatever is there.
    Store,
}

/// How a writer goes on.
enum Steps {
    Ours(Machine),
    Paper(Paper),
}

/// A writer that goes by the paper.
enum Paper {
    /// Snoop: notes go to all others, then the value to the own place.
    Telling,
    /// Directory: who holds it?
    Asking,
    /// It is deleted there.
    Clearing,
    /// Snoop ends so. The directory is told who holds it now.
    Storing,
    Noting,
}

struct Writer {
    op: usize,
    rack: usize,
    steps: Steps,
    /// Where what is under way.
    asked: Vec<(usize, Asked)>,
    is_stored: bool,
}

/// The places of a key.
struct World {
    protocol: Protocol,
    is_ours: bool,
    racks: usize,
    servers: Servers,
}

/// What has come of all keys.
#[derive(Debug, Default)]
struct Count {
    /// Keys that more than one rack holds when all writers are answered.
    held_twice: usize,
    /// Reads behind all answers that show another value than most of those of their key: one at most is the present one.
    old: usize,
    /// Reads that show another value than the one that a further writer has stored behind all that.
    older: usize,
    /// Writers that have given up, since others were in their way.
    busy: usize,
}

impl World {
    /// The first rack holds the item, and what is to lead there does.
    fn new(protocol: Protocol, is_ours: bool, racks: usize) -> Self {
        let places = racks + usize::from(protocol == Protocol::Directory);
        let mut servers = Servers::new(places, racks);
        servers.put(0, Content::Value(INITIAL));
        let noted = match protocol {
            Protocol::Snoop => 1..racks,
            Protocol::Directory => racks..places,
        };
        noted.for_each(|place| _ = servers.put(place, Content::Note(0)));
        World {
            protocol,
            is_ours,
            racks,
            servers,
        }
    }

    /// The racks as one of them sees them.
    fn seen_from(&self, rack: usize) -> Racks {
        Racks::new(rack_id(rack), (0..self.racks).map(rack_id))
    }

    fn writer(&self, op: usize, rack: usize) -> Writer {
        let (steps, asked) = match (self.is_ours, self.protocol) {
            (true, protocol) => {
                let racks = self.seen_from(rack);
                let (machine, next) =
                    Machine::of_asked(protocol, Wish::Set, racks, None, Stage::Done);
                (Steps::Ours(machine), asked(next, self.racks))
            }
            (false, Protocol::Snoop) => {
                let others = (0..self.racks).filter(|other| *other != rack);
                let asked = others.map(|place| (place, note_to(rack)));
                (Steps::Paper(Paper::Telling), asked.collect())
            }
            (false, Protocol::Directory) => {
                let asked = vec![(self.racks, Asked::Command(Command::Look))];
                (Steps::Paper(Paper::Asking), asked)
            }
        };
        Writer {
            op,
            rack,
            steps,
            asked,
            is_stored: false,
        }
    }

    /// A request is executed, and the writer asks what follows.
    fn step(&mut self, writer: &mut Writer, nth: usize) {
        let (place, carried_out) = writer.asked.swap_remove(nth);
        let heard = match carried_out {
            Asked::Command(command) => {
                let by = (writer.op, Kind::Set);
                self.servers.execute(place, command, by, None).0
            }
            Asked::Store => self.servers.put(place, Content::Value(value_of(writer.op))),
        };
        match &mut writer.steps {
            Steps::Ours(machine) => {
                let next = machine.handle(site_of(place, self.racks), heard);
                writer.is_stored |= next.show == Some(Shown::Own);
                writer.asked.extend(asked(next, self.racks));
            }
            Steps::Paper(paper) => {
                let store = (writer.rack, Asked::Store);
                let (now, asked) = match (&paper, heard) {
                    (Paper::Telling, _) if !writer.asked.is_empty() => return,
                    (Paper::Asking, Heard::Note(_, rack)) if rack != rack_id(writer.rack) => {
                        let clear = Asked::Command(Command::Delete(None));
                        (Paper::Clearing, Some((rack.index(), clear)))
                    }
                    (Paper::Telling | Paper::Asking | Paper::Clearing, _) => {
                        (Paper::Storing, Some(store))
                    }
                    (Paper::Storing, _) if self.protocol == Protocol::Directory => {
                        (Paper::Noting, Some((self.racks, note_to(writer.rack))))
                    }
                    (Paper::Storing | Paper::Noting, _) => (Paper::Noting, None),
                };
                *paper = now;
                writer.is_stored = asked.is_none();
                writer.asked.extend(asked);
            }
        }
    }

    /// What a read in a rack shows while nothing else is under way.
    fn read(&mut self, rack: usize) -> Option<u8> {
        let (heard, value) = self.look(rack);
        if let Heard::Item(_) = heard {
            return value;
        }
        if self.is_ours {
            return self.read_elsewhere(rack, heard);
        }
        let lead = match self.protocol {
            Protocol::Snoop => heard,
            Protocol::Directory => self.look(self.racks).0,
        };
        match lead {
            Heard::Note(_, holder) => self.look(holder.index()).1,
            _ => None,
        }
    }

    fn read_elsewhere(&mut self, rack: usize, found: Heard) -> Option<u8> {
        let racks = self.seen_from(rack);
        let (mut machine, mut next) = Machine::of_read(self.protocol, racks, found, Stage::Done);
        let mut value = None;
        loop {
            if let Some(shown) = next.show {
                return value.filter(|_| shown == Shown::Own);
            }
            let (_, sites) = next.ask.expect("it goes on");
            let site = sites
                .iter()
                .next()
                .expect("a read asks one after the other");
            let (heard, read) = self.look(place_of(site, self.racks));
            value = read;
            next = machine.handle(site, heard);
        }
    }

    fn look(&mut self, place: usize) -> (Heard, Option<u8>) {
        let reader = (0, Kind::Get);
        self.servers.execute(place, Command::Look, reader, None)
    }

    /// What reads in all racks show.
    fn read_everywhere(&mut self) -> Vec<u8> {
        (0..self.racks).filter_map(|rack| self.read(rack)).collect()
    }
}

/// What a machine asks next, by place.
fn asked(next: Next, racks: usize) -> Vec<(usize, Asked)> {
    let mut asked = Vec::new();
    if let Some((command, sites)) = next.ask {
        let places = sites.iter().map(|site| place_of(site, racks));
        asked.extend(places.map(|place| (place, Asked::Command(command))));
    }
    asked
}

/// A note that names this rack, over whatever is there.
fn note_to(rack: usize) -> Asked {
    Asked::Command(Command::Note(rack_id(rack), Over::Anything))
}

/// All racks write a key at once, then one of them by chance once more.
fn race(world: &mut World, random: &mut SplitMix64, count: &mut Count) {
    let racks = world.racks;
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    let mut writers: Vec<_> = (0..racks).map(|rack| world.writer(rack, rack)).collect();
    loop {
        let under_way: usize = writers.iter().map(|writer| writer.asked.len()).sum();
        if under_way == 0 {
            break;
        }
        let mut nth = below(under_way);
        for writer in &mut writers {
            if nth < writer.asked.len() {
                world.step(writer, nth);
                break;
            }
            nth -= writer.asked.len();
        }
    }
    count.busy += writers.iter().filter(|writer| !writer.is_stored).count();
    let holds = |rack: &usize| matches!(world.look(*rack), (Heard::Item(_), _));
    count.held_twice += usize::from((0..racks).filter(holds).count() > 1);
    let shown = world.read_everywhere();
    let alike = shown
        .iter()
        .map(|value| shown.iter().filter(|it| *it == value).count());
    count.old += shown.len() - alike.max().unwrap_or(0);
    let mut last = world.writer(racks, below(racks));
    while !last.asked.is_empty() {
        world.step(&mut last, 0);
    }
    assert!(last.is_stored, "nobody was in its way");
    let shown = world.read_everywhere();
    count.older += shown
        .iter()
        .filter(|value| **value != value_of(racks))
        .count();
}

fn count(protocol: Protocol, is_ours: bool, racks: usize) -> Count {
    let (mut random, mut count) = (SplitMix64::new(SEED), Count::default());
    for _ in 0..KEYS {
        race(
            &mut World::new(protocol, is_ours, racks),
            &mut random,
            &mut count,
        );
    }
    count
}

const HEAD: &str = "## Races of writers

What the paper describes as Snoop and Directory (its section 4) does not look at the own place before it stores. Where racks write a key at once, several can end up with the item, and each reads its own; of Snoop the paper says so, of Directory it does not.
The steps [above](#snoop-and-directory-the-steps) leave one holder at most.

For each row 10,000 keys were written, which the first rack held before: this many racks set each at once; with all answered it was read in each of them; then one of them by chance set it once more, and it was read in each of them again. Which request of those
under way is executed next is drawn by chance (seed 1); nothing is evicted, and nobody fails. *Old* is a read that shows another value than most of the reads of its key, and behind the further write any value but the one that was written then.
A writer whose command begins anew does so at once here, and behind a pause in a proxy, where fewer are `busy`. The paper's steps are in this test alone: `EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-schemes --test racks page` writes the table anew.

| racks that write | by the steps of | keys with two holders or more | old reads | old behind a further write | writes answered `busy` |
|---:|---|---:|---:|---:|---:|
";

#[test]
fn the_page_of_locality_has_these_races() {
    let mut page = HEAD.to_owned();
    for racks in 2..=4 {
        for protocol in [Protocol::Snoop, Protocol::Directory] {
            for is_ours in [false, true] {
                let Count {
                    held_twice,
                    old,
                    older,
                    busy,
                } = count(protocol, is_ours, racks);
                match is_ours {
                    true => assert_eq!([held_twice, old, older], [0; 3], "{protocol:?} {racks}"),
                    false => assert!(held_twice > 0 && old > 0, "{protocol:?} {racks}"),
                }
                let whose = if is_ours { "ours" } else { "the paper" };
                page += &format!(
                    "| {racks} | {protocol:?}, {whose} | {held_twice} | {old} | {older} | {busy} |\n"
                );
            }
        }
    }
    check_part("locality.md", &page);
}
