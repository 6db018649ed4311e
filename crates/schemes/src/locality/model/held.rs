//! Round trips of a command where one rack holds each item: Snoop and Dir as our proxies run them ([`holder`](crate::locality::holder)).
//!
//! Counted are the rounds that an application waits for, one after the other. What is asked side by side is one round, to the farthest that is
//! asked. A test goes through all of them with the machines themselves.

use crate::locality::Outcome;
use crate::locality::holder::Kind;

/// Where an item is, as seen from the rack in which a command is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// In the own rack.
    Here,
    /// In another one, and a note leads there.
    Elsewhere,
    /// In none, and nothing of it is left.
    Nowhere,
}

/// Rounds, by whom they go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// To the own rack.
    pub own: u8,
    /// To the directory.
    pub directory: u8,
    /// To another rack, or to several.
    pub other: u8,
}

impl Rounds {
    const fn new(own: u8, directory: u8, other: u8) -> Self {
        Rounds {
            own,
            directory,
            other,
        }
    }
}

/// The rounds of a command that ends so where an item is there; `None` where it cannot end so. A `get` finds out by its own first round, a set whose
/// unique is remembered spares the first.
pub fn rounds(kind: Kind, outcome: Outcome, held: Held) -> Option<Rounds> {
    use Held::{Elsewhere, Here, Nowhere};
    use Outcome::{
        AddHit, AddMiss, AppendHit, AppendMiss, CasExists, CasNotFound, CasStored, DecrHit,
        DecrMiss, DeleteHit, DeleteMiss, GetHit, GetMiss, IncrHit, IncrMiss, ReplaceHit,
        ReplaceMiss, SetHit, SetMiss,
    };
    let by_directory = kind == Kind::Directory;
    // Whose turn it is to be asked where an item is not here.
    let asked = u8::from(by_directory);
    Some(match (outcome, held) {
        (GetHit, Here) => Rounds::new(1, 0, 0),
        (GetHit, Elsewhere) => Rounds::new(1, asked, 1),
        (GetMiss, Nowhere) => Rounds::new(1, asked, 0),

        (SetHit | SetMiss, Here) => Rounds::new(2, 0, 0),
        // The mark at the own place is kept. Behind a directory nothing is there.
        (SetHit | SetMiss, Elsewhere) if by_directory => Rounds::new(3, 2, 1),
        (SetHit | SetMiss, Elsewhere) => Rounds::new(2, 0, 1),
        (SetHit | SetMiss, Nowhere) if by_directory => Rounds::new(3, 3, 1),
        (SetHit | SetMiss, Nowhere) => Rounds::new(3, 0, 1),

        (AddHit, Nowhere) if by_directory => Rounds::new(3, 4, 1),
        (AddHit, Nowhere) => Rounds::new(3, 0, 1),
        (AddMiss, Here) => Rounds::new(1, 0, 0),
        (AddMiss, Elsewhere) => Rounds::new(1, asked, 1),

        (ReplaceHit | AppendHit | IncrHit | DecrHit | DeleteHit | CasStored | CasExists, Here) => {
            Rounds::new(2, 0, 0)
        }
        (
            ReplaceHit | AppendHit | IncrHit | DecrHit | DeleteHit | CasStored | CasExists,
            Elsewhere,
        ) => Rounds::new(1, asked, 2),
        (ReplaceMiss | AppendMiss | IncrMiss | DecrMiss | CasNotFound, Nowhere) => {
            Rounds::new(1, asked, 0)
        }
        // It is deleted everywhere.
        (DeleteMiss, Nowhere) => Rounds::new(1, asked, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locality::holder::{
        Command, Heard, Machine, Next, Over, Racks, Shown, Site, Sites, Wish,
    };
    use crate::locality::topology::RackId;
    use crate::stage::Stage;
    use std::collections::BTreeMap;

    /// What lies at a place.
    #[derive(Clone, Copy, PartialEq)]
    enum Content {
        Item,
        Lock,
        Note(RackId),
    }

    /// The places of a key, each by its number: three racks, of which the first is the own one, and the directory.
    struct Places(BTreeMap<usize, (Content, u64)>);

    fn place(site: Site) -> usize {
        match site {
            Site::Rack(rack) => rack.index(),
            Site::Directory => usize::MAX,
            Site::Former => unreachable!("there is none"),
        }
    }

    impl Places {
        fn put(&mut self, site: Site, content: Content) -> Heard {
            let unique = self.0.get(&place(site)).map_or(1, |(_, unique)| unique + 1);
            self.0.insert(place(site), (content, unique));
            Heard::Done(unique)
        }

        fn execute(&mut self, site: Site, command: Command, wish: Wish) -> Heard {
            let there = self.0.get(&place(site)).copied();
            let holds = |unique: u64| there.is_some_and(|(_, present)| present == unique);
            match command {
                Command::Own(None) if wish != Wish::Read => Heard::Done(0),
                Command::Look | Command::Own(None) => match there {
                    None => Heard::Nothing,
                    Some((Content::Item, unique)) => Heard::Item(unique),
                    Some((Content::Lock, unique)) => Heard::Lock(unique),
                    Some((Content::Note(rack), unique)) => Heard::Note(unique, rack),
                },
                Command::Fetch => unreachable!("there is no former pool"),
                Command::Lock if there.is_some() => Heard::Refused,
                Command::Lock => self.put(site, Content::Lock),
                Command::Note(rack, over) => {
                    let may = match over {
                        Over::Anything => true,
                        Over::Nothing => there.is_none(),
                        Over::Unique(unique) => holds(unique),
                    };
                    match may {
                        true => self.put(site, Content::Note(rack)),
                        false => Heard::Refused,
                    }
                }
                Command::Delete(None) => match self.0.remove(&place(site)) {
                    Some(_) => Heard::Done(0),
                    None => Heard::Nothing,
                },
                Command::Delete(Some(unique)) | Command::Own(Some(unique)) => match holds(unique) {
                    true => Heard::Done(0),
                    false => Heard::Refused,
                },
            }
        }
    }

    fn racks() -> [RackId; 3] {
        let mut all = RackId::all();
        [0; 3].map(|_| all.next().expect("there may be this many"))
    }

    /// What is there at first.
    fn places(kind: Kind, held: Held) -> Places {
        let [own, other, third] = racks();
        let mut places = Places(BTreeMap::new());
        let holder = match held {
            Held::Here => own,
            Held::Elsewhere => other,
            Held::Nowhere => return places,
        };
        places.put(Site::Rack(holder), Content::Item);
        let noted: Vec<Site> = match kind {
            Kind::Snoop => [own, other, third].map(Site::Rack).to_vec(),
            Kind::Directory => vec![Site::Directory],
        };
        for site in noted.into_iter().filter(|it| *it != Site::Rack(holder)) {
            places.put(site, Content::Note(holder));
        }
        places
    }

    fn wish(outcome: Outcome) -> Option<Wish> {
        Some(match outcome {
            Outcome::GetHit | Outcome::GetMiss => Wish::Read,
            Outcome::SetHit | Outcome::SetMiss => Wish::Set,
            Outcome::AddHit | Outcome::AddMiss => Wish::Add,
            Outcome::DeleteHit | Outcome::DeleteMiss => Wish::Delete,
            Outcome::CasStored | Outcome::CasExists | Outcome::CasNotFound => Wish::Touch,
            Outcome::Flush | Outcome::Other => return None,
            _ => Wish::Change,
        })
    }

    /// The rounds that a machine takes until something is shown, and what that is.
    fn walk(kind: Kind, wish: Wish, held: Held) -> (Rounds, Shown) {
        let [own, ..] = racks();
        let all = Racks::new(own, racks());
        let mut places = places(kind, held);
        let mut rounds = Rounds::default();
        let (mut machine, mut next) = match wish {
            Wish::Read => {
                rounds.own += 1;
                match places.execute(Site::Rack(own), Command::Own(None), wish) {
                    Heard::Item(_) => return (rounds, Shown::Own),
                    Heard::Nothing if kind == Kind::Snoop => return (rounds, Shown::Miss),
                    found => Machine::of_read(kind, all, found, Stage::Done),
                }
            }
            wish => Machine::of_asked(kind, wish, all, None, Stage::Done),
        };
        loop {
            if let Some(shown) = next.show {
                return (rounds, shown);
            }
            let (command, sites): (Command, Sites) = next.ask.expect("it goes on");
            let is_other = |site: Site| site != Site::Rack(own) && site != Site::Directory;
            match () {
                () if sites.iter().any(is_other) => rounds.other += 1,
                () if sites.has(Site::Directory) => rounds.directory += 1,
                () => rounds.own += 1,
            }
            next = Next::default();
            for site in sites.iter() {
                let heard = places.execute(site, command, wish);
                next = machine.handle(site, heard);
            }
        }
    }

    #[test]
    fn commands_take_the_rounds_that_their_machines_take() {
        for kind in [Kind::Snoop, Kind::Directory] {
            for outcome in Outcome::ALL {
                for held in [Held::Here, Held::Elsewhere, Held::Nowhere] {
                    let Some(wish) = wish(outcome) else {
                        assert_eq!(rounds(kind, outcome, held), None);
                        continue;
                    };
                    let (took, shown) = walk(kind, wish, held);
                    let is_stored = !matches!(shown, Shown::Miss | Shown::NotStored);
                    let ends_so = match outcome {
                        Outcome::SetHit | Outcome::SetMiss => true,
                        Outcome::CasExists => is_stored,
                        outcome => is_stored == outcome.is_hit(),
                    };
                    let expected = ends_so.then_some(took);
                    assert_eq!(
                        rounds(kind, outcome, held),
                        expected,
                        "{kind:?} {outcome:?} {held:?} {shown:?}"
                    );
                }
            }
        }
    }

    const HEAD: &str = "## Round trips of Snoop and Directory

What an application waits for, one after the other: `own` of its own rack, `directory`, `other` of another rack, or of several side by side. *Here* the own rack holds the item; *elsewhere* another does, and the own place has its note (Snoop) or nothing (Directory);
*nowhere* nothing of it is left. The table is made by the steps themselves: `EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-schemes page` writes it anew. In SDC each outcome is one round trip to the backbone, in SDS one to the key's rack; SDR's are [above](#as-they-ship).

| outcome | where it is | Snoop | Directory |
|---|---|---|---|
";

    const BELOW: &str = "
A set of what the own rack holds takes one round trip where the proxy remembers its unique. `touch` and `gat` take those of `incr`. A flush goes to all racks at once. Answers are memcached's.

";

    fn words(rounds: Rounds) -> String {
        let parts = [
            (rounds.own, "own"),
            (rounds.directory, "directory"),
            (rounds.other, "other"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts
            .map(|(count, whom)| match count {
                1 => whom.to_owned(),
                count => format!("{count} {whom}"),
            })
            .collect();
        parts.join(" + ")
    }

    #[test]
    fn the_page_of_locality_has_these_round_trips() {
        let mut page = HEAD.to_owned();
        for outcome in Outcome::ALL {
            for held in [Held::Here, Held::Elsewhere, Held::Nowhere] {
                let of = |kind| rounds(kind, outcome, held).map(words);
                if let (Some(snoop), Some(directory)) = (of(Kind::Snoop), of(Kind::Directory)) {
                    let place = format!("{held:?}").to_lowercase();
                    page += &format!("| {} | {place} | {snoop} | {directory} |\n", outcome.word());
                }
            }
        }
        evenkeel_testkit::page::check_part("locality.md", &(page + BELOW));
    }
}
