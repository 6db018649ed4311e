//! Rings against simple twins, and against what every ring has to keep.

use super::*;
use evenkeel_testkit::seed;
use evenkeel_types::random::SplitMix64;

/// The pairs of servers that are adjacent, of which the second can give to the first; by another way than the
/// product's.
pub(super) fn pairs(ring: &Ring) -> Vec<(u16, u16)> {
    let mut pairs = Vec::new();
    let count = ring.slices().len();
    for slice in (0..count).filter(|&slice| ring.width(slice) > 0) {
        let behind = ring.slices()[(slice + count - 1) % count].owner;
        let owner = ring.slices()[slice].owner;
        if behind != owner && !pairs.contains(&(behind, owner)) {
            pairs.push((behind, owner));
        }
    }
    pairs
}

/// Fails unless a ring keeps what all do.
pub(super) fn check(ring: &Ring) {
    let slices = ring.slices();
    assert!((1..=SLICES_MAX).contains(&slices.len()));
    assert!(slices.windows(2).all(|pair| pair[0].end <= pair[1].end));
    let widths: Vec<u64> = (0..slices.len()).map(|slice| ring.width(slice)).collect();
    assert_eq!(widths.iter().sum::<u64>(), HASHES);
    assert!(widths[0] > 0, "the first slice has hash 0");
    for (slice, of) in slices.iter().enumerate() {
        assert!(usize::from(of.owner) < ring.servers());
        assert!(of.generation <= ring.generation());
        let next = (slice + 1) % slices.len();
        let agree = slices[next].generation == of.generation;
        if slices.len() > 1 && slices[next].owner == of.owner {
            assert!(!agree && widths[slice] > 0 && widths[next] > 0, "{slice}");
        }
    }
    assert_eq!(ring.shares().iter().sum::<u64>(), HASHES);
    let document = RingDocument::from(ring.clone());
    assert_eq!(Ring::try_from(document).as_ref(), Ok(ring));
    let runs = ring.runs();
    assert_eq!(runs.iter().map(|run| run.width).sum::<u64>(), HASHES);
    for (at, run) in runs.iter().enumerate() {
        let behind = runs[(at + runs.len() - 1) % runs.len()].owner;
        assert_eq!(run.behind, behind);
        assert!(runs.len() == 1 || run.owner != behind);
        assert!(run.width == 0 || ring.owner(run.first) == run.owner);
    }
}

/// Twin of the look-up: one slice after the other.
fn plain(ring: &Ring, hash: u32) -> Slice {
    let found = ring.slices().iter().find(|slice| slice.end >= hash);
    *found.unwrap_or(&ring.slices()[0])
}

/// Hashes at which something may change.
fn near(ring: &Ring, random: &mut SplitMix64) -> Vec<u32> {
    let ends = ring.slices().iter().map(|slice| slice.end);
    let near = ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]);
    let some: Vec<u32> = (0..50).map(|_| random.next_u64() as u32).collect();
    near.chain(some).chain([0, 1, u32::MAX]).collect()
}

fn random_part(random: &mut SplitMix64) -> Part {
    // Of all sizes, some of one hash.
    let width = random.next_u64() as u32 >> random.below(32);
    let first = random.next_u64() as u32;
    Part {
        first,
        last: first.wrapping_add(width >> 2),
    }
}

fn is_in(part: &Part, hash: u32) -> bool {
    hash.wrapping_sub(part.first) <= part.last.wrapping_sub(part.first)
}

/// A few changes at random, to begin with something odd.
fn random_ring(random: &mut SplitMix64) -> Ring {
    let servers = 1 + random.below(7) as usize;
    let mut ring = Ring::even(servers, 1 + random.below(20) as usize).unwrap();
    for _ in 0..random.below(12) {
        let runs = ring.runs();
        let run = runs[random.below(runs.len() as u64) as usize];
        let part = match random.below(3) {
            0 => random_part(random),
            1 => run.lower(run.width).unwrap_or(Part { first: 0, last: 9 }),
            _ => run
                .lower(1 + run.width / 3)
                .unwrap_or(Part { first: 5, last: 5 }),
        };
        let to = random.below(servers as u64) as u16;
        ring = ring.moved(&[Move { part, to }]).unwrap();
    }
    ring
}

#[test]
fn a_hash_is_found_where_a_plain_search_finds_it() {
    let mut random = SplitMix64::new(seed(0xf1d));
    for _ in 0..300 {
        let ring = random_ring(&mut random);
        check(&ring);
        for hash in near(&ring, &mut random) {
            let slice = plain(&ring, hash);
            assert_eq!(ring.owner(hash), slice.owner, "{hash:#x} of {ring:?}");
            assert_eq!(ring.slices()[ring.slice_of(hash)], slice);
        }
    }
}

#[test]
fn what_moves_is_the_part_and_nothing_else_and_pairs_stay_adjacent() {
    let mut random = SplitMix64::new(seed(0x307e));
    for round in 0..400 {
        let ring = random_ring(&mut random);
        let mut moves: Vec<Move> = Vec::new();
        for _ in 0..1 + random.below(5) {
            let part = random_part(&mut random);
            let to = random.below(ring.servers() as u64) as u16;
            if moves.iter().all(|other| !other.part.overlaps(&part)) {
                moves.push(Move { part, to });
            }
        }
        let after = ring.moved(&moves).unwrap();
        check(&after);
        assert_eq!(after.generation(), ring.generation() + 1);
        let mut hashes = near(&ring, &mut random);
        hashes.extend(near(&after, &mut random));
        for hash in hashes {
            let of = |ring: &Ring| {
                let slice = plain(ring, hash);
                (slice.owner, slice.generation)
            };
            let moved = moves.iter().find(|of| is_in(&of.part, hash));
            let expected = moved.map_or(of(&ring), |moved| (moved.to, after.generation()));
            assert_eq!(of(&after), expected, "{hash:#x}, round {round}");
        }
        // A giver with a single hash has nothing to cut.
        let shares = after.shares();
        let kept = pairs(&after);
        for pair in pairs(&ring) {
            let widest = (0..after.slices().len())
                .filter(|&slice| after.slices()[slice].owner == pair.1)
                .map(|slice| after.width(slice));
            let can_give = widest.max().unwrap_or(0) > 1;
            assert!(kept.contains(&pair) || !can_give, "{pair:?} {shares:?}");
        }
    }
}

#[test]
fn the_paper_gives_the_lower_part_of_a_run_to_the_server_behind_it() {
    let ring = Ring::even(5, 4).unwrap();
    let runs = ring.runs();
    let run = runs[7];
    let part = run.lower(1_073_741).unwrap();
    let to = run.behind;
    let after = ring.moved(&[Move { part, to }]).unwrap();
    let (was, is) = (ring.shares(), after.shares());
    assert_eq!(is[usize::from(to)], was[usize::from(to)] + 1_073_741);
    assert_eq!(
        is[usize::from(run.owner)],
        was[usize::from(run.owner)] - 1_073_741
    );
    assert_eq!(after.slices().len(), 21, "one of a new generation");
    assert_eq!(after.runs().len(), 20);
}

#[test]
fn a_pair_whose_slice_moved_as_a_whole_has_a_place_of_no_width() {
    let ring = Ring::even(3, 2).unwrap();
    let run = ring.runs()[2];
    let part = run.lower(run.width).unwrap();
    let after = ring
        .moved(&[Move {
            part,
            to: run.behind,
        }])
        .unwrap();
    assert_eq!(pairs(&after).len(), 6);
    let empty = (0..after.slices().len()).filter(|&slice| after.width(slice) == 0);
    assert!(empty.count() >= 1);
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let ring = Ring::even(3, 10).unwrap();
    let part = |first, last| Part { first, last };
    let to = |part, to| Move { part, to };
    let twice = [to(part(u32::MAX, 10), 0), to(part(5, 20), 1)];
    assert_eq!(
        ring.moved(&twice).unwrap_err().to_string(),
        "hashes 0x00000005 to 0x0000000a are told to move twice"
    );
    let unknown = ring.moved(&[to(part(0, 1), 3)]).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no server 3 among 3");
    let many: Vec<Move> = (0..40_000u32).map(|i| to(part(i * 4, i * 4), 2)).collect();
    assert!(matches!(
        ring.moved(&many),
        Err(BadChange::TooManySlices { .. })
    ));
    assert_eq!(ring.moved(&[]), Ok(ring.clone()));
    for costs in [&[1.0, 2.0][..], &[1.0, f64::NAN, 1.0], &[1.0, -1.0, 1.0]] {
        assert!(matches!(
            ring.without_server(0, costs),
            Err(BadChange::BadCosts { .. })
        ));
    }
    for (server, gives) in [(4, &[1, 1, 1][..]), (0, &[1, 1, 1]), (3, &[1, 1])] {
        assert!(matches!(
            ring.with_server(server, gives),
            Err(BadChange::BadNewcomer { .. })
        ));
    }
    let nothing = ring.with_server(3, &[0; 3]);
    assert_eq!(nothing, Err(BadChange::NothingGiven));
    let gone = ring.without_server(9, &[1.0; 3]).unwrap_err();
    assert_eq!(gone.to_string(), "there is no server 9 among 3");
    let alone = Ring::even(1, 10).unwrap().without_server(0, &[1.0]);
    assert_eq!(alone, Err(BadChange::LastServer { server: 0 }));
}

#[test]
fn a_newcomer_takes_what_each_gives_and_is_beside_everybody() {
    let mut random = SplitMix64::new(seed(0xadd));
    for n in [1, 2, 3, 5, 12, 20] {
        let ring = Ring::even(n, Ring::VIRTUAL_NODES).unwrap();
        let gives: Vec<u16> = (0..n)
            .map(|_| [0, 1, GIVES_ALL / 2, GIVES_ALL - 1][random.below(4) as usize])
            .collect();
        let Ok(after) = ring.with_server(n as u16, &gives) else {
            assert!(gives.iter().all(|given| *given == 0), "{gives:?}");
            continue;
        };
        check(&after);
        let (was, is) = (ring.shares(), after.shares());
        let runs = ring.slices().len() as u64;
        for server in 0..n {
            let given = was[server] * u64::from(gives[server]) / u64::from(GIVES_ALL);
            assert!(
                is[server].abs_diff(was[server] - given) <= runs,
                "{n} {server}"
            );
        }
        assert_eq!(pairs(&after).len(), (n + 1) * n, "{n}");
    }
}

#[test]
fn a_newcomer_may_take_the_place_of_a_server_that_has_gone() {
    let ring = Ring::even(3, 10).unwrap();
    let without = ring.without_server(1, &[1.0; 3]).unwrap();
    let gives = [GIVES_ALL / 3; 3];
    let back = without.with_server(1, &gives).unwrap();
    check(&back);
    assert_eq!(back.servers(), 3);
    assert_eq!(back.generation(), 2);
    assert_eq!(pairs(&back).len(), 6);
    let third = back.shares()[1] as f64 / HASHES as f64;
    assert!((third - 1.0 / 3.0).abs() < 0.01, "{third}");
}

#[test]
fn neighbours_share_what_a_lost_server_had_inversely_to_their_costs() {
    // Its runs lie between those of 0 and 2 and of 2 and 0.
    let ring = Ring::even(3, 2).unwrap();
    let costs = [0.75, 0.9, 0.25];
    let after = ring.without_server(1, &costs).unwrap();
    check(&after);
    let share = |n: usize| (after.shares()[n] - ring.shares()[n]) as f64 / ring.shares()[1] as f64;
    let [before, behind] = [share(0), share(2)];
    assert_eq!(after.shares()[1], 0);
    assert!((before + behind - 1.0).abs() < 1e-9);
    assert!((before - 0.25).abs() < 1e-6, "{before} {behind}");
    let mut random = SplitMix64::new(seed(0x1057));
    for _ in 0..300 {
        let ring = random_ring(&mut random);
        let costs: Vec<f64> = (0..ring.servers()).map(|_| random.unit() - 1e-9).collect();
        let lost = random.below(ring.servers() as u64) as u16;
        let after = match ring.without_server(lost, &costs) {
            Ok(after) => after,
            Err(error) => {
                let server = usize::from(lost);
                assert_eq!(error, BadChange::LastServer { server });
                assert!(ring.slices().iter().all(|slice| slice.owner == lost));
                continue;
            }
        };
        check(&after);
        assert!(after.slices().iter().all(|slice| slice.owner != lost));
        for hash in near(&ring, &mut random) {
            let (was, is) = (plain(&ring, hash), plain(&after, hash));
            match was.owner == lost {
                true => assert_eq!(is.generation, ring.generation() + 1),
                false => assert_eq!((is.owner, is.generation), (was.owner, was.generation)),
            }
        }
        let heirs: Vec<(u16, Run)> = heirs(&ring, lost);
        for (ahead, run) in heirs {
            let [i, j] = [run.behind, ahead].map(|owner| costs[usize::from(owner)]);
            let lower = (run.width as f64 * (j / (i + j))) as u64;
            if lower > 0 {
                assert_eq!(after.owner(run.first), run.behind);
            }
            if lower < run.width {
                let last = run.lower(run.width).unwrap().last;
                assert_eq!(after.owner(last), ahead);
            }
        }
    }
}

/// The runs of a server that have hashes, with the server ahead of each.
fn heirs(ring: &Ring, lost: u16) -> Vec<(u16, Run)> {
    let runs = ring.runs();
    let of_lost = (0..runs.len()).filter(|&at| runs[at].owner == lost && runs[at].width > 0);
    of_lost
        .map(|at| (runs[(at + 1) % runs.len()].owner, runs[at]))
        .collect()
}

#[test]
fn past_a_length_the_shortest_neighbours_of_one_owner_are_joined() {
    let mut ring = Ring::even(2, 8).unwrap();
    assert_eq!(ring.joined(), None);
    // Every other slice of 10 hashes has a generation of its own; all stay with their owner.
    let mut generations: Vec<Slice> = Vec::new();
    for i in 0..9_000u32 {
        generations.push(Slice {
            end: (i + 1) * 10 - u32::from(i == 4_000),
            owner: 0,
            generation: u64::from(i),
        });
    }
    generations.push(Slice {
        end: u32::MAX,
        owner: 1,
        generation: 0,
    });
    ring = Ring::of_slices(2, 9_000, generations);
    check(&ring);
    let joined = ring.joined().unwrap();
    check(&joined);
    assert_eq!(joined.slices().len(), ring.slices().len() - 1);
    assert_eq!(joined.shares(), ring.shares());
    assert_eq!(plain(&joined, 40_005).generation, 9_001, "the shortest two");
    // Nobody has two side by side.
    assert_eq!(Ring::even(256, 1).unwrap().joined(), None);
}

#[test]
fn grains_are_slices_cut_at_every_4096th() {
    let mut random = SplitMix64::new(seed(0x62a1));
    for _ in 0..100 {
        let ring = random_ring(&mut random);
        let grains = ring.grains();
        let mut next = 0u64;
        for grain in &grains {
            assert_eq!(u64::from(grain.part.first), next);
            next = u64::from(grain.part.last) + 1;
            assert_eq!(grain.part.first >> 20, grain.part.last >> 20);
            assert_eq!(grain.owner, plain(&ring, grain.part.first).owner);
            assert_eq!(
                ring.slice_of(grain.part.first),
                ring.slice_of(grain.part.last)
            );
        }
        assert_eq!(next, HASHES);
        for hash in near(&ring, &mut random) {
            assert!(is_in(&grains[grain_of(&grains, hash)].part, hash));
        }
        let wide = (0..ring.slices().len()).filter(|&slice| ring.width(slice) > 0);
        assert!(grains.len() <= wide.count() + GRAINS_OF_RING as usize);
    }
}

#[test]
fn a_ring_is_read_back_from_json() {
    let ring = random_ring(&mut SplitMix64::new(5));
    let text = serde_json::to_string(&ring).unwrap();
    assert_eq!(serde_json::from_str::<Ring>(&text).unwrap(), ring);
    assert!(
        serde_json::from_str::<Ring>("{\"servers\":1,\"generation\":0,\"slices\":[]}").is_err()
    );
}

#[test]
fn bad_documents_are_refused_and_say_where() {
    let good = RingDocument::from(Ring::even(3, 2).unwrap());
    let refused = |change: &dyn Fn(&mut RingDocument)| {
        let mut bad = good.clone();
        change(&mut bad);
        Ring::try_from(bad).unwrap_err().to_string()
    };
    for (change, words) in [
        (
            &(|d: &mut RingDocument| d.slices[2].after += 1) as &dyn Fn(&mut RingDocument),
            "slice 2 begins behind 0x55555556, and the one before it ends at 0x55555555: a gap",
        ),
        (
            &|d| d.slices[2].after -= 9,
            "slice 2 begins behind 0x5555554c, before the one before it ends at 0x55555555: they overlap",
        ),
        (
            &|d| d.slices[4].owner = 3,
            "slice 4 belongs to server 3, and there are 3",
        ),
        (
            &|d| d.slices[5].generation = 1,
            "slice 5 has generation 1, and the highest is 0",
        ),
        (&|d| d.slices.clear(), "a ring has 1 to 65536 slices, not 0"),
        (
            &|d| d.slices = vec![d.slices[0]; 70_000],
            "a ring has 1 to 65536 slices, not 70000",
        ),
        (&|d| d.servers = 0, "a ring has 1 to 1024 servers, not 0"),
        (
            &|d| d.servers = 5000,
            "a ring has 1 to 1024 servers, not 5000",
        ),
        (
            &|d| d.slices[3].owner = d.slices[2].owner,
            "slice 3 is one with the slice before it",
        ),
    ] {
        assert_eq!(refused(change), words);
    }
    assert!(
        refused(&|d| {
            d.slices.pop();
        })
        .starts_with("slice 0 begins behind")
    );
    assert!(refused(&|d| d.slices.swap(1, 2)).starts_with("slice 1"));
}

/// Whatever a document says, it is a ring that keeps its laws, or an error.
#[test]
fn no_document_makes_a_broken_ring() {
    let mut random = SplitMix64::new(seed(0xbad));
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut document = RingDocument::from(random_ring(&mut random));
        for _ in 0..1 + random.below(2) {
            let count = document.slices.len() as u64;
            let at = random.below(count) as usize;
            let slice = &mut document.slices[at];
            match random.below(7) {
                0 => slice.after = random.next_u64() as u32,
                1 => slice.end = slice.after,
                2 => slice.end = slice.end.wrapping_add(random.below(3) as u32),
                3 => slice.owner = random.below(9) as u16,
                4 => slice.generation = random.below(9),
                5 => {
                    document.slices.remove(at);
                    if document.slices.is_empty() {
                        break;
                    }
                }
                _ => document.slices.rotate_left(at),
            }
        }
        if let Ok(ring) = Ring::try_from(document) {
            check(&ring);
            accepted += 1;
        }
    }
    assert!(accepted > 0);
}

#[test]
fn the_owners_of_a_part_are_those_of_its_hashes() {
    let mut random = SplitMix64::new(seed(0x0117));
    for round in 0..200 {
        let ring = random_ring(&mut random);
        let part = random_part(&mut random);
        let owners = ring.owners_of(part);
        let inside = near(&ring, &mut random).into_iter();
        let inside = inside.filter(|&hash| is_in(&part, hash));
        // Each slice that begins or ends in the part, and the one in which the part begins.
        let found = inside.chain([part.first, part.last]);
        let found = found.map(|hash| plain(&ring, hash).owner).collect();
        assert_eq!(owners, found, "{part:?}, round {round}");
    }
}

#[test]
fn parts_of_a_server_are_of_about_so_many_grains_and_few() {
    let mut random = SplitMix64::new(seed(0x6a15));
    for round in 0..200 {
        let ring = random_ring(&mut random);
        let owner = random.below(ring.servers() as u64) as u16;
        let grains = random.below(300) as u32;
        let most = 1 + random.below(64) as usize;
        let parts = ring.parts_of(owner, grains, most);
        assert!(parts.len() <= most);
        assert!(parts.windows(2).all(|pair| pair[0].last < pair[1].first));
        for part in &parts {
            let owners: Vec<u16> = ring.owners_of(*part).into_iter().collect();
            assert_eq!(owners, [owner], "{part:?}, round {round}");
        }
        let wanted = u64::from(grains) << 20;
        let width: u64 = parts.iter().map(Part::width).sum();
        assert!(width < wanted + (1 << 20), "{width}, round {round}");
        let has_all = width == ring.shares()[usize::from(owner)];
        assert!(width >= wanted || has_all || parts.len() == most);
    }
    let ring = Ring::even(2, 1).unwrap();
    let parts = ring.parts_of(1, 3, 64);
    let first = ring.slices()[1].end - (ring.width(1) - 1) as u32;
    let (owner, last) = (1, (first | 0xf_ffff) + (2 << 20));
    assert_eq!(ring.slices()[1].owner, owner);
    assert_eq!(parts, [Part { first, last }]);
}

#[test]
fn a_generation_that_was_taken_back_is_not_given_out_again() {
    let ring = Ring::even(3, 10).unwrap();
    let part = Part { first: 0, last: 99 };
    let moves = [Move { part, to: 2 }];
    let withdrawn = ring.moved(&moves).unwrap().generation();
    let spent = ring.clone().with_spent(withdrawn);
    assert_eq!(spent.slices(), ring.slices());
    assert_eq!(spent.moved(&moves).unwrap().generation(), withdrawn + 1);
    assert_eq!(spent.clone().with_spent(0), spent);
}
