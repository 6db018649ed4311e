//! `docs/schemes.md`: every combination of the four axes, as tables made by the code that decides.
//!
//! A test fails when the page says something else; `EVENKEEL_WRITE_DOCS=1` writes it anew.

use core::fmt::Write as _;

use crate::name::Kind;
use crate::{Placement, Read, Replication, Scheme, Support, Write};

#[test]
fn the_page_of_schemes_says_what_the_code_does() {
    evenkeel_testkit::page::check_page("schemes.md", &page());
}

const HEAD: &str = "# Schemes: where a key lives, and what is read and written

What a pool does with a key is a choice on four axes: where it lives, whether it has copies, which of them a read goes to, and what a
write does. `evenkeel explain KEY` names the scheme of a key's pool. These tables are made by the code that decides, and a test
compares them: after a change of it, `EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-schemes page` writes this page anew.

## What works

| scheme | which pools | promise |
|---|---|---|
";

const COMBINATIONS: &str = "
TLS goes with any pool of memcached servers. Failover and gutters go with those that are a list, and change where a key lives only while its server is out of use
([proxy](proxy.md)).

## Every combination

**works**, not built (it makes sense, and nothing implements it yet), or the number of the reason why it makes no sense.
";

const NAMES: &str = "
## Names of ours

Items of ours on servers that are not ours have names of their own: the byte `0x01`, a letter, a token of fixed length in the 64
letters `A` to `Z`, `a` to `z`, `0` to `9`, `-` and `_`, a colon, and the application's key. memcached's protocol allows no such byte in keys. In a
pool that uses names a key of an application that begins with it is answered `CLIENT_ERROR keys that begin with byte 0x01 are the proxy's`, and counted
(`keys_reserved` in `stats proxy`); other pools pass it on.

| letter | token | what it is | used |
|---|---:|---|---|
";

const MARKS: &str = "
## Marks

An item of ours under an application's own key is a mark: client flags 1163283276 (`EVKL`), and as its value the digit `1` for the format, a letter for
the kind, and sixteen hexadecimal digits.

| letter | what it is | digits |
|---|---|---|
| `p` | a placeholder: somebody brings the item | differ from mark to mark |
| `l` | a lock: somebody is about to store an item here, and tells other racks first | differ from mark to mark |
| `n` | a note: the item is in another rack | a hash (XXH3, 64 bits) of that rack's name |

Whatever has these flags is shown to nobody, in any dialect, also if it is of a format or kind that is not known. Pools with
`warm_from`, `distribution = \"adaptive\"`, or `architecture = \"snoop\"` or `\"dir\"` have marks; in these a store with the flags is refused (`CLIENT_ERROR client flags 1163283276 are the proxy's`, `flags_reserved`).
Other pools compare nothing. On each new connection to a memcached of such a pool the proxy sends `ms \\x01trial 0 c T-1`, which stores nothing that lasts: a server that
does not answer with a CAS unique has no meta commands, or no uniques (`-C`), and is out of use for this pool (`marks_refused` in `stats servers`).

## An item is brought from the former pool

In a pool with `warm_from` ([proxy](proxy.md#changing-servers-with-a-warm-cache)). *Here* is the new pool.

| a command | steps |
|---|---|
| `get` and other reads | here; a mark is a miss. If nothing is there: |
| | `ms KEY … ME c` here: a placeholder, with the unique u. If somebody is there: the read here once more |
| | `mg KEY v f t` at the former pool |
| | `ms KEY … Cu` here: the item, with what it has left to live, then it is shown. If that does not fit: the read here once more. Nothing was there: `md KEY Cu` |
| `set`, `delete` | `md KEY` at the former pool; when that is answered, the command here |
| `add`, `incr`, `append`, `cas`, `touch`, … | `mg KEY c f` here; if nothing is there, it is brought as above, and a mark is taken over by its unique |
| | `md KEY` at the former pool |
| | the command here, with `C` of what was found or brought. If that does not fit: from the beginning, eight times at most |

What rests on a unique goes over the connection on which it was learnt: a server that was started anew counts from one. Why nothing old is
read, and what each step is for, is searched by `crates/schemes/tests/warm/`, on the code that ships.

## A pool changes its servers in stages

| stage | reads | writes |
|---|---|---|
| former | at the former servers | at the former servers |
| quiesced | wait | wait |
| warming | here; what is not here is brought | as above |
| closing | here | as above; nothing is brought |
| done | here | here |

Two neighbours are right side by side for as long as it takes; no two that stand further apart are. Where a coordinator leads
(`pool_coordinator`), it publishes the next stage when every proxy that follows the pool has acknowledged the present one, and a proxy acknowledges
when nothing that it began by an earlier one is under way: writes at the former servers before `quiesced`, operations before `closing` and before
`done`. No clock decides. A proxy that is silent holds the change up, and nobody's serving. `quiesced` can be withdrawn; behind it
items are here that the former servers do not have.

A store that its proxy has given up, or that a killed proxy has sent, may arrive at a former server at any time: nobody waits for it. It is seen by
nobody before it is stored here, since reads wait in `quiesced` and show what they have stored, not what they have fetched.

`crates/schemes/tests/change/` searches leader and proxies with crashes of both, on the code that ships, and `tests/warm/` the stages.

## A slice of a ring moves

A move goes through the same stages, from a name to a name: the item's name holds the slice's generation, which is new with every plan, and
applications see uniques under the generation's mask. So a slice may come back to a server that still has its old items, and a unique that was
read before a move fits nothing behind it. A plan follows another that has ended in `done` or was withdrawn. Where a server is lost, nobody is
asked (a read is a miss, a write an error) from any stage on, at once; when all have acknowledged that, another server has the slice under a
new generation. What is on its way to the lost server is not waited for: nobody looks there again. In the product that is a plan with the same five stages:
in `quiesced` nobody is asked, and from `warming` on all is as in `done`.

`crates/schemes/tests/ring/` searches that with the leader, the commands, the stages and the masks that ship, and two proxies: every
interleaving, of two commands of any kind where nothing else is said. 0 → 1 → 0 are the servers that have the slice one after the other.

| searched | states |
|---|---:|
| 0 → 1 → 0 | 340,745 |
| the same, three gets and sets, an eviction | 121,979 |
| the same, three gets and sets, one request given up, which may be executed at any time | 217,099 |
| the same, two gets and sets, a restart of any server, which counts uniques anew | 10,664 |
| 0 → 0: the generation alone is new | 124,480 |
| 0 → 1, withdrawn, and again: three gets and sets | 31,677 |
| 0 → 1 → 2: three of `gets`, `set`, `cas` | 76,213 |
| 0 → 1, the server that has the slice is lost at any time: three gets and sets | 74,621 |

`cargo test -p evenkeel-schemes --test ring -- --nocapture` says these figures, and walks through 4,000 stories of five commands of three proxies
with all of that at random, but restarts (`EVENKEEL_SEED`). `--ignored` searches eight larger scopes, the largest of them 0 → 1 → 0 with an eviction (2,039,861
states), and the loss of a server on that way with one request given up (1,842,838).

It finds what goes wrong if a generation is used again, names have none, masks are left out, nobody is waited for, or another server has a lost
one's slice at once. Two things it shows not to be needed: that all have acknowledged the end of a plan before the next one begins, since
`quiesced` parts the two, and another generation after a plan that was withdrawn, since nobody has been at its place.

One thing is known not to be right, here and in a pool with `warm_from`: a placeholder whose request was given up may arrive in `done`, where writes
do not look for it. Until it ends, an `add` is answered `NOT_STORED` though nothing is there.
";

const SWITCHES: &str = "
## One architecture takes the place of another

The same stages lead from a pool to another one where either, or both, have an item in one of several racks ([locality](locality.md#switching-while-it-serves)). What the former pool is asked, it
executes by its own steps: a fetch is its read, a delete is its delete. What is brought to racks is an add of what is fetched when lock and notes stand. Anyone who stores or deletes here has
deleted at the former pool before, and takes the lock away: so either nothing is fetched, or it is not stored.

`crates/schemes/tests/switch/` searches that with the commands, the racks' steps and the stages that ship, for eight pairs: from plain to Snoop and to Directory, back, and from each of these two to
either. Two racks, commands in any of them:

| searched, two commands, from `former` to `done` | states, all pairs |
|---|---:|
| gets and sets, or gets and deletes, with an eviction | 1,464,051 |
| gets, sets and deletes, one command given up, whose requests may be executed at any time | 446,035 |
| gets, sets and deletes, a restart of any server | 1,439,251 |
| *nothing lost* while it is warming: commands of any kind | 375,440 |

`cargo test -p evenkeel-schemes --test switch -- --nocapture` says these figures; `--ignored` searches larger scopes.

It finds what goes wrong if the former pool is not cleared, or its own rack alone; an item is fetched before the lock stands, or stored whatever took the lock's place; names are used again; `quiesced` or
`closing` is left out, or `closing` does not delete; commands under way are not waited for; two versions stand apart.
";

const COPIES: &str = "
## Copies are read by few transactions

The item at its *home* is the only authority. `k` − 1 other servers may have a copy of it under a name of kind `c`. The value of a copy begins with twelve bytes:
the item's CAS unique at home (eight, the lowest first), and the second of Unix time in which the copy ends (four); the application's value follows.

| what is done | steps |
|---|---|
| a read at home | `mg KEY` |
| a read at a copy | `mg COPY`; a value that has not ended is shown. A mark: `mg KEY` at home. Nothing, or what has ended: the same, and the copy is filled behind the answer |
| a fill | `ms COPY … ME c`: a placeholder, with the unique u. If somebody is there, that is all |
| | `mg KEY` at home |
| | `ms COPY … Cu`: the item, or `md COPY Cu` where nothing was |
| a refresh, behind one in four reads of a copy that has less left than a quarter of the most | `mg COPY c f`: the unique u |
| | `mg KEY` at home |
| | `ms COPY … Cu`. Whatever else is met, the copy stays as it is |
| a write of any kind | the command at home |
| | whatever that has answered, also that nothing was there: `md COPY` on all servers of copies at once |
| | the answer, when all are confirmed. Else an error, and nobody knows whether it was done |

A copy lives as long as the pool says, less up to a tenth by chance, and a second less than its item; an item with two seconds left has none.

What is promised: a read that begins after a write was acknowledged never shows an older value. While a write is not acknowledged, one read may show the new value at
home and a later one still the former value at a copy. Where a delete is not confirmed, a copy may be old until its time is over.

Copies are switched on and off by plans, whose stages are those of a change of servers, and as there two neighbours are right side by side:

| stage | copies are | reads | writes |
|---|---|---|---|
| former | off | at home | at home |
| quiesced | clearing | at home | at home, then copies are deleted |
| warming | on | at home or at copies | at home, then copies are deleted |
| closing | clearing | at home | at home, then copies are deleted |
| done | off | at home | at home |

Nothing waits. The token in the names is new with every plan: while copies are off nobody deletes them, and the old ones are never read again.

`crates/schemes/tests/copies/` searches that on the code that ships, by commands of one key: every interleaving, of three commands of any kind where nothing else is
said. *Switched* is off, clearing, on, clearing, off, clearing, on; else copies are on.

| searched | states |
|---|---:|
| one copy, an eviction | 60,775 |
| one copy, one request given up, which may be executed at any time | 39,553 |
| one copy, a restart of its server, which counts uniques anew | 30,125 |
| one copy, four reads at the copy and sets | 10,334 |
| two copies: reads and refreshes at both, sets and deletes | 47,280 |
| one copy, switched | 215,642 |
| the same, four reads at the copy and sets | 85,158 |
| the same, three of them, an eviction, a restart and one request given up | 106,484 |

`cargo test -p evenkeel-schemes --test copies -- --nocapture` says these figures. `--ignored` searches eight larger scopes, the largest of them four reads, refreshes, sets
and deletes of two copies (2,206,976 states), and four commands of any kind with an eviction (2,107,037).

It finds what goes wrong if a fill or refresh goes without `C`, or on after a restart; home is read before the placeholder stands; a mark is shown; copies are
deleted before the command alone, behind the answer, not all of them, or not where nothing was at home; a delete that is not confirmed counts as one; copies are read
in `clearing`, or either `clearing` is left out; a token is used again; commands under way are not waited for; two versions stand apart. One thing it shows not to
be needed: that fills behind answers are waited for, since names have another token when copies are on again.
";

fn schemes(placement: Placement, replication: Replication) -> impl Iterator<Item = Scheme> {
    Write::ALL.into_iter().flat_map(move |write| {
        Read::ALL.into_iter().map(move |read| Scheme {
            placement,
            replication,
            read,
            write,
        })
    })
}

/// The schemes that work, and which pools have them.
const WORKING: [(Scheme, &str); 8] = [
    (Scheme::LIST, "those of any memcached servers"),
    (Scheme::LIST_WITH_HOT_KEYS, "those with `hot_keys = \"on\"`"),
    (Scheme::LIST_WITH_COPIES, "those with `bundle = \"on\"`"),
    (Scheme::LIST_IN_RACKS, "those with `architecture = \"sdr\"`"),
    (
        Scheme::LIST_WITH_NOTES,
        "those with `architecture = \"snoop\"`",
    ),
    (
        Scheme::LIST_WITH_DIRECTORY,
        "those with `architecture = \"dir\"`",
    ),
    (Scheme::CLUSTER, "those with a `coordinator`"),
    (Scheme::RING, "those with `distribution = \"adaptive\"`"),
];

fn page() -> String {
    let mut page = String::from(HEAD);
    for (scheme, pools) in WORKING {
        let Support::Works(promise) = scheme.support() else {
            panic!("{scheme} is among those that work");
        };
        writeln!(page, "| {scheme} | {pools} | {promise} |").expect("it is a string");
    }
    page.push_str(COMBINATIONS);
    let mut reasons: Vec<&str> = Vec::new();
    let mut works = 0;
    for replication in Replication::ALL {
        for placement in Placement::ALL {
            write!(page, "\n{placement}, {replication}:\n\n| write |").expect("it is a string");
            for read in Read::ALL {
                write!(page, " read {read} |").expect("it is a string");
            }
            page.push_str("\n|---|---|---|---|---|");
            for scheme in schemes(placement, replication) {
                if scheme.read == Read::ALL[0] {
                    write!(page, "\n| {} |", scheme.write).expect("it is a string");
                }
                match scheme.support() {
                    Support::Works(_) => {
                        works += 1;
                        page.push_str(" **works** |");
                    }
                    Support::NotBuilt => page.push_str(" not built |"),
                    Support::Refused(why) => {
                        let known = reasons.iter().position(|reason| *reason == why);
                        let number = known.unwrap_or_else(|| {
                            reasons.push(why);
                            reasons.len() - 1
                        });
                        write!(page, " {} |", number + 1).expect("it is a string");
                    }
                }
            }
            page.push('\n');
        }
    }
    assert_eq!(works, WORKING.len(), "each has a row above");
    page.push('\n');
    for (number, reason) in reasons.iter().enumerate() {
        writeln!(page, "{}. {reason}", number + 1).expect("it is a string");
    }
    page.push_str(NAMES);
    for kind in Kind::ALL {
        let (what, used) = match kind {
            Kind::Replica => ("a replica of a hot key, after its value and flags", "yes"),
            Kind::Generation => (
                "an item of a generation, of a slice of a ring or of a pool",
                "yes",
            ),
            Kind::Hashed => (
                "one of kind `g` or `n` whose key leaves no room: a hash in its place",
                "no",
            ),
            Kind::Copy => (
                "a copy of a bundled item; behind it stands the name of the item",
                "yes",
            ),
            Kind::Note => ("a note in a directory, after its pool's name", "yes"),
        };
        let letter = char::from(kind.letter());
        let row = format!("| `{letter}` | {} | {what} | {used} |", kind.token_len());
        writeln!(page, "{row}").expect("it is a string");
    }
    page.push_str(MARKS);
    page.push_str(SWITCHES);
    page.push_str(COPIES);
    page
}
