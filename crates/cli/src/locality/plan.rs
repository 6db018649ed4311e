//! What a switch does to the file of the proxies, in the order in which that is done.
//!
//! Items that move go from a pool to another one; copies come to items that are where their keys say, and go from there.

use super::document::{Document, Pools, Stand, Wish};
use evenkeel_runtime::UsageError;
use evenkeel_schemes::locality::model::Architecture;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the pool is to be in the end.
    pub architecture: Architecture,
    /// Copies that the pool has now are other ones than it is to have, and are switched off first.
    pub has_other_copies: bool,
    /// Another pool takes its place.
    pub replace: Option<Replace>,
    /// What is to stand in the file in the end, where that is not what stands there behind a replacement.
    pub last: Option<Document>,
    before: Document,
    pool: String,
}

/// A pool takes the place of another.
#[derive(Clone, Debug)]
pub struct Replace {
    /// The two.
    pub pools: Pools,
    /// The file that has both.
    pub during: Document,
    /// The file behind that.
    pub after: Document,
    /// The one that is left has copies, which are switched off when nothing asks for it any more.
    pub leaves_copies: bool,
}

impl Plan {
    /// How a pool gets from how it stands in a file to what is wished.
    ///
    /// # Errors
    /// There is no such pool, or it is on its way to something else.
    pub fn new(document: Document, pool: &str, wish: &Wish) -> Result<Plan, UsageError> {
        let wanted = wish.architecture;
        let (pool, replace) = match document.stand(pool)? {
            Stand::Switches(pools) => {
                let replace = under_way(&document, &pools, wanted)?;
                (pools.to, Some(replace))
            }
            Stand::Rests(pool) if moves(&document, &pool, wish) => {
                let replace = begun(&document, &pool, wish)?;
                (replace.pools.to.clone(), Some(replace))
            }
            Stand::Rests(pool) => (pool, None),
        };
        let said = document.said(&pool, "architecture");
        let is_there = replace.is_none() && said == Some(&wanted.to_string());
        let copies = wish.rack_copies.map(i64::from);
        let has_other_number = copies.is_some() && document.rack_copies(&pool) != copies;
        let is_copied = said == Some(&Architecture::Sdr.to_string());
        let mut end = replace.as_ref().map_or(&document, |it| &it.after).clone();
        let last = match wanted {
            Architecture::Sdr => {
                end.replicate(&pool, wish);
                Some(end)
            }
            _ if replace.is_none() && !is_there => {
                end.relabel(&pool, wanted);
                Some(end)
            }
            _ => None,
        };
        Ok(Plan {
            architecture: wanted,
            has_other_copies: replace.is_none() && is_copied && (!is_there || has_other_number),
            replace,
            last,
            before: document,
            pool,
        })
    }

    /// The pool that serves in the end.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// All that is to stand in the file, one after the other.
    pub fn files(&self) -> Vec<&Document> {
        let replace = self.replace.iter().flat_map(|it| [&it.during, &it.after]);
        replace.chain(&self.last).collect()
    }

    /// What stands in the file in the end.
    pub fn end(&self) -> &Document {
        self.files().pop().unwrap_or(&self.before)
    }
}

/// Whether items are elsewhere in what is wished. Copies are beside them.
fn moves(document: &Document, pool: &str, wish: &Wish) -> bool {
    let said = document.said(pool, "architecture");
    let by_key = [Architecture::Sdc, Architecture::Sds, Architecture::Sdr];
    let is_by_key = said.is_none_or(|said| by_key.iter().any(|it| it.to_string() == said));
    let stays = is_by_key && by_key.contains(&wish.architecture);
    !wish.servers.is_empty() || !stays && said != Some(&wish.architecture.to_string())
}

/// What a pool is switched to first.
fn by_way_of(wanted: Architecture) -> Architecture {
    match wanted {
        Architecture::Sdr => Architecture::Sds,
        other => other,
    }
}

/// Another pool takes the place of this one.
fn begun(document: &Document, from: &str, wish: &Wish) -> Result<Replace, UsageError> {
    let first = Wish {
        architecture: by_way_of(wish.architecture),
        ..wish.clone()
    };
    let mut during = document.clone();
    let pools = during.begin(from, &first)?;
    Ok(replace(during, pools))
}

/// Another pool is about to take the place of one.
fn under_way(
    document: &Document,
    pools: &Pools,
    wanted: Architecture,
) -> Result<Replace, UsageError> {
    let said = document.said(&pools.to, "architecture").unwrap_or("none");
    match said == by_way_of(wanted).to_string() {
        true => Ok(replace(document.clone(), pools.clone())),
        false => Err(UsageError(format!(
            "pool {} is being switched to {said}: go on with that, or evenkeel locality withdraw",
            pools.from
        ))),
    }
}

fn replace(during: Document, pools: Pools) -> Replace {
    let left = during.said(&pools.from, "architecture");
    let leaves_copies = left == Some(&Architecture::Sdr.to_string());
    let mut after = during.clone();
    after.end(&pools);
    Replace {
        pools,
        during,
        after,
        leaves_copies,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::wish;
    use super::*;

    fn document(architecture: Option<Architecture>) -> Document {
        let said = architecture.map(|it| format!("architecture = \"{it}\"\n"));
        let text = format!(
            "[pools.main]\nservers = [\"a\"]\n{}",
            said.unwrap_or_default()
        );
        Document::read(&text).unwrap()
    }

    fn plan(from: Option<Architecture>, to: Architecture) -> Plan {
        Plan::new(document(from), "main", &wish(to)).unwrap()
    }

    #[test]
    fn items_move_where_the_key_alone_does_not_say_where_they_are() {
        use Architecture::{Dir, Sdc, Sdr, Sds, Snoop};
        let froms = [None].into_iter().chain(Architecture::ALL.map(Some));
        for (from, to) in froms.flat_map(|from| Architecture::ALL.map(|to| (from, to))) {
            let plan = plan(from, to);
            let is_held = |it: Architecture| matches!(it, Snoop | Dir);
            let moves = from != Some(to) && (is_held(to) || from.is_some_and(is_held));
            assert_eq!(plan.replace.is_some(), moves, "{from:?} {to}");
            // Copies of a pool whose place is taken go with it.
            let is_left = from == Some(Sdr) && matches!(to, Sdc | Sds);
            assert_eq!(plan.has_other_copies, is_left, "{from:?} {to}");
            let goes_with = plan.replace.as_ref().is_some_and(|it| it.leaves_copies);
            assert_eq!(goes_with, moves && from == Some(Sdr), "{from:?} {to}");
            let (end, pool) = (plan.end(), plan.pool());
            assert_eq!(end.said(pool, "architecture"), Some(&*to.to_string()));
            assert_eq!(pool, if moves { "main-g1" } else { "main" });
            assert_eq!(end.said(pool, "warm_from"), None);
            let led = end.said(pool, "pool_coordinator");
            assert_eq!(led.is_some(), to == Sdr, "{from:?} {to}");
        }
    }

    #[test]
    fn other_copies_and_other_servers_are_a_switch_too() {
        let copied = Wish {
            rack_copies: Some(3),
            ..wish(Architecture::Sdr)
        };
        let more = Plan::new(document(Some(Architecture::Sdr)), "main", &copied).unwrap();
        assert!(more.has_other_copies && more.replace.is_none());
        assert_eq!(more.end().rack_copies("main"), Some(3));
        let elsewhere = Wish {
            servers: vec!["b".into()],
            ..wish(Architecture::Sdc)
        };
        let moved = Plan::new(document(Some(Architecture::Sdc)), "main", &elsewhere).unwrap();
        assert!(moved.replace.is_some());
    }

    #[test]
    fn what_is_under_way_goes_on_and_nothing_else_does() {
        let first = plan(None, Architecture::Sdr);
        assert!(first.replace.is_none());
        let begun = plan(Some(Architecture::Snoop), Architecture::Sdr);
        let during = begun.replace.as_ref().expect("items move").during.clone();
        let again = Plan::new(during.clone(), "main", &wish(Architecture::Sdr)).unwrap();
        assert_eq!(again.end().text(), begun.end().text());
        let other = Plan::new(during, "main", &wish(Architecture::Dir)).unwrap_err();
        assert!(
            other.to_string().contains("is being switched to sds"),
            "{other}"
        );
    }
}
