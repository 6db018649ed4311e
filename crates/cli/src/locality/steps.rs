//! What comes next in a switch, by what stands in the file and what the coordinator says. Nothing else is remembered: a switch that was left
//! goes on from where it is.

use evenkeel_coordinator_core::{BundleView, ChangeView, ProxiesView, ProxyView, Stage};
use evenkeel_schemes::copies::Switch;

/// What is known.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Fingerprint of the file.
    pub digest: &'a str,
    /// Those that the coordinator has heard of.
    pub proxies: &'a ProxiesView,
    /// The change of the pool that takes the other's place.
    pub change: Option<&'a ChangeView>,
    /// How many proxies there are, as the operator says.
    pub wanted: usize,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, for this reason.
    Wait(String),
    /// The coordinator is told to lead the pool to where it is to be.
    Begin,
    /// The coordinator is told to forget the change.
    Forget,
    /// Nothing is left to do until the file is another.
    Over,
}

/// What comes next as long as both pools stand in the file.
pub fn next(seen: &Seen<'_>) -> Next {
    if let Some(wait) = waits_for_file(seen) {
        return Next::Wait(wait);
    }
    let Some(change) = seen.change else {
        return Next::Wait("no proxy follows the pool at this coordinator yet".to_owned());
    };
    let followers = change.proxies.len();
    if followers != seen.wanted {
        return Next::Wait(format!(
            "{followers} of {} proxies follow the pool",
            seen.wanted
        ));
    }
    match change.stage {
        Stage::Done if change.waits_for.is_empty() => Next::Over,
        // It was not begun, or requests waited for too long and it was taken back.
        _ if change.goal < Stage::Done => Next::Begin,
        _ => Next::Wait(format!("{}: {}", change.stage, change.hint)),
    }
}

/// What comes next when one of the pools is out of the file: a proxy that works by that does not follow the other one any more.
pub fn next_behind(change: Option<&ChangeView>) -> Next {
    let Some(change) = change else {
        return Next::Over;
    };
    match change.proxies.first() {
        None => Next::Forget,
        Some(proxy) => Next::Wait(format!(
            "{} proxies do not work by this file yet, {} among them: give it to all of them",
            change.proxies.len(),
            proxy.name
        )),
    }
}

/// What comes next as long as copies of a pool are not as they are to be: on or off. The file says how many there are.
pub fn next_copies(seen: &Seen<'_>, bundle: Option<&BundleView>, to: Switch) -> Next {
    let Some(bundle) = bundle else {
        return match to {
            // Nobody says that there are any.
            Switch::Off => Next::Over,
            _ => Next::Wait("no proxy follows the pool at this coordinator yet".to_owned()),
        };
    };
    if let Some(wait) = waits_for_file(seen) {
        return Next::Wait(wait);
    }
    let change = &bundle.change;
    let says_other = bundle.wishes.iter().find(|wish| !wish.fits);
    let is_there = bundle.switch == to.as_str() && change.waits_for.is_empty();
    let goes = |change: &ChangeView| match change.goal {
        Stage::Quiesced | Stage::Warming => Switch::On,
        Stage::Former | Stage::Closing | Stage::Done => Switch::Off,
    };
    match says_other {
        _ if is_there => Next::Over,
        _ if bundle.switch != to.as_str() && goes(change) == to => {
            Next::Wait(format!("copies are {}: {}", bundle.switch, change.hint))
        }
        Some(wish) if to == Switch::On => Next::Wait(format!(
            "proxy {} says {} in its file",
            wish.proxy, wish.wish
        )),
        _ if change.proxies.len() == seen.wanted && change.waits_for.is_empty() => Next::Begin,
        _ => Next::Wait(change.hint.clone()),
    }
}

/// Who does not work by the file yet, in words.
fn waits_for_file(seen: &Seen<'_>) -> Option<String> {
    let is_right = |proxy: &&ProxyView| proxy.config_hash.as_deref() == Some(seen.digest);
    let (right, wrong): (Vec<&ProxyView>, Vec<&ProxyView>) = seen
        .proxies
        .proxies
        .iter()
        .filter(|it| it.up)
        .partition(is_right);
    if right.len() == seen.wanted {
        return None;
    }
    let others = match wrong.first() {
        Some(proxy) => format!("; {} does not", proxy.name),
        None => String::new(),
    };
    Some(format!(
        "{} of {} proxies work by this file (md5 {}){others}: give it to all of them",
        right.len(),
        seen.wanted,
        seen.digest
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::bundles::BundleWish;
    use evenkeel_coordinator_core::{BundleWishView, FollowerView, ServedView};
    use evenkeel_types::{BootId, Epoch};

    fn proxies(digests: &[&str]) -> ProxiesView {
        let proxy = |(at, digest): (usize, &&str)| ProxyView {
            name: format!("p{at}"),
            host: "h".into(),
            port: 1,
            rack: None,
            boot: BootId(1),
            up: true,
            epoch: Epoch(0),
            requests_per_second: vec![],
            served: ServedView::default(),
            silent_ms: 0,
            config_hash: Some((*digest).to_owned()),
        };
        ProxiesView {
            epoch: Epoch(0),
            proxies: digests.iter().enumerate().map(proxy).collect(),
        }
    }

    fn change(stage: Stage, goal: Stage, followers: usize, behind: usize) -> ChangeView {
        let name = |at| format!("p{at}");
        let proxy = |at| FollowerView {
            name: name(at),
            boot: BootId(1),
            acknowledged: 1,
            silent_ms: 0,
            end_would_show: true,
            gone_after_ms: None,
        };
        ChangeView {
            pool: "main-g1".into(),
            stage,
            goal,
            version: 1,
            since_ms: 0,
            proxies: (0..followers).map(proxy).collect(),
            former_hits_ppm: None,
            ring: None,
            waits_for: (0..behind).map(name).collect(),
            hint: "the hint".into(),
        }
    }

    fn seen<'a>(proxies: &'a ProxiesView, change: Option<&'a ChangeView>) -> Seen<'a> {
        Seen {
            digest: "new",
            proxies,
            change,
            wanted: 2,
        }
    }

    fn said(next: &Next) -> &str {
        match next {
            Next::Wait(said) => said,
            _ => "",
        }
    }

    #[test]
    fn nothing_begins_before_all_have_the_file() {
        let former = change(Stage::Former, Stage::Former, 2, 0);
        for (digests, words) in [
            (
                &["new", "old"][..],
                "1 of 2 proxies work by this file (md5 new); p1 does not",
            ),
            (&["new"], "1 of 2 proxies work by this file (md5 new): give"),
            (&["new", "new", "new"], "3 of 2 proxies"),
        ] {
            let proxies = proxies(digests);
            let next = next(&seen(&proxies, Some(&former)));
            assert!(said(&next).starts_with(words), "{next:?}");
        }
        let all = proxies(&["new", "new", "old"]);
        let mut gone = all.clone();
        gone.proxies[2].up = false;
        assert_eq!(next(&seen(&gone, Some(&former))), Next::Begin);
        assert!(said(&next(&seen(&gone, None))).contains("no proxy follows"));
        let one = change(Stage::Former, Stage::Former, 1, 0);
        assert!(said(&next(&seen(&gone, Some(&one)))).contains("1 of 2 proxies follow"));
    }

    #[test]
    fn the_stages_are_waited_for() {
        let all = proxies(&["new", "new"]);
        let at = |stage, goal, behind| next(&seen(&all, Some(&change(stage, goal, 2, behind))));
        // It was taken back because requests had waited for too long.
        assert_eq!(at(Stage::Former, Stage::Former, 1), Next::Begin);
        assert_eq!(at(Stage::Warming, Stage::Warming, 0), Next::Begin);
        for stage in [
            Stage::Former,
            Stage::Quiesced,
            Stage::Warming,
            Stage::Closing,
        ] {
            assert_eq!(
                said(&at(stage, Stage::Done, 1)),
                format!("{stage}: the hint")
            );
        }
        assert_eq!(said(&at(Stage::Done, Stage::Done, 1)), "done: the hint");
        assert_eq!(at(Stage::Done, Stage::Done, 0), Next::Over);
    }

    #[test]
    fn copies_are_switched_when_all_say_the_same() {
        let all = proxies(&["new", "new"]);
        let wish = |fits| BundleWishView {
            proxy: "p0".into(),
            wish: BundleWish {
                copies: 2,
                servers: 4,
                fingerprint: 1,
            },
            fits,
        };
        let bundle = |switch: &str, goal, behind, fits| BundleView {
            change: change(Stage::Former, goal, 2, behind),
            switch: switch.into(),
            plan: None,
            wishes: vec![wish(fits)],
        };
        let to = |to, bundle: &BundleView| next_copies(&seen(&all, None), Some(bundle), to);
        let off = bundle("off", Stage::Former, 0, true);
        assert_eq!(to(Switch::On, &off), Next::Begin);
        assert_eq!(to(Switch::Off, &off), Next::Over);
        let behind = bundle("off", Stage::Former, 1, true);
        assert_eq!(said(&to(Switch::On, &behind)), "the hint");
        let other = bundle("off", Stage::Former, 0, false);
        assert!(said(&to(Switch::On, &other)).starts_with("proxy p0 says 2 copies"));
        let begun = bundle("clearing", Stage::Warming, 0, true);
        assert_eq!(
            said(&to(Switch::On, &begun)),
            "copies are clearing: the hint"
        );
        assert_eq!(to(Switch::Off, &begun), Next::Begin);
        let on = bundle("on", Stage::Warming, 0, true);
        assert_eq!(to(Switch::On, &on), Next::Over);
        assert_eq!(to(Switch::Off, &on), Next::Begin);
        let none = |to| next_copies(&seen(&all, None), None, to);
        assert_eq!(none(Switch::Off), Next::Over);
        assert!(said(&none(Switch::On)).starts_with("no proxy follows"));
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let followed = change(Stage::Done, Stage::Done, 1, 0);
        let waits = next_behind(Some(&followed));
        assert!(said(&waits).starts_with("1 proxies do not"), "{waits:?}");
        let left = change(Stage::Done, Stage::Done, 0, 0);
        assert_eq!(next_behind(Some(&left)), Next::Forget);
        assert_eq!(next_behind(None), Next::Over);
    }
}
