//! Which servers can give to which, and how a change does not take that away.
//!
//! A server i can give to j where a slice of i that has hashes lies behind one of j. A change may take the last such place:
//! a slice that moves as a whole does. Then i's widest slice is cut in half, and between the halves j gets a slice of no
//! width: j may grow there, nothing moves before it does, and no other pair loses its place. (Such a slice at the
//! border of two others would part those.)

use super::build::Stretch;

/// Who gets, and who gives: the owner of a slice that ends where one with hashes begins, and that one's.
pub(super) type Pair = (u16, u16);

/// All pairs of different servers that are adjacent, ascending, each once. O(s log s).
pub(super) fn pairs(stretches: &[Stretch]) -> Vec<Pair> {
    let Some(last) = stretches.last() else {
        return Vec::new();
    };
    let mut behind = last.owner;
    let mut pairs: Vec<Pair> = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let pair = (
            core::mem::replace(&mut behind, stretch.owner),
            stretch.owner,
        );
        if stretch.width > 0 && pair.0 != pair.1 {
            pairs.push(pair);
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Makes adjacent again what is not; pairs that are to be are in ascending order. One whose giver has no slice of two hashes
/// stays as it is: there is nothing to give. O(s log s), and O(s) for each pair that is restored.
pub(super) fn restore(stretches: &mut Vec<Stretch>, wanted: &[Pair]) {
    let present = pairs(stretches);
    for &(taker, giver) in wanted {
        if present.binary_search(&(taker, giver)).is_ok() || taker == giver {
            continue;
        }
        let of_giver = (0..stretches.len()).filter(|&at| stretches[at].owner == giver);
        let Some(widest) = of_giver.max_by_key(|&at| stretches[at].width) else {
            continue;
        };
        let whole = stretches[widest];
        if whole.width < 2 {
            continue;
        }
        let upper = whole.width / 2;
        stretches[widest].width -= upper;
        let upper = Stretch {
            width: upper,
            ..whole
        };
        stretches.splice(widest + 1..widest + 1, [Stretch::place(taker), upper]);
    }
}
